//! From code to instructions.

use std::sync::LazyLock;

use crate::compressed::expand;
use crate::form::Operands;
use crate::table::{Op, Row, TABLE};

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// Which instruction.
    pub op: Op,
    /// Its 32-bit form, also for compressed encodings.
    pub word: u32,
    /// Bytes it occupies, 2 or 4.
    pub len: u8,
}

impl Insn {
    /// Decodes the instruction at the start of `code`, of which at least four bytes (two for a compressed
    /// instruction) belong to it; upper bits that do not belong to it are ignored.
    pub fn decode(code: u32) -> Option<Insn> {
        if is_compressed(code as u16) {
            let word = expand(code as u16)?;
            Some(Insn { op: decode(word)?, word, len: 2 })
        } else {
            Some(Insn { op: decode(code)?, word: code, len: 4 })
        }
    }

    /// The operands.
    pub fn operands(&self) -> Operands {
        Operands::extract(self.op.row().form, self.word)
    }
}

/// Whether the instruction that begins with `half` is 16 bits long. All others are 32 bits long: the chip uses the
/// opcodes that standard RISC-V reserves for longer encodings.
pub const fn is_compressed(half: u16) -> bool {
    half & 3 != 3
}

/// Rows by opcode, f3 and funct7: most slots hold one, unary groups (told apart by rs2) up to sixteen.
struct Index {
    starts: Vec<u32>,
    rows: Vec<u16>,
}

const SLOTS: u32 = 1 << 15;

/// The bits that select a slot: 31:25, 14:12, 6:2.
const fn slot(word: u32) -> u32 {
    word >> 25 << 8 | (word >> 12 & 7) << 5 | (word >> 2 & 31)
}

const fn slot_word(slot: u32) -> u32 {
    slot >> 8 << 25 | (slot >> 5 & 7) << 12 | (slot & 31) << 2 | 3
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let selecting = slot_word(SLOTS - 1);
    let mut by_opcode: Vec<Vec<&Row>> = vec![Vec::new(); 32];
    for row in TABLE {
        by_opcode[(row.matches >> 2 & 31) as usize].push(row);
    }
    let mut index = Index { starts: Vec::with_capacity(SLOTS as usize + 1), rows: Vec::new() };
    for slot in 0..SLOTS {
        index.starts.push(index.rows.len() as u32);
        let word = slot_word(slot);
        let reachable = |row: &&&Row| (row.matches ^ word) & row.mask & selecting == 0;
        index.rows.extend(by_opcode[(slot & 31) as usize].iter().filter(reachable).map(|row| row.op as u16));
    }
    index.starts.push(index.rows.len() as u32);
    index
});

/// The instruction of a 32-bit word, or `None` if the encoding is undefined.
pub fn decode(word: u32) -> Option<Op> {
    if word & 3 != 3 {
        return None;
    }
    let index = &*INDEX;
    let slot = slot(word) as usize;
    index.rows[index.starts[slot] as usize..index.starts[slot + 1] as usize]
        .iter()
        .map(|&row| &TABLE[row as usize])
        .find(|row| word & row.mask == row.matches)
        .map(|row| row.op)
}
