//! The physical map (ISA sheet 5.1, 5.2). Translation is off: a physical address is the low 40 bits of a virtual one.

/// Start of DRAM.
pub const DRAM_BASE: u64 = 0x80_0000_0000;

/// Start of the DRAM that the host may use; the runtime's allocator starts here too.
pub const HOST_BASE: u64 = 0x80_0580_1000;

/// Start of the DRAM that kernels may touch. Firmware owns what lies below [`HOST_BASE`]; of it only the hart stacks and
/// the launch's argument and environment blocks, which are placed in this last piece, are a kernel's business.
pub const OPEN_BASE: u64 = 0x80_04F8_0000;

/// The L2 scratchpad of one shire at the reset split of its cache.
pub const SCRATCHPAD_BYTES: u64 = 0x28_0000;

/// Shire 0's scratchpad in the format that names shire and offset.
pub const SCRATCHPAD_BASE: u64 = 0x8000_0000;

/// From one shire's scratchpad to the next in that format.
pub const SCRATCHPAD_STRIDE: u64 = 1 << 23;

/// The own shire's scratchpad in that format.
pub const OWN_SCRATCHPAD: u64 = SCRATCHPAD_BASE + 0x7F * SCRATCHPAD_STRIDE;

const REGISTER_BASE: u64 = 0x1_0000_0000;
const REGISTER_END: u64 = 0x2_0000_0000;

/// What an address means to a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Open DRAM, at this offset from [`OPEN_BASE`].
    Dram(u64),
    /// L2 scratchpad, at this offset into all scratchpads laid end to end.
    Scratchpad(u64),
    /// An ESR, with "own shire" resolved.
    Register(Register),
    /// A physical target that does not exist: a bus error, not an access fault.
    Missing,
    /// Not open to U-mode, or nothing at all: an access fault.
    Closed,
}

/// The address of an ESR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Whose.
    pub shire: u32,
    /// Bits 21:0 of the address: region and offset within the shire.
    pub offset: u32,
}

/// A virtual address as the chip completes it: bits above 47 repeat bit 47.
pub fn canonical(addr: u64) -> u64 {
    ((addr << 16) as i64 >> 16) as u64
}

/// Whether `addr` is in the space of ESRs, of shires that exist or not.
pub fn is_register(addr: u64) -> bool {
    (REGISTER_BASE..REGISTER_END).contains(&(addr & 0xFF_FFFF_FFFF))
}

/// What lies at `addr`, seen from `shire`, on a chip with `shires` shires and `dram` bytes from [`OPEN_BASE`].
pub fn classify(dram: u64, shires: u32, shire: u32, addr: u64) -> Region {
    let addr = addr & 0xFF_FFFF_FFFF;
    if addr >= OPEN_BASE {
        return if addr - OPEN_BASE < dram { Region::Dram(addr - OPEN_BASE) } else { Region::Closed };
    }
    match addr {
        SCRATCHPAD_BASE..REGISTER_BASE => scratchpad(shires, shire, addr),
        REGISTER_BASE..REGISTER_END => register(shires, shire, addr),
        _ => Region::Closed,
    }
}

/// Format 0 names shire and offset directly; format 1 walks lines round robin over 32 shires.
fn scratchpad(shires: u32, shire: u32, addr: u64) -> Region {
    const OWN: u64 = 0x7F;
    let (target, offset) = if addr & 1 << 30 == 0 {
        (addr >> 23 & 0x7F, addr & 0x7F_FFFF)
    } else {
        let line = addr >> 11 & 0x1_FFFF;
        ((addr >> 28 & 3) << 5 | addr >> 6 & 0x1F, line << 6 | addr & 0x3F)
    };
    let target = if target == OWN { u64::from(shire) } else { target };
    if target < u64::from(shires) && offset < SCRATCHPAD_BYTES {
        Region::Scratchpad(target * SCRATCHPAD_BYTES + offset)
    } else {
        Region::Missing
    }
}

fn register(shires: u32, shire: u32, addr: u64) -> Region {
    const OWN: u32 = 0xFF;
    let privilege = addr >> 30 & 3;
    if privilege != 0 {
        return Region::Closed;
    }
    let target = (addr >> 22 & 0xFF) as u32;
    let target = if target == OWN { shire } else { target };
    if target >= shires {
        return Region::Missing;
    }
    Region::Register(Register { shire: target, offset: (addr & 0x3F_FFFF) as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAM: u64 = 1 << 30;

    #[test]
    fn dram_is_open_from_the_stacks_to_its_end() {
        assert_eq!(classify(DRAM, 1, 0, OPEN_BASE), Region::Dram(0));
        assert_eq!(classify(DRAM, 1, 0, OPEN_BASE + DRAM - 1), Region::Dram(DRAM - 1));
        assert_eq!(classify(DRAM, 1, 0, OPEN_BASE + DRAM), Region::Closed);
        for closed in [0, 0x10_0000_0000, DRAM_BASE, DRAM_BASE + 0x1000, OPEN_BASE - 1, 0xC0_0000_0000] {
            assert_eq!(classify(DRAM, 1, 0, closed), Region::Closed, "{closed:x}");
        }
        assert_eq!(classify(DRAM, 1, 0, OPEN_BASE | 0xFFFF_FF00_0000_0000), Region::Dram(0), "40 bits count");
    }

    #[test]
    fn scratchpad_formats_name_the_same_bytes() {
        let direct = classify(DRAM, 32, 0, 0x8000_0000 | 5 << 23 | 0x12_3456);
        let offset = 0x12_3456u64;
        let striped = 0xC000_0000 | (offset >> 6) << 11 | 5 << 6 | offset & 0x3F;
        assert_eq!(direct, Region::Scratchpad(5 * SCRATCHPAD_BYTES + offset));
        assert_eq!(classify(DRAM, 32, 0, striped), direct);
        assert_eq!(classify(DRAM, 32, 5, 0x8000_0000 | 0x7F << 23 | offset), direct);
    }

    #[test]
    fn absent_shires_and_offsets_are_bus_errors() {
        assert_eq!(classify(DRAM, 2, 0, 0x8000_0000 | 2 << 23), Region::Missing);
        assert_eq!(classify(DRAM, 2, 0, 0x8000_0000 + SCRATCHPAD_BYTES), Region::Missing);
        assert_eq!(classify(DRAM, 2, 0, 0x1_0034_00C0 | 2 << 22), Region::Missing);
    }

    #[test]
    fn registers_of_other_privileges_are_closed() {
        let offset = 0x34_0100;
        assert_eq!(
            classify(DRAM, 2, 1, 0x1_3FC0_0000 | offset),
            Region::Register(Register { shire: 1, offset: offset as u32 })
        );
        assert_eq!(classify(DRAM, 2, 1, 0x1_4000_0000 | offset), Region::Closed);
        assert_eq!(classify(DRAM, 2, 1, 0x1_C000_0000 | offset), Region::Closed);
    }
}
