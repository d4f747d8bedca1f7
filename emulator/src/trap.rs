//! Exceptions as a U-mode kernel can raise them (facts: ISA sheet 1.3).

/// A synchronous exception of one hart. The instruction has had no effect, except that a faulting
/// gather, scatter or packed atomic has completed its lower lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Why.
    pub cause: Cause,
    /// Faulting address or instruction word, as `mtval` would hold it.
    pub tval: u64,
}

/// `mcause` values that can arise in U-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// Fetch outside DRAM.
    FetchAccess = 1,
    /// Undefined encoding, bad rounding mode, missing or privileged CSR, graphics group.
    IllegalInstruction = 2,
    /// `ebreak`.
    Breakpoint = 3,
    /// Load from a closed or unmapped region, or misaligned where alignment is required.
    LoadAccess = 5,
    /// The same for stores and atomics.
    StoreAccess = 7,
    /// Bus error interrupt (imprecise on hardware): a bad physical target of a tensor or cache operation.
    BusError = 23,
    /// An instruction that the chip leaves to machine mode, where the firmware ends the kernel.
    MachineCode = 30,
}
