//! fp32 products. Native fused multiply-add rounds as the chip does; what differs is denormals, NaN and flags.

use super::super::fma::Operands;
use super::super::Line;
use super::{any, available, first_lanes, half, load, store};
use crate::fp::{Flags, INFINITY, SIGN, SMALLEST_NORMAL};
use crate::hart::Vector;
use std::arch::x86_64::*;

const ONE: u32 = 0x3F80_0000;

/// Operands made ready for native arithmetic.
pub(in super::super) struct F32<'a> {
    operands: &'a Operands,
    /// A and B with denormals flushed, and 1 where nothing is used.
    a: [Line; 16],
    b: [Line; 16],
    /// Rows of A with an infinity or NaN.
    special: u16,
    denormals: bool,
    /// No step is skipped, and no product of two nonzero words comes near the smallest numbers.
    plain: bool,
}

/// What a scan of operands found, lane by lane.
struct Scan {
    special: __m256i,
    denormal: __m256i,
    zero_word: __m256i,
    /// Smallest magnitude that is not zero.
    least: __m256i,
}

impl<'a> F32<'a> {
    /// `None` when this host or these operands are not for native arithmetic.
    pub fn prepare(operands: &'a Operands) -> Option<Self> {
        // SAFETY: AVX2 is there.
        available().then(|| unsafe { Self::prepare_avx2(operands) }).flatten()
    }

    /// The flags that products of these operands may raise.
    pub fn may_raise(&self) -> u32 {
        Flags::NX | if self.denormals { Flags::ID } else { 0 }
    }

    /// Computes up to four rows. False, with C unchanged, when one needs exact treatment.
    pub fn rows(&self, rows: &[u8], c: &mut [Vector; 32]) -> bool {
        if rows.iter().any(|&row| self.special >> row & 1 == 1) {
            return false;
        }
        // SAFETY: a value of this type exists only where AVX2 and FMA do.
        unsafe {
            match *rows {
                [r0, r1, r2, r3] => self.block([r0, r1, r2, r3], c),
                [r0, r1, r2] => self.block([r0, r1, r2], c),
                [r0, r1] => self.block([r0, r1], c),
                [r0] => self.block([r0], c),
                _ => false,
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn prepare_avx2(operands: &'a Operands) -> Option<Self> {
        // SAFETY: plain register arithmetic and accesses through references; the caller vouches for AVX2.
        unsafe {
            let mut own = F32 {
                operands,
                a: [Line([ONE; 16]); 16],
                b: [Line([ONE; 16]); 16],
                special: 0,
                denormals: false,
                plain: true,
            };
            let zero = _mm256_setzero_si256();
            let fresh =
                || Scan { special: zero, denormal: zero, zero_word: zero, least: _mm256_set1_epi32(INFINITY as i32) };
            let mut all_a = fresh();
            for row in 0..16 {
                let mut scan = fresh();
                for part in 0..2 {
                    let live = first_lanes(operands.depth.saturating_sub(8 * part));
                    let flushed = scan.take(load(half(&operands.a[row], part)), live);
                    own.set_half(false, row, part, flushed);
                }
                own.special |= u16::from(any(scan.special)) << row;
                all_a.merge(&scan);
            }
            let mut all_b = fresh();
            for k in 0..operands.depth {
                for part in 0..operands.halves() {
                    let live = first_lanes(operands.columns - 8 * part);
                    let flushed = all_b.take(load(half(&operands.b[k], part)), live);
                    own.set_half(true, k, part, flushed);
                }
            }
            if any(all_b.special) {
                return None;
            }
            own.denormals = any(_mm256_or_si256(all_a.denormal, all_b.denormal));
            let exponents = (least(all_a.least) >> 23) + (least(all_b.least) >> 23);
            // Products of at least 2^-100 leave any nonzero sum with an accumulator within the range of native denormals.
            own.plain = exponents >= 2 * 127 - 100 && !any(_mm256_or_si256(all_a.zero_word, all_b.zero_word));
            Some(own)
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn set_half(&mut self, b: bool, line: usize, part: usize, value: __m256i) {
        let lines = if b { &mut self.b } else { &mut self.a };
        let mut words = [0; 8];
        // SAFETY: the caller vouches for AVX2.
        unsafe { store(&mut words, value) };
        lines[line].0[8 * part..8 * part + 8].copy_from_slice(&words);
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn block<const R: usize>(&self, rows: [u8; R], c: &mut [Vector; 32]) -> bool {
        // SAFETY: the caller vouches for AVX2 and FMA.
        unsafe {
            if self.plain {
                self.steps::<R, true>(rows, c)
            } else {
                self.steps::<R, false>(rows, c)
            }
        }
    }

    /// `PLAIN` leaves out the treatment of skipped steps and vanishing products.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn steps<const R: usize, const PLAIN: bool>(&self, rows: [u8; R], c: &mut [Vector; 32]) -> bool {
        // SAFETY: plain register arithmetic and accesses through references; the caller vouches for AVX2 and FMA.
        unsafe {
            let operands = self.operands;
            let zero = _mm256_setzero_si256();
            let magnitude = _mm256_set1_epi32(!SIGN as i32);
            let tiny = _mm256_set1_epi32(SMALLEST_NORMAL as i32 - 1);
            let one = _mm256_set1_epi32(1);
            let mut results = [[_mm256_setzero_ps(); R]; 2];
            // Magnitude less 1, so that zero is large and everything up to the smallest normal is at most `tiny`: such
            // results may have been rounded up to it, or be denormals that the chip would flush.
            let mut smallest = _mm256_set1_epi32(-1);
            let mut bad = zero;
            for (part, sums) in results.iter_mut().enumerate().take(operands.halves()) {
                let live = first_lanes(operands.columns - 8 * part);
                let filler = _mm256_set1_epi32(ONE as i32);
                if !operands.first {
                    for (sum, row) in sums.iter_mut().zip(rows) {
                        let value = load(&c[2 * usize::from(row) + part].0);
                        let value = _mm256_blendv_epi8(filler, value, live);
                        // The smallest normal itself is a good addend.
                        let below = _mm256_sub_epi32(_mm256_and_si256(value, magnitude), one);
                        let limit = _mm256_sub_epi32(tiny, one);
                        bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_min_epu32(below, limit), below));
                        let special = _mm256_cmpgt_epi32(below, _mm256_set1_epi32(INFINITY as i32 - 2));
                        bad = _mm256_or_si256(bad, special);
                        *sum = _mm256_castsi256_ps(value);
                    }
                }
                for k in 0..operands.depth {
                    let starts = operands.first && k == 0;
                    let b = load(half(&self.b[k], part));
                    let b_skipped = _mm256_cmpeq_epi32(load(half(&operands.b[k], part)), zero);
                    let b_vanishes = _mm256_cmpeq_epi32(_mm256_and_si256(b, magnitude), zero);
                    for (sum, row) in sums.iter_mut().zip(rows) {
                        let a = _mm256_set1_epi32(self.a[usize::from(row)].0[k] as i32);
                        let (af, bf) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
                        let next = if starts { _mm256_mul_ps(af, bf) } else { _mm256_fmadd_ps(af, bf, *sum) };
                        let size = _mm256_and_si256(_mm256_castps_si256(next), magnitude);
                        smallest = _mm256_min_epu32(smallest, _mm256_sub_epi32(size, one));
                        if PLAIN {
                            *sum = next;
                            continue;
                        }
                        // A zero from words that are not zero may be a vanished product, which raises flags.
                        let a_vanishes = _mm256_cmpeq_epi32(_mm256_and_si256(a, magnitude), zero);
                        let expected = _mm256_or_si256(a_vanishes, b_vanishes);
                        bad = _mm256_or_si256(bad, _mm256_andnot_si256(expected, _mm256_cmpeq_epi32(size, zero)));
                        let a_skipped = _mm256_set1_epi32(-i32::from(operands.a[usize::from(row)].0[k] == 0));
                        let skipped = _mm256_castsi256_ps(_mm256_or_si256(a_skipped, b_skipped));
                        *sum = if starts { next } else { _mm256_blendv_ps(next, *sum, skipped) };
                    }
                }
                for sum in sums.iter() {
                    let size = _mm256_and_si256(_mm256_castps_si256(*sum), magnitude);
                    bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1)));
                }
            }
            bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_min_epu32(smallest, tiny), smallest));
            if any(bad) {
                return false;
            }
            for (part, sums) in results.iter().enumerate().take(operands.halves()) {
                let live = first_lanes(operands.columns - 8 * part);
                for (sum, row) in sums.iter().zip(rows) {
                    let target = &mut c[2 * usize::from(row) + part].0;
                    let value = _mm256_blendv_epi8(load(target), _mm256_castps_si256(*sum), live);
                    store(target, value);
                }
            }
            true
        }
    }
}

