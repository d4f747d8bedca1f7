//! The device under the plugin: a board or the emulator.

pub mod arena;
pub mod capture;
pub mod emulated;
pub mod image;
pub mod null;
pub mod program;
pub mod queue;
pub mod session;

use anyhow::Result;
use et_emulator::labels::Labels;
use std::ops::Range;
use std::time::Duration;

/// What every kind of device does. Calls are synchronous and may come from several threads; launches run one at a time.
pub trait Driver: Send + Sync {
    /// The device addresses that the host may use.
    fn memory(&self) -> Range<u64>;
    /// The shires that work, as a bit mask.
    fn shires(&self) -> u64;
    /// Copies `data` to the device.
    fn write(&self, addr: u64, data: &[u8]) -> Result<()>;
    /// Copies from the device.
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<()>;
    /// Sets `len` bytes.
    fn fill(&self, addr: u64, len: u64, byte: u8) -> Result<()>;
    /// Copies inside the device; the ranges may overlap.
    fn copy(&self, dst: u64, src: u64, len: u64) -> Result<()>;
    /// What a range holds means nothing any more: it was handed out anew.
    fn discard(&self, _addr: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    /// Whether launches need names of what they do and touch.
    fn wants_names(&self) -> bool {
        false
    }
    /// Runs a kernel to its end. The error says in one line what went wrong where.
    fn launch(&self, launch: &Launch<'_>) -> Result<()>;
}

/// One kernel launch.
pub struct Launch<'a> {
    /// Address of the first instruction.
    pub entry: u64,
    /// Arguments, at most 128 bytes.
    pub args: &'a [u8],
    /// Shires that run it.
    pub shires: u64,
    /// When to give up.
    pub deadline: Duration,
    /// The program reads floating-point exception flags.
    pub exact_flags: bool,
    /// The program, and its source lines for errors.
    pub lines: &'a image::Lines,
    /// Names of what it does and touches, if the driver wants them.
    pub labels: &'a dyn Fn() -> Labels,
}
