//! A kernel launch as the host sees it: what it asks for, what comes back.

use super::faults::{BadCall, Fault, Waiting};
use crate::labels::Labels;
use crate::strict::Violation;
use crate::tensor::Macs;
use std::fmt;
use std::time::Duration;

/// What to run. All 64 harts of every shire in the mask enter at `entry`.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Address of the first instruction.
    pub entry: u64,
    /// Argument block, at most [`Launch::MAX_ARGS`] bytes; the kernel finds its address in a0.
    pub args: &'a [u8],
    /// Bit s selects shire s.
    pub shire_mask: u64,
    /// Give up after this time.
    pub deadline: Option<Duration>,
    /// Compute floating-point exception flags exactly. Slower, and needed only by code that reads them:
    /// [`exec::code_reads_flags`](crate::exec::code_reads_flags) tells. Without it the flags in fcsr mean nothing.
    pub exact_flags: bool,
    /// Names source lines in error reports.
    pub lines: Option<&'a dyn LineTable>,
    /// Names of commands and memory, for the reports of strict mode, which also takes the buffers for all that may be used.
    pub labels: Option<&'a Labels>,
}

impl Launch<'_> {
    /// The most argument bytes a launch can carry.
    pub const MAX_ARGS: usize = 4096;
}

/// Finds the source of an instruction.
pub trait LineTable: Sync {
    /// The place of the instruction at `pc`, like `norm_row at rms_norm.c:41`; `None` when unknown.
    fn locate(&self, pc: u64) -> Option<String>;
}

/// Sums over a completed launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Retired instructions of all harts.
    pub instructions: u64,
    /// The latest logical clock of any hart (see [`crate::hart::Hart::clock`]).
    pub cycles: u64,
    /// Multiply-accumulates of the tensor engines.
    pub macs: Macs,
}

/// Why a launch did not complete. Memory keeps what the kernel wrote until then.
#[derive(Debug)]
pub enum LaunchError {
    /// Harts raised exceptions: the first ones, in no particular order. Never empty.
    Faults(Vec<Fault>),
    /// No hart could go on: all that had not returned, and what they waited for.
    Deadlock(Vec<Waiting>),
    /// Strict mode found faults in the program: the first ones, in the order in which they were found. Never empty.
    Violations {
        /// What it found.
        violations: Vec<Violation>,
        /// How the launch ended, if it did not complete.
        error: Option<Box<LaunchError>>,
    },
    /// The deadline passed.
    Deadline(Duration),
    /// A kernel returned a negative value, or a return type other than 0.
    BadReturn {
        /// The hart that returned.
        hart: u16,
        /// What it returned.
        value: i64,
        /// The type that it passed in a2.
        kind: u64,
    },
    /// A hart made a call that the firmware does not know.
    BadCall(BadCall),
    /// The mask selects no shire, or one that does not exist.
    Shires {
        /// The mask asked for.
        mask: u64,
        /// The number of shires there are.
        shires: u32,
    },
    /// The argument block is too long.
    Args(usize),
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Faults(faults) => list(f, faults),
            LaunchError::Deadlock(waiting) => {
                write!(f, "deadlock: every hart that has not returned waits for another; ")?;
                super::faults::write_waiting(f, waiting)
            }
            LaunchError::Violations { violations, error } => {
                list(f, violations)?;
                match error {
                    Some(error) => write!(f, "; then {error}"),
                    None => Ok(()),
                }
            }
            LaunchError::Deadline(limit) => write!(
                f,
                "the kernel did not return within {:.1} s; a loop without end, or a deadline too short",
                limit.as_secs_f64()
            ),
            LaunchError::BadReturn { hart, value, kind: 0 } => {
                write!(f, "the kernel failed: hart {hart} returned {value}")
            }
            LaunchError::BadReturn { hart, value, kind } => {
                write!(f, "the kernel failed: hart {hart} returned {value} with type {kind}")
            }
            LaunchError::BadCall(call) => call.fmt(f),
            LaunchError::Shires { mask, shires } => {
                write!(f, "shire mask {mask:#x} does not fit this machine: it has shires 0 to {}", shires - 1)
            }
            LaunchError::Args(len) => {
                write!(f, "{len} bytes of launch arguments, at most {} fit", Launch::MAX_ARGS)
            }
        }
    }
}

/// The first of several, in one line.
fn list(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (i, item) in items.iter().take(3).enumerate() {
        write!(f, "{}{item}", if i == 0 { "" } else { "; " })?;
    }
    match items.len().saturating_sub(3) {
        0 => Ok(()),
        more => write!(f, "; and {more} more"),
    }
}

impl std::error::Error for LaunchError {}
