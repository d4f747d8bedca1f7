//! What a host's compute graph means: nodes as lowering sees them, and which command must see what another wrote.

pub mod cache;
pub mod fuse;
pub mod names;
pub mod node;
pub mod pieces;
pub mod plan;
pub mod stages;

pub use node::{Node, Operand, SubOp};

/// Small pseudo-random numbers for tests, from `seed` on: each call gives one below its argument.
#[cfg(test)]
fn random(seed: u32) -> impl FnMut(u32) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        u64::from((state >> 16) % below)
    }
}
