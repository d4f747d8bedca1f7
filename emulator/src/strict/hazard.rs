//! The tensor engine's operations between issue and wait, and the meaning of what lies in its scratchpad.

use super::finding::{Fault, Finding, Remnant, Spot};
use super::line::{Holder, Mask};
use super::values::Bad;
use super::watch::Watch;
use crate::hart::Hart;
use crate::memory::Region;
use crate::platform::Level;
use crate::tensor::operation::{Element, LineSet, Operation, Place, RegisterSet, Rows, Transform};
use std::collections::VecDeque;

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
    /// Bad bytes of the lines of the scratchpad and of the B buffer.
    lines: [Bad; 48],
    ten_b: [Bad; 16],
    /// Bad lanes of the integer accumulators, like the f registers.
    ten_c: [u32; 32],
    ten_c_origin: u32,
    /// Bad bytes of the rows that the stores under way take, in order.
    rows: VecDeque<Bad>,
}

impl Default for Unit {
    fn default() -> Self {
        Unit {
            stores: Vec::new(),
            loads: Default::default(),
            flights: Vec::new(),
            sources: [Source::default(); 48],
            load_count: 0,
            lines: [Bad::NONE; 48],
            ten_b: [Bad::NONE; 16],
            ten_c: [0; 32],
            ten_c_origin: 0,
            rows: VecDeque::new(),
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
    fn forget(&mut self) {
        let bad = Bad { mask: Mask::MAX, origin: 0 };
        self.lines = [bad; 48];
        self.ten_b = [bad; 16];
        self.ten_c = [u32::MAX; 32];
        self.ten_c_origin = 0;
        self.sources = [Source::default(); 48];
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
    fn unit(&mut self, place: u16) -> &mut Unit {
        &mut self.minions[usize::from(place / 2)]
    }

    /// The bad bytes of the next row of a store under way.
    pub fn next_row(&mut self, place: u16) -> Bad {
        self.unit(place).rows.pop_front().unwrap_or(Bad::NONE)
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
                unit.rows = rows.into();
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
                    self.unit(place).rows.push_back(bad);
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

    /// What the lines of a load hold once it has ended.
    fn loaded_lines(&mut self, hart: &Hart, place: u16, value: u64, to: Place, transform: Transform, rows: &[Bad]) {
        let count = (value & 15) as usize + 1;
        let first = (value >> 53 & 63) as usize;
        let enabled = |i: usize| to == Place::TenB || value >> 63 == 0 || hart.tensor_mask >> i & 1 == 1;
        let clean = rows.iter().all(|row| row.mask == 0);
        let offset = (value >> 4 & 3) as usize;
        for i in (0..count).filter(|&i| enabled(i)) {
            let mut bad = Bad::NONE;
            let mut take = |row: usize, from: usize, to: usize, size: usize| {
                let bytes = rows[row].mask >> from & ((1 << size) - 1);
                if bytes != 0 {
                    bad = Bad { mask: bad.mask | bytes << to, origin: rows[row].origin };
                }
            };
            if !clean {
                match transform {
                    Transform::Plain => bad = rows[i],
                    Transform::Interleave8 => {
                        for (r, c) in (0..4).flat_map(|r| (0..16).map(move |c| (r, c))) {
                            take(4 * i + r, c, 4 * c + r, 1);
                        }
                    }
                    Transform::Interleave16 => {
                        for (r, c) in (0..2).flat_map(|r| (0..16).map(move |c| (r, c))) {
                            take(2 * i + r, 2 * c, 4 * c + 2 * r, 2);
                        }
                    }
                    Transform::Transpose8 => (0..64).for_each(|j| take(j, (i + 16 * offset) % 64, j, 1)),
                    Transform::Transpose16 => {
                        (0..32).for_each(|j| take(j, 2 * ((i + 16 * (offset >> 1)) % 32), 2 * j, 2));
                    }
                    Transform::Transpose32 => (0..16).for_each(|j| take(j, 4 * i, 4 * j, 4)),
                }
            }
            let unit = self.unit(place);
            match to {
                Place::TenB => unit.ten_b[i] = bad,
                Place::Lines(_) => unit.lines[(first + i) % 48] = bad,
            }
        }
    }

    /// The bad bytes of a line; one that nothing has filled gets its reason here, at its first use.
    fn line_bad(&mut self, place: u16, line: usize) -> Bad {
        let bad = self.unit(place).lines[line];
        self.with_reason(place, bad, Remnant::Line(line as u8))
    }

    fn with_reason(&mut self, place: u16, bad: Bad, remnant: Remnant) -> Bad {
        if bad.mask == 0 || bad.origin != 0 {
            return bad;
        }
        let fault = Fault::Remnant(remnant);
        let finding = Finding { fault, spot: self.spot(place), other: None, used: None, address: None };
        Bad { origin: self.findings.suspect(finding), ..bad }
    }

    fn register_bad(&mut self, place: u16, n: usize, set: RegisterSet) -> (u32, u32) {
        if set >> n & 1 == 0 {
            return (0, 0);
        }
        let spot = self.spot(place);
        self.harts[usize::from(place)].values.vector(n as u8, &mut self.findings, spot)
    }

    /// What a product makes of bad operands. `unit` has the lines; it is about to be issued.
    pub fn multiplied(&mut self, hart: &Hart, value: u64, operation: &Operation, unit: &crate::tensor::Unit) {
        let &Operation::Product { element, rows, depth, columns, b, first, .. } = operation else { return };
        let place = self.place(hart);
        let (first_a, first_b) = ((value >> 4 & 63) as usize, (value >> 12 & 63) as usize);
        let skip = (value >> 43 & 15) as usize;
        let enabled = |i: usize| value >> 63 == 0 || hart.tensor_mask >> i & 1 == 1;
        let a: Vec<Bad> = (0..rows).map(|i| self.line_bad(place, (first_a + i) % 48)).collect();
        let b_bad: Vec<Bad> = (0..depth)
            .map(|k| match b {
                Place::TenB => {
                    let bad = self.unit(place).ten_b[k];
                    self.with_reason(place, bad, Remnant::TenB)
                }
                Place::Lines(_) => self.line_bad(place, (first_b + k) % 48),
            })
            .collect();
        let clean = a.iter().chain(&b_bad).all(|bad| bad.mask == 0);
        let to_registers = value >> 23 & 1 == 1;
        for (i, a) in a.iter().enumerate() {
            // Sixteen columns, a bit each.
            let mut columns_bad: u32 = 0;
            let mut origin = 0;
            if !clean && enabled(i) {
                for (k, b) in b_bad.iter().enumerate() {
                    let at = (skip + k) % 16;
                    let word_bad = a.mask >> (4 * at) & 15 != 0;
                    let zero = !word_bad && unit.line(first_a + i).0[at] == 0 && !(first && k == 0);
                    if word_bad {
                        columns_bad |= 0xFFFF;
                        origin = a.origin;
                    } else if b.mask != 0 && !zero {
                        let words = (0..16).fold(0, |set, j| set | u32::from(b.mask >> (4 * j) & 15 != 0) << j);
                        columns_bad |= words;
                        origin = b.origin;
                    }
                }
            }
            columns_bad &= (1u32 << columns) - 1;
            for half in 0..columns.div_ceil(8) {
                let register = 2 * i + half;
                let lanes = if columns - 8 * half >= 8 { 0xFF } else { 0x0F };
                let bytes = super::values::lanes((columns_bad >> (8 * half)) as u8);
                let written = super::values::lanes(lanes);
                let untouched = !enabled(i) && !first;
                if element == Element::Int8 {
                    let unit = self.unit(place);
                    let old = if first || untouched && !to_registers { 0 } else { unit.ten_c[register] & written };
                    let mut sum = old | bytes;
                    if untouched && !to_registers {
                        sum = unit.ten_c[register] & written;
                    }
                    let mut reason = if bytes != 0 { origin } else { unit.ten_c_origin };
                    if sum != 0 && reason == 0 {
                        reason = self.with_reason(place, Bad { mask: 1, origin: 0 }, Remnant::TenC).origin;
                    }
                    if to_registers {
                        self.harts[usize::from(place)].values.set_vector(register as u8, written, sum, reason);
                    } else {
                        let unit = self.unit(place);
                        unit.ten_c[register] = unit.ten_c[register] & !written | sum;
                        if sum != 0 {
                            unit.ten_c_origin = reason;
                        }
                    }
                } else if !untouched {
                    let (old, why) = match first {
                        true => (0, 0),
                        false => self.register_bad(place, register, 1 << register),
                    };
                    let bytes = bytes | old & written;
                    let origin = if origin != 0 { origin } else { why };
                    self.harts[usize::from(place)].values.set_vector(register as u8, written, bytes, origin);
                }
            }
        }
    }

    fn quantised(&mut self, place: u16, value: u64) {
        let rows = (value >> 51 & 15) as usize + 1;
        let first = (value >> 57 & 31) as usize;
        let columns = 4 * ((value >> 55 & 3) as usize + 1);
        let mut line = (value >> 45 & 63) as usize;
        for code in (0..10).map(|t| value >> (4 * t) & 15).take_while(|&code| code != 0) {
            if !(4..=7).contains(&code) {
                continue;
            }
            let bad = self.line_bad(place, line % 48);
            line += 1;
            if bad.mask == 0 {
                continue;
            }
            for row in 0..rows {
                for half in 0..columns.div_ceil(8) {
                    let register = ((first + 2 * row + half) % 32) as u8;
                    let bytes = match code {
                        4 | 6 => (bad.mask >> (32 * half)) as u32,
                        _ if bad.mask >> (4 * row) & 15 != 0 => u32::MAX,
                        _ => 0,
                    };
                    let lanes = super::values::lanes(if columns - 8 * half >= 8 { 0xFF } else { 0x0F });
                    let spot = self.spot(place);
                    let values = &mut self.harts[usize::from(place)].values;
                    let (old, known) = values.vector(register, &mut self.findings, spot);
                    let origin = if old != 0 { known } else { bad.origin };
                    values.set_vector(register, lanes, old | bytes, origin);
                }
            }
        }
    }

    fn stored_registers(&mut self, place: u16, value: u64, to: Rows) {
        let step = (value >> 62) as usize + 1;
        let mut register = (value >> 57 & 31) as usize;
        for _ in 0..to.rows {
            let mut bad = Bad::NONE;
            for half in 0..(to.bytes as usize).div_ceil(32) {
                let (bytes, origin) = self.register_bad(place, register, 1 << register);
                let bytes = if to.bytes == 16 { bytes & 0xFFFF } else { bytes };
                if bytes != 0 {
                    bad = Bad { mask: bad.mask | Mask::from(bytes) << (32 * half), origin };
                }
                register = (register + step) % 32;
            }
            self.unit(place).rows.push_back(bad);
        }
    }

    /// A command or the kernel ends for a hart: nothing may be under way, and nothing that it holds means anything.
    pub fn end_command(&mut self, place: u16, next: u32) {
        let command = self.harts[usize::from(place)].command;
        let mut unfinished: Vec<(u8, Spot)> = Vec::new();
        let pending = self.harts[usize::from(place)].pending.first().map(|operation| operation.pc);
        if let Some(pc) = pending {
            unfinished.push((6, Spot { place, command, pc }));
        }
        let unit = self.unit(place);
        for (slot, event) in [(0, 0), (1, 1), (3, 2), (4, 3)] {
            if let Some(load) = unit.loads[slot].as_ref().filter(|load| load.spot.place == place) {
                unfinished.push((event, load.spot));
            }
        }
        if place.is_multiple_of(2) {
            for event in 7..=10 {
                if let Some(flight) = unit.flights.iter().rfind(|flight| flight.event == event) {
                    // Who waits for a later operation of the queue has waited for this one.
                    unfinished.push((event, flight.spot));
                }
            }
        }
        for (event, spot) in unfinished {
            let fault = Fault::Unfinished { event };
            self.findings.report(Finding { fault, spot, other: None, used: None, address: None });
        }
        if let Some(store) = self.writes.unfenced(place) {
            let spot = Spot { place, command, pc: store.pc };
            let finding = Finding { fault: Fault::NeverFenced, spot, other: None, used: None, address: None };
            self.findings.report(finding);
        }
        if command != 0 {
            self.left_dirty(place, command);
        }
        if next != 0 {
            if place.is_multiple_of(2) {
                self.unit(place).forget();
            }
            self.harts[usize::from(place)].values.forget_registers();
        }
    }

    /// Lines that the command's stores have left dirty.
    fn left_dirty(&mut self, place: u16, command: u32) {
        for at in 0..self.harts[usize::from(place)].dirty.len() {
            let index = self.harts[usize::from(place)].dirty[at];
            let Some(active) = &mut self.lines[index].active else { continue };
            let Some(dirt) = active.dirt(Holder::L1(place)) else { continue };
            let (version, mask) = (dirt.version, dirt.mask);
            let write = *self.writes.get(version);
            if write.command != command {
                continue;
            }
            let spot = Spot { place, command, pc: write.pc };
            let address = Some(self.address(self.lines.key(index), mask.trailing_zeros() as usize));
            self.findings.report(Finding { fault: Fault::LeftDirty, spot, other: None, used: None, address });
        }
    }
}
