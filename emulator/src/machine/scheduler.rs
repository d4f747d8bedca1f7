//! Runs the harts of a launch on host threads.
//!
//! Minions are dealt out to threads in turn, so that kernels which use few harts still use all threads. A thread runs its
//! ready harts round robin; a blocked hart costs nothing until it is woken (see [`Wake`]).

use super::call::{self, Call};
use super::entry::Entry;
use super::fast::Fast;
use super::faults::{BadCall, Fault, Waiting};
use super::launch::{Launch, LaunchError, Report};
use super::workers::Worker;
use crate::code::Code;
use crate::exec::{self, Stop};
use crate::hart::Hart;
use crate::memory::Memory;
use crate::platform::Platform;
use crate::sync::{Board, Share, Verdict, WaitFor, Wake};
use crate::tensor::Unit;
use crate::trap::Trap;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Instructions that a hart runs before the next one of its thread. Short enough for spin locks between harts of one
/// thread, long enough to hide the change.
const QUANTUM: u64 = 2000;

/// Faults worth reporting.
const FAULTS_MAX: usize = 16;

/// Looks at the wake bits before a thread without work goes to sleep, which is slower to end than the usual wait.
const SPINS: u32 = 200;

/// A launch under way.
pub(super) struct Run<'a> {
    memory: &'a Memory,
    board: Board,
    launch: &'a Launch<'a>,
    entry: Entry,
    deadline: Option<Instant>,
    ending: Mutex<Ending>,
}

/// What ended a launch early.
#[derive(Default)]
struct Ending {
    faults: Vec<Fault>,
    other: Option<LaunchError>,
}

/// Which minions each thread runs: `(shire, minion)`, shire by shire.
type Deal = Vec<Vec<(u32, u32)>>;

fn deal(shire_mask: u64, threads: usize) -> Deal {
    let shires = (0..64).filter(|s| shire_mask >> s & 1 == 1);
    let minions: Vec<_> = shires.flat_map(|s| (0..32).map(move |m| (s, m))).collect();
    let threads = threads.clamp(1, minions.len());
    (0..threads).map(|t| minions.iter().copied().skip(t).step_by(threads).collect()).collect()
}

fn shares(minions: &[(u32, u32)]) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for &(shire, minion) in minions {
        let harts = 3 << (2 * minion);
        match shares.last_mut() {
            Some(share) if share.shire == shire => share.harts |= harts,
            _ => shares.push(Share { shire, harts }),
        }
    }
    shares
}

/// Runs all harts of `launch` to their end. There is one of `workers` per thread that may be used.
pub(super) fn run(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut [Worker],
) -> Result<Report, LaunchError> {
    let deal = deal(launch.shire_mask, workers.len());
    let shares: Vec<_> = deal.iter().map(|minions| shares(minions)).collect();
    let run = Run {
        memory,
        board: Board::new(memory.shires(), Wake::new(memory.shires(), &shares)),
        launch,
        entry,
        deadline: launch.deadline.and_then(|limit| Instant::now().checked_add(limit)),
        ending: Mutex::default(),
    };
    let work = |thread: usize, worker| Thread::new(&run, thread, &deal[thread], &shares[thread], worker).work();
    let (first, others) = workers.split_first_mut().expect("there is at least one thread");
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let handles: Vec<_> =
            (1..deal.len()).zip(others).map(|(thread, worker)| scope.spawn(move || work(thread, worker))).collect();
        let own = work(0, first);
        let joined = handles.into_iter().map(|handle| match handle.join() {
            Ok(tally) => tally,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(joined).collect()
    });
    run.conclude(tallies)
}

