//! The check that a kernel build makes: does the chip execute every instruction of an image?

use std::fmt;

use crate::csr;
use crate::decode::{is_compressed, Insn};
use crate::table::{Class, Status};

/// An instruction that a kernel must not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// Byte offset in the code.
    pub offset: usize,
    /// The instruction as it stands in the code.
    pub word: u32,
    /// What is wrong and, where there is one, what to use instead.
    pub why: String,
}

impl fmt::Display for Forbidden {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "offset {:#x}: {:08x}: {}", self.offset, self.word, self.why)
    }
}

/// Finds everything in `code` (a stream of 16- and 32-bit instructions, from its first byte) that the chip does not
/// execute in U-mode. Data must not be part of it.
pub fn check(code: &[u8]) -> Vec<Forbidden> {
    let mut found = Vec::new();
    let half = |at: usize| code.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let mut offset = 0;
    while let Some(low) = half(offset) {
        let (word, len) = if is_compressed(low) {
            (low as u32, 2)
        } else if let Some(high) = half(offset + 2) {
            ((high as u32) << 16 | low as u32, 4)
        } else {
            found.push(Forbidden { offset, word: low as u32, why: "the code ends inside an instruction".into() });
            break;
        };
        if let Some(why) = objection(word) {
            found.push(Forbidden { offset, word, why });
        }
        offset += len;
    }
    found
}

/// Why the chip does not execute `word`.
fn objection(word: u32) -> Option<String> {
    let Some(insn) = Insn::decode(word) else {
        return Some(undefined(word));
    };
    let row = insn.op.row();
    match row.status {
        Status::Mcode => return Some(format!("`{insn}` traps to machine mode{}", substitute(row.mnemonic))),
        Status::Graphics => return Some(format!("`{insn}` belongs to the graphics group, which is off")),
        Status::Illegal => return Some(format!("`{insn}` is privileged")),
        Status::Works => {}
    }
    let operands = insn.operands();
    if matches!(operands.rm, 5 | 6) {
        return Some(format!("`{insn}` has a reserved rounding mode"));
    }
    if row.class != Class::Csr {
        return None;
    }
    // csrrs and csrrc with x0 (or 0) only read.
    let writes = matches!(insn.word >> 12 & 3, 1) || insn.word >> 15 & 31 != 0;
    match csr::lookup(operands.csr) {
        None => Some(format!("`{insn}`: no such CSR in U-mode")),
        Some(csr) if csr.closed => Some(format!("`{insn}`: {} is closed to kernels", csr.name)),
        Some(csr) if csr.read_only() && writes => Some(format!("`{insn}` writes a read-only CSR")),
        Some(_) => None,
    }
}

fn undefined(word: u32) -> String {
    let compressed = is_compressed(word as u16);
    match (word & 0x7F, word >> 12 & 7) {
        _ if compressed && word & 3 != 1 && matches!(word >> 13 & 7, 1 | 5) => {
            "a compressed double-precision access; the chip has no D extension".into()
        }
        _ if compressed => "an undefined compressed instruction".into(),
        (0x2F, _) => "an instruction of the A extension; use the l and g atomics instead".into(),
        (0x07 | 0x27, 3) => "a double-precision access; the chip has no D extension".into(),
        (0x43 | 0x47 | 0x4B | 0x4F | 0x53, _) if word >> 25 & 3 != 0 => {
            "not single precision; the chip has no D, Q or Zfh extension".into()
        }
        _ => "an undefined instruction".into(),
    }
}

fn substitute(mnemonic: &str) -> &'static str {
    match mnemonic {
        "fdiv.s" | "fdiv.ps" => "; use frcp.ps and a Newton step, or compile with -mno-fdiv",
        "fsqrt.s" | "fsqrt.ps" | "frsq.ps" => "; use flog.ps and fexp.ps, or an integer seed and Newton steps",
        "fcvt.l.s" | "fcvt.lu.s" | "fcvt.s.l" | "fcvt.s.lu" => "; convert through 32 bits",
        "fsin.ps" => "; use a polynomial",
        "fence.i" => "; kernels cannot modify code",
        _ => "",
    }
}
