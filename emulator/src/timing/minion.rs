//! A minion's clocks, and what an instruction does to them.

use super::cache::Set;
use super::chip::{line_of, Chip, Seat, LINE};
use super::classes::{Cost, Kind, Unit, COSTS, IGNORED};
use super::constants::*;
use super::hart::{HartClock, Ready, Turns};
use super::l1::{Half, L1};
use super::profile::{Account, Cause, Level, Work};
use super::tensor::TensorClock;
use crate::code::Slot;
use crate::hart::Hart;
use crate::memory::Memory;
use et_isa::Op;

/// CSRs.
mod csr {
    /// The kernel tells which command it is in: 1 + index, 0 outside.
    pub const MARK: i32 = 0x8D3;
    pub const FLB: i32 = 0x820;
    pub const QUANT: i32 = 0x806;
    /// Switches the scratchpad.
    pub const CACHE_CONTROL: i32 = 0x810;
}

/// The two harts of a minion and what they share.
#[derive(Clone, Debug, Default)]
pub struct Minion {
    pub harts: [HartClock; 2],
    turns: Turns,
    l1: L1,
    /// When the multiplier and the unit for transcendentals are free.
    units: [Ticks; 2],
    pub tensor: TensorClock,
}

/// How an access goes around L1.
#[derive(Clone, Copy, Debug)]
struct Direct {
    /// To L3, else to L2.
    global: bool,
    atomic: bool,
    /// Of each element.
    bytes: u8,
}

/// The instruction buffer that four minions share.
pub type CodeBuffer = Set<{ L0_LINES as usize }>;

/// What a minion's instruction can reach.
pub struct Around<'a> {
    pub memory: &'a Memory,
    pub chip: &'a mut Chip,
    pub code: &'a mut CodeBuffer,
    pub accounts: &'a mut Vec<Account>,
    pub seat: Seat,
}

impl Around<'_> {
    /// The account of a hart's command.
    pub fn account(&mut self, clock: &HartClock) -> &mut Account {
        &mut self.accounts[clock.command]
    }
}

impl Minion {
    /// An instruction of `hart` is about to execute.
    #[inline]
    pub fn step(&mut self, around: &mut Around<'_>, hart: &mut Hart, slot: &Slot) {
        let thread = usize::from(hart.id & 1);
        let cost = &COSTS[slot.op as usize];
        let [first, second] = &mut self.harts;
        let (clock, other) = if thread == 0 { (first, second) } else { (second, first) };
        if cost.kind == Kind::Csr {
            clock.before = (clock.next, clock.spent);
        }
        clock.instructions += 1;
        clock.entered = clock.enters;
        clock.yields = Ticks::MAX;
        let line = hart.pc / u64::from(LINE);
        if line != clock.line {
            fetch(around, clock, line);
        }
        // Operands.
        let sources = &cost.sources;
        let ready = clock.ready[sources[0].at(slot.rd)]
            .max(clock.ready[sources[1].at(slot.rs1)])
            .max(clock.ready[sources[2].at(slot.rs2)])
            .max(clock.ready[sources[3].at(slot.rs3)])
            .max(clock.ready[cost.masked]);
        if ready.at() > clock.next {
            if ready.cause() == Cause::Memory {
                clock.yields = clock.next + MISS_HOLD;
            }
            clock.delay(ready.at(), ready.cause());
        }
        if cost.vector {
            clock.delay(self.tensor.vector_free, Cause::Tensor);
        }
        let mut at = clock.next;
        let mut queued = false;
        if let Some(unit) = cost.unit {
            let mut free = self.units[unit as usize];
            if unit == Unit::Transcendental && clock.transcendental.0 == slot.rs1 {
                free = free.max(clock.transcendental.1 + cost.again);
            }
            if free > at {
                at = free.next_multiple_of(if other.away { 1 } else { CYCLE });
                queued = true;
                clock.delay(at, Cause::Latency);
            }
        }
        if !queued {
            at = self.turns.slot(thread, at, &*other);
            clock.delay(at, Cause::Partner);
        }
        if cost.hold > ISSUE {
            other.held(at, at + cost.hold);
        }
        // Issue.
        self.turns.taken(thread, at, cost.hold);
        if let Some(unit) = cost.unit {
            self.units[unit as usize] = at + cost.issue;
            if unit == Unit::Transcendental {
                clock.transcendental = (slot.rs1, at);
            }
        }
        clock.away = false;
        clock.issued = at;
        clock.holds_until = at + cost.hold;
        clock.enters = at + ISSUE;
        clock.delay(at + cost.issue, Cause::Issue);
        hart.clock = at / CYCLE;
        // The result; x0 has none.
        let mut result = cost.result.at(slot.rd);
        if result == 0 {
            result = usize::from(IGNORED);
        }
        clock.ready[result] = Ready::computed(at + cost.latency);
        if cost.kind != Kind::Plain || cost.fused {
            self.special(around, hart, slot, cost, thread, result);
        }
    }

