//! The disassembler: text that the assembler (with the include) turns back into the same word.

use std::fmt;

use crate::csr;
use crate::form::{Field, File, Imm, Operand, Operands};
use crate::table::Op;
use crate::{encode, Insn};

/// ABI names of the integer registers.
pub const X_NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
    "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

/// ABI names of the floating-point registers.
pub const F_NAMES: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5",
    "fa6", "fa7", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// Names of the rounding modes by encoding; reserved ones are empty.
pub const ROUNDING: [&str; 8] = ["rne", "rtz", "rdn", "rup", "rmm", "", "", "dyn"];

const M_NAMES: [&str; 8] = ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"];

fn register(file: File, number: u8) -> &'static str {
    match file {
        File::X => X_NAMES[number as usize],
        File::F => F_NAMES[number as usize],
        File::M => M_NAMES[number as usize],
    }
}

impl fmt::Display for Insn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.op.row();
        let operands = self.operands();
        let empty_set = self.op == Op::Fence && (operands.imm & 0xF == 0 || operands.imm >> 4 == 0);
        let reserved_mode = row.form.operands().contains(&Operand::Rm) && ROUNDING[operands.rm as usize].is_empty();
        if empty_set || reserved_mode || encode(self.op, &operands) != Some(self.word) {
            // No assembly form has an empty set, a reserved rounding mode, or bits in fields that do not matter.
            return write!(out, ".4byte {:#010x}", self.word);
        }
        out.write_str(row.mnemonic)?;
        for (position, operand) in row.form.operands().iter().enumerate() {
            out.write_str(if position == 0 { " " } else { ", " })?;
            write_operand(out, *operand, &operands)?;
        }
        Ok(())
    }
}

fn write_operand(out: &mut fmt::Formatter<'_>, operand: Operand, values: &Operands) -> fmt::Result {
    let base = |field: Field| register(File::X, values.register(field));
    match operand {
        Operand::Reg(file, field) => out.write_str(register(file, values.register(field))),
        Operand::Rm => out.write_str(ROUNDING[values.rm as usize]),
        Operand::Imm(Imm::Branch | Imm::Jump) => {
            let sign = if values.imm < 0 { '-' } else { '+' };
            write!(out, ". {sign} {}", values.imm.unsigned_abs())
        }
        Operand::Imm(Imm::Upper | Imm::Imm8) => write!(out, "{:#x}", values.imm),
        Operand::Imm(Imm::Fence) => {
            write_set(out, values.imm >> 4)?;
            out.write_str(", ")?;
            write_set(out, values.imm & 0xF)
        }
        Operand::Imm(_) => write!(out, "{}", values.imm),
        Operand::Csr => match csr::lookup(values.csr) {
            Some(csr) => out.write_str(csr.name),
            None => write!(out, "{:#x}", values.csr),
        },
        Operand::Memory(_) => write!(out, "{}({})", values.imm, base(Field::Rs1)),
        Operand::Index(file) => write!(out, "{}({})", register(file, values.rs1), base(Field::Rs2)),
        Operand::Address(field) => write!(out, "({})", base(field)),
    }
}

/// A fence set, such as `rw`.
fn write_set(out: &mut fmt::Formatter<'_>, set: i32) -> fmt::Result {
    for (bit, letter) in [(8, "i"), (4, "o"), (2, "r"), (1, "w")] {
        if set & bit != 0 {
            out.write_str(letter)?;
        }
    }
    Ok(())
}
