//! Floating-point instructions, scalar and packed, and lane shuffles.
//!
//! The fast forms, for round to nearest without flags, are in `simd` and called by `execute`; here are the exact ones,
//! which use `fp`.

use super::{Core, Done, Exit};
use crate::code::Slot;
use crate::fp::{Flags, Rounding};
use crate::hart::Vector;
use crate::platform::Platform;
use crate::simd::{self, Lanes, Vectors};

type Exact1 = fn(u32, Rounding, &mut Flags) -> u32;
type Exact2 = fn(u32, u32, Rounding, &mut Flags) -> u32;
type Exact3 = fn(u32, u32, u32, Rounding, &mut Flags) -> u32;
/// Functions that do not round.
type Plain1 = fn(u32, &mut Flags) -> u32;
type Plain2 = fn(u32, u32, &mut Flags) -> u32;
type Relation = fn(u32, u32, &mut Flags) -> bool;

/// A vector with one value in lane 0 and zeros.
#[inline(always)]
pub(super) fn scalar(a: u32) -> Lanes {
    [a, 0, 0, 0, 0, 0, 0, 0]
}

impl<P: Platform, V: Vectors, const FLAGS: bool> Core<'_, P, V, FLAGS> {
    /// The rounding mode of an instruction; a reserved dynamic mode makes it illegal.
    #[inline(always)]
    pub(super) fn rounding(&self, s: &Slot) -> Result<Rounding, Exit> {
        let bits = if s.rm == 7 { self.hart.fcsr >> 5 & 7 } else { s.rm as u32 };
        Rounding::from_bits(bits).ok_or(Exit::Illegal)
    }

    /// The rounding mode in fcsr, for `fcvt.f16.ps`.
    #[inline(always)]
    pub(super) fn frm(&self) -> Result<Rounding, Exit> {
        Rounding::from_bits(self.hart.fcsr >> 5 & 7).ok_or(Exit::Illegal)
    }

    #[inline(always)]
    pub(super) fn f(&self, register: u8) -> Lanes {
        self.hart.f[register as usize & 31].0
    }

    /// Lane 0 of a register.
    #[inline(always)]
    pub(super) fn lane0(&self, register: u8) -> u32 {
        self.hart.f[register as usize & 31].0[0]
    }

    /// Writes the lanes that m0 selects.
    #[inline(always)]
    pub(super) fn write(&mut self, register: u8, lanes: Lanes) -> Done {
        let target = &mut self.hart.f[register as usize & 31];
        let mask = self.hart.m[0];
        *target = Vector(if mask == 0xFF { lanes } else { simd::blend(mask, target.0, lanes) });
        Ok(())
    }

    /// Writes lane 0 and clears the others.
    #[inline(always)]
    pub(super) fn write_scalar(&mut self, register: u8, value: u32) -> Done {
        self.hart.f[register as usize & 31] = Vector(scalar(value));
        Ok(())
    }

    /// The results of `f` for active lanes, with its flags raised.
    #[cold]
    #[inline(never)]
    fn exact(&mut self, active: u8, f: &dyn Fn(usize, &mut Flags) -> u32) -> Lanes {
        let mut flags = Flags::default();
        let lanes = std::array::from_fn(|e| if active >> e & 1 != 0 { f(e, &mut flags) } else { 0 });
        if FLAGS {
            self.hart.fcsr |= flags.0;
        }
        lanes
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact1(&mut self, s: &Slot, rm: Rounding, f: Exact1) -> Done {
        let a = self.f(s.rs1);
        let r = self.exact(self.hart.m[0], &|e, flags| f(a[e], rm, flags));
        self.write(s.rd, r)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact2(&mut self, s: &Slot, rm: Rounding, f: Exact2) -> Done {
        let (a, b) = (self.f(s.rs1), self.f(s.rs2));
        let r = self.exact(self.hart.m[0], &|e, flags| f(a[e], b[e], rm, flags));
        self.write(s.rd, r)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact3(&mut self, s: &Slot, rm: Rounding, f: Exact3) -> Done {
        let (a, b, c) = (self.f(s.rs1), self.f(s.rs2), self.f(s.rs3));
        let r = self.exact(self.hart.m[0], &|e, flags| f(a[e], b[e], c[e], rm, flags));
        self.write(s.rd, r)
    }

    /// An instruction whose fast form gave up.
    #[cold]
    #[inline(never)]
    pub(super) fn again2(&mut self, s: &Slot, f: fn(Lanes, Lanes) -> Lanes) -> Done {
        self.write(s.rd, f(self.f(s.rs1), self.f(s.rs2)))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn again3(&mut self, s: &Slot, f: fn(Lanes, Lanes, Lanes) -> Lanes) -> Done {
        self.write(s.rd, f(self.f(s.rs1), self.f(s.rs2), self.f(s.rs3)))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact_scalar2(&mut self, s: &Slot, rm: Rounding, f: Exact2) -> Done {
        let (a, b) = (self.lane0(s.rs1), self.lane0(s.rs2));
        let r = self.flagged(|flags| f(a, b, rm, flags));
        self.write_scalar(s.rd, r)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact_scalar3(&mut self, s: &Slot, rm: Rounding, f: Exact3) -> Done {
        let (a, b, c) = (self.lane0(s.rs1), self.lane0(s.rs2), self.lane0(s.rs3));
        let r = self.flagged(|flags| f(a, b, c, rm, flags));
        self.write_scalar(s.rd, r)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact_plain1(&mut self, s: &Slot, f: Plain1) -> Done {
        let a = self.f(s.rs1);
        let r = self.exact(self.hart.m[0], &|e, flags| f(a[e], flags));
        self.write(s.rd, r)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn exact_plain2(&mut self, s: &Slot, f: Plain2) -> Done {
        let (a, b) = (self.f(s.rs1), self.f(s.rs2));
        let r = self.exact(self.hart.m[0], &|e, flags| f(a[e], b[e], flags));
        self.write(s.rd, r)
    }

    /// A comparison by the exact function: all ones or 0 in each active lane.
    #[cold]
    #[inline(never)]
    pub(super) fn exact_compare(&mut self, s: &Slot, holds: Relation) -> Lanes {
        let (a, b) = (self.f(s.rs1), self.f(s.rs2));
        self.exact(self.hart.m[0], &|e, flags| simd::mask(holds(a[e], b[e], flags)))
    }

    /// Sets the active bits of a mask register from lanes that are all ones or 0.
    #[inline(always)]
    pub(super) fn write_mask(&mut self, register: u8, lanes: Lanes) -> Done {
        let mut bits = 0;
        for (e, lane) in lanes.iter().enumerate() {
            bits |= (*lane as u8 & 1) << e;
        }
        let active = self.hart.m[0];
        let target = &mut self.hart.m[register as usize & 7];
        *target = *target & !active | bits & active;
        Ok(())
    }

    /// `fcmovm.ps`, which writes every lane.
    #[inline(always)]
    pub(super) fn select_by_mask(&mut self, s: &Slot) -> Done {
        let (a, b, m) = (self.f(s.rs1), self.f(s.rs2), self.hart.m[0]);
        self.hart.f[s.rd as usize & 31] = Vector(simd::blend(m, b, a));
        Ok(())
    }

    /// Raises what `f` raises.
    #[inline(always)]
    fn flagged<T>(&mut self, f: impl FnOnce(&mut Flags) -> T) -> T {
        let mut flags = Flags::default();
        let result = f(&mut flags);
        if FLAGS {
            self.hart.fcsr |= flags.0;
        }
        result
    }

    /// `fmin.s` and `fmax.s`.
    pub(super) fn scalar_pick(&mut self, s: &Slot, pick: Plain2) -> Done {
        let (a, b) = (self.lane0(s.rs1), self.lane0(s.rs2));
        let r = self.flagged(|flags| pick(a, b, flags));
        self.write_scalar(s.rd, r)
    }

    /// `feq.s`, `flt.s`, `fle.s`.
    pub(super) fn scalar_compare(&mut self, s: &Slot, holds: Relation) -> Done {
        let (a, b) = (self.lane0(s.rs1), self.lane0(s.rs2));
        let r = self.flagged(|flags| holds(a, b, flags));
        self.put(s, r as u64)
    }

    /// `fcvt.w.s` and `fcvt.wu.s`.
    pub(super) fn scalar_to_int(&mut self, s: &Slot, convert: Exact1) -> Done {
        let (rm, a) = (self.rounding(s)?, self.lane0(s.rs1));
        let r = self.flagged(|flags| convert(a, rm, flags));
        self.put(s, r as i32 as u64)
    }

    /// `fcvt.s.w` and `fcvt.s.wu`.
    pub(super) fn int_to_scalar(&mut self, s: &Slot, convert: Exact1) -> Done {
        let (rm, a) = (self.rounding(s)?, self.x(s.rs1) as u32);
        let r = self.flagged(|flags| convert(a, rm, flags));
        self.write_scalar(s.rd, r)
    }

    /// `fswizz.ps`: a permutation within each half.
    #[inline(always)]
    pub(super) fn swizzle(&mut self, s: &Slot) -> Done {
        let a = self.f(s.rs1);
        let r = std::array::from_fn(|e| a[(e & 4) | (s.imm as usize >> (2 * (e & 3)) & 3)]);
        self.write(s.rd, r)
    }

    /// `fpackrepb.pi`: the lanes' low bytes, four times.
    #[inline(always)]
    pub(super) fn pack_bytes(&mut self, s: &Slot) -> Done {
        let a = self.f(s.rs1);
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| a[i + k] as u8));
        let pair = [word(0), word(4)];
        self.write(s.rd, std::array::from_fn(|e| pair[e & 1]))
    }

    /// `fpackreph.pi`: the lanes' low halves, twice.
    #[inline(always)]
    pub(super) fn pack_halves(&mut self, s: &Slot) -> Done {
        let a = self.f(s.rs1);
        self.write(s.rd, std::array::from_fn(|e| a[(2 * e) & 7] & 0xFFFF | a[(2 * e + 1) & 7] << 16))
    }
}

/// The float that `fbci.ps` broadcasts: 20 upper bits, and 12 lower ones that continue the last digit (sheet 2.5).
pub(crate) fn immediate_float(imm20: u32) -> u32 {
    let last = imm20 & 0xF;
    let low = if last < 8 { last } else { (last + 1) & 0xF };
    imm20 << 12 | last << 8 | last << 4 | low
}
