//! GET_ROWS, SET_ROWS.

use super::common::{block, require, row_unit, source, Command, Refusal};
use crate::command::{ET_KERNEL_GET_ROWS, ET_KERNEL_SET_ROWS, ET_LINE, ET_LINES_OWNED};
use crate::graph::{Node, Operand};
use ggml_abi::{Op, Type};

/// `prefix` and the name of an element type as one static string, for logs.
macro_rules! typed_name {
    ($prefix:literal, $ty:expr) => {
        match $ty {
            Type::F32 => concat!($prefix, "f32"),
            Type::F16 => concat!($prefix, "f16"),
            Type::BF16 => concat!($prefix, "bf16"),
            Type::Q8_0 => concat!($prefix, "q8_0"),
            Type::Q4_0 => concat!($prefix, "q4_0"),
            Type::Q4_1 => concat!($prefix, "q4_1"),
            Type::Q5_0 => concat!($prefix, "q5_0"),
            Type::Q5_1 => concat!($prefix, "q5_1"),
            Type::IQ4_NL => concat!($prefix, "iq4_nl"),
            Type::I32 => concat!($prefix, "i32"),
            _ => concat!($prefix, "other"),
        }
    };
}
pub(super) use typed_name;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    match node.op {
        Op::SetRows => set_rows(node),
        _ => get_rows(node),
    }
}

fn get_rows(node: &Node) -> Result<Command, Refusal> {
    let (src, rows) = (source(node, 0)?, source(node, 1)?);
    require(rows.ty == Type::I32, || format!("indices have type {}", rows.ty))?;
    let kept = src.ty == node.dst.ty && matches!(src.ty, Type::F32 | Type::I32);
    require(kept || (convertible(src.ty) && src.ty != Type::I32 && node.dst.ty == Type::F32), || {
        format!("no conversion from {} to {}", src.ty, node.dst.ty)
    })?;
    lanes_fit(src)?;
    lanes_fit(&node.dst)?;
    let mut command = Command::new(ET_KERNEL_GET_ROWS, typed_name!("get_rows_", src.ty), &node.dst, &[src, rows])?;
    command.raw.params.span.unit = unit(&node.dst, command.raw.dst.flags & ET_LINES_OWNED != 0);
    Ok(command)
}

fn set_rows(node: &Node) -> Result<Command, Refusal> {
    let (src, rows) = (source(node, 0)?, source(node, 1)?);
    require(matches!(rows.ty, Type::I32 | Type::I64), || format!("indices have type {}", rows.ty))?;
    let known = matches!(src.ty, Type::F32 | Type::F16) && convertible(node.dst.ty) && node.dst.ty != Type::I32;
    require(known, || format!("no conversion from {} to {}", src.ty, node.dst.ty))?;
    lanes_fit(src)?;
    lanes_fit(&node.dst)?;
    let mut command = Command::new(ET_KERNEL_SET_ROWS, typed_name!("set_rows_", node.dst.ty), &node.dst, &[src, rows])?;
    // Rows go to any place, so every single one has to have its lines for itself.
    let owned = row_unit(&node.dst) == Some(1);
    if !owned {
        command.raw.dst.flags &= !ET_LINES_OWNED;
    }
    command.raw.params.span.unit = unit(&node.dst, owned);
    Ok(command)
}

/// True for the types that the transfer kernels convert from and to F32.
pub(super) fn convertible(ty: Type) -> bool {
    matches!(
        ty,
        Type::F32
            | Type::F16
            | Type::BF16
            | Type::I32
            | Type::Q8_0
            | Type::Q4_0
            | Type::Q4_1
            | Type::Q5_0
            | Type::Q5_1
            | Type::IQ4_NL
    )
}

/// Refuses what a conversion can't address: blocks that do not adjoin, and elements so far apart that eight of them are
/// beyond the 32-bit offsets of gathers.
pub(super) fn lanes_fit(tensor: &Operand) -> Result<(), Refusal> {
    let (elements, bytes) = block(tensor.ty).ok_or_else(|| Refusal::new(format!("type {}", tensor.ty)))?;
    if elements > 1 {
        return require(tensor.nb[0] == bytes || tensor.ne[0] <= elements, || "blocks with gaps".to_owned());
    }
    require(tensor.nb[0] < 1 << 28, || format!("elements {} bytes apart", tensor.nb[0]))
}

/// Elements of `dst` that one hart takes together: whole blocks of both sides, and whole lines where the hart owns them.
pub(super) fn unit(dst: &Operand, owned: bool) -> u32 {
    let (elements, bytes) = block(dst.ty).unwrap_or((1, 1));
    let line = u64::from(ET_LINE);
    let shared = bytes & bytes.wrapping_neg(); // greatest power of two that divides an item
    let items = if owned { line / shared.min(line) } else { 1 };
    (items as u32 * elements as u32).max(32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_abi::Op;

    fn tensor(ty: Type, ne: [i64; 4]) -> Operand {
        let (elements, bytes) = block(ty).unwrap();
        let mut nb = [bytes; 4];
        nb[1] = bytes * ne[0] as u64 / elements as u64;
        nb[2] = nb[1] * ne[1] as u64;
        nb[3] = nb[2] * ne[2] as u64;
        Operand { addr: 0x80_1000_0000, ty, ne, nb, view: false }
    }

    fn node(op: Op, dst: Operand, src: [Operand; 2]) -> Node {
        let mut all = [const { None }; 10];
        for (slot, operand) in all.iter_mut().zip(src) {
            *slot = Some(operand);
        }
        Node { op, sub: None, name: String::new(), dst, src: all, params: [0; 16] }
    }

    #[test]
    fn units_are_whole_blocks_and_whole_lines() {
        for ty in [Type::F32, Type::F16, Type::Q8_0, Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::IQ4_NL] {
            let t = tensor(ty, [32, 1, 1, 1]);
            let (elements, bytes) = block(ty).unwrap();
            let n = u64::from(unit(&t, true));
            assert_eq!(n % 32, 0, "{ty}");
            assert_eq!(n / elements as u64 * bytes % u64::from(ET_LINE), 0, "{ty}");
            assert_eq!(unit(&t, false), 32, "{ty}");
        }
    }

    #[test]
    fn set_rows_owns_lines_only_where_every_row_does() {
        let rows = tensor(Type::I64, [2, 1, 1, 1]);
        let owned = |ty, width| {
            let src = tensor(Type::F32, [width, 2, 1, 1]);
            let node = node(Op::SetRows, tensor(ty, [width, 8, 1, 1]), [src, rows.clone()]);
            lower(&node).unwrap().raw.dst.flags & ET_LINES_OWNED != 0
        };
        assert!(owned(Type::F16, 192));
        assert!(!owned(Type::F16, 80));
        assert!(!owned(Type::Q8_0, 192));
        assert!(owned(Type::Q8_0, 1024));
    }

    #[test]
    fn get_rows_converts_to_f32_only() {
        let rows = tensor(Type::I32, [2, 1, 1, 1]);
        let ask = |from, to| {
            lower(&node(Op::GetRows, tensor(to, [64, 2, 1, 1]), [tensor(from, [64, 9, 1, 1]), rows.clone()])).is_ok()
        };
        assert!(ask(Type::Q5_1, Type::F32));
        assert!(ask(Type::I32, Type::I32));
        assert!(!ask(Type::F16, Type::F16));
        assert!(!ask(Type::I32, Type::F32));
    }
}
