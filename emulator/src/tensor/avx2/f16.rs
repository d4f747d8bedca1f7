//! fp16 products: the three-operand adder of the ISA sheet (3.7.1), eight lanes at a time in integers.

use super::super::fma::Operands;
use super::super::Line;
use super::{any, available, first_lanes, half, half_mut, load, store};
use crate::fp::Flags;
use crate::hart::Vector;
use std::arch::x86_64::*;

/// One half of each word of a line, taken apart.
#[derive(Clone, Copy, Default)]
struct Halves {
    /// 1024 + fraction, or 0 for zeros and denormals.
    sig: Line,
    /// Exponent in the low bits, sign in bit 31: adding two adds the exponents and multiplies the signs.
    scale: Line,
}

/// Operands made ready.
pub(in super::super) struct F16<'a> {
    operands: &'a Operands<'a>,
    a: [[Halves; 2]; 16],
    b: [[Halves; 2]; 16],
    /// All ones for the words of B that are exactly 0: their steps are skipped.
    b_skipped: [Line; 16],
    /// Rows of A with an infinity or NaN.
    special: u16,
    denormals: bool,
}

/// Eight terms of the adder. Bit 0 of `sig` is the sign; its other bits are scaled as in `exact`.
#[derive(Clone, Copy)]
struct Terms {
    exponent: __m256i,
    sig: __m256i,
}

impl<'a> F16<'a> {
    /// `None` when this host or these operands are not for this path.
    pub fn prepare(operands: &'a Operands<'a>) -> Option<Self> {
        // SAFETY: AVX2 is there.
        available().then(|| unsafe { Self::prepare_avx2(operands) }).flatten()
    }

    /// The flags that products of these operands may raise.
    pub fn may_raise(&self) -> u32 {
        Flags::NX | if self.denormals { Flags::ID } else { 0 }
    }

    /// Computes rows. False, with C unchanged, when one needs exact treatment.
    pub fn rows(&self, rows: &[u8], c: &mut [Vector; 32]) -> bool {
        if rows.iter().any(|&row| self.special >> row & 1 == 1) {
            return false;
        }
        // SAFETY: a value of this type exists only where AVX2 does.
        unsafe { self.rows_avx2(rows, c) }
    }

    #[target_feature(enable = "avx2")]
    fn prepare_avx2(operands: &'a Operands<'a>) -> Option<Self> {
        let mut own = F16 {
            operands,
            a: [[Halves::default(); 2]; 16],
            b: [[Halves::default(); 2]; 16],
            b_skipped: [Line::default(); 16],
            special: 0,
            denormals: false,
        };
        let zero = _mm256_setzero_si256();
        let (mut special_b, mut denormal) = (zero, zero);
        for row in 0..16 {
            let mut special = zero;
            for part in 0..operands.depth.div_ceil(8) {
                let live = first_lanes(operands.depth - 8 * part);
                let words = _mm256_and_si256(load(half(operands.a[row], part)), live);
                split(words, &mut own.a[row], part, 0, &mut special, &mut denormal);
            }
            own.special |= u16::from(any(special)) << row;
        }
        for k in 0..operands.depth {
            for part in 0..operands.halves() {
                let live = first_lanes(operands.columns - 8 * part);
                let words = _mm256_and_si256(load(half(operands.b[k], part)), live);
                store(half_mut(&mut own.b_skipped[k], part), _mm256_cmpeq_epi32(words, zero));
                split(words, &mut own.b[k], part, 97, &mut special_b, &mut denormal);
            }
        }
        own.denormals = any(denormal);
        (!any(special_b)).then_some(own)
    }

