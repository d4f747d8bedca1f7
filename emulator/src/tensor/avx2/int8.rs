//! int8 products: sums of four byte products per lane, wrapping.

use super::super::exact::Signs;
use super::super::fma::Operands;
use super::super::Line;
use super::{available, first_lanes, half, half_mut, load, store};
use crate::hart::Vector;
use std::arch::x86_64::*;

/// Adds the products of `rows` to `ten_c`. With a target, the last step's sums go there, and `ten_c` keeps those before it.
/// False, with nothing changed, when the host lacks AVX2.
pub(in super::super) fn multiply(
    operands: &Operands<'_>,
    rows: &[u8],
    signs: Signs,
    ten_c: &mut [Vector; 32],
    target: Option<&mut [Vector; 32]>,
) -> bool {
    if !available() {
        return false;
    }
    // SAFETY: AVX2 is there.
    unsafe {
        match (signs.a_unsigned, signs.b_unsigned) {
            (false, false) => all_rows::<false, false>(operands, rows, ten_c, target),
            (false, true) => all_rows::<false, true>(operands, rows, ten_c, target),
            (true, false) => all_rows::<true, false>(operands, rows, ten_c, target),
            (true, true) => all_rows::<true, true>(operands, rows, ten_c, target),
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
fn all_rows<const A_UNSIGNED: bool, const B_UNSIGNED: bool>(
    operands: &Operands<'_>,
    rows: &[u8],
    ten_c: &mut [Vector; 32],
    mut target: Option<&mut [Vector; 32]>,
) {
    for block in rows.chunks(4) {
        let target = target.as_deref_mut();
        match *block {
            [r0, r1, r2, r3] => some_rows::<4, A_UNSIGNED, B_UNSIGNED>(operands, [r0, r1, r2, r3], ten_c, target),
            [r0, r1, r2] => some_rows::<3, A_UNSIGNED, B_UNSIGNED>(operands, [r0, r1, r2], ten_c, target),
            [r0, r1] => some_rows::<2, A_UNSIGNED, B_UNSIGNED>(operands, [r0, r1], ten_c, target),
            [r0] => some_rows::<1, A_UNSIGNED, B_UNSIGNED>(operands, [r0], ten_c, target),
            _ => {}
        }
    }
}

#[target_feature(enable = "avx2")]
fn some_rows<const R: usize, const A_UNSIGNED: bool, const B_UNSIGNED: bool>(
    operands: &Operands<'_>,
    rows: [u8; R],
    ten_c: &mut [Vector; 32],
    target: Option<&mut [Vector; 32]>,
) {
    let rows = rows.map(usize::from);
    let mut a = [[Line::default(); 2]; R];
    for r in 0..R {
        for part in 0..operands.depth.div_ceil(8) {
            let (even, odd) = split::<A_UNSIGNED>(load(half(operands.a[rows[r]], part)));
            store(half_mut(&mut a[r][0], part), even);
            store(half_mut(&mut a[r][1], part), odd);
        }
    }
    let mut sums = [[_mm256_setzero_si256(); 2]; R];
    if !operands.first {
        for r in 0..R {
            for part in 0..2 {
                sums[r][part] = load(&ten_c[2 * rows[r] + part].0);
            }
        }
    }
    let last = operands.depth - usize::from(target.is_some());
    for k in 0..last {
        step::<R, B_UNSIGNED>(operands.b[k], k, &a, &mut sums);
    }
    // With a depth of 1 the only step goes to the target, and TenC is not written at all.
    if last > 0 {
        put(operands.columns, &rows, &sums, ten_c);
    }
    if let Some(target) = target {
        step::<R, B_UNSIGNED>(operands.b[last], last, &a, &mut sums);
        put(operands.columns, &rows, &sums, target);
    }
}

/// Adds step `k` to the sums.
#[target_feature(enable = "avx2")]
#[inline]
fn step<const R: usize, const B_UNSIGNED: bool>(b: &Line, k: usize, a: &[[Line; 2]; R], sums: &mut [[__m256i; 2]; R]) {
    let b = [split::<B_UNSIGNED>(load(half(b, 0))), split::<B_UNSIGNED>(load(half(b, 1)))];
    for r in 0..R {
        let even = _mm256_set1_epi32(a[r][0].0[k] as i32);
        let odd = _mm256_set1_epi32(a[r][1].0[k] as i32);
        for part in 0..2 {
            let products = _mm256_add_epi32(_mm256_madd_epi16(even, b[part].0), _mm256_madd_epi16(odd, b[part].1));
            sums[r][part] = _mm256_add_epi32(sums[r][part], products);
        }
    }
}

/// Writes the columns in use.
#[target_feature(enable = "avx2")]
#[inline]
fn put<const R: usize>(columns: usize, rows: &[usize; R], sums: &[[__m256i; 2]; R], c: &mut [Vector; 32]) {
    for r in 0..R {
        for part in 0..columns.div_ceil(8) {
            let target = &mut c[2 * rows[r] + part].0;
            let live = first_lanes(columns - 8 * part);
            store(target, _mm256_blendv_epi8(load(target), sums[r][part], live));
        }
    }
}
