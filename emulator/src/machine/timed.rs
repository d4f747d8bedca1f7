//! Launches under the timing model (docs/timing.md): values as in fast mode, time by [`crate::timing`].
//!
//! One host thread runs whichever hart is behind in modelled time. The harts of a minion follow each other instruction by
//! instruction; minions may be ahead of each other by a few cycles.

use super::entry::Entry;
use super::fast::Fast;
use super::launch::{Launch, LaunchError, Report};
use super::run::{self, Run};
use super::serial::{self, Conductor};
use super::turn::Station;
use super::workers::Workers;
use crate::code::Slot;
use crate::hart::Hart;
use crate::memory::{Memory, Refusal, Region};
use crate::platform::{Atomic, Level, Outcome, Platform};
use crate::sync::WaitFor;
use crate::tensor::operation::Operation;
use crate::tensor::{CacheAction, Outside, Unit};
use crate::timing::constants::{Ticks, CYCLE};
use crate::timing::{self, Account, Around, Chip, CodeBuffer, Gathering, Profile, Seat};
use crate::trap::Trap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How far a minion may be ahead of the others, where they meet in memory.
const WINDOW: Ticks = 32 * CYCLE;

/// How far it may go when no other can run: it may be about to wake them.
const ALONE: Ticks = 256 * CYCLE;

/// Instructions of a turn at most.
const BUDGET: u64 = 4096;

/// Runs a launch; its profile comes with the report.
pub(super) fn run(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut Workers,
    chip: &mut Chip,
) -> Result<(Report, Profile), LaunchError> {
    chip.reset();
    let mut conductor = Lead::new(memory, launch, chip);
    let report = serial::run(memory, launch, entry, workers, &mut conductor)?;
    let profile = timing::profile(&conductor.model.accounts, conductor.minions.len() as u64);
    Ok((report, profile))
}

/// What all minions share.
struct Model<'a> {
    memory: &'a Memory,
    chip: &'a mut Chip,
    accounts: Vec<Account>,
    gatherings: Vec<Gathering>,
}

/// A minion and which of its harts can run.
struct Place {
    clocks: timing::Minion,
    seat: Seat,
    ready: [bool; 2],
    /// It is in the queue.
    queued: bool,
}

/// Lets the hart run that is behind.
struct Lead<'a> {
    model: Model<'a>,
    minions: Vec<Place>,
    /// Instruction buffers, one for four minions.
    buffers: Vec<CodeBuffer>,
    /// Minions that can run, by the time of their earlier hart, then by number.
    queue: BinaryHeap<Reverse<(Ticks, usize)>>,
    /// The minion that runs, until when it may, and the hart whose turn it is.
    current: usize,
    limit: Ticks,
    thread: usize,
}

impl<'a> Lead<'a> {
    fn new(memory: &'a Memory, launch: &Launch<'_>, chip: &'a mut Chip) -> Self {
        let minions: Vec<Place> = run::minions(launch.shire_mask)
            .into_iter()
            .map(|(shire, minion)| Place {
                clocks: timing::Minion::default(),
                seat: Seat { shire: shire as usize, neighborhood: (4 * shire + minion / 8) as usize, minion },
                ready: [false; 2],
                queued: false,
            })
            .collect();
        let buffers = vec![CodeBuffer::default(); minions.len() / 4];
        let model = Model { memory, chip, accounts: vec![Account::default()], gatherings: Vec::new() };
        Lead { model, minions, buffers, queue: BinaryHeap::new(), current: 0, limit: 0, thread: 0 }
    }

    /// The ready hart of a minion that is behind the other, and its time.
    fn earlier(&self, minion: usize) -> Option<(Ticks, usize)> {
        let Place { clocks, ready, .. } = &self.minions[minion];
        (0..2).filter(|&thread| ready[thread]).map(|thread| (clocks.harts[thread].next, thread)).min()
    }

    fn enqueue(&mut self, minion: usize) {
        if self.minions[minion].queued {
            return;
        }
        if let Some((time, _)) = self.earlier(minion) {
            self.minions[minion].queued = true;
            self.queue.push(Reverse((time, minion)));
        }
    }
}

impl Conductor for Lead<'_> {
    type Station<'s>
        = Timed<'s>
    where
        Self: 's;

    fn ready(&mut self, place: usize, _: &Hart) {
        let (minion, thread) = (place / 2, place % 2);
        // Whoever ran last has woken it.
        let now = self.minions[self.current].clocks.harts[self.thread].issued;
        let clock = &mut self.minions[minion].clocks.harts[thread];
        if clock.away {
            clock.woken = now;
        }
        self.minions[minion].ready[thread] = true;
        if minion != self.current {
            self.enqueue(minion);
        }
    }

    fn next(&mut self) -> Option<(usize, u64)> {
        let (time, thread) = match self.earlier(self.current).filter(|&(time, _)| time <= self.limit) {
            Some(found) => found,
            None => {
                self.enqueue(self.current);
                let Reverse((_, minion)) = self.queue.pop()?;
                self.minions[minion].queued = false;
                self.current = minion;
                let (time, thread) = self.earlier(minion)?;
                let others = self.queue.peek().map_or(Ticks::MAX, |Reverse((time, _))| *time);
                self.limit = others.min(time + ALONE) + WINDOW;
                (time, thread)
            }
        };
        debug_assert!(time <= self.limit);
        self.thread = thread;
        self.minions[self.current].ready[thread] = false;
        Some((2 * self.current + thread, BUDGET))
    }

    fn station<'s>(&'s mut self, run: &'s Run<'_>, unit: &'s mut Unit) -> Timed<'s> {
        let Place { clocks, seat, ready, .. } = &mut self.minions[self.current];
        let other = 1 - self.thread;
        // On a tie the hart with the lower number goes first.
        let limit = match ready[other] {
            true => self.limit.min(clocks.harts[other].next.saturating_sub(self.thread as u64)),
            false => self.limit,
        };
        let watcher = Watcher {
            memory: self.model.memory,
            chip: self.model.chip,
            accounts: &mut self.model.accounts,
            gatherings: &mut self.model.gatherings,
            code: &mut self.buffers[self.current / 4],
            clocks,
            seat: *seat,
        };
        let fast = Fast::new(run.memory, watcher, &run.board, unit, run.launch.exact_flags);
        Timed { fast, thread: self.thread, limit }
    }

    fn returned(&mut self, place: usize, hart: &Hart) {
        let Place { clocks, seat, .. } = &mut self.minions[place / 2];
        clocks.harts[place % 2].away = true;
        let around = &mut Around {
            memory: self.model.memory,
            chip: self.model.chip,
            code: &mut self.buffers[place / 8],
            accounts: &mut self.model.accounts,
            seat: *seat,
        };
        clocks.close(around, hart, place % 2);
    }
}

