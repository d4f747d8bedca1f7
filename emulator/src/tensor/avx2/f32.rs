//! fp32 products. Native fused multiply-add rounds as the chip does; what differs is denormals, NaN and flags.

use super::super::fma::Operands;
use super::super::Line;
use super::{any, available, first_lanes, half, half_mut, load, store};
use crate::fp::{Flags, INFINITY, SIGN, SMALLEST_NORMAL};
use crate::hart::Vector;
use std::arch::x86_64::*;
use std::cell::OnceCell;

const ONE: u32 = 0x3F80_0000;

/// Operands looked at.
pub(in super::super) struct F32<'a> {
    operands: &'a Operands<'a>,
    /// Rows of A with an infinity or NaN.
    special: u16,
    denormals: bool,
    /// Some word is 0: exactly 0 skips its steps.
    zeros: bool,
    /// The least exponent that a product of two nonzero words may have.
    least: i32,
    /// For operands that `plain` is not enough for.
    flushed: OnceCell<Box<Flushed>>,
}

/// Operands with denormals flushed, and 1 where nothing is used.
struct Flushed {
    a: [Line; 16],
    b: [Line; 16],
    /// All ones for the words that are exactly 0.
    a_skipped: [Line; 16],
    b_skipped: [Line; 16],
}

impl<'a> F32<'a> {
    /// `None` when this host or these operands are not for native arithmetic.
    pub fn prepare(operands: &'a Operands<'a>) -> Option<Self> {
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
    fn prepare_avx2(operands: &'a Operands<'a>) -> Option<Self> {
        let (mut special, mut all_a, mut all_b) = (0, Scan::new(), Scan::new());
        for row in 0..operands.rows {
            let mut scan = Scan::new();
            for part in 0..operands.depth.div_ceil(8) {
                scan.take(load(half(operands.a[row], part)), first_lanes(operands.depth - 8 * part));
            }
            special |= u16::from(scan.special()) << row;
            all_a.merge(&scan);
        }
        for line in &operands.b[..operands.depth] {
            for part in 0..operands.halves() {
                all_b.take(load(half(line, part)), first_lanes(operands.columns - 8 * part));
            }
        }
        if all_b.special() {
            return None;
        }
        let (least_a, least_b) = (all_a.least(), all_b.least());
        let exponent = |size: u32| (size >> 23).max(1) as i32 - 127;
        Some(F32 {
            operands,
            special,
            denormals: least_a.min(least_b) < SMALLEST_NORMAL,
            zeros: any(_mm256_or_si256(all_a.zero, all_b.zero)),
            least: exponent(least_a) + exponent(least_b),
            flushed: OnceCell::new(),
        })
    }

    #[target_feature(enable = "avx2,fma")]
    fn block<const R: usize>(&self, rows: [u8; R], c: &mut [Vector; 32]) -> bool {
        let rows = rows.map(usize::from);
        // All products and sums are multiples of 2^-123: none can be a denormal.
        if self.least >= -76 && !self.denormals {
            let done =
                if self.operands.halves() == 1 { self.plain::<R, 1>(rows, c) } else { self.plain::<R, 2>(rows, c) };
            if done {
                return true;
            }
        }
        // Products of at least 2^-100 leave any nonzero sum with an accumulator within the range of native denormals.
        match (self.zeros, self.least < -100) {
            (false, false) => self.steps::<R, false, false>(rows, c),
            (true, false) => self.steps::<R, true, false>(rows, c),
            (_, true) => self.steps::<R, true, true>(rows, c),
        }
    }

    /// Without a look at what happens on the way. A zero is added like any number, which can be told from a skipped
    /// step only by the sign of a result that is zero.
    #[target_feature(enable = "avx2,fma")]
    fn plain<const R: usize, const H: usize>(&self, rows: [usize; R], c: &mut [Vector; 32]) -> bool {
        let operands = self.operands;
        let magnitude = _mm256_set1_epi32(!SIGN as i32);
        let zero = _mm256_setzero_si256();
        let mut sums = [[_mm256_setzero_ps(); H]; R];
        let mut bad = [zero; H];
        let mut first = 0;
        if operands.first {
            first = 1;
            for r in 0..R {
                let a = _mm256_set1_ps(f32::from_bits(operands.a[rows[r]].0[0]));
                for (h, sum) in sums[r].iter_mut().enumerate() {
                    *sum = _mm256_mul_ps(a, _mm256_castsi256_ps(load(half(operands.b[0], h))));
                }
            }
        } else {
            // Accumulators, too, are multiples of 2^-123 if they are 0 or at least 2^-100.
            let least = _mm256_set1_epi32((127 - 100) << 23);
            for r in 0..R {
                for h in 0..H {
                    let value = load(&c[2 * rows[r] + h].0);
                    let size = _mm256_and_si256(value, magnitude);
                    let small = _mm256_andnot_si256(_mm256_cmpeq_epi32(size, zero), _mm256_cmpgt_epi32(least, size));
                    bad[h] = _mm256_or_si256(bad[h], small);
                    sums[r][h] = _mm256_castsi256_ps(value);
                }
            }
        }
        for k in first..operands.depth {
            let mut b = [_mm256_setzero_ps(); H];
            for (h, b) in b.iter_mut().enumerate() {
                *b = _mm256_castsi256_ps(load(half(operands.b[k], h)));
            }
            for r in 0..R {
                let a = _mm256_set1_ps(f32::from_bits(operands.a[rows[r]].0[k]));
                for h in 0..H {
                    sums[r][h] = _mm256_fmadd_ps(a, b[h], sums[r][h]);
                }
            }
        }
        let zeros = _mm256_set1_epi32(-i32::from(self.zeros));
        for sums in &sums {
            for (sum, bad) in sums.iter().zip(&mut bad) {
                let size = _mm256_and_si256(_mm256_castps_si256(*sum), magnitude);
                // Once infinite, always infinite.
                let infinite = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(INFINITY as i32 - 1));
                let unsure = _mm256_and_si256(_mm256_cmpeq_epi32(size, zero), zeros);
                *bad = _mm256_or_si256(*bad, _mm256_or_si256(infinite, unsure));
            }
        }
        let mut all = zero;
        for (h, bad) in bad.into_iter().enumerate() {
            all = _mm256_or_si256(all, _mm256_and_si256(bad, first_lanes(operands.columns - 8 * h)));
        }
        if any(all) {
            return false;
        }
        for r in 0..R {
            for h in 0..H {
                let target = &mut c[2 * rows[r] + h].0;
                let live = first_lanes(operands.columns - 8 * h);
                store(target, _mm256_blendv_epi8(load(target), _mm256_castps_si256(sums[r][h]), live));
            }
        }
        true
    }

