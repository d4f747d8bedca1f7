//! Matrix products row by row in integers: exact in results and flags on every host.

use super::fma::Operands;
use crate::fp::{self, Flags, Rounding};
use crate::hart::Vector;
use std::ops::Range;

/// How bytes of int8 operands are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// A is unsigned.
    pub a_unsigned: bool,
    /// B is unsigned.
    pub b_unsigned: bool,
}

/// Calls `step(a, b, c, starts)` for each word pair of a row in order; words that are exactly 0 are skipped, except in
/// the step that starts C.
fn for_each_step(
    operands: &Operands<'_>,
    row: usize,
    c: &mut [Vector; 32],
    mut step: impl FnMut(u32, u32, &mut u32, bool),
) {
    for k in 0..operands.depth {
        let starts = operands.first && k == 0;
        let a = operands.a[row].0[k];
        if a == 0 && !starts {
            continue;
        }
        for (column, &b) in operands.b[k].0.iter().enumerate().take(operands.columns) {
            if b != 0 || starts {
                step(a, b, &mut c[2 * row + column / 8].0[column % 8], starts);
            }
        }
    }
}

/// One row of an fp32 product.
pub(super) fn f32_row(
    operands: &Operands<'_>,
    row: usize,
    c: &mut [Vector; 32],
    rounding: Rounding,
    flags: &mut Flags,
) {
    for_each_step(operands, row, c, |a, b, c, starts| {
        *c = if starts { fp::mul(a, b, rounding, flags) } else { fp::fma(a, b, *c, rounding, flags) };
    });
}

/// One row of an int8 product, for a range of steps; `operands.first` is the caller's business.
pub(super) fn int8_row(operands: &Operands<'_>, steps: Range<usize>, row: usize, signs: Signs, c: &mut [Vector; 32]) {
    let extend = |byte: u8, unsigned: bool| if unsigned { i32::from(byte) } else { i32::from(byte as i8) };
    for k in steps {
        let a = operands.a[row].0[k].to_le_bytes().map(|byte| extend(byte, signs.a_unsigned));
        for (column, b) in operands.b[k].0.iter().enumerate().take(operands.columns) {
            let b = b.to_le_bytes();
            let sum: i32 = (0..4).map(|r| a[r] * extend(b[r], signs.b_unsigned)).sum();
            let c = &mut c[2 * row + column / 8].0[column % 8];
            *c = c.wrapping_add(sum as u32);
        }
    }
}

/// One row of an fp16 product.
pub(super) fn f16_row(operands: &Operands<'_>, row: usize, c: &mut [Vector; 32], flags: &mut Flags) {
    for_each_step(operands, row, c, |a, b, c, starts| {
        *c = f16_step(a, b, if starts { None } else { Some(*c) }, flags);
    });
}

/// A term of the fp16 adder: `sig * 2^(exponent - 127 - 28)`; products are not normalised.
#[derive(Clone, Copy, Debug)]
struct Term {
    negative: bool,
    exponent: i32,
    sig: u64,
}

/// What a term may be besides a number.
enum Special {
    Number(Term),
    Infinite(bool),
    Nan,
}

/// `a0*b0 + a1*b1 (+ c)` with the chip's single truncation (ISA sheet 3.7.1).
fn f16_step(a: u32, b: u32, c: Option<u32>, flags: &mut Flags) -> u32 {
    let terms = [
        product(a as u16, b as u16, flags),
        product((a >> 16) as u16, (b >> 16) as u16, flags),
        c.map_or(Special::Number(Term { negative: true, exponent: 0, sig: 0 }), |c| accumulator(c, flags)),
    ];
    let mut infinite = None;
    let mut nan = false;
    for term in &terms {
        match *term {
            Special::Nan => nan = true,
            Special::Infinite(negative) if infinite == Some(!negative) => {
                if !terms.iter().any(|term| matches!(term, Special::Nan)) {
                    flags.raise(Flags::NV);
                }
                nan = true;
            }
            Special::Infinite(negative) => infinite = Some(negative),
            Special::Number(_) => {}
        }
    }
    if nan {
        return fp::CANONICAL_NAN;
    }
    if let Some(negative) = infinite {
        return u32::from(negative) << 31 | fp::INFINITY;
    }
    let [Special::Number(p), Special::Number(q), Special::Number(mut r)] = terms else {
        return fp::CANONICAL_NAN;
    };
    if c.is_none() {
        // Without a third term the sign of an exact zero is that of the two.
        r.negative = p.negative && q.negative;
    }
    sum(p, q, r, flags)
}