    #[target_feature(enable = "avx2")]
    fn rows_avx2(&self, rows: &[u8], c: &mut [Vector; 32]) -> bool {
        let operands = self.operands;
        let zero = _mm256_setzero_si256();
        let mut bad = zero;
        let mut results = [[zero; 2]; 4];
        for (&row, result) in rows.iter().zip(&mut results) {
            let row = usize::from(row);
            if !operands.first {
                for (part, sums) in result.iter_mut().enumerate().take(operands.halves()) {
                    let live = first_lanes(operands.columns - 8 * part);
                    *sums = _mm256_and_si256(load(&c[2 * row + part].0), live);
                    bad = _mm256_or_si256(bad, not_normal(*sums));
                }
            }
            for k in 0..operands.depth {
                let starts = operands.first && k == 0;
                if operands.a[row].0[k] == 0 && !starts {
                    continue;
                }
                // Both halves in one step: each is a long chain of dependent instructions.
                for (part, sums) in result.iter_mut().enumerate().take(operands.halves()) {
                    let p = product(&self.a[row][0], &self.b[k][0], k, part);
                    let q = product(&self.a[row][1], &self.b[k][1], k, part);
                    if starts {
                        let sign = _mm256_and_si256(_mm256_and_si256(p.sig, q.sig), one());
                        let (next, refused) = sum(p, q, Terms { exponent: zero, sig: sign });
                        bad = _mm256_or_si256(bad, refused);
                        *sums = next;
                    } else {
                        let (next, refused) = sum(p, q, accumulator(*sums));
                        bad = _mm256_or_si256(bad, refused);
                        *sums = _mm256_blendv_epi8(next, *sums, load(half(&self.b_skipped[k], part)));
                    }
                }
            }
        }
        if any(bad) {
            return false;
        }
        for (&row, result) in rows.iter().zip(&results) {
            for (part, sums) in result.iter().enumerate().take(operands.halves()) {
                let live = first_lanes(operands.columns - 8 * part);
                let target = &mut c[2 * usize::from(row) + part].0;
                let value = _mm256_blendv_epi8(load(target), *sums, live);
                store(target, value);
            }
        }
        true
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn one() -> __m256i {
    _mm256_set1_epi32(1)
}

/// Takes both halves of eight words apart, adding `bias` to the exponents.
#[target_feature(enable = "avx2")]
#[inline]
fn split(
    words: __m256i,
    target: &mut [Halves; 2],
    part: usize,
    bias: i32,
    special: &mut __m256i,
    denormal: &mut __m256i,
) {
    let zero = _mm256_setzero_si256();
    let low = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF));
    for (bits, target) in [low, _mm256_srli_epi32::<16>(words)].into_iter().zip(target) {
        let exponent = _mm256_and_si256(_mm256_srli_epi32::<10>(bits), _mm256_set1_epi32(0x1F));
        let fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x3FF));
        let is_small = _mm256_cmpeq_epi32(exponent, zero);
        let is_special = _mm256_cmpeq_epi32(exponent, _mm256_set1_epi32(0x1F));
        *special = _mm256_or_si256(*special, is_special);
        *denormal = _mm256_or_si256(*denormal, _mm256_and_si256(is_small, _mm256_cmpgt_epi32(fraction, zero)));
        let sig = _mm256_andnot_si256(is_small, _mm256_or_si256(fraction, _mm256_set1_epi32(0x400)));
        let sign = _mm256_slli_epi32::<31>(_mm256_srli_epi32::<15>(bits));
        let scale = _mm256_or_si256(_mm256_add_epi32(exponent, _mm256_set1_epi32(bias)), sign);
        store(half_mut(&mut target.sig, part), sig);
        store(half_mut(&mut target.scale, part), scale);
    }
}

/// Word `k` of a row of A times eight columns of B.
#[target_feature(enable = "avx2")]
#[inline]
fn product(a: &Halves, b: &Halves, k: usize, part: usize) -> Terms {
    // Significands fit 16 bits and their upper halves are 0: the pair sum of this instruction is one product.
    let sig = _mm256_madd_epi16(_mm256_set1_epi32(a.sig.0[k] as i32), load(half(&b.sig, part)));
    let scale = _mm256_add_epi32(_mm256_set1_epi32(a.scale.0[k] as i32), load(half(&b.scale, part)));
    let nonzero = _mm256_cmpgt_epi32(sig, _mm256_setzero_si256());
    let exponent = _mm256_and_si256(_mm256_and_si256(scale, nonzero), _mm256_set1_epi32(0x7FFF_FFFF));
    let sig = _mm256_or_si256(_mm256_slli_epi32::<8>(sig), _mm256_srli_epi32::<31>(scale));
    Terms { exponent, sig }
}

/// Accumulators as terms; there are no denormals among them.
#[target_feature(enable = "avx2")]
#[inline]
fn accumulator(c: __m256i) -> Terms {
    let exponent = _mm256_and_si256(_mm256_srli_epi32::<23>(c), _mm256_set1_epi32(0xFF));
    let nonzero = _mm256_cmpgt_epi32(exponent, _mm256_setzero_si256());
    let fraction = _mm256_and_si256(c, _mm256_set1_epi32(0x007F_FFFF));
    let sig = _mm256_slli_epi32::<5>(_mm256_or_si256(fraction, _mm256_set1_epi32(0x0080_0000)));
    let sig = _mm256_or_si256(_mm256_and_si256(sig, nonzero), _mm256_srli_epi32::<31>(c));
    Terms { exponent, sig }
}

