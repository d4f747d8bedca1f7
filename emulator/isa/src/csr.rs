//! CSRs that exist in U-mode (sheet 3.1).

/// One CSR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Csr {
    /// Number.
    pub number: u16,
    /// Name in assembly.
    pub name: &'static str,
    /// Only the even hart of a minion may access it.
    pub even_hart_only: bool,
    /// The chip refuses every access from kernels under the firmware.
    pub closed: bool,
}

impl Csr {
    /// Writes are illegal.
    pub const fn read_only(&self) -> bool {
        self.number >> 10 == 3
    }
}

const fn csr(number: u16, name: &'static str) -> Csr {
    Csr { number, name, even_hart_only: false, closed: false }
}
const fn even(number: u16, name: &'static str) -> Csr {
    Csr { number, name, even_hart_only: true, closed: false }
}
const fn closed(number: u16, name: &'static str) -> Csr {
    Csr { number, name, even_hart_only: false, closed: true }
}

/// All CSRs with a U-mode number, sorted by it.
pub static CSRS: &[Csr] = &[
    csr(0x001, "fflags"),
    csr(0x002, "frm"),
    csr(0x003, "fcsr"),
    even(0x800, "tensor_reduce"),
    even(0x801, "tensor_fma"),
    csr(0x802, "tensor_conv_size"),
    csr(0x803, "tensor_conv_ctrl"),
    even(0x804, "tensor_coop"),
    csr(0x805, "tensor_mask"),
    even(0x806, "tensor_quant"),
    closed(0x807, "tex_send"),
    csr(0x808, "tensor_error"),
    csr(0x810, "ucache_control"),
    csr(0x81F, "prefetch_va"),
    csr(0x820, "flb"),
    csr(0x821, "fcc"),
    csr(0x822, "stall"),
    csr(0x830, "tensor_wait"),
    even(0x83F, "tensor_load"),
    csr(0x840, "gsc_progress"),
    csr(0x85F, "tensor_load_l2"),
    even(0x87F, "tensor_store"),
    csr(0x89F, "evict_va"),
    csr(0x8BF, "flush_va"),
    csr(0x8D0, "validation0"),
    csr(0x8D1, "validation1"),
    csr(0x8D2, "validation2"),
    csr(0x8D3, "validation3"),
    csr(0x8DF, "lock_va"),
    csr(0x8FF, "unlock_va"),
    closed(0xC00, "cycle"),
    closed(0xC02, "instret"),
    csr(0xC03, "hpmcounter3"),
    csr(0xC04, "hpmcounter4"),
    csr(0xC05, "hpmcounter5"),
    csr(0xC06, "hpmcounter6"),
    csr(0xC07, "hpmcounter7"),
    csr(0xC08, "hpmcounter8"),
    csr(0xCC0, "fccnb"),
    csr(0xCC8, "porthead0"),
    csr(0xCC9, "porthead1"),
    csr(0xCCA, "porthead2"),
    csr(0xCCB, "porthead3"),
    csr(0xCCC, "portheadnb0"),
    csr(0xCCD, "portheadnb1"),
    csr(0xCCE, "portheadnb2"),
    csr(0xCCF, "portheadnb3"),
    csr(0xCD0, "hartid"),
];

/// For every number, 1 + the place in `CSRS`, or 0.
static PLACES: [u8; 4096] = {
    assert!(CSRS.len() < 256);
    let mut places = [0; 4096];
    let mut i = 0;
    while i < CSRS.len() {
        places[CSRS[i].number as usize] = i as u8 + 1;
        i += 1;
    }
    places
};

/// The CSR with this number, if U-mode has one.
#[inline]
pub fn lookup(number: u16) -> Option<&'static Csr> {
    let place = *PLACES.get(number as usize)?;
    CSRS.get(usize::from(place).wrapping_sub(1))
}
