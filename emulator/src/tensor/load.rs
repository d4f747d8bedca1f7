//! tensor_load and tensor_load_l2 (ISA sheet 3.5, 3.6).

use super::operation::{self, Operation, Place, Rows, Transform};
use super::{address, bits, error, minion, refuse, shire, Engine, Line, Outside, Step};
use crate::hart::Hart;
use crate::memory::{region, Refusal, SCRATCHPAD_BYTES};
use crate::platform::Level;
use crate::sync::{Gathering, WaitFor};
use crate::trap::{Cause, Trap};

/// A decoded load, with what it sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    addr: u64,
    stride: u64,
    transform: u64,
    first: usize,
    rows: usize,
    /// Piece of the source rows that interleaving and transposing take.
    offset: u64,
    /// Bit i enables destination line i.
    mask: u16,
    ten_b: bool,
}

impl Load {
    /// What it is to those who watch.
    fn operation(&self, slot: usize, group: u32) -> Operation {
        let enabled = (0..self.rows).filter(|i| self.mask >> i & 1 == 1);
        let to = match self.ten_b {
            true => Place::TenB,
            false => Place::Lines(enabled.fold(0, |set, i| set | operation::lines(self.first + i, 1, 1))),
        };
        // How many source rows make the lines, and where in a row of bytes the pieces lie.
        let (transform, rows, bytes) = match self.transform {
            1 => (Transform::Interleave8, 4 * self.rows, 16),
            2 => (Transform::Interleave16, 2 * self.rows, 32),
            5 => (Transform::Transpose8, 64, 64),
            6 => (Transform::Transpose16, 32, 64),
            7 => (Transform::Transpose32, 16, 64),
            _ => (Transform::Plain, self.rows, 64),
        };
        let addr = if bytes < 64 { self.addr + ((16 * self.offset) & !(bytes - 1)) } else { self.addr };
        let mask = if transform == Transform::Plain { self.mask } else { u16::MAX };
        let from = Rows { addr, stride: self.stride, rows: rows as u32, bytes: bytes as u32, mask };
        Operation::Load { slot, to, from, transform, group }
    }
}

