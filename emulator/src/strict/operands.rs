//! What the operands of a minion's tensor engine mean: bad bytes on their way through scratchpad lines, the B buffer,
//! accumulators and stores.

use super::finding::{Fault, Finding, Remnant};
use super::line::Mask;
use super::values::Bad;
use super::watch::Watch;
use crate::hart::Hart;
use crate::tensor::operation::{Element, Operation, Place, RegisterSet, Rows, Transform};
use std::collections::VecDeque;

/// What is bad in the engine.
#[derive(Debug)]
pub struct Operands {
    /// Bad bytes of the lines of the scratchpad and of the B buffer.
    lines: [Bad; 48],
    ten_b: [Bad; 16],
    /// Bad lanes of the integer accumulators, like the f registers.
    ten_c: [u32; 32],
    ten_c_origin: u32,
    /// Bad bytes of the rows that the stores under way take, in order.
    pub rows: VecDeque<Bad>,
}

impl Default for Operands {
    fn default() -> Self {
        let (lines, ten_b) = ([Bad::NONE; 48], [Bad::NONE; 16]);
        Operands { lines, ten_b, ten_c: [0; 32], ten_c_origin: 0, rows: VecDeque::new() }
    }
}

impl Operands {
    /// What a command finds means nothing.
    pub fn forget(&mut self) {
        let bad = Bad { mask: Mask::MAX, origin: 0 };
        self.lines = [bad; 48];
        self.ten_b = [bad; 16];
        self.ten_c = [u32::MAX; 32];
        self.ten_c_origin = 0;
    }
}

