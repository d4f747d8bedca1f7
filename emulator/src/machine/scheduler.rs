//! Runs the harts of a launch on host threads.
//!
//! Minions are dealt out to threads in turn, so that kernels which use few harts still use all threads. A thread runs its
//! ready harts round robin; a blocked hart costs nothing until it is woken (see [`Wake`]).

use super::entry::Entry;
use super::fast::Fast;
use super::launch::{Launch, LaunchError, Report};
use super::run::{self, Minion, Run, State, Tally};
use super::turn::{turn, Next, Station};
use super::workers::Worker;
use crate::code::Code;
use crate::memory::Memory;
use crate::sync::{Share, Verdict, Wake};
use crate::tensor::Unit;
use std::collections::VecDeque;

/// Instructions that a hart runs before the next one of its thread. Short enough for spin locks between harts of one
/// thread, long enough to hide the change.
const QUANTUM: u64 = 8000;

/// Looks at the wake bits before a thread without work goes to sleep, which is slower to end than the usual wait.
const SPINS: u32 = 200;

/// What harts run on.
pub(super) trait Platforms: Sync {
    /// The platform of a turn.
    type Station<'s>: Station
    where
        Self: 's;

    /// The platform for a turn of a hart of the minion with this `unit`.
    fn station<'s>(&'s self, run: &'s Run<'_>, unit: &'s mut Unit) -> Self::Station<'s>;
}

/// Flat memory, and nobody watches.
pub(super) struct Flat;

impl Platforms for Flat {
    type Station<'s> = Fast<'s, &'s Memory>;

    fn station<'s>(&'s self, run: &'s Run<'_>, unit: &'s mut Unit) -> Self::Station<'s> {
        Fast::new(run.memory, run.memory, &run.board, unit, run.launch.exact_flags)
    }
}

/// Which minions each thread runs: `(shire, minion)`, shire by shire.
type Deal = Vec<Vec<(u32, u32)>>;

fn deal(shire_mask: u64, threads: usize) -> Deal {
    let minions = run::minions(shire_mask);
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
pub(super) fn run<P: Platforms>(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut [Worker],
    platforms: &P,
) -> Result<Report, LaunchError> {
    let deal = deal(launch.shire_mask, workers.len());
    let shares: Vec<_> = deal.iter().map(|minions| shares(minions)).collect();
    let run = Run::new(memory, launch, entry, &shares);
    let work =
        |thread: usize, worker| Thread::new(&run, platforms, thread, &deal[thread], &shares[thread], worker).work();
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
struct Thread<'a, P> {
    run: &'a Run<'a>,
    platforms: &'a P,
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

impl<'a, P: Platforms> Thread<'a, P> {
    fn new(
        run: &'a Run<'a>,
        platforms: &'a P,
        number: usize,
        deal: &[(u32, u32)],
        shares: &'a [Share],
        worker: &'a mut Worker,
    ) -> Self {
        let mut places = vec![[usize::MAX; 32]; shares.len()];
        for (place, &(shire, minion)) in deal.iter().enumerate() {
            let share = shares.iter().position(|share| share.shire == shire);
            places[share.expect("every minion is in a share")][minion as usize] = place;
        }
        let minions = Minion::gather(&mut worker.minions, &run.entry, deal);
        let live = 2 * minions.len();
        let ready = (0..live).collect();
        Thread { run, platforms, number, shares, code: &mut worker.code, minions, places, ready, live }
    }

    fn work(mut self) -> Tally {
        let wake = &self.run.board.wake;
        let _guard = StopOnPanic(wake);
        while !wake.stopped() {
            self.collect_woken();
            if let Some(place) = self.ready.pop_front() {
                self.turn(place);
                self.run.watch_clock();
            } else if self.live == 0 {
                if wake.leave() {
                    self.run.fail(LaunchError::Deadlock(Vec::new()));
                }
                break;
            } else if !self.spin() {
                match wake.sleep(self.number, self.shares, self.run.deadline()) {
                    Verdict::Woken | Verdict::Stopped => {}
                    Verdict::Deadlock => self.run.fail(LaunchError::Deadlock(Vec::new())),
                    Verdict::Deadline => self.run.out_of_time(),
                }
            }
        }
        Tally::of(self.minions)
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
        match turn(run, hart, self.code, &mut self.platforms.station(run, unit), QUANTUM) {
            Next::Ready => self.ready.push_back(place),
            Next::Served => self.ready.push_front(place),
            Next::Blocked(what) => *state = State::Blocked(what),
            Next::Returned => {
                *state = State::Returned;
                self.live -= 1;
            }
            Next::Failed => {}
        }
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
