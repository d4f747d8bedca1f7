//! Comparisons, minimum and maximum, classification.

use super::{flush, is_nan, is_signalling, Flags, CANONICAL_NAN, FRACTION, INFINITY, QUIET, SIGN};

/// Maps floats to integers of the same order, with -0 below +0.
pub(crate) const fn order(a: u32) -> i32 {
    let a = a as i32;
    a ^ (a >> 31 & 0x7FFF_FFFF)
}

fn pick(a: u32, b: u32, first: impl Fn(i32, i32) -> bool) -> u32 {
    match (is_nan(a), is_nan(b)) {
        (true, true) => CANONICAL_NAN,
        (true, false) => b,
        (false, true) => a,
        (false, false) if first(order(a), order(b)) => a,
        (false, false) => b,
    }
}

fn quiet(a: u32, b: u32, flags: &mut Flags) {
    if is_signalling(a) || is_signalling(b) {
        flags.raise(Flags::NV);
    }
}

/// The smaller; a NaN gives way to the other operand.
pub fn min(a: u32, b: u32, flags: &mut Flags) -> u32 {
    quiet(a, b, flags);
    pick(flush(a, flags), flush(b, flags), |a, b| a < b)
}

/// The larger; a NaN gives way to the other operand.
pub fn max(a: u32, b: u32, flags: &mut Flags) -> u32 {
    quiet(a, b, flags);
    pick(flush(a, flags), flush(b, flags), |a, b| a > b)
}

/// `famomin.ps`: denormals count, a signalling NaN makes the result NaN, no flags.
pub fn atomic_min(a: u32, b: u32) -> u32 {
    if is_signalling(a) || is_signalling(b) {
        return CANONICAL_NAN;
    }
    pick(a, b, |a, b| a < b)
}

/// `famomax.ps`; see [`atomic_min`].
pub fn atomic_max(a: u32, b: u32) -> u32 {
    if is_signalling(a) || is_signalling(b) {
        return CANONICAL_NAN;
    }
    pick(a, b, |a, b| a > b)
}

fn key(a: u32) -> i32 {
    // Both zeros compare equal.
    if a & !SIGN == 0 {
        0
    } else {
        order(a)
    }
}

/// `a == b`; invalid only for signalling NaN.
pub fn eq(a: u32, b: u32, flags: &mut Flags) -> bool {
    quiet(a, b, flags);
    let (a, b) = (flush(a, flags), flush(b, flags));
    !is_nan(a) && !is_nan(b) && key(a) == key(b)
}

fn ordered(a: u32, b: u32, flags: &mut Flags) -> Option<(i32, i32)> {
    let (a, b) = (flush(a, flags), flush(b, flags));
    if is_nan(a) || is_nan(b) {
        flags.raise(Flags::NV);
        return None;
    }
    Some((key(a), key(b)))
}

/// `a < b`; invalid for any NaN.
pub fn lt(a: u32, b: u32, flags: &mut Flags) -> bool {
    ordered(a, b, flags).is_some_and(|(a, b)| a < b)
}

/// `a <= b`; invalid for any NaN.
pub fn le(a: u32, b: u32, flags: &mut Flags) -> bool {
    ordered(a, b, flags).is_some_and(|(a, b)| a <= b)
}

/// The class as a one-hot mask: -inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +inf, sNaN, qNaN.
#[inline(always)]
pub const fn class(a: u32) -> u32 {
    let negative = a & SIGN != 0;
    let bit = match (a & INFINITY, a & FRACTION) {
        (INFINITY, 0) => 7,
        (INFINITY, f) => return if f & QUIET == 0 { 1 << 8 } else { 1 << 9 },
        (0, 0) => 4,
        (0, _) => 5,
        _ => 6,
    };
    1 << if negative { 7 - bit } else { bit }
}
