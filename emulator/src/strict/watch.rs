//! The state of a launch under watch.

use super::clock::Clocks;
use super::finding::{Fault, Finding, Findings, Spot};
use super::hart::LastChange;
use super::hazard::Unit;
use super::line::{Active, Content, Holder, Mask, Published, Versions};
use super::lines::{self, Lines, Noted};
use super::results::Results;
use super::sync::Sync;
use super::values::{Bad, Values};
use super::writes::{Manner, Version, Writes};
use super::written::{span, Written};
use crate::hart::Hart;
use crate::memory::{Memory, Region, HOST_BASE, OPEN_BASE, SCRATCHPAD_BYTES};
use crate::platform::Level;
use std::ops::Range;

/// Offset in open DRAM below which stacks and argument blocks lie.
const HOST_OFFSET: u64 = HOST_BASE - OPEN_BASE;

/// Why a cached floor is looked at again: so many harts have learned something.
const FLOOR_AGE: usize = 2;

/// A cache operation that its hart has not waited for.
#[derive(Debug)]
pub struct Pending {
    pub line: usize,
    /// Drop the copies, too.
    pub evict: bool,
    /// 1 L2, 2 and more L3.
    pub level: u64,
    /// What the hart's L1 held that was not below it, when the operation started, and which bytes.
    pub content: Option<(Box<Content>, Mask)>,
    pub pc: u64,
}

/// A prefetch that its hart has not waited for. If it arrived after a refresh, the hart would have an old copy again.
#[derive(Clone, Copy, Debug)]
pub struct Fetching {
    /// The line's index.
    pub line: usize,
    /// 4 or 5.
    pub event: u8,
    /// The hart's epoch.
    pub epoch: u32,
    pub pc: u64,
}

/// What is known of one hart.
#[derive(Debug)]
pub struct Track {
    pub id: u16,
    pub pc: u64,
    pub command: u32,
    /// Lines that its L1 holds dirty, or has held.
    pub dirty: Vec<usize>,
    pub pending: Vec<Pending>,
    /// Lines of DRAM that its command has written back as far as L2, with what made them dirty.
    pub shallow: Vec<(usize, Version)>,
    /// What it has asked to be fetched and not waited for: lines that were written in this launch.
    pub fetching: Vec<Fetching>,
    pub noted: Noted,
    pub values: Values,
    pub fp: LastChange,
    pub returned: bool,
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    pub index: usize,
    pub holder: Holder,
    pub bad: Bad,
}

/// Everything.
pub struct Watch<'m> {
    pub memory: &'m Memory,
    pub written: &'m mut Written,
    pub lines: Lines,
    pub clocks: Clocks,
    pub writes: Writes,
    pub findings: Findings,
    pub harts: Vec<Track>,
    pub minions: Vec<Unit>,
    pub sync: Sync,
    /// DRAM that only the launch uses: what is left there is nobody's result.
    pub private: Vec<Range<u64>>,
    /// What commands may write to.
    pub results: Results,
    /// Rank of each shire in the launch.
    ranks: [u16; 64],
    /// Number of the first line of the scratchpads.
    scratchpads: u64,
    floor: Vec<u32>,
    /// Acquisitions since `floor` was taken.
    learned: usize,
}

