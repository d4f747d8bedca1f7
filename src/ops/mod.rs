//! From graph nodes to commands: one file per operation family.
//!
//! [`lower`] is the only judge: `supports_op` is true exactly when it returns `Ok`.
//! A new operation is one line here, its family's `lower`, and its kernel.

pub mod common;
pub mod fuse;

mod binary;
mod copy;
mod elementwise;
mod flash_attn;
mod glu;
mod mul_mat;
mod norm;
mod rope;
mod rows;
mod scale;
mod soft_max;
mod sum_rows;
mod unary;

pub use common::{Command, Lowered, Refusal};

use crate::command::{et_command, ET_KERNEL_FLASH_ATTN, ET_KERNEL_MUL_MAT_TILE, ET_KERNEL_MUL_MAT_VEC, ET_KERNEL_ROPE};
use crate::graph::Node;
use ggml_abi::Op;

/// The command that computes `node`, or why the device can't.
pub fn lower(node: &Node) -> Result<Lowered, Refusal> {
    let family = match node.op {
        Op::None | Op::Reshape | Op::View | Op::Permute | Op::Transpose => return Ok(Lowered::Nothing),
        Op::Add | Op::Sub | Op::Mul | Op::Div => binary::lower,
        Op::Unary => unary::lower,
        Op::Glu => glu::lower,
        Op::Scale | Op::Clamp => scale::lower,
        Op::SumRows => sum_rows::lower,
        Op::RmsNorm | Op::Norm | Op::L2Norm => norm::lower,
        Op::GetRows | Op::SetRows => rows::lower,
        Op::Cpy | Op::Cont | Op::Dup => copy::lower,
        Op::MulMat => mul_mat::lower,
        Op::Rope | Op::RopeBack => rope::lower,
        Op::SoftMax => soft_max::lower,
        Op::FlashAttnExt => flash_attn::lower,
        other => return Err(Refusal::new(format!("{other} has no kernel"))),
    };
    // The family is asked even about an empty result, so that the answer does not depend on how full a tensor is.
    let command = family(node)?;
    Ok(if node.dst.is_empty() { Lowered::Nothing } else { Lowered::Command(Box::new(command)) })
}

/// How a kernel uses scratchpad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scratch {
    /// Not at all.
    #[default]
    None,
    /// Each hart its own part.
    Own,
    /// Harts also use parts of others.
    Shared,
}

/// How the kernel of `command` uses scratchpad.
pub fn scratch(command: &et_command) -> Scratch {
    match command.kernel {
        ET_KERNEL_MUL_MAT_VEC | ET_KERNEL_MUL_MAT_TILE | ET_KERNEL_FLASH_ATTN => Scratch::Shared,
        ET_KERNEL_ROPE => Scratch::Own,
        _ => Scratch::None,
    }
}
