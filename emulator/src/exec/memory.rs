//! Vector memory accesses, gathers, scatters and atomics (ISA sheet 2.8 to 2.11).

use super::{Core, Done};
use crate::code::Slot;
use crate::hart::Vector;
use crate::platform::{Atomic, Level, Platform};
use crate::simd::{Lanes, Vectors};
use crate::trap::{Cause, Trap};

/// The pattern operand of `fg32b.ps` that loads eight consecutive bytes.
const CONSECUTIVE_BYTES: u64 = 0x39_8A41_8820;

#[inline(always)]
fn to_lanes(bytes: [u8; 32]) -> Lanes {
    std::array::from_fn(|e| u32::from_le_bytes(std::array::from_fn(|i| bytes[4 * e + i])))
}

#[inline(always)]
fn to_bytes(lanes: &Lanes) -> [u8; 32] {
    std::array::from_fn(|i| lanes[i / 4].to_le_bytes()[i % 4])
}

/// Sign-extends the `N` bytes of an element.
fn extend<const N: usize>(bytes: [u8; N]) -> u32 {
    let mut word = [if bytes[N - 1] & 0x80 != 0 { 0xFF } else { 0 }; 4];
    word[..N].copy_from_slice(&bytes);
    u32::from_le_bytes(word)
}

fn narrow<const N: usize>(word: u32) -> [u8; N] {
    let bytes = word.to_le_bytes();
    std::array::from_fn(|i| bytes[i])
}

