//! Single-precision arithmetic as the chip does it, on bit patterns, exact in results and flags (ISA sheet 1.4, 1.5).
//!
//! Input denormals count as zeros of their sign, results that would be denormal become zeros, and NaN results are
//! canonical. All functions here work in integers; the fast paths of `simd` are tested against them.

mod compare;
mod convert;
mod transcendental;

pub(crate) use compare::order;
pub use compare::{atomic_max, atomic_min, class, eq, le, lt, max, min};
pub use convert::{
    f16_to_f32, f32_to_f16, f32_to_i32, f32_to_u32, fraction, i32_to_f32, round_to_integral, u32_to_f32,
};
pub use transcendental::{exp2, log2, recip};
pub(crate) use transcendental::{exp2_finite, log2_finite};

/// The NaN that arithmetic produces.
pub const CANONICAL_NAN: u32 = 0x7FC0_0000;

pub(crate) const SIGN: u32 = 0x8000_0000;
pub(crate) const INFINITY: u32 = 0x7F80_0000;
pub(crate) const SMALLEST_NORMAL: u32 = 0x0080_0000;
const LARGEST: u32 = 0x7F7F_FFFF;
const FRACTION: u32 = 0x007F_FFFF;
const QUIET: u32 = 0x0040_0000;

/// A rounding mode that the chip has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest = 0,
    /// Toward zero.
    Zero = 1,
    /// Toward minus infinity.
    Down = 2,
    /// Toward plus infinity.
    Up = 3,
    /// To nearest, ties away from zero.
    Away = 4,
}

impl Rounding {
    /// The mode of an `rm` field or of frm; `None` for reserved values and for "dynamic".
    pub const fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            0 => Rounding::Nearest,
            1 => Rounding::Zero,
            2 => Rounding::Down,
            3 => Rounding::Up,
            4 => Rounding::Away,
            _ => return None,
        })
    }

    /// Whether the magnitude grows, given the sign, whether the kept part is odd, and how the lost part compares
    /// with half a unit of the kept part (`half` as in [`Ordering`](std::cmp::Ordering) of lost and half).
    fn increments(self, negative: bool, odd: bool, lost: Lost) -> bool {
        match self {
            Rounding::Nearest => lost == Lost::Above || lost == Lost::Half && odd,
            Rounding::Away => lost == Lost::Above || lost == Lost::Half,
            Rounding::Zero => false,
            Rounding::Down => negative && lost != Lost::Nothing,
            Rounding::Up => !negative && lost != Lost::Nothing,
        }
    }
}

/// What rounding drops, compared with half a unit in the last place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Nothing,
    Below,
    Half,
    Above,
}

/// Splits `sig` at bit `shift`: the kept part and what is lost.
fn split(sig: u128, shift: u32) -> (u128, Lost) {
    if shift == 0 {
        return (sig, Lost::Nothing);
    }
    if shift > 127 {
        return (0, if sig == 0 { Lost::Nothing } else { Lost::Below });
    }
    let rest = sig & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let lost = match rest.cmp(&half) {
        _ if rest == 0 => Lost::Nothing,
        std::cmp::Ordering::Less => Lost::Below,
        std::cmp::Ordering::Equal => Lost::Half,
        std::cmp::Ordering::Greater => Lost::Above,
    };
    (sig >> shift, lost)
}

/// Accumulated exception flags, in the bit positions of fcsr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// Inexact.
    pub const NX: u32 = 1;
    /// Underflow.
    pub const UF: u32 = 2;
    /// Overflow.
    pub const OF: u32 = 4;
    /// Division by zero.
    pub const DZ: u32 = 8;
    /// Invalid operation.
    pub const NV: u32 = 16;
    /// An input denormal was taken as zero.
    pub const ID: u32 = 1 << 31;

    /// Raises `bits`.
    #[inline(always)]
    pub fn raise(&mut self, bits: u32) {
        self.0 |= bits;
    }
}

pub(crate) const fn is_nan(a: u32) -> bool {
    a & !SIGN > INFINITY
}

const fn is_signalling(a: u32) -> bool {
    is_nan(a) && a & QUIET == 0
}

const fn is_infinite(a: u32) -> bool {
    a & !SIGN == INFINITY
}

const fn is_zero(a: u32) -> bool {
    a & !SIGN == 0
}

/// `a` with a denormal replaced by the zero of its sign.
fn flush(a: u32, flags: &mut Flags) -> u32 {
    if a & INFINITY == 0 && a & FRACTION != 0 {
        flags.raise(Flags::ID);
        a & SIGN
    } else {
        a
    }
}

/// Significand with the hidden bit, and the exponent of its last bit, of a normal number.
fn parts(a: u32) -> (u128, i32) {
    ((a & FRACTION | SMALLEST_NORMAL) as u128, (a >> 23 & 0xFF) as i32 - 150)
}

