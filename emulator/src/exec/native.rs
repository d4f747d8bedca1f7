//! Running translated code in the place of the instruction loop.

use super::execute::execute;
use super::interp::Position;
use super::{Core, Exit};
use crate::code::{Code, Slot};
use crate::hart::Hart;
use crate::jit::{Interpreter, Reason, Step};
use crate::platform::Platform;
use crate::simd::{Avx2, Host, Task, Vectors};

/// Runs translated code from `hart.pc` on, as far as there is any. Gives why the last instruction did not retire, if it
/// did not; otherwise the loop has to go on.
#[inline(never)]
pub(super) fn run<P: Platform>(
    core: &mut Core<'_, P, Avx2, false>,
    code: &mut Code,
    at: &mut Position,
) -> Option<Exit> {
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

    fn step(&mut self, slot: &Slot, pc: u64) -> Step {
        Host::Avx2(self.core.vectors).run(Once { leftover: self, slot, pc })
    }
}

/// One instruction.
struct Once<'l, 's, 'a, 'c, P> {
    leftover: &'l mut Leftover<'a, 'c, P>,
    slot: &'s Slot,
    pc: u64,
}

impl<P: Platform> Task for Once<'_, '_, '_, '_, P> {
    type Output = Step;

    #[inline(always)]
    fn run<V: Vectors>(self, _: V) -> Step {
        let Leftover { core, at, exit } = self.leftover;
        at.begin(self.pc, self.slot);
        match execute(core, self.slot.op, self.slot, at, &[]) {
            Ok(()) => {
                at.left -= 1;
                if !core.hart.vpu_busy {
                    return Step::Done;
                }
                core.hart.pc = at.link();
            }
            Err(reason) => {
                core.hart.pc = self.pc;
                *exit = Some(reason);
            }
        }
        Step::Leave
    }
}