impl Scan {
    /// Adds eight words, of which `live` count, and returns them flushed, with 1 for those that don't.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn take(&mut self, words: __m256i, live: __m256i) -> __m256i {
        // SAFETY: plain register arithmetic; the caller vouches for AVX2.
        unsafe {
            let words = _mm256_blendv_epi8(_mm256_set1_epi32(ONE as i32), words, live);
            let size = _mm256_and_si256(words, _mm256_set1_epi32(!SIGN as i32));
            let zero = _mm256_setzero_si256();
            let special = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1));
            let below_normal = _mm256_cmpgt_epi32(_mm256_set1_epi32(SMALLEST_NORMAL as i32), size);
            let denormal = _mm256_andnot_si256(_mm256_cmpeq_epi32(size, zero), below_normal);
            self.special = _mm256_or_si256(self.special, special);
            self.denormal = _mm256_or_si256(self.denormal, denormal);
            self.zero_word = _mm256_or_si256(self.zero_word, _mm256_cmpeq_epi32(words, zero));
            let counted = _mm256_or_si256(size, _mm256_and_si256(below_normal, _mm256_set1_epi32(INFINITY as i32)));
            self.least = _mm256_min_epi32(self.least, counted);
            let sign = _mm256_and_si256(words, _mm256_set1_epi32(SIGN as i32));
            _mm256_blendv_epi8(words, sign, denormal)
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn merge(&mut self, other: &Scan) {
        // SAFETY: plain register arithmetic; the caller vouches for AVX2.
        unsafe {
            self.special = _mm256_or_si256(self.special, other.special);
            self.denormal = _mm256_or_si256(self.denormal, other.denormal);
            self.zero_word = _mm256_or_si256(self.zero_word, other.zero_word);
            self.least = _mm256_min_epi32(self.least, other.least);
        }
    }
}

/// The smallest lane.
#[target_feature(enable = "avx2")]
unsafe fn least(value: __m256i) -> u32 {
    let mut lanes = [0; 8];
    // SAFETY: the caller vouches for AVX2.
    unsafe { store(&mut lanes, value) };
    lanes.into_iter().min().unwrap_or(0)
}
