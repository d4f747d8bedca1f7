//! What captures call a launch's commands and the tensors that they touch.

use super::plan::Origin;
use super::{Node, Operand};
use et_emulator::labels::{Command, Extent};
use ggml_abi::face::TensorRef;

/// The commands that came from `origins` in `graph`, with how many each does besides itself.
pub fn names(graph: &[TensorRef<'_>], origins: &[Origin]) -> Vec<Command> {
    let command = |origin: &Origin| {
        let tensor = graph[origin.index].read();
        let node = Node::read(&tensor);
        let sources = tensor.src.iter().flatten().map(|source| source.read());
        let sources = sources.map(|source| extent(&Operand::read(&source), &source.name.to_string_lossy()));
        Command {
            kernel: origin.kernel.to_owned(),
            op: node.label().to_owned(),
            also: origin.also,
            operands: std::iter::once(extent(&node.dst, &node.name)).chain(sources).collect(),
        }
    };
    origins.iter().map(command).collect()
}

fn extent(operand: &Operand, name: &str) -> Extent {
    Extent { address: operand.addr, bytes: operand.span(), name: name.to_owned() }
}
