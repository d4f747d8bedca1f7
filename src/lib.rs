//! A ggml backend plugin for the ET-SoC-1 accelerator and its emulator.

pub mod command;
pub mod graph;
pub mod ops;
