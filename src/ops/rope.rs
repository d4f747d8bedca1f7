//! ROPE, ROPE_BACK.

use super::common::{require, source, Command, Refusal};
use crate::command::{et_rope_params, ET_KERNEL_ROPE, ET_KERNEL_SET_ROWS, ET_LINES_OWNED};
use crate::command::{ET_ROPE_ADJACENT, ET_ROPE_HALVES};
use crate::command::{ET_ROPE_INTERLEAVED, ET_ROPE_ONE, ET_ROPE_SECTIONS, ET_ROPE_SECTIONS_RESTART};
use crate::graph::pieces::meet;
use crate::graph::plan::Item;
use crate::graph::Node;
use ggml_abi::{Op, Type};

// ggml.h: GGML_ROPE_TYPE_*
const NORMAL: i32 = 0;
const NEOX: i32 = 2;
const MROPE: i32 = 8;
const VISION: i32 = 24;
const IMROPE: i32 = 40;

/// Two tables of at most two floats per pair must fit a hart's scratchpad.
const MAX_PAIRS: i64 = 2000;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (dst, src, positions) = (&node.dst, source(node, 0)?, source(node, 1)?);
    let (name, size) = match dst.ty {
        Type::F32 => ("rope_f32", 4),
        Type::F16 => ("rope_f16", 2),
        // The CPU backend has no such thing, but a context shift rotates a BF16 cache in place, here or nowhere.
        Type::BF16 => ("rope_bf16", 2),
        other => return Err(Refusal::new(format!("type {other} is not rotated"))),
    };
    require(src.ty == dst.ty && positions.ty == Type::I32, || "mixed types".to_owned())?;
    require(src.nb[0] == size && dst.nb[0] == size, || "elements of a row are not adjacent".to_owned())?;
    let params = params(node)?;
    let mut sources = vec![src, positions];
    if let Some(factors) = &node.src[2] {
        require(factors.ty == Type::F32 && factors.nb[0] == 4, || "unusual frequency factors".to_owned())?;
        require(factors.ne[0] >= i64::from(params.pairs), || "too few frequency factors".to_owned())?;
        sources.push(factors);
    }
    let mut command = Command::new(ET_KERNEL_ROPE, name, dst, &sources)?;
    command.raw.params.rope = params;
    Ok(command)
}

/// Whether the second one stores the whole rotated tensor in rows of a cache, each of which is made up of whole rotated
/// rows.
pub(super) fn is_stored(items: &[Item]) -> bool {
    let [rope, set, ..] = items else { return false };
    let (dst, Some(rows), Some(places)) = (&rope.node.dst, &set.node.src[0], &set.node.src[1]) else { return false };
    let block = set.node.dst.block().map_or(i64::MAX, |(elements, _)| elements);
    rope.command.raw.kernel == ET_KERNEL_ROPE
        && rope.command.raw.dst.flags & ET_LINES_OWNED != 0
        && set.command.raw.kernel == ET_KERNEL_SET_ROWS
        && dst.ty == Type::F32
        && dst.is_contiguous()
        && rows.addr == dst.addr
        && rows.ty == dst.ty
        && rows.is_contiguous()
        && rows.elements() == dst.elements()
        && rows.ne[2..] == [1, 1]
        && rows.ne[0] % dst.ne[0] == 0
        && dst.ne[0] % block == 0
        && !meet((places.addr, places.span()), (dst.addr, dst.span()))
}

fn params(node: &Node) -> Result<et_rope_params, Refusal> {
    let row = node.dst.ne[0];
    let (n_dims, mode, offset) = (i64::from(node.param_i32(1)), node.param_i32(2), i64::from(node.param_i32(15)));
    let (pairing, axes) = match mode {
        NORMAL => (ET_ROPE_ADJACENT, ET_ROPE_ONE),
        NEOX => (ET_ROPE_HALVES, ET_ROPE_ONE),
        MROPE => (ET_ROPE_HALVES, ET_ROPE_SECTIONS),
        VISION => (ET_ROPE_HALVES, ET_ROPE_SECTIONS_RESTART),
        IMROPE => (ET_ROPE_HALVES, ET_ROPE_INTERLEAVED),
        other => return Err(Refusal::new(format!("unknown mode {other:#x}"))),
    };
    let pairs = if mode == VISION { row / 2 } else { n_dims / 2 };
    let fits = n_dims > 0 && n_dims % 2 == 0 && offset >= 0 && offset + 2 * pairs <= row;
    require(fits, || format!("{n_dims} dimensions from {offset} on in rows of {row}"))?;
    require(pairs <= MAX_PAIRS, || format!("{pairs} pairs"))?;
    let sections = [11, 12, 13, 14].map(|i| node.param_i32(i).max(0) as u32);
    require(axes == ET_ROPE_ONE || sections.iter().any(|&s| s > 0), || "no sections".to_owned())?;

    let direction = if node.op == Op::RopeBack { -1.0 } else { 1.0 };
    let yarn = Yarn::new(node, n_dims as f32);
    Ok(et_rope_params {
        pairing,
        axes,
        pairs: pairs as u32,
        offset: offset as u32,
        // The powf of the host's C library, as the CPU backend uses it: an angle at a large position shows the last bit.
        theta_scale: node.param_f32(5).powf(-2.0 / n_dims as f32),
        freq_scale: node.param_f32(6),
        ext_factor: node.param_f32(7),
        ramp_low: yarn.low,
        ramp_range: yarn.range,
        cos_magnitude: yarn.magnitude,
        sin_magnitude: direction * yarn.magnitude,
        sections,
    })
}

