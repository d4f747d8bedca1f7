//! The machine: a chip's memory, the host's access to it, and kernel launches.

mod call;
mod config;
mod entry;
mod fast;
mod faults;
mod launch;
mod open;
mod record;
mod run;
mod scheduler;
mod serial;
mod strict;
mod timed;
mod turn;
mod workers;

pub(crate) use entry::{stack, stacks};

pub use config::{Config, ConfigError, Mode};
pub use faults::{BadCall, Fault, Waiting};
pub use launch::{Launch, LaunchError, LineTable, Report};
pub use record::Recording;

use crate::memory::{Memory, HOST_BASE, OPEN_BASE};
use crate::strict::Written;
use crate::timing::{Chip, Profile};
use entry::Entry;
use scheduler::Flat;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use workers::{Stale, Workers};

/// An emulated chip. Memory may be accessed and kernels launched from any thread; launches run one at a time.
pub struct Machine {
    memory: Memory,
    config: Config,
    /// Held during a launch.
    workers: Mutex<Workers>,
    stale: Stale,
    timing: Mutex<Timing>,
    /// What strict mode remembers of memory.
    written: Mutex<Written>,
}

/// What the timing model keeps.
#[derive(Default)]
struct Timing {
    /// The last launch's.
    profile: Option<Profile>,
    chip: Option<Chip>,
}

impl Machine {
    /// A machine with zeroed memory.
    pub fn new(config: Config) -> Result<Machine, ConfigError> {
        config.check()?;
        let memory = Memory::new(config.shires, config.dram_bytes)
            .map_err(|error| ConfigError::Memory(config.dram_bytes, error))?;
        let workers = Mutex::new(Workers::new(config.host_threads(), config.translate_after));
        Ok(Machine {
            memory,
            config,
            workers,
            stale: Stale::default(),
            timing: Mutex::default(),
            written: Mutex::default(),
        })
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The device addresses that the host may use.
    pub fn dram(&self) -> Range<u64> {
        HOST_BASE..OPEN_BASE + self.memory.dram.len() as u64
    }

    /// Reads device memory at `addr` into `out`.
    pub fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let (offset, _) = self.host_range(addr, out.len() as u64)?;
        self.memory.dram.read(offset, out).ok_or_else(|| self.refusal(addr, out.len() as u64))
    }

    /// Writes `data` to device memory at `addr`.
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), AccessError> {
        let (offset, _) = self.host_range(addr, data.len() as u64)?;
        self.stale.note(addr, data.len() as u64);
        self.note_written(|written| written.mark(offset, data.len() as u64, true));
        self.memory.dram.write(offset, data).ok_or_else(|| self.refusal(addr, data.len() as u64))
    }

    /// Sets `len` bytes at `addr` to `byte`. Clearing gives whole pages back to the host.
    pub fn fill(&self, addr: u64, len: u64, byte: u8) -> Result<(), AccessError> {
        let (offset, size) = self.host_range(addr, len)?;
        self.stale.note(addr, len);
        self.note_written(|written| written.mark(offset, len, true));
        self.memory.dram.fill(offset, size, byte).ok_or_else(|| self.refusal(addr, len))
    }

    /// Copies `len` bytes from `src` to `dst`; the ranges may overlap.
    pub fn copy(&self, dst: u64, src: u64, len: u64) -> Result<(), AccessError> {
        let (to, size) = self.host_range(dst, len)?;
        let (from, _) = self.host_range(src, len)?;
        self.stale.note(dst, len);
        self.note_written(|written| written.copy(to, from, len));
        self.memory.dram.copy(to, from, size).ok_or_else(|| self.refusal(dst, len))
    }

    /// What a range of device memory holds means nothing any more: strict mode reports a kernel that relies on it.
    pub fn discard(&self, addr: u64, len: u64) -> Result<(), AccessError> {
        let (offset, _) = self.host_range(addr, len)?;
        self.note_written(|written| written.mark(offset, len, false));
        Ok(())
    }

    /// Tells strict mode what happens to memory.
    fn note_written(&self, note: impl FnOnce(&mut Written)) {
        if let Mode::Strict { .. } = self.config.mode {
            note(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Runs a kernel to its end, as the firmware does: arguments and environment are placed in its memory.
    pub fn launch(&self, launch: &Launch<'_>) -> Result<Report, LaunchError> {
        self.enter(
            launch,
            |launch| Entry::place(&self.memory, launch),
            |entry, workers| self.run(launch, entry, workers),
        )
    }

    /// Runs a kernel whose argument and environment blocks are in memory already: all harts find their addresses in a0
    /// and a1. The launch's own arguments are not used.
    pub fn launch_at(&self, launch: &Launch<'_>, arguments: u64, environment: u64) -> Result<Report, LaunchError> {
        let entry = |launch: &Launch<'_>| Ok(Entry { pc: launch.entry, arguments, environment });
        self.enter(launch, entry, |entry, workers| self.run(launch, entry, workers))
    }

    fn enter(
        &self,
        launch: &Launch<'_>,
        entry: impl FnOnce(&Launch<'_>) -> Result<Entry, LaunchError>,
        run: impl FnOnce(Entry, &mut Workers) -> Result<Report, LaunchError>,
    ) -> Result<Report, LaunchError> {
        self.check_shires(launch)?;
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entry(launch)?;
        workers.prepare(launch.exact_flags, &self.stale);
        run(entry, &mut workers)
    }

    fn run(&self, launch: &Launch<'_>, entry: Entry, workers: &mut Workers) -> Result<Report, LaunchError> {
        match self.config.mode {
            Mode::Fast => scheduler::run(&self.memory, launch, entry, workers, &Flat),
            Mode::Timing => {
                let mut timing = self.timing.lock().unwrap_or_else(PoisonError::into_inner);
                let Timing { profile, chip } = &mut *timing;
                *profile = None;
                let chip = chip.get_or_insert_with(|| Chip::new(self.config.shires as usize));
                let (report, measured) = timed::run(&self.memory, launch, entry, workers, chip)?;
                *profile = Some(measured);
                Ok(report)
            }
            Mode::Strict { seed } => {
                let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
                strict::run(&self.memory, launch, entry, workers, &mut written, seed)
            }
        }
    }

    /// What the last launch cost, by the timing model. `None` in other modes, and if the launch failed.
    pub fn profile(&self) -> Option<Profile> {
        self.timing.lock().unwrap_or_else(PoisonError::into_inner).profile.clone()
    }

    fn check_shires(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        let (mask, shires) = (launch.shire_mask, self.config.shires);
        if mask == 0 || mask >> shires != 0 {
            return Err(LaunchError::Shires { mask, shires });
        }
        Ok(())
    }

    /// Offset in `memory.dram` and length of a range that the host may use.
    fn host_range(&self, addr: u64, len: u64) -> Result<(u64, usize), AccessError> {
        let dram = self.dram();
        match addr.checked_add(len) {
            Some(end) if addr >= dram.start && end <= dram.end => Ok((addr - OPEN_BASE, len as usize)),
            _ => Err(self.refusal(addr, len)),
        }
    }

    fn refusal(&self, addr: u64, len: u64) -> AccessError {
        AccessError { addr, len, dram: self.dram() }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The host named device memory that it may not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessError {
    /// First byte asked for.
    pub addr: u64,
    /// Number of bytes.
    pub len: u64,
    /// What the host may use.
    pub dram: Range<u64>,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = &self.dram;
        write!(f, "{} bytes at {:#x} are not inside device memory {start:#x}..{end:#x}", self.len, self.addr)
    }
}

impl std::error::Error for AccessError {}
