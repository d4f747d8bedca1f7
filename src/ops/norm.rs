//! RMS_NORM, NORM, L2_NORM.

use super::common::{require, source, Command, Refusal};
use super::rows::lanes_fit;
use crate::command::{et_norm_params, ET_KERNEL_RMS_NORM, ET_L2_NORM, ET_NORM, ET_RMS_NORM};
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
