//! A launch under way, whoever runs its harts: what they share, and how it ends.

use super::entry::Entry;
use super::faults::{Fault, Waiting};
use super::launch::{Launch, LaunchError, Report};
use crate::hart::Hart;
use crate::memory::Memory;
use crate::sync::{Board, Share, WaitFor, Wake};
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

/// What a host thread has to say at the end.
#[derive(Default)]
pub(super) struct Tally {
    report: Report,
    waiting: Vec<Waiting>,
}

/// A minion with its two harts.
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
    /// Makes `minions` those of `deal`, with harts that are about to enter. The memory of earlier ones is used again.
    pub fn gather<'m>(minions: &'m mut Vec<Minion>, entry: &Entry, deal: &[(u32, u32)]) -> &'m mut [Minion] {
        for (place, &(shire, minion)) in deal.iter().enumerate() {
            let id = (shire << 6 | minion << 1) as u16;
            match minions.get_mut(place) {
                Some(minion) => minion.reset(entry, id),
                None => minions.push(Minion::new(entry, id)),
            }
        }
        &mut minions[..deal.len()]
    }

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

/// The minions of a launch as `(shire, minion)`, shire by shire.
pub(super) fn minions(shire_mask: u64) -> Vec<(u32, u32)> {
    let shires = (0..64).filter(|s| shire_mask >> s & 1 == 1);
    shires.flat_map(|s| (0..32).map(move |m| (s, m))).collect()
}

impl<'a> Run<'a> {
    /// A launch whose harts are about to enter, shared out among host threads as `shares` says.
    pub fn new(memory: &'a Memory, launch: &'a Launch<'a>, entry: Entry, shares: &[Vec<Share>]) -> Self {
        Run {
            memory,
            board: Board::new(memory.shires(), Wake::new(memory.shires(), shares)),
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

    /// The result, from what each host thread has to say.
    pub fn conclude(self, tallies: Vec<Tally>) -> Result<Report, LaunchError> {
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
            None => {
                let mut sum = Report::default();
                for Tally { report, .. } in tallies {
                    sum.instructions += report.instructions;
                    sum.cycles = sum.cycles.max(report.cycles);
                    sum.macs += report.macs;
                }
                Ok(sum)
            }
        }
    }
}

impl Tally {
    /// Sums over the minions of a host thread.
    pub fn of(minions: &[Minion]) -> Tally {
        let mut tally = Tally::default();
        for minion in minions {
            tally.report.macs += minion.unit.macs();
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