/// Rounds `sig * 2^exponent` (`sig` not 0) to a float. "Tiny" is decided after rounding with unbounded exponent.
fn round(negative: bool, exponent: i32, sig: u128, rm: Rounding, flags: &mut Flags) -> u32 {
    let sign = if negative { SIGN } else { 0 };
    let width = 128 - sig.leading_zeros() as i32;
    let (mut kept, lost) =
        if width > 24 { split(sig, (width - 24) as u32) } else { (sig << (24 - width), Lost::Nothing) };
    let mut exponent = exponent + width - 24;
    if rm.increments(negative, kept & 1 != 0, lost) {
        kept += 1;
        if kept >> 24 != 0 {
            kept >>= 1;
            exponent += 1;
        }
    }
    let biased = exponent + 150;
    if biased <= 0 {
        flags.raise(Flags::UF | Flags::NX);
        return sign;
    }
    if biased >= 255 {
        flags.raise(Flags::OF | Flags::NX);
        let infinite = match rm {
            Rounding::Nearest | Rounding::Away => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        return sign | if infinite { INFINITY } else { LARGEST };
    }
    if lost != Lost::Nothing {
        flags.raise(Flags::NX);
    }
    sign | (biased as u32) << 23 | kept as u32 & FRACTION
}

/// The zero that an exact sum of zero has: of `a`'s sign if both terms have it, else by rounding mode.
fn zero_sum(a: u32, b: u32, rm: Rounding) -> u32 {
    if (a ^ b) & SIGN == 0 {
        a & SIGN
    } else if rm == Rounding::Down {
        SIGN
    } else {
        0
    }
}

/// `a * b + c` with one rounding.
pub fn fma(a: u32, b: u32, c: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    let (a, b, c) = (flush(a, flags), flush(b, flags), flush(c, flags));
    let product_sign = (a ^ b) & SIGN;
    if is_signalling(a) || is_signalling(b) || is_signalling(c) {
        flags.raise(Flags::NV);
    }
    if is_infinite(a) && is_zero(b) || is_zero(a) && is_infinite(b) {
        flags.raise(Flags::NV);
        return CANONICAL_NAN;
    }
    if is_nan(a) || is_nan(b) || is_nan(c) {
        return CANONICAL_NAN;
    }
    if is_infinite(a) || is_infinite(b) {
        if is_infinite(c) && (c & SIGN) != product_sign {
            flags.raise(Flags::NV);
            return CANONICAL_NAN;
        }
        return product_sign | INFINITY;
    }
    if is_infinite(c) {
        return c;
    }
    if is_zero(a) || is_zero(b) {
        return if is_zero(c) { zero_sum(product_sign, c, rm) } else { c };
    }
    let ((sa, ea), (sb, eb)) = (parts(a), parts(b));
    let (product, exponent) = (sa * sb, ea + eb);
    if is_zero(c) {
        return round(product_sign != 0, exponent, product, rm, flags);
    }
    let (addend, addend_exponent) = parts(c);
    let (negative, low, sum) = if exponent >= addend_exponent {
        sum(product, exponent, product_sign != 0, addend, addend_exponent, c & SIGN != 0)
    } else {
        sum(addend, addend_exponent, c & SIGN != 0, product, exponent, product_sign != 0)
    };
    if sum == 0 {
        return zero_sum(product_sign, c, rm);
    }
    round(negative, low, sum, rm, flags)
}

/// Sum of two magnitudes below 2^48 with signs, the first with the larger exponent: sign, exponent and magnitude, the
/// last bit of which stands for anything lost below it.
fn sum(high: u128, high_exp: i32, high_neg: bool, low: u128, low_exp: i32, low_neg: bool) -> (bool, i32, u128) {
    // 70 bits of room leave the lost part of `low` far below the rounding position.
    const ROOM: i32 = 70;
    let distance = high_exp - low_exp;
    let up = distance.min(ROOM);
    let (kept, lost) = split(low, (distance - up) as u32);
    let high = (high << up) as i128;
    let low = (kept | (lost != Lost::Nothing) as u128) as i128;
    let total = if high_neg == low_neg { high + low } else { high - low };
    ((total < 0) != high_neg, high_exp - up, total.unsigned_abs())
}

/// `a + b`.
pub fn add(a: u32, b: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    fma(a, 1f32.to_bits(), b, rm, flags)
}

/// `a - b`.
pub fn sub(a: u32, b: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    add(a, b ^ SIGN, rm, flags)
}

/// `a * b - c` with one rounding.
pub fn fms(a: u32, b: u32, c: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    fma(a, b, c ^ SIGN, rm, flags)
}

/// `-(a * b) + c` with one rounding.
pub fn fnms(a: u32, b: u32, c: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    fma(a ^ SIGN, b, c, rm, flags)
}

/// `-(a * b) - c` with one rounding.
pub fn fnma(a: u32, b: u32, c: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    fma(a ^ SIGN, b, c ^ SIGN, rm, flags)
}

/// `a` with the sign of `b`.
#[inline(always)]
pub const fn sgnj(a: u32, b: u32) -> u32 {
    a & !SIGN | b & SIGN
}

/// `a` with the inverted sign of `b`.
#[inline(always)]
pub const fn sgnjn(a: u32, b: u32) -> u32 {
    a & !SIGN | !b & SIGN
}

/// `a` with the product of the signs.
#[inline(always)]
pub const fn sgnjx(a: u32, b: u32) -> u32 {
    a ^ b & SIGN
}

/// `a * b`.
pub fn mul(a: u32, b: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    // A zero addend of the product's sign keeps the product, and its sign if it is zero.
    fma(a, b, (a ^ b) & SIGN, rm, flags)
}

#[cfg(test)]
mod tests;