impl Run<'_> {
    fn conclude(self, tallies: Vec<Tally>) -> Result<Report, LaunchError> {
        let ending = self.ending.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !ending.faults.is_empty() {
            return Err(LaunchError::Faults(ending.faults));
        }
        match ending.other {
            Some(LaunchError::Deadlock(_)) => {
                let mut waiting: Vec<_> = tallies.into_iter().flat_map(|tally| tally.waiting).collect();
                waiting.sort_by_key(|hart| hart.hart);
                for hart in &mut waiting {
                    hart.location = self.launch.lines.and_then(|lines| lines.locate(hart.pc));
                }
                Err(LaunchError::Deadlock(waiting))
            }
            Some(error) => Err(error),
            None => Ok(tallies.iter().fold(Report::default(), |sum, tally| Report {
                instructions: sum.instructions + tally.report.instructions,
                cycles: sum.cycles.max(tally.report.cycles),
                tensor_macs: sum.tensor_macs + tally.report.tensor_macs,
            })),
        }
    }

    fn locate(&self, pc: u64) -> Option<String> {
        self.launch.lines.and_then(|lines| lines.locate(pc))
    }

    /// Ends the launch with an error, unless it is ending with one already.
    fn fail(&self, error: LaunchError) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).other.get_or_insert(error);
        self.board.wake.stop();
    }

    fn fault(&self, hart: &Hart, trap: Trap) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if ending.faults.len() < FAULTS_MAX {
            let location = self.locate(hart.pc);
            ending.faults.push(Fault { hart: hart.id, pc: hart.pc, trap, location });
        }
        drop(ending);
        self.board.wake.stop();
    }
}

/// What a thread has to say at the end.
struct Tally {
    report: Report,
    waiting: Vec<Waiting>,
}

/// A minion with its two harts.
pub(super) struct Minion {
    unit: Unit,
    harts: [(Hart, State); 2],
}

impl Minion {
    /// A minion whose harts are about to enter; the id is that of the first.
    fn new(entry: &Entry, id: u16) -> Self {
        Minion { unit: Unit::default(), harts: [id, id | 1].map(|id| (entry.hart(id), State::Ready)) }
    }

    /// Makes it what `new` gives, in place.
    fn reset(&mut self, entry: &Entry, id: u16) {
        self.unit.reset();
        for (thread, (hart, state)) in self.harts.iter_mut().enumerate() {
            *hart = entry.hart(id | thread as u16);
            *state = State::Ready;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the ready queue, or running.
    Ready,
    Blocked(WaitFor),
    Returned,
}

/// Lets the other threads end when this one panics, so that the panic comes out instead of a hang.
struct StopOnPanic<'a>(&'a Wake);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

/// One host thread's part of a launch.
struct Thread<'a> {
    run: &'a Run<'a>,
    number: usize,
    shares: &'a [Share],
    code: &'a mut Code,
    minions: &'a mut [Minion],
    /// For each share, the place in `minions` of each of the shire's minions.
    places: Vec<[usize; 32]>,
    /// Harts to run, as 2 * place + thread of the minion.
    ready: VecDeque<usize>,
    /// Harts that have not returned.
    live: usize,
}

impl<'a> Thread<'a> {
    fn new(run: &'a Run<'a>, number: usize, deal: &[(u32, u32)], shares: &'a [Share], worker: &'a mut Worker) -> Self {
        let mut places = vec![[usize::MAX; 32]; shares.len()];
        for (place, &(shire, minion)) in deal.iter().enumerate() {
            let share = shares.iter().position(|share| share.shire == shire);
            places[share.expect("every minion is in a share")][minion as usize] = place;
            let id = (shire << 6 | minion << 1) as u16;
            match worker.minions.get_mut(place) {
                Some(minion) => minion.reset(&run.entry, id),
                None => worker.minions.push(Minion::new(&run.entry, id)),
            }
        }
        let minions = &mut worker.minions[..deal.len()];
        let live = 2 * minions.len();
        let ready = (0..live).collect();
        Thread { run, number, shares, code: &mut worker.code, minions, places, ready, live }
    }

