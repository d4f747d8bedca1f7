//! Launches under watch (docs/emulator.md): one host thread runs the harts in an order that a seed decides, and
//! [`crate::strict`] looks at all they do.

use super::entry::Entry;
use super::fast::Fast;
use super::launch::{Launch, LaunchError, Report};
use super::run::Run;
use super::serial::{self, Conductor};
use super::turn::Station;
use super::workers::Workers;
use crate::code::Slot;
use crate::hart::Hart;
use crate::labels::Labels;
use crate::memory::{region, Memory, Refusal, Region, OPEN_BASE};
use crate::platform::{Atomic, Level, Outcome, Platform};
use crate::strict::{Bad, Manner, Names, Results, Served, Watch, Written};
use crate::sync::WaitFor;
use crate::tensor::operation::Operation;
use crate::tensor::{CacheAction, Outside, Unit};
use crate::trap::{Cause, Trap};
use std::collections::VecDeque;

/// Runs a launch. What is wrong with the program is an error, whether or not it has completed.
pub(super) fn run(
    memory: &Memory,
    launch: &Launch<'_>,
    entry: Entry,
    workers: &mut Workers,
    written: &mut Written,
    seed: u64,
) -> Result<Report, LaunchError> {
    let launches = written.count_launch();
    let none = Labels::default();
    written.live(launch.labels.unwrap_or(&none).buffers.iter().map(|b| (b.address.wrapping_sub(OPEN_BASE), b.bytes)));
    let mut watch = Watch::new(memory, written, launch.shire_mask);
    watch.private = launch.labels.map_or(Vec::new(), |labels| {
        let scratch = labels.buffers.iter().filter(|buffer| buffer.name == "workspace");
        scratch.map(|buffer| buffer.address..buffer.address + buffer.bytes).collect()
    });
    watch.results = launch.labels.map_or_else(Results::default, Results::of);
    let mut order = Order::new(watch, seed.wrapping_add(launches));
    let result = serial::run(memory, launch, entry, workers, &mut order);
    let mut watch = order.watch;
    watch.write_all_back();
    if result.is_ok() {
        watch.check_sync();
        if let Some(labels) = launch.labels {
            watch.check_results(labels);
        }
    }
    if watch.findings.is_empty() {
        return result;
    }
    let harts: Vec<u16> = watch.harts.iter().map(|track| track.id).collect();
    let locate = |pc| launch.lines.and_then(|lines| lines.locate(pc));
    let names = Names { locate: &locate, labels: launch.labels, harts: &harts };
    Err(LaunchError::Violations { violations: names.violations(&watch.findings), error: result.err().map(Box::new) })
}

/// Random numbers: xorshift64*.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// How harts take turns for a while.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Anyone, for anything from an instruction to a few hundred.
    Mixed,
    /// The same until it blocks.
    Stubborn,
    /// In turn, one or a few instructions each.
    Alternating,
    /// Some run only when the others can't: those whose place leaves this rest by this divisor.
    Starving { divisor: u64, rest: u64 },
}

/// A random order of harts, and the watch over them.
struct Order<'m> {
    watch: Watch<'m>,
    random: Random,
    ready: VecDeque<usize>,
    last: usize,
    habit: Habit,
    /// Instructions until the habit changes.
    left: u64,
}

impl<'m> Order<'m> {
    fn new(watch: Watch<'m>, seed: u64) -> Self {
        Order { watch, random: Random::new(seed), ready: VecDeque::new(), last: 0, habit: Habit::Mixed, left: 0 }
    }

    fn change_habit(&mut self) {
        let random = &mut self.random;
        let divisor = 2 + random.below(7);
        (self.habit, self.left) = match random.below(8) {
            0..=2 => (Habit::Mixed, 40_000),
            3 | 4 => (Habit::Stubborn, 100_000),
            5 => (Habit::Alternating, 4_000),
            _ => (Habit::Starving { divisor, rest: random.below(divisor) }, 40_000),
        };
        self.left = 1 + random.below(self.left);
    }
}

impl<'m> Conductor for Order<'m> {
    type Station<'s>
        = Strict<'s, 'm>
    where
        Self: 's;

    fn ready(&mut self, place: usize, _: &Hart) {
        self.ready.push_back(place);
    }

    fn next(&mut self) -> Option<(usize, u64)> {
        let count = self.ready.len() as u64;
        if count == 0 {
            return None;
        }
        if self.left == 0 {
            self.change_habit();
        }
        let random = &mut self.random;
        let (at, budget) = match self.habit {
            Habit::Mixed => {
                let most = 1 << random.below(9);
                (random.below(count), 1 + random.below(most))
            }
            Habit::Stubborn => {
                let same = self.ready.back().filter(|&&place| place == self.last).map(|_| count - 1);
                (same.unwrap_or_else(|| random.below(count)), 4096)
            }
            Habit::Alternating => (0, 1 + random.below(3)),
            Habit::Starving { divisor, rest } => {
                let start = random.below(count);
                let fed = |at: &u64| self.ready[*at as usize] as u64 % divisor != rest;
                let at = (start..count).chain(0..start).find(fed).unwrap_or(start);
                (at, 1 + random.below(500))
            }
        };
        let budget = budget.min(self.left);
        self.left -= budget;
        let place = match self.habit {
            Habit::Alternating => self.ready.pop_front(),
            _ => self.ready.swap_remove_back(at as usize),
        }?;
        self.last = place;
        Some((place, budget))
    }

