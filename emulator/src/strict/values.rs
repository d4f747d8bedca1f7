//! Values that mean nothing: which bytes of a hart's registers and stack come from memory that nobody wrote, or from before
//! the command. They may be moved about, loaded with what is next to them, and computed with; they must not decide
//! anything and must not be left in memory that others read.

use super::finding::{Fault, Finding, Findings, Remnant, Spot};
use super::line::Mask;
use super::uses::{self, Use, Uses};
use crate::code::Slot;
use crate::hart::Hart;
use et_isa::{Class, Op};

/// Bytes that mean nothing, and why: a number of the suspects, 0 when it goes without saying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bad {
    pub mask: Mask,
    pub origin: u32,
}

impl Bad {
    pub const NONE: Bad = Bad { mask: 0, origin: 0 };
}

/// All bytes of a vector register.
const ALL: u32 = u32::MAX;

/// The bytes of the lanes of a mask register.
#[inline]
pub fn lanes(mask: u8) -> u32 {
    let mut bytes = u32::from(mask);
    bytes = (bytes | bytes << 12) & 0x000F_000F;
    bytes = (bytes | bytes << 6) & 0x0303_0303;
    bytes = (bytes | bytes << 3) & 0x1111_1111;
    bytes * 15
}

/// Whole lanes for those that have a bad byte.
fn whole(bytes: u32) -> u32 {
    let any = bytes | bytes >> 1 | bytes >> 2 | bytes >> 3;
    (any & 0x1111_1111) * 15
}

/// The value shadow of one hart.
#[derive(Clone, Debug)]
pub struct Values {
    uses: Uses,
    f: [u32; 32],
    f_origin: [u32; 32],
    /// Registers with bad bytes.
    f_any: u32,
    x: [u8; 32],
    x_origin: [u32; 32],
    x_any: u32,
    /// Bytes of the stack that hold nothing, from its lowest line on.
    stack: Box<[Mask; 64]>,
    stack_origin: Box<[u32; 64]>,
    /// The instruction under way.
    op: Op,
    rd: u8,
    rs2: u8,
    /// Address of lane 0 of a vector access.
    base: u64,
    mask: u8,
    /// Lanes of a gather or scatter still to come.
    lanes: u8,
}

impl Default for Values {
    fn default() -> Self {
        Values {
            uses: Uses::new(),
            f: [0; 32],
            f_origin: [0; 32],
            f_any: 0,
            x: [0; 32],
            x_origin: [0; 32],
            x_any: 0,
            stack: Box::new([Mask::MAX; 64]),
            stack_origin: Box::new([0; 64]),
            op: Op::Fence,
            rd: 0,
            rs2: 0,
            base: 0,
            mask: 0xFF,
            lanes: 0,
        }
    }
}

impl Values {
    /// What a command finds in its vector registers means nothing.
    pub fn forget_registers(&mut self) {
        self.f = [ALL; 32];
        self.f_origin = [0; 32];
        self.f_any = u32::MAX;
    }

    /// The bad bytes of a vector register. A register that nothing has set gets its reason here, at its first use.
    pub fn vector(&self, n: u8, findings: &mut Findings, spot: Spot) -> (u32, u32) {
        let n = usize::from(n & 31);
        match (self.f[n], self.f_origin[n]) {
            (0, _) => (0, 0),
            (bytes, 0) => {
                let fault = Fault::Remnant(Remnant::Register(n as u8));
                let finding = Finding { fault, spot, other: None, used: None, address: None };
                (bytes, findings.suspect(finding))
            }
            known => known,
        }
    }

    /// Sets the bad bytes among those of `lanes`.
    #[inline]
    pub fn set_vector(&mut self, n: u8, lanes: u32, bytes: u32, origin: u32) {
        let n = usize::from(n & 31);
        self.f[n] = self.f[n] & !lanes | bytes & lanes;
        if bytes & lanes != 0 {
            self.f_origin[n] = origin;
        }
        if self.f[n] != 0 {
            self.f_any |= 1 << n;
        } else {
            self.f_any &= !(1 << n);
        }
    }

