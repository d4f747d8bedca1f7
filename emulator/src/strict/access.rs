//! Reads and writes of lines that were written in this launch: what the reader should have seen, and whether it had the right.

use super::finding::{Fault, Finding, Remnant, Spot};
use super::line::{bits, Dirty, Holder, Mask, Patch, Refresh};
use super::lines::Read;
use super::values::Bad;
use super::watch::Watch;
use super::writes::{Manner, Version};
use super::written::span;
use crate::memory::updated;
use crate::platform::{Atomic, Level};

impl Watch<'_> {
    /// Sees to it that a holder has the line. True if it had not, and somebody has written to it.
    #[inline]
    pub fn fetch(&mut self, index: usize, holder: Holder) -> bool {
        let line = &mut self.lines[index];
        if line.active.is_none() && line.add_copy(holder) {
            return false;
        }
        if self.lines[index].active.as_ref().is_some_and(|active| active.content(holder).is_some()) {
            return false;
        }
        self.fill_holder(index, holder);
        true
    }

    fn fill_holder(&mut self, index: usize, holder: Holder) {
        self.activate(index);
        let scratchpad = self.in_scratchpad(self.lines.key(index));
        let Some(active) = &mut self.lines[index].active else { return };
        let below = match holder {
            Holder::L1(place) if !scratchpad => Holder::L2(place / 64),
            _ => Holder::Home,
        };
        if let Holder::L2(shire) = below {
            if active.content(below).is_none() {
                fill(active, shire);
            }
        }
        match holder {
            Holder::L2(shire) => fill(active, shire),
            _ => active.copy(below, holder),
        }
    }

    /// What is wrong with the bytes of `mask`, from byte `at` on, that a holder of an active line has; `fetched` says that
    /// the shire's L2 was asked for them.
    #[allow(clippy::too_many_arguments)]
    pub fn judge(
        &mut self,
        place: u16,
        index: usize,
        holder: Holder,
        at: usize,
        mask: Mask,
        fetched: bool,
        defer: bool,
    ) -> Bad {
        let key = self.lines.key(index);
        let Some((content, truth)) = self.lines[index].active.as_ref().and_then(|active| active.compare(holder)) else {
            return Bad::NONE;
        };
        let published = self.lines[index].active.as_ref().map_or(&[][..], |active| &active.published);
        let scratchpad = self.in_scratchpad(key);
        let command = self.harts[usize::from(place)].command;
        let (mut wrong, mut remnant): (Option<(Fault, usize, Version)>, Mask) = (None, 0);
        let mut bad: Mask = 0;
        let mut last = Version::MAX;
        let mut left = mask;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            let version = content.version.get(n);
            let newest = truth.map_or(version, |truth| truth.version.get(n));
            if newest == version && version == last {
                left &= !(content.version.run(n) & truth.map_or(Mask::MAX, |truth| truth.version.run(n)));
                continue;
            }
            last = Version::MAX;
            let write = self.writes.get(newest);
            if newest != version {
                let first = wrong.is_none();
                bad |= 1 << n;
                if first {
                    wrong = Some((self.missed(place, index, holder, n, newest), n, newest));
                }
            } else if !self.ordered(place, version, n, published) {
                bad |= 1 << n;
                let fault = match write.manner {
                    // It was written back early, which nobody may rely on.
                    Manner::Normal if self.clocks.knows(place, write.place, write.epoch) => {
                        Fault::Unpublished(Holder::L1(write.place))
                    }
                    _ => Fault::ReadAfterWrite,
                };
                wrong.get_or_insert((fault, n, newest));
            } else if write.manner == Manner::Normal
                && version != 0
                && holder != Holder::L1(place)
                && !published.iter().any(|p| p.mask >> n & 1 == 1)
            {
                // The hart's own store, written back early.
                bad |= 1 << n;
                wrong.get_or_insert((Fault::Unpublished(Holder::L1(place)), n, newest));
            } else if let (Manner::Tensor(event), super::clock::NEVER) = (write.manner, write.epoch) {
                bad |= 1 << n;
                wrong.get_or_insert((Fault::StoreNotWaited(event), n, newest));
            } else if (write.manner, write.epoch) == (Manner::Coherent, super::clock::NEVER)
                && (defer || matches!(holder, Holder::L1(_)))
            {
                // The hart's own: it goes another way than the read.
                bad |= 1 << n;
                wrong.get_or_insert((Fault::StoreUnderWay, n, newest));
            } else if scratchpad && version != 0 && write.command != command {
                remnant |= 1 << n;
            } else {
                last = version;
            }
        }
        let (poison, origin) = (content.poison & mask & !bad, content.origin);
        let spot = self.spot(place);
        if let Some((fault, n, version)) = wrong {
            let address = Some(self.address(key, n));
            let finding = Finding { fault, spot, other: self.writer(version), used: None, address };
            if defer {
                return Bad { mask: bad >> at, origin: self.findings.suspect(finding) };
            }
            self.findings.report(finding);
        }
        if remnant != 0 {
            let n = remnant.trailing_zeros() as usize;
            let version =
                self.lines[index].active.as_ref().and_then(|a| a.content(holder)).map_or(0, |c| c.version.get(n));
            let finding = Finding {
                fault: Fault::Remnant(Remnant::Scratchpad),
                spot,
                other: self.writer(version),
                used: None,
                address: Some(self.address(key, n)),
            };
            return Bad { mask: remnant >> at, origin: self.findings.suspect(finding) };
        }
        if fetched && bad == 0 {
            if let Some((n, other)) = self.chance(place, index, mask) {
                let (fault, address) = (Fault::RefreshedByChance(Holder::L2(place / 64)), Some(self.address(key, n)));
                let finding = Finding { fault, spot, other: Some(other), used: None, address };
                if defer {
                    return Bad { mask: mask >> at, origin: self.findings.suspect(finding) };
                }
                self.findings.report(finding);
            }
        }
        self.unwritten(place, key, poison, at, origin)
    }

    /// A byte of `mask` that the shire's L2 would have in an old copy if another hart had not refreshed the line, in no
    /// order with what `place` does now; and that hart.
    fn chance(&self, place: u16, index: usize, mask: Mask) -> Option<(usize, Spot)> {
        let active = self.lines[index].active.as_ref()?;
        let refreshed = active.refreshed.iter().find(|refreshed| refreshed.shire == place / 64)?;
        let stale = refreshed.mask & mask;
        let counts = |by: &Refresh| by.spot.place == place || self.clocks.knows(place, by.spot.place, by.epoch);
        if stale == 0 || refreshed.by.iter().any(counts) {
            return None;
        }
        Some((stale.trailing_zeros() as usize, refreshed.by.first()?.spot))
    }

    /// Why a read of `holder` misses the write `newest` of byte `n`.
    fn missed(&self, place: u16, index: usize, holder: Holder, n: usize, newest: Version) -> Fault {
        let write = self.writes.get(newest);
        let known = self.clocks.knows(place, write.place, write.epoch);
        if write.place == place {
            if let (Manner::Tensor(event), super::clock::NEVER) = (write.manner, write.epoch) {
                return Fault::StoreNotWaited(event);
            }
        } else if !known {
            return Fault::ReadAfterWrite;
        }
        let Some(active) = &self.lines[index].active else { return Fault::OldCopy(holder) };
        let has = |holder| active.holders_of(n, newest).any(|holders| holders.contains(holder));
        let shire = place / 64;
        let (own, theirs) = (Holder::L2(shire), Holder::L2(write.place / 64));
        if has(Holder::Home) {
            // The copy may be in the shire's L2 behind a fresh L1.
            let old = match holder {
                Holder::L1(_) if active.content(own).is_some() && !has(own) => own,
                holder => holder,
            };
            return Fault::OldCopy(old);
        }
        if holder != own && has(own) && holder != Holder::Home {
            return Fault::OldCopy(holder);
        }
        let buffers = [Holder::Buffer(write.place / 64), Holder::Buffer(shire)];
        let places = [theirs, own].into_iter().chain(buffers).chain([Holder::L1(write.place)]);
        places.into_iter().find(|&holder| has(holder)).map_or(Fault::OldCopy(holder), Fault::Unpublished)
    }

    /// Writes bytes within a line at a level, or by the tensor engine.
    #[allow(clippy::too_many_arguments)]
    pub fn write(&mut self, place: u16, holder: Holder, key: u64, at: usize, data: &[u8], bad: Bad, manner: Manner) {
        let index = self.line(key);
        let mask = span(at, data.len());
        let outside = self.outside(index) & mask;
        if outside != 0 {
            let address = self.address(key, outside.trailing_zeros() as usize);
            self.report(place, Fault::Outside { write: true }, Some(address), None);
        }
        let (start, command) = (self.address(key, at), self.spot(place).command);
        if !self.in_scratchpad(key) && self.results.beyond(command, start, data.len() as u64) {
            self.report(place, Fault::BeyondResult, Some(start), None);
        }
        self.activate(index);
        if !matches!(holder, Holder::Buffer(_)) {
            self.fetch(index, holder);
        }
        if self.check_write(place, index, holder, mask, manner) && manner != Manner::Atomic {
            self.lines[index].reads.covered(mask);
        }
        let now = self.clocks.now(place);
        let Spot { pc, command, .. } = self.spot(place);
        let version = self.writes.number(place, pc, command, manner, now);
        let mut bytes = [0; 64];
        bytes[at..at + data.len()].copy_from_slice(data);
        let patch = Patch { mask, bytes, version, poison: bad.mask << at, origin: bad.origin };
        let Some(active) = &mut self.lines[index].active else { return };
        if let Holder::Buffer(_) = holder {
            if mask == Mask::MAX {
                active.begin(holder, &patch);
            } else if active.content(holder).is_none() {
                active.renew(holder);
            }
        }
        if !(mask == Mask::MAX && matches!(holder, Holder::Buffer(_))) {
            active.write(holder, &patch);
        }
        if !active.published.is_empty() {
            active.unpublish(mask);
        }
        if holder == Holder::Home {
            return;
        }
        match active.dirt(holder) {
            Some(dirt) => {
                dirt.mask |= mask;
                dirt.unfenced |= mask;
                dirt.version = version;
            }
            None => {
                active.dirty.push(Dirty { holder, mask, unfenced: mask, version });
                if let Holder::L1(_) = holder {
                    self.harts[usize::from(place)].dirty.push(index);
                }
            }
        }
    }

    /// Whether a hart may write these bytes now. True if so.
    fn check_write(&mut self, place: u16, index: usize, holder: Holder, mask: Mask, manner: Manner) -> bool {
        let line = &self.lines[index];
        let Some(active) = &line.active else { return true };
        let truth = active.newest();
        let mut found: Option<(Fault, usize, Option<Spot>)> = None;
        let mut last = 0;
        let mut left = mask;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= !truth.version.run(n);
            let version = truth.version.get(n);
            if version == last {
                continue;
            }
            let synchronises = manner != Manner::Normal && self.writes.get(version).manner == Manner::Atomic;
            if !synchronises && !self.ordered(place, version, n, &active.published) {
                let dirty = active.dirty.iter().any(|dirty| matches!(dirty.holder, Holder::L1(_)));
                let known = self.clocks.knows(place, self.writes.get(version).place, self.writes.get(version).epoch);
                let fault = if dirty && known { Fault::SharedLine } else { Fault::WriteAfterWrite };
                found = Some((fault, n, self.writer(version)));
                break;
            }
            last = version;
        }
        if found.is_none() {
            let unordered = |read: &&Read| {
                read.place != place
                    && read.mask & mask != 0
                    && !(read.coherent && manner == Manner::Atomic)
                    && !self.clocks.knows(place, read.place, read.epoch)
            };
            if let Some(read) = line.reads.iter().find(unordered) {
                let other = Spot { place: read.place, command: read.command, pc: read.pc };
                let n = (read.mask & mask).trailing_zeros() as usize;
                found = Some((Fault::WriteAfterRead, n, Some(other)));
            }
        }
        let first = active.dirty.iter().all(|dirty| dirty.holder != holder);
        if found.is_none() {
            // Whole lines go back: what others have dirty in L1, or brought back without order, concerns all bytes.
            let n = mask.trailing_zeros() as usize;
            let others = active.dirty.iter().find(|dirty| matches!(dirty.holder, Holder::L1(other) if other != place));
            let unordered =
                |p: &&super::line::Published| p.place != place && !self.clocks.knows(place, p.place, p.epoch);
            if let Some(dirty) = others {
                found = Some((Fault::SharedLine, n, self.writer(dirty.version)));
            } else if let Some(published) = active.published.iter().find(unordered) {
                let version = truth.version.get(published.mask.trailing_zeros() as usize);
                found = Some((Fault::SharedLine, n, self.writer(version)));
            } else if first && matches!(holder, Holder::L1(_)) {
                let (mut last, mut left) = (0, !mask);
                while left != 0 {
                    let byte = left.trailing_zeros() as usize;
                    left &= !truth.version.run(byte);
                    let version = truth.version.get(byte);
                    if version == last {
                        continue;
                    }
                    last = version;
                    if !self.ordered(place, version, byte, &active.published) {
                        found = Some((Fault::SharedLine, n, self.writer(version)));
                        break;
                    }
                }
            }
        }
        let Some((fault, n, other)) = found else { return true };
        let address = Some(self.address(self.lines.key(index), n));
        self.report(place, fault, address, other);
        false
    }

    /// An atomic of 4 or 8 bytes at a level: the old value.
    #[allow(clippy::too_many_arguments)]
    pub fn atomic(
        &mut self,
        place: u16,
        level: Level,
        key: u64,
        at: usize,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> u64 {
        let len = if wide { 8 } else { 4 };
        let (index, mask) = (self.line(key), span(at, len));
        let holder = self.holder(place, level, key);
        self.activate(index);
        self.fetch(index, holder);
        let word = 8 * key + at as u64 / 8;
        self.acquire_word(place, word);
        let mut bytes = [0; 8];
        // Atomics of one level on a word are ordered among themselves: only what else was done to it is looked at.
        let foreign = self.lines[index].active.as_ref().and_then(|active| active.compare(holder)).is_some_and(
            |(content, truth)| {
                truth.is_some_and(|truth| bits(mask).any(|n| truth.version.get(n) != content.version.get(n)))
                    || bits(mask).any(|n| {
                        let write = self.writes.get(content.version.get(n));
                        !matches!(write.manner, Manner::Atomic | Manner::Coherent)
                    })
            },
        );
        self.note_read(index, place, mask, true);
        self.learn_of_store(place, index, holder, at);
        self.serve(index, holder, at, &mut bytes[..len]);
        if foreign {
            let bad = self.judge(place, index, holder, at, mask, false, false);
            self.use_bad(place, bad);
        } else if let Some(content) = self.lines[index].active.as_ref().and_then(|active| active.content(holder)) {
            let (poison, origin) = (content.poison & mask, content.origin);
            let bad = self.unwritten(place, key, poison, at, origin);
            self.use_bad(place, bad);
        }
        let old = u64::from_le_bytes(bytes);
        let new = updated(op, wide, old, operand);
        if new != old || !matches!(op, Atomic::Or) || operand != 0 {
            let data = new.to_le_bytes();
            self.write(place, holder, key, at, &data[..len], Bad::NONE, Manner::Atomic);
        }
        self.release_word(place, word);
        old
    }
}

impl Watch<'_> {
    /// An atomic that finds what another hart stored there learns that the store is complete.
    fn learn_of_store(&mut self, place: u16, index: usize, holder: Holder, at: usize) {
        let content = self.lines[index].active.as_ref().and_then(|active| active.content(holder));
        let Some(write) = content.map(|content| *self.writes.get(content.version.get(at))) else { return };
        if write.manner == Manner::Coherent && write.place != place {
            self.clocks.learn(place, write.place, write.epoch);
        }
    }
}

/// Brings a line into a shire's L2, with what waits in the shire's coalescing buffer.
fn fill(active: &mut super::line::Active, shire: u16) {
    active.copy(Holder::Home, Holder::L2(shire));
    if let Some(mask) = active.dirt(Holder::Buffer(shire)).map(|dirt| dirt.mask) {
        active.merge(Holder::Buffer(shire), Holder::L2(shire), mask);
    }
}