    /// What goes beyond issue and latency.
    fn special(
        &mut self,
        around: &mut Around<'_>,
        hart: &mut Hart,
        slot: &Slot,
        cost: &Cost,
        thread: usize,
        result: usize,
    ) {
        let clock = &mut self.harts[thread];
        match cost.kind {
            Kind::Plain => {
                around.account(clock).work[Work::Lanes as usize] += u64::from(hart.m[0].count_ones());
            }
            Kind::Branch => {
                if taken(hart, slot) {
                    bubble(clock, BRANCH_BUBBLE);
                }
            }
            Kind::Jump => bubble(clock, if slot.op == Op::Jalr { JALR_BUBBLE } else { BRANCH_BUBBLE }),
            // Instructions without effect are decoded to fences of nothing.
            Kind::Fence if slot.imm == 0 => {}
            Kind::Fence => {
                let done = clock.outstanding;
                clock.wait(done, Cause::Memory);
            }
            Kind::Csr => self.csr(around, hart, slot, thread, result),
            Kind::Load(bytes) => {
                let addr = address(hart, slot);
                let latency = cost.latency;
                self.access(around, hart, thread, addr, u32::from(bytes), Some((result, latency)));
            }
            Kind::Store(bytes) => {
                let addr = address(hart, slot);
                self.access(around, hart, thread, addr, u32::from(bytes), None);
            }
            Kind::Block { store } => {
                let target = (!store).then_some((result, cost.latency));
                let addr = hart.x[usize::from(slot.rs2 & 31)] & !31;
                self.lines(around, hart, thread, &[addr], 32, target);
            }
            Kind::Gather(bytes) | Kind::Scatter(bytes) => {
                let target = matches!(cost.kind, Kind::Gather(_)).then_some((result, cost.latency));
                let (lanes, count) = lanes(hart, slot);
                self.lines(around, hart, thread, &lanes[..count], u32::from(bytes), target);
            }
            Kind::Uncached { global, bytes } => {
                let addr = hart.x[usize::from(slot.rs1 & 31)];
                let atomic = matches!(bytes, 4 | 8);
                self.uncached(around, thread, &[addr], Direct { global, atomic, bytes }, result);
            }
            Kind::UncachedLanes { global, bytes } => {
                let (lanes, count) = lanes(hart, slot);
                self.uncached(around, thread, &lanes[..count], Direct { global, atomic: false, bytes }, result);
            }
        }
    }

    /// A load or store of `bytes` bytes at one address.
    #[inline]
    fn access(
        &mut self,
        around: &mut Around<'_>,
        hart: &mut Hart,
        thread: usize,
        addr: u64,
        bytes: u32,
        target: Option<(usize, Ticks)>,
    ) {
        let misaligned = !addr.is_multiple_of(u64::from(bytes));
        if misaligned {
            let clock = &mut self.harts[thread];
            clock.delay(clock.issued + MISALIGNED_ISSUE, Cause::Issue);
        }
        let line = u64::from(LINE);
        let last = addr.wrapping_add(u64::from(bytes) - 1);
        if misaligned && last / line != addr / line {
            // One more pass.
            let target = target.map(|(result, latency)| (result, latency + CYCLE));
            self.lines(around, hart, thread, &[addr, last & !(line - 1)], bytes / 2, target);
        } else {
            self.lines(around, hart, thread, &[addr], bytes, target);
        }
    }

    /// Accesses of `bytes` bytes each, line by line.
    fn lines(
        &mut self,
        around: &mut Around<'_>,
        hart: &mut Hart,
        thread: usize,
        addrs: &[u64],
        bytes: u32,
        target: Option<(usize, Ticks)>,
    ) {
        let clock = &mut self.harts[thread];
        let at = clock.issued;
        let account = &mut around.accounts[clock.command];
        account.bytes[Level::L1 as usize] += u64::from(bytes) * addrs.len() as u64;
        let mut previous = u64::MAX;
        for &addr in addrs {
            let number = addr / u64::from(LINE);
            if number == previous {
                continue;
            }
            previous = number;
            let Some(line) = line_of(around.memory, around.seat.shire, addr) else {
                return self.register(around, hart, thread, addr, target);
            };
            let write = target.is_none();
            let half = Half { seat: around.seat, thread, mode: hart.ucache_control };
            let access = self.l1.access(around.chip, half, line, at, write);
            if access.level != Level::L1 {
                account.bytes[access.level as usize] += u64::from(LINE);
            }
            clock.outstanding = clock.outstanding.max(access.usable);
            if access.first_write {
                clock.delay(clock.next + FIRST_WRITE, Cause::Memory);
            }
            clock.delay(access.proceed, Cause::Memory);
            if let Some((result, latency)) = target {
                let hit = at + latency;
                let usable = if access.usable > hit { Ready::loaded(access.usable) } else { Ready::computed(hit) };
                clock.ready[result] = clock.ready[result].max(usable);
            }
        }
    }

