//! What translated code finds at a fixed place: the state of its run, and constants.

use std::any::Any;
use std::mem::offset_of;

use super::assembler::{Mem, RBP, RBX};
use crate::hart::Hart;

/// The widest access.
pub(super) const WIDEST: u64 = 32;

/// Offsets of gathers below this are looked at together.
pub(super) const NEAR: u64 = 1 << 20;

/// Lives at rbp while translated code runs.
#[repr(C, align(32))]
pub(super) struct Context {
    pub canonical_nan: [u32; 8],
    pub sign: [u32; 8],
    pub magnitude: [u32; 8],
    pub ones: [u32; 8],
    pub one: [u32; 8],
    pub infinity: [u32; 8],
    pub two_to_16: [u32; 8],
    pub low_half: [u32; 8],
    pub half_exponent: [u32; 8],
    pub half_infinity: [u32; 8],
    pub half_smallest: [u32; 8],
    pub half_magnitude: [u32; 8],
    pub smallest_integer: [u32; 8],
    /// Bit e in lane e.
    pub lane_bits: [u32; 8],
    /// The bits that offsets of a gather below [`NEAR`] do not have.
    pub far: [u32; 8],
    /// Offsets of consecutive bytes, halves and words.
    pub steps: [[u32; 8]; 3],
    pub pack_bytes: [[u32; 8]; 2],
    pub pack_halves: [[u32; 8]; 2],
    /// The interpreter, for `step`.
    pub interpreter: *mut (),
    /// Executes one instruction for translated code.
    pub step: Option<super::StepFunction>,
    /// Does writes to the CSRs of [`WRITES`](super::WRITES), if they are usual.
    pub writes: [Option<super::WriteFunction>; super::WRITES.len()],
    /// What it panicked with.
    pub panic: Option<Box<dyn Any + Send>>,
    /// Instructions that may still retire; in a register while translated code runs.
    pub left: u64,
    /// The hart, at [`BIAS`].
    pub hart: *mut u8,
    /// The host's DRAM bytes, and the last offset in them at which every access is inside.
    pub dram: *mut u8,
    pub dram_last: u64,
    /// The same with any near offset added.
    pub dram_last_near: u64,
    /// The address of the own shire's scratchpad less that of DRAM, and the same of the bytes on the host.
    pub scratchpad: u64,
    pub scratchpad_bytes: u64,
    pub scratchpad_last: u64,
    /// Where indirect jumps find code.
    pub jumps: *const super::Jump,
    /// Control words of the host's vector arithmetic: denormals are zeros, and as Rust wants it.
    pub flushing: u32,
    pub usual: u32,
}

// SAFETY: the pointers mean something during a run only, which sets them.
unsafe impl Send for Context {}

impl Context {
    pub fn new() -> Context {
        let pair = |a: [u32; 4], b: [u32; 8]| [[a[0], a[1], a[2], a[3], a[0], a[1], a[2], a[3]], b];
        Context {
            canonical_nan: [0x7FC0_0000; 8],
            sign: [0x8000_0000; 8],
            magnitude: [0x7FFF_FFFF; 8],
            ones: [0xFFFF_FFFF; 8],
            one: [0x3F80_0000; 8],
            infinity: [0x7F80_0000; 8],
            two_to_16: [0x4780_0000; 8],
            low_half: [0xFFFF; 8],
            half_exponent: [112 << 23; 8],
            half_infinity: [0x7C00; 8],
            half_smallest: [0x400; 8],
            half_magnitude: [0x7FFF; 8],
            smallest_integer: [0x8000_0000; 8],
            lane_bits: std::array::from_fn(|e| 1 << e),
            far: [!(NEAR as u32 - 1); 8],
            steps: [1, 2, 4].map(|size| std::array::from_fn(|e| size * e as u32)),
            pack_bytes: pair([0x0C08_0400; 4], [0, 4, 0, 4, 0, 4, 0, 4]),
            pack_halves: pair([0x0504_0100, 0x0D0C_0908, 0x0504_0100, 0x0D0C_0908], [0, 1, 4, 5, 0, 1, 4, 5]),
            interpreter: std::ptr::null_mut(),
            step: None,
            writes: [None; super::WRITES.len()],
            panic: None,
            left: 0,
            hart: std::ptr::null_mut(),
            dram: std::ptr::null_mut(),
            dram_last: 0,
            dram_last_near: 0,
            scratchpad: 0,
            scratchpad_bytes: 0,
            scratchpad_last: 0,
            jumps: std::ptr::null(),
            // All exceptions masked; "denormals are zeros" and "flush to zero".
            flushing: 0x1F80 | 1 << 6 | 1 << 15,
            usual: 0x1F80,
        }
    }
}

/// The place in a hart that rbx points to, so that the integer registers have short displacements.
pub(super) const BIAS: usize = offset_of!(Hart, x) + 128;

/// A field of the hart.
const fn hart(offset: usize) -> Mem {
    Mem::at(RBX, offset as i32 - BIAS as i32)
}

pub(super) const fn x(register: u8) -> Mem {
    hart(offset_of!(Hart, x) + 8 * (register & 31) as usize)
}

/// Lane `lane` of a vector register.
pub(super) const fn lane(register: u8, lane: u8) -> Mem {
    hart(offset_of!(Hart, f) + 32 * (register & 31) as usize + 4 * (lane & 7) as usize)
}

pub(super) const fn f(register: u8) -> Mem {
    lane(register, 0)
}

pub(super) const fn m(register: u8) -> Mem {
    hart(offset_of!(Hart, m) + (register & 7) as usize)
}

pub(super) const fn validation(number: usize) -> Mem {
    hart(offset_of!(Hart, validation) + 8 * (number & 3))
}

pub(super) const PC: Mem = hart(offset_of!(Hart, pc));
pub(super) const FCSR: Mem = hart(offset_of!(Hart, fcsr));
pub(super) const LOADS_WAITING: Mem = hart(offset_of!(Hart, loads_waiting));
pub(super) const PROGRESS: Mem = hart(offset_of!(Hart, gsc_progress));

// Vector registers are accessed as aligned vectors.
const _: () = assert!(offset_of!(Hart, f).is_multiple_of(32) && std::mem::align_of::<Hart>().is_multiple_of(32));

/// A field of the context as an operand.
macro_rules! context {
    ($($field:tt)*) => {
        $crate::jit::assembler::Mem::at(
            $crate::jit::assembler::RBP,
            std::mem::offset_of!($crate::jit::context::Context, $($field)*) as i32,
        )
    };
}
pub(super) use context;

/// A pointer of an array in the context.
pub(super) const fn pointer(array: Mem, index: usize) -> Mem {
    Mem::at(RBP, array.disp + 8 * index as i32)
}

/// A vector of an array in the context.
pub(super) const fn element(array: Mem, index: i32) -> Mem {
    Mem::at(RBP, array.disp + 32 * index)
}