/// All ones in lanes that are denormal, infinite or NaN.
#[target_feature(enable = "avx2")]
#[inline]
fn not_normal(c: __m256i) -> __m256i {
    let zero = _mm256_setzero_si256();
    let exponent = _mm256_and_si256(_mm256_srli_epi32::<23>(c), _mm256_set1_epi32(0xFF));
    let fraction = _mm256_and_si256(c, _mm256_set1_epi32(0x007F_FFFF));
    let denormal = _mm256_and_si256(_mm256_cmpeq_epi32(exponent, zero), _mm256_cmpgt_epi32(fraction, zero));
    _mm256_or_si256(denormal, _mm256_cmpeq_epi32(exponent, _mm256_set1_epi32(0xFF)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn choose(condition: __m256i, yes: Terms, no: Terms) -> Terms {
    Terms {
        exponent: _mm256_blendv_epi8(no.exponent, yes.exponent, condition),
        sig: _mm256_blendv_epi8(no.sig, yes.sig, condition),
    }
}

/// A smaller term in units of the high one: its signed value, lanes that lose bits, lanes of opposite sign.
#[target_feature(enable = "avx2")]
#[inline]
fn align(high: Terms, term: Terms) -> (__m256i, __m256i, __m256i) {
    let shift = _mm256_add_epi32(_mm256_sub_epi32(high.exponent, term.exponent), _mm256_set1_epi32(3));
    // Shifts of 32 and more give 0. The sign in bit 0 is always shifted out.
    let kept = _mm256_srlv_epi32(term.sig, shift);
    let exact = _mm256_cmpeq_epi32(_mm256_sllv_epi32(kept, shift), _mm256_andnot_si256(one(), term.sig));
    let lost = _mm256_xor_si256(exact, _mm256_set1_epi32(-1));
    let differs = _mm256_and_si256(_mm256_xor_si256(high.sig, term.sig), one());
    let opposite = _mm256_sub_epi32(_mm256_setzero_si256(), differs);
    let negated = _mm256_sub_epi32(_mm256_xor_si256(kept, opposite), opposite);
    (_mm256_add_epi32(negated, _mm256_and_si256(lost, opposite)), lost, opposite)
}

/// The chip's three-operand adder, as `exact::sum`: sums, and lanes that are not for this path.
#[target_feature(enable = "avx2")]
#[inline]
fn sum(p: Terms, q: Terms, r: Terms) -> (__m256i, __m256i) {
    let zero = _mm256_setzero_si256();
    let q_over_p = _mm256_cmpgt_epi32(q.exponent, p.exponent);
    let below = _mm256_or_si256(_mm256_cmpgt_epi32(p.exponent, r.exponent), _mm256_cmpgt_epi32(q.exponent, r.exponent));
    let high = choose(below, choose(q_over_p, q, p), r);
    let middle = choose(_mm256_and_si256(below, q_over_p), p, q);
    let low = choose(below, r, p);
    let (middle, middle_lost, middle_opposite) = align(high, middle);
    let (low, low_lost, low_opposite) = align(high, low);
    let total = _mm256_add_epi32(_mm256_srli_epi32::<3>(high.sig), _mm256_add_epi32(middle, low));

    let flipped = _mm256_srai_epi32::<31>(total);
    let fuzzy = _mm256_or_si256(middle_lost, low_lost);
    let magnitude = _mm256_sub_epi32(_mm256_xor_si256(total, flipped), flipped);
    let magnitude = _mm256_add_epi32(magnitude, _mm256_and_si256(fuzzy, flipped));
    let nothing = _mm256_cmpeq_epi32(magnitude, zero);
    // When the kept bits cancel, what was lost decides; that is rare enough to be left to `exact`.
    let undecided = _mm256_and_si256(nothing, fuzzy);
    // An exact zero is positive, unless all terms are negative.
    let mixed = _mm256_or_si256(middle_opposite, low_opposite);
    let positive = _mm256_and_si256(_mm256_cmpeq_epi32(total, zero), mixed);
    let negative = _mm256_xor_si256(high.sig, flipped);
    let sign = _mm256_slli_epi32::<31>(_mm256_andnot_si256(positive, negative));

    // Truncation to 24 bits: the conversion rounds to nearest, and one unit comes off where that went up.
    let rounded = _mm256_cvtepi32_ps(magnitude);
    let went_up = _mm256_cmpgt_epi32(_mm256_cvttps_epi32(rounded), magnitude);
    let bits = _mm256_add_epi32(_mm256_castps_si256(rounded), went_up);
    let scale = _mm256_sub_epi32(high.exponent, _mm256_set1_epi32(152));
    // Never below 1: a product's exponent is at least 99, and an accumulator alone stays as it is.
    let exponent = _mm256_add_epi32(_mm256_srli_epi32::<23>(bits), scale);
    let overflow = _mm256_cmpgt_epi32(exponent, _mm256_set1_epi32(254));
    let value = _mm256_andnot_si256(nothing, _mm256_add_epi32(bits, _mm256_slli_epi32::<23>(scale)));
    (_mm256_or_si256(value, sign), _mm256_or_si256(undecided, overflow))
}
