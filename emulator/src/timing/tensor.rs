//! When a minion's tensor and cache operations are done.

use super::chip::{line_of, LINE};
use super::constants::*;
use super::l1::Half;
use super::minion::{Around, Minion};
use super::profile::{Cause, Level, Work};
use crate::hart::Hart;
use crate::tensor::operation::{Element, LineSet, Operation, Place, Rows, Transform};
use crate::tensor::CacheAction;

/// Lines of the L1 scratchpad.
const LINES: usize = 48;

/// The event of tensor_wait that stands for an operation's end.
mod event {
    pub const PRODUCT: usize = 7;
    pub const STORE: usize = 8;
    pub const REDUCTION: usize = 9;
    pub const QUANT: usize = 10;
}

/// Stands for the B buffer's loads among those of ids 0 and 1.
const TO_B: usize = 2;

/// The clock of a tensor engine.
#[derive(Clone, Debug)]
pub struct TensorClock {
    /// When the operations on registers are done with the vector unit.
    pub vector_free: Ticks,
    /// When the last product is over for those that wait to issue the next.
    product: Ticks,
    /// When the loads' line requests are free for the next load.
    loads: Ticks,
    /// The same of loads to the B buffer.
    streams: Ticks,
    /// The load to the B buffer that no product has taken: when its first line comes, and its last.
    stream: (Ticks, Ticks),
    /// When the next store can begin.
    stores: Ticks,
    /// When the loads of ids 0, 1 and to the B buffer are over.
    loaded: [Ticks; 3],
    /// Cooperative loads among them that wait for members.
    gathering: [Option<usize>; 3],
    /// When each line of the scratchpad is loaded.
    lines: [Ticks; LINES],
    /// When operations with an event are over.
    done: [Ticks; 11],
    /// An exchange with another minion under way: its registers, its beginning, and the latency of a message.
    exchange: Option<(u64, Ticks, Ticks)>,
    /// Float transforms of the quantisation about to be issued.
    floats: u64,
}

impl TensorClock {
    /// A quantisation is about to be issued.
    pub fn quantises(&mut self, value: u64) {
        let codes = (0..10).map(|t| value >> (4 * t) & 0xF).take_while(|&code| code != 0);
        self.floats = codes.filter(|code| matches!(code, 1 | 2 | 6 | 7)).count() as u64;
    }
}

impl Default for TensorClock {
    fn default() -> Self {
        TensorClock {
            vector_free: 0,
            product: 0,
            loads: 0,
            streams: 0,
            stream: (0, 0),
            stores: 0,
            loaded: [0; 3],
            gathering: [None; 3],
            lines: [0; LINES],
            done: [0; 11],
            exchange: None,
            floats: 0,
        }
    }
}

/// Minions on their way to a cooperative load.
#[derive(Clone, Debug)]
pub struct Gathering {
    shire: usize,
    members: u32,
    arrived: u32,
    from: Rows,
    /// When the last of those that have come came, then when the load is done.
    at: Ticks,
}

/// A load as it is issued: its event, where it goes, what it reads, and who takes part.
#[derive(Clone, Copy, Debug)]
struct Request {
    slot: usize,
    to: Place,
    from: Rows,
    transform: Transform,
    members: u32,
}

/// Times of a load: when it is done, when the next one can begin, when its first line is there.
#[derive(Clone, Copy, Debug)]
struct LoadTimes {
    done: Ticks,
    next: Ticks,
    first: Ticks,
}

