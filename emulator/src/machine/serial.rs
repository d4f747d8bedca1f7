//! Runs the harts of a launch on one host thread, in an order that a conductor chooses: the same launch always runs
//! the same way.

use super::entry::Entry;
use super::launch::{Launch, LaunchError, Report};
use super::run::{self, Minion, Run, State};
use super::turn::{turn, Next, Station};
use super::workers::{own, Workers};
use crate::hart::Hart;
use crate::memory::Memory;
use crate::tensor::Unit;

/// Decides who runs when, and on what.
pub(super) trait Conductor {
    /// The platform of a turn.
    type Station<'s>: Station
    where
        Self: 's;

    /// A hart can run: at the start of the launch, after it was woken, and after a turn that it could go on from.
    fn ready(&mut self, place: usize, hart: &Hart);

    /// Takes the hart to run next out of those that are ready, and says for how many instructions at most.
    fn next(&mut self) -> Option<(usize, u64)>;

    /// The platform for a turn of a hart of the minion with this `unit`.
    fn station<'s>(&'s mut self, run: &'s Run<'_>, unit: &'s mut Unit) -> Self::Station<'s>;

    /// A hart has returned from the kernel.
    fn returned(&mut self, _place: usize, _hart: &Hart) {}
}

/// Runs all harts of `launch` to their end. Places count the harts of the launch in the order of their numbers.
pub(super) fn run<C: Conductor>(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut Workers,
    conductor: &mut C,
) -> Result<Report, LaunchError> {
    let deal = run::minions(launch.shire_mask);
    let shires: Vec<u32> = deal.chunks(32).map(|minions| minions[0].0).collect();
    let run = Run::new(memory, launch, entry, 1);
    let (codes, minions) = workers.gather(&run.entry, &deal);
    let mut live = 2 * minions.len();
    for place in 0..live {
        conductor.ready(place, &own(&mut minions[place / 2]).harts[place % 2].0);
    }
    while live > 0 && !run.board.wake.stopped() {
        for (number, &shire) in shires.iter().enumerate() {
            let mut bits = run.board.wake.take(shire);
            while bits != 0 {
                let place = 64 * number + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let (hart, state) = &mut own(&mut minions[place / 2]).harts[place % 2];
                if matches!(state, State::Blocked(_)) {
                    *state = State::Ready;
                    conductor.ready(place, hart);
                }
            }
        }
        let Some((place, budget)) = conductor.next() else {
            run.fail(LaunchError::Deadlock(Vec::new()));
            break;
        };
        let Minion { unit, harts } = own(&mut minions[place / 2]);
        let (hart, state) = &mut harts[place % 2];
        let next = turn(&run, hart, &mut codes[0], &mut conductor.station(&run, unit), budget);
        match next {
            Next::Ready | Next::Served => conductor.ready(place, hart),
            Next::Blocked(what) => *state = State::Blocked(what),
            Next::Returned => {
                *state = State::Returned;
                live -= 1;
                conductor.returned(place, hart);
            }
            Next::Failed => {}
        }
        run.watch_clock();
    }
    run.conclude(minions)
}
