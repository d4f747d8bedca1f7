//! The platform of fast mode: flat memory that every hart sees at once, and real host atomics.

use super::turn::Station;
use crate::hart::Hart;
use crate::memory::{region, Mapping, Memory, Region, Window, OPEN_BASE, OWN_SCRATCHPAD, SCRATCHPAD_BYTES};
use crate::platform::{Atomic, Level, Outcome, Platform, Windows};
use crate::sync::{Board, WaitFor};
use crate::tensor::{Engine, Outside, Step, Unit};
use crate::trap::{Cause, Trap};

const LINE: u64 = 64;

/// Bit 3 of tensor_error: a credit counter has overflowed.
const CREDIT_OVERFLOW: u16 = 1 << 3;

/// What one minion's harts can reach. Its tensor engine may reach it through somebody who watches.
pub(super) struct Fast<'a, O> {
    /// DRAM again, next to the code that uses it most.
    dram: &'a Mapping,
    memory: &'a Memory,
    engine: Engine<'a, O>,
    /// What the last blocked instruction waits for.
    waiting: Option<WaitFor>,
    /// A trap of an operation that completed outside its instruction.
    late: Option<Trap>,
}

impl<'a, O: Outside> Fast<'a, O> {
    pub fn new(memory: &'a Memory, outside: O, board: &'a Board, unit: &'a mut Unit, exact_flags: bool) -> Self {
        let engine = Engine { unit, outside, board, exact_flags };
        Fast { dram: &memory.dram, memory, engine, waiting: None, late: None }
    }

    /// Who watches.
    #[inline]
    pub fn outside(&self) -> &O {
        &self.engine.outside
    }

    /// Who watches.
    #[inline]
    pub fn outside_mut(&mut self) -> &mut O {
        &mut self.engine.outside
    }

    /// Who watches, and the tensor engine's state.
    pub fn outside_and_unit(&mut self) -> (&mut O, &Unit) {
        (&mut self.engine.outside, self.engine.unit)
    }

