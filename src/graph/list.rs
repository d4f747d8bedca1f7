//! From a host's graph to command lists.

use super::ranges::Ranges;
use super::{Node, Operand, SubOp};
use crate::command::{et_command, et_tensor, ET_REFRESH};
use crate::ops::{lower, Lowered, Refusal};
use ggml_abi::face::{Tensor, TensorRef};

/// The node that computes `tensor`.
pub fn node(tensor: &Tensor<'_>) -> Node {
    Node {
        op: tensor.op,
        sub: tensor.unary.map(SubOp::Unary).or(tensor.glu.map(SubOp::Glu)),
        name: tensor.name.to_string_lossy().into_owned(),
        dst: operand(tensor),
        src: tensor.src.map(|source| source.map(|source| operand(&source.read()))),
        params: tensor.params,
    }
}

fn operand(tensor: &Tensor<'_>) -> Operand {
    Operand { addr: tensor.addr, ty: tensor.ty, ne: tensor.ne, nb: tensor.nb, view: tensor.view }
}

/// The commands of one launch, and beside each what logs say about it.
#[derive(Default)]
pub struct List {
    /// What the device runs, in order.
    pub commands: Vec<et_command>,
    /// Whose command each is, and the kernel's name in logs.
    pub origins: Vec<(Node, &'static str)>,
    /// Scratch memory that the neediest command takes, in bytes.
    pub workspace: u64,
}

/// Cuts a graph into command lists of at most `limit` commands.
///
/// Nodes that the host does not want computed are passed over. A node without a command is an error that names it.
pub fn lists(graph: &[TensorRef<'_>], limit: usize) -> Result<Vec<List>, (Node, Refusal)> {
    let mut lists = Vec::new();
    let mut list = List::default();
    let mut written = Ranges::default();
    for tensor in graph {
        let tensor = tensor.read();
        if !tensor.compute {
            continue;
        }
        let node = node(&tensor);
        let mut command = match lower(&node) {
            Ok(Lowered::Nothing) => continue,
            Ok(Lowered::Command(command)) => command,
            Err(refusal) => return Err((node, refusal)),
        };
        if list.commands.len() == limit {
            lists.push(std::mem::take(&mut list));
            // The caches are empty when a launch begins.
            written.clear();
        }
        mark(&mut command.raw, &node, &mut written);
        command.raw.workspace_size = command.workspace;
        list.workspace = list.workspace.max(command.workspace);
        list.commands.push(command.raw);
        list.origins.push((node, command.kernel));
    }
    if !list.commands.is_empty() {
        lists.push(list);
    }
    Ok(lists)
}

/// Sets `ET_REFRESH` on the operands that an earlier command of the launch wrote to, and notes what this one writes.
fn mark(command: &mut et_command, node: &Node, written: &mut Ranges) {
    // A lowering may have reshaped an operand or moved its start, but not out of its tensor. So an operand may reach to the
    // end of any of the node's tensors that its address lies in.
    let reach = |addr: u64| {
        let tensors = std::iter::once(&node.dst).chain(node.src.iter().flatten());
        let ends = tensors.filter(|tensor| tensor.addr <= addr).map(|tensor| tensor.addr.saturating_add(tensor.span()));
        ends.filter(|&end| end > addr).max().unwrap_or(u64::MAX) - addr
    };
    let sources = command.sources as usize;
    let mut operands: Vec<&mut et_tensor> = command.src.iter_mut().take(sources).collect();
    operands.push(&mut command.dst);
    for operand in operands {
        if written.overlaps(operand.addr, reach(operand.addr)) {
            operand.flags |= ET_REFRESH;
        }
    }
    written.insert(node.dst.addr, node.dst.span());
}