impl Watch<'_> {
    /// The bad bytes of the next row of a store under way.
    pub fn next_row(&mut self, place: u16) -> Bad {
        self.unit(place).operands.rows.pop_front().unwrap_or(Bad::NONE)
    }

    /// What the lines of a load hold once it has ended.
    pub fn loaded_lines(&mut self, hart: &Hart, place: u16, value: u64, to: Place, transform: Transform, rows: &[Bad]) {
        let count = (value & 15) as usize + 1;
        let first = (value >> 53 & 63) as usize;
        let enabled = |i: usize| to == Place::TenB || value >> 63 == 0 || hart.tensor_mask >> i & 1 == 1;
        let clean = rows.iter().all(|row| row.mask == 0);
        let offset = (value >> 4 & 3) as usize;
        for i in (0..count).filter(|&i| enabled(i)) {
            let mut bad = Bad::NONE;
            let mut take = |row: usize, from: usize, to: usize, size: usize| {
                let bytes = rows[row].mask >> from & ((1 << size) - 1);
                if bytes != 0 {
                    bad = Bad { mask: bad.mask | bytes << to, origin: rows[row].origin };
                }
            };
            if !clean {
                match transform {
                    Transform::Plain => bad = rows[i],
                    Transform::Interleave8 => {
                        for (r, c) in (0..4).flat_map(|r| (0..16).map(move |c| (r, c))) {
                            take(4 * i + r, c, 4 * c + r, 1);
                        }
                    }
                    Transform::Interleave16 => {
                        for (r, c) in (0..2).flat_map(|r| (0..16).map(move |c| (r, c))) {
                            take(2 * i + r, 2 * c, 4 * c + 2 * r, 2);
                        }
                    }
                    Transform::Transpose8 => (0..64).for_each(|j| take(j, (i + 16 * offset) % 64, j, 1)),
                    Transform::Transpose16 => {
                        (0..32).for_each(|j| take(j, 2 * ((i + 16 * (offset >> 1)) % 32), 2 * j, 2));
                    }
                    Transform::Transpose32 => (0..16).for_each(|j| take(j, 4 * i, 4 * j, 4)),
                }
            }
            let unit = self.unit(place);
            match to {
                Place::TenB => unit.operands.ten_b[i] = bad,
                Place::Lines(_) => unit.operands.lines[(first + i) % 48] = bad,
            }
        }
    }

    /// The bad bytes of a line; one that nothing has filled gets its reason here, at its first use.
    pub fn line_bad(&mut self, place: u16, line: usize) -> Bad {
        let bad = self.unit(place).operands.lines[line];
        self.with_reason(place, bad, Remnant::Line(line as u8))
    }

    fn with_reason(&mut self, place: u16, bad: Bad, remnant: Remnant) -> Bad {
        if bad.mask == 0 || bad.origin != 0 {
            return bad;
        }
        let fault = Fault::Remnant(remnant);
        let finding = Finding { fault, spot: self.spot(place), other: None, used: None, address: None };
        Bad { origin: self.findings.suspect(finding), ..bad }
    }

    pub fn register_bad(&mut self, place: u16, n: usize, set: RegisterSet) -> (u32, u32) {
        if set >> n & 1 == 0 {
            return (0, 0);
        }
        let spot = self.spot(place);
        self.harts[usize::from(place)].values.vector(n as u8, &mut self.findings, spot)
    }

    /// What a product makes of bad operands. `unit` has the lines; it is about to be issued.
    pub fn multiplied(&mut self, hart: &Hart, value: u64, operation: &Operation, unit: &crate::tensor::Unit) {
        let &Operation::Product { element, rows, depth, columns, b, first, .. } = operation else { return };
        let place = self.place(hart);
        let (first_a, first_b) = ((value >> 4 & 63) as usize, (value >> 12 & 63) as usize);
        let skip = (value >> 43 & 15) as usize;
        let enabled = |i: usize| value >> 63 == 0 || hart.tensor_mask >> i & 1 == 1;
        let a: Vec<Bad> = (0..rows).map(|i| self.line_bad(place, (first_a + i) % 48)).collect();
        let b_bad: Vec<Bad> = (0..depth)
            .map(|k| match b {
                Place::TenB => {
                    let bad = self.unit(place).operands.ten_b[k];
                    self.with_reason(place, bad, Remnant::TenB)
                }
                Place::Lines(_) => self.line_bad(place, (first_b + k) % 48),
            })
            .collect();
        let clean = a.iter().chain(&b_bad).all(|bad| bad.mask == 0);
        let to_registers = value >> 23 & 1 == 1;
        for (i, a) in a.iter().enumerate() {
            // Sixteen columns, a bit each.
            let mut columns_bad: u32 = 0;
            let mut origin = 0;
            if !clean && enabled(i) {
                for (k, b) in b_bad.iter().enumerate() {
                    let at = (skip + k) % 16;
                    let word_bad = a.mask >> (4 * at) & 15 != 0;
                    let zero = !word_bad && unit.line(first_a + i).0[at] == 0 && !(first && k == 0);
                    if word_bad {
                        columns_bad |= 0xFFFF;
                        origin = a.origin;
                    } else if b.mask != 0 && !zero {
                        let words = (0..16).fold(0, |set, j| set | u32::from(b.mask >> (4 * j) & 15 != 0) << j);
                        columns_bad |= words;
                        origin = b.origin;
                    }
                }
            }
            columns_bad &= (1u32 << columns) - 1;
            for half in 0..columns.div_ceil(8) {
                let register = 2 * i + half;
                let lanes = if columns - 8 * half >= 8 { 0xFF } else { 0x0F };
                let bytes = super::values::lanes((columns_bad >> (8 * half)) as u8);
                let written = super::values::lanes(lanes);
                let untouched = !enabled(i) && !first;
                if element == Element::Int8 {
                    let unit = self.unit(place);
                    let old =
                        if first || untouched && !to_registers { 0 } else { unit.operands.ten_c[register] & written };
                    let mut sum = old | bytes;
                    if untouched && !to_registers {
                        sum = unit.operands.ten_c[register] & written;
                    }
                    let mut reason = if bytes != 0 { origin } else { unit.operands.ten_c_origin };
                    if sum != 0 && reason == 0 {
                        reason = self.with_reason(place, Bad { mask: 1, origin: 0 }, Remnant::TenC).origin;
                    }
                    if to_registers {
                        self.harts[usize::from(place)].values.set_vector(register as u8, written, sum, reason);
                    } else {
                        let unit = self.unit(place);
                        unit.operands.ten_c[register] = unit.operands.ten_c[register] & !written | sum;
                        if sum != 0 {
                            unit.operands.ten_c_origin = reason;
                        }
                    }
                } else if !untouched {
                    let (old, why) = match first {
                        true => (0, 0),
                        false => self.register_bad(place, register, 1 << register),
                    };
                    let bytes = bytes | old & written;
                    let origin = if origin != 0 { origin } else { why };
                    self.harts[usize::from(place)].values.set_vector(register as u8, written, bytes, origin);
                }
            }
        }
    }

    pub fn quantised(&mut self, place: u16, value: u64) {
        let rows = (value >> 51 & 15) as usize + 1;
        let first = (value >> 57 & 31) as usize;
        let columns = 4 * ((value >> 55 & 3) as usize + 1);
        let mut line = (value >> 45 & 63) as usize;
        for code in (0..10).map(|t| value >> (4 * t) & 15).take_while(|&code| code != 0) {
            if !(4..=7).contains(&code) {
                continue;
            }
            let bad = self.line_bad(place, line % 48);
            line += 1;
            if bad.mask == 0 {
                continue;
            }
            for row in 0..rows {
                for half in 0..columns.div_ceil(8) {
                    let register = ((first + 2 * row + half) % 32) as u8;
                    let bytes = match code {
                        4 | 6 => (bad.mask >> (32 * half)) as u32,
                        _ if bad.mask >> (4 * row) & 15 != 0 => u32::MAX,
                        _ => 0,
                    };
                    let lanes = super::values::lanes(if columns - 8 * half >= 8 { 0xFF } else { 0x0F });
                    let spot = self.spot(place);
                    let values = &mut self.harts[usize::from(place)].values;
                    let (old, known) = values.vector(register, &mut self.findings, spot);
                    let origin = if old != 0 { known } else { bad.origin };
                    values.set_vector(register, lanes, old | bytes, origin);
                }
            }
        }
    }

    pub fn stored_registers(&mut self, place: u16, value: u64, to: Rows) {
        let step = (value >> 62) as usize + 1;
        let mut register = (value >> 57 & 31) as usize;
        for _ in 0..to.rows {
            let mut bad = Bad::NONE;
            for half in 0..(to.bytes as usize).div_ceil(32) {
                let (bytes, origin) = self.register_bad(place, register, 1 << register);
                let bytes = if to.bytes == 16 { bytes & 0xFFFF } else { bytes };
                if bytes != 0 {
                    bad = Bad { mask: bad.mask | Mask::from(bytes) << (32 * half), origin };
                }
                register = (register + step) % 32;
            }
            self.unit(place).operands.rows.push_back(bad);
        }
    }
}
