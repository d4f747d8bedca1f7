//! UNARY.

use super::common::{source, Command, Refusal};
use super::elementwise;
use super::rows::typed_name;
use crate::command::*;
use crate::graph::{Node, SubOp};
use ggml_abi::{Type, UnaryOp};

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let Some(SubOp::Unary(sub)) = node.sub else {
        return Err(Refusal::new("the function is not named"));
    };
    let ty = node.dst.ty;
    let (op, name) = match sub {
        UnaryOp::Abs => (ET_ABS, typed_name!("abs_", ty)),
        UnaryOp::Sgn => (ET_SGN, typed_name!("sgn_", ty)),
        UnaryOp::Neg => (ET_NEG, typed_name!("neg_", ty)),
        UnaryOp::Step => (ET_STEP, typed_name!("step_", ty)),
        UnaryOp::Tanh => (ET_TANH, typed_name!("tanh_", ty)),
        UnaryOp::Elu => (ET_ELU, typed_name!("elu_", ty)),
        UnaryOp::Relu => (ET_RELU, typed_name!("relu_", ty)),
        UnaryOp::Sigmoid => (ET_SIGMOID, typed_name!("sigmoid_", ty)),
        UnaryOp::Gelu => (ET_GELU, typed_name!("gelu_", ty)),
        UnaryOp::GeluQuick => (ET_GELU_QUICK, typed_name!("gelu_quick_", ty)),
        UnaryOp::Silu => (ET_SILU, typed_name!("silu_", ty)),
        UnaryOp::Hardswish => (ET_HARDSWISH, typed_name!("hardswish_", ty)),
        UnaryOp::Hardsigmoid => (ET_HARDSIGMOID, typed_name!("hardsigmoid_", ty)),
        UnaryOp::Exp => (ET_EXP, typed_name!("exp_", ty)),
        UnaryOp::Expm1 => (ET_EXPM1, typed_name!("expm1_", ty)),
        UnaryOp::Softplus => (ET_SOFTPLUS, typed_name!("softplus_", ty)),
        UnaryOp::GeluErf => (ET_GELU_ERF, typed_name!("gelu_erf_", ty)),
        UnaryOp::Xielu => (ET_XIELU, typed_name!("xielu_", ty)),
        UnaryOp::Floor => (ET_FLOOR, typed_name!("floor_", ty)),
        UnaryOp::Ceil => (ET_CEIL, typed_name!("ceil_", ty)),
        UnaryOp::Round => (ET_ROUND, typed_name!("round_", ty)),
        UnaryOp::Trunc => (ET_TRUNC, typed_name!("trunc_", ty)),
        UnaryOp::Unknown => return Err(Refusal::new("an unknown function")),
    };
    let mut command = elementwise::command(ET_KERNEL_UNARY, name, &node.dst, &[source(node, 0)?])?;
    // XIELU's alpha_n, alpha_p, beta and eps follow the function's number; the others have none.
    let arg = std::array::from_fn(|i| node.param_f32(i + 1));
    command.raw.params.unary = et_unary_params { op, arg };
    Ok(command)
}
