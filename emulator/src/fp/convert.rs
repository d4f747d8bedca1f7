//! Conversions between floats, integers and halves, and rounding to integral values.

use super::{flush, is_infinite, is_nan, is_signalling, is_zero, parts, round, split, Flags, Lost, Rounding};
use super::{CANONICAL_NAN, INFINITY, SIGN};

/// The half that arithmetic produces for NaN.
const HALF_NAN: u16 = 0x7E00;

/// Rounds a finite, flushed float to an integer magnitude; beyond 2^63 it is only known to be large.
fn integral(a: u32, rm: Rounding) -> (u64, Lost) {
    if is_zero(a) {
        return (0, Lost::Nothing);
    }
    let (sig, exponent) = parts(a);
    if exponent >= 0 {
        // The least exponent that is too large for every integer keeps its 24 bits here.
        return ((sig << exponent.min(39)) as u64, Lost::Nothing);
    }
    let (kept, lost) = split(sig, -exponent as u32);
    let up = rm.increments(a & SIGN != 0, kept & 1 != 0, lost);
    (kept as u64 + up as u64, lost)
}

fn to_integer(a: u32, rm: Rounding, low: i64, high: i64, flags: &mut Flags) -> i64 {
    let a = flush(a, flags);
    if is_nan(a) {
        flags.raise(Flags::NV);
        return high;
    }
    let negative = a & SIGN != 0;
    let (magnitude, lost) = if is_infinite(a) { (1 << 62, Lost::Nothing) } else { integral(a, rm) };
    let value = if negative { -(magnitude as i64) } else { magnitude as i64 };
    if value < low || value > high {
        flags.raise(Flags::NV);
        return value.clamp(low, high);
    }
    if lost != Lost::Nothing {
        flags.raise(Flags::NX);
    }
    value
}

/// Float to signed integer, saturating; NaN gives the largest.
pub fn f32_to_i32(a: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    to_integer(a, rm, i32::MIN as i64, i32::MAX as i64, flags) as u32
}

/// Float to unsigned integer, saturating; NaN gives the largest.
pub fn f32_to_u32(a: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    to_integer(a, rm, 0, u32::MAX as i64, flags) as u32
}

fn from_integer(negative: bool, magnitude: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    if magnitude == 0 {
        0
    } else {
        round(negative, 0, magnitude as u128, rm, flags)
    }
}

/// Signed integer to float.
pub fn i32_to_f32(a: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    let a = a as i32;
    from_integer(a < 0, a.unsigned_abs(), rm, flags)
}

/// Unsigned integer to float.
pub fn u32_to_f32(a: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    from_integer(false, a, rm, flags)
}

/// Half to float, exact; half subnormals become zero.
pub fn f16_to_f32(half: u16, flags: &mut Flags) -> u32 {
    let sign = (half as u32 & 0x8000) << 16;
    let (exponent, fraction) = (half as u32 >> 10 & 31, half as u32 & 0x3FF);
    match (exponent, fraction) {
        (31, 0) => sign | INFINITY,
        (31, _) => {
            if fraction & 0x200 == 0 {
                flags.raise(Flags::NV);
            }
            CANONICAL_NAN
        }
        (0, 0) => sign,
        (0, _) => {
            flags.raise(Flags::ID);
            sign
        }
        _ => sign | (exponent + 112) << 23 | fraction << 13,
    }
}

/// Float to half; results that would be subnormal become zero.
pub fn f32_to_f16(a: u32, rm: Rounding, flags: &mut Flags) -> u16 {
    if is_signalling(a) {
        flags.raise(Flags::NV);
    }
    if is_nan(a) {
        return HALF_NAN;
    }
    let a = flush(a, flags);
    let negative = a & SIGN != 0;
    let sign = (a >> 16 & 0x8000) as u16;
    if is_infinite(a) {
        return sign | 0x7C00;
    }
    if is_zero(a) {
        return sign;
    }
    let (sig, exponent) = parts(a);
    let (mut kept, lost) = split(sig, 13);
    let mut biased = exponent + 13 + 25;
    if rm.increments(negative, kept & 1 != 0, lost) {
        kept += 1;
        if kept >> 11 != 0 {
            kept >>= 1;
            biased += 1;
        }
    }
    if biased <= 0 {
        flags.raise(Flags::UF | Flags::NX);
        return sign;
    }
    if biased >= 31 {
        flags.raise(Flags::OF | Flags::NX);
        let infinite = match rm {
            Rounding::Nearest | Rounding::Away => true,
            Rounding::Zero => false,
            Rounding::Down => negative,
            Rounding::Up => !negative,
        };
        return sign | if infinite { 0x7C00 } else { 0x7BFF };
    }
    if lost != Lost::Nothing {
        flags.raise(Flags::NX);
    }
    sign | (biased as u16) << 10 | kept as u16 & 0x3FF
}

/// To an integral value in float format, keeping the sign of zeros.
pub fn round_to_integral(a: u32, rm: Rounding, flags: &mut Flags) -> u32 {
    if is_signalling(a) {
        flags.raise(Flags::NV);
    }
    if is_nan(a) {
        return CANONICAL_NAN;
    }
    let a = flush(a, flags);
    // From 2^23 on, and for infinities, there is nothing to round.
    if a & !SIGN >= 0x4B00_0000 || is_zero(a) {
        return a;
    }
    let (magnitude, lost) = integral(a, rm);
    if lost != Lost::Nothing {
        flags.raise(Flags::NX);
    }
    a & SIGN | (magnitude as f32).to_bits()
}

/// `a - trunc(a)`, exact, with the sign of `a`.
pub fn fraction(a: u32, flags: &mut Flags) -> u32 {
    if is_signalling(a) {
        flags.raise(Flags::NV);
    }
    if is_nan(a) {
        return CANONICAL_NAN;
    }
    let a = flush(a, flags);
    if a & !SIGN >= 0x4B00_0000 {
        return a & SIGN;
    }
    let value = f32::from_bits(a);
    // Below 2^23 both the truncation and the difference are exact.
    let whole = value as i32 as f32;
    (value - whole).to_bits() & !SIGN | a & SIGN
}