    /// A load from, or a store to, an ESR; or an access that will fault.
    fn register(
        &mut self,
        around: &Around<'_>,
        hart: &mut Hart,
        thread: usize,
        addr: u64,
        target: Option<(usize, Ticks)>,
    ) {
        let clock = &mut self.harts[thread];
        if let Some((result, _)) = target {
            clock.ready[result] = Ready::loaded(clock.issued + L2_LATENCY + UNCACHED_USE);
            return;
        }
        clock.delay(clock.issued + CREDIT_SEND, Cause::Sync);
        // When the other side sees it.
        let shire = addr >> 22 & 0xFF;
        let far = shire != 0xFF && shire != around.seat.shire as u64;
        hart.clock = (clock.next + if far { MESH } else { 0 }) / CYCLE;
    }

    /// Accesses around L1, line by line, one at a time.
    fn uncached(&mut self, around: &mut Around<'_>, thread: usize, addrs: &[u64], how: Direct, result: usize) {
        let Direct { global, atomic, bytes } = how;
        let bytes = u32::from(bytes);
        let clock = &mut self.harts[thread];
        let account = &mut around.accounts[clock.command];
        let mut previous = u64::MAX;
        for &addr in addrs {
            let number = addr / u64::from(LINE);
            if number == previous {
                continue;
            }
            previous = number;
            let Some(line) = line_of(around.memory, around.seat.shire, addr) else { return };
            let count = addrs.iter().filter(|addr| *addr / u64::from(LINE) == number).count() as u32;
            // The one before must be done, and the hart waits for that.
            clock.delay(clock.uncached, Cause::Memory);
            let at = clock.issued.max(clock.uncached);
            let served = around.chip.uncached(around.seat, line, global, atomic, (bytes * count).min(LINE), at);
            account.bytes[served.level as usize] += u64::from((bytes * count).min(LINE));
            clock.uncached = served.at + UNCACHED_PITCH;
            clock.outstanding = clock.outstanding.max(clock.uncached);
            clock.ready[result] = Ready::loaded(served.at + UNCACHED_USE);
        }
    }

    fn csr(&mut self, around: &mut Around<'_>, hart: &mut Hart, slot: &Slot, thread: usize, result: usize) {
        let clock = &mut self.harts[thread];
        let quick = matches!(slot.imm, 0x800..=0x806 | 0x81F..=0x821 | 0x830 | 0x83F..=0x8FF)
            && !matches!(slot.imm, 0x840 | 0x8D0..=0x8D3);
        if quick {
            // Its unit works on by itself.
            let back = CSR_ISSUE - ISSUE;
            clock.next -= back;
            clock.spent[Cause::Issue as usize] -= back;
            clock.ready[result] = Ready::computed(clock.issued + ISSUE);
        }
        match slot.imm {
            csr::FLB => {
                let answer = around.chip.barrier(around.seat, clock.issued);
                clock.ready[result] = Ready::answered(answer);
                clock.result = result;
                // The barrier remembers when the last of them came.
                hart.clock = answer / CYCLE;
            }
            csr::QUANT => self.tensor.quantises(written(hart, slot).unwrap_or(0)),
            csr::CACHE_CONTROL
                if hart.ucache_control & 2 == 0 && written(hart, slot).is_some_and(|wanted| wanted & 2 != 0) =>
            {
                let done = clock.issued + SCRATCHPAD_SWITCH;
                clock.wait(done, Cause::Tensor);
            }
            csr::MARK => {
                if let Some(command) = written(hart, slot) {
                    self.mark(around, hart, thread, command);
                }
            }
            _ => {}
        }
    }

    /// The hart says in which command it is.
    fn mark(&mut self, around: &mut Around<'_>, hart: &Hart, thread: usize, command: u64) {
        self.close(around, hart, thread);
        let clock = &mut self.harts[thread];
        // A value that is no index means what lies outside.
        clock.command = if command < 1 << 20 { command as usize } else { 0 };
        if clock.command >= around.accounts.len() {
            around.accounts.resize_with(clock.command + 1, Account::default);
        }
    }

