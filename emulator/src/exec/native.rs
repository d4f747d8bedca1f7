//! Running translated code in the place of the instruction loop.

use super::execute::execute;
use super::interp::Position;
use super::{Core, Done, Exit};
use crate::code::{Code, Slot};
use crate::hart::Hart;
use crate::jit::{Interpreter, Reason, Step};
use crate::platform::Platform;
use crate::simd::{Avx2, Host, Task, Vectors};
use et_isa::Class;

/// Runs translated code from `hart.pc` on, as far as there is any. Gives why the last instruction did not retire, if it
/// did not; otherwise the loop has to go on.
#[inline(never)]
pub(super) fn run<P: Platform>(
    core: &mut Core<'_, P, Avx2, false>,
    code: &mut Code,
    at: &mut Position,
) -> Option<Exit> {
    debug_assert!(!P::WATCHES, "translated code does not tell of its instructions");
    let mut translator = code.take_translator(core.vectors)?;
    let mut exit = None;
    if let Some(windows) = core.platform.windows(core.hart) {
        while !core.hart.vpu_busy && core.hart.pc & 1 == 0 {
            let platform = &mut *core.platform;
            let Some(entry) = translator.entry(core.hart, |pc| code.slot(platform, pc)) else { break };
            let mut leftover = Leftover { core: &mut *core, at: &mut *at, exit: None };
            let reason = translator.run(entry, &mut leftover, &windows);
            exit = leftover.exit;
            if reason != Reason::Lookup {
                break;
            }
        }
    }
    code.put_translator(translator);
    exit
}

/// Executes what translated code does not.
struct Leftover<'a, 'c, P> {
    core: &'a mut Core<'c, P, Avx2, false>,
    at: &'a mut Position,
    exit: Option<Exit>,
}

impl<P: Platform> Interpreter for Leftover<'_, '_, P> {
    fn hart(&mut self) -> *mut Hart {
        self.core.hart
    }

    fn left(&mut self) -> &mut u64 {
        &mut self.at.left
    }

    #[inline(always)]
    fn quick_write<const CSR: u16>(&mut self, value: u64) -> bool {
        Host::Avx2(self.core.vectors).run(Quick::<P, CSR> { core: self.core, value })
    }

    fn step(&mut self, slot: &Slot, pc: u64) -> Step {
        let Leftover { core, at, exit } = self;
        at.begin(pc, slot);
        let done = match slot.op.row().class {
            // Most are these, and they are quicker without all the others around them.
            Class::Csr => core.csr(slot, at),
            _ => Host::Avx2(core.vectors).run(Once { core, at, slot }),
        };
        match done {
            Ok(()) => {
                at.left -= 1;
                if !core.hart.vpu_busy {
                    return Step::Done;
                }
                core.hart.pc = at.link();
            }
            Err(reason) => {
                core.hart.pc = pc;
                *exit = Some(reason);
            }
        }
        Step::Leave
    }
}

/// One write to a CSR.
struct Quick<'l, 'c, P, const CSR: u16> {
    core: &'l mut Core<'c, P, Avx2, false>,
    value: u64,
}

impl<P: Platform, const CSR: u16> Task for Quick<'_, '_, P, CSR> {
    type Output = bool;

    #[inline(always)]
    fn run<V: Vectors>(self, _: V) -> bool {
        self.core.platform.quick_write::<CSR>(self.core.hart, self.value)
    }
}

/// One instruction.
struct Once<'l, 'c, P> {
    core: &'l mut Core<'c, P, Avx2, false>,
    at: &'l mut Position,
    slot: &'l Slot,
}

impl<P: Platform> Task for Once<'_, '_, P> {
    type Output = Done;

    #[inline(always)]
    fn run<V: Vectors>(self, _: V) -> Done {
        execute(self.core, self.slot.op, self.slot, self.at, &[])
    }
}
