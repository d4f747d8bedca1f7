//! What a host's compute graph means: nodes as lowering sees them, and which command must see what another wrote.

pub mod list;
pub mod names;
pub mod node;
pub mod ranges;

pub use node::{Node, Operand, SubOp};
