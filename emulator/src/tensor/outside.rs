//! What a tensor engine reaches outside its minion, and what it tells about its operations.

use super::operation::Operation;
use crate::hart::Hart;
use crate::memory::{Mapping, Memory, Refusal, Region};
use crate::platform::Level;

/// What a cache operation by address does to a line (ISA sheet 3.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAction {
    /// CSR 81F: brings it to the level.
    Prefetch,
    /// CSR 8BF: writes it back to the level and keeps the copies.
    Flush,
    /// CSR 89F: writes it back to the level and drops the copies above.
    Evict,
    /// CSR 8DF: zeroes it and keeps it in L1.
    Lock,
    /// CSR 8FF.
    Unlock,
}

/// Memory as a tensor engine sees it, below L1, and whoever watches the engine. Each mode of the machine has one.
/// Addresses are canonical.
pub trait Outside {
    /// Whether [`issued`](Outside::issued) wants to be called.
    const WATCHES: bool = true;

    /// What lies at `addr`, seen from a hart of `shire`.
    fn classify(&self, shire: u32, addr: u64) -> Region;

    /// Reads `N` bytes at an `N`-aligned address (`N` divides a line), from the shire's L2 or from the home L3.
    fn read_block<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Refusal>;

    /// Writes `N` bytes at an `N`-aligned address (`N` divides a line), around L1 and L2.
    fn write_block<const N: usize>(&mut self, hart: &Hart, addr: u64, data: [u8; N]) -> Result<(), Refusal>;

    /// The bytes behind `rows` lines, `stride` apart, and the place of the first among them, if they may be read and written
    /// without a word to anybody.
    #[inline(always)]
    fn flat(&self, _hart: &Hart, _addr: u64, _stride: u64, _rows: u64) -> Option<(&Mapping, u64)> {
        None
    }

    /// Writes a line of the shires' L2 scratchpads, at an offset into all of them laid end to end.
    fn write_scratchpad(&mut self, hart: &Hart, offset: u64, line: [u8; 64]);

    /// A cache operation on the line at `addr`, which is DRAM or scratchpad, under an `event` of tensor_wait. Levels: 0 L1, 1 L2,
    /// 2 L3, 3 memory.
    fn cache_line(&mut self, hart: &Hart, action: CacheAction, event: u64, level: u64, addr: u64);

    /// An operation is accepted and about to act or to be queued; a wait has ended.
    #[inline(always)]
    fn issued(&mut self, _hart: &mut Hart, _operation: &Operation) {}

    /// Whether the load about to be issued reads memory only when somebody waits for it, instead of at once.
    #[inline(always)]
    fn delays_load(&mut self) -> bool {
        false
    }
}

/// Flat memory: there are no caches, and every effect is immediate.
impl Outside for &Memory {
    const WATCHES: bool = false;

    fn classify(&self, shire: u32, addr: u64) -> Region {
        Memory::classify(self, shire, addr)
    }

    #[inline]
    fn read_block<const N: usize>(&mut self, hart: &Hart, _: Level, addr: u64) -> Result<[u8; N], Refusal> {
        Memory::read_block(self, u32::from(hart.id >> 6), addr)
    }

    #[inline]
    fn write_block<const N: usize>(&mut self, hart: &Hart, addr: u64, data: [u8; N]) -> Result<(), Refusal> {
        Memory::write_block(self, u32::from(hart.id >> 6), addr, data)
    }

    #[inline]
    fn flat(&self, hart: &Hart, addr: u64, stride: u64, rows: u64) -> Option<(&Mapping, u64)> {
        Memory::flat(self, u32::from(hart.id >> 6), addr, stride.checked_mul(rows - 1)?.checked_add(64)?)
    }

    fn write_scratchpad(&mut self, _: &Hart, offset: u64, line: [u8; 64]) {
        let stored = self.scratchpads.store(offset, line);
        debug_assert!(stored.is_some(), "every shire's scratchpad is mapped");
    }

    fn cache_line(&mut self, hart: &Hart, action: CacheAction, _: u64, _: u64, addr: u64) {
        if action == CacheAction::Lock {
            let zeroed = Memory::write_block(self, u32::from(hart.id >> 6), addr, [0; 64]);
            debug_assert!(zeroed.is_ok(), "the region holds bytes");
        }
    }
}
