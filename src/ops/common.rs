//! What every lowering shares: the command under construction, refusals, and operands in the device's form.

use crate::command::{et_command, et_tensor};
use crate::command::{ET_BF16, ET_F16, ET_F32, ET_I16, ET_I32, ET_I64, ET_I8};
use crate::command::{ET_IQ4_NL, ET_Q4_0, ET_Q4_1, ET_Q5_0, ET_Q5_1, ET_Q8_0};
use crate::command::{ET_LINE, ET_LINES_OWNED, ET_SOURCES_MAX};
use crate::graph::{Node, Operand};
use ggml_abi::Type;

/// Why an operation stays on the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One clause for a person, such as "src1 has type q4_K".
    pub reason: String,
}

impl Refusal {
    /// A refusal for `reason`.
    pub fn new(reason: impl Into<String>) -> Refusal {
        Refusal { reason: reason.into() }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refusal {}

/// What a node becomes.
#[derive(Clone)]
pub enum Lowered {
    /// No work: views, and results without elements.
    Nothing,
    /// One call of one kernel.
    Command(Box<Command>),
}

/// One call of one kernel. Launching fills in the workspace's address and the operands' `ET_REFRESH`.
#[derive(Clone)]
pub struct Command {
    /// What the device reads.
    pub raw: et_command,
    /// The kernel's name in logs, such as `rope_f32`.
    pub kernel: &'static str,
    /// Bytes of scratch memory in DRAM that the call needs, shared by all harts; its content is undefined at entry.
    pub workspace: u64,
}

impl Command {
    /// A call of `kernel` (an `ET_KERNEL_*` number), named `name` in logs, that writes `dst` and reads `sources` in the
    /// given order. Parameters are all zero; `row_unit` and `ET_LINES_OWNED` are set from `dst`.
    pub fn new(kernel: u32, name: &'static str, dst: &Operand, sources: &[&Operand]) -> Result<Command, Refusal> {
        if sources.len() > ET_SOURCES_MAX as usize {
            return Err(Refusal::new(format!("{} sources", sources.len())));
        }
        let mut raw = et_command { kernel, sources: sources.len() as u32, ..Default::default() };
        raw.dst = operand(dst)?;
        raw.row_unit = row_unit(dst).unwrap_or(1);
        if row_unit(dst).is_some() {
            raw.dst.flags |= ET_LINES_OWNED;
        }
        for (slot, source) in raw.src.iter_mut().zip(sources) {
            *slot = operand(source)?;
        }
        Ok(Command { raw, kernel: name, workspace: 0 })
    }
}

/// Source `i` of `node`, or a refusal.
pub fn source(node: &Node, i: usize) -> Result<&Operand, Refusal> {
    node.src[i].as_ref().ok_or_else(|| Refusal::new(format!("src{i} is missing")))
}

/// Refuses with `reason()` unless `holds`.
pub fn require(holds: bool, reason: impl FnOnce() -> String) -> Result<(), Refusal> {
    if holds {
        Ok(())
    } else {
        Err(Refusal::new(reason()))
    }
}

/// The device's number for an element type (`ET_F32`, ...), or a refusal.
pub fn et_type(ty: Type) -> Result<u32, Refusal> {
    Ok(match ty {
        Type::F32 => ET_F32,
        Type::F16 => ET_F16,
        Type::BF16 => ET_BF16,
        Type::Q8_0 => ET_Q8_0,
        Type::Q4_0 => ET_Q4_0,
        Type::Q4_1 => ET_Q4_1,
        Type::Q5_0 => ET_Q5_0,
        Type::Q5_1 => ET_Q5_1,
        Type::IQ4_NL => ET_IQ4_NL,
        Type::I8 => ET_I8,
        Type::I16 => ET_I16,
        Type::I32 => ET_I32,
        Type::I64 => ET_I64,
        other => return Err(Refusal::new(format!("type {other} has no kernel"))),
    })
}

/// Elements and bytes of one block of `ty`; `None` for the types that the device does not know.
pub fn block(ty: Type) -> Option<(i64, u64)> {
    Some(match ty {
        Type::F32 | Type::I32 => (1, 4),
        Type::F16 | Type::BF16 | Type::I16 => (1, 2),
        Type::I64 => (1, 8),
        Type::I8 => (1, 1),
        Type::Q8_0 => (32, 34),
        Type::Q4_0 | Type::IQ4_NL => (32, 18),
        Type::Q4_1 => (32, 20),
        Type::Q5_0 => (32, 22),
        Type::Q5_1 => (32, 24),
        _ => return None,
    })
}

/// `tensor` in the device's form, without flags. Refuses types and sizes that it can't express.
pub fn operand(tensor: &Operand) -> Result<et_tensor, Refusal> {
    let mut ne = [0; 4];
    for (to, &from) in ne.iter_mut().zip(&tensor.ne) {
        *to = u32::try_from(from).map_err(|_| Refusal::new(format!("a dimension of {from} elements")))?;
    }
    Ok(et_tensor { addr: tensor.addr, type_: et_type(tensor.ty)?, flags: 0, ne, nb: tensor.nb })
}

/// The least number of consecutive rows (flattened over dimensions 1 to 3) that together share no cache line with any
/// other byte in use, or `None` when there is none: then `ET_LINES_OWNED` stays clear.
///
/// Tensors that are no views own the lines up to the next 256-byte boundary, the buffers' alignment.
pub fn row_unit(dst: &Operand) -> Option<u32> {
    let line = u64::from(ET_LINE);
    let row = dst.row_bytes()?;
    if !dst.addr.is_multiple_of(line) {
        return None;
    }
    if dst.is_contiguous() {
        let total = row.checked_mul(dst.rows() as u64)?;
        // As many rows as bring the greatest power of two that divides a row up to a line.
        let unit = ET_LINE >> row.trailing_zeros().min(ET_LINE.trailing_zeros());
        return (total % line == 0 || !dst.view).then_some(unit);
    }
    let (_, block) = dst.block()?;
    let dense_rows = dst.nb[0] == block && row % line == 0;
    let aligned = dst.ne[1..].iter().zip(&dst.nb[1..]).all(|(&ne, &nb)| ne == 1 || (nb % line == 0 && nb >= row));
    (dense_rows && aligned).then_some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(ne: [i64; 4]) -> Operand {
        let mut nb = [4; 4];
        for i in 1..4 {
            nb[i] = nb[i - 1] * ne[i - 1] as u64;
        }
        Operand { addr: 0x80_1000_0000, ty: Type::F32, ne, nb, view: false }
    }

    #[test]
    fn rows_are_grouped_until_no_line_is_shared() {
        assert_eq!(row_unit(&f32s([16, 3, 1, 1])), Some(1));
        assert_eq!(row_unit(&f32s([64, 3, 1, 1])), Some(1));
        assert_eq!(row_unit(&f32s([8, 3, 1, 1])), Some(2));
        assert_eq!(row_unit(&f32s([1, 3, 1, 1])), Some(16));
        assert_eq!(row_unit(&f32s([36, 3, 1, 1])), Some(4));
    }

    #[test]
    fn edges_of_views_belong_to_others() {
        let mut t = f32s([10, 3, 1, 1]);
        assert_eq!(row_unit(&t), Some(8));
        t.view = true;
        assert_eq!(row_unit(&t), None);
        t.addr += 4;
        t.view = false;
        assert_eq!(row_unit(&t), None);
    }

    #[test]
    fn strided_rows_need_whole_lines() {
        let mut t = f32s([16, 3, 1, 1]);
        t.nb[1] = 256;
        t.view = true;
        assert_eq!(row_unit(&t), Some(1));
        t.ne[0] = 15;
        assert_eq!(row_unit(&t), None);
    }

    #[test]
    fn sizes_beyond_32_bits_are_refused() {
        let mut t = f32s([1, 1, 1, 1]);
        t.ne[1] = 1 << 33;
        assert!(operand(&t).is_err());
        t.ne[1] = 1;
        t.ty = Type::Q4_K;
        assert_eq!(operand(&t).unwrap_err().reason, "type q4_K has no kernel");
    }
}
