//! From a host's graph to command lists.

use super::ranges::Ranges;
use super::{Node, Operand, SubOp};
use crate::command::{et_command, et_tensor, ET_MEET, ET_REFRESH};
use crate::ops::{Command, Lowered, Refusal};
use ggml_abi::face::Tensor;

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

pub(super) fn operand(tensor: &Tensor<'_>) -> Operand {
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

/// Cuts a graph, given in order of execution, into command lists of at most `limit` commands. `lower` makes the
/// commands; a node that it refuses is an error.
pub fn lists(
    nodes: impl Iterator<Item = Node>,
    limit: usize,
    lower: impl Fn(&Node) -> Result<Lowered, Refusal>,
) -> Result<Vec<List>, Box<(Node, Refusal)>> {
    let mut lists = Vec::new();
    let mut list = List::default();
    let mut written = Ranges::default();
    for node in nodes {
        let Command { mut raw, kernel, workspace } = match lower(&node) {
            Ok(Lowered::Nothing) => continue,
            Ok(Lowered::Command(command)) => *command,
            Err(refusal) => return Err(Box::new((node, refusal))),
        };
        if list.commands.len() == limit {
            lists.push(std::mem::take(&mut list));
            // The caches are empty when a launch begins.
            written.clear();
        }
        mark(&mut raw, &node, &mut written);
        raw.flags = if list.commands.is_empty() { 0 } else { ET_MEET as u16 };
        raw.workspace_size = workspace;
        list.workspace = list.workspace.max(workspace);
        list.commands.push(raw);
        list.origins.push((node, kernel));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ET_KERNEL_BINARY, ET_LINES_OWNED};
    use ggml_abi::{Op, Type};

    fn floats(addr: u64, count: i64) -> Operand {
        let row = 4 * count as u64;
        Operand { addr, ty: Type::F32, ne: [count, 1, 1, 1], nb: [4, row, row, row], view: false }
    }

    fn add(dst: u64, a: u64, b: u64) -> Node {
        let mut src = [const { None }; 10];
        src[0] = Some(floats(a, 64));
        src[1] = Some(floats(b, 64));
        Node { op: Op::Add, sub: None, name: format!("n{dst:x}"), dst: floats(dst, 64), src, params: [0; 16] }
    }

    fn command(node: &Node) -> Result<Lowered, Refusal> {
        let sources: Vec<&Operand> = node.src.iter().flatten().collect();
        let mut command = Command::new(ET_KERNEL_BINARY, "add_f32", &node.dst, &sources)?;
        command.workspace = node.dst.addr >> 12;
        Ok(Lowered::Command(Box::new(command)))
    }

    fn refreshed(command: &et_command) -> [bool; 3] {
        [command.src[0], command.src[1], command.dst].map(|operand| operand.flags & ET_REFRESH != 0)
    }

    #[test]
    fn what_the_launch_wrote_is_refreshed_and_nothing_else() {
        let nodes = [add(0x1000, 0x8000, 0x9000), add(0x2000, 0x1000, 0x8000), add(0x1000, 0x1000, 0x10fc)];
        let lists = lists(nodes.into_iter(), 10, command).unwrap();
        assert_eq!(lists.len(), 1);
        let flags: Vec<_> = lists[0].commands.iter().map(refreshed).collect();
        assert_eq!(flags, [[false, false, false], [true, false, false], [true, true, true]]);
        assert_eq!(lists[0].commands[0].dst.flags, ET_LINES_OWNED);
    }

    #[test]
    fn a_launch_starts_with_empty_caches() {
        let nodes = [add(0x1000, 0x8000, 0x9000), add(0x2000, 0x1000, 0x8000), add(0x3000, 0x2000, 0x1000)];
        let lists = lists(nodes.into_iter(), 2, command).unwrap();
        assert_eq!(lists.iter().map(|list| list.commands.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(refreshed(&lists[1].commands[0]), [false, false, false]);
        assert_eq!(lists.iter().map(|list| list.workspace).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(lists[0].commands[0].workspace_size, 1);
    }

    #[test]
    fn a_source_larger_than_the_result_counts_whole() {
        // The last element of a long source was written; the result starts at the same address but is short.
        let mut node = add(0x1000, 0x1000, 0x9000);
        node.src[0] = Some(floats(0x1000, 1024));
        let nodes = [add(0x1f00, 0x8000, 0x9000), node];
        let lists = lists(nodes.into_iter(), 10, command).unwrap();
        assert!(refreshed(&lists[0].commands[1])[0]);
    }

    #[test]
    fn a_refused_node_is_named() {
        let refuse = |_: &Node| Err(Refusal::new("no"));
        let refused = lists([add(0x1000, 0, 0)].into_iter(), 10, refuse).map(|_| ()).unwrap_err();
        assert_eq!((refused.0.name.as_str(), refused.1.reason.as_str()), ("n1000", "no"));
    }
}
