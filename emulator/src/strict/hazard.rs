//! The tensor engine's operations between issue and wait, and what they use meanwhile.

use super::finding::{Fault, Spot};
use super::operands::Operands;
use super::values::Bad;
use super::watch::Watch;
use crate::hart::Hart;
use crate::memory::Region;
use crate::platform::Level;
use crate::tensor::operation::{LineSet, Operation, Place, Rows};

/// A load that was not waited for.
#[derive(Clone, Debug)]
struct Loading {
    spot: Spot,
    lines: LineSet,
    from: Rows,
    level: Level,
    group: u32,
}

/// An operation under way, and the scratchpad lines that it reads. Its registers need no watch: instructions that use the
/// vector unit wait for it by themselves.
#[derive(Clone, Copy, Debug)]
struct Flight {
    event: u8,
    lines: LineSet,
    spot: Spot,
    /// It goes through the in-order queue.
    queued: bool,
}

/// Where a line's content is from.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// The number of the load, 0 for none.
    load: u32,
    spot: Option<Spot>,
    /// An operation has read it.
    used: bool,
    /// The number of the load whose content was overwritten here before anything read it.
    overwritten: u32,
}

/// What is known of a minion's tensor engine.
#[derive(Debug)]
pub struct Unit {
    /// Lines of memory that stores have touched, by event.
    pub stores: Vec<(u8, usize)>,
    /// Loads by event: 0 and 1, B buffer, 2 and 3 to L2.
    loads: [Option<Loading>; 5],
    flights: Vec<Flight>,
    /// Which load each line is from.
    sources: [Source; 48],
    load_count: u32,
    /// What its operands mean.
    pub operands: Operands,
}

impl Default for Unit {
    fn default() -> Self {
        Unit {
            stores: Vec::new(),
            loads: Default::default(),
            flights: Vec::new(),
            sources: [Source::default(); 48],
            load_count: 0,
            operands: Operands::default(),
        }
    }
}

impl Unit {
    /// Whether a load is under way whose memory must stay as it is.
    #[inline]
    pub fn loading(&self) -> bool {
        self.loads.iter().any(Option::is_some)
    }

    /// What a command finds means nothing.
    pub fn forget(&mut self) {
        self.operands.forget();
        self.sources = [Source::default(); 48];
    }

    /// Adds what was not waited for of what hart `place` has started, as events.
    pub fn unfinished(&self, place: u16, unfinished: &mut Vec<(u8, Spot)>) {
        for (slot, event) in [(0, 0), (1, 1), (3, 2), (4, 3)] {
            if let Some(load) = self.loads[slot].as_ref().filter(|load| load.spot.place == place) {
                unfinished.push((event, load.spot));
            }
        }
        if place.is_multiple_of(2) {
            for event in 7..=10 {
                if let Some(flight) = self.flights.iter().rfind(|flight| flight.event == event) {
                    // Who waits for a later operation of the queue has waited for this one.
                    unfinished.push((event, flight.spot));
                }
            }
        }
    }

    /// Operations of `event` have ended, and what the queue had before them.
    fn end(&mut self, event: u8) {
        if let Some(last) = self.flights.iter().rposition(|flight| flight.queued && flight.event == event) {
            let mut at = 0;
            self.flights.retain(|flight| {
                at += 1;
                at > last + 1 || !flight.queued
            });
        }
        self.flights.retain(|flight| flight.queued || flight.event != event);
    }
}

