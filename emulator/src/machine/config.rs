//! What chip to emulate, and on what.

use crate::memory::{DRAM_BASE, HOST_BASE};
use std::fmt;

/// How faithfully the chip is emulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Flat memory, all host cores.
    #[default]
    Fast,
    /// Flat memory; clocks tell modelled cycles, and launches leave a [profile](crate::Machine::profile).
    Timing,
    /// The chip's caches, a random order of harts that the seed decides, and a report of every fault in the program.
    Strict {
        /// Any number; the same one runs the same way.
        seed: u64,
    },
}

/// The emulated chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Compute shires, 1..=32.
    pub shires: u32,
    /// DRAM in bytes, counted from its base 0x8000000000, firmware's part included. It is sparse: pages cost host
    /// memory when touched.
    pub dram_bytes: u64,
    /// Host threads; 0 means all cores. Fast mode alone uses more than one.
    pub threads: usize,
    /// How faithfully.
    pub mode: Mode,
    /// Code that has run so many times is translated to host code; `None` interprets all code. Results do not depend on
    /// it. Fast mode on x86-64 with AVX2 alone translates.
    pub translate_after: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            shires: 1,
            dram_bytes: 16 << 30,
            threads: 0,
            mode: Mode::Fast,
            translate_after: Some(Self::TRANSLATE_AFTER),
        }
    }
}

impl Config {
    /// When code is translated by default: often enough to be worth more than it costs.
    pub const TRANSLATE_AFTER: u32 = 40;
    /// The largest number of compute shires on the chip.
    pub const MAX_SHIRES: u32 = 32;
    /// The largest DRAM that the chip can address.
    pub const MAX_DRAM: u64 = 32 << 30;
    /// The smallest DRAM with room for the host above firmware's part.
    pub const MIN_DRAM: u64 = (HOST_BASE - DRAM_BASE).next_multiple_of(1 << 20) + (1 << 20);

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=Self::MAX_SHIRES).contains(&self.shires) {
            return Err(ConfigError::Shires(self.shires));
        }
        if !(Self::MIN_DRAM..=Self::MAX_DRAM).contains(&self.dram_bytes) || !self.dram_bytes.is_multiple_of(4096) {
            return Err(ConfigError::Dram(self.dram_bytes));
        }
        Ok(())
    }

    /// The number of host threads to use.
    pub(super) fn host_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        }
    }
}

/// Why a machine cannot be made.
#[derive(Debug)]
pub enum ConfigError {
    /// The number of shires is out of range.
    Shires(u32),
    /// The DRAM size is out of range or not whole pages.
    Dram(u64),
    /// The host refused the address space.
    Memory(u64, std::io::Error),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Shires(n) => {
                write!(f, "cannot emulate {n} shires: choose 1 to {}", Config::MAX_SHIRES)
            }
            ConfigError::Dram(n) => write!(
                f,
                "cannot emulate {n} bytes of DRAM: choose whole 4 KiB pages, {} MiB to {} GiB",
                Config::MIN_DRAM >> 20,
                Config::MAX_DRAM >> 30
            ),
            ConfigError::Memory(n, error) => write!(
                f,
                "the host refused {n} bytes of address space for the emulated DRAM ({error}): choose a smaller size"
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConfigError::Memory(_, error) => Some(error),
            _ => None,
        }
    }
}
