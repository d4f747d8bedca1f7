//! What all minions share: caches below L1, the paths to them, and the places where harts meet.

use super::cache::Cache;
use super::constants::*;
use super::pipe::Pipe;
use super::profile::Level;
use crate::memory::{Memory, Region, SCRATCHPAD_BYTES};
use std::collections::HashMap;

/// Bytes of a cache line.
pub const LINE: u32 = 64;

/// Where a minion sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its shire.
    pub shire: usize,
    /// Its neighborhood, counted over the chip.
    pub neighborhood: usize,
    /// Its number in the shire.
    pub minion: u32,
}

/// A line's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it is at the minion.
    pub at: Ticks,
    /// Who had it.
    pub level: Level,
}

/// A line as the caches know it: DRAM's are numbered from 0, the scratchpads' from here on.
pub const SCRATCHPADS: u64 = 1 << 40;

/// The shared parts.
#[derive(Debug)]
pub struct Chip {
    l2: Vec<Cache>,
    l3: Cache,
    /// Instruction caches, one per neighborhood.
    code: Vec<Cache>,
    /// When they can give their next line.
    code_free: Vec<Ticks>,
    neighborhoods: Vec<Pipe>,
    shires: Vec<Pipe>,
    mesh: Vec<Pipe>,
    dram: Pipe,
    /// When the next atomic on a line of L3 can be done.
    atomics: HashMap<u64, Ticks>,
    /// When each of a neighborhood's barrier requests under way is answered.
    barriers: Vec<[Ticks; FLB_IN_FLIGHT as usize]>,
}

impl Chip {
    /// A chip of which `shires` shires are used.
    pub fn new(shires: usize) -> Self {
        Chip {
            l2: vec![Cache::new(L2_LINES); shires],
            l3: Cache::new(L3_LINES),
            code: vec![Cache::new(L1I_LINES); 4 * shires],
            code_free: vec![0; 4 * shires],
            neighborhoods: vec![Pipe::new(NEIGHBORHOOD_BYTES); 4 * shires],
            shires: vec![Pipe::new(SHIRE_BYTES); shires],
            mesh: vec![Pipe::new(NOC_BYTES); shires],
            dram: Pipe::new(DRAM_BYTES * DRAM_SHARE),
            atomics: HashMap::new(),
            barriers: vec![[0; FLB_IN_FLIGHT as usize]; 4 * shires],
        }
    }

    /// Cold and idle, at time 0.
    pub fn reset(&mut self) {
        self.l2.iter_mut().chain(&mut self.code).for_each(Cache::reset);
        self.l3.reset();
        self.code_free.fill(0);
        self.neighborhoods.iter_mut().chain(&mut self.shires).chain(&mut self.mesh).for_each(Pipe::reset);
        self.dram.reset();
        self.atomics.clear();
        self.barriers.fill([0; FLB_IN_FLIGHT as usize]);
    }

    /// A line for a minion, through its shire's L2 or, with `around`, from L3.
    pub fn read(&mut self, seat: Seat, line: u64, at: Ticks, around: bool) -> Served {
        if line >= SCRATCHPADS {
            return self.scratchpad(seat, line, at);
        }
        let shire = seat.shire;
        if !around {
            if let Some(way) = self.l2[shire].set(line).find(line) {
                let ready = way.ready;
                let late = self.paths(seat, at, LINE);
                return Served { at: (at + L2_LATENCY + late).max(ready), level: Level::L2 };
            }
        }
        let served = self.beyond(seat, line, at);
        if !around {
            self.fill_l2(shire, line, served.at, false);
        }
        served
    }

    /// A line that L2 does not have.
    fn beyond(&mut self, seat: Seat, line: u64, at: Ticks) -> Served {
        let mut late = self.paths(seat, at, LINE).max(self.mesh[seat.shire].take(at, LINE));
        if let Some(way) = self.l3.set(line).find(line) {
            return Served { at: (at + L3_LATENCY + late).max(way.ready), level: Level::L3 };
        }
        late = late.max(self.dram.take(at, LINE));
        let served = at + DRAM_LATENCY + late;
        self.fill_l3(line, served, false);
        Served { at: served, level: Level::Dram }
    }

    fn scratchpad(&mut self, seat: Seat, line: u64, at: Ticks) -> Served {
        let home = home(line);
        let late = self.neighborhoods[seat.neighborhood].take(at, LINE).max(self.shires[home].take(at, LINE));
        let at = if home == seat.shire {
            at + L2_LATENCY + late
        } else {
            at + L3_LATENCY + late.max(self.mesh[seat.shire].take(at, LINE))
        };
        Served { at, level: Level::Scratchpad }
    }

    /// How much the way between a minion and its shire's cache delays `bytes`.
    #[inline]
    fn paths(&mut self, seat: Seat, at: Ticks, bytes: u32) -> Ticks {
        self.neighborhoods[seat.neighborhood].take(at, bytes).max(self.shires[seat.shire].take(at, bytes))
    }

    fn fill_l2(&mut self, shire: usize, line: u64, ready: Ticks, dirty: bool) {
        if let Some(old) = self.l2[shire].set(line).insert(line, ready, dirty) {
            self.mesh[shire].take(ready, LINE);
            self.settle_l3(old, ready);
        }
    }

    fn fill_l3(&mut self, line: u64, ready: Ticks, dirty: bool) {
        if self.l3.set(line).insert(line, ready, dirty).is_some() {
            self.dram.take(ready, LINE);
        }
    }