fn product(a: u16, b: u16, flags: &mut Flags) -> Special {
    let negative = (a ^ b) >> 15 == 1;
    let (exponent_a, exponent_b) = (a >> 10 & 0x1F, b >> 10 & 0x1F);
    let (fraction_a, fraction_b) = (u64::from(a & 0x3FF), u64::from(b & 0x3FF));
    let (infinite_a, infinite_b) = (exponent_a == 31 && fraction_a == 0, exponent_b == 31 && fraction_b == 0);
    let (nan_a, nan_b) = (exponent_a == 31 && fraction_a != 0, exponent_b == 31 && fraction_b != 0);
    let (zero_a, zero_b) = (exponent_a == 0, exponent_b == 0);
    if zero_a && fraction_a != 0 || zero_b && fraction_b != 0 {
        flags.raise(Flags::ID);
    }
    const QUIET: u64 = 0x200;
    if nan_a && fraction_a & QUIET == 0 || nan_b && fraction_b & QUIET == 0 {
        flags.raise(Flags::NV);
    }
    if nan_a || nan_b {
        return Special::Nan;
    }
    if infinite_a && zero_b || zero_a && infinite_b {
        flags.raise(Flags::NV);
        return Special::Nan;
    }
    if infinite_a || infinite_b {
        return Special::Infinite(negative);
    }
    if zero_a || zero_b {
        return Special::Number(Term { negative, exponent: 0, sig: 0 });
    }
    Special::Number(Term {
        negative,
        exponent: i32::from(exponent_a) + i32::from(exponent_b) + 97,
        sig: ((1024 + fraction_a) * (1024 + fraction_b)) << 8,
    })
}

fn accumulator(c: u32, flags: &mut Flags) -> Special {
    let negative = c >> 31 == 1;
    let exponent = (c >> 23 & 0xFF) as i32;
    let fraction = u64::from(c & 0x007F_FFFF);
    match exponent {
        255 if fraction == 0 => Special::Infinite(negative),
        255 => {
            if fraction & 0x40_0000 == 0 {
                flags.raise(Flags::NV);
            }
            Special::Nan
        }
        0 => {
            if fraction != 0 {
                flags.raise(Flags::ID);
            }
            Special::Number(Term { negative, exponent: 0, sig: 0 })
        }
        _ => Special::Number(Term { negative, exponent, sig: ((1 << 23) + fraction) << 5 }),
    }
}

/// The chip's three-operand adder: two smaller terms are aligned to the largest exponent with 25 fraction bits.
fn sum(p: Term, q: Term, r: Term, flags: &mut Flags) -> u32 {
    let (high, middle, low) = if r.exponent >= p.exponent && r.exponent >= q.exponent {
        (r, q, p)
    } else if p.exponent >= q.exponent {
        (p, q, r)
    } else {
        (q, p, r)
    };
    // A term relative to the high one, and whether bits of it are lost.
    let align = |term: Term| {
        let shift = (high.exponent - term.exponent + 3).min(63) as u32;
        let kept = (term.sig >> shift) as i64;
        let lost = term.sig & ((1 << shift) - 1) != 0;
        let opposite = term.negative != high.negative;
        (if opposite { -kept - i64::from(lost) } else { kept }, lost, opposite)
    };
    let (middle, middle_lost, middle_opposite) = align(middle);
    let (low, low_lost, low_opposite) = align(low);
    let total = (high.sig >> 3) as i64 + middle + low;
    // Whether bits were lost at all, and whether the low term lost bits against the sign of the high one.
    let fuzzy = middle_lost || low_lost;
    let much = low_lost && low_opposite;

    let (mut negative, mut magnitude) = (high.negative, total);
    if total < 0 {
        negative = !negative;
        magnitude = -total - i64::from(fuzzy);
    }
    if magnitude == 0 {
        if total == 0 && !fuzzy {
            negative &= !(middle_opposite || low_opposite);
        } else if fuzzy && (total == 0) == much {
            // One unit is left, or nothing, by what was lost.
            magnitude = 1;
        }
    }
    if fuzzy {
        flags.raise(Flags::NX);
    }
    let sign = u32::from(negative) << 31;
    if magnitude == 0 {
        return sign;
    }
    let width = 64 - (magnitude as u64).leading_zeros() as i32;
    let exponent = high.exponent - 26 + width;
    if exponent <= 0 {
        flags.raise(Flags::UF | Flags::NX);
        return sign;
    }
    if exponent >= 255 {
        flags.raise(Flags::OF | Flags::NX);
        return sign | 0x7F7F_FFFF;
    }
    let fraction = if width > 24 {
        let drop = width - 24;
        if magnitude & ((1 << drop) - 1) != 0 {
            flags.raise(Flags::NX);
        }
        magnitude >> drop
    } else {
        magnitude << (24 - width)
    };
    sign | (exponent as u32) << 23 | fraction as u32 & 0x007F_FFFF
}
