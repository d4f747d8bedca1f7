//! The data cache of a minion, split between its harts.

use super::cache::Set;
use super::chip::{Chip, Seat};
use super::constants::*;
use super::profile::Level;

/// How an access went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When what it loads can be used, if that is later than for a hit.
    pub usable: Ticks,
    /// When the hart can go on.
    pub proceed: Ticks,
    /// The first change to the line.
    pub first_write: bool,
    /// Where the line came from.
    pub level: Level,
}

/// The part of the cache that a hart has.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    /// Where the minion sits.
    pub seat: Seat,
    /// Which of its harts.
    pub thread: usize,
    /// The cache's mode: ucache_control.
    pub mode: u32,
}

/// The cache and the misses under way.
#[derive(Clone, Debug, Default)]
pub struct L1 {
    sets: [Set<4>; 16],
    /// When the places for misses are free.
    misses: [Ticks; MISSES_IN_FLIGHT as usize],
    /// When the last misses began, and which of them is the oldest.
    begun: [Ticks; REPLAYS as usize],
    oldest: usize,
}

impl L1 {
    /// The set of a line for a hart.
    fn set(&mut self, half: Half, line: u64) -> &mut Set<4> {
        let (first, count) = match (half.mode & 3, half.thread) {
            (1, 0) => (0, 8),
            (1 | 3, 1) => (14, 2),
            (3, _) => (12, 2),
            _ => (0, 16),
        };
        &mut self.sets[first + (line % count) as usize]
    }

    /// A load or store at `at`.
    pub fn access(&mut self, chip: &mut Chip, half: Half, line: u64, at: Ticks, write: bool) -> Access {
        if let Some(way) = self.set(half, line).find(line) {
            let first_write = write && !way.dirty;
            way.dirty |= write;
            return Access { usable: way.ready, proceed: at, first_write, level: Level::L1 };
        }
        let place = (0..self.misses.len()).min_by_key(|&i| self.misses[i]).unwrap_or(0);
        let start = at.max(self.misses[place]);
        let served = chip.read(half.seat, line, start, false);
        self.misses[place] = served.at + MISS_PITCH;
        let proceed = at.max(std::mem::replace(&mut self.begun[self.oldest], start));
        self.oldest = (self.oldest + 1) % self.begun.len();
        let usable = served.at + MISS_USE;
        if let Some(old) = self.set(half, line).insert(line, usable, write) {
            chip.write_back(half.seat, old, served.at);
        }
        Access { usable, proceed, first_write: false, level: served.level }
    }

    /// A line is to leave L1, or to stay as a clean copy if `keep`; whether it has to be written back.
    pub fn clean(&mut self, half: Half, line: u64, keep: bool) -> bool {
        let set = self.set(half, line);
        if keep {
            set.find(line).is_some_and(|way| std::mem::take(&mut way.dirty))
        } else {
            set.remove(line).is_some_and(|way| way.dirty)
        }
    }
}
