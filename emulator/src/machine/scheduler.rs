//! Runs the harts of a launch on host threads.
//!
//! Minions are dealt out to threads in turn, so that kernels which use few harts still use all threads. A thread runs its
//! own harts round robin, and those of others while its own have nothing to do: host cores are not equally fast, and
//! between two barriers the slowest thread decides. A blocked hart costs nothing until it is woken (see [`Wake`]).

use super::entry::Entry;
use super::fast::Fast;
use super::launch::{Launch, LaunchError, Report};
use super::run::{self, Minion, Run, State};
use super::turn::{turn, Next, Station};
use super::workers::Workers;
use crate::code::Code;
use crate::memory::Memory;
use crate::sync::{Verdict, Wake};
use crate::tensor::Unit;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, TryLockError};

/// Instructions that a hart runs before the next one of its thread. Short enough for spin locks between harts of one
/// thread, long enough to hide the change.
const QUANTUM: u64 = 8000;

/// Looks at the wake bits before a thread without work goes to sleep: about as long as it takes to wake a thread.
const SPINS: u32 = 1000;

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

/// Runs all harts of `launch` to their end, on the host threads that `workers` has code for.
pub(super) fn run<P: Platforms>(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut Workers,
    platforms: &P,
) -> Result<Report, LaunchError> {
    let deal = run::minions(launch.shire_mask);
    let shires: Vec<u32> = deal.chunks(32).map(|minions| minions[0].0).collect();
    let threads = workers.codes.len().clamp(1, deal.len());
    let run = Run::new(memory, launch, entry, threads);
    let (codes, minions) = workers.gather(&run.entry, &deal);
    let live = AtomicUsize::new(2 * minions.len());
    for &shire in &shires {
        run.board.wake.harts(shire, u64::MAX);
    }
    let work = |number: usize, code| {
        let own = home(number, threads, shires.len());
        Thread { run: &run, platforms, number, own, shires: &shires, code, minions, live: &live, last: 0 }.work();
    };
    let (first, others) = codes[..threads].split_first_mut().expect("there is at least one thread");
    std::thread::scope(|scope| {
        for (other, code) in others.iter_mut().enumerate() {
            let work = &work;
            scope.spawn(move || work(other + 1, code));
        }
        work(0, first);
    });
    run.conclude(minions)
}

/// The harts of each of so many shires that are a thread's own.
fn home(thread: usize, threads: usize, shires: usize) -> Vec<u64> {
    let of_shire = |shire| {
        let minions = (0..32).filter(|minion| (32 * shire + minion) % threads == thread);
        minions.fold(0, |harts, minion| harts | 3 << (2 * minion))
    };
    (0..shires).map(of_shire).collect()
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
    /// The harts of each shire that it looks at first.
    own: Vec<u64>,
    /// The shires of the launch.
    shires: &'a [u32],
    code: &'a mut Code,
    /// The minions of the launch, shire by shire.
    minions: &'a [Mutex<Minion>],
    /// Harts that have not returned.
    live: &'a AtomicUsize,
    /// The place of the minion that ran last.
    last: usize,
}

impl<P: Platforms> Thread<'_, P> {
    fn work(mut self) {
        let wake = &self.run.board.wake;
        let _guard = StopOnPanic(wake);
        while !wake.stopped() {
            if let Some((place, harts)) = self.next(|own| own).or_else(|| self.next(|own| !own)) {
                self.visit(place, harts);
                self.run.watch_clock();
            } else if !self.spin() {
                match wake.sleep(self.number, self.run.deadline()) {
                    Verdict::Woken | Verdict::Stopped => {}
                    Verdict::Deadlock => self.run.fail(LaunchError::Deadlock(Vec::new())),
                    Verdict::Deadline => self.run.out_of_time(),
                }
            }
        }
    }

    /// Takes harts to run: those of one minion, from the one after the last on. `among` makes a shire's own harts those
    /// to choose from. Gives the minion's place, and its harts as bits of its shire.
    fn next(&self, among: impl Fn(u64) -> u64) -> Option<(usize, u64)> {
        let (first, after) = (self.last / 32, 2 * (self.last as u32 + 1) % 64);
        let count = self.shires.len();
        (0..count).find_map(|step| {
            let number = (first + step) % count;
            let from = if step == 0 { after } else { 0 };
            let harts = self.run.board.wake.take_minion(self.shires[number], among(self.own[number]), from)?;
            Some((32 * number + harts.trailing_zeros() as usize / 2, harts))
        })
    }

    /// Waits a moment for a wake bit.
    fn spin(&self) -> bool {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.run.board.wake.pending()
        })
    }

    /// Runs harts of a minion.
    fn visit(&mut self, place: usize, harts: u64) {
        self.last = place;
        let wake = &self.run.board.wake;
        let shire = self.shires[place / 32];
        let mut minion = match self.minions[place].try_lock() {
            Ok(minion) => minion,
            // Another thread runs the minion's other hart.
            Err(TryLockError::WouldBlock) => {
                wake.put_back(shire, harts);
                return std::hint::spin_loop();
            }
            Err(TryLockError::Poisoned(_)) => return,
        };
        let mut again = 0;
        for thread in 0..2 {
            let bit = 1 << (2 * (place % 32) + thread);
            if harts & bit != 0 && self.turn(&mut minion, thread) {
                again |= bit;
            }
        }
        drop(minion);
        if again != 0 {
            wake.put_back(shire, again);
        }
    }

    /// Runs a hart until its quantum ends or it stops; whether it can go on.
    fn turn(&mut self, minion: &mut Minion, thread: usize) -> bool {
        let run = self.run;
        let Minion { unit, harts } = minion;
        let (hart, state) = &mut harts[thread];
        if *state == State::Returned {
            return false;
        }
        *state = State::Ready;
        let next = loop {
            match turn(run, hart, self.code, &mut self.platforms.station(run, unit), QUANTUM) {
                Next::Served => {}
                next => break next,
            }
        };
        match next {
            Next::Ready | Next::Served => return true,
            Next::Blocked(what) => *state = State::Blocked(what),
            Next::Returned => {
                *state = State::Returned;
                if self.live.fetch_sub(1, Relaxed) == 1 {
                    run.board.wake.stop();
                }
            }
            Next::Failed => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hart_has_one_home() {
        for threads in [1, 2, 3, 64] {
            for shire in 0..2 {
                let homes = (0..threads).map(|thread| home(thread, threads, 2)[shire]);
                assert_eq!(homes.clone().fold(0, |all, own| all | own), u64::MAX);
                assert_eq!(homes.map(|own| own.count_ones()).sum::<u32>(), 64);
            }
        }
    }
}
