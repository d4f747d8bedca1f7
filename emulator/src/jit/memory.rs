//! Loads and stores. The fast ways reach DRAM and the own shire's scratchpad; whatever else an address may mean is the
//! interpreter's business.

use super::assembler::*;
use super::context::*;
use super::emit::Emitter;
use crate::code::Slot;
use et_isa::Op;

/// Where an access that has been checked acts.
const TARGET: Mem = Mem::indexed(R12, RAX, 0);

/// What the fast ways of an instruction need beside an address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Any,
    /// To 32 bytes.
    Vector,
}

impl Emitter<'_> {
    /// Makes [`TARGET`] the address `imm(base)`; gives the label behind the instruction, to be placed.
    fn reach(&mut self, s: &Slot, base: u8, imm: i32, alignment: Alignment) -> Label {
        let after = self.asm.label();
        let slow = self.slow(s, after);
        self.check(base, imm, alignment, slow);
        after
    }

    /// Makes [`TARGET`] the address `imm(base)`, or goes to `slow`.
    fn check(&mut self, base: u8, imm: i32, alignment: Alignment, slow: Label) {
        let back = self.asm.label();
        self.asm.mov(Width::Q, RAX, x(base));
        self.asm.lea(RAX, Mem::indexed(RAX, R14, imm));
        if alignment == Alignment::Vector {
            // DRAM and the scratchpad both begin at such an address.
            self.asm.test_imm(RAX, 31);
            self.asm.branch(Cond::NotEqual, slow);
        }
        self.asm.alu(Alu::Cmp, Width::Q, RAX, R15);
        let elsewhere = self.not_dram(back, slow);
        self.asm.branch(Cond::Above, elsewhere);
        self.asm.place(back);
    }

    fn load(&mut self, s: &Slot, kind: Load) -> bool {
        let after = self.reach(s, s.rs1, s.imm, Alignment::Any);
        self.asm.load(kind, RAX, TARGET);
        if s.rd != 0 {
            self.asm.store(8, x(s.rd), RAX);
        }
        self.asm.place(after);
        true
    }

    fn store(&mut self, s: &Slot, bytes: u8) -> bool {
        let after = self.reach(s, s.rs1, s.imm, Alignment::Any);
        self.asm.mov(Width::Q, RCX, x(s.rs2));
        self.asm.store(bytes, TARGET, RCX);
        self.asm.place(after);
        true
    }

    /// Scalar loads and stores.
    pub(super) fn scalar_memory(&mut self, s: &Slot) -> bool {
        match s.op {
            Op::Lb => self.load(s, Load::I8),
            Op::Lh => self.load(s, Load::I16),
            Op::Lw => self.load(s, Load::I32),
            Op::Ld => self.load(s, Load::U64),
            Op::Lbu => self.load(s, Load::U8),
            Op::Lhu => self.load(s, Load::U16),
            Op::Lwu => self.load(s, Load::U32),
            Op::Sb => self.store(s, 1),
            Op::Sh => self.store(s, 2),
            Op::Sw => self.store(s, 4),
            Op::Sd => self.store(s, 8),
            Op::Flw => {
                let after = self.reach(s, s.rs1, s.imm, Alignment::Any);
                self.asm.scalar1(Vex::MOVSS, Ymm(0), TARGET);
                self.asm.vector1(Vex::MOVAPS_STORE, Ymm(0), f(s.rd));
                self.asm.place(after);
                true
            }
            Op::Fsw => {
                let after = self.reach(s, s.rs1, s.imm, Alignment::Any);
                self.asm.mov(Width::D, RCX, f(s.rs2));
                self.asm.store(4, TARGET, RCX);
                self.asm.place(after);
                true
            }
            _ => false,
        }
    }

    /// Vector loads and stores, gathers and scatters.
    pub(super) fn vector_memory(&mut self, s: &Slot) -> bool {
        let all = self.mask == Some(0xFF);
        match s.op {
            Op::Flq2 => self.vector_load(s, Vex::MOVUPS, s.imm, Alignment::Any),
            Op::FlwPs if all => self.vector_load(s, Vex::MOVUPS, s.imm, Alignment::Any),
            Op::FbcPs if all => self.vector_load(s, Vex::BROADCASTSS, s.imm, Alignment::Any),
            Op::FlwlPs | Op::FlwgPs if all => self.vector_load(s, Vex::MOVUPS, 0, Alignment::Vector),
            Op::Fsq2 => self.vector_store(s, s.rs2, s.imm, Alignment::Any),
            Op::FswPs if all => self.vector_store(s, s.rs2, s.imm, Alignment::Any),
            // These write all lanes whatever the mask is.
            Op::FswlPs | Op::FswgPs => self.vector_store(s, s.rd, 0, Alignment::Vector),
            Op::FgbPs if all => self.gather(s, 0, Vex::PMOVSXBD),
            Op::FghPs if all => self.gather(s, 1, Vex::PMOVSXWD),
            Op::FgwPs if all => self.gather(s, 2, Vex::MOVUPS),
            Op::FscwPs if all => self.scatter(s, Alignment::Any),
            Op::FscwlPs | Op::FscwgPs if all => self.scatter(s, Alignment::Vector),
            _ => false,
        }
    }

    fn vector_load(&mut self, s: &Slot, op: Vex, imm: i32, alignment: Alignment) -> bool {
        let after = self.reach(s, s.rs1, imm, alignment);
        self.asm.vector1(op, Ymm(0), TARGET);
        self.asm.vector1(Vex::MOVAPS_STORE, Ymm(0), f(s.rd));
        self.asm.place(after);
        true
    }

    fn vector_store(&mut self, s: &Slot, source: u8, imm: i32, alignment: Alignment) -> bool {
        let after = self.reach(s, s.rs1, imm, alignment);
        self.asm.vector1(Vex::MOVAPS, Ymm(0), f(source));
        self.asm.vector1(Vex::MOVUPS_STORE, Ymm(0), TARGET);
        self.asm.place(after);
        true
    }

    /// Loads the offsets of a gather or scatter of which nothing is done into ymm0; goes to `scattered` unless lanes lie
    /// one after the other.
    fn offsets(&mut self, s: &Slot, size_log2: i32, slow: Label, scattered: Label) {
        self.asm.cmp_byte(PROGRESS, 0);
        self.asm.branch(Cond::NotEqual, slow);
        self.asm.vector1(Vex::MOVAPS, Ymm(0), f(s.rs1));
        self.asm.vector(Vex::PCMPEQD, Ymm(1), Ymm(0), element(context!(steps), size_log2));
        self.asm.movmskps(RAX, Ymm(1));
        self.asm.alu_imm(Alu::Cmp, Width::D, RAX, 0xFF);
        self.asm.branch(Cond::NotEqual, scattered);
    }

    fn gather(&mut self, s: &Slot, size_log2: i32, op: Vex) -> bool {
        let (after, scattered, write) = (self.asm.label(), self.asm.label(), self.asm.label());
        let slow = self.slow(s, after);
        self.offsets(s, size_log2, slow, scattered);
        self.check(s.rs2, 0, Alignment::Any, slow);
        self.asm.vector1(op, Ymm(0), TARGET);
        self.asm.jump(write);
        // Words at offsets that are not too large; what is too much of them is cut off.
        self.asm.place(scattered);
        self.asm.vector1(Vex::PTEST, Ymm(0), context!(far));
        self.asm.branch(Cond::NotEqual, slow);
        self.asm.mov(Width::Q, RAX, x(s.rs2));
        self.asm.alu(Alu::Add, Width::Q, RAX, R14);
        self.asm.alu(Alu::Cmp, Width::Q, RAX, context!(dram_last_near));
        self.asm.branch(Cond::Above, slow);
        self.asm.alu(Alu::Add, Width::Q, RAX, R12);
        self.asm.vector(Vex::PCMPEQD, Ymm(1), Ymm(1), Ymm(1));
        self.asm.gather(Ymm(2), RAX, Ymm(0), Ymm(1));
        let excess = 32 - (8 << size_log2);
        if excess > 0 {
            self.asm.vector_shift(Shift::Left, Ymm(2), Ymm(2), excess);
            self.asm.vector_shift(Shift::Arithmetic, Ymm(2), Ymm(2), excess);
        }
        self.asm.vector1(Vex::MOVAPS, Ymm(0), Ymm(2));
        self.asm.place(write);
        self.asm.vector1(Vex::MOVAPS_STORE, Ymm(0), f(s.rd));
        self.asm.place(after);
        true
    }

    fn scatter(&mut self, s: &Slot, alignment: Alignment) -> bool {
        let after = self.asm.label();
        let slow = self.slow(s, after);
        self.offsets(s, 2, slow, slow);
        self.check(s.rs2, 0, alignment, slow);
        self.asm.vector1(Vex::MOVAPS, Ymm(0), f(s.rd));
        self.asm.vector1(Vex::MOVUPS_STORE, Ymm(0), TARGET);
        self.asm.place(after);
        true
    }
}
