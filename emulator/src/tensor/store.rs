//! tensor_store (ISA sheet 3.9).

use super::operation::{self, Operation, Rows};
use super::{address, bits, error, refuse, Engine, Op, Outside, Step};
use crate::hart::{Hart, Vector};
use crate::memory::{region, Refusal};
use crate::trap::Trap;

/// A store from registers, as sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegisterStore {
    addr: u64,
    stride: u64,
    first: usize,
    step: usize,
    rows: u64,
    /// Row size in 16-byte pieces: 1, 2 or 4.
    pieces: usize,
}

impl RegisterStore {
    /// What it is to those who watch.
    fn operation(&self) -> Operation {
        let registers = self.rows as usize * self.pieces.div_ceil(2);
        let bytes = 16 * self.pieces as u32;
        Operation::StoreRegisters {
            from: operation::registers(self.first, self.step, registers),
            to: Rows { addr: self.addr, stride: self.stride, rows: self.rows as u32, bytes, mask: u16::MAX },
        }
    }
}

impl<O: Outside> Engine<'_, O> {
    pub(super) fn issue_store(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        let step = bits(value, 63, 62) as usize + 1;
        let rows = bits(value, 54, 51) + 1;
        if bits(value, 48, 48) == 1 {
            return self.store_lines(hart, value, step, rows).map(|()| Step::Done);
        }
        let pieces = bits(value, 56, 55) as usize + 1;
        let partners = bits(value, 50, 49) as usize + 1;
        // Cooperating minions together fill at most one line; each stores its own piece.
        if pieces == 3 || partners == 3 || pieces * partners > 4 {
            hart.tensor_error |= error::STORE_SHAPE;
            return Ok(Step::Done);
        }
        let store = RegisterStore {
            addr: address(value, 4),
            stride: address(hart.x[31], 4),
            first: bits(value, 61, 57) as usize,
            step,
            rows,
            pieces,
        };
        self.enqueue(hart, Op::Store(store), || store.operation())
    }

    pub(super) fn store_registers(&mut self, hart: &mut Hart, store: &RegisterStore) -> Result<(), Trap> {
        if store.pieces == 4 && store.addr.is_multiple_of(64) && store.stride.is_multiple_of(64) {
            if let Some((memory, offset)) = self.outside.flat(hart, store.addr, store.stride, store.rows) {
                for row in 0..store.rows {
                    let register = store.first + 2 * store.step * row as usize;
                    let (first, second) = (&hart.f[register % 32], &hart.f[(register + store.step) % 32]);
                    let at = offset + store.stride * row;
                    let stored = memory.store(at, bytes(first)).and_then(|()| memory.store(at + 32, bytes(second)));
                    debug_assert!(stored.is_some(), "all rows are inside");
                }
                return Ok(());
            }
        }
        let mut register = store.first;
        let mut next = || {
            let current = register;
            register = (register + store.step) % 32;
            current
        };
        for row in 0..store.rows {
            let addr = row_address(store.addr, store.stride, row) & !(16 * store.pieces as u64 - 1);
            let first = bytes(&hart.f[next()]);
            let result = match store.pieces {
                1 => self.outside.write_block::<16>(hart, addr, std::array::from_fn(|i| first[i])),
                2 => self.outside.write_block(hart, addr, first),
                _ => {
                    let second = bytes(&hart.f[next()]);
                    let mut line = [0; 64];
                    line[..32].copy_from_slice(&first);
                    line[32..].copy_from_slice(&second);
                    self.outside.write_block(hart, addr, line)
                }
            };
            if let Err(refusal) = result {
                return refuse(hart, refusal, addr);
            }
        }
        Ok(())
    }

    /// From the scratchpad, at issue.
    fn store_lines(&mut self, hart: &mut Hart, value: u64, step: usize, rows: u64) -> Result<(), Trap> {
        if !self.scratchpad_on(hart) {
            return Ok(());
        }
        let (addr, stride) = (address(value, 6), address(hart.x[31], 6));
        let first = bits(value, 61, 56) as usize;
        let to = Rows { addr, stride, rows: rows as u32, bytes: 64, mask: u16::MAX };
        let from = operation::lines(first, step, rows as usize);
        self.announce(hart, || Operation::StoreLines { from, to });
        for row in 0..rows {
            let addr = row_address(addr, stride, row);
            let line = self.unit.line(first + step * row as usize).to_bytes();
            let result: Result<(), Refusal> = self.outside.write_block(hart, addr, line);
            if let Err(refusal) = result {
                return refuse(hart, refusal, addr);
            }
        }
        Ok(())
    }
}

fn row_address(addr: u64, stride: u64, row: u64) -> u64 {
    region::canonical(addr.wrapping_add(stride.wrapping_mul(row)))
}

fn bytes(register: &Vector) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, lane) in bytes.chunks_exact_mut(4).zip(register.0) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    bytes
}
