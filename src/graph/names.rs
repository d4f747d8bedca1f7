//! What captures call a launch's commands and the tensors that they touch.

use super::list::{self, List};
use super::Operand;
use et_emulator::labels::{Command, Extent};
use ggml_abi::face::TensorRef;

/// The commands of `list`, which was made from `graph`.
pub fn names(graph: &[TensorRef<'_>], list: &List) -> Vec<Command> {
    let mut tensors = graph.iter().map(|tensor| tensor.read());
    let command = |(node, kernel): &(super::Node, &'static str)| {
        let mut operands = vec![extent(&node.dst, &node.name)];
        let same = |tensor: &ggml_abi::face::Tensor<'_>| {
            tensor.addr == node.dst.addr && tensor.name.to_string_lossy() == node.name
        };
        if let Some(tensor) = tensors.find(same) {
            let sources = tensor.src.iter().flatten().map(|source| source.read());
            operands.extend(sources.map(|source| extent(&list::operand(&source), &source.name.to_string_lossy())));
        }
        Command { kernel: (*kernel).to_owned(), op: node.label().to_owned(), operands }
    };
    list.origins.iter().map(command).collect()
}

fn extent(operand: &Operand, name: &str) -> Extent {
    Extent { address: operand.addr, bytes: operand.span(), name: name.to_owned() }
}
