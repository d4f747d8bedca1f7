//! The emulator as a device.

use super::capture::Captures;
use super::{Driver, Launch};
use crate::perf;
use anyhow::{anyhow, Result};
use et_emulator::memory::{DRAM_BASE, HOST_BASE};
use et_emulator::{Config, LaunchError, Machine, Mode};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// An emulated chip.
pub struct Emulated {
    machine: Machine,
    captures: Option<Arc<Captures>>,
    /// Instructions of all launches.
    instructions: AtomicU64,
    /// Nanoseconds of the host that they took.
    nanoseconds: AtomicU64,
}

impl Emulated {
    /// Makes the chip of `config`.
    pub fn open(config: &Config) -> Result<Emulated> {
        let machine = Machine::new(config.clone())?;
        if let Mode::Strict { seed } = config.mode {
            log::info!("strict emulation; GGML_ET_EMU_SEED={seed} runs the same way again");
        }
        Ok(Emulated { machine, captures: None, instructions: AtomicU64::new(0), nanoseconds: AtomicU64::new(0) })
    }

    /// Captures launches.
    pub fn capturing(mut self, captures: Arc<Captures>) -> Result<Emulated> {
        captures.check()?;
        self.captures = Some(captures);
        Ok(self)
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

    fn discard(&self, addr: u64, len: u64) -> Result<()> {
        Ok(self.machine.discard(addr, len)?)
    }

    fn wants_names(&self) -> bool {
        self.captures.is_some() || matches!(self.machine.config().mode, Mode::Strict { .. })
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let strict = matches!(self.machine.config().mode, Mode::Strict { .. });
        let labels = strict.then(|| (launch.labels)());
        let asked = et_emulator::Launch {
            entry: launch.entry,
            args: launch.args,
            shire_mask: launch.shires,
            deadline: Some(launch.deadline),
            exact_flags: launch.exact_flags,
            lines: Some(launch.lines),
            labels: labels.as_ref(),
        };
        let start = Instant::now();
        let report = match &self.captures {
            Some(captures) => captures.launch(&self.machine, &asked, launch),
            None => self.machine.launch(&asked),
        };
        let report = report.map_err(explain)?;
        self.instructions.fetch_add(report.instructions, Ordering::Relaxed);
        self.nanoseconds.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Says each fault that strict mode found in a line of its own.
fn explain(error: LaunchError) -> anyhow::Error {
    let LaunchError::Violations { violations, error } = error else { return error.into() };
    for violation in &violations {
        log::error!("{violation}");
    }
    let found = anyhow!("strict emulation found {} faults in it, told above", violations.len());
    match error {
        Some(error) => found.context(*error),
        None => found,
    }
}

impl Drop for Emulated {
    /// Tells how fast the emulation was.
    fn drop(&mut self) {
        let seconds = self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9;
        let instructions = self.instructions.load(Ordering::Relaxed);
        log::debug!(target: perf::TARGET, "ET_EMU|instructions={instructions}|seconds={seconds:.6}");
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
