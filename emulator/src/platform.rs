//! What lies outside a hart: memory at its levels, the tensor unit, barriers and credits.
//!
//! The executor (`exec`) is generic over [`Platform`], so that fast mode, and later strict mode and timing, are
//! different platforms under the same instruction semantics, with static dispatch.

use crate::code::Slot;
use crate::hart::Hart;
use crate::memory::Window;
use crate::trap::Trap;

/// Where a memory access acts (ISA sheet 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Normal loads and stores.
    L1,
    /// `l` forms: the shire's own L2.
    L2,
    /// `g` forms: the home L3 bank.
    L3,
}

/// The operation of an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Atomic {
    Add,
    Swap,
    And,
    Or,
    Xor,
    Min,
    Max,
    MinU,
    MaxU,
    /// Store if memory equals the comparand.
    CompareSwap(u64),
    /// famomin.ps / famomax.ps: 32 bits only.
    MinPs,
    MaxPs,
}

/// How a CSR access with a side effect ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done; the value for `rd`.
    Done(u64),
    /// The hart has to wait; the instruction had no effect and is to be executed again later.
    Block,
}

/// Memory that a hart's plain accesses reach without anybody noticing.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// DRAM from [`OPEN_BASE`](crate::memory::OPEN_BASE) on.
    pub dram: Window,
    /// The own shire's scratchpad, in the format that names "own shire".
    pub scratchpad: Window,
}

/// What a hart can reach. Addresses are virtual = physical in bits 39:0 (translation is off).
/// Every method is called from the host thread that runs the hart; harts of one minion share a thread.
pub trait Platform {
    /// Whether [`step`](Platform::step) is called. Then the platform also keeps [`Hart::clock`].
    const WATCHES: bool = false;

    /// Whether [`windows`](Platform::windows) may give something, so that code is worth translating. Not
    /// together with [`WATCHES`](Platform::WATCHES).
    const TRANSLATES: bool = false;

    /// Where plain accesses go, if host code may do them in place of [`load`](Platform::load) and
    /// [`store`](Platform::store).
    #[inline(always)]
    fn windows(&self, _hart: &Hart) -> Option<Windows> {
        None
    }

    /// Called before each instruction, with `hart.pc` at it. An instruction that then blocks is announced again.
    #[inline(always)]
    fn step(&mut self, _hart: &mut Hart, _instruction: &Slot) {}

    /// Whether the hart is to stop before its next instruction, as if its budget were used up. Asked when it is watched.
    #[inline(always)]
    fn pause(&self, _hart: &Hart) -> bool {
        false
    }

    /// Loads `N` bytes (1, 2, 4, 8 or 32), little-endian. Alignment and region rules: ISA sheet 5.3.
    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap>;

    /// A normal load of 32 bytes that needs nothing but memory: the common case, free of a `Result` that would be built
    /// in memory. `None` sends the executor to [`load`](Platform::load).
    #[inline(always)]
    fn quick_load(&mut self, _hart: &Hart, _addr: u64) -> Option<[u8; 32]> {
        None
    }

    /// Stores `N` bytes (1, 2, 4, 8 or 32). ESR stores (credits, barriers) come through here as well.
    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap>;

    /// An atomic of 4 or 8 bytes (`wide`); returns the old value, zero-extended.
    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap>;

    /// Reads two bytes of code. Cause [`FetchAccess`](crate::trap::Cause::FetchAccess) outside DRAM.
    fn fetch(&mut self, addr: u64) -> Result<u16, Trap>;

    /// A write to a CSR of the platform: 800, 801, 806, 81F, 820 flb, 821 fcc, 822, 830, 83F, 85F, 87F, 89F, 8BF, 8DF,
    /// 8FF (ISA sheet 3.1), and to 810 when it switches the scratchpad on; `x31` is in the hart. Access rights are
    /// already checked by the executor.
    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap>;

    /// A write to such a CSR of which nobody wants a value, if it can be done at once and cannot fail. False, with nothing
    /// done, sends the executor to [`csr_write`](Platform::csr_write). Access rights are not checked yet, and the hart's
    /// counters are not up to date.
    #[inline(always)]
    fn quick_write<const CSR: u16>(&mut self, _hart: &mut Hart, _value: u64) -> bool {
        false
    }

    /// A read of a CSR whose value the platform holds: C03..C08 counters, CC0 fccnb, CC8..CCF message ports.
    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap>;

    /// Called before an instruction that uses the vector unit while [`Hart::vpu_busy`] is set. True when the pending
    /// operation has completed (its result is in the registers and the flag is clear); false when the hart must wait.
    fn settle(&mut self, hart: &mut Hart) -> bool;
}
