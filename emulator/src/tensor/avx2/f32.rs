//! fp32 products. Native fused multiply-add rounds as the chip does; what differs is denormals, NaN and flags.

use super::super::fma::Operands;
use super::super::Line;
use super::{any, available, first_lanes, half, half_mut, load, store};
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
    /// All ones for the words of A and B that are exactly 0: their steps are skipped.
    a_skipped: [Line; 16],
    b_skipped: [Line; 16],
    /// Rows of A with an infinity or NaN.
    special: u16,
    denormals: bool,
    /// Some step is skipped.
    zeros: bool,
    /// Some product of two nonzero words may come near the smallest numbers.
    faint: bool,
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
    fn prepare_avx2(operands: &'a Operands) -> Option<Self> {
        let mut own = F32 {
            operands,
            a: [Line([ONE; 16]); 16],
            b: [Line([ONE; 16]); 16],
            a_skipped: [Line::default(); 16],
            b_skipped: [Line::default(); 16],
            special: 0,
            denormals: false,
            zeros: false,
            faint: false,
        };
        let zero = _mm256_setzero_si256();
        let fresh =
            || Scan { special: zero, denormal: zero, zero_word: zero, least: _mm256_set1_epi32(INFINITY as i32) };
        let mut all_a = fresh();
        for row in 0..16 {
            let mut scan = fresh();
            for part in 0..2 {
                let live = first_lanes(operands.depth.saturating_sub(8 * part));
                let (flushed, skipped) = scan.take(load(half(&operands.a[row], part)), live);
                store(half_mut(&mut own.a[row], part), flushed);
                store(half_mut(&mut own.a_skipped[row], part), skipped);
            }
            own.special |= u16::from(any(scan.special)) << row;
            all_a.merge(&scan);
        }
        let mut all_b = fresh();
        for k in 0..operands.depth {
            for part in 0..operands.halves() {
                let live = first_lanes(operands.columns - 8 * part);
                let (flushed, skipped) = all_b.take(load(half(&operands.b[k], part)), live);
                store(half_mut(&mut own.b[k], part), flushed);
                store(half_mut(&mut own.b_skipped[k], part), skipped);
            }
        }
        if any(all_b.special) {
            return None;
        }
        own.denormals = any(_mm256_or_si256(all_a.denormal, all_b.denormal));
        let exponents = (least(all_a.least) >> 23) + (least(all_b.least) >> 23);
        // Products of at least 2^-100 leave any nonzero sum with an accumulator within the range of native denormals.
        own.faint = exponents < 2 * 127 - 100;
        own.zeros = any(_mm256_or_si256(all_a.zero_word, all_b.zero_word));
        Some(own)
    }

    #[target_feature(enable = "avx2,fma")]
    fn block<const R: usize>(&self, rows: [u8; R], c: &mut [Vector; 32]) -> bool {
        match (self.zeros, self.faint) {
            (false, false) => self.steps::<R, false, false>(rows, c),
            (true, false) => self.steps::<R, true, false>(rows, c),
            (_, true) => self.steps::<R, true, true>(rows, c),
        }
    }

    /// `ZEROS` treats skipped steps, `FAINT` products that vanish.
    #[target_feature(enable = "avx2,fma")]
    fn steps<const R: usize, const ZEROS: bool, const FAINT: bool>(&self, rows: [u8; R], c: &mut [Vector; 32]) -> bool {
        let operands = self.operands;
        let rows = rows.map(usize::from);
        let magnitude = _mm256_set1_epi32(!SIGN as i32);
        let one = _mm256_set1_epi32(1);
        let mut results = [[_mm256_setzero_ps(); R]; 2];
        let mut watch = Watch::new();
        for part in 0..operands.halves() {
            let live = first_lanes(operands.columns - 8 * part);
            let mut sums = [_mm256_setzero_ps(); R];
            let mut first = 0;
            if operands.first {
                first = 1;
                let b = _mm256_castsi256_ps(load(half(&self.b[0], part)));
                for r in 0..R {
                    let a = _mm256_castsi256_ps(_mm256_set1_epi32(self.a[rows[r]].0[0] as i32));
                    sums[r] = _mm256_mul_ps(a, b);
                    let size = _mm256_and_si256(_mm256_castps_si256(sums[r]), magnitude);
                    watch.smallest = _mm256_min_epu32(watch.smallest, _mm256_sub_epi32(size, one));
                    if FAINT {
                        watch.vanished(a, b, size);
                    }
                }
            } else {
                for r in 0..R {
                    let value = load(&c[2 * rows[r] + part].0);
                    let value = _mm256_blendv_epi8(_mm256_set1_epi32(ONE as i32), value, live);
                    watch.start(value);
                    sums[r] = _mm256_castsi256_ps(value);
                }
            }
            for k in first..operands.depth {
                let b = _mm256_castsi256_ps(load(half(&self.b[k], part)));
                let b_skipped = load(half(&self.b_skipped[k], part));
                for r in 0..R {
                    let a = _mm256_castsi256_ps(_mm256_set1_epi32(self.a[rows[r]].0[k] as i32));
                    let next = _mm256_fmadd_ps(a, b, sums[r]);
                    let size = _mm256_and_si256(_mm256_castps_si256(next), magnitude);
                    watch.smallest = _mm256_min_epu32(watch.smallest, _mm256_sub_epi32(size, one));
                    if FAINT {
                        watch.vanished(a, b, size);
                    }
                    sums[r] = if ZEROS {
                        let a_skipped = _mm256_set1_epi32(self.a_skipped[rows[r]].0[k] as i32);
                        let skipped = _mm256_castsi256_ps(_mm256_or_si256(a_skipped, b_skipped));
                        _mm256_blendv_ps(next, sums[r], skipped)
                    } else {
                        next
                    };
                }
            }
            for sum in sums {
                watch.end(sum);
            }
            results[part] = sums;
        }
        if watch.bad() {
            return false;
        }
        for (part, sums) in results.iter().enumerate().take(operands.halves()) {
            let live = first_lanes(operands.columns - 8 * part);
            for r in 0..R {
                let target = &mut c[2 * rows[r] + part].0;
                let value = _mm256_blendv_epi8(load(target), _mm256_castps_si256(sums[r]), live);
                store(target, value);
            }
        }
        true
    }
}

