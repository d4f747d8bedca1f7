//! One hart's clock: when its registers are ready, and what it has spent time on.

use super::classes::REGISTERS;
use super::constants::*;
use super::profile::{Cause, CAUSES};

/// When each register is ready, and what it waits for.
pub type Scoreboard = [Ready; REGISTERS];

/// A time and, in the last two bits, one of [`Cause::Latency`], [`Cause::Memory`], [`Cause::Sync`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ready(u64);

impl Ready {
    /// A result of arithmetic.
    #[inline(always)]
    pub const fn computed(at: Ticks) -> Ready {
        Ready(at << 2)
    }

    /// What was loaded.
    #[inline(always)]
    pub const fn loaded(at: Ticks) -> Ready {
        Ready(at << 2 | 1)
    }

    /// A barrier's answer.
    pub const fn answered(at: Ticks) -> Ready {
        Ready(at << 2 | 2)
    }

    /// When.
    #[inline(always)]
    pub const fn at(self) -> Ticks {
        self.0 >> 2
    }

    /// What whoever needs it waits for.
    #[inline]
    pub const fn cause(self) -> Cause {
        match self.0 & 3 {
            0 => Cause::Latency,
            1 => Cause::Memory,
            _ => Cause::Sync,
        }
    }
}

/// The clock of one hart.
#[derive(Clone, Debug)]
pub struct HartClock {
    pub ready: Scoreboard,
    /// When its next instruction can issue, as far as the front end is concerned.
    pub next: Ticks,
    /// When that instruction is there to take turns.
    pub enters: Ticks,
    /// From when on it took turns for the last instruction.
    pub entered: Ticks,
    /// From when on it left its turns to the other hart, because it waited for memory.
    pub yields: Ticks,
    /// When it last issued.
    pub issued: Ticks,
    /// Until when that keeps the other hart from issuing.
    pub holds_until: Ticks,
    /// It waits for a credit, a partner, or has returned.
    pub away: bool,
    /// When it was woken from that.
    pub woken: Ticks,
    /// Where the result of its last CSR access goes.
    pub result: usize,
    /// The line of its last instruction.
    pub line: u64,
    /// When all its loads and stores are done.
    pub outstanding: Ticks,
    /// When it can begin its next access around L1.
    pub uncached: Ticks,
    /// When its next cache operation can begin.
    pub cache_operations: Ticks,
    /// When the events of tensor_wait are over.
    pub events: [Ticks; 16],
    /// The register that the last transcendental read, and when it issued.
    pub transcendental: (u8, Ticks),
    /// `next` and `spent` before the last CSR access, in case it blocks.
    pub before: (Ticks, [Ticks; CAUSES]),
    pub spent: [Ticks; CAUSES],
    /// The command that it is in.
    pub command: usize,
    /// When it began that.
    pub began: Ticks,
    /// Instructions since then.
    pub instructions: u64,
    /// Credits taken and exchanges with other minions since then.
    pub waits: u64,
}

impl Default for HartClock {
    fn default() -> Self {
        HartClock {
            ready: [Ready::default(); REGISTERS],
            next: 0,
            enters: 0,
            entered: 0,
            yields: Ticks::MAX,
            issued: 0,
            holds_until: 0,
            away: false,
            woken: 0,
            result: 0,
            line: u64::MAX,
            outstanding: 0,
            uncached: 0,
            cache_operations: 0,
            events: [0; 16],
            transcendental: (u8::MAX, 0),
            before: (0, [0; CAUSES]),
            spent: [0; CAUSES],
            command: 0,
            began: 0,
            instructions: 0,
            waits: 0,
        }
    }
}

impl HartClock {
    /// Whether it has an instruction that takes turns at `at`, as far as is known.
    #[inline]
    fn competes(&self, at: Ticks) -> bool {
        if self.away {
            false
        } else if at < self.issued {
            (self.entered..self.yields).contains(&at)
        } else {
            at >= self.enters
        }
    }

    /// Goes on at `at` at the earliest, for a reason.
    #[inline(always)]
    pub fn delay(&mut self, at: Ticks, cause: Cause) {
        if at > self.next {
            self.spent[cause as usize] += at - self.next;
            self.next = at;
        }
    }

    /// The same, while it leaves its turns to the other hart.
    pub fn wait(&mut self, at: Ticks, cause: Cause) {
        self.delay(at, cause);
        self.enters = self.next;
    }

    /// The other hart keeps it from issuing meanwhile. It may have been ahead.
    pub fn held(&mut self, from: Ticks, to: Ticks) {
        if self.issued > from && self.issued < to {
            let late = to - self.issued;
            self.issued += late;
            self.enters += late;
            self.holds_until += late;
            self.delay(self.next + late, Cause::Partner);
        }
    }

    /// When what it has issued can begin, if that waits for something that is free at `free`; the hart waits with it.
    pub fn begin(&mut self, free: Ticks) -> Ticks {
        if free > self.issued {
            self.wait(free + ISSUE, Cause::Tensor);
        }
        free.max(self.issued)
    }
}

/// Whose turn it is to issue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turns {
    /// A turn of `owner`; its others are two cycles apart, and the other hart's are between.
    base: Ticks,
    owner: usize,
}

impl Turns {
    /// When hart `thread` can issue what is ready at `at`.
    #[inline]
    pub fn slot(&self, thread: usize, at: Ticks, other: &HartClock) -> Ticks {
        let mut at = at;
        if other.issued <= at {
            at = at.max(other.holds_until);
        }
        if !other.competes(at) {
            return at;
        }
        let phase = if self.owner == thread { self.base } else { self.base + CYCLE };
        at + (phase.wrapping_sub(at) & (2 * CYCLE - 1))
    }

    /// Hart `thread` issues at `at` and keeps the other one from it for `hold`.
    #[inline]
    pub fn taken(&mut self, thread: usize, at: Ticks, hold: Ticks) {
        *self = Turns { base: at + hold, owner: 1 - thread };
    }
}
