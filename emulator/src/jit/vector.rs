//! Floating-point and vector instructions between registers, and masks.

use super::assembler::*;
use super::context::*;
use super::emit::Emitter;
use crate::code::Slot;
use crate::exec::immediate_float;
use et_isa::Op;

/// The result, or the first operand.
const R: Ymm = Ymm(0);
const A: Ymm = Ymm(1);
const T: Ymm = Ymm(2);
const U: Ymm = Ymm(3);
const ONES: Ymm = Ymm(4);

/// Predicates of `vcmpps`: quiet, false for NaN, but for the one that finds them.
const EQUAL: u8 = 0x00;
const UNORDERED: u8 = 0x03;
const LESS: u8 = 0x11;
const LESS_EQUAL: u8 = 0x12;

impl Emitter<'_> {
    /// Writes `R` to the lanes of `fd` that m0 selects.
    fn write_vector(&mut self, rd: u8) {
        match self.mask {
            Some(0) => return,
            Some(0xFF) => {}
            Some(mask) => {
                self.asm.vector1(Vex::MOVAPS, T, f(rd));
                self.asm.vector_imm(Vex::BLENDPS, R, T, R, mask);
            }
            None => {
                self.asm.load(Load::U8, RAX, m(0));
                self.asm.scalar1(Vex::MOVD, T, RAX);
                self.asm.vector1(Vex::BROADCASTSS, T, T);
                self.asm.vector1(Vex::MOVAPS, A, context!(lane_bits));
                self.asm.vector(Vex::PAND, T, T, A);
                self.asm.vector(Vex::PCMPEQD, T, T, A);
                self.asm.vector1(Vex::MOVAPS, A, f(rd));
                self.asm.blend(R, A, R, T);
            }
        }
        self.asm.vector1(Vex::MOVAPS_STORE, R, f(rd));
    }

    /// Replaces NaN in `R`.
    fn canonical(&mut self) {
        self.asm.vector_imm(Vex::CMPPS, T, R, R, UNORDERED);
        self.asm.blend(R, R, context!(canonical_nan), T);
    }

    /// `R` = the operation on fs1 and fs2.
    fn two(&mut self, s: &Slot, op: Vex) {
        self.asm.vector1(Vex::MOVAPS, A, f(s.rs1));
        self.asm.vector(op, R, A, f(s.rs2));
    }

    /// `R` = the operation on fs1.
    fn one(&mut self, s: &Slot, op: Vex) {
        self.asm.vector1(op, R, f(s.rs1));
    }

    /// `R` = fs1 * fs2 + fs3 or one of its kind.
    fn fused(&mut self, s: &Slot, op: Vex) {
        self.asm.vector1(Vex::MOVAPS, R, f(s.rs3));
        self.asm.vector1(Vex::MOVAPS, A, f(s.rs1));
        self.asm.vector(op, R, A, f(s.rs2));
    }

    /// All ones in a register.
    fn ones(&mut self, reg: Ymm) {
        self.asm.vector(Vex::PCMPEQD, reg, reg, reg);
    }

    fn zero(&mut self, reg: Ymm) {
        self.asm.vector(Vex::XORPS, reg, reg, reg);
    }

    /// The same value in all lanes.
    fn broadcast(&mut self, reg: Ymm, value: u32) {
        if value == 0 {
            return self.zero(reg);
        }
        self.asm.mov_imm(RAX, value.into());
        self.asm.scalar1(Vex::MOVD, reg, RAX);
        self.asm.vector1(Vex::BROADCASTSS, reg, reg);
    }

    /// Packed instructions. False if it is none that is translated.
    pub(super) fn vector(&mut self, s: &Slot) -> bool {
        // The trace holds only for rounding to nearest if the mode is dynamic.
        let nearest = matches!(s.rm, 0 | 7);
        match s.op {
            Op::FaddPs if nearest => self.rounded(s, Vex::ADDPS),
            Op::FsubPs if nearest => self.rounded(s, Vex::SUBPS),
            Op::FmulPs if nearest => self.rounded(s, Vex::MULPS),
            Op::FmaddPs if nearest => self.rounded_fused(s, Vex::FMADD231PS),
            Op::FmsubPs if nearest => self.rounded_fused(s, Vex::FMSUB231PS),
            Op::FnmsubPs if nearest => self.rounded_fused(s, Vex::FNMADD231PS),
            Op::FnmaddPs if nearest => self.rounded_fused(s, Vex::FNMSUB231PS),
            Op::FrcpPs => {
                self.asm.vector1(Vex::MOVAPS, A, context!(one));
                self.asm.vector(Vex::DIVPS, R, A, f(s.rs1));
                self.canonical();
            }
            Op::FminPs => self.pick(s, Vex::MINPS, Vex::ORPS),
            Op::FmaxPs => self.pick(s, Vex::MAXPS, Vex::ANDPS),
            Op::FsgnjPs | Op::FsgnjnPs | Op::FsgnjxPs => self.sign(s),
            Op::FeqPs => self.compare(s, EQUAL),
            Op::FltPs => self.compare(s, LESS),
            Op::FlePs => self.compare(s, LESS_EQUAL),
            Op::FcvtPsPw if nearest => self.one(s, Vex::CVTDQ2PS),
            Op::FcvtPsPwu if nearest => self.unsigned_to_float(s),
            Op::FcvtPwPs if matches!(s.rm, 0 | 1 | 7) => return self.float_to_integer(s),
            Op::FcvtPsF16 => self.half_to_float(s),
            Op::FaddPi => self.two(s, Vex::PADDD),
            Op::FsubPi => self.two(s, Vex::PSUBD),
            Op::FmulPi => self.two(s, Vex::PMULLD),
            Op::FandPi => self.two(s, Vex::PAND),
            Op::ForPi => self.two(s, Vex::POR),
            Op::FxorPi => self.two(s, Vex::PXOR),
            // Counts of 32 and more give what the guest wants, too.
            Op::FsllPi => self.two(s, Vex::PSLLVD),
            Op::FsrlPi => self.two(s, Vex::PSRLVD),
            Op::FsraPi => self.two(s, Vex::PSRAVD),
            Op::FminPi => self.two(s, Vex::PMINSD),
            Op::FmaxPi => self.two(s, Vex::PMAXSD),
            Op::FminuPi => self.two(s, Vex::PMINUD),
            Op::FmaxuPi => self.two(s, Vex::PMAXUD),
            Op::FeqPi => self.two(s, Vex::PCMPEQD),
            Op::FltPi => self.less_integer(s),
            Op::FlePi => {
                self.two(s, Vex::PCMPGTD);
                self.not(R);
            }
            Op::FltuPi => {
                self.two(s, Vex::PMAXUD);
                self.asm.vector(Vex::PCMPEQD, R, R, A);
                self.not(R);
            }
            Op::FnotPi => {
                self.one(s, Vex::MOVAPS);
                self.not(R);
            }
            Op::FaddiPi | Op::FandiPi => {
                self.broadcast(A, s.imm as u32);
                let op = if s.op == Op::FaddiPi { Vex::PADDD } else { Vex::PAND };
                self.asm.vector(op, R, A, f(s.rs1));
            }
            Op::FslliPi => self.shift_lanes(s, Shift::Left),
            Op::FsrliPi => self.shift_lanes(s, Shift::Right),
            Op::FsraiPi => self.shift_lanes(s, Shift::Arithmetic),
            Op::Fsat8Pi | Op::Fsatu8Pi => self.saturate(s),
            Op::FswizzPs => self.asm.vector_imm_1(Vex::PSHUFD, R, f(s.rs1), s.imm as u8),
            Op::FpackrepbPi => self.pack(s, context!(pack_bytes)),
            Op::FpackrephPi => self.pack(s, context!(pack_halves)),
            Op::FbcxPs => self.asm.vector1(Vex::BROADCASTSS, R, x(s.rs1)),
            Op::FbciPs => self.broadcast(R, immediate_float(s.imm as u32)),
            Op::FbciPi => self.broadcast(R, (s.imm << 12 >> 12) as u32),
            Op::FcmovPs => {
                self.zero(A);
                self.asm.vector(Vex::PCMPEQD, A, A, f(s.rs1));
                self.asm.vector1(Vex::MOVAPS, R, f(s.rs2));
                self.asm.blend(R, R, f(s.rs3), A);
            }
            Op::FmvzXPs | Op::FmvsXPs => {
                let kind = if s.op == Op::FmvzXPs { Load::U32 } else { Load::I32 };
                self.lane_to_integer(s, kind, s.imm as u8);
                return true;
            }
            _ => return false,
        }
        self.write_vector(s.rd);
        true
    }

    fn rounded(&mut self, s: &Slot, op: Vex) {
        self.two(s, op);
        self.canonical();
    }

    fn rounded_fused(&mut self, s: &Slot, op: Vex) {
        self.fused(s, op);
        self.canonical();
    }

    /// `R` = the smaller or the larger; a NaN gives way to the other operand. Where operands are equal, each order of them
    /// gives the other one, so that joining the two results puts -0 below +0 and changes nothing else.
    fn pick(&mut self, s: &Slot, op: Vex, join: Vex) {
        // Denormals become zeros.
        self.asm.vector1(Vex::MOVAPS, R, context!(one));
        self.asm.vector(Vex::MULPS, A, R, f(s.rs1));
        self.asm.vector(Vex::MULPS, U, R, f(s.rs2));
        self.asm.vector(op, R, A, U);
        self.asm.vector(op, T, U, A);
        self.asm.vector(join, R, R, T);
        self.asm.vector_imm(Vex::CMPPS, T, A, A, UNORDERED);
        self.asm.blend(R, R, U, T);
        self.asm.vector_imm(Vex::CMPPS, T, U, U, UNORDERED);
        self.asm.blend(R, R, A, T);
        self.canonical();
    }

    /// `R` = fs1 with a sign that fs2 has part in.
    fn sign(&mut self, s: &Slot) {
        if s.op == Op::FsgnjPs && s.rs1 == s.rs2 {
            return self.one(s, Vex::MOVAPS);
        }
        self.asm.vector1(Vex::MOVAPS, A, context!(sign));
        match s.op {
            Op::FsgnjnPs => {
                self.asm.vector1(Vex::MOVAPS, T, f(s.rs2));
                self.asm.vector(Vex::ANDNPS, T, T, A);
            }
            _ => self.asm.vector(Vex::ANDPS, T, A, f(s.rs2)),
        }
        if s.op == Op::FsgnjxPs {
            return self.asm.vector(Vex::XORPS, R, T, f(s.rs1));
        }
        self.asm.vector(Vex::ANDNPS, R, A, f(s.rs1));
        self.asm.vector(Vex::ORPS, R, R, T);
    }

    fn compare(&mut self, s: &Slot, predicate: u8) {
        self.asm.vector1(Vex::MOVAPS, A, f(s.rs1));
        self.asm.vector_imm(Vex::CMPPS, R, A, f(s.rs2), predicate);
    }

    fn less_integer(&mut self, s: &Slot) {
        self.asm.vector1(Vex::MOVAPS, A, f(s.rs2));
        self.asm.vector(Vex::PCMPGTD, R, A, f(s.rs1));
    }

    fn not(&mut self, reg: Ymm) {
        self.ones(ONES);
        self.asm.vector(Vex::XORPS, reg, reg, ONES);
    }

    /// Upper and lower halves are exact as floats, and so is the upper one's share: one rounding remains.
    fn unsigned_to_float(&mut self, s: &Slot) {
        self.asm.vector1(Vex::MOVAPS, T, f(s.rs1));
        self.asm.vector(Vex::PAND, R, T, context!(low_half));
        self.asm.vector_shift(Shift::Right, A, T, 16);
        self.asm.vector1(Vex::CVTDQ2PS, R, R);
        self.asm.vector1(Vex::CVTDQ2PS, A, A);
        self.asm.vector(Vex::FMADD231PS, R, A, context!(two_to_16));
    }

    /// The host gives the smallest integer for what is out of range, or NaN.
    fn float_to_integer(&mut self, s: &Slot) -> bool {
        let after = self.asm.label();
        let slow = self.slow(s, after);
        self.one(s, if s.rm == 1 { Vex::CVTTPS2DQ } else { Vex::CVTPS2DQ });
        self.asm.vector(Vex::PCMPEQD, A, R, context!(smallest_integer));
        self.asm.movmskps(RAX, A);
        self.asm.alu_imm(Alu::Cmp, Width::D, RAX, 0);
        self.asm.branch(Cond::NotEqual, slow);
        self.write_vector(s.rd);
        self.asm.place(after);
        true
    }

    /// Half precision to single: denormals become zeros.
    fn half_to_float(&mut self, s: &Slot) {
        // A: magnitude. U: sign. R: a normal number.
        self.asm.vector1(Vex::MOVAPS, T, f(s.rs1));
        self.asm.vector(Vex::PAND, A, T, context!(half_magnitude));
        self.asm.vector_shift(Shift::Left, U, T, 16);
        self.asm.vector(Vex::PAND, U, U, context!(sign));
        self.asm.vector_shift(Shift::Left, R, A, 13);
        self.asm.vector(Vex::PADDD, R, R, context!(half_exponent));
        self.asm.vector1(Vex::MOVAPS, T, context!(half_smallest));
        self.asm.vector(Vex::PCMPGTD, T, T, A);
        self.asm.vector(Vex::PANDN, R, T, R);
        // Infinity, then NaN, which has no sign.
        self.asm.vector(Vex::PCMPEQD, T, A, context!(half_infinity));
        self.asm.blend(R, R, context!(infinity), T);
        self.asm.vector(Vex::POR, R, R, U);
        self.asm.vector(Vex::PCMPGTD, T, A, context!(half_infinity));
        self.asm.blend(R, R, context!(canonical_nan), T);
    }

    fn shift_lanes(&mut self, s: &Slot, op: Shift) {
        self.one(s, Vex::MOVAPS);
        self.asm.vector_shift(op, R, R, s.imm as u8 & 31);
    }

    fn saturate(&mut self, s: &Slot) {
        let signed = s.op == Op::Fsat8Pi;
        let (low, high) = if signed { (-128i32, 127) } else { (0, 255) };
        self.broadcast(A, low as u32);
        self.asm.vector(Vex::PMAXSD, R, A, f(s.rs1));
        self.broadcast(A, high);
        self.asm.vector(Vex::PMINSD, R, R, A);
        if signed {
            self.broadcast(A, 0xFF);
            self.asm.vector(Vex::PAND, R, R, A);
        }
    }

    /// Moves bytes within halves, then lanes across.
    fn pack(&mut self, s: &Slot, tables: Mem) {
        self.asm.vector1(Vex::MOVAPS, R, f(s.rs1));
        self.asm.vector(Vex::PSHUFB, R, R, element(tables, 0));
        self.asm.vector1(Vex::MOVAPS, A, element(tables, 1));
        self.asm.vector(Vex::PERMD, R, A, R);
    }

    fn lane_to_integer(&mut self, s: &Slot, kind: Load, index: u8) {
        if s.rd != 0 {
            self.asm.load(kind, RAX, lane(s.rs1, index));
            self.asm.store(8, x(s.rd), RAX);
        }
    }

    /// Instructions on lane 0, which clear the other lanes. False if it is none that is translated.
    pub(super) fn scalar_float(&mut self, s: &Slot) -> bool {
        let nearest = matches!(s.rm, 0 | 7);
        match s.op {
            Op::FaddS if nearest => self.scalar(s, Vex::ADDPS),
            Op::FsubS if nearest => self.scalar(s, Vex::SUBPS),
            Op::FmulS if nearest => self.scalar(s, Vex::MULPS),
            Op::FmaddS if nearest => self.scalar_fused(s, Vex::FMADD231PS),
            Op::FmsubS if nearest => self.scalar_fused(s, Vex::FMSUB231PS),
            Op::FnmsubS if nearest => self.scalar_fused(s, Vex::FNMADD231PS),
            Op::FnmaddS if nearest => self.scalar_fused(s, Vex::FNMSUB231PS),
            Op::FsgnjS | Op::FsgnjnS | Op::FsgnjxS => {
                let op = Width::D;
                self.asm.mov(op, RCX, f(s.rs2));
                if s.op == Op::FsgnjnS {
                    self.asm.alu_imm(Alu::Xor, op, RCX, -1);
                }
                self.asm.alu_imm(Alu::And, op, RCX, i32::MIN);
                self.asm.mov(op, RAX, f(s.rs1));
                if s.op == Op::FsgnjxS {
                    self.asm.alu(Alu::Xor, op, RAX, RCX);
                } else {
                    self.asm.alu_imm(Alu::And, op, RAX, i32::MAX);
                    self.asm.alu(Alu::Or, op, RAX, RCX);
                }
                self.asm.scalar1(Vex::MOVD, R, RAX);
            }
            Op::FmvWX => self.asm.scalar1(Vex::MOVSS, R, x(s.rs1)),
            Op::FmvXW => {
                self.lane_to_integer(s, Load::I32, 0);
                return true;
            }
            _ => return false,
        }
        self.asm.vector1(Vex::MOVAPS_STORE, R, f(s.rd));
        true
    }

    /// Other lanes than the first compute with zeros, and give zeros; they are only dropped to be sure of their sign.
    fn scalar(&mut self, s: &Slot, op: Vex) {
        self.asm.scalar1(Vex::MOVSS, A, f(s.rs1));
        self.asm.scalar1(Vex::MOVSS, T, f(s.rs2));
        self.asm.vector(op, R, A, T);
        self.first_lane();
    }

    fn scalar_fused(&mut self, s: &Slot, op: Vex) {
        self.asm.scalar1(Vex::MOVSS, R, f(s.rs3));
        self.asm.scalar1(Vex::MOVSS, A, f(s.rs1));
        self.asm.scalar1(Vex::MOVSS, T, f(s.rs2));
        self.asm.vector(op, R, A, T);
        self.first_lane();
    }

    fn first_lane(&mut self) {
        self.canonical();
        self.zero(T);
        self.asm.vector_imm(Vex::BLENDPS, R, T, R, 1);
    }

    /// Writes a mask register from what `R` has in its lanes; m0 is all ones.
    fn lanes_to_mask(&mut self, s: &Slot) -> bool {
        self.asm.movmskps(RAX, R);
        self.asm.store(1, m(s.rd), RAX);
        true
    }

    /// Instructions on masks. False if it is none that is translated.
    pub(super) fn mask(&mut self, s: &Slot) -> bool {
        match s.op {
            Op::MovMX if s.rs1 == 0 => {
                self.asm.mov_imm(RAX, (s.imm as u8).into());
                self.asm.store(1, m(s.rd), RAX);
                return true;
            }
            Op::MovMX => {
                self.asm.mov(Width::D, RAX, x(s.rs1));
                self.asm.alu_imm(Alu::Or, Width::D, RAX, s.imm);
                self.asm.store(1, m(s.rd), RAX);
                return true;
            }
            Op::MovaXM => {
                if s.rd != 0 {
                    self.asm.mov(Width::Q, RAX, m(0));
                    self.asm.store(8, x(s.rd), RAX);
                }
                return true;
            }
            Op::MovaMX => {
                self.asm.mov(Width::Q, RAX, x(s.rs1));
                self.asm.store(8, m(0), RAX);
                return true;
            }
            Op::Maskand | Op::Maskor | Op::Maskxor | Op::Masknot => {
                self.asm.load(Load::U8, RAX, m(s.rs1));
                self.asm.load(Load::U8, RCX, m(s.rs2));
                match s.op {
                    Op::Maskand => self.asm.alu(Alu::And, Width::D, RAX, RCX),
                    Op::Maskor => self.asm.alu(Alu::Or, Width::D, RAX, RCX),
                    Op::Maskxor => self.asm.alu(Alu::Xor, Width::D, RAX, RCX),
                    _ => self.asm.alu_imm(Alu::Xor, Width::D, RAX, -1),
                }
                self.asm.store(1, m(s.rd), RAX);
                return true;
            }
            _ => {}
        }
        if self.mask != Some(0xFF) {
            return false;
        }
        match s.op {
            Op::FeqmPs => self.compare(s, EQUAL),
            Op::FltmPs => self.compare(s, LESS),
            Op::FlemPs => self.compare(s, LESS_EQUAL),
            Op::FltmPi => self.less_integer(s),
            Op::FsetmPi => {
                self.zero(A);
                self.asm.vector(Vex::PCMPEQD, R, A, f(s.rs1));
                self.not(R);
            }
            _ => return false,
        }
        self.lanes_to_mask(s)
    }
}