    /// A changed line comes to L3.
    fn settle_l3(&mut self, line: u64, at: Ticks) {
        match self.l3.set(line).find(line) {
            Some(way) => way.dirty = true,
            None => self.fill_l3(line, at, true),
        }
    }

    /// A changed line leaves L1 for L2, or for the scratchpad that it belongs to.
    pub fn write_back(&mut self, seat: Seat, line: u64, at: Ticks) {
        self.paths(seat, at, LINE);
        if line >= SCRATCHPADS {
            if home(line) != seat.shire {
                self.mesh[seat.shire].take(at, LINE);
            }
            return;
        }
        match self.l2[seat.shire].set(line).find(line) {
            Some(way) => way.dirty = true,
            None => self.fill_l2(seat.shire, line, at, true),
        }
    }

    /// `bytes` of a line written around L1 and L2: when L3 or the scratchpad has them, without its answer's way back.
    pub fn write_around(&mut self, seat: Seat, line: u64, bytes: u32, at: Ticks) -> Ticks {
        let mut late = self.paths(seat, at, bytes);
        if line >= SCRATCHPADS {
            if home(line) != seat.shire {
                late = late.max(self.mesh[seat.shire].take(at, bytes));
            }
        } else {
            late = late.max(self.mesh[seat.shire].take(at, bytes));
            self.settle_l3(line, at);
        }
        at + late
    }

    /// An l or g access of `bytes` bytes.
    pub fn uncached(&mut self, seat: Seat, line: u64, global: bool, atomic: bool, bytes: u32, at: Ticks) -> Served {
        let mut served = if global || line >= SCRATCHPADS {
            let late = self.paths(seat, at, bytes).max(self.mesh[seat.shire].take(at, bytes));
            if line >= SCRATCHPADS {
                let far = home(line) != seat.shire || global;
                Served { at: at + late + if far { L3_LATENCY } else { L2_LATENCY }, level: Level::Scratchpad }
            } else if let Some(way) = self.l3.set(line).find(line) {
                way.dirty = true;
                Served { at: (at + late + L3_LATENCY).max(way.ready), level: Level::L3 }
            } else {
                let late = late.max(self.dram.take(at, LINE));
                self.fill_l3(line, at + late + DRAM_LATENCY, true);
                Served { at: at + late + DRAM_LATENCY, level: Level::Dram }
            }
        } else {
            let served = self.read(seat, line, at, false);
            if let Some(way) = self.l2[seat.shire].set(line).find(line) {
                way.dirty = true;
            }
            served
        };
        if atomic && global {
            let free = self.atomics.entry(line).or_default();
            served.at = served.at.max(*free);
            *free = served.at + SAME_LINE;
        }
        served
    }

    /// A line is to leave L2, or all caches with `memory`, and to stay as a clean copy if `keep`. Whether L2 has to wait for
    /// the levels below, and for which.
    pub fn clean(&mut self, seat: Seat, line: u64, memory: bool, keep: bool, at: Ticks) -> Option<Level> {
        let mut slowest = None;
        let set = self.l2[seat.shire].set(line);
        let dirty = if keep {
            set.find(line).is_some_and(|way| std::mem::take(&mut way.dirty))
        } else {
            set.remove(line).is_some_and(|way| way.dirty)
        };
        if dirty {
            self.mesh[seat.shire].take(at, LINE);
            self.settle_l3(line, at);
            slowest = Some(Level::L3);
        }
        if memory {
            let set = self.l3.set(line);
            let dirty = if keep {
                set.find(line).is_some_and(|way| std::mem::take(&mut way.dirty))
            } else {
                set.remove(line).is_some_and(|way| way.dirty)
            };
            if dirty {
                self.dram.take(at, LINE);
                slowest = Some(Level::Dram);
            }
        }
        slowest
    }

    /// A line of code for a neighborhood, asked for at `at`.
    pub fn code(&mut self, seat: Seat, line: u64, at: Ticks) -> Ticks {
        let free = &mut self.code_free[seat.neighborhood];
        let start = at.max(*free);
        *free = start + L1I_PITCH;
        if let Some(way) = self.code[seat.neighborhood].set(line).find(line) {
            return (start + L1I_LATENCY).max(way.ready);
        }
        let ready = self.read(seat, line, start + L1I_LATENCY, false).at;
        self.code[seat.neighborhood].set(line).insert(line, ready, false);
        ready
    }

    /// A barrier request of a neighborhood's hart: when it is answered.
    pub fn barrier(&mut self, seat: Seat, at: Ticks) -> Ticks {
        let under_way = &mut self.barriers[seat.neighborhood];
        let place = (0..under_way.len()).min_by_key(|&i| under_way[i]).unwrap_or(0);
        under_way[place] = at.max(under_way[place]) + FLB;
        under_way[place]
    }
}

/// The shire of a scratchpad line.
fn home(line: u64) -> usize {
    ((line - SCRATCHPADS) / (SCRATCHPAD_BYTES / u64::from(LINE))) as usize
}

/// The line at an address of memory that holds bytes, as the caches number it, seen from a shire.
pub fn line_of(memory: &Memory, shire: usize, addr: u64) -> Option<u64> {
    match memory.classify(shire as u32, crate::memory::region::canonical(addr)) {
        Region::Dram(offset) => Some(offset / u64::from(LINE)),
        Region::Scratchpad(offset) => Some(SCRATCHPADS + offset / u64::from(LINE)),
        Region::Register(_) | Region::Missing | Region::Closed => None,
    }
}
