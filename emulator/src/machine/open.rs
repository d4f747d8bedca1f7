//! Memory that kernels may touch, seen by tools: also firmware's open part of DRAM and the L2 scratchpads.

use super::{AccessError, Machine};
use crate::memory::{Mapping, Region};

impl Machine {
    /// Reads memory at `addr`: open DRAM, or an L2 scratchpad in the format 0x80000000 | shire << 23.
    pub fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let (bytes, offset) = self.open(addr, out.len())?;
        bytes.read(offset, out).ok_or_else(|| self.refusal(addr, out.len() as u64))
    }

    /// Writes what [`peek`](Self::peek) reads.
    pub fn poke(&self, addr: u64, data: &[u8]) -> Result<(), AccessError> {
        let (bytes, offset) = self.open(addr, data.len())?;
        self.stale.note(addr, data.len() as u64);
        if let Region::Dram(at) = self.memory.classify(0, addr) {
            self.note_written(|written| written.mark(at, data.len() as u64, true));
        }
        bytes.write(offset, data).ok_or_else(|| self.refusal(addr, data.len() as u64))
    }

    /// The memory behind a range, and where in it the range starts.
    fn open(&self, addr: u64, len: usize) -> Result<(&Mapping, u64), AccessError> {
        // No shire has this number: "own shire" means nothing here.
        let own = u32::MAX;
        let last = addr.checked_add(len.saturating_sub(1) as u64).map(|last| self.memory.classify(own, last));
        match (self.memory.classify(own, addr), last) {
            (Region::Dram(offset), Some(Region::Dram(_))) => Ok((&self.memory.dram, offset)),
            (Region::Scratchpad(offset), Some(Region::Scratchpad(last)))
                if last.wrapping_sub(offset) == len.saturating_sub(1) as u64 =>
            {
                Ok((&self.memory.scratchpads, offset))
            }
            _ => Err(self.refusal(addr, len as u64)),
        }
    }
}
