//! A device that computes nothing: for the host's side alone, its plans and its times.

use super::{Driver, Launch};
use anyhow::Result;
use std::ops::Range;

/// Where its memory seems to be.
const MEMORY: Range<u64> = 0x80_1000_0000..0x84_1000_0000;

/// Forgets what is written and reads as zero; launches are done at once.
pub struct Null {
    /// The shires that it claims to have.
    pub shires: u64,
}

/// Bytes that it claims to have.
pub fn memory() -> u64 {
    MEMORY.end - MEMORY.start
}

impl Driver for Null {
    fn memory(&self) -> Range<u64> {
        MEMORY
    }

    fn shires(&self) -> u64 {
        self.shires
    }

    fn write(&self, _addr: u64, _data: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(&self, _addr: u64, out: &mut [u8]) -> Result<()> {
        out.fill(0);
        Ok(())
    }

    fn fill(&self, _addr: u64, _len: u64, _byte: u8) -> Result<()> {
        Ok(())
    }

    fn copy(&self, _dst: u64, _src: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn launch(&self, _launch: &Launch<'_>) -> Result<()> {
        Ok(())
    }
}