    fn station<'s>(&'s mut self, run: &'s Run<'_>, unit: &'s mut Unit) -> Strict<'s, 'm> {
        let eye = Eye { watch: &mut self.watch, random: &mut self.random, value: 0, product: None };
        Strict { inner: Fast::new(run.memory, eye, &run.board, unit, run.launch.exact_flags) }
    }

    fn returned(&mut self, place: usize, hart: &Hart) {
        self.watch.leave(place as u16, hart);
    }
}

/// The tensor engine's outside, under watch.
struct Eye<'a, 'm> {
    watch: &'a mut Watch<'m>,
    random: &'a mut Random,
    /// What is being written to a CSR of the engine.
    value: u64,
    /// A product that was accepted.
    product: Option<Operation>,
}

/// The platform of a hart's turn.
pub(super) struct Strict<'a, 'm> {
    inner: Fast<'a, Eye<'a, 'm>>,
}

impl<'m> Strict<'_, 'm> {
    #[inline]
    fn watch(&mut self) -> &mut Watch<'m> {
        self.inner.outside_mut().watch
    }

    /// An access of part of a line, stack included.
    #[inline(always)]
    fn read(&mut self, hart: &Hart, level: Level, region: Region, addr: u64, out: &mut [u8]) -> Bad {
        let watch = self.watch();
        let place = watch.place(hart);
        match watch.key(region) {
            Some((key, at)) => {
                if level != Level::L1 && watch.is_word(8 * key + at as u64 / 8) {
                    watch.acquire_word(place, 8 * key + at as u64 / 8);
                }
                let Served { index, holder, bad } = watch.inspect(place, level, key, at, out.len(), false);
                watch.serve(index, holder, at, out);
                bad
            }
            None => watch.read_low(hart, place, addr, out),
        }
    }

    #[inline]
    fn write(&mut self, hart: &Hart, level: Level, region: Region, addr: u64, data: &[u8], bad: Bad) {
        let watch = self.watch();
        let place = watch.place(hart);
        match watch.key(region) {
            Some((key, at)) => {
                let holder = watch.holder(place, level, key);
                let word = 8 * key + at as u64 / 8;
                let manner = match level {
                    Level::L1 => Manner::Normal,
                    _ if watch.is_word(word) => Manner::Atomic,
                    _ => Manner::Coherent,
                };
                watch.check_value(place, key, bad);
                watch.write(place, holder, key, at, data, bad, manner);
                if manner == Manner::Atomic {
                    watch.release_word(place, word);
                }
                watch.check_source(place, addr);
            }
            None => watch.write_low(hart, place, addr, data, bad),
        }
    }
}

impl Platform for Strict<'_, '_> {
    const WATCHES: bool = true;