    fn work(mut self) -> Tally {
        let wake = &self.run.board.wake;
        let _guard = StopOnPanic(wake);
        while !wake.stopped() {
            self.collect_woken();
            if let Some(place) = self.ready.pop_front() {
                self.turn(place);
                if self.run.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    self.out_of_time();
                }
            } else if self.live == 0 {
                if wake.leave() {
                    self.run.fail(LaunchError::Deadlock(Vec::new()));
                }
                break;
            } else if !self.spin() {
                match wake.sleep(self.number, self.shares, self.run.deadline) {
                    Verdict::Woken | Verdict::Stopped => {}
                    Verdict::Deadlock => self.run.fail(LaunchError::Deadlock(Vec::new())),
                    Verdict::Deadline => self.out_of_time(),
                }
            }
        }
        self.tally()
    }

    fn out_of_time(&self) {
        if let Some(limit) = self.run.launch.deadline {
            self.run.fail(LaunchError::Deadline(limit));
        }
    }

    /// Waits a moment for a wake bit.
    fn spin(&self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.shares.iter().any(|&share| self.run.board.wake.pending(share))
        })
    }

    /// Moves harts that were woken to the ready queue.
    fn collect_woken(&mut self) {
        for (share, places) in self.shares.iter().zip(&self.places) {
            let mut bits = self.run.board.wake.take(*share);
            while bits != 0 {
                let hart = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let place = places[hart / 2];
                let state = &mut self.minions[place].harts[hart % 2].1;
                if matches!(state, State::Blocked(_)) {
                    *state = State::Ready;
                    self.ready.push_back(2 * place + hart % 2);
                }
            }
        }
    }

    /// Runs a hart until its quantum ends or it stops.
    fn turn(&mut self, place: usize) {
        let run = self.run;
        let Minion { unit, harts } = &mut self.minions[place / 2];
        let (hart, state) = &mut harts[place % 2];
        let mut platform = Fast::new(run.memory, &run.board, unit, run.launch.exact_flags);
        platform.refresh(hart);
        // A partner may have come: what it brings must not wait until this hart uses its registers.
        if hart.vpu_busy {
            platform.settle(hart);
        }
        let stop = match platform.late {
            None => exec::run(hart, self.code, &mut platform, QUANTUM),
            Some(trap) => Stop::Trap(trap),
        };
        if let Some(trap) = platform.late.take() {
            return run.fault(hart, trap);
        }
        match stop {
            Stop::Budget => self.ready.push_back(place),
            Stop::Blocked => match platform.waiting {
                Some(what) => *state = State::Blocked(what),
                None => self.ready.push_back(place),
            },
            Stop::Trap(trap) => run.fault(hart, trap),
            Stop::Ecall => {
                // Before it serves a call, the firmware waits for the hart's tensor operations.
                if hart.vpu_busy && !platform.settle(hart) {
                    match (platform.late, platform.waiting) {
                        (Some(trap), _) => run.fault(hart, trap),
                        (None, Some(what)) => *state = State::Blocked(what),
                        (None, None) => self.ready.push_back(place),
                    }
                    return;
                }
                let pc = hart.pc;
                match call::serve(hart) {
                    Call::Served => self.ready.push_front(place),
                    Call::Return { value, kind } if value < 0 || kind != 0 => {
                        run.fail(LaunchError::BadReturn { hart: hart.id, value, kind });
                    }
                    Call::Return { .. } => {
                        *state = State::Returned;
                        self.live -= 1;
                    }
                    Call::Unknown(number) => {
                        let location = run.locate(pc);
                        run.fail(LaunchError::BadCall(BadCall { hart: hart.id, pc, number, location }));
                    }
                }
            }
        }
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally { report: Report::default(), waiting: Vec::new() };
        for minion in &*self.minions {
            tally.report.tensor_macs += minion.unit.macs();
            for (hart, state) in &minion.harts {
                tally.report.instructions += hart.retired;
                tally.report.cycles = tally.report.cycles.max(hart.clock);
                if let State::Blocked(what) = *state {
                    tally.waiting.push(Waiting { hart: hart.id, pc: hart.pc, what, location: None });
                }
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minion_is_dealt_once() {
        for threads in [1, 2, 3, 64] {
            let deal = deal(0b101, threads);
            let mut all: Vec<_> = deal.iter().flatten().copied().collect();
            all.sort_unstable();
            let expected: Vec<_> = [0, 2].iter().flat_map(|&s| (0..32).map(move |m| (s, m))).collect();
            assert_eq!(all, expected);
            let bits: u64 = deal.iter().flat_map(|d| shares(d)).filter(|s| s.shire == 2).fold(0, |b, s| b ^ s.harts);
            assert_eq!(bits, u64::MAX);
        }
    }
}
