//! int8 products: sums of four byte products per lane, wrapping.

use super::super::exact::Signs;
use super::super::fma::Operands;
use super::super::Line;
use super::{any, available, first_lanes, half, half_mut, load, store};
use crate::hart::Vector;
use std::arch::x86_64::*;
use std::ops::Range;

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
    let &Operands { a, b, columns, depth, first, .. } = operands;
    let job = Job { a: |row| a[row], b: |k| b[k], depth, columns, first };
    // SAFETY: AVX2 is there.
    unsafe { job.signed(rows, signs, ten_c, target) };
    true
}

/// The same for the first rows of `a`, all of them, with `b` for all of B; `halves` of the columns count.
pub(in super::super) fn multiply_lines(
    a: &[Line],
    b: &[Line],
    halves: usize,
    first: bool,
    signs: Signs,
    ten_c: &mut [Vector; 32],
    target: Option<&mut [Vector; 32]>,
) -> bool {
    const ALL: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    let Some(rows) = ALL.get(..a.len()).filter(|_| available()) else { return false };
    let job = Job { a: |row: usize| &a[row], b: |k: usize| &b[k], depth: b.len(), columns: 8 * halves, first };
    // SAFETY: AVX2 is there.
    unsafe { job.signed(rows, signs, ten_c, target) };
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

/// A product: where rows of A and B are, and its shape.
#[derive(Clone, Copy)]
struct Job<A, B> {
    a: A,
    b: B,
    depth: usize,
    columns: usize,
    first: bool,
}

/// The sums of R rows.
type Sums<const R: usize> = [[__m256i; 2]; R];

impl<'l, A: Fn(usize) -> &'l Line + Copy, B: Fn(usize) -> &'l Line + Copy> Job<A, B> {
    #[target_feature(enable = "avx2")]
    fn signed(self, rows: &[u8], signs: Signs, ten_c: &mut [Vector; 32], target: Option<&mut [Vector; 32]>) {
        match (signs.a_unsigned, signs.b_unsigned) {
            (false, false) => self.all_rows::<false, false>(rows, ten_c, target),
            (false, true) => self.all_rows::<false, true>(rows, ten_c, target),
            (true, false) => self.all_rows::<true, false>(rows, ten_c, target),
            (true, true) => self.all_rows::<true, true>(rows, ten_c, target),
        }
    }

    #[target_feature(enable = "avx2")]
    fn all_rows<const A_UNSIGNED: bool, const B_UNSIGNED: bool>(
        self,
        rows: &[u8],
        ten_c: &mut [Vector; 32],
        mut target: Option<&mut [Vector; 32]>,
    ) {
        for block in rows.chunks(4) {
            let target = target.as_deref_mut();
            match *block {
                [r0, r1, r2, r3] => self.some_rows::<4, A_UNSIGNED, B_UNSIGNED>([r0, r1, r2, r3], ten_c, target),
                [r0, r1, r2] => self.some_rows::<3, A_UNSIGNED, B_UNSIGNED>([r0, r1, r2], ten_c, target),
                [r0, r1] => self.some_rows::<2, A_UNSIGNED, B_UNSIGNED>([r0, r1], ten_c, target),
                [r0] => self.some_rows::<1, A_UNSIGNED, B_UNSIGNED>([r0], ten_c, target),
                _ => {}
            }
        }
    }

    #[target_feature(enable = "avx2")]
    fn some_rows<const R: usize, const A_UNSIGNED: bool, const B_UNSIGNED: bool>(
        self,
        rows: [u8; R],
        ten_c: &mut [Vector; 32],
        target: Option<&mut [Vector; 32]>,
    ) {
        let rows = rows.map(usize::from);
        let mut wide = Wide { words: [[Line::default(); 2]; R], live: [0; 2] };
        for (r, words) in wide.words.iter_mut().enumerate() {
            // Words beyond the depth do no harm.
            for part in 0..2 {
                let line = load(half((self.a)(rows[r]), part));
                wide.live[part] |= u8::from(any(line)) << r;
                let (even, odd) = split::<A_UNSIGNED>(line);
                store(half_mut(&mut words[0], part), even);
                store(half_mut(&mut words[1], part), odd);
            }
        }
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        if !self.first {
            for r in 0..R {
                for part in 0..2 {
                    sums[r][part] = load(&ten_c[2 * rows[r] + part].0);
                }
            }
        }
        let last = self.depth - usize::from(target.is_some());
        self.part::<R, B_UNSIGNED>(0..last.min(8), &wide, &mut sums);
        self.part::<R, B_UNSIGNED>(8..last, &wide, &mut sums);
        // With a depth of 1 the only step goes to the target, and TenC is not written at all.
        if last > 0 {
            put(self.columns, &rows, &sums, ten_c);
        }
        if let Some(target) = target {
            self.part::<R, B_UNSIGNED>(last..self.depth, &wide, &mut sums);
            put(self.columns, &rows, &sums, target);
        }
    }

    /// Adds steps of one half of A's words to the sums. Rows of zeros there have nothing to add: kernels that multiply
    /// blocks with a scale each leave other blocks' places empty.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn part<const R: usize, const B_UNSIGNED: bool>(self, steps: Range<usize>, wide: &Wide<R>, sums: &mut Sums<R>) {
        if steps.is_empty() {
            return;
        }
        match (R, wide.live[steps.start / 8]) {
            (_, 0) => {}
            (4, 0b0001..=0b0011) => self.steps::<R, 2, B_UNSIGNED>([0, 1], steps, wide, sums),
            (4, 0b0100 | 0b1000 | 0b1100) => self.steps::<R, 2, B_UNSIGNED>([2, 3], steps, wide, sums),
            _ => self.steps::<R, R, B_UNSIGNED>(std::array::from_fn(|r| r), steps, wide, sums),
        }
    }

    /// Adds steps to the sums of N of the R rows.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn steps<const R: usize, const N: usize, const B_UNSIGNED: bool>(
        self,
        live: [usize; N],
        steps: Range<usize>,
        wide: &Wide<R>,
        sums: &mut Sums<R>,
    ) {
        let words = live.map(|r| &wide.words[r]);
        let mut own: Sums<N> = live.map(|r| sums[r]);
        for k in steps {
            let b = (self.b)(k);
            let b = [split::<B_UNSIGNED>(load(half(b, 0))), split::<B_UNSIGNED>(load(half(b, 1)))];
            for n in 0..N {
                // No bounds to check.
                let even = _mm256_set1_epi32(words[n][0].0[k % 16] as i32);
                let odd = _mm256_set1_epi32(words[n][1].0[k % 16] as i32);
                for part in 0..2 {
                    let products =
                        _mm256_add_epi32(_mm256_madd_epi16(even, b[part].0), _mm256_madd_epi16(odd, b[part].1));
                    own[n][part] = _mm256_add_epi32(own[n][part], products);
                }
            }
        }
        for n in 0..N {
            sums[live[n]] = own[n];
        }
    }
}

/// Rows of A.
struct Wide<const R: usize> {
    /// The even and the odd bytes of each word, as 16-bit numbers.
    words: [[Line; 2]; R],
    /// The rows that are not all zeros in the first and in the second half of the words.
    live: [u8; 2],
}

/// Writes the columns in use.
#[target_feature(enable = "avx2")]
#[inline]
fn put<const R: usize>(columns: usize, rows: &[usize; R], sums: &Sums<R>, c: &mut [Vector; 32]) {
    if columns != 16 {
        return put_part(columns, rows, sums, c);
    }
    for (row, sums) in rows.iter().zip(sums) {
        for part in 0..2 {
            store(&mut c[2 * row + part].0, sums[part]);
        }
    }
}

#[cold]
#[target_feature(enable = "avx2")]
fn put_part(columns: usize, rows: &[usize], sums: &[[__m256i; 2]], c: &mut [Vector; 32]) {
    for (row, sums) in rows.iter().zip(sums) {
        for part in 0..columns.div_ceil(8) {
            let target = &mut c[2 * row + part].0;
            let live = first_lanes(columns - 8 * part);
            store(target, _mm256_blendv_epi8(load(target), sums[part], live));
        }
    }
}
