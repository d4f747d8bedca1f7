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

/// A struct of the contract, which is sent to the device as it stands.
///
/// # Safety
/// The type is one of the header's structs: plain integers and floats with every gap named. It is made by `Default`,
/// so that bytes of `params` beyond the member in use are initialised too.
unsafe trait Contract: Copy {}
// SAFETY: a struct of the header.
unsafe impl Contract for et_command {}
// SAFETY: a struct of the header.
unsafe impl Contract for et_launch {}

/// The bytes that the device reads.
#[allow(private_bounds)]
pub fn bytes<T: Contract>(value: &T) -> &[u8] {
    // SAFETY: `Contract` has no padding and is initialised throughout; the slice borrows `value`.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The bytes of several, one after the other.
#[allow(private_bounds)]
pub fn slice<T: Contract>(values: &[T]) -> &[u8] {
    // SAFETY: as in `bytes`; arrays have no gaps.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
