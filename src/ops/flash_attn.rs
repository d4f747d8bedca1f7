//! FLASH_ATTN_EXT.

use super::common::{operand, require, source, Command, Refusal};
use super::soft_max::{alibi, require_mask, require_sinks};
use crate::command::{et_flash_attn_params, ET_KERNEL_FLASH_ATTN};
use crate::graph::{Node, Operand};
use ggml_abi::Type;

/// Elements of a head of K and V together: a row of Q, O and S must fit the scratchpad.
const MAX_HEAD: i64 = 4096;

/// Minions of the largest chip: no more ranges of keys are worked on at once.
const MAX_MINIONS: i64 = 1024;

/// Least keys of a range, most rows of a block, most ranges: as in the kernel.
const SPLIT_KEYS: i64 = 32;
const ROWS_MAX: i64 = 64;
const SPLITS_MAX: i64 = 256;

/// Partial results are for the few rows of single tokens; they take no more memory than this.
const MAX_WORKSPACE: i64 = 32 << 20;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (dst, q, k, v) = (&node.dst, source(node, 0)?, source(node, 1)?, source(node, 2)?);
    require(q.ty == Type::F32 && dst.ty == Type::F32, || format!("queries of type {}", q.ty))?;
    require(q.nb[0] == 4 && dst.nb[0] == 4, || "elements of a row are not adjacent".to_owned())?;
    let kernel = kv_kernel(k)?;
    kv_kernel(v)?;
    let heads_fit = k.ne[2] > 0 && v.ne[2] > 0 && q.ne[2] % k.ne[2] == 0 && q.ne[2] % v.ne[2] == 0;
    require(heads_fit, || format!("{} heads over {} of K and {} of V", q.ne[2], k.ne[2], v.ne[2]))?;
    let shapes_fit = k.ne[0] == q.ne[0] && k.ne[1] == v.ne[1] && k.ne[3] == q.ne[3] && v.ne[3] == q.ne[3];
    let dst_fits = dst.ne == [v.ne[0], q.ne[2], q.ne[1], q.ne[3]];
    require(shapes_fit && dst_fits, || "shapes of Q, K, V and the result differ".to_owned())?;
    require(q.ne[0] + v.ne[0] <= MAX_HEAD, || format!("heads of {} and {} elements", q.ne[0], v.ne[0]))?;

    let mut command = Command::new(ET_KERNEL_FLASH_ATTN, kernel, dst, &[q, k, v])?;
    if let Some(mask) = &node.src[3] {
        require_mask(mask, [k.ne[1], q.ne[1], q.ne[2], q.ne[3]], &[Type::F16])?;
        command.raw.src[3] = operand(mask)?;
        command.raw.sources = 4;
    }
    if let Some(sinks) = &node.src[4] {
        require_sinks(sinks, q.ne[2])?;
        command.raw.src[4] = operand(sinks)?;
        command.raw.sources = 5;
    }
    let (scale, softcap) = (node.param_f32(0), node.param_f32(2));
    command.raw.params.flash_attn = et_flash_attn_params {
        scale: if softcap == 0.0 { scale } else { scale / softcap },
        softcap,
        alibi: alibi(q.ne[2], node.param_f32(1)),
    };
    command.workspace = workspace(q, k, v);
    Ok(command)
}

/// The kernel's name in logs, by the type of K; a refusal for types that it does not read.
fn kv_kernel(kv: &Operand) -> Result<&'static str, Refusal> {
    let (name, block) = match kv.ty {
        Type::F32 => ("flash_attn_ext_f32", 4),
        Type::F16 => ("flash_attn_ext_f16", 2),
        Type::BF16 => ("flash_attn_ext_bf16", 2),
        Type::Q8_0 => ("flash_attn_ext_q8_0", 34),
        Type::Q4_0 => ("flash_attn_ext_q4_0", 18),
        Type::Q4_1 => ("flash_attn_ext_q4_1", 20),
        Type::Q5_0 => ("flash_attn_ext_q5_0", 22),
        Type::Q5_1 => ("flash_attn_ext_q5_1", 24),
        Type::IQ4_NL => ("flash_attn_ext_iq4_nl", 18),
        other => return Err(Refusal::new(format!("keys or values of type {other}"))),
    };
    require(kv.nb[0] == block, || "elements of a row are not adjacent".to_owned())?;
    Ok(name)
}

/// Bytes for partial results, one per row and range of keys, where there may be fewer blocks of rows than minions.
fn workspace(q: &Operand, k: &Operand, v: &Operand) -> u64 {
    let rows = q.ne[1] * q.ne[2] * q.ne[3];
    let blocks = rows.max(1).div_ceil_by(ROWS_MAX);
    let row = 64 + v.ne[0].div_ceil_by(16) * 64;
    let splits = (MAX_MINIONS / blocks).min(k.ne[1].div_ceil_by(SPLIT_KEYS)).min(SPLITS_MAX);
    let splits = splits.min(MAX_WORKSPACE / (rows.max(1) * row));
    if splits < 2 {
        return 0;
    }
    (rows * splits * row) as u64
}

/// Rounded-up division of sizes, which are never negative.
trait DivCeil {
    fn div_ceil_by(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_by(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_abi::Op;

    fn tensor(ty: Type, size: u64, ne: [i64; 4]) -> Operand {
        let mut nb = [size; 4];
        for i in 1..4 {
            nb[i] = nb[i - 1] * ne[i - 1] as u64;
        }
        Operand { addr: 0, ty, ne, nb, view: false }
    }

    fn node(tokens: i64, keys: i64) -> Node {
        let mut src: [Option<Operand>; 10] = Default::default();
        src[0] = Some(tensor(Type::F32, 4, [64, tokens, 9, 1]));
        src[1] = Some(tensor(Type::F16, 2, [64, keys, 3, 1]));
        src[2] = Some(tensor(Type::F16, 2, [48, keys, 3, 1]));
        let dst = tensor(Type::F32, 4, [48, 9, tokens, 1]);
        Node { op: Op::FlashAttnExt, sub: None, name: String::new(), dst, src, params: [0; 16] }
    }

    #[test]
    fn only_few_rows_get_a_workspace() {
        let decode = lower(&node(1, 1024)).expect("supported");
        assert_eq!(decode.workspace, 9 * 32 * (64 + 192));
        assert_eq!(lower(&node(1, 32)).expect("supported").workspace, 0);
        assert_eq!(lower(&node(8192, 8192)).expect("supported").workspace, 0);
    }

    #[test]
    fn heads_must_divide() {
        let mut n = node(1, 64);
        n.src[2] = Some(tensor(Type::F16, 2, [48, 64, 2, 1]));
        assert!(lower(&n).is_err());
        n.src[2] = Some(tensor(Type::F16, 2, [48, 64, 9, 1]));
        assert!(lower(&n).is_ok());
    }

    #[test]
    fn sinks_keep_their_slot_without_a_mask() {
        let mut n = node(1, 64);
        n.src[4] = Some(tensor(Type::F32, 4, [9, 1, 1, 1]));
        let command = lower(&n).expect("supported");
        assert_eq!((command.raw.sources, command.raw.src[3].ne[0], command.raw.src[4].ne[0]), (5, 0, 9));
    }
}