impl Minion {
    /// A tensor or cache operation is accepted, or a wait is over.
    pub fn issued(
        &mut self,
        around: &mut Around<'_>,
        hart: &mut Hart,
        operation: &Operation,
        group: &mut Vec<Gathering>,
    ) {
        let thread = usize::from(hart.id & 1);
        self.exchanged(hart);
        match *operation {
            Operation::Load { slot, to, from, transform, group: members } => {
                self.load(around, Request { slot, to, from, transform, members }, group);
            }
            Operation::LoadL2 { event, offset: _, from } => self.load_l2(around, thread, event as usize, from),
            Operation::Product { element, rows, depth, columns, a, b, .. } => {
                let (work, per_word) = match element {
                    Element::Int8 => (Work::Int8, 4),
                    Element::F16 => (Work::F16, 2),
                    Element::F32 => (Work::F32, 1),
                };
                around.account(&self.harts[thread]).work[work as usize] += (rows * depth * columns * per_word) as u64;
                self.product(element, rows as u64, depth as u64, a, b);
            }
            Operation::Quant { transforms, rows, columns, .. } => {
                self.quant(transforms as u64, (rows * columns.div_ceil(8)) as u64);
            }
            Operation::StoreLines { from, to } => self.store(around, to, Some(from)),
            Operation::StoreRegisters { from: _, to } => self.store(around, to, None),
            Operation::Reduction { registers, partner, .. } => {
                let clock = &mut self.harts[0];
                let start = clock.issued.max(self.tensor.vector_free);
                let near = usize::from(partner >> 5) == around.seat.shire;
                let message = if near { L2_LATENCY } else { L3_LATENCY };
                self.tensor.exchange = Some((u64::from(registers.count_ones()), start, message));
                hart.clock = start / CYCLE;
            }
            Operation::Cache { event, action, level, lines } => {
                self.cache(around, hart, event as usize, action, level, lines);
            }
            Operation::Wait { event } => {
                let clock = &mut self.harts[thread];
                let event = event as usize;
                let done = match event {
                    0 | 1 if thread == 0 => {
                        if let Some(number) = self.tensor.gathering[event].take() {
                            self.tensor.loaded[event] = group[number].at;
                        }
                        self.tensor.loaded[event]
                    }
                    2..=6 => clock.events[event],
                    7..=10 if thread == 0 => self.tensor.done[event],
                    _ => 0,
                };
                clock.wait(done, Cause::Tensor);
            }
        }
    }

    /// Notes the end of an exchange that was under way, if it has come: the partners agreed on it by their clocks.
    pub fn exchanged(&mut self, hart: &Hart) {
        if hart.vpu_busy {
            return;
        }
        if let Some((registers, start, message)) = self.tensor.exchange.take() {
            self.harts[0].waits += 1;
            let done = start.max(hart.clock * CYCLE).max(self.harts[0].woken) + registers * REDUCE_REGISTER + message;
            self.tensor.vector_free = self.tensor.vector_free.max(done);
            self.tensor.done[event::REDUCTION] = done;
        }
    }

    fn load(&mut self, around: &mut Around<'_>, request: Request, group: &mut Vec<Gathering>) {
        let Request { slot, to, from, transform, members } = request;
        // Hart 0 alone loads.
        let clock = &mut self.harts[0];
        let tensor = &mut self.tensor;
        if let Some(number) = tensor.gathering[slot].take() {
            tensor.loaded[slot] = group[number].at;
        }
        // The one before of this id must be over.
        let at = clock.begin(if slot == TO_B { 0 } else { tensor.loaded[slot] });
        let engine = if slot == TO_B { tensor.streams } else { tensor.loads };
        let start = at.max(engine);
        if members.count_ones() > 1 {
            return self.join(around, request, start, group);
        }
        let times = transfer(around, clock.command, from, transform, slot == TO_B, start);
        self.landed(slot, to, times, start);
    }

    /// A load's lines are on their way.
    fn landed(&mut self, slot: usize, to: Place, times: LoadTimes, start: Ticks) {
        let tensor = &mut self.tensor;
        tensor.loaded[slot] = times.done;
        match to {
            Place::TenB => {
                tensor.streams = times.next;
                tensor.stream = (times.first, times.done);
            }
            Place::Lines(lines) => {
                tensor.loads = times.next;
                for line in members_of(lines) {
                    tensor.lines[line] = times.done;
                }
                // What lands during a product takes the scratchpad's port from it.
                if tensor.product > start {
                    let delay = LANDING * u64::from(lines.count_ones());
                    tensor.product += delay;
                    tensor.vector_free += delay;
                    tensor.done[event::PRODUCT] += delay;
                }
            }
        }
    }