impl<O: Outside> Engine<'_, O> {
    pub(super) fn issue_load(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        if !self.scratchpad_on(hart) {
            return Ok(Step::Done);
        }
        let x31 = hart.x[31];
        let ten_b = bits(value, 52, 52) == 1;
        let load = Load {
            addr: address(value, 6),
            stride: address(x31, 6),
            transform: if ten_b { 0 } else { bits(value, 61, 59) },
            first: bits(value, 58, 53) as usize,
            rows: bits(value, 3, 0) as usize + 1,
            offset: bits(value, 5, 4),
            mask: if value >> 63 == 1 && !ten_b { hart.tensor_mask } else { u16::MAX },
            ten_b,
        };
        let slot = if ten_b { 2 } else { (x31 & 1) as usize };
        if let wait @ Step::Wait(_) = self.finish_load(hart, slot)? {
            return Ok(wait);
        }
        if matches!(load.transform, 3 | 4) {
            hart.tensor_error |= error::TRANSFORM;
            return Ok(Step::Done);
        }
        if ten_b {
            self.unit.setup = Some(load.rows as u8);
        }
        let gathering = (bits(value, 62, 62) == 1).then(|| {
            let cooperation = &self.board.shires[shire(hart) as usize].cooperation;
            cooperation.join(u32::from(minion(hart)) % 32, value, x31, hart.tensor_coop)
        });
        self.announce(hart, || load.operation(slot, gathering.as_ref().map_or(0, Gathering::members)));
        let delayed = self.outside.delays_load();
        let Some(gathering) = gathering else {
            if delayed {
                self.put_off(hart, slot, load, None);
                return Ok(Step::Done);
            }
            return self.load(hart, &load).map(|()| Step::Done);
        };
        if gathering.complete() {
            let harts = (0..32).filter(|m| gathering.members() >> m & 1 == 1).fold(0, |all, m| all | 1u64 << (2 * m));
            self.board.wake.harts(shire(hart), harts);
        }
        self.put_off(hart, slot, load, Some(gathering));
        if delayed {
            return Ok(Step::Done);
        }
        self.finish_load(hart, slot).map(|_| Step::Done)
    }

    fn put_off(&mut self, hart: &mut Hart, slot: usize, load: Load, gathering: Option<Gathering>) {
        self.unit.loads[slot] = Some((load, gathering));
        hart.loads_waiting |= 1 << slot;
    }

    /// Completes a load that was put off, unless its group is not complete.
    pub(super) fn finish_load(&mut self, hart: &mut Hart, slot: usize) -> Result<Step, Trap> {
        let complete = |gathering: &Option<Gathering>| gathering.as_ref().is_none_or(Gathering::complete);
        match self.unit.loads[slot].take_if(|(_, gathering)| complete(gathering)) {
            Some((load, _)) => {
                hart.loads_waiting &= !(1 << slot);
                self.load(hart, &load).map(|()| Step::Done)
            }
            None if self.unit.loads[slot].is_some() => Ok(Step::Wait(WaitFor::CooperativeLoad)),
            None => Ok(Step::Done),
        }
    }

    fn load(&mut self, hart: &mut Hart, load: &Load) -> Result<(), Trap> {
        if load.mask == u16::MAX && self.load_flat(hart, load).is_some() {
            return Ok(());
        }
        let rows = (0..load.rows).filter(|i| load.mask >> i & 1 == 1);
        match load.transform {
            5 => self.transpose::<1, 64>(hart, load, rows),
            6 => self.transpose::<2, 32>(hart, load, rows),
            7 => self.transpose_words(hart, load, rows),
            transform => {
                for row in rows {
                    let line = match transform {
                        0 => self.source::<64>(hart, Level::L2, load.addr, load.stride, row),
                        1 => self.interleave::<1, 4, 16>(hart, load, row),
                        _ => self.interleave::<2, 2, 32>(hart, load, row),
                    };
                    match line {
                        Ok(bytes) if load.ten_b => self.unit.ten_b[row] = Line::from_bytes(bytes),
                        Ok(bytes) => *self.unit.line_mut(load.first + row) = Line::from_bytes(bytes),
                        Err((refusal, addr)) => return refuse(hart, refusal, addr),
                    }
                }
                Ok(())
            }
        }
    }

    /// The loads that kernels use most, when nothing can go wrong on the way.
    #[inline]
    fn load_flat(&mut self, hart: &Hart, load: &Load) -> Option<()> {
        let rows = if load.transform == 7 { 16 } else { load.rows };
        let (bytes, offset) = self.outside.flat(hart, load.addr, load.stride, rows as u64)?;
        let source = |row: usize| {
            let line = bytes.load(offset + load.stride * row as u64);
            Line::from_bytes(line.expect("all rows are inside"))
        };
        match load.transform {
            0 if load.ten_b => (0..rows).for_each(|row| self.unit.ten_b[row] = source(row)),
            0 => (0..rows).for_each(|row| *self.unit.line_mut(load.first + row) = source(row)),
            7 => {
                let columns = transpose(&std::array::from_fn(source));
                for (i, column) in columns.iter().enumerate().take(load.rows) {
                    *self.unit.line_mut(load.first + i) = *column;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Source row `row` at `addr`, or why not and where.
    fn source<const N: usize>(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        stride: u64,
        row: usize,
    ) -> Result<[u8; N], (Refusal, u64)> {
        let addr = region::canonical(addr.wrapping_add(stride.wrapping_mul(row as u64)));
        self.outside.read_block(hart, level, addr).map_err(|refusal| (refusal, addr))
    }

    /// One line of `ROWS` source rows of `N` bytes, their elements of `SIZE` bytes taken in turn.
    fn interleave<const SIZE: usize, const ROWS: usize, const N: usize>(
        &mut self,
        hart: &Hart,
        load: &Load,
        line: usize,
    ) -> Result<[u8; 64], (Refusal, u64)> {
        // The offset counts 16-byte pieces; a wider row starts at a multiple of its width.
        let addr = load.addr + ((16 * load.offset) & !(N as u64 - 1));
        let mut bytes = [0; 64];
        for r in 0..ROWS {
            let row = self.source::<N>(hart, Level::L2, addr, load.stride, ROWS * line + r)?;
            for (column, element) in row.chunks_exact(SIZE).enumerate() {
                let at = (column * ROWS + r) * SIZE;
                bytes[at..at + SIZE].copy_from_slice(element);
            }
        }
        Ok(bytes)
    }

    /// Lines are columns of elements of `SIZE` bytes, taken from `ROWS` source rows, all of which are read.
    fn transpose<const SIZE: usize, const ROWS: usize>(
        &mut self,
        hart: &mut Hart,
        load: &Load,
        lines: impl Iterator<Item = usize>,
    ) -> Result<(), Trap> {
        let mut source = [[0u8; 64]; ROWS];
        for (row, bytes) in source.iter_mut().enumerate() {
            match self.source::<64>(hart, Level::L2, load.addr, load.stride, row) {
                Ok(row) => *bytes = row,
                Err((refusal, addr)) => return refuse(hart, refusal, addr),
            }
        }
        // The offset counts pieces of 16 columns of bytes; rows of halves have fewer pieces.
        let first = if SIZE == 1 { 16 * load.offset } else { 16 * (load.offset >> 1) } as usize;
        for i in lines {
            let from = (first + i) * SIZE;
            let mut bytes = [0; 64];
            for (element, row) in bytes.chunks_exact_mut(SIZE).zip(&source) {
                element.copy_from_slice(&row[from..from + SIZE]);
            }
            *self.unit.line_mut(load.first + i) = Line::from_bytes(bytes);
        }
        Ok(())
    }

    /// The transposition that kernels use most: 16 rows of 16 words.
    fn transpose_words(
        &mut self,
        hart: &mut Hart,
        load: &Load,
        lines: impl Iterator<Item = usize>,
    ) -> Result<(), Trap> {
        let mut source = [Line::default(); 16];
        for (row, line) in source.iter_mut().enumerate() {
            match self.source::<64>(hart, Level::L2, load.addr, load.stride, row) {
                Ok(bytes) => *line = Line::from_bytes(bytes),
                Err((refusal, addr)) => return refuse(hart, refusal, addr),
            }
        }
        let columns = transpose(&source);
        for i in lines {
            *self.unit.line_mut(load.first + i) = columns[i];
        }
        Ok(())
    }

    /// tensor_load_l2: memory to the shire's own L2 scratchpad.
    pub(super) fn load_l2(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        let first = bits(value, 62, 48) << 2 | bits(value, 5, 4);
        let mask = if value >> 63 == 1 { hart.tensor_mask } else { u16::MAX };
        let (addr, stride) = (address(value, 6), address(hart.x[31], 6));
        let own = u64::from(shire(hart)) * SCRATCHPAD_BYTES;
        let from = Rows { addr, stride, rows: bits(value, 3, 0) as u32 + 1, bytes: 64, mask };
        let event = 2 + (hart.x[31] & 1);
        self.announce(hart, || Operation::LoadL2 { event, offset: 64 * first, from });
        for row in (0..from.rows as usize).filter(|i| mask >> i & 1 == 1) {
            let bytes = match self.source::<64>(hart, Level::L3, addr, stride, row) {
                Ok(bytes) => bytes,
                Err((refusal, addr)) => return refuse(hart, refusal, addr).map(|()| Step::Done),
            };
            let offset = 64 * (first + row as u64);
            if offset >= SCRATCHPAD_BYTES {
                return Err(Trap { cause: Cause::BusError, tval: 0x8000_0000 | 0x7F << 23 | offset });
            }
            self.outside.write_scratchpad(hart, own + offset, bytes);
        }
        Ok(Step::Done)
    }
}

/// Line i of the result is word i of all lines.
fn transpose(lines: &[Line; 16]) -> [Line; 16] {
    #[cfg(target_arch = "x86_64")]
    if let Some(result) = super::avx2::transpose(lines) {
        return result;
    }
    std::array::from_fn(|i| Line(std::array::from_fn(|row| lines[row].0[i])))
}
