//! What a kernel finds when it enters (ISA sheet 7.2), and where in firmware's memory it lies.

use super::config::Config;
use super::launch::{Launch, LaunchError};
use crate::hart::Hart;
use crate::memory::{Memory, OPEN_BASE};
use std::ops::Range;

/// Environment block, at the bottom of open memory.
const ENVIRONMENT: u64 = 0;
/// Argument block, one page on.
const ARGUMENTS: u64 = 0x1000;

const ENVIRONMENT_VERSION: u32 = 1;
const FREQUENCY_MHZ: u32 = 650;

/// The stacks grow down from here, one per hart number.
const STACKS: u64 = 0x80_0580_0000;
const STACK_STRIDE: u64 = 4096 + 64;

// The last hart's stack ends above the arguments.
const _: () = assert!(
    STACKS - Config::MAX_SHIRES as u64 * 64 * STACK_STRIDE - 32 >= OPEN_BASE + ARGUMENTS + Launch::MAX_ARGS as u64
);

/// Where the harts' stacks are. What a launch leaves there means nothing.
pub(crate) fn stacks() -> Range<u64> {
    STACKS - Config::MAX_SHIRES as u64 * 64 * STACK_STRIDE..STACKS
}

/// The 4 KiB of a hart's stack.
pub(crate) fn stack(id: u16) -> Range<u64> {
    let end = STACKS - u64::from(id) * STACK_STRIDE;
    end - 4096..end
}

/// The registers that a launch sets, besides the stack pointer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub pc: u64,
    /// a0: address of the arguments.
    pub arguments: u64,
    /// a1: address of the environment.
    pub environment: u64,
}

impl Entry {
    /// Writes the argument and environment blocks.
    pub fn place(memory: &Memory, launch: &Launch<'_>) -> Result<Entry, LaunchError> {
        if launch.args.len() > Launch::MAX_ARGS {
            return Err(LaunchError::Args(launch.args.len()));
        }
        let mut environment = [0u8; 64];
        environment[..4].copy_from_slice(&ENVIRONMENT_VERSION.to_le_bytes());
        environment[8..16].copy_from_slice(&launch.shire_mask.to_le_bytes());
        environment[16..20].copy_from_slice(&FREQUENCY_MHZ.to_le_bytes());
        let written =
            memory.dram.write(ENVIRONMENT, &environment).and_then(|()| memory.dram.write(ARGUMENTS, launch.args));
        debug_assert!(written.is_some(), "the blocks are inside every machine's memory");
        Ok(Entry { pc: launch.entry, arguments: OPEN_BASE + ARGUMENTS, environment: OPEN_BASE + ENVIRONMENT })
    }

    /// Hart `id` about to execute its first instruction.
    pub fn hart(&self, id: u16) -> Hart {
        let mut hart = Hart::at_entry(id);
        hart.pc = self.pc;
        hart.x[2] = STACKS - u64::from(id) * STACK_STRIDE - 32;
        hart.x[10] = self.arguments;
        hart.x[11] = self.environment;
        hart
    }
}
