//! The architectural state of one hart.

/// A vector register: eight 32-bit lanes, lane 0 at the lowest address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Vector(pub [u32; 8]);

/// One hart as a kernel sees it. State shared by a minion's two harts (scratchpad, tensor unit) and by a
/// shire (barriers, credits) belongs to the [`Platform`](crate::platform::Platform).
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Hart {
    /// Vector and scalar floating-point registers; scalars live in lane 0.
    pub f: [Vector; 32],
    /// Integer registers; `x[0]` stays 0.
    pub x: [u64; 32],
    /// Address of the next instruction.
    pub pc: u64,
    /// Mask registers m0..m7, bit e for lane e.
    pub m: [u8; 8],
    /// fcsr: flags 4:0, frm 7:5, input-denormal flag 31.
    pub fcsr: u32,
    /// CSR 805.
    pub tensor_mask: u16,
    /// CSR 802 as last written.
    pub conv_size: u64,
    /// CSR 803 as last written.
    pub conv_ctrl: u64,
    /// CSR 808, sticky.
    pub tensor_error: u16,
    /// CSR 804 (hart 0 of a minion only).
    pub tensor_coop: u32,
    /// CSR 810.
    pub ucache_control: u32,
    /// CSR 840: the lane at which the next gather, scatter or packed atomic starts.
    pub gsc_progress: u8,
    /// CSRs 8D0..8D3.
    pub validation: [u64; 4],
    /// CSR CD0: shire << 6 | minion << 1 | thread.
    pub id: u16,
    /// A tensor operation that writes `f` registers still waits for its partner (a reduction in flight):
    /// instructions that use the vector unit must ask [`Platform::settle`](crate::platform::Platform::settle) first.
    pub vpu_busy: bool,
    /// Tensor loads that wait for the others of their group: bit 0 and 1 by event, bit 2 the B buffer's. A tensor_wait needs
    /// the platform only while there are any, or [`vpu_busy`](Hart::vpu_busy) is set.
    pub loads_waiting: u8,
    /// Retired instructions in this launch.
    pub retired: u64,
    /// Logical time: grows by one per instruction, and jumps forward to what the hart learns of when it consumes a credit,
    /// is the last at a barrier, or receives in a reduction.
    pub clock: u64,
}

impl Hart {
    /// State at kernel entry under the firmware (ISA sheet 7.2): everything 0, m0 all ones.
    pub fn at_entry(id: u16) -> Self {
        Hart {
            f: [Vector::default(); 32],
            x: [0; 32],
            pc: 0,
            m: [0xFF, 0, 0, 0, 0, 0, 0, 0],
            fcsr: 0,
            tensor_mask: 0,
            conv_size: 0,
            conv_ctrl: 0,
            tensor_error: 0,
            tensor_coop: 0,
            ucache_control: 0x203,
            gsc_progress: 0,
            validation: [0; 4],
            id,
            vpu_busy: false,
            loads_waiting: 0,
            retired: 0,
            clock: 0,
        }
    }
}
