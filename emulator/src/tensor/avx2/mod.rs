//! Matrix products with AVX2. Each function either gives exactly what `exact` gives, or declines and changes nothing.

// Since Rust 1.86 most intrinsics are safe to call where their feature is enabled; the oldest supported compiler
// wants them in unsafe blocks.
#![allow(unused_unsafe)]

mod f16;
mod f32;
mod int8;

pub(super) use f16::F16;
pub(super) use f32::F32;
pub(super) use int8::add_int8;

use std::arch::x86_64::*;

/// Whether this host has what the module needs.
fn available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Eight words from memory.
///
/// # Safety
/// The host must have AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: the reference covers 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Eight words to memory.
///
/// # Safety
/// The host must have AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn store(words: &mut [u32; 8], value: __m256i) {
    // SAFETY: the reference covers 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), value) };
}

/// One half of a line.
fn half(line: &super::Line, half: usize) -> &[u32; 8] {
    let (low, high) = line.0.split_at(8);
    let words = if half == 0 { low } else { high };
    words.try_into().expect("a line has two halves of eight words")
}

/// All ones in the lanes below `lanes`.
///
/// # Safety
/// The host must have AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn first_lanes(lanes: usize) -> __m256i {
    // SAFETY: plain register arithmetic; the caller vouches for AVX2.
    unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
}

/// Whether any bit is set.
///
/// # Safety
/// The host must have AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn any(value: __m256i) -> bool {
    // SAFETY: plain register arithmetic; the caller vouches for AVX2.
    unsafe { _mm256_testz_si256(value, value) == 0 }
}
