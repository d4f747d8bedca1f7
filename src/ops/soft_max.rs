//! SOFT_MAX, and what it shares with FLASH_ATTN_EXT.

use super::common::{operand, require, source, Command, Refusal};
use crate::command::{et_alibi, et_soft_max_params, ET_KERNEL_SOFT_MAX};
use crate::graph::{Node, Operand};
use ggml_abi::Type;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (dst, src) = (&node.dst, source(node, 0)?);
    require(src.ty == Type::F32 && dst.ty == Type::F32, || format!("logits of type {}", src.ty))?;
    require(src.nb[0] == 4 && dst.nb[0] == 4, || "elements of a row are not adjacent".to_owned())?;

    let mut command = Command::new(ET_KERNEL_SOFT_MAX, "softmax_f32", dst, &[src])?;
    if let Some(mask) = &node.src[1] {
        require_mask(mask, src.ne, &[Type::F32, Type::F16])?;
        command.raw.src[1] = operand(mask)?;
        command.raw.sources = 2;
    }
    if let Some(sinks) = &node.src[2] {
        require_sinks(sinks, src.ne[2])?;
        command.raw.src[2] = operand(sinks)?;
        command.raw.sources = 3;
    }
    command.raw.params.soft_max =
        et_soft_max_params { scale: node.param_f32(0), alibi: alibi(src.ne[2], node.param_f32(1)) };
    Ok(command)
}

/// Refuses a mask that does not cover logits of `ne` elements, dimensions 2 and 3 being broadcast by repetition.
pub(super) fn require_mask(mask: &Operand, ne: [i64; 4], types: &[Type]) -> Result<(), Refusal> {
    require(types.contains(&mask.ty), || format!("a mask of type {}", mask.ty))?;
    let size = if mask.ty == Type::F16 { 2 } else { 4 };
    let covers = mask.nb[0] == size && mask.ne[0] >= ne[0] && mask.ne[1] >= ne[1] && mask.ne[2] > 0 && mask.ne[3] > 0;
    require(covers, || "the mask does not cover the logits".to_owned())
}

/// Refuses sinks that are not one F32 for each of `heads` heads.
pub(super) fn require_sinks(sinks: &Operand, heads: i64) -> Result<(), Refusal> {
    require(sinks.ty == Type::F32 && sinks.ne[0] >= heads, || "unusual sinks".to_owned())
}

/// ALiBi's slopes for `heads` heads; none unless `max_bias` is positive.
pub(super) fn alibi(heads: i64, max_bias: f32) -> et_alibi {
    let lower = 1u32 << u64::try_from(heads).unwrap_or(0).max(1).ilog2().min(31);
    et_alibi { log2_slope: if max_bias > 0.0 { -max_bias / lower as f32 } else { 0.0 }, heads: lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_start_from_the_power_of_two_below() {
        let twelve = alibi(12, 8.0);
        assert_eq!((twelve.heads, twelve.log2_slope), (8, -1.0));
        assert_eq!(alibi(1, 8.0).log2_slope, -8.0);
        assert_eq!(alibi(12, 0.0).log2_slope, 0.0);
    }

    #[test]
    fn masks_must_cover_the_logits() {
        let mask = |ty, ne| Operand { addr: 0, ty, ne, nb: [2, 64, 640, 640], view: false };
        assert!(require_mask(&mask(Type::F16, [32, 10, 1, 1]), [32, 4, 8, 2], &[Type::F16]).is_ok());
        assert!(require_mask(&mask(Type::F16, [32, 3, 1, 1]), [32, 4, 8, 2], &[Type::F16]).is_err());
        assert!(require_mask(&mask(Type::F32, [32, 10, 1, 1]), [32, 4, 8, 2], &[Type::F16]).is_err());
    }
}
