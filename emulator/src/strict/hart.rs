//! What a hart does besides accesses of shared memory: instructions, its stack, commands, and its end.

use super::finding::{Fault, Finding, Spot};
use super::line::{Active, Holder};
use super::values::Bad;
use super::watch::Watch;
use super::writes::Version;
use crate::code::Slot;
use crate::hart::Hart;
use crate::machine::stack;
use crate::memory::OPEN_BASE;
use et_isa::Op;

/// The state of a hart's floating-point unit that the compiler counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fp {
    /// The rounding mode.
    mode: u8,
    /// The lane mask m0.
    lanes: u8,
}

impl Default for Fp {
    fn default() -> Fp {
        Fp { mode: 0, lanes: 0xFF }
    }
}

impl Fp {
    #[inline]
    fn of(hart: &Hart) -> Fp {
        Fp { mode: (hart.fcsr >> 5 & 7) as u8, lanes: hart.m[0] }
    }
}

/// Which instructions changed the state last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastChange {
    state: Fp,
    mode: Option<Spot>,
    lanes: Option<Spot>,
}

impl LastChange {
    fn change(&mut self, to: Fp, by: Spot) {
        if to.mode != self.state.mode {
            self.mode = Some(by);
        }
        if to.lanes != self.state.lanes {
            self.lanes = Some(by);
        }
        self.state = to;
    }
}