    fn set_integer(&mut self, n: u8, bytes: u8, origin: u32) {
        if n == 0 {
            return;
        }
        self.x[usize::from(n & 31)] = bytes;
        self.x_origin[usize::from(n & 31)] = origin;
        if bytes != 0 {
            self.x_any |= 1 << n;
        } else {
            self.x_any &= !(1 << n);
        }
    }

    /// An instruction is about to execute.
    #[inline]
    pub fn step(&mut self, hart: &Hart, slot: &Slot, findings: &mut Findings, spot: Spot) {
        let used = self.uses.of(slot.op);
        (self.op, self.rd, self.rs2) = (slot.op, slot.rd, slot.rs2);
        if used.memory_vector {
            self.mask = if matches!(slot.op, Op::Flq2 | Op::Fsq2) { 0xFF } else { hart.m[0] };
            self.lanes = hart.m[0] & (0xFF << hart.gsc_progress);
            let offset = if used.offset { slot.imm as i64 as u64 } else { 0 };
            let indexed = matches!(used.class, Class::Gather | Class::Scatter);
            let base = if indexed { slot.rs2 } else { slot.rs1 };
            self.base = hart.x[usize::from(base & 31)].wrapping_add(offset);
        }
        let moved = self.x_any != 0 && self.integers(slot, used, lanes(hart.m[0]), findings, spot);
        if !moved && self.f_any != 0 && (used.f_sources != 0 || used.f_dest) {
            self.vectors(hart, slot, used, findings, spot);
        }
        if slot.op == Op::Addi && slot.rd == 2 && slot.rs1 == 2 && slot.imm > 0 {
            // What a function leaves on the stack means nothing to the next one.
            let sp = hart.x[2];
            self.drop_stack(sp, slot.imm as u64, hart.id);
        }
    }

    fn drop_stack(&mut self, sp: u64, len: u64, id: u16) {
        let low = crate::machine::stack(id).start;
        for at in (sp..sp.saturating_add(len)).filter(|at| at.wrapping_sub(low) < 4096) {
            let at = at - low;
            self.stack[(at / 64) as usize] |= 1 << (at % 64);
            self.stack_origin[(at / 64) as usize] = 0;
        }
    }

    /// What bad integer registers do. True if that decides what is in the vector register that the instruction sets.
    fn integers(&mut self, slot: &Slot, used: &Use, active: u32, findings: &mut Findings, spot: Spot) -> bool {
        let of = |values: &Values, n: u8| match n {
            0 => (0, 0),
            n => (values.x[usize::from(n & 31)], values.x_origin[usize::from(n & 31)]),
        };
        let first = if used.x_sources & uses::RS1 != 0 { of(self, slot.rs1) } else { (0, 0) };
        let second = if used.x_sources & uses::RS2 != 0 { of(self, slot.rs2) } else { (0, 0) };
        let mut result = (0, 0);
        if first.0 | second.0 != 0 {
            let full = |(bytes, _): (u8, u32)| bytes == 0xFF;
            match used.class {
                Class::Store | Class::CoherentStore => {
                    if first.0 != 0 {
                        findings.used(first.1, spot);
                    }
                }
                Class::Int | Class::MulDiv => {
                    let moves = matches!(slot.op, Op::Addi | Op::Addiw) && slot.imm == 0
                        || slot.op == Op::Add && (slot.rs1 == 0 || slot.rs2 == 0);
                    if moves {
                        result = if first.0 != 0 { first } else { second };
                    } else if full(first) {
                        findings.used(first.1, spot);
                    } else if full(second) {
                        findings.used(second.1, spot);
                    }
                }
                Class::VectorInt | Class::Fp => {
                    // From an integer register to a vector register.
                    if used.f_dest && first.0 != 0 {
                        let written = if slot.op == Op::FbcxPs { active } else { ALL };
                        self.set_vector(slot.rd, written, ALL, first.1);
                        return true;
                    }
                }
                _ => {
                    let origin = if first.0 != 0 { first.1 } else { second.1 };
                    findings.used(origin, spot);
                }
            }
        }
        if used.x_dest {
            self.set_integer(slot.rd, result.0, result.1);
        }
        false
    }

