//! A timing model: what a launch would cost on the chip, in cycles of its minions (docs/timing.md).
//!
//! Instructions are executed as in fast mode; before each, its minion's clocks advance by the rules here. `constants` holds
//! every number with its source; `classes` what instructions cost; `hart` and `minion` the pipeline; `l1`, `cache`, `pipe`
//! and `chip` the memory; `tensor` the engine; `profile` what comes out.

mod cache;
mod chip;
mod classes;
pub mod constants;
mod hart;
mod l1;
mod minion;
mod pipe;
mod profile;
mod tensor;

pub use profile::{Cause, Command, Level, Profile, Work};

pub(crate) use chip::{Chip, Seat};
pub(crate) use minion::{Around, CodeBuffer, Minion};
pub(crate) use profile::{profile, Account};
pub(crate) use tensor::Gathering;
