//! Matrix products with AVX2. Each function either gives exactly what `exact` gives, or declines and changes nothing.

mod f16;
mod f32;
mod int8;
mod quant;
mod transpose;

pub(super) use f16::F16;
pub(super) use f32::F32;
pub(super) use int8::{multiply as multiply_int8, multiply_lines as multiply_int8_lines};
pub(super) use quant::{quantise, scale_rows};
pub(super) use transpose::{transpose, transpose_to};

use std::arch::x86_64::*;

/// Whether this host has what the module needs.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Eight words from memory.
#[target_feature(enable = "avx2")]
#[inline]
fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: the reference covers 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Eight words to memory.
#[target_feature(enable = "avx2")]
#[inline]
fn store(words: &mut [u32; 8], value: __m256i) {
    // SAFETY: the reference covers 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), value) };
}

/// One half of a line.
fn half(line: &super::Line, half: usize) -> &[u32; 8] {
    let (low, high) = line.0.split_at(8);
    let words = if half == 0 { low } else { high };
    words.try_into().expect("a line has two halves of eight words")
}

/// One half of a line.
fn half_mut(line: &mut super::Line, half: usize) -> &mut [u32; 8] {
    let (low, high) = line.0.split_at_mut(8);
    let words = if half == 0 { low } else { high };
    words.try_into().expect("a line has two halves of eight words")
}

/// All ones in the lanes below `lanes`.
#[target_feature(enable = "avx2")]
#[inline]
fn first_lanes(lanes: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// Whether any bit is set.
#[target_feature(enable = "avx2")]
#[inline]
fn any(value: __m256i) -> bool {
    _mm256_testz_si256(value, value) == 0
}
