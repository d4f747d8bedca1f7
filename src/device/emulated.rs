//! The emulator as a device.

use super::image::Lines;
use super::{Driver, Launch};
use anyhow::Result;
use et_emulator::memory::{DRAM_BASE, HOST_BASE};
use et_emulator::{Config, LineTable, Machine};
use std::ops::Range;

/// An emulated chip.
pub struct Emulated {
    machine: Machine,
}

impl Emulated {
    /// Makes the chip of `config`.
    pub fn open(config: &Config) -> Result<Emulated> {
        Ok(Emulated { machine: Machine::new(config.clone())? })
    }
}

/// Bytes that the host may use of `config`'s chip, without making it.
pub fn memory(config: &Config) -> u64 {
    (DRAM_BASE + config.dram_bytes).saturating_sub(HOST_BASE)
}

/// The shires of `config`'s chip.
pub fn shires(config: &Config) -> u64 {
    (1u64 << config.shires) - 1
}

impl LineTable for Lines {
    fn locate(&self, pc: u64) -> Option<String> {
        Lines::locate(self, pc)
    }
}

impl Driver for Emulated {
    fn memory(&self) -> Range<u64> {
        self.machine.dram()
    }

    fn shires(&self) -> u64 {
        shires(self.machine.config())
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<()> {
        Ok(self.machine.write(addr, data)?)
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> Result<()> {
        Ok(self.machine.read(addr, out)?)
    }

    fn fill(&self, addr: u64, len: u64, byte: u8) -> Result<()> {
        Ok(self.machine.fill(addr, len, byte)?)
    }

    fn copy(&self, dst: u64, src: u64, len: u64) -> Result<()> {
        Ok(self.machine.copy(dst, src, len)?)
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let report = self.machine.launch(&et_emulator::Launch {
            entry: launch.entry,
            args: launch.args,
            shire_mask: launch.shires,
            deadline: Some(launch.deadline),
            exact_flags: false,
            lines: launch.lines.map(|lines| lines as &dyn LineTable),
        })?;
        log::trace!("launch: {} instructions, {} cycles", report.instructions, report.cycles);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_announced_memory_is_the_real_one() {
        let config = Config { dram_bytes: 256 << 20, ..Config::default() };
        let range = Emulated::open(&config).unwrap().memory();
        assert_eq!(range.end - range.start, memory(&config));
    }
}
