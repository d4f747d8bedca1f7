//! The tensor engine of a minion: scratchpad, loads, matrix products, quantisation, stores, reductions (ISA sheet 3).
//!
//! Loads, cache operations and stores from the scratchpad act at issue, except that a cooperative load waits for its
//! group. Products, quantisation, register stores and reductions go through one queue in order. Only a
//! reduction ever waits, so the queue is empty unless one is under way.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod cache;
mod exact;
mod fma;
mod load;
pub mod operation;
mod outside;
mod quant;
#[cfg(target_arch = "x86_64")]
mod quick;
mod reduce;
mod store;

pub use outside::{CacheAction, Outside};

use crate::hart::{Hart, Vector};
use crate::memory::Refusal;
use crate::sync::{Board, Gathering, WaitFor};
use crate::trap::{Cause, Trap};
use operation::Operation;
use std::collections::VecDeque;

/// How an operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Issued, or complete.
    Done,
    /// To be tried again.
    Wait(WaitFor),
}

/// Bits of tensor_error (ISA sheet 3.4b).
mod error {
    pub const TRANSFORM: u16 = 1 << 1;
    pub const SCRATCHPAD_OFF: u16 = 1 << 4;
    pub const PAIRING: u16 = 1 << 6;
    pub const MEMORY: u16 = 1 << 7;
    pub const STORE_SHAPE: u16 = 1 << 8;
    pub const REDUCTION: u16 = 1 << 9;
}

/// Lines of the L1 scratchpad that operations name.
const LINES: usize = 48;

/// One line of the L1 scratchpad as 32-bit words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Line(pub [u32; 16]);