/// The tensor engine's memory, with the model listening.
struct Watcher<'a> {
    memory: &'a Memory,
    chip: &'a mut Chip,
    accounts: &'a mut Vec<Account>,
    gatherings: &'a mut Vec<Gathering>,
    code: &'a mut CodeBuffer,
    clocks: &'a mut timing::Minion,
    seat: Seat,
}

impl Watcher<'_> {
    fn parts(&mut self) -> (&mut timing::Minion, Around<'_>, &mut Vec<Gathering>) {
        let Watcher { memory, chip, accounts, gatherings, code, clocks, seat } = self;
        (clocks, Around { memory, chip, code, accounts, seat: *seat }, gatherings)
    }
}

/// The platform of a hart's turn.
struct Timed<'a> {
    fast: Fast<'a, Watcher<'a>>,
    thread: usize,
    /// When the turn is over.
    limit: Ticks,
}

impl Timed<'_> {
    fn clocks(&mut self) -> &mut timing::Minion {
        self.fast.outside_mut().clocks
    }
}

impl Platform for Timed<'_> {
    const WATCHES: bool = true;

    #[inline]
    fn step(&mut self, hart: &mut Hart, instruction: &Slot) {
        let (clocks, mut around, _) = self.fast.outside_mut().parts();
        clocks.exchanged(hart);
        clocks.step(&mut around, hart, instruction);
    }

    #[inline]
    fn pause(&self, _: &Hart) -> bool {
        self.fast.outside().clocks.harts[self.thread].next > self.limit
    }

    #[inline]
    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        self.fast.load(hart, level, addr)
    }

    #[inline]
    fn quick_load(&mut self, hart: &Hart, addr: u64) -> Option<[u8; 32]> {
        self.fast.quick_load(hart, addr)
    }

    #[inline]
    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        self.fast.store(hart, level, addr, data)
    }

    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        self.fast.atomic(hart, level, addr, wide, op, operand)
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        self.fast.fetch(addr)
    }

    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        let outcome = self.fast.csr_write(hart, csr, value)?;
        let thread = self.thread;
        let clocks = self.clocks();
        clocks.exchanged(hart);
        match (csr, outcome) {
            (_, Outcome::Block) => clocks.blocked(thread),
            (0x820, Outcome::Done(1)) => clocks.last_at_barrier(hart, thread),
            (0x821, _) => clocks.credited(hart, thread),
            _ => {}
        }
        Ok(outcome)
    }

    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap> {
        self.fast.csr_read(hart, csr)
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        let settled = self.fast.settle(hart);
        let thread = self.thread;
        let clocks = self.clocks();
        if settled {
            clocks.exchanged(hart);
        } else {
            clocks.harts[thread].away = true;
        }
        settled
    }
}

impl Station for Timed<'_> {
    fn refresh(&mut self, hart: &mut Hart) {
        self.fast.refresh(hart);
    }

    fn waiting(&self) -> Option<WaitFor> {
        self.fast.waiting()
    }

    fn take_late(&mut self) -> Option<Trap> {
        self.fast.take_late()
    }
}

impl Outside for Watcher<'_> {
    fn classify(&self, shire: u32, addr: u64) -> Region {
        self.memory.classify(shire, addr)
    }

    #[inline]
    fn read_block<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Refusal> {
        Outside::read_block(&mut { self.memory }, hart, level, addr)
    }

    #[inline]
    fn write_block<const N: usize>(&mut self, hart: &Hart, addr: u64, data: [u8; N]) -> Result<(), Refusal> {
        Outside::write_block(&mut { self.memory }, hart, addr, data)
    }

    fn write_scratchpad(&mut self, hart: &Hart, offset: u64, line: [u8; 64]) {
        Outside::write_scratchpad(&mut { self.memory }, hart, offset, line);
    }

    fn cache_line(&mut self, hart: &Hart, action: CacheAction, event: u64, level: u64, addr: u64) {
        Outside::cache_line(&mut { self.memory }, hart, action, event, level, addr);
    }

    fn issued(&mut self, hart: &mut Hart, operation: &Operation) {
        let (clocks, mut around, gatherings) = self.parts();
        clocks.issued(&mut around, hart, operation, gatherings);
    }
}
