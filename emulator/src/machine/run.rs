//! A launch under way, whoever runs its harts: what they share, and how it ends.

use super::entry::Entry;
use super::faults::{Fault, Waiting};
use super::launch::{Launch, LaunchError, LineTable, Report};
use super::workers::own;
use crate::hart::Hart;
use crate::memory::Memory;
use crate::sync::{Board, WaitFor, Wake};
use crate::tensor::Unit;
use crate::trap::Trap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Faults worth reporting.
const FAULTS_MAX: usize = 16;

/// A launch under way.
pub(super) struct Run<'a> {
    pub memory: &'a Memory,
    pub board: Board,
    pub launch: &'a Launch<'a>,
    pub entry: Entry,
    deadline: Option<Instant>,
    ending: Mutex<Ending>,
}

/// What ended a launch early.
#[derive(Default)]
struct Ending {
    faults: Vec<Fault>,
    other: Option<LaunchError>,
}

/// A minion with its two harts. Host threads run neighbours at once: they share no line of the host's caches, nor the pair
/// of lines that some hosts fetch together.
#[repr(align(128))]
pub(super) struct Minion {
    pub unit: Unit,
    pub harts: [(Hart, State); 2],
}

/// How a hart stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In a queue of those to run, or running.
    Ready,
    Blocked(WaitFor),
    Returned,
}

impl Minion {
    /// A minion whose harts are about to enter; the id is that of the first.
    pub fn new(entry: &Entry, id: u16) -> Self {
        Minion { unit: Unit::default(), harts: [id, id | 1].map(|id| (entry.hart(id), State::Ready)) }
    }

    /// Makes it what `new` gives, in place.
    pub fn reset(&mut self, entry: &Entry, id: u16) {
        self.unit.reset();
        for (thread, (hart, state)) in self.harts.iter_mut().enumerate() {
            *hart = entry.hart(id | thread as u16);
            *state = State::Ready;
        }
    }
}

/// The minions of a launch as `(shire, minion)`, shire by shire.
pub(super) fn minions(shire_mask: u64) -> Vec<(u32, u32)> {
    let shires = (0..64).filter(|s| shire_mask >> s & 1 == 1);
    shires.flat_map(|s| (0..32).map(move |m| (s, m))).collect()
}

impl<'a> Run<'a> {
    /// A launch whose harts are about to enter, on so many host threads.
    pub fn new(memory: &'a Memory, launch: &'a Launch<'a>, entry: Entry, threads: usize) -> Self {
        Run {
            memory,
            board: Board::new(memory.shires(), Wake::new(memory.shires(), launch.shire_mask, threads)),
            launch,
            entry,
            deadline: launch.deadline.and_then(|limit| Instant::now().checked_add(limit)),
            ending: Mutex::default(),
        }
    }

    /// When the launch has to be over.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Ends the launch if its time is up.
    pub fn watch_clock(&self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.out_of_time();
        }
    }

    /// Ends the launch because its time is up.
    pub fn out_of_time(&self) {
        if let Some(limit) = self.launch.deadline {
            self.fail(LaunchError::Deadline(limit));
        }
    }

    /// The source of an instruction.
    pub fn locate(&self, pc: u64) -> Option<String> {
        self.launch.lines.and_then(|lines| lines.locate(pc))
    }

    /// Ends the launch with an error, unless it is ending with one already.
    pub fn fail(&self, error: LaunchError) {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner).other.get_or_insert(error);
        self.board.wake.stop();
    }

    /// Ends the launch because a hart raised an exception.
    pub fn fault(&self, hart: &Hart, trap: Trap) {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if ending.faults.len() < FAULTS_MAX {
            let location = self.locate(hart.pc);
            ending.faults.push(Fault { hart: hart.id, pc: hart.pc, trap, location });
        }
        drop(ending);
        self.board.wake.stop();
    }

    /// The result, from how the minions stand at the end.
    pub fn conclude(self, minions: &mut [Mutex<Minion>]) -> Result<Report, LaunchError> {
        let ending = self.ending.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !ending.faults.is_empty() {
            return Err(LaunchError::Faults(ending.faults));
        }
        match ending.other {
            Some(LaunchError::Deadlock(_)) => Err(LaunchError::Deadlock(waiting(minions, self.launch.lines))),
            Some(error) => Err(error),
            None => Ok(total(minions)),
        }
    }
}

/// What the harts did.
fn total(minions: &mut [Mutex<Minion>]) -> Report {
    let mut sum = Report::default();
    for minion in minions.iter_mut().map(own) {
        sum.macs += minion.unit.macs();
        for (hart, _) in &minion.harts {
            sum.instructions += hart.retired;
            sum.cycles = sum.cycles.max(hart.clock);
        }
    }
    sum
}

/// Who waits for what.
fn waiting(minions: &mut [Mutex<Minion>], lines: Option<&dyn LineTable>) -> Vec<Waiting> {
    let harts = minions.iter_mut().flat_map(|minion| &own(minion).harts);
    let blocked = harts.filter_map(|(hart, state)| match *state {
        State::Blocked(what) => {
            let location = lines.and_then(|lines| lines.locate(hart.pc));
            Some(Waiting { hart: hart.id, pc: hart.pc, what, location })
        }
        State::Ready | State::Returned => None,
    });
    blocked.collect()
}
