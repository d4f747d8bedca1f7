//! A ggml backend plugin for the ET-SoC-1 accelerator and the emulator of it.
//!
//! A host loads the library and calls the two functions below; everything else happens through the tables that
//! `ggml_abi` builds. The modules, in the order that a graph takes: `plugin`, `graph`, `ops`, `device`.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod command;
pub mod device;
pub mod graph;
pub mod ops;
pub mod perf;
mod plugin;

use std::ffi::{c_int, c_void};

/// The registry object, or null when this plugin can't serve the host; then a line says why.
#[allow(unsafe_code)] // an exported name
#[no_mangle]
pub extern "C" fn ggml_backend_init() -> *mut c_void {
    std::panic::catch_unwind(plugin::registry).unwrap_or(std::ptr::null_mut())
}

/// How well this plugin serves the host: 0 not at all, 1 at all.
#[allow(unsafe_code)] // an exported name
#[no_mangle]
pub extern "C" fn ggml_backend_score() -> c_int {
    c_int::from(!ggml_backend_init().is_null())
}
