//! Reciprocal, 2^x and log2 x (ISA sheet 2.3).
//!
//! The chip interpolates tables; we round the true value correctly instead, which is within the sheet's tolerance.
//! The double-precision steps are fixed in order and use no fused operations, so that every build of the emulator
//! gives the same bits.

use super::{flush, is_nan, is_signalling, Flags, CANONICAL_NAN, INFINITY, SIGN, SMALLEST_NORMAL};

fn quiet_nan(a: u32, flags: &mut Flags) -> u32 {
    if is_signalling(a) {
        flags.raise(Flags::NV);
    }
    CANONICAL_NAN
}

/// `1 / a`.
pub fn recip(a: u32, flags: &mut Flags) -> u32 {
    if is_nan(a) {
        return quiet_nan(a, flags);
    }
    let a = flush(a, flags);
    if a & !SIGN == 0 {
        flags.raise(Flags::DZ);
    }
    let result = (1.0 / f32::from_bits(a)).to_bits();
    if result & INFINITY == 0 {
        a & SIGN
    } else {
        result
    }
}

/// `2^a`.
pub fn exp2(a: u32, flags: &mut Flags) -> u32 {
    if is_nan(a) {
        return quiet_nan(a, flags);
    }
    exp2_finite(flush(a, flags))
}

/// `log2 a`.
pub fn log2(a: u32, flags: &mut Flags) -> u32 {
    if is_nan(a) {
        return quiet_nan(a, flags);
    }
    let a = flush(a, flags);
    if a & SIGN != 0 && a != SIGN {
        flags.raise(Flags::NV);
    }
    log2_finite(a)
}

/// The sum of `c[k] * x^k`, in pairs of pairs: a shorter chain of dependent operations than Horner's.
#[inline(always)]
fn polynomial(c: &[f64; 13], x: f64) -> f64 {
    let (x2, x4) = (x * x, (x * x) * (x * x));
    let four = |k: usize| (c[k] + c[k + 1] * x) + (c[k + 2] + c[k + 3] * x) * x2;
    (four(0) + four(4) * x4) + (four(8) + c[12] * x4) * (x4 * x4)
}

/// `2^a` for flushed `a` that is not NaN.
#[inline(always)]
pub(crate) fn exp2_finite(a: u32) -> u32 {
    // Taylor coefficients ln(2)^k / k!; the argument is at most 1/2, so the remainder is below 2^-58.
    const C: [f64; 13] = {
        let mut c = [1.0; 13];
        let mut k = 1;
        while k < 13 {
            c[k] = c[k - 1] * std::f64::consts::LN_2 / k as f64;
            k += 1;
        }
        c
    };
    let x = f32::from_bits(a) as f64;
    let clamped = if x > 128.0 { 128.0 } else { x };
    let clamped = if clamped < -127.0 { -127.0 } else { clamped };
    // Adding and subtracting 3 * 2^51 rounds to the nearest integer, which then stands in the low bits.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    let shifted = clamped + MAGIC;
    let r = clamped - (shifted - MAGIC);
    let p = polynomial(&C, r);
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    let result = ((p * scale) as f32).to_bits();
    if x < -126.0 {
        0
    } else {
        result
    }
}

/// `log2 a` for flushed `a` that is not NaN.
#[inline(always)]
pub(crate) fn log2_finite(a: u32) -> u32 {
    // a = m * 2^e with m in [sqrt(1/2), sqrt(2)); log2 m = 2 / ln 2 * atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
    const SQRT_HALF: u32 = 0x3F35_04F3;
    let offset = a.wrapping_sub(SQRT_HALF);
    let e = (offset as i32 >> 23) as f64;
    let m = f32::from_bits((offset & 0x007F_FFFF).wrapping_add(SQRT_HALF)) as f64;
    let s = (m - 1.0) / (m + 1.0);
    // atanh(s) / s = 1 + s^2 / 3 + s^4 / 5 + ...
    const C: [f64; 13] = {
        let mut c = [0.0; 13];
        let mut k = 0;
        while k < 12 {
            c[k] = 1.0 / (2 * k + 1) as f64;
            k += 1;
        }
        c
    };
    let p = polynomial(&C, s * s);
    let result = ((e + p * s * (2.0 / std::f64::consts::LN_2)) as f32).to_bits();
    let result = if a < SMALLEST_NORMAL || a == SIGN { SIGN | INFINITY } else { result };
    let result = if a == INFINITY { INFINITY } else { result };
    if a > SIGN {
        CANONICAL_NAN
    } else {
        result
    }
}
