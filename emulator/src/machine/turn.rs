//! One hart's turn: it runs for a while, and what stopped it is served.

use super::call::{self, Call};
use super::faults::BadCall;
use super::launch::LaunchError;
use super::run::Run;
use crate::code::Code;
use crate::exec::{self, Stop};
use crate::hart::Hart;
use crate::platform::Platform;
use crate::sync::WaitFor;
use crate::trap::Trap;

/// A platform that harts of a launch run on, one at a time.
pub(super) trait Station: Platform {
    /// Notes what has happened to a hart from outside. Called before it runs.
    fn refresh(&mut self, hart: &mut Hart);

    /// What the last blocked instruction waits for.
    fn waiting(&self) -> Option<WaitFor>;

    /// A trap of an operation that completed outside its instruction.
    fn take_late(&mut self) -> Option<Trap>;
}

/// What is to become of a hart after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It can go on.
    Ready,
    /// It can go on, and nobody noticed that it stopped.
    Served,
    /// It waits.
    Blocked(WaitFor),
    /// The kernel is done with it.
    Returned,
    /// The launch is ending because of it.
    Failed,
}

/// Runs a hart for at most `budget` instructions.
pub(super) fn turn<S: Station>(run: &Run<'_>, hart: &mut Hart, code: &mut Code, station: &mut S, budget: u64) -> Next {
    station.refresh(hart);
    // A partner may have come: what it brings must not wait until this hart uses its registers.
    if hart.vpu_busy {
        station.settle(hart);
    }
    let stop = match station.take_late() {
        None => exec::run(hart, code, station, budget),
        Some(trap) => Stop::Trap(trap),
    };
    if let Some(trap) = station.take_late() {
        run.fault(hart, trap);
        return Next::Failed;
    }
    match stop {
        Stop::Budget => Next::Ready,
        Stop::Blocked => station.waiting().map_or(Next::Ready, Next::Blocked),
        Stop::Trap(trap) => {
            run.fault(hart, trap);
            Next::Failed
        }
        Stop::Ecall => call(run, hart, station),
    }
}

fn call<S: Station>(run: &Run<'_>, hart: &mut Hart, station: &mut S) -> Next {
    // Before it serves a call, the firmware waits for the hart's tensor operations.
    if hart.vpu_busy && !station.settle(hart) {
        if let Some(trap) = station.take_late() {
            run.fault(hart, trap);
            return Next::Failed;
        }
        return station.waiting().map_or(Next::Ready, Next::Blocked);
    }
    let pc = hart.pc;
    match call::serve(hart) {
        Call::Served => Next::Served,
        Call::Return { value, kind } if value < 0 || kind != 0 => {
            run.fail(LaunchError::BadReturn { hart: hart.id, value, kind });
            Next::Failed
        }
        Call::Return { .. } => Next::Returned,
        Call::Unknown(number) => {
            let location = run.locate(pc);
            run.fail(LaunchError::BadCall(BadCall { hart: hart.id, pc, number, location }));
            Next::Failed
        }
    }
}
