//! int8 products: sums of four byte products per lane, wrapping.

use super::super::exact::Signs;
use super::super::fma::Operands;
use super::{available, half, load, store};
use crate::hart::Vector;
use std::arch::x86_64::*;
use std::ops::Range;

/// Adds the products of a range of steps to rows of C. False when the host lacks AVX2.
pub(in super::super) fn add_int8(
    operands: &Operands,
    steps: Range<usize>,
    rows: &[u8],
    signs: Signs,
    c: &mut [Vector; 32],
) -> bool {
    if !available() {
        return false;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match (signs.a_unsigned, signs.b_unsigned) {
            (false, false) => add::<false, false>(operands, steps, rows, c),
            (false, true) => add::<false, true>(operands, steps, rows, c),
            (true, false) => add::<true, false>(operands, steps, rows, c),
            (true, true) => add::<true, true>(operands, steps, rows, c),
        }
    }
    true
}

/// The even and the odd bytes of each word, as 16-bit numbers.
#[target_feature(enable = "avx2")]
#[inline]
fn split<const UNSIGNED: bool>(words: __m256i) -> (__m256i, __m256i) {
    if UNSIGNED {
        (_mm256_and_si256(words, _mm256_set1_epi16(0xFF)), _mm256_srli_epi16::<8>(words))
    } else {
        (_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(words)), _mm256_srai_epi16::<8>(words))
    }
}

#[target_feature(enable = "avx2")]
fn add<const A_UNSIGNED: bool, const B_UNSIGNED: bool>(
    operands: &Operands,
    steps: Range<usize>,
    rows: &[u8],
    c: &mut [Vector; 32],
) {
    let zero = _mm256_setzero_si256();
    for column_half in 0..operands.halves() {
        let mut b = [(zero, zero); 16];
        for k in steps.clone() {
            b[k] = split::<B_UNSIGNED>(load(half(&operands.b[k], column_half)));
        }
        let live = super::first_lanes(operands.columns - 8 * column_half);
        for &row in rows {
            let words = &operands.a[usize::from(row)].0;
            let target = &mut c[2 * usize::from(row) + column_half].0;
            let before = load(target);
            let (mut even, mut odd) = (before, zero);
            for k in steps.clone() {
                let a = split::<A_UNSIGNED>(_mm256_set1_epi32(words[k] as i32));
                even = _mm256_add_epi32(even, _mm256_madd_epi16(a.0, b[k].0));
                odd = _mm256_add_epi32(odd, _mm256_madd_epi16(a.1, b[k].1));
            }
            store(target, _mm256_blendv_epi8(before, _mm256_add_epi32(even, odd), live));
        }
    }
}