impl Line {
    fn from_bytes(bytes: [u8; 64]) -> Self {
        let mut line = Line::default();
        for (word, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        line
    }

    fn to_bytes(self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (bytes, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// Multiply-accumulates, counted by the operations' shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Macs {
    pub f32: u64,
    pub f16: u64,
    pub int8: u64,
}

impl std::ops::AddAssign for Macs {
    fn add_assign(&mut self, other: Macs) {
        self.f32 += other.f32;
        self.f16 += other.f16;
        self.int8 += other.int8;
    }
}

/// What a minion's tensor engine keeps between operations.
#[derive(Debug, Default)]
pub struct Unit {
    lines: Scratchpad,
    /// B buffer, filled by loads with TenB set.
    ten_b: [Line; 16],
    /// Accumulators of int8 products, laid out like the f registers.
    ten_c: [Vector; 32],
    /// Rows of a B buffer load that no product has consumed.
    setup: Option<u8>,
    /// Loads put off: ids 0 and 1, B buffer.
    loads: [Option<(load::Load, Option<Gathering>)>; 3],
    queue: VecDeque<Op>,
    macs: Macs,
}

#[derive(Debug)]
struct Scratchpad([Line; LINES]);

impl Scratchpad {
    /// A line, by number modulo 48.
    fn get(&self, n: usize) -> &Line {
        &self.0[n % LINES]
    }
}

impl Default for Scratchpad {
    fn default() -> Self {
        Scratchpad([Line::default(); LINES])
    }
}

impl Unit {
    /// Back to the state at kernel entry.
    pub fn reset(&mut self) {
        self.clear_scratchpad();
        self.ten_b.fill(Line::default());
        self.ten_c.fill(Vector::default());
        self.setup = None;
        self.loads.fill(None);
        self.queue.clear();
        self.macs = Macs::default();
    }

    /// Zeroes all lines.
    pub fn clear_scratchpad(&mut self) {
        self.lines.0.fill(Line::default());
    }

    /// Multiply-accumulates so far.
    pub fn macs(&self) -> Macs {
        self.macs
    }

    /// A line of the scratchpad, by number modulo 48.
    pub fn line(&self, n: usize) -> &Line {
        self.lines.get(n)
    }

    /// A line of the scratchpad, by number modulo 48.
    pub fn line_mut(&mut self, n: usize) -> &mut Line {
        &mut self.lines.0[n % LINES]
    }
}

/// An operation of the in-order queue, with what it sampled at issue.
#[derive(Clone, Debug)]
enum Op {
    Product(fma::Product),
    Quant(quant::Quant),
    Store(store::RegisterStore),
    Reduction(reduce::Reduction),
}

impl Op {
    /// The tensor_wait event that stands for its completion.
    fn event(&self) -> u64 {
        match self {
            Op::Product(_) => 7,
            Op::Store(_) => 8,
            Op::Reduction(_) => 9,
            Op::Quant(_) => 10,
        }
    }
}

/// A minion's tensor engine at work.
pub struct Engine<'a, O> {
    /// Its state.
    pub unit: &'a mut Unit,
    /// What it reaches.
    pub outside: O,
    /// Its partners.
    pub board: &'a Board,
    /// Whether floating-point flags are of interest; without, native arithmetic may leave them out.
    pub exact_flags: bool,
}

impl<O: Outside> Engine<'_, O> {
    /// A write to one of the engine's CSRs by either hart of the minion; only hart 0 may start operations on registers.
    pub fn write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Step, Trap> {
        match csr {
            0x800 => self.issue_reduction(hart, value),
            0x801 => self.issue_product(hart, value),
            0x806 => self.issue_quant(hart, value),
            0x830 => self.wait(hart, value & 0xF),
            0x83F => self.issue_load(hart, value),
            0x85F => self.load_l2(hart, value),
            0x87F => self.issue_store(hart, value),
            0x81F | 0x89F | 0x8BF | 0x8DF | 0x8FF => self.cache_operation(hart, csr, value),
            _ => Err(illegal()),
        }
    }

    /// tensor_wait.
    fn wait(&mut self, hart: &mut Hart, event: u64) -> Result<Step, Trap> {
        let step = match event {
            0 | 1 if hart.id & 1 == 0 => self.finish_load(hart, event as usize)?,
            7..=10 if hart.id & 1 == 0 => self.settled(hart, event)?,
            _ => Step::Done,
        };
        if step == Step::Done {
            self.announce(hart, || Operation::Wait { event });
        }
        Ok(step)
    }

    /// Whether nothing of `event` is in the queue.
    fn settled(&mut self, hart: &mut Hart, event: u64) -> Result<Step, Trap> {
        match self.drain(hart)? {
            Step::Wait(what) if self.unit.queue.iter().any(|op| op.event() == event) => Ok(Step::Wait(what)),
            _ => Ok(Step::Done),
        }
    }

    /// Puts an operation into the queue, and runs it if nothing is before it. At most one of a kind may be pending.
    fn enqueue(&mut self, hart: &mut Hart, mut op: Op, operation: impl FnOnce() -> Operation) -> Result<Step, Trap> {
        let ahead = self.drain(hart)?;
        if let Step::Wait(what) = ahead {
            if self.unit.queue.iter().any(|other| other.event() == op.event()) {
                return Ok(Step::Wait(what));
            }
        }
        self.announce(hart, operation);
        if ahead == Step::Done && self.execute(hart, &mut op)? == Step::Done {
            return Ok(Step::Done);
        }
        self.unit.queue.push_back(op);
        hart.vpu_busy = true;
        Ok(Step::Done)
    }

    /// Runs what is in the queue as far as partners allow, on behalf of hart 0.
    pub fn drain(&mut self, hart: &mut Hart) -> Result<Step, Trap> {
        while let Some(mut op) = self.unit.queue.pop_front() {
            if let wait @ Step::Wait(_) = self.execute(hart, &mut op)? {
                self.unit.queue.push_front(op);
                return Ok(wait);
            }
        }
        hart.vpu_busy = false;
        Ok(Step::Done)
    }

    fn execute(&mut self, hart: &mut Hart, op: &mut Op) -> Result<Step, Trap> {
        match op {
            Op::Product(product) => self.multiply(hart, product),
            Op::Quant(quant) => self.quantise(hart, quant),
            Op::Store(store) => return self.store_registers(hart, store).map(|()| Step::Done),
            Op::Reduction(reduction) => return Ok(self.reduce(hart, reduction)),
        }
        Ok(Step::Done)
    }

    /// Tells whoever watches, if anybody does.
    #[inline(always)]
    fn announce(&mut self, hart: &mut Hart, operation: impl FnOnce() -> Operation) {
        if O::WATCHES {
            self.outside.issued(hart, &operation());
        }
    }

    /// False, with the error noted, when the scratchpad is switched off.
    fn scratchpad_on(&self, hart: &mut Hart) -> bool {
        let on = hart.ucache_control & 3 == 3;
        if !on {
            hart.tensor_error |= error::SCRATCHPAD_OFF;
        }
        on
    }
}

/// Faults of tensor operations end up in tensor_error, bus errors do not.
fn refuse(hart: &mut Hart, refusal: Refusal, addr: u64) -> Result<(), Trap> {
    match refusal {
        Refusal::Fault => {
            hart.tensor_error |= error::MEMORY;
            Ok(())
        }
        Refusal::Bus => Err(Trap { cause: Cause::BusError, tval: addr }),
    }
}

/// The executor knows the instruction word and fills it in.
fn illegal() -> Trap {
    Trap { cause: Cause::IllegalInstruction, tval: 0 }
}

fn shire(hart: &Hart) -> u32 {
    u32::from(hart.id >> 6)
}

/// Global number of a hart's minion.
fn minion(hart: &Hart) -> u16 {
    hart.id >> 1
}

/// Bits `hi..=lo` of a CSR value.
const fn bits(value: u64, hi: u32, lo: u32) -> u64 {
    value >> lo & (u64::MAX >> (63 - (hi - lo)))
}

/// The address in bits 47:`low` of a CSR value, completed as the chip does.
fn address(value: u64, low: u32) -> u64 {
    crate::memory::region::canonical(value) & (u64::MAX << low)
}