impl<P: Platform, V: Vectors, const FLAGS: bool> Core<'_, P, V, FLAGS> {
    #[inline(always)]
    fn load<const N: usize>(&mut self, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        self.platform.load::<N>(self.hart, level, addr)
    }

    #[inline(always)]
    pub(super) fn store<const N: usize>(&mut self, level: Level, addr: u64, data: [u8; N]) -> Done {
        Ok(self.platform.store::<N>(self.hart, level, addr, data)?)
    }

    /// A load to an integer register.
    #[inline(always)]
    pub(super) fn scalar_load<const N: usize>(&mut self, s: &Slot, extend: impl Fn([u8; N]) -> u64) -> Done {
        let value = extend(self.load(Level::L1, self.offset(s))?);
        self.put(s, value)
    }

    /// `flw`.
    #[inline(always)]
    pub(super) fn float_load(&mut self, s: &Slot) -> Done {
        let word = self.load(Level::L1, self.offset(s))?;
        self.write_scalar(s.rd, u32::from_le_bytes(word))
    }

    /// Loads the lanes of `mask` into `fd` from consecutive words.
    #[inline(always)]
    pub(super) fn vector_load(&mut self, s: &Slot, level: Level, addr: u64, mask: u8) -> Done {
        if mask == 0xFF && level == Level::L1 {
            if let Some(bytes) = self.platform.quick_load(self.hart, addr) {
                self.hart.f[s.rd as usize & 31] = Vector(to_lanes(bytes));
                return Ok(());
            }
        }
        self.lane_load(s, level, addr, mask)
    }

    /// At once if possible, else lane by lane, which also finds the address of a fault.
    #[inline(never)]
    fn lane_load(&mut self, s: &Slot, level: Level, addr: u64, mask: u8) -> Done {
        if mask == 0xFF {
            if let Ok(bytes) = self.load::<32>(level, addr) {
                self.hart.f[s.rd as usize & 31] = Vector(to_lanes(bytes));
                return Ok(());
            }
        }
        let mut lanes = self.hart.f[s.rd as usize & 31].0;
        for e in (0..8).filter(|e| mask >> e & 1 != 0) {
            let word = self.load(level, addr.wrapping_add(4 * e as u64)).map_err(|trap| vector_trap(trap, addr))?;
            lanes[e] = u32::from_le_bytes(word);
        }
        self.hart.f[s.rd as usize & 31].0 = lanes;
        Ok(())
    }

    /// Stores the lanes of `mask` of register `source` to consecutive words.
    #[inline(always)]
    pub(super) fn vector_store(&mut self, source: u8, level: Level, addr: u64, mask: u8) -> Done {
        let lanes = self.hart.f[source as usize & 31].0;
        if mask == 0xFF && self.store::<32>(level, addr, to_bytes(&lanes)).is_ok() {
            return Ok(());
        }
        self.lane_store(&lanes, level, addr, mask)
    }

    #[inline(never)]
    fn lane_store(&mut self, lanes: &Lanes, level: Level, addr: u64, mask: u8) -> Done {
        for e in (0..8).filter(|e| mask >> e & 1 != 0) {
            let word = lanes[e].to_le_bytes();
            let stored = self.platform.store(self.hart, level, addr.wrapping_add(4 * e as u64), word);
            stored.map_err(|trap| vector_trap(trap, addr))?;
        }
        Ok(())
    }

    /// `fbc.ps`: one access, none if no lane is active.
    pub(super) fn broadcast_load(&mut self, s: &Slot) -> Done {
        if self.hart.m[0] == 0 {
            return Ok(());
        }
        let word = u32::from_le_bytes(self.load(Level::L1, self.offset(s))?);
        self.write(s.rd, [word; 8])
    }

    /// The `l` and `g` vector loads need 32-byte alignment whichever lanes are active.
    pub(super) fn coherent_load(&mut self, s: &Slot, level: Level) -> Done {
        let (addr, mask) = (self.x(s.rs1), self.hart.m[0]);
        if mask == 0 {
            return Ok(());
        }
        aligned(addr, 32, Cause::LoadAccess)?;
        self.vector_load(s, level, addr, mask)
    }

    /// The `l` and `g` vector stores write all lanes, as the first silicon does (sheet 2.8).
    pub(super) fn coherent_store(&mut self, s: &Slot, level: Level) -> Done {
        let addr = self.x(s.rs1);
        aligned(addr, 32, Cause::StoreAccess)?;
        self.vector_store(s.rd, level, addr, 0xFF)
    }

    /// The lanes that a gather, scatter or packed atomic has still to do.
    fn pending(&self) -> impl Iterator<Item = usize> {
        let (mask, first) = (self.hart.m[0], self.hart.gsc_progress as usize);
        (first..8).filter(move |e| mask >> e & 1 != 0)
    }

    fn lane_address(&self, s: &Slot, lane: usize) -> u64 {
        let offset = self.hart.f[s.rs1 as usize & 31].0[lane] as i32 as i64;
        self.x(s.rs2).wrapping_add(offset as u64)
    }

    /// The address of lane 0 if the instruction has all lanes still to do, and they lie one after the other: the usual
    /// way to load and store bytes and halves, and to store words at L3.
    fn consecutive<const N: usize>(&self, s: &Slot) -> Option<u64> {
        let steps: Lanes = std::array::from_fn(|e| (N * e) as u32);
        let offsets = self.hart.f[s.rs1 as usize & 31].0;
        let all = self.hart.m[0] == 0xFF && self.hart.gsc_progress == 0;
        (all && offsets == steps).then(|| self.x(s.rs2))
    }

    /// Gathers elements of `N` bytes.
    #[inline(never)]
    pub(super) fn gather<const N: usize>(&mut self, s: &Slot, level: Level) -> Done {
        if let Some(addr) = self.consecutive::<N>(s).filter(|_| level == Level::L1) {
            if let Some(bytes) = self.platform.quick_load(self.hart, addr) {
                let element = |e: usize| std::array::from_fn::<u8, N, _>(|i| bytes[N * e + i]);
                self.hart.f[s.rd as usize & 31].0 = std::array::from_fn(|e| extend(element(e)));
                return Ok(());
            }
        }
        if level == Level::L1 && self.hart.m[0] == 0xFF && self.hart.gsc_progress == 0 {
            if let Some(lanes) = self.all_lanes::<N>(s) {
                self.hart.f[s.rd as usize & 31].0 = lanes;
                return Ok(());
            }
        }
        for e in self.pending() {
            // The offset register may be the destination: each lane's offset is read before its result is written.
            match self.load::<N>(level, self.lane_address(s, e)) {
                Ok(bytes) => self.hart.f[s.rd as usize & 31].0[e] = extend(bytes),
                Err(trap) => return self.interrupted(e, trap),
            }
        }
        self.hart.gsc_progress = 0;
        Ok(())
    }

    /// All lanes of a gather, or `None` when one faults.
    #[inline(always)]
    fn all_lanes<const N: usize>(&mut self, s: &Slot) -> Option<Lanes> {
        let offsets = self.hart.f[s.rs1 as usize & 31].0;
        let base = self.x(s.rs2);
        let mut lanes = [0; 8];
        for e in 0..8 {
            let addr = base.wrapping_add(offsets[e] as i32 as i64 as u64);
            lanes[e] = extend(self.load::<N>(Level::L1, addr).ok()?);
        }
        Some(lanes)
    }

    /// Scatters elements of `N` bytes.
    #[inline(never)]
    pub(super) fn scatter<const N: usize>(&mut self, s: &Slot, level: Level) -> Done {
        let whole = self.consecutive::<N>(s).filter(|addr| level == Level::L1 || addr & (8 * N as u64 - 1) == 0);
        if whole.is_some_and(|addr| self.scatter_whole::<N>(s, level, addr).is_ok()) {
            return Ok(());
        }
        for e in self.pending() {
            let word = self.hart.f[s.rd as usize & 31].0[e];
            if let Err(trap) = self.platform.store::<N>(self.hart, level, self.lane_address(s, e), narrow(word)) {
                return self.interrupted(e, trap);
            }
        }
        self.hart.gsc_progress = 0;
        Ok(())
    }

    /// All lanes of a scatter to consecutive addresses. After a failure it is done again lane by lane.
    fn scatter_whole<const N: usize>(&mut self, s: &Slot, level: Level, addr: u64) -> Done {
        let lanes = self.hart.f[s.rd as usize & 31].0;
        let byte = |i: usize| lanes[i / N].to_le_bytes()[i % N];
        if N == 4 {
            return self.store::<32>(level, addr, to_bytes(&lanes));
        }
        for part in 0..N {
            self.store::<8>(level, addr.wrapping_add(8 * part as u64), std::array::from_fn(|i| byte(8 * part + i)))?;
        }
        Ok(())
    }

    fn interrupted(&mut self, lane: usize, trap: Trap) -> Done {
        self.hart.gsc_progress = lane as u8;
        Err(trap.into())
    }

    /// The address of a lane of the forms that stay within one 32-byte block.
    fn block_address<const N: usize>(&self, s: &Slot, lane: usize) -> u64 {
        let pattern = self.x(s.rs1);
        let base = self.x(s.rs2);
        let size = N as u64;
        let bits = 5 - N.trailing_zeros();
        let index = pattern >> (bits as usize * lane);
        (base & !31) | base.wrapping_add(index.wrapping_mul(size)) & (32 - size)
    }

    /// `fg32b.ps`, `fg32h.ps`, `fg32w.ps`.
    #[inline(never)]
    pub(super) fn block_gather<const N: usize>(&mut self, s: &Slot) -> Done {
        let mask = self.hart.m[0];
        let base = self.x(s.rs2);
        if N == 1 && mask == 0xFF && base & 31 <= 24 && self.x(s.rs1) == CONSECUTIVE_BYTES {
            if let Ok(bytes) = self.load::<8>(Level::L1, base) {
                self.hart.f[s.rd as usize & 31].0 = bytes.map(|b| b as i8 as u32);
                return Ok(());
            }
        }
        let mut lanes = self.hart.f[s.rd as usize & 31].0;
        for e in (0..8).filter(|e| mask >> e & 1 != 0) {
            lanes[e] = extend(self.load::<N>(Level::L1, self.block_address::<N>(s, e))?);
        }
        self.hart.f[s.rd as usize & 31].0 = lanes;
        Ok(())
    }

    /// `fsc32b.ps`, `fsc32h.ps`, `fsc32w.ps`.
    #[inline(never)]
    pub(super) fn block_scatter<const N: usize>(&mut self, s: &Slot) -> Done {
        let mask = self.hart.m[0];
        let lanes = self.hart.f[s.rd as usize & 31].0;
        for e in (0..8).filter(|e| mask >> e & 1 != 0) {
            self.store::<N>(Level::L1, self.block_address::<N>(s, e), narrow(lanes[e]))?;
        }
        Ok(())
    }

    /// A scalar atomic.
    #[inline(never)]
    pub(super) fn atomic(&mut self, s: &Slot, level: Level, wide: bool, op: Atomic) -> Done {
        let addr = self.x(s.rs1);
        let operand = self.x(s.rs2);
        let operand = if wide { operand } else { operand & 0xFFFF_FFFF };
        let old = self.platform.atomic(self.hart, level, addr, wide, op, operand)?;
        self.put(s, if wide { old } else { old as i32 as u64 })
    }

    /// `amocmpswap`: the comparand is x31.
    pub(super) fn compare_swap(&mut self, s: &Slot, level: Level, wide: bool) -> Done {
        let comparand = if wide { self.hart.x[31] } else { self.hart.x[31] & 0xFFFF_FFFF };
        self.atomic(s, level, wide, Atomic::CompareSwap(comparand))
    }

    /// A packed atomic.
    #[inline(never)]
    pub(super) fn packed_atomic(&mut self, s: &Slot, level: Level, op: Atomic) -> Done {
        for e in self.pending() {
            let addr = self.lane_address(s, e);
            let operand = self.hart.f[s.rd as usize & 31].0[e] as u64;
            match self.platform.atomic(self.hart, level, addr, false, op, operand) {
                Ok(old) => self.hart.f[s.rd as usize & 31].0[e] = old as u32,
                Err(trap) => return self.interrupted(e, trap),
            }
        }
        self.hart.gsc_progress = 0;
        Ok(())
    }
}

/// The fault of a lane of the vector at `addr`: inside one line the vector is one access, across lines each lane is.
fn vector_trap(trap: Trap, addr: u64) -> Trap {
    const LINE: u64 = 64;
    if addr % LINE + 32 <= LINE {
        Trap { tval: addr, ..trap }
    } else {
        trap
    }
}

/// Access fault unless `addr` is a multiple of `size`, a power of two.
fn aligned(addr: u64, size: u64, cause: Cause) -> Result<(), Trap> {
    if addr & (size - 1) == 0 {
        Ok(())
    } else {
        Err(Trap { cause, tval: addr })
    }
}
