//! What orders harts: local barriers, credits, atomics, exchanges between tensor engines.

use super::clock::Stamp;
use super::finding::{Fault, Finding, Spot};
use super::watch::Watch;
use std::collections::{HashMap, VecDeque};

/// A credit under way.
#[derive(Debug)]
struct Credit {
    stamp: Stamp,
    sender: Spot,
}

/// A local barrier.
#[derive(Debug, Default)]
struct Barrier {
    /// What those know who have arrived.
    clock: Vec<u32>,
    arrived: Vec<Spot>,
    limit: u8,
    /// Places of the last complete round, and the epoch of the one who completed it.
    members: Vec<u16>,
    last: Option<(u16, u32)>,
}

/// The synchronisation of a launch.
#[derive(Debug)]
pub struct Sync {
    barriers: HashMap<(u16, u8), Barrier>,
    credits: Vec<[VecDeque<Credit>; 2]>,
    /// Clocks of words that atomics use, by address / 8.
    words: HashMap<u64, Vec<u32>>,
    /// From minion to minion, by place: what the one knew when it started an exchange with the other.
    exchanges: HashMap<(u16, u16), VecDeque<Stamp>>,
    /// Exchanges that a minion has started and not waited for: partners.
    started: HashMap<u16, Vec<u16>>,
    /// Cooperative loads: what those know who have issued one.
    groups: HashMap<(u16, u32, u64), Vec<u32>>,
}

impl Sync {
    pub fn new(harts: usize) -> Sync {
        Sync {
            barriers: HashMap::new(),
            credits: (0..harts).map(|_| Default::default()).collect(),
            words: HashMap::new(),
            exchanges: HashMap::new(),
            started: HashMap::new(),
            groups: HashMap::new(),
        }
    }
}

impl Watch<'_> {
    /// A hart arrives at a local barrier of its shire; `last` completes the round.
    pub fn arrive(&mut self, place: u16, number: u8, limit: u8, last: bool) {
        let spot = self.spot(place);
        let epoch = self.clocks.now(place);
        let barrier = self.sync.barriers.entry((place / 64, number)).or_default();
        let fault = if let Some(&first) = barrier.arrived.first() {
            let own = barrier.arrived.iter().find(|other| other.place == place);
            if let Some(&own) = own {
                Some((Fault::BarrierTwice { barrier: number }, own))
            } else if barrier.limit != limit {
                Some((Fault::BarrierLimit { barrier: number, limit, before: barrier.limit }, first))
            } else {
                None
            }
        } else {
            None
        };
        let fault = fault.or_else(|| {
            let (other, epoch) = barrier.last?;
            let stranger = !barrier.members.contains(&place) && !self.clocks.knows(place, other, epoch);
            let spot = Spot { place: other, ..barrier.arrived.first().copied().unwrap_or(spot) };
            stranger.then_some((Fault::BarrierGroups { barrier: number }, spot))
        });
        barrier.limit = limit;
        barrier.arrived.push(spot);
        self.clocks.release_into(place, &mut barrier.clock);
        if last {
            barrier.members = barrier.arrived.drain(..).map(|spot| spot.place).collect();
            barrier.last = Some((place, epoch));
            let clock = std::mem::take(&mut barrier.clock);
            self.acquire(place, &clock);
        }
        self.writes.new_phase(place);
        if let Some((fault, other)) = fault {
            self.report(place, fault, None, Some(other));
        }
    }

    /// A hart gives a credit to each of `to` (places).
    pub fn give(&mut self, place: u16, counter: usize, to: &[u16]) {
        let sender = self.spot(place);
        let stamp = self.clocks.release(place);
        self.writes.new_phase(place);
        for &place in to {
            if let Some(credits) = self.sync.credits.get_mut(usize::from(place)) {
                credits[counter].push_back(Credit { stamp: stamp.clone(), sender });
            }
        }
    }

    /// A hart has consumed a credit.
    pub fn take(&mut self, place: u16, counter: usize) {
        self.finish_fetching(place, None);
        if let Some(credit) = self.sync.credits[usize::from(place)][counter].pop_front() {
            self.acquire(place, &credit.stamp);
        }
    }

    /// An atomic is about to act on a word.
    pub fn acquire_word(&mut self, place: u16, word: u64) {
        if let Some(clock) = self.sync.words.remove(&word) {
            self.acquire(place, &clock);
            self.sync.words.insert(word, clock);
        }
    }

    /// An atomic has acted on a word.
    pub fn release_word(&mut self, place: u16, word: u64) {
        let clock = self.sync.words.entry(word).or_default();
        self.clocks.release_into(place, clock);
        self.writes.new_phase(place);
    }

    /// Whether atomics use a word.
    pub fn is_word(&self, word: u64) -> bool {
        !self.sync.words.is_empty() && self.sync.words.contains_key(&word)
    }

    /// A minion's engine starts an exchange with another's (minions by place / 2).
    pub fn start_exchange(&mut self, place: u16, partner: u16) {
        let stamp = self.clocks.release(place);
        self.writes.new_phase(place);
        self.sync.exchanges.entry((place / 2, partner)).or_default().push_back(stamp);
        self.sync.started.entry(place / 2).or_default().push(partner);
    }

    /// The minion's exchanges are complete.
    pub fn finish_exchanges(&mut self, place: u16) {
        for partner in self.sync.started.remove(&(place / 2)).unwrap_or_default() {
            let stamp = self.sync.exchanges.get_mut(&(partner, place / 2)).and_then(VecDeque::pop_front);
            if let Some(stamp) = stamp {
                self.acquire(place, &stamp);
            }
        }
    }

    /// A minion issues its part of a cooperative load.
    pub fn join_group(&mut self, place: u16, members: u32, addr: u64) {
        let clock = self.sync.groups.entry((place / 64, members, addr)).or_default();
        self.clocks.release_into(place, clock);
    }

    /// A cooperative load is complete.
    pub fn leave_group(&mut self, place: u16, members: u32, addr: u64) {
        if let Some(clock) = self.sync.groups.remove(&(place / 64, members, addr)) {
            self.acquire(place, &clock);
            self.sync.groups.insert((place / 64, members, addr), clock);
        }
    }

    /// What is left over when all harts have returned.
    pub fn check_sync(&mut self) {
        for (place, counters) in self.sync.credits.iter().enumerate() {
            for (counter, credits) in counters.iter().enumerate() {
                if let Some(credit) = credits.back() {
                    let fault = Fault::CreditsLeft { counter: counter as u8, count: credits.len() as u16 };
                    let other = Some(Spot { place: place as u16, ..credit.sender });
                    let finding = Finding { fault, spot: credit.sender, other, used: None, address: None };
                    self.findings.report(finding);
                }
            }
        }
        let mut open: Vec<_> = self.sync.barriers.iter().filter(|(_, b)| !b.arrived.is_empty()).collect();
        open.sort_by_key(|(&key, _)| key);
        for (&(_, number), barrier) in open {
            if let Some(&spot) = barrier.arrived.last() {
                let fault = Fault::BarrierLeft { barrier: number, count: barrier.arrived.len() as u8 };
                self.findings.report(Finding { fault, spot, other: None, used: None, address: None });
            }
        }
    }
}