/// Looks out for results that native arithmetic may have got wrong.
struct Watch {
    /// The smallest magnitude less 1. Zero is large so; up to the smallest normal, results may be denormals that the
    /// chip would flush, or may have been rounded up from there.
    smallest: __m256i,
    bad: __m256i,
}

impl Watch {
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        Watch { smallest: _mm256_set1_epi32(-1), bad: _mm256_setzero_si256() }
    }

    /// Accumulators at the start: no denormals, infinities or NaN.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn start(&mut self, value: __m256i) {
        let size = _mm256_and_si256(value, _mm256_set1_epi32(!SIGN as i32));
        let below = _mm256_sub_epi32(size, _mm256_set1_epi32(1));
        // Unlike a result, the smallest normal itself is harmless here.
        let limit = _mm256_set1_epi32(SMALLEST_NORMAL as i32 - 2);
        let denormal = _mm256_cmpeq_epi32(_mm256_min_epu32(below, limit), below);
        let special = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1));
        self.bad = _mm256_or_si256(self.bad, _mm256_or_si256(denormal, special));
    }

    /// A result of size 0 from factors that are not 0 raises flags, if it was not a sum that cancelled.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn vanished(&mut self, a: __m256, b: __m256, size: __m256i) {
        let zero = _mm256_setzero_ps();
        let expected = _mm256_or_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, zero), _mm256_cmp_ps::<_CMP_EQ_OQ>(b, zero));
        let is_zero = _mm256_cmpeq_epi32(size, _mm256_setzero_si256());
        self.bad = _mm256_or_si256(self.bad, _mm256_andnot_si256(_mm256_castps_si256(expected), is_zero));
    }

    /// Accumulators at the end: once infinite, always infinite.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn end(&mut self, sum: __m256) {
        let size = _mm256_and_si256(_mm256_castps_si256(sum), _mm256_set1_epi32(!SIGN as i32));
        self.bad = _mm256_or_si256(self.bad, _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1)));
    }

    #[target_feature(enable = "avx2")]
    fn bad(&self) -> bool {
        let limit = _mm256_set1_epi32(SMALLEST_NORMAL as i32 - 1);
        let tiny = _mm256_cmpeq_epi32(_mm256_min_epu32(self.smallest, limit), self.smallest);
        any(_mm256_or_si256(self.bad, tiny))
    }
}

impl Scan {
    /// Adds eight words, of which `live` count, and returns them flushed, with 1 for those that don't, and which are 0.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn take(&mut self, words: __m256i, live: __m256i) -> (__m256i, __m256i) {
        let words = _mm256_blendv_epi8(_mm256_set1_epi32(ONE as i32), words, live);
        let size = _mm256_and_si256(words, _mm256_set1_epi32(!SIGN as i32));
        let zero = _mm256_setzero_si256();
        let special = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1));
        let below_normal = _mm256_cmpgt_epi32(_mm256_set1_epi32(SMALLEST_NORMAL as i32), size);
        let denormal = _mm256_andnot_si256(_mm256_cmpeq_epi32(size, zero), below_normal);
        self.special = _mm256_or_si256(self.special, special);
        self.denormal = _mm256_or_si256(self.denormal, denormal);
        let skipped = _mm256_cmpeq_epi32(words, zero);
        self.zero_word = _mm256_or_si256(self.zero_word, skipped);
        let counted = _mm256_or_si256(size, _mm256_and_si256(below_normal, _mm256_set1_epi32(INFINITY as i32)));
        self.least = _mm256_min_epi32(self.least, counted);
        let sign = _mm256_and_si256(words, _mm256_set1_epi32(SIGN as i32));
        (_mm256_blendv_epi8(words, sign, denormal), skipped)
    }

    #[target_feature(enable = "avx2")]
    fn merge(&mut self, other: &Scan) {
        self.special = _mm256_or_si256(self.special, other.special);
        self.denormal = _mm256_or_si256(self.denormal, other.denormal);
        self.zero_word = _mm256_or_si256(self.zero_word, other.zero_word);
        self.least = _mm256_min_epi32(self.least, other.least);
    }
}

/// The smallest lane.
#[target_feature(enable = "avx2")]
fn least(value: __m256i) -> u32 {
    let mut lanes = [0; 8];
    store(&mut lanes, value);
    lanes.into_iter().min().unwrap_or(0)
}