    /// Joins a cooperative load: its lines are read once, when the last member has come.
    fn join(&mut self, around: &mut Around<'_>, request: Request, start: Ticks, group: &mut Vec<Gathering>) {
        let Request { slot, to, from, transform, members } = request;
        let own = 1 << (around.seat.minion);
        let shire = around.seat.shire;
        let same = |other: &Gathering| {
            other.shire == shire && other.members == members && other.from == from && other.arrived & own == 0
        };
        let number = group.iter().rposition(|other| same(other) && other.arrived != members).unwrap_or_else(|| {
            group.push(Gathering { shire, members, arrived: 0, from, at: 0 });
            group.len() - 1
        });
        let gathering = &mut group[number];
        gathering.arrived |= own;
        gathering.at = gathering.at.max(start);
        let mut times = LoadTimes { done: start, next: start, first: start };
        if gathering.arrived == members {
            times = transfer(around, self.harts[0].command, from, transform, slot == TO_B, gathering.at);
            times.done += COOPERATIVE;
            gathering.at = times.done;
        }
        self.landed(slot, to, times, start);
        self.tensor.gathering[slot] = Some(number);
    }

    fn load_l2(&mut self, around: &mut Around<'_>, thread: usize, event: usize, from: Rows) {
        let clock = &mut self.harts[thread];
        let start = clock.issued.max(self.tensor.loads);
        let mut at = start;
        let rows: Vec<u64> = from.iter().collect();
        for batch in rows.chunks(LOAD_IN_FLIGHT as usize) {
            let mut last = at;
            for &addr in batch {
                let Some(line) = line_of(around.memory, around.seat.shire, addr) else { return };
                let served = around.chip.read(around.seat, line, at, true);
                around.accounts[clock.command].bytes[served.level as usize] += u64::from(LINE);
                around.accounts[clock.command].bytes[Level::Scratchpad as usize] += u64::from(LINE);
                last = last.max(served.at);
            }
            at = last + LOAD_BATCH;
        }
        clock.events[event] = (at + LOAD_START).max(start + LOAD_LINE * rows.len() as u64);
        self.tensor.loads = at;
    }

    /// Products run one after the other; the next one's issue waits for the last one's end.
    fn product(&mut self, element: Element, rows: u64, depth: u64, a: LineSet, b: Place) {
        let clock = &mut self.harts[0];
        let tensor = &mut self.tensor;
        let mut start = clock.begin(tensor.product).max(tensor.vector_free);
        let lines = a | if let Place::Lines(lines) = b { lines } else { 0 };
        start = members_of(lines).map(|line| tensor.lines[line]).fold(start, Ticks::max);
        let end = match b {
            Place::Lines(_) => start + pitch(element, rows, depth),
            Place::TenB => {
                let (first, last) = tensor.stream;
                (start.max(first) + streamed(element, rows, depth)).max(last)
            }
        };
        tensor.product = end;
        tensor.vector_free = end;
        tensor.done[event::PRODUCT] = end + if b == Place::TenB { 0 } else { PRODUCT_DONE };
    }

    fn quant(&mut self, transforms: u64, vectors: u64) {
        let clock = &mut self.harts[0];
        let tensor = &mut self.tensor;
        let start = clock.begin(tensor.done[event::QUANT]).max(tensor.vector_free);
        let end = start + quantised(transforms, tensor.floats, vectors);
        tensor.vector_free = end;
        tensor.done[event::QUANT] = end;
    }

