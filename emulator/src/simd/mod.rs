//! Whole-vector arithmetic for the common case: round to nearest, flags not wanted.
//!
//! Everything is written as loops over lanes without branches. The executor is compiled twice, once for any host and
//! once with AVX2 and FMA switched on, where the compiler turns these loops into vector code; which copy runs is
//! decided at run time. The host's floating-point control register is never touched here: denormals and NaN are masked, or
//! found and treated apart.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod host;

#[cfg(target_arch = "x86_64")]
pub use host::Avx2;
pub use host::Host;
use host::Portable;
pub(crate) use host::Task;

use crate::fp::{self, Flags, Rounding, CANONICAL_NAN, INFINITY, SIGN, SMALLEST_NORMAL};

/// The lanes of a vector register.
pub(crate) type Lanes = [u32; 8];

/// Applies an expression lane by lane. A macro, not a function over closures: everything in it must end up inside the
/// copy of the executor that calls it.
macro_rules! each {
    (|$($lane:ident),*| $result:expr) => {{
        let mut r = [0u32; 8];
        for e in 0..8 {
            $(let $lane: u32 = $lane[e];)*
            r[e] = $result;
        }
        r
    }};
}
pub(crate) use each;

/// `new` where `mask` has a bit, `old` elsewhere.
#[inline(always)]
pub(crate) fn blend(mask: u8, old: Lanes, new: Lanes) -> Lanes {
    let bit: Lanes = std::array::from_fn(|e| 1 << e);
    each!(|old, new, bit| if mask as u32 & bit != 0 { new } else { old })
}

/// All ones if true.
#[inline(always)]
pub(crate) fn mask(condition: bool) -> u32 {
    (condition as u32).wrapping_neg()
}

/// A denormal becomes the zero of its sign.
#[inline(always)]
fn flush(a: u32) -> u32 {
    if a & INFINITY == 0 {
        a & SIGN
    } else {
        a
    }
}

#[inline(always)]
fn float(a: u32) -> f32 {
    f32::from_bits(flush(a))
}

/// `r`, or NaN if `a` is NaN.
#[inline(always)]
fn unless_nan(a: u32, r: u32) -> u32 {
    if fp::is_nan(a) {
        CANONICAL_NAN
    } else {
        r
    }
}

/// Canonical NaN, no denormals.
#[inline(always)]
fn finish(r: f32) -> u32 {
    let r = r.to_bits();
    unless_nan(r, flush(r))
}

/// The arithmetic that matters most, as each kind of host does it best. `None` where it takes the care of
/// [`careful`].
pub(crate) trait Vectors: Copy {
    /// Proof that the host has AVX2, if this is it.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn avx2(self) -> Option<Avx2> {
        None
    }

    /// `a + b`.
    fn add(self, a: Lanes, b: Lanes) -> Option<Lanes>;
    /// `a - b`.
    fn sub(self, a: Lanes, b: Lanes) -> Option<Lanes>;
    /// `a * b`.
    fn mul(self, a: Lanes, b: Lanes) -> Option<Lanes>;
    /// `a * b + c` with one rounding.
    fn fma(self, a: Lanes, b: Lanes, c: Lanes) -> Option<Lanes>;

    /// The smaller.
    fn min(self, a: Lanes, b: Lanes) -> Option<Lanes>;
    /// The larger.
    fn max(self, a: Lanes, b: Lanes) -> Option<Lanes>;
    /// To signed integers, to nearest or toward zero.
    fn to_i32(self, a: Lanes, rm: Rounding) -> Option<Lanes>;

    /// `a * b - c`.
    #[inline(always)]
    fn fms(self, a: Lanes, b: Lanes, c: Lanes) -> Option<Lanes> {
        self.fma(a, b, negate(c))
    }

    /// `-(a * b) + c`.
    #[inline(always)]
    fn fnms(self, a: Lanes, b: Lanes, c: Lanes) -> Option<Lanes> {
        self.fma(negate(a), b, c)
    }

    /// `-(a * b) - c`.
    #[inline(always)]
    fn fnma(self, a: Lanes, b: Lanes, c: Lanes) -> Option<Lanes> {
        self.fma(negate(a), b, negate(c))
    }
}

