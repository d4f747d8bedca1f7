//! The executor: runs one hart's instructions against a [`Platform`].
//!
//! `interp` is the loop, `execute` has one arm per instruction, `vector`, `memory` and `csr` hold what takes more than a line.
//! The whole is compiled for each platform, with and without exact floating-point flags, and for each kind of host.

mod csr;
mod execute;
mod interp;
mod memory;
#[cfg(target_arch = "x86_64")]
mod native;
mod vector;

use et_isa::{is_compressed, Class, Insn};

#[cfg(target_arch = "x86_64")]
pub(crate) use vector::immediate_float;

use crate::code::{Code, Slot};
use crate::hart::Hart;
use crate::platform::Platform;
use crate::simd::{Host, Task, Vectors};
use crate::trap::{Cause, Trap};

/// Why [`run`] returned. The hart's `pc` is at the next instruction to execute, or at the one named here, which then
/// has not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The instruction budget is used up.
    Budget,
    /// The instruction at `pc` waits for something; run again later.
    Blocked,
    /// `pc` is at an `ecall`; the caller serves it and moves `pc` on.
    Ecall,
    /// The instruction at `pc` raised an exception.
    Trap(Trap),
}

/// Runs `hart` for at most `budget` instructions.
pub fn run<P: Platform>(hart: &mut Hart, code: &mut Code, platform: &mut P, budget: u64) -> Stop {
    run_on(Host::detect(), hart, code, platform, budget)
}

/// [`run`] with a choice of what to use of the host's processor; results do not depend on it.
pub fn run_on<P: Platform>(host: Host, hart: &mut Hart, code: &mut Code, platform: &mut P, budget: u64) -> Stop {
    if code.exact_flags() {
        // Exact flags are computed in integers, where vector instructions do not help.
        Host::Portable.run(Run::<P, true> { hart, code, platform, budget })
    } else {
        host.run(Run::<P, false> { hart, code, platform, budget })
    }
}

struct Run<'a, P, const FLAGS: bool> {
    hart: &'a mut Hart,
    code: &'a mut Code,
    platform: &'a mut P,
    budget: u64,
}

impl<P: Platform, const FLAGS: bool> Task for Run<'_, P, FLAGS> {
    type Output = Stop;

    #[inline(always)]
    fn run<V: Vectors>(self, vectors: V) -> Stop {
        let core = Core::<P, V, FLAGS> { hart: self.hart, platform: self.platform, vectors };
        interp::run(core, self.code, self.budget)
    }
}

/// Whether `code` contains an instruction whose result depends on the floating-point flags: a read of fflags or fcsr.
/// If none of a kernel's code does, it can run without exact flags.
pub fn code_reads_flags(code: &[u8]) -> bool {
    let mut at = 0;
    while let Some(low) = code.get(at..at + 2) {
        let low = u16::from_le_bytes([low[0], low[1]]);
        if is_compressed(low) {
            at += 2;
            continue;
        }
        let Some(high) = code.get(at + 2..at + 4) else { break };
        let word = u32::from_le_bytes([code[at], code[at + 1], high[0], high[1]]);
        if let Some(insn) = Insn::decode(word).filter(|insn| insn.op.row().class == Class::Csr) {
            let operands = insn.operands();
            if matches!(operands.csr, 1 | 3) && operands.rd != 0 {
                return true;
            }
        }
        at += 4;
    }
    false
}

/// Why an instruction did not retire.
#[derive(Debug)]
enum Exit {
    Trap(Trap),
    /// Illegal instruction; the loop finds the word for `tval`.
    Illegal,
    Blocked,
    Ecall,
}

impl From<Trap> for Exit {
    fn from(trap: Trap) -> Self {
        // The platform does not know the instruction word.
        if trap.cause == Cause::IllegalInstruction {
            Exit::Illegal
        } else {
            Exit::Trap(trap)
        }
    }
}

type Done = Result<(), Exit>;

/// What instructions act on.
struct Core<'a, P, V, const FLAGS: bool> {
    hart: &'a mut Hart,
    platform: &'a mut P,
    vectors: V,
}

impl<P: Platform, V: Vectors, const FLAGS: bool> Core<'_, P, V, FLAGS> {
    #[inline(always)]
    fn x(&self, register: u8) -> u64 {
        self.hart.x[register as usize & 31]
    }

    /// Writes an integer register unless it is x0.
    #[inline(always)]
    fn set_x(&mut self, register: u8, value: u64) {
        if register != 0 {
            self.hart.x[register as usize & 31] = value;
        }
    }

    /// The result of an instruction that has effects beside `rd`, which may be x0.
    #[inline(always)]
    fn put(&mut self, s: &Slot, value: u64) -> Done {
        self.set_x(s.rd, value);
        Ok(())
    }

    /// The result of an integer instruction: with x0 as `rd` it was decoded to nothing.
    #[inline(always)]
    fn int(&mut self, s: &Slot, value: u64) -> Done {
        self.hart.x[s.rd as usize & 31] = value;
        Ok(())
    }

    #[inline(always)]
    fn m(&self, register: u8) -> u8 {
        self.hart.m[register as usize & 7]
    }

    #[inline(always)]
    fn set_m(&mut self, s: &Slot, value: u8) -> Done {
        self.hart.m[s.rd as usize & 7] = value;
        Ok(())
    }

    /// The address `imm(rs1)`.
    #[inline(always)]
    fn offset(&self, s: &Slot) -> u64 {
        self.x(s.rs1).wrapping_add(s.imm as i64 as u64)
    }
}
