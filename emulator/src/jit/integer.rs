//! Integer instructions.

use super::assembler::*;
use super::context::*;
use super::emit::Emitter;
use crate::code::Slot;
use et_isa::Op;

impl Emitter<'_> {
    /// Instructions on integer registers alone. False if it is none that is translated.
    pub(super) fn integer(&mut self, s: &Slot) -> bool {
        use Width::{D, Q};
        match s.op {
            Op::Fence => {}
            Op::Lui => self.constant(s.rd, s.imm as i64 as u64),
            Op::Auipc => self.constant(s.rd, self.pc.wrapping_add(s.imm as i64 as u64)),
            Op::Addi if s.rs1 == 0 => self.constant(s.rd, s.imm as i64 as u64),
            Op::Addi if s.rs1 == s.rd => self.asm.alu_imm(Alu::Add, Q, x(s.rd), s.imm),
            Op::Addi => self.with_imm(s, Alu::Add),
            Op::Xori => self.with_imm(s, Alu::Xor),
            Op::Ori => self.with_imm(s, Alu::Or),
            Op::Andi => self.with_imm(s, Alu::And),
            Op::Slti | Op::Sltiu => {
                self.asm.mov(Q, RAX, x(s.rs1));
                self.asm.alu_imm(Alu::Cmp, Q, RAX, s.imm);
                self.set(s, if s.op == Op::Slti { Cond::Less } else { Cond::Below });
            }
            Op::Slt | Op::Sltu => {
                self.asm.mov(Q, RAX, x(s.rs1));
                self.asm.alu(Alu::Cmp, Q, RAX, x(s.rs2));
                self.set(s, if s.op == Op::Slt { Cond::Less } else { Cond::Below });
            }
            Op::Slli => self.shift_imm(s, Shift::Left, Q),
            Op::Srli => self.shift_imm(s, Shift::Right, Q),
            Op::Srai => self.shift_imm(s, Shift::Arithmetic, Q),
            Op::Slliw => self.shift_imm(s, Shift::Left, D),
            Op::Srliw => self.shift_imm(s, Shift::Right, D),
            Op::Sraiw => self.shift_imm(s, Shift::Arithmetic, D),
            Op::Sll => self.shift(s, Shift::Left, Q),
            Op::Srl => self.shift(s, Shift::Right, Q),
            Op::Sra => self.shift(s, Shift::Arithmetic, Q),
            Op::Sllw => self.shift(s, Shift::Left, D),
            Op::Srlw => self.shift(s, Shift::Right, D),
            Op::Sraw => self.shift(s, Shift::Arithmetic, D),
            Op::Add if s.rs1 == 0 => self.copy(s.rd, s.rs2),
            Op::Add if s.rs2 == 0 => self.copy(s.rd, s.rs1),
            Op::Add => self.arithmetic(s, Alu::Add, Q),
            Op::Sub => self.arithmetic(s, Alu::Sub, Q),
            Op::Xor => self.arithmetic(s, Alu::Xor, Q),
            Op::Or => self.arithmetic(s, Alu::Or, Q),
            Op::And => self.arithmetic(s, Alu::And, Q),
            Op::Addw => self.arithmetic(s, Alu::Add, D),
            Op::Subw => self.arithmetic(s, Alu::Sub, D),
            Op::Addiw => {
                self.asm.mov(D, RAX, x(s.rs1));
                if s.imm != 0 {
                    self.asm.alu_imm(Alu::Add, D, RAX, s.imm);
                }
                self.write(s.rd, D);
            }
            Op::Mul | Op::Mulw => {
                let width = if s.op == Op::Mul { Q } else { D };
                self.asm.mov(width, RAX, x(s.rs1));
                self.asm.imul(width, RAX, x(s.rs2));
                self.write(s.rd, width);
            }
            Op::Mulh | Op::Mulhu => {
                self.asm.mov(Q, RAX, x(s.rs1));
                self.asm.mul_wide(s.op == Op::Mulh, x(s.rs2));
                self.asm.store(8, x(s.rd), RDX);
            }
            Op::Divu | Op::Remu => self.divide(s, Q),
            Op::Divuw | Op::Remuw => self.divide(s, D),
            _ => return false,
        }
        true
    }

    /// Writes a constant to a register.
    fn constant(&mut self, rd: u8, value: u64) {
        match i32::try_from(value as i64) {
            Ok(value) => self.asm.store_imm(x(rd), value),
            Err(_) => {
                self.asm.mov_imm(RAX, value);
                self.asm.store(8, x(rd), RAX);
            }
        }
    }

    /// Writes rax, or eax with its sign, to a register.
    fn write(&mut self, rd: u8, width: Width) {
        if width == Width::D {
            self.asm.load(Load::I32, RAX, RAX);
        }
        self.asm.store(8, x(rd), RAX);
    }

    fn copy(&mut self, rd: u8, rs: u8) {
        self.asm.mov(Width::Q, RAX, x(rs));
        self.write(rd, Width::Q);
    }

    fn with_imm(&mut self, s: &Slot, op: Alu) {
        self.asm.mov(Width::Q, RAX, x(s.rs1));
        self.asm.alu_imm(op, Width::Q, RAX, s.imm);
        self.write(s.rd, Width::Q);
    }

    fn arithmetic(&mut self, s: &Slot, op: Alu, width: Width) {
        self.asm.mov(width, RAX, x(s.rs1));
        self.asm.alu(op, width, RAX, x(s.rs2));
        self.write(s.rd, width);
    }

    /// Writes 1 if the flags say so.
    fn set(&mut self, s: &Slot, cond: Cond) {
        self.asm.setcc(cond, RAX);
        self.asm.load(Load::U8, RAX, RAX);
        self.write(s.rd, Width::Q);
    }

    fn shift_imm(&mut self, s: &Slot, op: Shift, width: Width) {
        let most = if width == Width::Q { 63 } else { 31 };
        self.asm.mov(width, RAX, x(s.rs1));
        self.asm.shift_imm(op, width, RAX, s.imm as u8 & most);
        self.write(s.rd, width);
    }

    /// The host takes as many bits of the count as the guest does.
    fn shift(&mut self, s: &Slot, op: Shift, width: Width) {
        self.asm.mov(Width::D, RCX, x(s.rs2));
        self.asm.shift(op, width, RAX, x(s.rs1), RCX);
        self.write(s.rd, width);
    }

    /// Unsigned division, which by 0 gives all ones and the dividend.
    fn divide(&mut self, s: &Slot, width: Width) {
        let quotient = matches!(s.op, Op::Divu | Op::Divuw);
        let (by_zero, done) = (self.asm.label(), self.asm.label());
        self.asm.mov(width, RAX, x(s.rs1));
        self.asm.mov(width, RCX, x(s.rs2));
        self.asm.alu_imm(Alu::Cmp, width, RCX, 0);
        self.asm.branch(Cond::Equal, by_zero);
        self.asm.mov_imm(RDX, 0);
        self.asm.div(width, RCX);
        if !quotient {
            self.asm.mov(Width::Q, RAX, RDX);
        }
        self.asm.jump(done);
        self.asm.place(by_zero);
        if quotient {
            self.asm.mov_imm(RAX, u64::MAX);
        }
        self.asm.place(done);
        self.write(s.rd, width);
    }
}