impl<'m> Watch<'m> {
    /// For a launch of the shires of `mask`.
    pub fn new(memory: &'m Memory, written: &'m mut Written, mask: u64) -> Watch<'m> {
        let shires: Vec<u16> = (0..64).filter(|shire| mask >> shire & 1 == 1).collect();
        let mut ranks = [0; 64];
        for (rank, &shire) in shires.iter().enumerate() {
            ranks[usize::from(shire)] = rank as u16;
        }
        let ids = shires.iter().flat_map(|&shire| (0..64).map(move |hart| shire << 6 | hart));
        let harts: Vec<Track> = ids
            .map(|id| Track {
                id,
                pc: 0,
                command: 0,
                dirty: Vec::new(),
                pending: Vec::new(),
                shallow: Vec::new(),
                fetching: Vec::new(),
                noted: Noted::default(),
                values: Values::default(),
                fp: LastChange::default(),
                returned: false,
            })
            .collect();
        let count = harts.len();
        let scratchpads = (memory.dram.len() as u64).div_ceil(64);
        Watch {
            memory,
            written,
            lines: Lines::new(scratchpads + u64::from(memory.shires()) * SCRATCHPAD_BYTES / 64),
            clocks: Clocks::new(count),
            writes: Writes::new(count),
            findings: Findings::default(),
            minions: (0..count / 2).map(|_| Unit::default()).collect(),
            sync: Sync::new(count),
            harts,
            private: Vec::new(),
            results: Results::default(),
            ranks,
            scratchpads,
            floor: vec![0; count],
            learned: 0,
        }
    }

    /// A hart's place in the launch.
    #[inline]
    pub fn place(&self, hart: &Hart) -> u16 {
        self.ranks[usize::from(hart.id >> 6)] * 64 + (hart.id & 63)
    }

    /// The place of a hart by number, if it takes part.
    pub fn place_of(&self, id: u16) -> Option<u16> {
        let place = self.ranks[usize::from(id >> 6) % 64] * 64 + (id & 63);
        (self.harts.get(usize::from(place))?.id == id).then_some(place)
    }

    /// What a hart is doing.
    #[inline]
    pub fn spot(&self, place: u16) -> Spot {
        let track = &self.harts[usize::from(place)];
        Spot { place, command: track.command, pc: track.pc }
    }

    pub fn report(&mut self, place: u16, fault: Fault, address: Option<u64>, other: Option<Spot>) {
        let spot = self.spot(place);
        self.findings.report(Finding { fault, spot, other, used: None, address });
    }

    /// Who made a write.
    pub fn writer(&self, version: Version) -> Option<Spot> {
        let write = self.writes.get(version);
        (version != 0).then_some(Spot { place: write.place, command: write.command, pc: write.pc })
    }

    /// The line of a region that holds bytes, unless it is a stack or an argument block, and the byte in it.
    #[inline]
    pub fn key(&self, region: Region) -> Option<(u64, usize)> {
        match region {
            Region::Dram(offset) if offset >= HOST_OFFSET => Some((offset / 64, (offset % 64) as usize)),
            Region::Scratchpad(offset) => Some((self.scratchpads + offset / 64, (offset % 64) as usize)),
            _ => None,
        }
    }

    /// Whether a line is in a scratchpad.
    #[inline]
    pub fn in_scratchpad(&self, key: u64) -> bool {
        key >= self.scratchpads
    }

    /// The address of a byte of a line.
    pub fn address(&self, key: u64, at: usize) -> u64 {
        match key.checked_sub(self.scratchpads) {
            None => OPEN_BASE + 64 * key + at as u64,
            Some(line) => {
                let offset = 64 * line + at as u64;
                0x8000_0000 | (offset / SCRATCHPAD_BYTES) << 23 | (offset % SCRATCHPAD_BYTES)
            }
        }
    }

    /// Reads a line's bytes where no cache matters.
    #[inline]
    fn plain(&self, key: u64, at: usize, out: &mut [u8]) {
        let read = match key.checked_sub(self.scratchpads) {
            None => self.memory.dram.read(64 * key + at as u64, out),
            Some(line) => self.memory.scratchpads.read(64 * line + at as u64, out),
        };
        debug_assert!(read.is_some(), "lines are made for memory that exists");
    }

    /// Puts a line's bytes into memory.
    pub fn restore(&self, key: u64, bytes: &[u8; 64]) {
        let written = match key.checked_sub(self.scratchpads) {
            None => self.memory.dram.write(64 * key, bytes),
            Some(line) => self.memory.scratchpads.write(64 * line, bytes),
        };
        debug_assert!(written.is_some(), "lines are made for memory that exists");
    }

    /// The index of a line.
    #[inline]
    pub fn line(&mut self, key: u64) -> usize {
        match self.lines.find(key) {
            Some(index) => index,
            None => self.new_line(key),
        }
    }

    #[inline(never)]
    fn new_line(&mut self, key: u64) -> usize {
        let (written, scratchpads) = (&*self.written, self.scratchpads);
        let first = key & !63;
        let plain = first + 64 <= scratchpads && written.is_plain(first, 64);
        self.lines.add(key, |key| match () {
            () if plain => (false, false),
            // Scratchpads hold nothing when a launch begins.
            () if key >= scratchpads => (true, false),
            () => (written.line(key) != Mask::MAX, written.outside(key) != 0),
        })
    }

    /// Bytes of a line that nobody had written when the launch began.
    fn unwritten_bytes(&self, index: usize) -> Mask {
        match self.lines.key(index) {
            _ if !self.lines[index].unwritten => 0,
            key if self.in_scratchpad(key) => Mask::MAX,
            key => !self.written.line(key),
        }
    }

    /// Bytes of a line that are in no live buffer.
    #[inline]
    pub fn outside(&self, index: usize) -> Mask {
        if !self.lines[index].outside {
            return 0;
        }
        self.written.outside(self.lines.key(index))
    }

    /// Of them, those that may not even be read: a line past the end of a buffer may.
    #[inline]
    fn unreadable(&self, index: usize) -> Mask {
        match self.outside(index) {
            0 => 0,
            outside => outside & self.written.outside(self.lines.key(index) - 1),
        }
    }

    /// Makes a line ready to be written.
    #[inline]
    pub fn activate(&mut self, index: usize) {
        if self.lines[index].active.is_none() {
            self.start(index);
        }
    }

    fn start(&mut self, index: usize) {
        let mut bytes = [0; 64];
        self.plain(self.lines.key(index), 0, &mut bytes);
        let content = Content { bytes, version: Versions::One(0), poison: self.unwritten_bytes(index), origin: 0 };
        let line = &mut self.lines[index];
        line.active = Some(Box::new(Active::new(content, line.copies())));
        self.lines.written.push(index);
    }

    /// Where an access of a level acts.
    #[inline]
    pub fn holder(&self, place: u16, level: Level, key: u64) -> Holder {
        match level {
            Level::L1 => Holder::L1(place),
            Level::L2 if !self.in_scratchpad(key) => Holder::L2(place / 64),
            _ => Holder::Home,
        }
    }

    /// Notes that a hart reads bytes of a line.
    #[inline]
    pub fn note_read(&mut self, index: usize, place: u16, mask: Mask, coherent: bool) {
        let epoch = self.clocks.now(place);
        let track = &mut self.harts[usize::from(place)];
        let (pc, command) = (track.pc, track.command);
        let read = lines::Read { place, coherent, epoch, command, pc, mask };
        if self.lines[index].reads.note(&mut track.noted, index, read) {
            self.prune(index);
        }
    }

    #[cold]
    fn prune(&mut self, index: usize) {
        if self.learned >= FLOOR_AGE * self.harts.len() {
            self.learned = 0;
            let mut floor = vec![u32::MAX; self.harts.len()];
            for place in 0..self.harts.len() {
                if !self.harts[place].returned {
                    self.clocks.lower(place as u16, &mut floor);
                }
            }
            self.floor = floor;
        }
        self.lines[index].reads.prune(&self.floor);
    }

    /// The hart learns what others have done.
    pub fn acquire(&mut self, place: u16, stamp: &[u32]) {
        self.learned += 1;
        self.clocks.acquire(place, stamp);
        self.writes.new_phase(place);
    }

    /// Whether the write of byte `n` by another hart is complete and ordered before what `place` does now.
    #[inline]
    pub fn ordered(&self, place: u16, version: Version, n: usize, published: &[Published]) -> bool {
        let write = self.writes.get(version);
        if version == 0 || write.place == place {
            return true;
        }
        let epoch = match write.manner {
            Manner::Normal => {
                let own = published.iter().find(|p| p.place == write.place && p.mask >> n & 1 == 1);
                own.map_or(super::clock::NEVER, |published| published.epoch)
            }
            _ => write.epoch,
        };
        self.clocks.knows(place, write.place, epoch)
    }

    /// A read of `len` bytes within a line: who serves it, and which of the bytes are bad, unless that has been reported,
    /// as it is for normal loads of bytes that somebody wrote.
    #[inline]
    pub fn inspect(&mut self, place: u16, level: Level, key: u64, at: usize, len: usize, defer: bool) -> Served {
        let index = self.line(key);
        let mask = span(at, len);
        let holder = self.holder(place, level, key);
        self.note_read(index, place, mask, level != Level::L1);
        if self.lines[index].outside {
            self.check_outside(place, index, mask);
        }
        let below = if level == Level::L1 && !self.in_scratchpad(key) { Holder::L2(place / 64) } else { Holder::Home };
        let line = &mut self.lines[index];
        let bad = if line.active.is_none() && line.add_copy(holder) && line.add_copy(below) {
            match line.unwritten {
                true => self.unwritten(place, key, self.unwritten_bytes(index) & mask, at, 0),
                false => Bad::NONE,
            }
        } else {
            let fetched = self.fetch(index, holder) || matches!(holder, Holder::L2(_));
            self.judge(place, index, holder, at, mask, fetched, defer)
        };
        Served { index, holder, bad }
    }

    #[cold]
    fn check_outside(&mut self, place: u16, index: usize, mask: Mask) {
        let outside = self.unreadable(index) & mask;
        if outside != 0 {
            let address = self.address(self.lines.key(index), outside.trailing_zeros() as usize);
            self.report(place, Fault::Outside { write: false }, Some(address), None);
        }
    }

    /// The bytes of a line from byte `at` on, as `holder` has them.
    #[inline]
    pub fn serve(&self, index: usize, holder: Holder, at: usize, out: &mut [u8]) {
        match self.lines[index].active.as_ref().and_then(|active| active.content(holder)) {
            Some(content) => out.copy_from_slice(&content.bytes[at..at + out.len()]),
            None => self.plain(self.lines.key(index), at, out),
        }
    }

    /// Bytes of `bad` hold nothing.
    pub fn unwritten(&mut self, place: u16, key: u64, bad: Mask, at: usize, origin: u32) -> Bad {
        if bad == 0 {
            return Bad::NONE;
        }
        let origin = match origin {
            0 => {
                let address = Some(self.address(key, bad.trailing_zeros() as usize));
                let spot = self.spot(place);
                self.findings.suspect(Finding { fault: Fault::Unwritten, spot, other: None, used: None, address })
            }
            origin => origin,
        };
        Bad { mask: bad >> at, origin }
    }

    /// Reads a line's bytes without judging.
    #[inline]
    pub fn look(&mut self, place: u16, level: Level, key: u64, at: usize, out: &mut [u8]) {
        let index = self.line(key);
        let holder = self.holder(place, level, key);
        self.fetch(index, holder);
        self.serve(index, holder, at, out);
    }

    /// A value that means nothing is about to be left where others read it.
    pub fn check_value(&mut self, place: u16, key: u64, bad: Bad) {
        if bad.mask == 0 || self.in_scratchpad(key) {
            return;
        }
        let address = self.address(key, 0);
        if !self.private.iter().any(|range| range.contains(&address)) {
            let spot = self.spot(place);
            self.findings.used(bad.origin, spot);
        }
    }

    /// A value was found bad where it decides something.
    pub fn use_bad(&mut self, place: u16, bad: Bad) {
        if bad.mask != 0 {
            let spot = self.spot(place);
            self.findings.used(bad.origin, spot);
        }
    }
}
