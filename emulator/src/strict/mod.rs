//! Strict mode: a launch under watch.
//!
//! The emulated caches are as unhelpful as the chip allows. L1 (a half for each hart), L2 and the coalescing buffers hold
//! real copies of lines, which are never dropped unless the program says so, and written back whole, at the latest moment
//! (`line`, `cache`). What a read returns is compared with what it would have been without caches (`access`), and the
//! order of accesses of different harts is judged by vector clocks (`clock`, `sync`), so that a missing barrier is found
//! whether or not it did harm this time. Bytes that nobody has written are followed through registers, stack, scratchpads
//! and memory to where they matter (`values`, `operands`); operations of the tensor engine are followed from issue to
//! wait (`hazard`).

mod access;
mod cache;
mod clock;
mod finding;
mod hart;
mod hazard;
mod line;
mod lines;
mod operands;
mod report;
mod results;
mod sync;
mod uses;
mod values;
mod watch;
mod writes;
mod written;

pub use report::{Party, Violation, ViolationKind};
pub(crate) use results::Results;

pub(crate) use finding::Names;
pub(crate) use values::Bad;
pub(crate) use watch::{Served, Watch};
pub(crate) use writes::Manner;
pub(crate) use written::Written;
