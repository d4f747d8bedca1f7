//! Everything that knows the struct layouts of a ggml host; nothing else in the tree does.

mod names;

pub use names::{GluOp, Op, Type, UnaryOp};
