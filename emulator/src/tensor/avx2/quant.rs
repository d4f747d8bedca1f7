//! The conversions of tensor_quant that end a quantised product: i32 to f32, and scaling by rows or columns.

use super::{any, available, half, load, store};
use crate::fp::{INFINITY, SIGN, SMALLEST_NORMAL};
use crate::hart::Vector;
use crate::simd::careful;
use crate::tensor::Line;
use std::arch::x86_64::*;

/// Transform 1, 6 or 7 on whole registers, two to a row from `first` on; `halves` of each row count. Rounds to nearest and
/// raises no flags. False when the host lacks AVX2.
pub(in super::super) fn quantise(
    code: u64,
    f: &mut [Vector; 32],
    first: usize,
    rows: usize,
    halves: usize,
    factors: &Line,
) -> bool {
    // SAFETY: AVX2 is there.
    available() && unsafe { quantise_avx2(code, f, first, rows, halves, factors) }
}

#[target_feature(enable = "avx2")]
fn quantise_avx2(code: u64, f: &mut [Vector; 32], first: usize, rows: usize, halves: usize, factors: &Line) -> bool {
    for row in 0..rows {
        for part in 0..halves {
            let lanes = &mut f[(first + 2 * row + part) % 32].0;
            let factor = match code {
                1 => {
                    let converted = _mm256_cvtepi32_ps(load(lanes));
                    store(lanes, _mm256_castps_si256(converted));
                    continue;
                }
                6 => load(half(factors, part)),
                7 => _mm256_set1_epi32(factors.0[row] as i32),
                _ => return false,
            };
            multiply(lanes, factor);
        }
    }
    true
}

/// Transforms 1 and 7 in one: rows of 16 columns, two registers each, from i32 to f32, row i then times word i of `factors`.
/// False, with nothing changed, when the host lacks AVX2.
pub(in super::super) fn scale_rows(rows: &mut [Vector], factors: &Line) -> bool {
    if !available() {
        return false;
    }
    // SAFETY: AVX2 is there.
    unsafe { scale_rows_avx2(rows, factors) };
    true
}

#[target_feature(enable = "avx2")]
fn scale_rows_avx2(rows: &mut [Vector], factors: &Line) {
    for (row, &factor) in rows.chunks_exact_mut(2).zip(&factors.0) {
        let [first, second] = row else { continue };
        let convert = |lanes: &[u32; 8]| _mm256_cvtepi32_ps(load(lanes));
        let (a, b) = (convert(&first.0), convert(&second.0));
        let times = _mm256_set1_ps(f32::from_bits(factor));
        let products = [_mm256_mul_ps(a, times), _mm256_mul_ps(b, times)].map(|p| _mm256_castps_si256(p));
        // What was an integer is usual. The smallest normal may have been rounded up to.
        let usual = matches!(factor & !SIGN, 0 | SMALLEST_NORMAL..INFINITY);
        if usual && !any(_mm256_or_si256(up_to(products[0], SMALLEST_NORMAL), up_to(products[1], SMALLEST_NORMAL))) {
            store(&mut first.0, products[0]);
            store(&mut second.0, products[1]);
        } else {
            let factor = _mm256_set1_epi32(factor as i32);
            for (lanes, value) in [(&mut first.0, a), (&mut second.0, b)] {
                store(lanes, _mm256_castps_si256(value));
                multiply(lanes, factor);
            }
        }
    }
}

/// Scales eight lanes. Denormals and what is not finite go the careful way.
#[target_feature(enable = "avx2")]
#[inline]
fn multiply(lanes: &mut [u32; 8], factor: __m256i) {
    let value = load(lanes);
    let product = _mm256_mul_ps(_mm256_castsi256_ps(value), _mm256_castsi256_ps(factor));
    let product = _mm256_castps_si256(product);
    // The smallest normal may have been rounded up to.
    let unusual = _mm256_or_si256(denormal_or_not_finite(value), denormal_or_not_finite(factor));
    if any(_mm256_or_si256(unusual, up_to(product, SMALLEST_NORMAL))) {
        let mut factors = [0; 8];
        store(&mut factors, factor);
        *lanes = careful::mul(*lanes, factors);
    } else {
        store(lanes, product);
    }
}

/// Lanes whose magnitude is above 0 and at most `limit`.
#[target_feature(enable = "avx2")]
#[inline]
fn up_to(value: __m256i, limit: u32) -> __m256i {
    let size = _mm256_and_si256(value, _mm256_set1_epi32(!SIGN as i32));
    let below = _mm256_sub_epi32(size, _mm256_set1_epi32(1));
    _mm256_cmpeq_epi32(_mm256_min_epu32(below, _mm256_set1_epi32(limit as i32 - 1)), below)
}

#[target_feature(enable = "avx2")]
#[inline]
fn denormal_or_not_finite(value: __m256i) -> __m256i {
    let size = _mm256_and_si256(value, _mm256_set1_epi32(!SIGN as i32));
    let not_finite = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1));
    _mm256_or_si256(up_to(value, SMALLEST_NORMAL - 1), not_finite)
}