    fn vectors(&mut self, hart: &Hart, slot: &Slot, used: &Use, findings: &mut Findings, spot: Spot) {
        let sources = [(uses::RD, slot.rd), (uses::RS1, slot.rs1), (uses::RS2, slot.rs2), (uses::RS3, slot.rs3)];
        let any = sources.iter().any(|&(field, n)| used.f_sources & field != 0 && self.f_any >> (n & 31) & 1 == 1);
        let active = lanes(hart.m[0]);
        if !any {
            if used.f_dest {
                let written = if used.all_lanes { ALL } else { active };
                if self.f[usize::from(slot.rd & 31)] != 0 && !used.memory {
                    self.set_vector(slot.rd, written, 0, 0);
                } else if used.memory {
                    self.set_vector(slot.rd, if used.all_lanes { ALL } else { active }, 0, 0);
                }
            }
            return;
        }
        let [d, a, b, c] = sources.map(|(field, n)| match used.f_sources & field {
            0 => (0, 0),
            _ => self.vector(n, findings, spot),
        });
        let origin = [a, b, c, d].iter().find(|source| source.0 != 0).map_or(0, |source| source.1);
        let value = |n: u8| &hart.f[usize::from(n & 31)].0;
        match used.class {
            Class::FpStore | Class::VectorStore | Class::Scatter => {
                // The offsets decide where; the data goes with the store.
                if used.class == Class::Scatter && a.0 & active != 0 {
                    findings.used(a.1, spot);
                }
                return;
            }
            Class::Gather => {
                if a.0 & active != 0 {
                    findings.used(a.1, spot);
                }
                self.set_vector(slot.rd, active, 0, 0);
                return;
            }
            Class::PackedAtomic => {
                if (a.0 | d.0) & active != 0 {
                    findings.used(origin, spot);
                }
                self.set_vector(slot.rd, active, 0, 0);
                return;
            }
            Class::Mask => {
                if (a.0 | b.0) & active != 0 {
                    findings.used(origin, spot);
                }
                return;
            }
            _ => {}
        }
        if used.x_dest {
            let lane = if slot.op == Op::FmvzXPs || slot.op == Op::FmvsXPs { slot.imm as u32 & 7 } else { 0 };
            let bytes = (a.0 | b.0) >> (4 * lane) & 15;
            let origin = if a.0 >> (4 * lane) & 15 != 0 { a.1 } else { b.1 };
            self.set_integer(slot.rd, if bytes == 15 { 0xFF } else { bytes as u8 }, origin);
            return;
        }
        let (written, bytes) = match slot.op {
            Op::FswizzPs => {
                let lane = |e: u32| (e & !3) + (slot.imm as u32 >> (2 * (e & 3)) & 3);
                (active, (0..8).fold(0, |all, e| all | (a.0 >> (4 * lane(e)) & 15) << (4 * e)))
            }
            Op::FpackrepbPi => (active, (0..32).fold(0, |all, k| all | (a.0 >> (4 * (k % 8)) & 1) << k)),
            Op::FpackrephPi => (active, (0..16).fold(0, |all, k| all | (a.0 >> (4 * (k % 8)) & 3) << (2 * k))),
            Op::FcmovmPs => (ALL, a.0 & active | b.0 & !active),
            Op::FcmovPs => {
                let lane = |e: usize| match () {
                    () if a.0 >> (4 * e) & 15 != 0 => 15,
                    () if value(slot.rs1)[e] != 0 => b.0 >> (4 * e) & 15,
                    () => c.0 >> (4 * e) & 15,
                };
                (active, (0..8).fold(0, |all, e| all | lane(e) << (4 * e)))
            }
            Op::FxorPi if slot.rs1 == slot.rs2 => (active, 0),
            Op::FxorPi | Op::FnotPi => (active, a.0 | b.0),
            // A byte that is known decides alone if it is all zeros (and), all ones (or).
            Op::FandPi => {
                let known = |n: u8, bad: u32| !bad & settled(value(n), 0);
                (active, (a.0 | b.0) & !known(slot.rs1, a.0) & !known(slot.rs2, b.0))
            }
            Op::ForPi => {
                let known = |n: u8, bad: u32| !bad & settled(value(n), 0xFF);
                (active, (a.0 | b.0) & !known(slot.rs1, a.0) & !known(slot.rs2, b.0))
            }
            Op::FandiPi => (active, a.0 & !settled(&[slot.imm as u32; 8], 0)),
            Op::FslliPi => (active, shifted(a.0, |bits| bits << (slot.imm & 31))),
            Op::FsrliPi => (active, shifted(a.0, |bits| bits >> (slot.imm & 31))),
            Op::FsraiPi => (active, shifted(a.0, |bits| (bits as i32 >> (slot.imm & 31)) as u32)),
            Op::FcvtPsF16 => (active, whole(a.0 & 0x3333_3333)),
            Op::FcvtF16Ps => (active, whole(a.0) & 0x3333_3333),
            Op::FsgnjPs if slot.rs1 == slot.rs2 => (active, a.0),
            _ if used.all_lanes => (ALL, whole(a.0 | b.0 | c.0) & 15),
            _ => (active, whole(a.0 | b.0 | c.0)),
        };
        if used.f_dest {
            self.set_vector(slot.rd, written, bytes, origin);
        }
    }

