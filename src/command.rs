//! The contract between host and device, read from `kernels/include/et_command.h` by bindgen.

#![allow(missing_docs, non_camel_case_types, clippy::all, dead_code)]
#![allow(clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/et_command.rs"));

// The header asserts the same on the device's side.
const _: () = {
    assert!(size_of::<et_tensor>() == 64);
    assert!(size_of::<et_command>() == 512);
    assert!(size_of::<et_status>() == 64);
    assert!(size_of::<et_launch>() == 64);
    assert!(std::mem::offset_of!(et_command, params) == 32);
    assert!(std::mem::offset_of!(et_command, dst) == 128);
    assert!(std::mem::offset_of!(et_command, src) == 192);
    assert!(std::mem::offset_of!(et_tensor, nb) == 32);
};
