//! The instruction loop.

use super::execute::execute;
#[cfg(target_arch = "x86_64")]
use super::native;
use super::{Core, Done, Exit, Stop};
use crate::code::{decode, fetch, page_base, Code, Slot, State};
use crate::hart::Hart;
use crate::platform::Platform;
use crate::simd::Vectors;
use crate::trap::{Cause, Trap};
use et_isa::Op;

/// Where the loop is: in a page of slots, with a budget.
pub(super) struct Position {
    /// Address of slot 0.
    base: u64,
    /// The slot of the current instruction. Slots before and after the page count on and are found out of range.
    ip: usize,
    /// The slot that comes next.
    next: usize,
    /// Instructions that may still retire.
    pub(super) left: u64,
    /// `left` at the last time the hart's counters were brought up to date.
    counted: u64,
}

impl Position {
    #[inline(always)]
    fn address(&self, slot: usize) -> u64 {
        self.base.wrapping_add((slot as u64).wrapping_mul(2))
    }

    /// Goes to the instruction `s` at `pc`, which is not in the page.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(super) fn begin(&mut self, pc: u64, s: &Slot) {
        (self.base, self.ip, self.next) = (pc, 0, s.step as usize);
    }

    /// Address of the current instruction.
    #[inline(always)]
    pub(super) fn pc(&self) -> u64 {
        self.address(self.ip)
    }

    /// Address of the instruction after the current one.
    #[inline(always)]
    pub(super) fn link(&self) -> u64 {
        self.address(self.next)
    }

    /// Goes to the branch target if `taken`.
    #[inline(always)]
    pub(super) fn branch(&mut self, s: &Slot, taken: bool) -> Done {
        if taken {
            self.next = self.ip.wrapping_add(s.imm as isize as usize);
        }
        Ok(())
    }

    /// Goes to an address.
    #[inline(always)]
    pub(super) fn jump(&mut self, target: u64) -> Done {
        self.next = (target.wrapping_sub(self.base) as i64 >> 1) as usize;
        Ok(())
    }

    /// The next instruction, if it is one of `op` that can execute like the one that just did. Going on with it saves the
    /// search for what to do, which is what short instructions cost most.
    #[inline(always)]
    pub(super) fn repeat<'p, P: Platform>(&mut self, page: &'p [Slot], op: Op) -> Option<&'p Slot> {
        let slot = page.get(self.next)?;
        if P::WATCHES || slot.op != op || slot.state != State::Ready || self.left == 1 {
            return None;
        }
        self.left -= 1;
        self.ip = self.next;
        self.next = self.ip.wrapping_add(slot.step as usize);
        Some(slot)
    }

    /// Adds what has retired to the hart's counters.
    #[inline(always)]
    pub(super) fn count<P: Platform>(&mut self, hart: &mut Hart) {
        let retired = self.counted - self.left;
        hart.retired += retired;
        if !P::WATCHES {
            hart.clock += retired;
        }
        self.counted = self.left;
    }
}

/// Runs until something stops the hart.
#[inline(always)]
pub(super) fn run<P: Platform, V: Vectors, const FLAGS: bool>(
    mut core: Core<'_, P, V, FLAGS>,
    code: &mut Code,
    budget: u64,
) -> Stop {
    let mut at = Position { base: 0, ip: 0, next: 0, left: budget, counted: budget };
    #[cfg(target_arch = "x86_64")]
    let translates = P::TRANSLATES && !FLAGS && core.vectors.avx2().is_some() && code.translates();
    #[cfg(not(target_arch = "x86_64"))]
    let translates = false;
    'page: loop {
        // A condition of its own, so that nothing is compiled for platforms that do not translate.
        #[cfg(target_arch = "x86_64")]
        if P::TRANSLATES {
            if let Some(vectors) = core.vectors.avx2().filter(|_| translates) {
                let mut core = Core::<P, _, false> { hart: core.hart, platform: core.platform, vectors };
                if let Some(exit) = native::run(&mut core, code, &mut at) {
                    at.count::<P>(core.hart);
                    return stopped(core.platform, exit, core.hart.pc);
                }
            }
        }
        at.base = page_base(core.hart.pc);
        at.ip = ((core.hart.pc - at.base) / 2) as usize;
        let page = code.page(core.hart.pc);
        let stop = loop {
            if at.left == 0 || P::WATCHES && core.platform.pause(core.hart) {
                break Stop::Budget;
            }
            let Some(s) = page.slots.get(at.ip) else {
                core.hart.pc = at.pc();
                continue 'page;
            };
            // One test for everything unusual.
            if s.state as u8 | core.hart.vpu_busy as u8 != 0 {
                match s.state {
                    State::Ready => {
                        if s.op.row().class.uses_vpu() && !core.platform.settle(core.hart) {
                            break Stop::Blocked;
                        }
                    }
                    State::Undecoded => match decode(core.platform, at.pc()) {
                        Ok(slot) => {
                            page.slots[at.ip] = slot;
                            continue;
                        }
                        Err(trap) => break Stop::Trap(trap),
                    },
                    State::Illegal | State::Mcode => break Stop::Trap(refused(core.platform, s.state, at.pc())),
                }
            }
            at.next = at.ip.wrapping_add(s.step as usize);
            if P::WATCHES {
                core.hart.pc = at.pc();
                core.platform.step(core.hart, s);
            }
            let done = execute(&mut core, s.op, s, &mut at, &page.slots);
            match done {
                Ok(()) => {
                    at.left -= 1;
                    if translates && at.next.wrapping_sub(at.ip) > 2 {
                        // A taken branch: there may be translated code at its target.
                        core.hart.pc = at.link();
                        continue 'page;
                    }
                    at.ip = at.next;
                }
                Err(exit) => break stopped(core.platform, exit, at.pc()),
            }
        };
        core.hart.pc = at.pc();
        at.count::<P>(core.hart);
        return stop;
    }
}

/// Why an instruction at `pc` that did not retire stops the hart.
fn stopped<P: Platform>(platform: &mut P, exit: Exit, pc: u64) -> Stop {
    match exit {
        Exit::Trap(trap) => Stop::Trap(trap),
        Exit::Illegal => Stop::Trap(refused(platform, State::Illegal, pc)),
        Exit::Blocked => Stop::Blocked,
        Exit::Ecall => Stop::Ecall,
    }
}

/// The exception of an instruction that does not execute.
#[cold]
#[inline(never)]
fn refused<P: Platform>(platform: &mut P, state: State, pc: u64) -> Trap {
    match fetch(platform, pc) {
        // The chip reports no word for a compressed instruction.
        Ok(word) if word & 3 != 3 => Trap { cause: Cause::IllegalInstruction, tval: 0 },
        Ok(word) if state == State::Mcode => Trap { cause: Cause::MachineCode, tval: word as u64 },
        Ok(word) => Trap { cause: Cause::IllegalInstruction, tval: word as u64 },
        Err(trap) => trap,
    }
}
