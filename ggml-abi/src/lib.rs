//! Everything that knows the struct layouts of a ggml host; nothing else in the tree does.
//!
//! A plugin implements the traits of [`face`] and calls [`connect`] once: it finds the host that loaded it in the running
//! process, picks the epoch whose layouts that host has, and builds the registry object in them. Nothing is linked, so
//! one plugin serves hosts of several epochs, however they were built and loaded.
//!
//! **Adding an epoch:** generate its bindings (`examples/generate.rs`) and add a line to `epochs!` in `epoch.rs`.

mod epoch;
pub mod face;
mod host;
mod names;

pub use epoch::{Epoch, Version, EPOCHS};
pub use host::{connect, library_path, Connection, LogLevel};
pub use names::{GluOp, Op, Type, UnaryOp};