    /// A load of `len` bytes at `addr` has found bad bytes among them, or none.
    #[inline]
    pub fn loaded(&mut self, addr: u64, len: usize, bad: Bad) {
        let lane = self.next_lane(addr, len);
        if bad.mask != 0 {
            self.loaded_bad(lane, len, bad);
        }
    }

    fn loaded_bad(&mut self, lane: u32, len: usize, bad: Bad) {
        let used = self.uses.of(self.op);
        let mask = bad.mask as u32;
        if used.f_dest {
            let bytes = match (used.class, len) {
                (Class::FpLoad, _) => mask & 15,
                (_, 32) => mask,
                (Class::VectorLoad, _) if self.op == Op::FbcPs => (mask * 0x1111_1111) & lanes(self.mask),
                // Eight bytes at once, one for each lane.
                (Class::Gather, 8) => (0..8).fold(0, |all, e| all | ((mask >> e & 1) * 15) << (4 * e)),
                (Class::Gather, len) => {
                    // Sign extension spreads the last byte.
                    let sign = if mask >> (len - 1) & 1 == 1 { 15 & !((1u32 << len) - 1) } else { 0 };
                    (mask | sign) << (4 * lane)
                }
                _ => mask << (4 * lane),
            };
            let old = self.f[usize::from(self.rd & 31)];
            self.set_vector(self.rd, ALL, old | bytes, bad.origin);
        } else if used.x_dest {
            let all = if len == 8 { 0xFF } else { (1u8 << len) - 1 };
            let bytes = mask as u8 & all;
            self.set_integer(self.rd, if bytes == all { 0xFF } else { bytes }, bad.origin);
        }
    }