    /// What harts share.
    pub fn board(&self) -> &'a Board {
        self.engine.board
    }

    /// Accesses that are not plain DRAM: split at line boundaries, so that each part lies in one region.
    #[inline(never)]
    fn load_slow<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        let addr = region::canonical(addr);
        if let Some(offset) = self.scratchpad::<N>(hart, level, addr) {
            if let Some(bytes) = self.memory.scratchpads.load(offset) {
                return Ok(bytes);
            }
        }
        let mut bytes = [0; N];
        for (at, len) in self.parts::<N>(hart, level, addr, Cause::LoadAccess)? {
            let memory = self.memory;
            match memory.classify(shire(hart), addr + at) {
                Region::Register(register) if plain_double::<N>(level, addr) => {
                    let value = self.engine.board.load_register(register).ok_or(trap(Cause::LoadAccess, addr))?;
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
                Region::Missing => return Err(missing(Cause::LoadAccess, addr + at, plain_double::<N>(level, addr))),
                region => {
                    let out = &mut bytes[at as usize..(at + len) as usize];
                    let read = memory.backing(region).and_then(|(bytes, offset)| bytes.read(offset as u64, out));
                    read.ok_or(trap(Cause::LoadAccess, addr + at))?;
                }
            }
        }
        Ok(bytes)
    }

    #[inline(never)]
    fn store_slow<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        let addr = region::canonical(addr);
        if let Some(offset) = self.scratchpad::<N>(hart, level, addr) {
            if let Some(()) = self.memory.scratchpads.store(offset, data) {
                return Ok(());
            }
        }
        // No part may be written unless all can be.
        for (at, len) in self.parts::<N>(hart, level, addr, Cause::StoreAccess)? {
            let memory = self.memory;
            match memory.classify(shire(hart), addr + at) {
                Region::Register(register) if plain_double::<N>(level, addr) => {
                    let value = u64::from_le_bytes(std::array::from_fn(|i| data[i % N]));
                    let stored = self.engine.board.store_register(register, value, hart.clock);
                    stored.ok_or(trap(Cause::StoreAccess, addr))?;
                }
                Region::Missing => return Err(missing(Cause::StoreAccess, addr + at, plain_double::<N>(level, addr))),
                region => {
                    let source = &data[at as usize..(at + len) as usize];
                    let stored = memory.backing(region).and_then(|(bytes, offset)| bytes.write(offset as u64, source));
                    stored.ok_or(trap(Cause::StoreAccess, addr + at))?;
                }
            }
        }
        Ok(())
    }

    /// Where in the scratchpads an access inside one line lies, if it does.
    fn scratchpad<const N: usize>(&self, hart: &Hart, level: Level, addr: u64) -> Option<u64> {
        let size = N as u64;
        let whole = addr % LINE + size <= LINE && (level == Level::L1 || addr.is_multiple_of(size));
        match self.memory.classify(shire(hart), addr) {
            Region::Scratchpad(offset) if whole => Some(offset),
            _ => None,
        }
    }

    /// The pieces of an access as (offset, length), after checking that the whole is allowed as far as alignment and
    /// regions tell.
    pub fn parts<const N: usize>(
        &self,
        hart: &Hart,
        level: Level,
        addr: u64,
        cause: Cause,
    ) -> Result<impl Iterator<Item = (u64, u64)>, Trap> {
        let size = N as u64;
        if level != Level::L1 && !addr.is_multiple_of(size) {
            return Err(trap(cause, addr));
        }
        let first = (LINE - addr % LINE).min(size);
        if first < size {
            for at in [0, first] {
                match self.memory.classify(shire(hart), addr + at) {
                    Region::Dram(_) | Region::Scratchpad(_) => {}
                    Region::Missing => return Err(missing(cause, addr + at, false)),
                    Region::Register(_) | Region::Closed => return Err(trap(cause, addr + at)),
                }
            }
        }
        Ok([(0, first), (first, size - first)].into_iter().filter(|&(_, len)| len > 0))
    }

    #[cold]
    fn atomic_slow(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        let addr = region::canonical(addr);
        let region = self.atomic_target(hart, level, addr, wide)?;
        let done = self.memory.backing(region).and_then(|(bytes, at)| bytes.atomic(at as u64, wide, op, operand));
        done.ok_or(trap(Cause::StoreAccess, addr))
    }

    /// The memory that an atomic acts on, if it may.
    pub fn atomic_target(&self, hart: &Hart, level: Level, addr: u64, wide: bool) -> Result<Region, Trap> {
        match self.memory.classify(shire(hart), addr) {
            // The L2's atomics do not work on its scratchpad.
            Region::Scratchpad(_) | Region::Missing if level != Level::L3 => Err(trap(Cause::StoreAccess, addr)),
            _ if !addr.is_multiple_of(if wide { 8 } else { 4 }) => Err(trap(Cause::StoreAccess, addr)),
            Region::Missing => Err(missing(Cause::StoreAccess, addr, false)),
            Region::Register(_) | Region::Closed => Err(trap(Cause::StoreAccess, addr)),
            region => Ok(region),
        }
    }

    fn take_credit(&mut self, hart: &mut Hart, counter: u8) -> Outcome {
        let (minion, thread) = (usize::from(hart.id >> 1 & 31), usize::from(hart.id & 1));
        let credits = &self.engine.board.shires[shire(hart) as usize].minions[minion][thread];
        match credits.take(usize::from(counter)) {
            Some(sent) => {
                hart.clock = hart.clock.max(sent);
                Outcome::Done(0)
            }
            None => {
                self.waiting = Some(WaitFor::Credit(counter));
                Outcome::Block
            }
        }
    }

    /// flb: whether this hart is the last to arrive.
    fn arrive(&mut self, hart: &mut Hart, value: u64) -> u64 {
        let barrier = &self.engine.board.shires[shire(hart) as usize].barriers[(value & 31) as usize];
        match barrier.arrive((value >> 5) as u8, hart.clock) {
            Some(latest) => {
                hart.clock = latest;
                1
            }
            None => 0,
        }
    }
}

