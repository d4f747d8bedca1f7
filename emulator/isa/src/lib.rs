//! The instructions of an ET-SoC-1 compute hart in U-mode: RV64IMFC and the ET extensions.
//!
//! [`table`] is the one list; the decoder, encoder, disassembler, the assembler include and the check for
//! instructions that the chip does not execute all come from it. Semantics live in `et-emulator`. Sections in the
//! documentation are those of the project's ISA fact sheet.

#![forbid(unsafe_code)]

pub mod check;
mod compressed;
pub mod csr;
mod decode;
pub mod form;
pub mod include;
pub mod table;
pub mod text;

pub use check::{check, Forbidden};
pub use compressed::expand;
pub use decode::{decode, is_compressed, Insn};
pub use form::Operands;
pub use include::assembler_include;
pub use table::{Class, Op, Row, Status, TABLE};

/// The word of `op` with `operands`; `None` if a value does not fit its field.
pub fn encode(op: Op, operands: &Operands) -> Option<u32> {
    let row = op.row();
    Some(row.matches | operands.insert(row.form)?)
}