    /// The bad bytes of what the current instruction stores at `addr`.
    pub fn stored(&mut self, addr: u64, len: usize, findings: &mut Findings, spot: Spot) -> Bad {
        let used = self.uses.of(self.op);
        let lane = self.next_lane(addr, len);
        if matches!(used.class, Class::Store | Class::CoherentStore) {
            let n = usize::from(self.rs2 & 31);
            if self.x_any >> n & 1 == 0 {
                return Bad::NONE;
            }
            return Bad { mask: Mask::from(self.x[n]) & ((1 << len) - 1), origin: self.x_origin[n] };
        }
        let register = if used.f_sources & uses::RD != 0 { self.rd } else { self.rs2 };
        if self.f_any >> (register & 31) & 1 == 0 {
            return Bad::NONE;
        }
        let (bytes, origin) = (self.f[usize::from(register & 31)], self.f_origin[usize::from(register & 31)]);
        let size = uses::element(self.op);
        let mask = match (used.class, len) {
            (Class::FpStore, _) => bytes & 15,
            (_, 32) => bytes,
            // Part of eight consecutive elements.
            (Class::Scatter, 8) => {
                let first = 8 * (addr.wrapping_sub(self.base) / 8) as u32;
                (0..8).fold(0, |all, i| {
                    let at = (first + i) % (8 * size);
                    all | (bytes >> (4 * (at / size) + at % size) & 1) << i
                })
            }
            _ => bytes >> (4 * lane) & ((1 << len) - 1),
        };
        if mask == 0 {
            return Bad::NONE;
        }
        let origin = if origin == 0 { self.vector(register, findings, spot).1 } else { origin };
        Bad { mask: Mask::from(mask), origin }
    }

    /// The lane that an access of a vector instruction is for.
    #[inline]
    fn next_lane(&mut self, addr: u64, len: usize) -> u32 {
        let used = self.uses.of(self.op);
        if matches!(used.class, Class::Gather | Class::Scatter) {
            if len <= 4 {
                let lane = self.lanes.trailing_zeros() & 7;
                self.lanes &= self.lanes.wrapping_sub(1);
                return lane;
            }
            return 0;
        }
        ((addr.wrapping_sub(self.base) / 4) & 7) as u32
    }

    /// Bad bytes among `len` of the stack, counted from its lowest byte.
    pub fn stack(&self, at: usize, len: usize) -> Bad {
        let mut bad = Bad::NONE;
        for i in 0..len {
            let n = at + i;
            if self.stack[n / 64 % 64] >> (n % 64) & 1 == 1 {
                bad.mask |= 1 << i;
                bad.origin = self.stack_origin[n / 64 % 64];
            }
        }
        bad
    }

    pub fn set_stack(&mut self, at: usize, len: usize, bad: Bad) {
        let (line, first) = (at / 64 % 64, at % 64);
        if first + len <= 64 {
            let mask = super::written::span(first, len);
            self.stack[line] = self.stack[line] & !mask | bad.mask << first & mask;
            if bad.mask != 0 {
                self.stack_origin[line] = bad.origin;
            }
            return;
        }
        let head = 64 - first;
        self.set_stack(at, head, Bad { mask: bad.mask & super::written::span(0, head), ..bad });
        self.set_stack(at + head, len - head, Bad { mask: bad.mask >> head, ..bad });
    }
}

/// Bytes of lanes that are all `byte`.
fn settled(value: &[u32; 8], byte: u8) -> u32 {
    let mut mask = 0;
    for (e, lane) in value.iter().enumerate() {
        for (i, own) in lane.to_le_bytes().into_iter().enumerate() {
            mask |= u32::from(own == byte) << (4 * e + i);
        }
    }
    mask
}

/// Bad bytes after a shift of all lanes.
fn shifted(bytes: u32, shift: impl Fn(u32) -> u32) -> u32 {
    let mut result = 0;
    for e in 0..8 {
        let spread = u32::from_le_bytes(std::array::from_fn(|i| if bytes >> (4 * e + i) & 1 == 1 { 0xFF } else { 0 }));
        for (i, byte) in shift(spread).to_le_bytes().into_iter().enumerate() {
            result |= u32::from(byte != 0) << (4 * e + i);
        }
    }
    result
}