impl Watch<'_> {
    /// An instruction is about to execute.
    #[inline]
    pub fn step(&mut self, hart: &Hart, slot: &Slot) {
        let place = self.place(hart);
        let track = &mut self.harts[usize::from(place)];
        let fp = Fp::of(hart);
        if track.fp.state != fp {
            track.fp.change(fp, Spot { place, command: track.command, pc: track.pc });
        }
        track.pc = hart.pc;
        let command = hart.validation[3] as u32;
        if self.harts[usize::from(place)].command != command {
            self.change_command(hart, place, command);
        }
        if slot.op == Op::Fence && slot.imm != 0 {
            self.fence(place);
        }
        let spot = self.spot(place);
        self.harts[usize::from(place)].values.step(hart, slot, &mut self.findings, spot);
    }

    #[cold]
    fn change_command(&mut self, hart: &Hart, place: u16, command: u32) {
        if self.harts[usize::from(place)].command != 0 {
            self.check_fp(hart, place);
        }
        self.end_command(place, command);
        self.harts[usize::from(place)].command = command;
    }

    /// What is to be as it was before: the instruction that changed it last is told of.
    fn check_fp(&mut self, hart: &Hart, place: u16) {
        let now = Fp::of(hart);
        let here = self.spot(place);
        let LastChange { mode, lanes, .. } = self.harts[usize::from(place)].fp;
        for (fault, wrong, spot) in [
            (Fault::Rounding(now.mode), now.mode != Fp::default().mode, mode),
            (Fault::LaneMask(now.lanes), now.lanes != Fp::default().lanes, lanes),
        ] {
            if wrong {
                let spot = spot.unwrap_or(here);
                self.findings.report(Finding { fault, spot, other: None, used: None, address: None });
            }
        }
    }

    /// A hart has returned from the kernel.
    pub fn leave(&mut self, place: u16, hart: &Hart) {
        self.harts[usize::from(place)].pc = hart.pc.wrapping_sub(4);
        self.check_fp(hart, place);
        self.end_command(place, 0);
        // Like the firmware's, which then empties the caches.
        self.fence(place);
        self.harts[usize::from(place)].returned = true;
    }

    /// A command or the kernel ends for a hart: nothing may be under way, and nothing that it holds means anything.
    pub fn end_command(&mut self, place: u16, next: u32) {
        let command = self.harts[usize::from(place)].command;
        let mut unfinished: Vec<(u8, Spot)> = Vec::new();
        let pending = self.harts[usize::from(place)].pending.first().map(|operation| operation.pc);
        if let Some(pc) = pending {
            unfinished.push((6, Spot { place, command, pc }));
        }
        self.finish_fetching(place, None);
        let fetching = std::mem::take(&mut self.harts[usize::from(place)].fetching);
        // At the end of a kernel without commands the firmware empties the caches.
        if command != 0 {
            unfinished.extend(fetching.iter().map(|fetch| (fetch.event, Spot { place, command, pc: fetch.pc })));
        }
        self.unit(place).unfinished(place, &mut unfinished);
        for (event, spot) in unfinished {
            let fault = Fault::Unfinished { event };
            self.findings.report(Finding { fault, spot, other: None, used: None, address: None });
        }
        if let Some(store) = self.writes.unfenced(place) {
            let spot = Spot { place, command, pc: store.pc };
            let finding = Finding { fault: Fault::NeverFenced, spot, other: None, used: None, address: None };
            self.findings.report(finding);
        }
        let shallow = std::mem::take(&mut self.harts[usize::from(place)].shallow);
        if command != 0 {
            self.left_in_l2(place, command, &shallow);
            self.left_dirty(place, command);
        }
        if next != 0 {
            if place.is_multiple_of(2) {
                self.unit(place).forget();
            }
            self.harts[usize::from(place)].values.forget_registers();
        }
    }

    /// Lines that the command has written back as far as L2, and that are still there. Workspace may be.
    fn left_in_l2(&mut self, place: u16, command: u32, shallow: &[(usize, Version)]) {
        for &(index, version) in shallow {
            let pc = self.writes.get(version).pc;
            let address = self.address(self.lines.key(index), 0);
            let dirty = |active: &mut Active| active.dirt(Holder::L2(place / 64)).is_some();
            let workspace = self.private.iter().any(|range| range.contains(&address));
            if self.lines[index].active.as_deref_mut().is_some_and(dirty) && !workspace {
                let (fault, spot) = (Fault::LeftInL2, Spot { place, command, pc });
                self.findings.report(Finding { fault, spot, other: None, used: None, address: Some(address) });
            }
        }
    }

    /// Lines that the command's stores have left dirty.
    fn left_dirty(&mut self, place: u16, command: u32) {
        for at in 0..self.harts[usize::from(place)].dirty.len() {
            let index = self.harts[usize::from(place)].dirty[at];
            let Some(active) = &mut self.lines[index].active else { continue };
            let Some(dirt) = active.dirt(Holder::L1(place)) else { continue };
            let (version, mask) = (dirt.version, dirt.mask);
            let write = *self.writes.get(version);
            if write.command != command {
                continue;
            }
            let spot = Spot { place, command, pc: write.pc };
            let address = Some(self.address(self.lines.key(index), mask.trailing_zeros() as usize));
            self.findings.report(Finding { fault: Fault::LeftDirty, spot, other: None, used: None, address });
        }
    }

    /// A load has found bad bytes, or none.
    #[inline]
    pub fn loaded(&mut self, place: u16, addr: u64, len: usize, bad: Bad) {
        self.harts[usize::from(place)].values.loaded(addr, len, bad);
    }

    /// The bad bytes of what is about to be stored.
    #[inline]
    pub fn storing(&mut self, place: u16, addr: u64, len: usize) -> Bad {
        let spot = self.spot(place);
        self.harts[usize::from(place)].values.stored(addr, len, &mut self.findings, spot)
    }

    /// An ESR was written that gives `credits`: shire, counter, and harts as bits.
    pub fn give_credits(&mut self, hart: &Hart, credits: Vec<(u32, usize, u64)>) {
        let place = self.place(hart);
        for (shire, counter, harts) in credits {
            let harts = (0..64u16).filter(|hart| harts >> hart & 1 == 1);
            let places: Vec<u16> = harts.filter_map(|hart| self.place_of((shire as u16) << 6 | hart)).collect();
            self.give(place, counter, &places);
        }
    }

    /// A read below the host's memory: a stack, or what the firmware has placed.
    pub fn read_low(&mut self, hart: &Hart, place: u16, addr: u64, out: &mut [u8]) -> Bad {
        let read = self.memory.dram.read((addr & 0xFF_FFFF_FFFF) - OPEN_BASE, out);
        debug_assert!(read.is_some(), "the region was checked");
        match self.on_stack(hart, place, addr) {
            Some(at) => {
                let bad = self.harts[usize::from(place)].values.stack(at, out.len());
                if bad.mask == 0 || bad.origin != 0 {
                    return bad;
                }
                let spot = self.spot(place);
                let address = Some(addr + u64::from(bad.mask.trailing_zeros()));
                let finding = Finding { fault: Fault::Unwritten, spot, other: None, used: None, address };
                Bad { origin: self.findings.suspect(finding), ..bad }
            }
            None => Bad::NONE,
        }
    }

    /// The same for a write.
    pub fn write_low(&mut self, hart: &Hart, place: u16, addr: u64, data: &[u8], bad: Bad) {
        let written = self.memory.dram.write((addr & 0xFF_FFFF_FFFF) - OPEN_BASE, data);
        debug_assert!(written.is_some(), "the region was checked");
        if let Some(at) = self.on_stack(hart, place, addr) {
            self.harts[usize::from(place)].values.set_stack(at, data.len(), bad);
        }
    }

    /// The byte of the hart's stack that an address means, counted from the lowest; reports what is not its own.
    fn on_stack(&mut self, hart: &Hart, place: u16, addr: u64) -> Option<usize> {
        let addr = addr & 0xFF_FFFF_FFFF;
        let own = stack(hart.id);
        if own.contains(&addr) {
            return Some((addr - own.start) as usize);
        }
        let (lowest, highest) = (stack(2047).start, stack(0).end);
        if !(lowest - 64..highest).contains(&addr) {
            return None;
        }
        let fault = match addr < own.start && hart.x[2] < own.start {
            true => Fault::StackOverflow { below: (own.start - addr) as u32 },
            false => {
                let owner = ((highest - 1 - addr) / (stack(0).start - stack(1).start)) as u16;
                Fault::ForeignStack { owner }
            }
        };
        self.report(place, fault, Some(addr), None);
        None
    }
}
