//! The GNU assembler, which shares no code with us, as oracle for encodings, text and the include.

mod gas;

use et_isa::form::{Field, File, Imm, Operand};
use et_isa::{decode, encode, expand, Insn, Op, Operands, TABLE};
use gas::{assemble, words};

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn immediate(&mut self, imm: Imm) -> i32 {
        let (low, high) = imm.range();
        let value = match self.below(4) {
            0 => low,
            1 => high,
            _ => low + self.below((high - low + 1) as u64) as i32,
        };
        match imm {
            Imm::Branch | Imm::Jump => value & !1,
            // Empty fence sets cannot be written.
            Imm::Fence => value | 0x11,
            _ => value,
        }
    }

    fn operands(&mut self, op: Op) -> Operands {
        let mut out = Operands::default();
        let mut register = |random: &mut Self, field: Field, limit: u64| {
            let number = random.below(limit) as u8;
            out.set_register(field, number);
        };
        for operand in op.row().form.operands() {
            match *operand {
                Operand::Reg(File::M, field) => register(self, field, 8),
                Operand::Reg(_, field) | Operand::Address(field) => register(self, field, 32),
                Operand::Memory(_) => register(self, Field::Rs1, 32),
                Operand::Index(_) => {
                    register(self, Field::Rs1, 32);
                    register(self, Field::Rs2, 32);
                }
                _ => {}
            }
        }
        for operand in op.row().form.operands() {
            match *operand {
                Operand::Imm(imm) | Operand::Memory(imm) => out.imm = self.immediate(imm),
                Operand::Rm => out.rm = [0, 1, 2, 3, 4, 7][self.below(6) as usize],
                Operand::Csr => {
                    let csrs = et_isa::csr::CSRS;
                    out.csr = csrs[self.below(csrs.len() as u64) as usize].number;
                }
                _ => {}
            }
        }
        out
    }
}

#[test]
fn worked_examples_of_the_sheet() {
    let source = "\
mov.m.x m0,x0,0xFF\nfswizz.ps f1,f2,0xB1\ncsrwi 0x830,7\nfmadd.ps f3,f4,f5,f6,rne\nflw.ps f1,32(a0)
fsw.ps f1,32(a0)\nfg32b.ps f1,a1(a0)\nmova.x.m a0\nmova.m.x a0\nfbcx.ps f1,a0\nfexp.ps f1,f2\nfcvt.ps.f16 f1,f2
amoaddg.w a0,a1,(a2)\nshg a1,(a2)\nfandi.pi f1,f2,15\n";
    let expected = [
        0x57F0707B, 0xE76110FB, 0x8303D073, 0x305201DB, 0x0205208B, 0x0215600B, 0x08A5908B, 0xD600057B, 0xD605107B,
        0x0005308B, 0x584100FB, 0xD0A100FB, 0x02B6253B, 0x1AB6303B, 0x04F110BF,
    ];
    assert_eq!(words(&assemble("examples", "rv64imf", source)), expected);
}

#[test]
fn every_instruction_assembles_to_our_encoding() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut source = String::new();
    let mut expected = Vec::new();
    for row in TABLE {
        for _ in 0..24 {
            let operands = random.operands(row.op);
            let word = encode(row.op, &operands).expect("operands in range");
            assert_eq!(decode(word), Some(row.op), "{}: {word:08x}", row.mnemonic);
            let insn = Insn::decode(word).expect("just decoded");
            assert_eq!(insn.operands(), operands, "{insn}");
            source.push_str(&format!("{insn}\n"));
            expected.push((insn, word));
        }
    }
    let assembled = words(&assemble("encodings", "rv64imf_zifencei", &source));
    assert_eq!(assembled.len(), expected.len());
    for ((insn, word), got) in expected.iter().zip(assembled) {
        assert_eq!(*word, got, "{insn}: ours {word:08x}, the assembler's {got:08x}");
    }
}

#[test]
fn operand_variants() {
    let source = "\
fadd.ps ft0, fa0, fs2\nfadd.ps f0, f10, f18, dyn\nshg a1, 0(a2)\nshg x11, (x12)\nfbci.pi f1, -1\nfbci.pi f1, 0xfffff
fgw.ps f1, f2(fp)\nfgw.ps ft1, ft2(s0)\ncsrw tensor_wait, t0\ncsrw 0x830, t0\n.set name, 5\nfslli.pi f1, f2, name + 1
fslli.pi f1, f2, 6\n";
    let words = words(&assemble("variants", "rv64imf", source));
    assert_eq!(words.len() % 2, 0);
    for (i, pair) in words.chunks(2).enumerate() {
        assert_eq!(pair[0], pair[1], "pair {i}");
    }
}

#[test]
fn compressed_expansion_agrees_with_the_assembler() {
    let mut source = String::new();
    let mut expected = Vec::new();
    for half in 0..=u16::MAX {
        if let Some(word) = expand(half).filter(|_| half & 3 != 3) {
            let insn = Insn::decode(word).expect("an expansion is defined");
            source.push_str(&format!("{insn}\n"));
            expected.push((half, word));
        }
    }
    let code = assemble("compressed", "rv64imfc", &source);
    let (mut at, mut short) = (0, 0);
    for &(half, word) in &expected {
        let low = u16::from_le_bytes([code[at], code[at + 1]]);
        let high = code.get(at + 2..at + 4).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
        let insn = Insn::decode((high as u32) << 16 | low as u32).expect("assembled code is defined");
        // The assembler shortens a move written as `addi rd, rs, 0` to c.mv, which stands for `add rd, x0, rs`.
        let is_move =
            word & 0xFFF0_707F == 0x13 && insn.op == Op::Add && insn.operands().rs2 == (word >> 15 & 31) as u8;
        assert!(insn.word == word || is_move, "{half:04x}: {word:08x} is not {insn}");
        short += (insn.len == 2) as usize;
        at += insn.len as usize;
    }
    assert_eq!(at, code.len());
    // All but hints (which the assembler does not shorten) come back compressed.
    assert!(short * 10 > expected.len() * 9, "{short} of {} are short", expected.len());
}
