//! Arithmetic with AVX2 and FMA: as the host does it, unless a lane is unusual.

use std::arch::x86_64::*;

use super::host::Avx2;
use super::{Lanes, Vectors};
use crate::fp::Rounding;

#[inline(always)]
fn floats(lanes: Lanes) -> __m256 {
    // SAFETY: both are 32 bytes without invalid values.
    unsafe { std::mem::transmute(lanes) }
}

#[inline(always)]
fn lanes(floats: __m256) -> Lanes {
    // SAFETY: as in `floats`.
    unsafe { std::mem::transmute(floats) }
}

/// Whether some lane of the operands or of the result is denormal or the smallest normal, or the result is NaN. Then the
/// host's result may differ from the chip's: a denormal may even have been rounded up to the smallest normal.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn unusual<const N: usize>(result: __m256, operands: [__m256; N]) -> bool {
    // SAFETY: the caller vouches for AVX2.
    unsafe {
        let minus_one = _mm256_set1_epi32(-1);
        // Twice the bits, less one, is small as an unsigned number for what we look for, and large for zeros.
        let rank = |x: __m256| {
            let bits = _mm256_castps_si256(x);
            _mm256_add_epi32(_mm256_add_epi32(bits, bits), minus_one)
        };
        let mut least = rank(result);
        for operand in operands {
            least = _mm256_min_epu32(least, rank(operand));
        }
        let limit = _mm256_set1_epi32(0x00FF_FFFF);
        let small = _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_min_epu32(least, limit), least));
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(result, result);
        _mm256_movemask_ps(_mm256_or_ps(small, nan)) != 0
    }
}

macro_rules! arithmetic {
    ($name:ident($($arg:ident),*), $intrinsic:ident) => {
        #[inline(always)]
        fn $name(self, $($arg: Lanes),*) -> Option<Lanes> {
            // SAFETY: `self` proves that the processor has AVX2 and FMA.
            unsafe {
                let result = $intrinsic($(floats($arg)),*);
                if unusual(result, [$(floats($arg)),*]) { None } else { Some(lanes(result)) }
            }
        }
    };
}

/// Minimum and maximum. Where operands compare equal each order of them gives the other one, so that joining the two
/// results bit by bit puts -0 below +0 and changes nothing else. With a NaN the host gives the second operand.
macro_rules! pick {
    ($name:ident, $intrinsic:ident, $join:ident) => {
        #[inline(always)]
        fn $name(self, a: Lanes, b: Lanes) -> Option<Lanes> {
            // SAFETY: `self` proves that the processor has AVX2.
            unsafe {
                let (a, b) = (floats(a), floats(b));
                if unusual(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, b), [a, b]) {
                    return None;
                }
                Some(lanes($join($intrinsic(a, b), $intrinsic(b, a))))
            }
        }
    };
}

impl Vectors for Avx2 {
    #[inline(always)]
    fn avx2(self) -> Option<Avx2> {
        Some(self)
    }

    arithmetic!(add(a, b), _mm256_add_ps);
    arithmetic!(sub(a, b), _mm256_sub_ps);
    arithmetic!(mul(a, b), _mm256_mul_ps);
    arithmetic!(fma(a, b, c), _mm256_fmadd_ps);
    pick!(min, _mm256_min_ps, _mm256_or_ps);
    pick!(max, _mm256_max_ps, _mm256_and_ps);

    #[inline(always)]
    fn to_i32(self, a: Lanes, rm: Rounding) -> Option<Lanes> {
        // SAFETY: `self` proves that the processor has AVX2.
        unsafe {
            let result = match rm {
                Rounding::Nearest => _mm256_cvtps_epi32(floats(a)),
                Rounding::Zero => _mm256_cvttps_epi32(floats(a)),
                _ => return None,
            };
            // What is out of range, or NaN, becomes the smallest integer.
            let smallest = _mm256_cmpeq_epi32(result, _mm256_set1_epi32(i32::MIN));
            if _mm256_movemask_epi8(smallest) != 0 {
                return None;
            }
            Some(lanes(_mm256_castsi256_ps(result)))
        }
    }
}