    #[inline]
    fn step(&mut self, hart: &mut Hart, instruction: &Slot) {
        hart.clock += 1;
        self.watch().step(hart, instruction);
    }

    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        let addr = region::canonical(addr);
        let mut bytes = [0; N];
        if level == Level::L1 && addr % 64 <= 64 - N as u64 {
            let region = self.watch().memory.classify(u32::from(hart.id >> 6), addr);
            if let Region::Dram(_) | Region::Scratchpad(_) = region {
                let bad = self.read(hart, level, region, addr, &mut bytes);
                let watch = self.watch();
                watch.loaded(watch.place(hart), addr, N, bad);
                return Ok(bytes);
            }
        }
        let mut bad = Bad::NONE;
        for (at, len) in self.inner.parts::<N>(hart, level, addr, Cause::LoadAccess)? {
            let part = addr + at;
            match self.watch().memory.classify(u32::from(hart.id >> 6), part) {
                region @ (Region::Dram(_) | Region::Scratchpad(_)) => {
                    let out = &mut bytes[at as usize..(at + len) as usize];
                    let found = self.read(hart, level, region, part, out);
                    if found.mask != 0 {
                        bad = Bad { mask: bad.mask | found.mask << at, origin: found.origin };
                    }
                }
                _ => return self.inner.load(hart, level, addr),
            }
        }
        let watch = self.watch();
        let place = watch.place(hart);
        watch.loaded(place, addr, N, bad);
        Ok(bytes)
    }

    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        let addr = region::canonical(addr);
        let mut regions = [Region::Closed; 2];
        for (n, (at, _)) in self.inner.parts::<N>(hart, level, addr, Cause::StoreAccess)?.enumerate() {
            let region = self.watch().memory.classify(u32::from(hart.id >> 6), addr + at);
            if let Region::Dram(_) | Region::Scratchpad(_) = region {
                regions[n] = region;
                continue;
            }
            let value = u64::from_le_bytes(std::array::from_fn(|i| data[i % N]));
            let credits = match region {
                Region::Register(register) if N == 8 => self.inner.board().credits(register, value),
                _ => Vec::new(),
            };
            self.inner.store(hart, level, addr, data)?;
            self.watch().give_credits(hart, credits);
            return Ok(());
        }
        let watch = self.watch();
        let place = watch.place(hart);
        let bad = watch.storing(place, addr, N);
        for (n, (at, len)) in self.inner.parts::<N>(hart, level, addr, Cause::StoreAccess)?.enumerate() {
            let piece = &data[at as usize..(at + len) as usize];
            let bad = Bad { mask: bad.mask >> at & (u64::MAX >> (64 - len)), ..bad };
            self.write(hart, level, regions[n], addr + at, piece, bad);
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        let addr = region::canonical(addr);
        let region = self.inner.atomic_target(hart, level, addr, wide)?;
        let watch = self.watch();
        match watch.key(region) {
            Some((key, at)) => Ok(watch.atomic(watch.place(hart), level, key, at, wide, op, operand)),
            None => self.inner.atomic(hart, level, addr, wide, op, operand),
        }
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        self.inner.fetch(addr)
    }

    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        let eye = self.inner.outside_mut();
        (eye.value, eye.product) = (value, None);
        let outcome = self.inner.csr_write(hart, csr, value)?;
        let place = self.watch().place(hart);
        match (csr, outcome) {
            (_, Outcome::Block) => {}
            (0x820, Outcome::Done(last)) => {
                self.watch().arrive(place, (value & 31) as u8, (value >> 5) as u8, last == 1);
            }
            (0x821, _) => self.watch().take(place, (value & 1) as usize),
            (0x801, _) => {
                let (eye, unit) = self.inner.outside_and_unit();
                if let Some(product) = eye.product.take() {
                    eye.watch.multiplied(hart, value, &product, unit);
                }
            }
            _ => {}
        }
        Ok(outcome)
    }

    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap> {
        self.inner.csr_read(hart, csr)
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        self.inner.settle(hart)
    }
}

impl Station for Strict<'_, '_> {
    fn refresh(&mut self, hart: &mut Hart) {
        let eye = self.inner.outside_mut();
        if eye.random.below(8) == 0 {
            let choice = eye.random.next() as usize;
            eye.watch.write_back_early(eye.watch.place(hart), choice);
        }
        self.inner.refresh(hart);
    }

    fn waiting(&self) -> Option<WaitFor> {
        self.inner.waiting()
    }

    fn take_late(&mut self) -> Option<Trap> {
        self.inner.take_late()
    }
}

impl Outside for Eye<'_, '_> {
    fn classify(&self, shire: u32, addr: u64) -> Region {
        self.watch.memory.classify(shire, addr)
    }

    fn read_block<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Refusal> {
        let region = self.watch.memory.classify(u32::from(hart.id >> 6), addr);
        match self.watch.key(region) {
            // What is wrong with it was found when the load was issued.
            Some((key, at)) => {
                let mut bytes = [0; N];
                self.watch.look(self.watch.place(hart), level, key, at, &mut bytes);
                Ok(bytes)
            }
            None => self.watch.memory.read_block(u32::from(hart.id >> 6), addr),
        }
    }

    fn write_block<const N: usize>(&mut self, hart: &Hart, addr: u64, data: [u8; N]) -> Result<(), Refusal> {
        let place = self.watch.place(hart);
        let bad = self.watch.next_row(place);
        let region = self.watch.memory.classify(u32::from(hart.id >> 6), addr);
        match self.watch.key(region) {
            Some((key, at)) => {
                self.watch.check_value(place, key, bad);
                self.watch.check_source(place, addr);
                let early = self.random.below(2) == 0;
                self.watch.store_around(place, key, at, &data, bad, 8, early);
                Ok(())
            }
            None => self.watch.memory.write_block(u32::from(hart.id >> 6), addr, data),
        }
    }

    fn write_scratchpad(&mut self, hart: &Hart, offset: u64, line: [u8; 64]) {
        let place = self.watch.place(hart);
        let bad = self.watch.next_row(place);
        if let Some((key, at)) = self.watch.key(Region::Scratchpad(offset)) {
            let event = 2 + (hart.x[31] & 1) as u8;
            let early = self.random.below(2) == 0;
            self.watch.store_around(place, key, at, &line, bad, event, early);
        }
    }

    fn cache_line(&mut self, hart: &Hart, action: CacheAction, event: u64, level: u64, addr: u64) {
        let region = self.watch.memory.classify(u32::from(hart.id >> 6), addr);
        if let Some((key, _)) = self.watch.key(region) {
            self.watch.start_cache(self.watch.place(hart), action, event as u8, level, key);
        }
    }

    fn issued(&mut self, hart: &mut Hart, operation: &Operation) {
        if let Operation::Product { .. } = operation {
            self.product = Some(*operation);
        }
        self.watch.issued(hart, self.value, operation);
    }

    fn delays_load(&mut self) -> bool {
        self.random.below(2) == 0
    }
}