impl Vectors for Portable {
    #[inline(always)]
    fn add(self, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn sub(self, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn mul(self, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn fma(self, _: Lanes, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn min(self, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn max(self, _: Lanes, _: Lanes) -> Option<Lanes> {
        None
    }

    #[inline(always)]
    fn to_i32(self, _: Lanes, _: Rounding) -> Option<Lanes> {
        None
    }
}

/// Arithmetic with every case considered, in plain loops.
pub(crate) mod careful {
    use super::*;

    /// `a + b`. The host's sums are exact where they are denormal.
    pub(crate) fn add(a: Lanes, b: Lanes) -> Lanes {
        each!(|a, b| finish(float(a) + float(b)))
    }

    /// `a - b`.
    pub(crate) fn sub(a: Lanes, b: Lanes) -> Lanes {
        each!(|a, b| finish(float(a) - float(b)))
    }

    /// `a * b`. The host may have rounded a denormal up to the smallest normal.
    pub(crate) fn mul(a: Lanes, b: Lanes) -> Lanes {
        each!(|a, b| match finish(float(a) * float(b)) {
            r if r & !SIGN == SMALLEST_NORMAL => fp::mul(a, b, Rounding::Nearest, &mut Flags::default()),
            r => r,
        })
    }

    /// `a * b + c`.
    pub(crate) fn fma(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        each!(|a, b, c| match finish(float(a).mul_add(float(b), float(c))) {
            r if r & !SIGN == SMALLEST_NORMAL => fp::fma(a, b, c, Rounding::Nearest, &mut Flags::default()),
            r => r,
        })
    }

    /// The smaller.
    pub(crate) fn min(a: Lanes, b: Lanes) -> Lanes {
        each!(|a, b| pick(flush(a), flush(b), fp::order(flush(a)) < fp::order(flush(b))))
    }

    /// The larger.
    pub(crate) fn max(a: Lanes, b: Lanes) -> Lanes {
        each!(|a, b| pick(flush(a), flush(b), fp::order(flush(a)) > fp::order(flush(b))))
    }

    /// `a * b - c`.
    pub(crate) fn fms(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        fma(a, b, negate(c))
    }

    /// `-(a * b) + c`.
    pub(crate) fn fnms(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        fma(negate(a), b, c)
    }

    /// `-(a * b) - c`.
    pub(crate) fn fnma(a: Lanes, b: Lanes, c: Lanes) -> Lanes {
        fma(negate(a), b, negate(c))
    }
}

#[inline(always)]
fn negate(a: Lanes) -> Lanes {
    each!(|a| a ^ SIGN)
}

/// One of two floats; a NaN gives way.
#[inline(always)]
fn pick(a: u32, b: u32, first: bool) -> u32 {
    let r = if first { a } else { b };
    let r = if fp::is_nan(b) { a } else { r };
    let r = if fp::is_nan(a) { b } else { r };
    unless_nan(r, r)
}

/// `a == b`, as all ones or 0.
#[inline(always)]
pub(crate) fn eq(a: Lanes, b: Lanes) -> Lanes {
    each!(|a, b| mask(float(a) == float(b)))
}

/// `a < b`.
#[inline(always)]
pub(crate) fn lt(a: Lanes, b: Lanes) -> Lanes {
    each!(|a, b| mask(float(a) < float(b)))
}

/// `a <= b`.
#[inline(always)]
pub(crate) fn le(a: Lanes, b: Lanes) -> Lanes {
    each!(|a, b| mask(float(a) <= float(b)))
}

#[inline(always)]
fn integral(a: f32, rm: Rounding) -> f32 {
    match rm {
        Rounding::Nearest => a.round_ties_even(),
        Rounding::Zero => a.trunc(),
        Rounding::Down => a.floor(),
        Rounding::Up => a.ceil(),
        Rounding::Away => a.round(),
    }
}

/// To an integral value in float format. Zeros keep their sign also where the host's function would lose it.
#[inline(always)]
pub(crate) fn round(a: Lanes, rm: Rounding) -> Lanes {
    each!(|a| unless_nan(a, a & SIGN | integral(float(a), rm).to_bits() & !SIGN))
}

/// To a signed integer, saturating, NaN to the largest.
#[inline(always)]
pub(crate) fn to_i32(a: Lanes, rm: Rounding) -> Lanes {
    each!(|a| {
        let r = integral(float(a), rm) as i32 as u32;
        if fp::is_nan(a) {
            i32::MAX as u32
        } else {
            r
        }
    })
}

/// To an unsigned integer, saturating, NaN to the largest.
#[inline(always)]
pub(crate) fn to_u32(a: Lanes, rm: Rounding) -> Lanes {
    each!(|a| {
        let r = integral(float(a), rm) as u32;
        if fp::is_nan(a) {
            u32::MAX
        } else {
            r
        }
    })
}

/// Signed integers to floats.
#[inline(always)]
pub(crate) fn from_i32(a: Lanes) -> Lanes {
    each!(|a| (a as i32 as f32).to_bits())
}

/// Unsigned integers to floats.
#[inline(always)]
pub(crate) fn from_u32(a: Lanes) -> Lanes {
    each!(|a| (a as f32).to_bits())
}

/// The low halves, half-precision numbers, to floats.
#[inline(always)]
pub(crate) fn from_f16(a: Lanes) -> Lanes {
    each!(|a| {
        let magnitude = a & 0x7FFF;
        let normal = (magnitude << 13) + (112 << 23);
        let r = if magnitude < 0x400 { 0 } else { normal };
        let r = if magnitude >= 0x7C00 { INFINITY } else { r };
        let r = r | (a & 0x8000) << 16;
        if magnitude > 0x7C00 {
            CANONICAL_NAN
        } else {
            r
        }
    })
}

/// To half precision, in the low halves.
#[inline(always)]
pub(crate) fn to_f16(a: Lanes) -> Lanes {
    each!(|a| {
        let magnitude = a & !SIGN;
        let rounded = (magnitude + 0xFFF + (magnitude >> 13 & 1)) >> 13;
        let r = rounded.wrapping_sub(112 << 10);
        // Below 2^-14 after rounding is zero, from 2^16 on infinity.
        let r = if rounded < 113 << 10 { 0 } else { r };
        let r = if rounded >= (112 + 31) << 10 { 0x7C00 } else { r };
        let r = r | a >> 16 & 0x8000;
        if magnitude > INFINITY {
            0x7E00
        } else {
            r
        }
    })
}

/// `1 / a`. A quotient never rounds up to the smallest normal.
#[inline(always)]
pub(crate) fn recip(a: Lanes) -> Lanes {
    each!(|a| finish(1.0 / float(a)))
}

/// `2^a`.
#[inline(always)]
pub(crate) fn exp2(a: Lanes) -> Lanes {
    each!(|a| unless_nan(a, fp::exp2_finite(flush(a))))
}

/// `log2 a`.
#[inline(always)]
pub(crate) fn log2(a: Lanes) -> Lanes {
    each!(|a| unless_nan(a, fp::log2_finite(flush(a))))
}

/// `a - trunc(a)` with the sign of `a`.
#[inline(always)]
pub(crate) fn fraction(a: Lanes) -> Lanes {
    each!(|a| {
        let r = (float(a) - float(a).trunc()).to_bits() & !SIGN;
        let r = if a & !SIGN == INFINITY { 0 } else { r };
        unless_nan(a, r | a & SIGN)
    })
}

#[cfg(test)]
mod tests;
