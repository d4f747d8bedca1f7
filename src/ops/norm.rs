//! RMS_NORM, NORM, L2_NORM.

use super::common::{require, source, Command, Refusal};
use super::elementwise::{continues, is_dense};
use super::rows::lanes_fit;
use crate::command::{et_norm_params, ET_KERNEL_BINARY, ET_KERNEL_RMS_NORM, ET_L2_NORM, ET_NORM, ET_RMS_NORM};
use crate::graph::plan::Item;
use crate::graph::Node;
use ggml_abi::{Op, Type};

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let x = source(node, 0)?;
    let (op, name) = match node.op {
        Op::Norm => (ET_NORM, "norm_f32"),
        Op::L2Norm => (ET_L2_NORM, "l2_norm_f32"),
        _ => (ET_RMS_NORM, "rms_norm_f32"),
    };
    require(x.ty == Type::F32 && node.dst.ty == Type::F32, || format!("src0 has type {}", x.ty))?;
    require(x.ne == node.dst.ne, || "src0 differs in shape from the result".to_owned())?;
    lanes_fit(x)?;
    lanes_fit(&node.dst)?;
    let mut command = Command::new(ET_KERNEL_RMS_NORM, name, &node.dst, &[x])?;
    command.raw.params.norm = et_norm_params { op, eps: node.param_f32(0) };
    Ok(command)
}

/// How many of `items`, from the first on, the kernel does in one call: a norm, perhaps with the sum that it is taken of,
/// a product of it, and a sum of that. 0: no norm, or it stands alone.
pub(super) fn group(items: &[Item]) -> usize {
    let lead = usize::from(items.first().is_some_and(|item| item.node.op == Op::Add));
    let Some(norm) = items.get(lead) else { return 0 };
    if norm.command.raw.kernel != ET_KERNEL_RMS_NORM || !is_dense(&norm.command.raw) {
        return 0;
    }
    let joins = |count: usize, op: Op| {
        let Some(item) = items.get(count) else { return false };
        let (raw, rows) = (&item.command.raw, &norm.command.raw);
        // Its rows are the norm's, or all in one.
        let rows_fit = raw.dst.ne[0] > rows.dst.ne[0] || raw.row_unit <= rows.row_unit;
        item.node.op == op
            && raw.kernel == ET_KERNEL_BINARY
            && is_dense(raw)
            && item.node.dst.ne == norm.node.dst.ne
            && rows_fit
    };
    if lead > 0 && !(joins(0, Op::Add) && continues(&items[..2])) {
        return 0;
    }
    let mut count = lead + 1;
    for op in [Op::Mul, Op::Add] {
        if joins(count, op) && continues(&items[..count + 1]) {
            count += 1;
        } else {
            break;
        }
    }
    if count > 1 {
        count
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::elementwise::tests::{item, numbered};
    use super::*;

    #[test]
    fn a_norm_takes_its_neighbours_along() {
        let shape = [576, 3, 1, 1];
        let [a, b, sum, y, z] = [0, 1, 2, 3, 4].map(|number| numbered(number, shape));
        let (weights, bias) = (numbered(5, [576, 1, 1, 1]), numbered(6, [576, 1, 1, 1]));
        let add = item(Op::Add, &sum, &[&a, &b]);
        let norm = item(Op::RmsNorm, &y, &[&sum]);
        let mul = item(Op::Mul, &z, &[&y, &weights]);
        let after = item(Op::Add, &z, &[&z, &bias]);
        let items = [add, norm, mul, after];
        assert_eq!(group(&items), 4);
        assert_eq!(group(&items[..2]), 2);
        assert_eq!(group(&items[1..]), 3);
        assert_eq!(group(&items[1..2]), 0, "alone");
        assert_eq!(group(&items[2..]), 0, "no norm");
    }

    #[test]
    fn strangers_stay_outside() {
        let shape = [576, 3, 1, 1];
        let [x, y, z] = [0, 1, 2].map(|number| numbered(number, shape));
        let norm = item(Op::RmsNorm, &y, &[&x]);
        let with = |second: Item| group(&[norm.clone(), second]);
        assert_eq!(with(item(Op::Mul, &z, &[&y, &numbered(5, [1, 1, 1, 1])])), 2);
        assert_eq!(with(item(Op::Mul, &z, &[&x, &numbered(5, [576, 1, 1, 1])])), 0, "not of the norm");
        assert_eq!(with(item(Op::Mul, &z, &[&y, &numbered(5, [64, 1, 1, 1])])), 0, "repeated along the row");
        assert_eq!(with(item(Op::Sub, &z, &[&y, &x])), 0);
    }
}
