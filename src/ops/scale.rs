//! SCALE, CLAMP.

use super::common::{source, Command, Refusal};
use super::elementwise;
use super::rows::typed_name;
use crate::command::{et_clamp_params, et_scale_params, ET_KERNEL_CLAMP, ET_KERNEL_SCALE};
use crate::graph::Node;
use ggml_abi::{Op, Type};

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let x = source(node, 0)?;
    let (first, second) = (node.param_f32(0), node.param_f32(1));
    let ty = node.dst.ty;
    if node.op == Op::Clamp {
        let mut command = elementwise::command(ET_KERNEL_CLAMP, typed_name!("clamp_", ty), &node.dst, &[x])?;
        command.raw.params.clamp = et_clamp_params { min: first, max: second };
        return Ok(command);
    }
    let mut command = elementwise::command(ET_KERNEL_SCALE, typed_name!("scale_", ty), &node.dst, &[x])?;
    command.raw.params.scale = et_scale_params { scale: first, bias: second };
    Ok(command)
}
