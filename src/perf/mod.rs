//! `ET_PERF` lines: one per computed operation, with the device's own time. The timeline is in [`profile`].

pub mod profile;

use crate::device::session::{Span, CYCLES_PER_US};
use crate::graph::Node;
use ggml_abi::Op;
use std::fmt::Write;

/// Log target of the lines, which carry no prefix.
pub const TARGET: &str = "ET_PERF";

/// The line of one command. Eight keys come first in a fixed order, then the operation's own; no key comes twice.
pub fn line(node: &Node, kernel: &str, span: Span) -> String {
    let (start, end) = (span.start / CYCLES_PER_US, span.end / CYCLES_PER_US);
    let ne = node.dst.ne;
    let mut line = format!(
        "ET_PERF|op={}|kernel={kernel}|duration_us={}|tensor={}|shape=[{},{},{},{}]|start_us={start}|end_us={end}",
        node.op.name(),
        end - start,
        // The name is the host's: keep it from breaking the line's form.
        node.name.replace(['|', '\n'], "_"),
        ne[0],
        ne[1],
        ne[2],
        ne[3],
    );
    if let Some(flops) = flops(node) {
        let _ = write!(line, "|flops={flops}");
    }
    for (key, value) in keys(node) {
        let _ = write!(line, "|{key}={value}");
    }
    line
}

/// Multiplications and additions of a matrix product.
fn flops(node: &Node) -> Option<u64> {
    let terms = node.src[0].as_ref()?.ne[0] as u64;
    match node.op {
        Op::MulMat | Op::MulMatId => Some(node.dst.elements() as u64 * (2 * terms).saturating_sub(1)),
        _ => None,
    }
}

/// The operation's own keys.
fn keys(node: &Node) -> Vec<(&'static str, String)> {
    let float = |i| format!("{:.6}", node.param_f32(i));
    let extent = |source: usize, dim: usize| node.src[source].as_ref().map_or(0, |source| source.ne[dim]).to_string();
    match node.op {
        Op::Rope | Op::RopeBack => vec![
            ("mode", format!("{:#x}", node.param_i32(2))),
            ("n_dims", node.param_i32(1).to_string()),
            ("freq_base", format!("{:.2}", node.param_f32(5))),
            ("freq_scale", format!("{:.2}", node.param_f32(6))),
        ],
        Op::MulMatId => vec![("n_expert", extent(0, 2)), ("n_expert_used", extent(2, 0))],
        Op::Norm | Op::RmsNorm | Op::L2Norm => vec![("eps", float(0))],
        Op::GroupNorm => vec![("eps", float(1)), ("n_groups", node.param_i32(0).to_string())],
        Op::Scale => vec![("scale", float(0)), ("bias", float(1))],
        Op::SoftMax => {
            let mask = if node.src[1].is_some() { "yes" } else { "no" };
            vec![("scale", float(0)), ("max_bias", float(1)), ("has_mask", mask.to_owned())]
        }
        Op::FlashAttnExt => vec![("scale", float(0))],
        Op::Concat => vec![("dim", node.param_i32(0).to_string())],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Operand;
    use ggml_abi::Type;

    #[test]
    fn a_rope_line_reads_as_documented() {
        let operand = Operand { addr: 0, ty: Type::F32, ne: [128, 32, 2, 1], nb: [4, 512, 16384, 32768], view: false };
        let mut params = [0; 16];
        params[1] = 128;
        params[5] = 500_000f32.to_bits() as i32;
        params[6] = 1f32.to_bits() as i32;
        let src = [const { None }; 10];
        let node = Node { op: Op::Rope, sub: None, name: "Qcur-0".into(), dst: operand, src, params };
        assert_eq!(
            line(&node, "rope_f32", Span { start: 6500, end: 13_650 }),
            "ET_PERF|op=ROPE|kernel=rope_f32|duration_us=11|tensor=Qcur-0|shape=[128,32,2,1]|start_us=10|end_us=21\
             |mode=0x0|n_dims=128|freq_base=500000.00|freq_scale=1.00"
        );
    }

    #[test]
    fn names_cannot_break_a_line_and_keys_are_unique() {
        let operand = Operand { addr: 0, ty: Type::F32, ne: [8, 4, 1, 1], nb: [4, 32, 128, 128], view: false };
        for &op in Op::ALL {
            let src = std::array::from_fn(|_| Some(operand.clone()));
            let node = Node { op, sub: None, name: "a|b=\n".into(), dst: operand.clone(), src, params: [0; 16] };
            let line = line(&node, "k", Span { start: 0, end: 650 });
            assert!(!line.contains('\n'), "{line}");
            let mut keys: Vec<&str> = line.split('|').skip(1).map(|part| part.split('=').next().unwrap()).collect();
            assert_eq!(keys[..7], ["op", "kernel", "duration_us", "tensor", "shape", "start_us", "end_us"], "{line}");
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), all, "{line}");
        }
    }
}