impl Watch<'_> {
    pub fn unit(&mut self, place: u16) -> &mut Unit {
        &mut self.minions[usize::from(place / 2)]
    }

    /// A hart of the minion writes to a line of memory.
    pub fn check_source(&mut self, place: u16, address: u64) {
        if !self.unit(place).loading() {
            return;
        }
        let line = address & !63;
        let hit = self.unit(place).loads.iter().enumerate().find_map(|(event, load)| {
            let load = load.as_ref()?;
            load.from.iter().any(|row| row & !63 == line).then_some((event, load.spot))
        });
        if let Some((slot, spot)) = hit {
            let event = [0, 1, 7, 2, 3][slot];
            self.report(place, Fault::SourceInUse { event }, Some(address), Some(spot));
        }
    }

    /// An operation of the tensor engine is accepted. `value` is what was written to its CSR.
    pub fn issued(&mut self, hart: &Hart, value: u64, operation: &Operation) {
        let place = self.place(hart);
        let spot = self.spot(place);
        self.writes.new_phase(place);
        match *operation {
            Operation::Load { slot, to, from, transform, group } => {
                let lines = match to {
                    Place::Lines(lines) => lines,
                    Place::TenB => 0,
                };
                self.unit(place).loads[slot] = None;
                self.check_load(place, lines);
                self.note_load(place, lines);
                let rows = self.source(hart, place, from, Level::L2);
                if group != 0 {
                    self.join_group(place, group, from.addr);
                }
                self.unit(place).loads[slot] = Some(Loading { spot, lines, from, level: Level::L2, group });
                self.loaded_lines(hart, place, value, to, transform, &rows);
            }
            Operation::LoadL2 { event, from, .. } => {
                let rows = self.source(hart, place, from, Level::L3);
                let unit = self.unit(place);
                unit.operands.rows = rows.into();
                unit.loads[event as usize + 1] = Some(Loading { spot, lines: 0, from, level: Level::L3, group: 0 });
            }
            Operation::Product { a, b, .. } => {
                let lines = a | match b {
                    Place::Lines(lines) => lines,
                    Place::TenB => 0,
                };
                self.unit(place).end(7);
                self.check_use(place, lines);
                self.note_use(place, a);
                if let Place::Lines(lines) = b {
                    self.note_use(place, lines);
                }
                if b == Place::TenB {
                    self.finish_load(place, 2);
                }
                let flight = Flight { event: 7, lines, spot, queued: true };
                self.unit(place).flights.push(flight);
            }
            Operation::Quant { vectors, .. } => {
                self.unit(place).end(10);
                self.check_use(place, vectors);
                self.note_use(place, vectors);
                let flight = Flight { event: 10, lines: vectors, spot, queued: true };
                self.unit(place).flights.push(flight);
                self.quantised(place, value);
            }
            Operation::StoreLines { from, to } => {
                self.unit(place).end(8);
                self.check_use(place, from);
                self.note_use(place, from);
                let flight = Flight { event: 8, lines: from, spot, queued: false };
                self.unit(place).flights.push(flight);
                let (first, step) = ((value >> 56 & 63) as usize, (value >> 62) as usize + 1);
                for row in 0..to.rows as usize {
                    let bad = self.line_bad(place, (first + step * row) % 48);
                    self.unit(place).operands.rows.push_back(bad);
                }
            }
            Operation::StoreRegisters { to, .. } => {
                self.unit(place).end(8);
                let flight = Flight { event: 8, lines: 0, spot, queued: true };
                self.unit(place).flights.push(flight);
                self.stored_registers(place, value, to);
            }
            Operation::Reduction { registers, partner, sends } => {
                self.unit(place).end(9);
                let flight = Flight { event: 9, lines: 0, spot, queued: true };
                self.unit(place).flights.push(flight);
                if sends {
                    for n in 0..32 {
                        let (bytes, origin) = self.register_bad(place, n, registers);
                        if bytes != 0 {
                            self.findings.used(origin, spot);
                        }
                    }
                }
                if let Some(partner) = self.place_of(partner << 1) {
                    self.start_exchange(place, partner / 2);
                }
            }
            Operation::Cache { .. } => {}
            Operation::Wait { event } => self.waited(place, event as u8),
        }
    }

    fn waited(&mut self, place: u16, event: u8) {
        match event {
            0 | 1 if place.is_multiple_of(2) => self.finish_load(place, usize::from(event)),
            2 | 3 => {
                self.finish_load(place, usize::from(event) + 1);
                self.finish_stores(place, event);
            }
            4 | 5 => self.finish_fetching(place, Some(event)),
            6 => self.finish_cache(place),
            7..=10 if place.is_multiple_of(2) => {
                self.unit(place).end(event);
                if event == 8 {
                    self.finish_stores(place, event);
                }
                if event == 9 {
                    self.finish_exchanges(place);
                }
            }
            _ => {}
        }
    }

    /// A load is complete: until now it may have read its source.
    fn finish_load(&mut self, place: u16, slot: usize) {
        let Some(load) = self.unit(place).loads[slot].take() else { return };
        let shire = u32::from(self.harts[usize::from(place)].id >> 6);
        for addr in load.from.iter() {
            let Some((key, at)) = self.key(self.memory.classify(shire, addr)) else { continue };
            let index = self.line(key);
            let mask = super::written::span(at, load.from.bytes as usize);
            self.note_read(index, place, mask, load.level != Level::L1);
        }
        if load.group != 0 {
            self.leave_group(place, load.group, load.from.addr);
        }
    }

    /// Lines are about to be filled.
    fn check_load(&mut self, place: u16, lines: LineSet) {
        let unit = self.unit(place);
        let flight = unit.flights.iter().find(|flight| flight.lines & lines != 0).copied();
        let load = (0..2).find_map(|event| {
            let load = unit.loads[event].as_ref()?;
            (load.lines & lines != 0).then(|| (event as u8, (load.lines & lines).trailing_zeros() as u8, load.spot))
        });
        if let Some(Flight { event, lines: used, spot, .. }) = flight {
            let line = (used & lines).trailing_zeros() as u8;
            self.report(place, Fault::LineInUse { line, event }, None, Some(spot));
        }
        if let Some((event, line, spot)) = load {
            self.report(place, Fault::LineLoadedTwice { line, event }, None, Some(spot));
        }
    }

    /// Lines are filled by a load: one that nothing has used of is lost.
    fn note_load(&mut self, place: u16, lines: LineSet) {
        let spot = self.spot(place);
        let unit = self.unit(place);
        unit.load_count += 1;
        let mut dead = None;
        for n in super::line::bits(lines) {
            let Source { load, used, spot: old, .. } = unit.sources[n];
            let overwritten = if used { 0 } else { load };
            unit.sources[n] = Source { load: unit.load_count, spot: Some(spot), used: false, overwritten };
            if overwritten != 0 && unit.sources.iter().all(|source| source.load != load) {
                dead = dead.or(old.map(|old| (n as u8, old)));
            }
        }
        if let Some((line, old)) = dead {
            self.report(place, Fault::LineNeverUsed { line }, None, Some(old));
        }
    }

    /// Lines of one operand are read: they belong together.
    fn note_use(&mut self, place: u16, lines: LineSet) {
        let unit = self.unit(place);
        let mut mixed = None;
        for n in super::line::bits(lines) {
            let Source { overwritten, spot, .. } = unit.sources[n];
            if overwritten != 0 && super::line::bits(lines).any(|other| unit.sources[other].load == overwritten) {
                mixed = mixed.or(spot.map(|spot| (n as u8, spot)));
            }
        }
        for n in super::line::bits(lines) {
            unit.sources[n].used = true;
            unit.sources[n].overwritten = 0;
        }
        if let Some((line, spot)) = mixed {
            self.report(place, Fault::LineOverwritten { line }, None, Some(spot));
        }
    }

    /// Lines are about to be read.
    fn check_use(&mut self, place: u16, lines: LineSet) {
        let unit = self.unit(place);
        let load = (0..2).find_map(|event| {
            let load = unit.loads[event].as_ref()?;
            (load.lines & lines != 0).then(|| (event as u8, (load.lines & lines).trailing_zeros() as u8, load.spot))
        });
        if let Some((event, line, spot)) = load {
            self.report(place, Fault::LineNotLoaded { line, event }, None, Some(spot));
        }
    }

    /// Looks at what a load reads, as early as it may do so: which bytes of each row are bad.
    fn source(&mut self, hart: &Hart, place: u16, from: Rows, level: Level) -> Vec<Bad> {
        let bytes = from.bytes as usize;
        let mut rows = vec![Bad::NONE; from.rows as usize];
        for (row, bad) in rows.iter_mut().enumerate() {
            if row < 16 && from.mask >> row & 1 == 0 {
                continue;
            }
            let addr = crate::memory::region::canonical(from.addr.wrapping_add(from.stride.wrapping_mul(row as u64)));
            match self.memory.classify(u32::from(hart.id >> 6), addr) {
                region @ (Region::Dram(_) | Region::Scratchpad(_)) => {
                    if let Some((key, at)) = self.key(region) {
                        *bad = self.inspect(place, level, key, at, bytes, true).bad;
                    }
                }
                _ => break,
            }
        }
        rows
    }
}