/// YaRN: where the ramp between extrapolated and interpolated pairs lies, and the factor of the result.
struct Yarn {
    low: f32,
    range: f32,
    magnitude: f32,
}

impl Yarn {
    fn new(node: &Node, n_dims: f32) -> Yarn {
        let (n_ctx_orig, freq_base) = (node.param_i32(4) as f32, node.param_f32(5));
        let (freq_scale, ext_factor, attn_factor) = (node.param_f32(6), node.param_f32(7), node.param_f32(8));
        // The pair that turns `rotations` times within the original context.
        let pair = |rotations: f32| {
            n_dims * (n_ctx_orig / (rotations * 2.0 * std::f32::consts::PI)).ln() / (2.0 * freq_base.ln())
        };
        let low = pair(node.param_f32(9)).floor().max(0.0);
        let high = pair(node.param_f32(10)).ceil().min(n_dims - 1.0);
        let correction = if ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * (1.0 / freq_scale).ln() };
        Yarn { low, range: (high - low).max(0.001), magnitude: attn_factor * correction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Operand;

    fn node(mode: i32, n_dims: i32, offset: i32) -> Node {
        let tensor = |ty, ne: [i64; 4], size: u64| {
            let mut nb = [size; 4];
            for i in 1..4 {
                nb[i] = nb[i - 1] * ne[i - 1] as u64;
            }
            Operand { addr: 0, ty, ne, nb, view: false }
        };
        let mut src: [Option<Operand>; 10] = Default::default();
        src[0] = Some(tensor(Type::F32, [64, 2, 3, 1], 4));
        src[1] = Some(tensor(Type::I32, [12, 1, 1, 1], 4));
        let mut params = [0; 16];
        params[1] = n_dims;
        params[2] = mode;
        params[5] = 10000f32.to_bits() as i32;
        params[6] = 1f32.to_bits() as i32;
        params[8] = 1f32.to_bits() as i32;
        params[11] = 8;
        params[15] = offset;
        Node { op: Op::Rope, sub: None, name: String::new(), dst: src[0].clone().unwrap(), src, params }
    }

    fn params(node: &Node) -> et_rope_params {
        lower(node).expect("supported");
        super::params(node).expect("supported")
    }

    #[test]
    fn rotated_rows_go_to_the_cache_in_one_call() {
        use super::super::elementwise::tests::numbered;
        use crate::ops::Lowered;
        let as_item = |node: Node| {
            let Ok(Lowered::Command(command)) = crate::ops::lower(&node) else { panic!("{} is refused", node.op) };
            Item { node: Box::new(node), index: 0, command }
        };
        let mut rotated = node(NEOX, 64, 0);
        rotated.dst = numbered(1, [64, 2, 3, 1]);
        let stored = |rows: Operand| {
            let mut cache = numbered(2, [rows.ne[0], 16, 1, 1]);
            (cache.ty, cache.nb) = (Type::F16, cache.nb.map(|bytes| bytes / 2));
            let places = Operand { ty: Type::I32, ..numbered(3, [rows.ne[1], 1, 1, 1]) };
            let mut src: [Option<Operand>; 10] = Default::default();
            (src[0], src[1]) = (Some(rows), Some(places));
            let set = Node { op: Op::SetRows, sub: None, name: String::new(), dst: cache, src, params: [0; 16] };
            is_stored(&[as_item(rotated.clone()), as_item(set)])
        };
        assert!(stored(numbered(1, [128, 3, 1, 1])));
        assert!(stored(numbered(1, [64, 6, 1, 1])));
        assert!(!stored(numbered(1, [96, 4, 1, 1])), "rows are cut");
        assert!(!stored(numbered(1, [128, 2, 1, 1])), "not all of it");
        assert!(!stored(numbered(4, [128, 3, 1, 1])), "another tensor");
    }

    #[test]
    fn modes_differ_in_pairs_and_axes() {
        let normal = params(&node(NORMAL, 32, 0));
        assert_eq!((normal.pairing, normal.axes, normal.pairs), (ET_ROPE_ADJACENT, ET_ROPE_ONE, 16));
        let vision = params(&node(VISION, 32, 0));
        assert_eq!((vision.pairing, vision.axes, vision.pairs), (ET_ROPE_HALVES, ET_ROPE_SECTIONS_RESTART, 32));
        assert_eq!(params(&node(IMROPE, 64, 0)).sections, [8, 0, 0, 0]);
        assert!(lower(&node(1, 32, 0)).is_err());
    }

    #[test]
    fn the_window_stays_inside_the_row() {
        assert_eq!(params(&node(NEOX, 32, 32)).offset, 32);
        assert!(lower(&node(NEOX, 32, 34)).is_err());
        assert!(lower(&node(NEOX, 66, 0)).is_err());
    }

    #[test]
    fn backward_turns_the_other_way() {
        let mut n = node(NEOX, 64, 0);
        n.op = Op::RopeBack;
        assert_eq!(params(&n).sin_magnitude, -1.0);
    }
}
