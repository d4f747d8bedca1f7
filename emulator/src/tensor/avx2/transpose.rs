//! Transposition of 16 lines of words.

use super::{available, half, half_mut, load, store};
use crate::tensor::Line;
use std::arch::x86_64::*;

/// Line i of the result is word i of all lines. `None` when the host lacks AVX2.
pub(in super::super) fn transpose(lines: &[Line; 16]) -> Option<[Line; 16]> {
    let mut result = [Line::default(); 16];
    transpose_to(|i, part| *half(&lines[i], part), &mut result).then_some(result)
}

/// The same to where the result belongs, from `source(i, half)`. False, with nothing changed, when the host lacks AVX2.
#[inline]
pub(in super::super) fn transpose_to(source: impl Fn(usize, usize) -> [u32; 8], result: &mut [Line; 16]) -> bool {
    if !available() {
        return false;
    }
    // SAFETY: AVX2 is there.
    unsafe { transpose_avx2(source, result) };
    true
}

#[target_feature(enable = "avx2")]
fn transpose_avx2(source: impl Fn(usize, usize) -> [u32; 8], result: &mut [Line; 16]) {
    for rows in 0..2 {
        for columns in 0..2 {
            let mut block = [_mm256_setzero_si256(); 8];
            for (i, words) in block.iter_mut().enumerate() {
                *words = load(&source(8 * rows + i, columns));
            }
            for (i, words) in transpose_block(block).into_iter().enumerate() {
                store(half_mut(&mut result[8 * columns + i], rows), words);
            }
        }
    }
}

/// Eight vectors: pairs of words, pairs of pairs, halves.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose_block(r: [__m256i; 8]) -> [__m256i; 8] {
    let low = |a, b| _mm256_unpacklo_epi32(a, b);
    let high = |a, b| _mm256_unpackhi_epi32(a, b);
    let pairs = [
        low(r[0], r[1]),
        high(r[0], r[1]),
        low(r[2], r[3]),
        high(r[2], r[3]),
        low(r[4], r[5]),
        high(r[4], r[5]),
        low(r[6], r[7]),
        high(r[6], r[7]),
    ];
    let low = |a, b| _mm256_unpacklo_epi64(a, b);
    let high = |a, b| _mm256_unpackhi_epi64(a, b);
    let p = pairs;
    let fours = [
        low(p[0], p[2]),
        high(p[0], p[2]),
        low(p[1], p[3]),
        high(p[1], p[3]),
        low(p[4], p[6]),
        high(p[4], p[6]),
        low(p[5], p[7]),
        high(p[5], p[7]),
    ];
    let f = fours;
    let low = |a, b| _mm256_permute2x128_si256::<0x20>(a, b);
    let high = |a, b| _mm256_permute2x128_si256::<0x31>(a, b);
    [
        low(f[0], f[4]),
        low(f[1], f[5]),
        low(f[2], f[6]),
        low(f[3], f[7]),
        high(f[0], f[4]),
        high(f[1], f[5]),
        high(f[2], f[6]),
        high(f[3], f[7]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_change_places() {
        let lines: [Line; 16] = std::array::from_fn(|i| Line(std::array::from_fn(|j| (100 * i + j) as u32)));
        let Some(result) = transpose(&lines) else { return };
        for (i, line) in result.iter().enumerate() {
            assert_eq!(line.0, std::array::from_fn(|j| (100 * j + i) as u32));
        }
    }
}