    fn store(&mut self, around: &mut Around<'_>, to: Rows, lines: Option<LineSet>) {
        let clock = &mut self.harts[0];
        let tensor = &mut self.tensor;
        let mut start = clock.begin(tensor.stores);
        start = match lines {
            None => start.max(tensor.vector_free),
            Some(lines) => members_of(lines).map(|line| tensor.lines[line]).fold(start, Ticks::max),
        };
        let row = match to.bytes {
            16 => STORE_ROW_16,
            32 => STORE_ROW_32,
            _ => STORE_ROW,
        };
        let rows = u64::from(to.rows);
        let mut late = 0;
        let mut latency = L2_LATENCY;
        for addr in to.iter() {
            let Some(line) = line_of(around.memory, around.seat.shire, addr) else { continue };
            let level = if line >= super::chip::SCRATCHPADS { Level::Scratchpad } else { Level::L3 };
            around.accounts[clock.command].bytes[level as usize] += u64::from(to.bytes);
            late = late.max(around.chip.write_around(around.seat, line, to.bytes, start) - start);
            if level == Level::L3 {
                latency = L3_LATENCY;
            }
        }
        if lines.is_none() {
            // It reads the registers first.
            tensor.vector_free = start + rows * row;
        }
        tensor.stores = start + late + rows * row.max((latency + STORE_STREAM) / 8);
        tensor.done[event::STORE] = start + late + STORE_START + latency + rows * row;
    }

    fn cache(
        &mut self,
        around: &mut Around<'_>,
        hart: &Hart,
        event: usize,
        action: CacheAction,
        level: u64,
        lines: Rows,
    ) {
        let thread = usize::from(hart.id & 1);
        let half = Half { seat: around.seat, thread, mode: hart.ucache_control };
        let clock = &self.harts[thread];
        let command = clock.command;
        let mut at = clock.issued.max(clock.cache_operations);
        let mut done = at;
        for addr in lines.iter() {
            at += CACHE_OPERATION;
            let Some(line) = line_of(around.memory, around.seat.shire, addr) else { continue };
            let scratchpad = line >= super::chip::SCRATCHPADS;
            let mut moved = |level: Level, count: u64| around.accounts[command].bytes[level as usize] += count;
            match action {
                CacheAction::Prefetch => {
                    let (ready, from) = match level {
                        0 => self.prefetch(around, half, line, at),
                        _ => {
                            let served = around.chip.read(around.seat, line, at, level == 2);
                            (served.at, served.level)
                        }
                    };
                    if from != Level::L1 {
                        around.accounts[command].bytes[from as usize] += u64::from(LINE);
                    }
                    done = done.max(ready);
                }
                CacheAction::Lock | CacheAction::Unlock => done = done.max(at),
                CacheAction::Flush | CacheAction::Evict => {
                    let keep = action == CacheAction::Flush;
                    let mut answer = at;
                    if self.clean(half, line, keep) {
                        around.chip.write_back(around.seat, line, at);
                        moved(if scratchpad { Level::Scratchpad } else { Level::L2 }, u64::from(LINE));
                        answer = at + L2_LATENCY;
                    }
                    if level >= 2 && !scratchpad {
                        // The request goes to L2 whatever L1 had.
                        answer = at + L2_LATENCY;
                        let slowest = around.chip.clean(around.seat, line, level == 3, keep, at);
                        if let Some(slowest) = slowest {
                            around.accounts[command].bytes[slowest as usize] += u64::from(LINE);
                            answer = at + if slowest == Level::L3 { L3_LATENCY } else { DRAM_LATENCY };
                        }
                    }
                    done = done.max(answer);
                }
            }
        }
        let clock = &mut self.harts[thread];
        clock.cache_operations = at;
        clock.events[event] = clock.events[event].max(done);
    }
}

