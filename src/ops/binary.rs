//! ADD, SUB, MUL, DIV.

use super::common::{source, Command, Refusal};
use super::elementwise;
use super::rows::typed_name;
use crate::command::{ET_ADD, ET_DIV, ET_KERNEL_BINARY, ET_MUL, ET_SUB};
use crate::graph::Node;
use ggml_abi::{Op, Type};

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (a, b) = (source(node, 0)?, source(node, 1)?);
    let (op, name) = match node.op {
        Op::Add => (ET_ADD, typed_name!("add_", node.dst.ty)),
        Op::Sub => (ET_SUB, typed_name!("sub_", node.dst.ty)),
        Op::Mul => (ET_MUL, typed_name!("mul_", node.dst.ty)),
        _ => (ET_DIV, typed_name!("div_", node.dst.ty)),
    };
    let mut command = elementwise::command(ET_KERNEL_BINARY, name, &node.dst, &[a, b])?;
    command.raw.params.binary.op = op;
    Ok(command)
}
