//! GLU.

use super::common::{block, require, source, Command, Refusal};
use super::elementwise;
use super::rows::typed_name;
use crate::command::*;
use crate::graph::{Node, Operand, SubOp};
use ggml_abi::{GluOp, Type};

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let Some(SubOp::Glu(sub)) = node.sub else {
        return Err(Refusal::new("the function is not named"));
    };
    let ty = node.dst.ty;
    let (op, name) = match sub {
        GluOp::Reglu => (ET_REGLU, typed_name!("reglu_", ty)),
        GluOp::Geglu => (ET_GEGLU, typed_name!("geglu_", ty)),
        GluOp::Swiglu => (ET_SWIGLU, typed_name!("swiglu_", ty)),
        GluOp::SwigluOai => (ET_SWIGLU_OAI, typed_name!("swiglu_oai_", ty)),
        GluOp::GegluErf => (ET_GEGLU_ERF, typed_name!("geglu_erf_", ty)),
        GluOp::GegluQuick => (ET_GEGLU_QUICK, typed_name!("geglu_quick_", ty)),
        GluOp::SwigluClamp => (ET_SWIGLU_CLAMP, typed_name!("swiglu_clamp_", ty)),
        GluOp::Unknown => return Err(Refusal::new("an unknown function")),
    };
    let first = source(node, 0)?;
    let (x, gate) = match &node.src[1] {
        Some(second) => (first.clone(), second.clone()),
        None => halves(first, node.param_i32(1) != 0)?,
    };
    require(x.ne == node.dst.ne && gate.ne == node.dst.ne, || "sources differ in shape from the result".to_owned())?;
    let mut command = elementwise::command(ET_KERNEL_GLU, name, &node.dst, &[&x, &gate])?;
    command.raw.params.glu = et_glu_params { op, alpha: node.param_f32(2), limit: node.param_f32(3) };
    Ok(command)
}

/// What the function is applied to and what it is multiplied with: the halves of each row, in this order unless `swapped`.
fn halves(both: &Operand, swapped: bool) -> Result<(Operand, Operand), Refusal> {
    let (_, size) = block(both.ty).ok_or_else(|| Refusal::new(format!("src0 has type {}", both.ty)))?;
    require(both.nb[0] == size, || "elements of a row with gaps".to_owned())?;
    let mut first = both.clone();
    first.ne[0] /= 2;
    let mut second = first.clone();
    second.addr += first.ne[0] as u64 * size;
    Ok(if swapped { (second, first) } else { (first, second) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_abi::Op;

    #[test]
    fn one_source_is_taken_in_halves() {
        let both = Operand { addr: 0x1000, ty: Type::F16, ne: [10, 3, 1, 1], nb: [2, 20, 60, 60], view: false };
        let dst = Operand { addr: 0x2000, ne: [5, 3, 1, 1], nb: [2, 10, 30, 30], ..both.clone() };
        let mut src = [const { None }; 10];
        src[0] = Some(both);
        let sub = Some(SubOp::Glu(GluOp::Swiglu));
        let mut node = Node { op: Op::Glu, sub, name: String::new(), dst, src, params: [0; 16] };
        let plain = lower(&node).unwrap().raw;
        assert_eq!([plain.src[0].addr, plain.src[1].addr], [0x1000, 0x100A]);
        assert_eq!((plain.src[1].ne, plain.src[1].nb[1]), ([5, 3, 1, 1], 20));
        node.params[1] = 1;
        let swapped = lower(&node).unwrap().raw;
        assert_eq!([swapped.src[0].addr, swapped.src[1].addr], [0x100A, 0x1000]);
    }
}
