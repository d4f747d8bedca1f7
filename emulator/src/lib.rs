//! A functional emulator of the compute side of ET-SoC-1 as U-mode kernels see it, in process, on all host cores.
//!
//! [`Machine`] owns the chip: the host reads and writes its DRAM, and launches kernels with the firmware's entry ABI.
//! Below it, the executor (`exec`) runs one hart's instructions against a [`platform::Platform`]; `machine`
//! provides the platform of fast mode (flat memory, real host atomics) from `memory`, `tensor` and `sync`.

pub mod capture;
pub mod code;
pub mod elf;
pub mod exec;
pub mod fp;
pub mod hart;
pub mod hex;
#[cfg(target_arch = "x86_64")]
mod jit;
pub mod labels;
pub mod machine;
pub mod memory;
pub mod platform;
pub mod simd;
mod strict;
pub mod sync;
pub mod tensor;
pub mod timing;
pub mod trap;

pub use strict::{Party, Violation, ViolationKind};

pub use machine::{
    AccessError, BadCall, Config, ConfigError, Fault, Launch, LaunchError, LineTable, Machine, Mode, Report, Waiting,
};
