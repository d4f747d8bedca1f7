//! What a launch's commands cost: where cycles went, how many bytes moved, how much was computed.

use super::constants::{Ticks, CYCLE, DRAM_BYTES};

/// Who held a line, or took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Level {
    L1,
    L2,
    L3,
    Dram,
    /// A shire's L2 scratchpad.
    Scratchpad,
}

/// What a hart's time went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Instructions of its own.
    Issue,
    /// Turns of the minion's other hart.
    Partner,
    /// Results of arithmetic, busy units.
    Latency,
    /// Taken branches, instruction cache.
    Fetch,
    /// Loads, stores, atomics, fences.
    Memory,
    /// Tensor and cache operations: waits for them, and for the vector unit while they have it.
    Tensor,
    /// Barriers and credits.
    Sync,
}

/// How many causes there are.
pub const CAUSES: usize = 7;

impl Cause {
    /// Their names, in order.
    pub const NAMES: [&'static str; CAUSES] = ["issue", "partner", "latency", "fetch", "memory", "tensor", "sync"];
}

/// What was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Tensor products, in multiply-accumulates.
    Int8,
    /// The same.
    F16,
    /// The same.
    F32,
    /// Lanes of fused packed multiply-adds.
    Lanes,
}

/// Multiply-accumulates per cycle of a minion at best, in the order of [`Work`].
const PEAK: [f64; 4] = [64.0, 16.0, 8.0, 8.0];

/// One command of a launch, or all that lies outside commands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// When its first hart began, in cycles.
    pub begin: u64,
    /// When its last hart had done it.
    pub end: u64,
    /// From the end of the command before to its own.
    pub cycles: u64,
    /// The hart that waited least for others.
    pub critical: u16,
    /// What that hart's cycles went to, in the order of [`Cause::NAMES`].
    pub spent: [u64; CAUSES],
    /// Bytes from or to L1, L2, L3, DRAM, scratchpad.
    pub bytes: [u64; 5],
    /// Multiply-accumulates of tensor products in int8, F16, F32, and of vector lanes.
    pub work: [u64; 4],
    /// Retired instructions.
    pub instructions: u64,
    /// How often the hart that waited most often waited for others: for a credit, or for another minion in a reduction,
    /// whether it then lost time or not. What a launch's loop does between commands lies outside commands.
    pub waits: u64,
}

/// What a launch cost, by the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// All cycles.
    pub cycles: u64,
    /// Minions that took part.
    pub minions: u64,
    /// The commands, in order. A kernel that does not mark commands is one.
    pub commands: Vec<Command>,
    /// What lies outside commands: before the first and behind the last. Empty when there are no marks.
    pub outside: Command,
}

impl Profile {
    /// The share of the minions' best that `command` computed at, all types together.
    pub fn compute_share(&self, command: &Command) -> f64 {
        let cycles: f64 = command.work.iter().zip(PEAK).map(|(&work, peak)| work as f64 / peak).sum();
        share(cycles / self.minions.max(1) as f64, command.cycles)
    }

    /// The share of the DRAM's peak rate that `command` used.
    pub fn dram_share(&self, command: &Command) -> f64 {
        share(command.bytes[Level::Dram as usize] as f64 / DRAM_BYTES, command.cycles)
    }

    /// All commands and what lies outside as one.
    pub fn total(&self) -> Command {
        let mut sum = Command::default();
        self.commands.iter().chain([&self.outside]).for_each(|command| sum.join(command));
        (sum.end, sum.cycles) = (self.cycles, self.cycles);
        sum
    }
}

impl Command {
    /// Adds what another one took.
    pub fn join(&mut self, other: &Command) {
        add(&mut self.spent, &other.spent);
        add(&mut self.bytes, &other.bytes);
        add(&mut self.work, &other.work);
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.waits += other.waits;
    }
}

fn share(used: f64, cycles: u64) -> f64 {
    used / cycles.max(1) as f64
}

fn add<const N: usize>(sum: &mut [u64; N], more: &[u64; N]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// A command under way.
#[derive(Clone, Debug)]
pub struct Account {
    begin: Ticks,
    end: Ticks,
    busy: Ticks,
    critical: u16,
    spent: [Ticks; CAUSES],
    pub bytes: [u64; 5],
    pub work: [u64; 4],
    pub instructions: u64,
    pub waits: u64,
}

impl Default for Account {
    fn default() -> Self {
        Account {
            begin: Ticks::MAX,
            end: 0,
            busy: 0,
            critical: 0,
            spent: [0; CAUSES],
            bytes: [0; 5],
            work: [0; 4],
            instructions: 0,
            waits: 0,
        }
    }
}

impl Account {
    /// A hart has done its part.
    pub fn close(&mut self, hart: u16, begin: Ticks, end: Ticks, spent: &[Ticks; CAUSES]) {
        let busy = (end - begin).saturating_sub(spent[Cause::Sync as usize]);
        if self.end == 0 || busy > self.busy {
            (self.busy, self.critical, self.spent) = (busy, hart, *spent);
        }
        self.begin = self.begin.min(begin);
        self.end = self.end.max(end);
    }

    /// The finished command, of which `cycles` lie behind the one before.
    fn command(&self, before: Ticks) -> Command {
        Command {
            begin: if self.begin == Ticks::MAX { 0 } else { self.begin / CYCLE },
            end: self.end / CYCLE,
            cycles: (self.end / CYCLE).saturating_sub(before / CYCLE),
            critical: self.critical,
            spent: self.spent.map(|ticks| ticks / CYCLE),
            bytes: self.bytes,
            work: self.work,
            instructions: self.instructions,
            waits: self.waits,
        }
    }
}

/// The accounts of a launch: what lies outside commands, then the commands.
pub fn profile(accounts: &[Account], minions: u64) -> Profile {
    let last = accounts.iter().map(|account| account.end).max().unwrap_or(0);
    let (outside, commands) = accounts.split_first().expect("there is always the account of what lies outside");
    let mut profile = Profile { cycles: last / CYCLE, minions, ..Profile::default() };
    if commands.is_empty() {
        profile.commands.push(outside.command(0));
        return profile;
    }
    let first = commands.iter().map(|account| account.begin).min().unwrap_or(0);
    let mut before = first;
    for account in commands {
        profile.commands.push(account.command(before));
        before = before.max(account.end);
    }
    profile.outside = outside.command(0);
    profile.outside.cycles = profile.cycles - profile.commands.iter().map(|command| command.cycles).sum::<u64>();
    profile
}