    /// Ends the hart's present command.
    pub fn close(&mut self, around: &mut Around<'_>, hart: &Hart, thread: usize) {
        let clock = &mut self.harts[thread];
        let account = &mut around.accounts[clock.command];
        account.close(hart.id, clock.began, clock.next, &clock.spent);
        account.waits = account.waits.max(std::mem::take(&mut clock.waits));
        account.instructions += std::mem::take(&mut clock.instructions);
        clock.began = clock.next;
        clock.spent = Default::default();
    }

    /// The CSR access that was announced last has not been done: the hart waits.
    pub fn blocked(&mut self, thread: usize) {
        let clock = &mut self.harts[thread];
        (clock.next, clock.spent) = clock.before;
        clock.instructions -= 1;
        clock.enters = clock.next;
        clock.away = true;
    }

    /// The local barrier has answered its last comer, who learns when all had come.
    pub fn last_at_barrier(&mut self, hart: &Hart, thread: usize) {
        let clock = &mut self.harts[thread];
        clock.ready[clock.result] = clock.ready[clock.result].max(Ready::answered(hart.clock * CYCLE));
    }

    /// A credit has been taken that was sent at the hart's logical time.
    pub fn credited(&mut self, hart: &Hart, thread: usize) {
        let clock = &mut self.harts[thread];
        clock.waits += 1;
        if hart.clock > clock.issued / CYCLE {
            clock.wait(hart.clock * CYCLE + CREDIT_ARRIVAL, Cause::Sync);
        }
    }

    /// Drops a line from a hart's half of L1, or cleans it; whether that is written back.
    pub fn clean(&mut self, half: Half, line: u64, keep: bool) -> bool {
        self.l1.clean(half, line, keep)
    }

    /// Brings a line to a hart's half of L1: when it is there, and from where.
    pub fn prefetch(&mut self, around: &mut Around<'_>, half: Half, line: u64, at: Ticks) -> (Ticks, Level) {
        let access = self.l1.access(around.chip, half, line, at, false);
        (access.usable, access.level)
    }
}

/// The value that a CSR access writes, unless it sets or clears bits.
fn written(hart: &Hart, slot: &Slot) -> Option<u64> {
    match slot.op {
        Op::Csrrw => Some(hart.x[usize::from(slot.rs1 & 31)]),
        Op::Csrrwi => Some(u64::from(slot.rs1)),
        _ => None,
    }
}

/// The next instruction is on another line than the last.
fn fetch(around: &mut Around<'_>, clock: &mut HartClock, line: u64) {
    let ahead = if line == clock.line.wrapping_add(1) { FETCH_AHEAD } else { FETCH };
    clock.line = line;
    let ready = match around.code.find(line) {
        Some(way) => way.ready,
        None => {
            // Code is in DRAM, which looks the same from every shire.
            let addr = line * u64::from(LINE);
            let Some(number) = line_of(around.memory, around.seat.shire, addr) else { return };
            let ready = around.chip.code(around.seat, number, clock.next.saturating_sub(ahead));
            around.code.insert(line, ready, false);
            ready
        }
    };
    if ready > clock.next {
        clock.delay(ready, Cause::Fetch);
        clock.entered = clock.next;
    }
}

/// The front end has to start again.
#[inline]
fn bubble(clock: &mut HartClock, cycles: Ticks) {
    clock.delay(clock.issued + ISSUE + cycles, Cause::Fetch);
    clock.enters = clock.next;
    clock.holds_until = clock.issued + BRANCH_HOLD;
}

/// The address `imm(rs1)`.
#[inline(always)]
fn address(hart: &Hart, slot: &Slot) -> u64 {
    hart.x[usize::from(slot.rs1 & 31)].wrapping_add(slot.imm as i64 as u64)
}

/// The addresses of the active lanes, which x[rs2] + f[rs1] names.
fn lanes(hart: &Hart, slot: &Slot) -> ([u64; 8], usize) {
    let base = hart.x[usize::from(slot.rs2 & 31)];
    let offsets = &hart.f[usize::from(slot.rs1 & 31)].0;
    let mut addrs = [0; 8];
    let mut count = 0;
    for (lane, &offset) in offsets.iter().enumerate() {
        if hart.m[0] >> lane & 1 == 1 {
            addrs[count] = base.wrapping_add(offset as i32 as i64 as u64);
            count += 1;
        }
    }
    // The lines are visited one by one.
    addrs[..count].sort_unstable();
    (addrs, count)
}

/// Whether a branch is taken.
#[inline]
fn taken(hart: &Hart, slot: &Slot) -> bool {
    let (a, b) = (hart.x[usize::from(slot.rs1 & 31)], hart.x[usize::from(slot.rs2 & 31)]);
    match slot.op {
        Op::Beq => a == b,
        Op::Bne => a != b,
        Op::Blt => (a as i64) < b as i64,
        Op::Bge => a as i64 >= b as i64,
        Op::Bltu => a < b,
        _ => a >= b,
    }
}
