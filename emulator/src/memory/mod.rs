//! The memory of the chip as U-mode sees it: DRAM, the shires' L2 scratchpads, and the rules of who may touch what.

pub mod region;

mod atomic;
mod raw;

pub use atomic::updated;
pub use raw::{Mapping, Window};
pub use region::{
    Region, DRAM_BASE, HOST_BASE, OPEN_BASE, OWN_SCRATCHPAD, SCRATCHPAD_BASE, SCRATCHPAD_BYTES, SCRATCHPAD_STRIDE,
};

use std::io;

/// The memories that hold bytes. They outlive launches; nothing clears them but the host.
#[derive(Debug)]
pub struct Memory {
    /// DRAM from [`OPEN_BASE`] to its end; what lies below is never reachable.
    pub dram: Mapping,
    /// The shires' L2 scratchpads, [`SCRATCHPAD_BYTES`] each.
    pub scratchpads: Mapping,
    shires: u32,
}

impl Memory {
    /// Memory for `shires` shires and `dram_bytes` of DRAM, counted from [`DRAM_BASE`]. Pages cost nothing until touched.
    pub fn new(shires: u32, dram_bytes: u64) -> io::Result<Self> {
        Ok(Memory {
            dram: Mapping::new((dram_bytes - (OPEN_BASE - DRAM_BASE)) as usize)?,
            scratchpads: Mapping::new(shires as usize * SCRATCHPAD_BYTES as usize)?,
            shires,
        })
    }

    /// How many shires exist.
    pub fn shires(&self) -> u32 {
        self.shires
    }

    /// What lies at `addr`, seen from a hart of `shire`. The answer holds for the rest of the cache line.
    pub fn classify(&self, shire: u32, addr: u64) -> Region {
        region::classify(self.dram.len() as u64, self.shires, shire, addr)
    }

    /// The bytes behind a region and the offset in them, or `None` for regions that hold no bytes.
    pub fn backing(&self, region: Region) -> Option<(&Mapping, usize)> {
        match region {
            Region::Dram(offset) => Some((&self.dram, offset as usize)),
            Region::Scratchpad(offset) => Some((&self.scratchpads, offset as usize)),
            Region::Register(_) | Region::Missing | Region::Closed => None,
        }
    }

    /// The bytes behind a range that lies in one piece of memory in order of its addresses, and where in them it starts.
    #[inline]
    pub fn flat(&self, shire: u32, addr: u64, len: u64) -> Option<(&Mapping, u64)> {
        let offset = addr.wrapping_sub(OPEN_BASE);
        if offset.checked_add(len)? <= self.dram.len() as u64 {
            return Some((&self.dram, offset));
        }
        let own = addr.wrapping_sub(OWN_SCRATCHPAD);
        if shire < self.shires && own.checked_add(len)? <= SCRATCHPAD_BYTES {
            return Some((&self.scratchpads, u64::from(shire) * SCRATCHPAD_BYTES + own));
        }
        let (first, last) = (self.classify(shire, addr), self.classify(shire, addr.checked_add(len - 1)?));
        match (first, last) {
            (Region::Scratchpad(first), Region::Scratchpad(last)) if last.checked_sub(first) == Some(len - 1) => {
                // Lines of the striped format do not follow one another, wherever the first and the last are.
                (addr & 1 << 30 == 0).then_some((&self.scratchpads, first))
            }
            _ => None,
        }
    }

    /// Reads `N` bytes at an `N`-aligned address for a tensor operation (`N` divides a line).
    pub fn read_block<const N: usize>(&self, shire: u32, addr: u64) -> Result<[u8; N], Refusal> {
        if let Some(bytes) = self.dram.load::<N>(addr.wrapping_sub(OPEN_BASE)) {
            return Ok(bytes);
        }
        let (bytes, offset) = self.block(shire, addr)?;
        bytes.load::<N>(offset as u64).ok_or(Refusal::Fault)
    }

    /// Writes `N` bytes at an `N`-aligned address for a tensor operation (`N` divides a line).
    pub fn write_block<const N: usize>(&self, shire: u32, addr: u64, data: [u8; N]) -> Result<(), Refusal> {
        if self.dram.store(addr.wrapping_sub(OPEN_BASE), data).is_some() {
            return Ok(());
        }
        let (bytes, offset) = self.block(shire, addr)?;
        bytes.store(offset as u64, data).ok_or(Refusal::Fault)
    }

    fn block(&self, shire: u32, addr: u64) -> Result<(&Mapping, usize), Refusal> {
        match self.classify(shire, addr) {
            Region::Missing => Err(Refusal::Bus),
            region => self.backing(region).ok_or(Refusal::Fault),
        }
    }
}

/// Why a tensor or cache operation cannot reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An access fault, which tensor operations report in tensor_error.
    Fault,
    /// A bus error.
    Bus,
}
