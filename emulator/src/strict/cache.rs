//! Cache operations, write-backs, and what the tensor engine stores. They take effect as late as the program allows: at
//! their wait, or at the end of the launch.

use super::finding::{Fault, Finding, Spot};
use super::line::{bits, Content, Dirty, Holder, Mask, Refresh, Versions};
use super::values::Bad;
use super::watch::{Fetching, Pending, Watch};
use super::writes::{Manner, Version};
use crate::tensor::CacheAction;

impl Watch<'_> {
    /// A cache operation on one line starts, under an event of tensor_wait.
    pub fn start_cache(&mut self, place: u16, action: CacheAction, event: u8, level: u64, key: u64) {
        match action {
            CacheAction::Prefetch => {
                let index = self.line(key);
                let active = self.lines[index].active.as_ref();
                let written = active.is_some_and(|active| active.newest().version.differing(&Versions::One(0)) != 0);
                if written && !self.in_scratchpad(key) {
                    let epoch = self.clocks.now(place);
                    let track = &mut self.harts[usize::from(place)];
                    track.fetching.push(Fetching { line: index, event, epoch, pc: track.pc });
                }
                match level {
                    0 => self.bring(index, place),
                    1 if !self.in_scratchpad(key) => _ = self.fetch(index, Holder::L2(place / 64)),
                    _ => {}
                }
            }
            CacheAction::Lock => self.write(place, Holder::L1(place), key, 0, &[0; 64], Bad::NONE, Manner::Normal),
            CacheAction::Unlock => {}
            CacheAction::Flush | CacheAction::Evict => self.start_write_back(place, action, level, key),
        }
    }

    /// A copy for L1, and for L2 on the way.
    fn bring(&mut self, index: usize, place: u16) {
        if !self.in_scratchpad(self.lines.key(index)) {
            self.fetch(index, Holder::L2(place / 64));
        }
        self.fetch(index, Holder::L1(place));
    }

    fn start_write_back(&mut self, place: u16, action: CacheAction, level: u64, key: u64) {
        let Some(line) = self.lines.find(key).filter(|&line| self.lines[line].touched()) else { return };
        let holder = Holder::L1(place);
        let mut content = None;
        if let Some(active) = &mut self.lines[line].active {
            let held = active.content(holder).cloned();
            if let (Some(dirt), Some(held)) = (active.dirt(holder), held) {
                let (unfenced, mask, version) = (dirt.unfenced, dirt.mask, dirt.version);
                content = Some((Box::new(held), mask));
                if unfenced != 0 {
                    let address = Some(self.address(key, unfenced.trailing_zeros() as usize));
                    let store = self.writer(version);
                    self.report(place, Fault::NoFence, address, store);
                }
            }
        }
        self.writes.new_phase(place);
        let track = &mut self.harts[usize::from(place)];
        let pc = track.pc;
        track.pending.push(Pending { line, evict: action == CacheAction::Evict, level, content, pc });
    }

    /// A dirty line goes to the level below, early: nobody may rely on it, and nobody is told.
    pub fn write_back_early(&mut self, place: u16, choice: usize) {
        let dirty = &self.harts[usize::from(place)].dirty;
        let Some(&index) = dirty.get(choice % dirty.len().max(1)) else { return };
        let scratchpad = self.in_scratchpad(self.lines.key(index));
        let Some(active) = &mut self.lines[index].active else { return };
        if active.dirt(Holder::L1(place)).is_none() {
            return;
        }
        let below = if scratchpad { Holder::Home } else { Holder::L2(place / 64) };
        active.copy(Holder::L1(place), below);
        if !scratchpad {
            let version = active.dirt(Holder::L1(place)).map_or(0, |dirt| dirt.version);
            soil(active, below, version);
        }
    }

    /// The hart's stores so far are complete.
    pub fn fence(&mut self, place: u16) {
        let now = self.clocks.now(place);
        self.writes.fence(place, now);
        let lines = &mut self.lines;
        let holder = Holder::L1(place);
        // Lines that were dirty once stay on the list until somebody looks; it is short between commands.
        self.harts[usize::from(place)].dirty.retain(|&index| {
            let dirt = lines[index].active.as_mut().and_then(|active| active.dirt(holder));
            match dirt {
                Some(dirt) => {
                    dirt.unfenced = 0;
                    true
                }
                None => false,
            }
        });
    }

    /// Forgets of the hart's prefetches those of `event`, and those of lines that it has read since, or has written to
    /// last: they have ended.
    pub fn finish_fetching(&mut self, place: u16, event: Option<u8>) {
        let mut fetching = std::mem::take(&mut self.harts[usize::from(place)].fetching);
        fetching.retain(|fetch| {
            let line = &self.lines[fetch.line];
            let read = || line.reads.iter().any(|read| read.place == place && read.epoch >= fetch.epoch);
            let own = |version: Version| version != 0 && self.writes.get(version).place == place;
            let newest = line.active.as_ref().map(|active| &active.newest().version);
            let written = || newest.is_some_and(|newest| (0..64).any(|byte| own(newest.get(byte))));
            Some(fetch.event) != event && !read() && !written()
        });
        self.harts[usize::from(place)].fetching = fetching;
    }

    /// The hart's cache operations have ended.
    pub fn finish_cache(&mut self, place: u16) {
        let pending = std::mem::take(&mut self.harts[usize::from(place)].pending);
        for operation in pending {
            self.finish_write_back(place, operation);
        }
        self.writes.new_phase(place);
    }

    fn finish_write_back(&mut self, place: u16, operation: Pending) {
        let Pending { line: index, evict, level, content, pc } = operation;
        let (own, shire) = (Holder::L1(place), Holder::L2(place / 64));
        let key = self.lines.key(index);
        let scratchpad = self.in_scratchpad(key);
        let below = if scratchpad { Holder::Home } else { shire };
        let now = self.clocks.now(place);
        let Some(active) = &mut self.lines[index].active else {
            let line = &mut self.lines[index];
            if evict {
                line.drop_copy(own);
                if level >= 2 {
                    line.drop_copy(shire);
                }
            }
            return;
        };
        if let Some((content, mask)) = content {
            // Stores since the start may have missed it.
            let held = active.content(own);
            let newer = held.map_or(0, |held| held.version.differing(&content.version));
            let unchanged = newer == 0;
            let version = active.dirt(own).map_or(0, |dirt| dirt.version);
            // The store that made the line dirty is what has to change if others' bytes are lost.
            let spot = Spot { place, command: self.harts[usize::from(place)].command, pc };
            let store = self.writer(version).unwrap_or(spot);
            self.overwrites(index, &content, mask, below, store);
            let Some(active) = &mut self.lines[index].active else { return };
            match unchanged {
                true => active.copy(own, below),
                false => active.replace(below, *content),
            }
            if unchanged {
                active.clean(own);
            } else if let Some(dirt) = active.dirt(own) {
                dirt.mask = newer;
            }
            active.publish(place, now, mask & !newer);
            if below == shire {
                soil(active, shire, version);
                if level < 2 {
                    self.harts[usize::from(place)].shallow.push((index, version));
                }
            }
        }
        let Some(active) = &mut self.lines[index].active else { return };
        if evict && active.dirt(own).is_none() {
            active.forget(own);
        }
        if level >= 2 && !scratchpad {
            let spot = Spot { place, command: self.harts[usize::from(place)].command, pc };
            self.write_back_shire(index, place / 64, spot);
            let Some(active) = &mut self.lines[index].active else { return };
            if evict {
                active.evict_shire(place / 64, Refresh { spot, epoch: now });
            }
        }
    }

    /// What a shire's L2 and coalescing buffer have of a line goes to memory.
    fn write_back_shire(&mut self, index: usize, rank: u16, spot: Spot) {
        let (cache, buffer) = (Holder::L2(rank), Holder::Buffer(rank));
        let Some(active) = &mut self.lines[index].active else { return };
        if let Some(version) = active.dirt(cache).map(|dirt| dirt.version) {
            if let Some(content) = active.content(cache).cloned() {
                let spot = self.writer(version).unwrap_or(spot);
                self.overwrites(index, &content, 0, Holder::Home, spot);
            }
            let Some(active) = &mut self.lines[index].active else { return };
            active.copy(cache, Holder::Home);
            active.clean(cache);
        }
        self.drain(index, buffer);
    }

    /// Reports newer bytes in `target` that `content` is about to overwrite with older ones, other than its own in `mask`.
    fn overwrites(&mut self, index: usize, content: &Content, mask: Mask, target: Holder, spot: Spot) {
        let Some(active) = &self.lines[index].active else { return };
        let (truth, Some(there)) = (active.newest(), active.content(target)) else { return };
        let lost = bits(!mask)
            .find(|&n| content.version.get(n) != truth.version.get(n) && there.version.get(n) == truth.version.get(n));
        if let Some(n) = lost {
            let other = self.writer(truth.version.get(n));
            let address = Some(self.address(self.lines.key(index), n));
            self.findings.report(Finding { fault: Fault::LostWrite, spot, other, used: None, address });
        }
    }

    /// The tensor engine hands a piece of a line over, which is in memory after the wait for `event`, or `early`.
    #[allow(clippy::too_many_arguments)]
    pub fn store_around(&mut self, place: u16, key: u64, at: usize, data: &[u8], bad: Bad, event: u8, early: bool) {
        let buffer = Holder::Buffer(place / 64);
        self.write(place, buffer, key, at, data, bad, Manner::Tensor(event));
        let index = self.line(key);
        self.minions[usize::from(place / 2)].stores.push((event, index));
        if early && data.len() == 64 {
            self.drain(index, buffer);
        }
    }

    /// What the engine has handed over under `event` is complete: whole lines go to memory, parts linger.
    pub fn finish_stores(&mut self, place: u16, event: u8) {
        let now = self.clocks.now(place);
        self.writes.waited(place, event, now);
        let unit = &mut self.minions[usize::from(place / 2)];
        let stores: Vec<usize> = unit.stores.iter().filter(|(e, _)| *e == event).map(|&(_, index)| index).collect();
        unit.stores.retain(|(e, _)| *e != event);
        let buffer = Holder::Buffer(place / 64);
        for index in stores {
            let scratchpad = self.in_scratchpad(self.lines.key(index));
            let dirt = self.lines[index].active.as_mut().and_then(|active| active.dirt(buffer));
            if dirt.is_some_and(|dirt| scratchpad || dirt.mask == Mask::MAX) {
                self.drain(index, buffer);
            }
        }
    }

    fn drain(&mut self, index: usize, buffer: Holder) {
        let Some(active) = &mut self.lines[index].active else { return };
        if let Some(mask) = active.dirt(buffer).map(|dirt| dirt.mask) {
            match mask {
                Mask::MAX => active.copy(buffer, Holder::Home),
                part => active.merge(buffer, Holder::Home, part),
            }
            active.clean(buffer);
            active.forget(buffer);
        }
    }

    /// The end of a launch: the firmware empties all caches, and memory keeps what comes out.
    pub fn write_all_back(&mut self) {
        for place in 0..self.harts.len() as u16 {
            self.finish_cache(place);
            let dirty = std::mem::take(&mut self.harts[usize::from(place)].dirty);
            for index in dirty {
                let Some(active) = &mut self.lines[index].active else { continue };
                let Some(dirt) = active.dirt(Holder::L1(place)) else { continue };
                let (mask, version) = (dirt.mask, dirt.version);
                let Some(content) = active.content(Holder::L1(place)).cloned() else { continue };
                let pc = self.writes.get(version).pc;
                let pending =
                    Pending { line: index, evict: true, level: 2, content: Some((Box::new(content), mask)), pc };
                self.finish_write_back(place, pending);
            }
        }
        let shires = (self.harts.len() / 64) as u16;
        for at in 0..self.lines.written.len() {
            let index = self.lines.written[at];
            let Some(active) = &self.lines[index].active else { continue };
            if !active.dirty.is_empty() {
                let first = active.dirty[0].version;
                for rank in 0..shires {
                    if let Some(spot) = self.writer(first) {
                        self.write_back_shire(index, rank, spot);
                    }
                }
            }
            self.keep(index);
        }
    }

    /// Puts a line's bytes where the host finds them.
    fn keep(&mut self, index: usize) {
        let Some(active) = &self.lines[index].active else { return };
        let Some(home) = active.content(Holder::Home) else { return };
        let (key, bytes) = (self.lines.key(index), home.bytes);
        let changed = active.newest().version.differing(&Versions::One(0));
        self.restore(key, &bytes);
        if !self.in_scratchpad(key) {
            self.written.add(key, changed);
        }
    }
}

/// The whole line in an L2 is newer than memory, because of the store `version`.
fn soil(active: &mut super::line::Active, cache: Holder, version: Version) {
    if active.dirt(cache).is_none() {
        active.dirty.push(Dirty { holder: cache, mask: Mask::MAX, unfenced: 0, version });
    }
}
