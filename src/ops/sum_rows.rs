//! SUM_ROWS.

use super::common::{require, source, Command, Refusal};
use super::rows::lanes_fit;
use crate::command::{ET_KERNEL_SUM_ROWS, ET_LINES_OWNED};
use crate::graph::Node;
use ggml_abi::Type;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let x = source(node, 0)?;
    require(x.ty == Type::F32 && node.dst.ty == Type::F32, || format!("src0 has type {}", x.ty))?;
    require(node.dst.ne[0] == 1 && node.dst.ne[1..] == x.ne[1..], || "the result is no column of sums".to_owned())?;
    lanes_fit(x)?;
    let mut command = Command::new(ET_KERNEL_SUM_ROWS, "sum_rows_f32", &node.dst, &[x])?;
    // Sums are few and go to L3 one by one: a line of them for each hart would leave most harts idle.
    command.raw.row_unit = 1;
    command.raw.dst.flags &= !ET_LINES_OWNED;
    Ok(command)
}
