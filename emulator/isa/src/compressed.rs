//! Expansion of 16-bit instructions to the 32-bit ones they stand for (C extension without the D forms).

use crate::form::Operands;
use crate::table::Op;

/// The 32-bit word of a compressed instruction, or `None` if it is reserved, illegal or a double-precision form.
pub fn expand(half: u16) -> Option<u32> {
    let w = half as u32;
    let bit = |from: u32, to: u32| (w >> from & 1) << to;
    let bits = |from: u32, count: u32, to: u32| (w >> from & ((1 << count) - 1)) << to;
    let sign = |value: u32, top: u32| ((value << (31 - top)) as i32) >> (31 - top);

    let rd = (w >> 7 & 31) as u8;
    let rs2 = (w >> 2 & 31) as u8;
    // The three-bit fields name x8..x15.
    let low = (w >> 2 & 7) as u8 + 8;
    let high = (w >> 7 & 7) as u8 + 8;
    let imm6 = sign(bit(12, 5) | bits(2, 5, 0), 5);
    let shift = (bit(12, 5) | bits(2, 5, 0)) as i32;
    let word_offset = (bit(6, 2) | bits(10, 3, 3) | bit(5, 6)) as i32;
    let double_offset = (bits(10, 3, 3) | bits(5, 2, 6)) as i32;

    let make = |op: Op, rd: u8, rs1: u8, rs2: u8, imm: i32| {
        crate::encode(op, &Operands { rd, rs1, rs2, imm, ..Default::default() })
    };
    match (w & 3, w >> 13) {
        (0, 0) => {
            let imm = bits(7, 4, 6) | bits(11, 2, 4) | bit(5, 3) | bit(6, 2);
            (imm != 0).then(|| make(Op::Addi, low, 2, 0, imm as i32))?
        }
        (0, 2) => make(Op::Lw, low, high, 0, word_offset),
        (0, 3) => make(Op::Ld, low, high, 0, double_offset),
        (0, 6) => make(Op::Sw, 0, high, low, word_offset),
        (0, 7) => make(Op::Sd, 0, high, low, double_offset),
        (1, 0) => make(Op::Addi, rd, rd, 0, imm6),
        (1, 1) => (rd != 0).then(|| make(Op::Addiw, rd, rd, 0, imm6))?,
        (1, 2) => make(Op::Addi, rd, 0, 0, imm6),
        (1, 3) if rd == 2 => {
            let imm = sign(bit(12, 9) | bits(3, 2, 7) | bit(5, 6) | bit(2, 5) | bit(6, 4), 9);
            (imm != 0).then(|| make(Op::Addi, 2, 2, 0, imm))?
        }
        (1, 3) => (imm6 != 0).then(|| make(Op::Lui, rd, 0, 0, imm6 & 0xF_FFFF))?,
        (1, 4) => match (w >> 10 & 3, w >> 12 & 1, w >> 5 & 3) {
            (0, ..) => make(Op::Srli, high, high, 0, shift),
            (1, ..) => make(Op::Srai, high, high, 0, shift),
            (2, ..) => make(Op::Andi, high, high, 0, imm6),
            (_, 0, 0) => make(Op::Sub, high, high, low, 0),
            (_, 0, 1) => make(Op::Xor, high, high, low, 0),
            (_, 0, 2) => make(Op::Or, high, high, low, 0),
            (_, 0, _) => make(Op::And, high, high, low, 0),
            (_, _, 0) => make(Op::Subw, high, high, low, 0),
            (_, _, 1) => make(Op::Addw, high, high, low, 0),
            _ => None,
        },
        (1, 5) => {
            let imm = bit(12, 11)
                | bit(11, 4)
                | bits(9, 2, 8)
                | bit(8, 10)
                | bit(7, 6)
                | bit(6, 7)
                | bits(3, 3, 1)
                | bit(2, 5);
            make(Op::Jal, 0, 0, 0, sign(imm, 11))
        }
        (1, 6 | 7) => {
            let imm = bit(12, 8) | bits(10, 2, 3) | bits(5, 2, 6) | bits(3, 2, 1) | bit(2, 5);
            let op = if w >> 13 == 6 { Op::Beq } else { Op::Bne };
            make(op, 0, high, 0, sign(imm, 8))
        }
        (2, 0) => make(Op::Slli, rd, rd, 0, shift),
        (2, 2) => {
            let imm = bit(12, 5) | bits(4, 3, 2) | bits(2, 2, 6);
            (rd != 0).then(|| make(Op::Lw, rd, 2, 0, imm as i32))?
        }
        (2, 3) => {
            let imm = bit(12, 5) | bits(5, 2, 3) | bits(2, 3, 6);
            (rd != 0).then(|| make(Op::Ld, rd, 2, 0, imm as i32))?
        }
        (2, 4) => match (w >> 12 & 1, rd, rs2) {
            (0, 0, 0) => None,
            (0, _, 0) => make(Op::Jalr, 0, rd, 0, 0),
            (0, ..) => make(Op::Add, rd, 0, rs2, 0),
            (_, 0, 0) => make(Op::Ebreak, 0, 0, 0, 0),
            (_, _, 0) => make(Op::Jalr, 1, rd, 0, 0),
            _ => make(Op::Add, rd, rd, rs2, 0),
        },
        (2, 6) => make(Op::Sw, 0, 2, rs2, (bits(9, 4, 2) | bits(7, 2, 6)) as i32),
        (2, 7) => make(Op::Sd, 0, 2, rs2, (bits(10, 3, 3) | bits(7, 3, 6)) as i32),
        _ => None,
    }
}