/// Reads the rows of a load, four lines at a time, beginning at `start`.
fn transfer(
    around: &mut Around<'_>,
    command: usize,
    from: Rows,
    transform: Transform,
    to_b: bool,
    start: Ticks,
) -> LoadTimes {
    let mut at = start;
    let mut requests = start;
    let mut first = start;
    let (mut count, mut batches) = (0, 0);
    let mut last = at;
    for addr in from.iter() {
        if let Some(line) = line_of(around.memory, around.seat.shire, addr) {
            let served = around.chip.read(around.seat, line, at, false);
            around.accounts[command].bytes[served.level as usize] += u64::from(LINE);
            last = last.max(served.at);
        }
        count += 1;
        if count == 1 {
            first = last + STREAM_FIRST;
        }
        if count % LOAD_IN_FLIGHT == 0 || count == u64::from(from.rows) {
            requests += last - at;
            at = last + LOAD_BATCH;
            batches += 1;
            last = at;
        }
    }
    if count % LOAD_IN_FLIGHT != 0 && last != at {
        // Rows were masked.
        requests += last - at;
        at = last + LOAD_BATCH;
        batches += 1;
    }
    let arrange = match transform {
        Transform::Plain => 0,
        Transform::Transpose32 => TRANSPOSE32,
        Transform::Transpose16 => TRANSPOSE16,
        Transform::Transpose8 => TRANSPOSE8,
        Transform::Interleave16 => INTERLEAVE16 * u64::from(from.rows) / 32,
        Transform::Interleave8 => INTERLEAVE8 * u64::from(from.rows) / 64,
    };
    let begin = if to_b { LOAD_STREAM_START } else { LOAD_START };
    let done = (at + begin).max(start + LOAD_LINE * count) + arrange;
    let next = if to_b { requests + batches * STREAM_BATCH + STREAM_START } else { requests + arrange };
    LoadTimes { done, next, first }
}

/// From one product to the next, out of the scratchpad.
fn pitch(element: Element, rows: u64, depth: u64) -> Ticks {
    match element {
        Element::Int8 if rows == 1 => IMA_START + depth * IMA_ONE_STEP,
        Element::Int8 => IMA_START + depth * (rows + 3) * CYCLE,
        _ if rows <= 3 => FMA_SMALL_START + depth * FMA_SMALL_STEP,
        _ => FMA_START + depth * (2 * rows + 1) * CYCLE,
    }
}

/// A product out of the B buffer.
fn streamed(element: Element, rows: u64, depth: u64) -> Ticks {
    match element {
        Element::Int8 => IMA_STREAM_START + depth * rows * CYCLE,
        _ => FMA_STREAM_START + depth * (2 * rows + 1) * CYCLE,
    }
}

/// A quantisation of so many vectors of 8.
fn quantised(transforms: u64, floats: u64, vectors: u64) -> Ticks {
    let small = if vectors <= 8 { floats * QUANT_SMALL } else { 0 };
    QUANT_START + transforms * vectors * CYCLE + small
}

/// The numbers in a set.
fn members_of(mut set: LineSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = set.trailing_zeros() as usize;
        set &= set.wrapping_sub(1);
        (number < 64).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles(ticks: Ticks) -> f64 {
        ticks as f64 / CYCLE as f64
    }

    #[test]
    fn products_take_what_was_measured() {
        assert_eq!(cycles(pitch(Element::F32, 16, 16)), 546.0);
        assert_eq!(cycles(pitch(Element::F16, 8, 16)), 290.0);
        assert_eq!(cycles(pitch(Element::F32, 1, 16)), 126.0);
        assert_eq!(cycles(pitch(Element::Int8, 16, 16)), 318.25);
        assert_eq!(cycles(pitch(Element::Int8, 1, 16)), 70.25);
        assert_eq!(cycles(streamed(Element::F32, 16, 16)), 529.0);
        assert_eq!(cycles(streamed(Element::Int8, 16, 16)), 270.0);
        assert_eq!(cycles(quantised(1, 1, 32)), 51.0);
        assert_eq!(cycles(quantised(5, 5, 32)), 179.0);
        assert_eq!(cycles(quantised(1, 1, 8)), 34.0);
    }

    #[test]
    fn sets_are_walked_in_order() {
        assert_eq!(members_of(0b1010).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(members_of(0).count(), 0);
        assert_eq!(members_of(1 << 63).collect::<Vec<_>>(), [63]);
    }
}