    /// `ZEROS` treats skipped steps, `FAINT` products that vanish.
    #[target_feature(enable = "avx2,fma")]
    fn steps<const R: usize, const ZEROS: bool, const FAINT: bool>(
        &self,
        rows: [usize; R],
        c: &mut [Vector; 32],
    ) -> bool {
        let operands = self.operands;
        let flushed = self.flushed.get_or_init(|| Flushed::new(operands));
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
                let b = _mm256_castsi256_ps(load(half(&flushed.b[0], part)));
                for r in 0..R {
                    let a = _mm256_castsi256_ps(_mm256_set1_epi32(flushed.a[rows[r]].0[0] as i32));
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
                let b = _mm256_castsi256_ps(load(half(&flushed.b[k], part)));
                let b_skipped = load(half(&flushed.b_skipped[k], part));
                for r in 0..R {
                    let a = _mm256_castsi256_ps(_mm256_set1_epi32(flushed.a[rows[r]].0[k] as i32));
                    let next = _mm256_fmadd_ps(a, b, sums[r]);
                    let size = _mm256_and_si256(_mm256_castps_si256(next), magnitude);
                    watch.smallest = _mm256_min_epu32(watch.smallest, _mm256_sub_epi32(size, one));
                    if FAINT {
                        watch.vanished(a, b, size);
                    }
                    sums[r] = if ZEROS {
                        let a_skipped = _mm256_set1_epi32(flushed.a_skipped[rows[r]].0[k] as i32);
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

/// What a scan of operands found, lane by lane.
struct Scan {
    /// Largest magnitude.
    most: __m256i,
    /// Smallest magnitude that is not zero, less 1.
    least: __m256i,
    /// All ones where a word is zero.
    zero: __m256i,
}

impl Scan {
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let zero = _mm256_setzero_si256();
        Scan { most: zero, least: _mm256_set1_epi32(-1), zero }
    }

    /// Looks at eight words, of which `live` count.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn take(&mut self, words: __m256i, live: __m256i) {
        let words = _mm256_blendv_epi8(_mm256_set1_epi32(ONE as i32), words, live);
        let size = _mm256_and_si256(words, _mm256_set1_epi32(!SIGN as i32));
        self.most = _mm256_max_epi32(self.most, size);
        self.least = _mm256_min_epu32(self.least, _mm256_sub_epi32(size, _mm256_set1_epi32(1)));
        self.zero = _mm256_or_si256(self.zero, _mm256_cmpeq_epi32(size, _mm256_setzero_si256()));
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn merge(&mut self, other: &Scan) {
        self.most = _mm256_max_epi32(self.most, other.most);
        self.least = _mm256_min_epu32(self.least, other.least);
        self.zero = _mm256_or_si256(self.zero, other.zero);
    }

    /// Whether there is an infinity or NaN.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn special(&self) -> bool {
        any(_mm256_cmpgt_epi32(self.most, _mm256_set1_epi32(INFINITY as i32 - 1)))
    }

    /// The smallest magnitude that is not zero; that of 1 when all are.
    #[target_feature(enable = "avx2")]
    fn least(&self) -> u32 {
        let mut lanes = [0; 8];
        store(&mut lanes, self.least);
        lanes.into_iter().min().unwrap_or(u32::MAX).min(ONE - 1) + 1
    }
}

impl Flushed {
    #[target_feature(enable = "avx2")]
    fn new(operands: &Operands<'_>) -> Box<Self> {
        let (ones, zeros) = ([Line([ONE; 16]); 16], [Line::default(); 16]);
        let mut own = Box::new(Flushed { a: ones, b: ones, a_skipped: zeros, b_skipped: zeros });
        for row in 0..operands.rows {
            for part in 0..operands.depth.div_ceil(8) {
                let live = first_lanes(operands.depth - 8 * part);
                let (flushed, skipped) = flush(load(half(operands.a[row], part)), live);
                store(half_mut(&mut own.a[row], part), flushed);
                store(half_mut(&mut own.a_skipped[row], part), skipped);
            }
        }
        for k in 0..operands.depth {
            for part in 0..operands.halves() {
                let live = first_lanes(operands.columns - 8 * part);
                let (flushed, skipped) = flush(load(half(operands.b[k], part)), live);
                store(half_mut(&mut own.b[k], part), flushed);
                store(half_mut(&mut own.b_skipped[k], part), skipped);
            }
        }
        own
    }
}

/// Eight words with denormals flushed, 1 for those that are not `live`, and which are exactly 0.
#[target_feature(enable = "avx2")]
#[inline]
fn flush(words: __m256i, live: __m256i) -> (__m256i, __m256i) {
    let words = _mm256_blendv_epi8(_mm256_set1_epi32(ONE as i32), words, live);
    let size = _mm256_and_si256(words, _mm256_set1_epi32(!SIGN as i32));
    let denormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(SMALLEST_NORMAL as i32), size);
    let sign = _mm256_and_si256(words, _mm256_set1_epi32(SIGN as i32));
    (_mm256_blendv_epi8(words, sign, denormal), _mm256_cmpeq_epi32(words, _mm256_setzero_si256()))
}
