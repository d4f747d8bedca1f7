//! What a host's compute graph means: nodes as lowering sees them, and which command must see what another wrote.

pub mod cache;
pub mod fuse;
pub mod names;
pub mod node;
pub mod plan;
pub mod ranges;
pub mod stages;

pub use node::{Node, Operand, SubOp};