impl<O: Outside> Platform for Fast<'_, O> {
    const TRANSLATES: bool = true;

    fn windows(&self, hart: &Hart) -> Option<Windows> {
        let offset = u64::from(shire(hart)) * SCRATCHPAD_BYTES;
        Some(Windows {
            dram: Window::new(OPEN_BASE, self.dram, 0, self.dram.len() as u64)?,
            scratchpad: Window::new(OWN_SCRATCHPAD, &self.memory.scratchpads, offset, SCRATCHPAD_BYTES)?,
        })
    }

    #[inline(always)]
    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        if level == Level::L1 || addr.is_multiple_of(N as u64) {
            if let Some(bytes) = self.dram.load(addr.wrapping_sub(OPEN_BASE)) {
                return Ok(bytes);
            }
        }
        self.load_slow(hart, level, addr)
    }

    #[inline(always)]
    fn quick_load(&mut self, _: &Hart, addr: u64) -> Option<[u8; 32]> {
        self.dram.load(addr.wrapping_sub(OPEN_BASE))
    }

    #[inline(always)]
    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        if level == Level::L1 || addr.is_multiple_of(N as u64) {
            if let Some(()) = self.dram.store(addr.wrapping_sub(OPEN_BASE), data) {
                return Ok(());
            }
        }
        self.store_slow(hart, level, addr, data)
    }

    #[inline]
    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        match self.dram.atomic(addr.wrapping_sub(OPEN_BASE), wide, op, operand) {
            Some(old) => Ok(old),
            None => self.atomic_slow(hart, level, addr, wide, op, operand),
        }
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        let offset = (addr & 0xFF_FFFF_FFFF).wrapping_sub(OPEN_BASE);
        self.dram.load(offset).map(u16::from_le_bytes).ok_or(trap(Cause::FetchAccess, addr))
    }

    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        match csr {
            0x810 => self.engine.unit.clear_scratchpad(),
            0x820 => return Ok(Outcome::Done(self.arrive(hart, value))),
            0x821 => return Ok(self.take_credit(hart, (value & 1) as u8)),
            // No interrupt ever comes, and none is needed: the firmware's exclusive mode is not modelled.
            0x822 => {}
            _ => {
                if let Step::Wait(what) = self.engine.write(hart, csr, value)? {
                    self.waiting = Some(what);
                    return Ok(Outcome::Block);
                }
            }
        }
        Ok(Outcome::Done(0))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn quick_write<const CSR: u16>(&mut self, hart: &mut Hart, value: u64) -> bool {
        self.engine.quick_write::<CSR>(hart, value)
    }

    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap> {
        let value = match csr {
            0xC03 => hart.clock,
            0xC04 | 0xC05 => hart.retired,
            0xC06..=0xC08 => 0,
            0xCC0 => {
                let (minion, thread) = (usize::from(hart.id >> 1 & 31), usize::from(hart.id & 1));
                u64::from(self.engine.board.shires[shire(hart) as usize].minions[minion][thread].view())
            }
            // Message ports are disabled.
            _ => return Err(trap(Cause::IllegalInstruction, 0)),
        };
        Ok(Outcome::Done(value))
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        match self.engine.drain(hart) {
            Ok(Step::Done) => true,
            Ok(Step::Wait(what)) => {
                self.waiting = Some(what);
                false
            }
            Err(trap) => {
                self.late = Some(trap);
                false
            }
        }
    }
}

impl<O: Outside> Station for Fast<'_, O> {
    fn refresh(&mut self, hart: &mut Hart) {
        let (minion, thread) = (usize::from(hart.id >> 1 & 31), usize::from(hart.id & 1));
        if self.engine.board.shires[shire(hart) as usize].minions[minion][thread].overflowed() {
            hart.tensor_error |= CREDIT_OVERFLOW;
        }
    }

    fn waiting(&self) -> Option<WaitFor> {
        self.waiting
    }

    fn take_late(&mut self) -> Option<Trap> {
        self.late.take()
    }
}

fn trap(cause: Cause, tval: u64) -> Trap {
    Trap { cause, tval }
}

fn shire(hart: &Hart) -> u32 {
    u32::from(hart.id >> 6)
}

/// The exception of an access to what does not exist: a bus error, but for accesses that a register would not allow
/// either. `plain` says that this is an access for registers.
#[cold]
fn missing(cause: Cause, addr: u64, plain: bool) -> Trap {
    let refused = region::is_register(addr) && !plain;
    trap(if refused { cause } else { Cause::BusError }, addr)
}

/// ESRs take aligned 8-byte accesses of the normal kind only.
fn plain_double<const N: usize>(level: Level, addr: u64) -> bool {
    N == 8 && level == Level::L1 && addr.is_multiple_of(8)
}
