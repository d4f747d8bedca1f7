//! From a host's graph to command lists: what is fused, what runs side by side, where all harts meet, and what must be
//! read fresh.
//!
//! Each pass is a function of its input alone. [`verify`] checks their result in tests.

use super::fuse::Fusions;
use super::pieces::{Access, Pieces, Span};
use super::stages::Stages;
use super::{Node, Operand};
use crate::command::{et_command, et_tensor, ET_MEET, ET_REFRESH};
use crate::ops::{scratch, Command, Lowered, Refusal, Scratch};
use std::fmt::Write;

/// A node of the graph with its command.
#[derive(Clone)]
pub struct Item {
    /// The node.
    pub node: Box<Node>,
    /// Its place in the host's graph.
    pub index: usize,
    /// What computes it.
    pub command: Box<Command>,
}

/// The commands of one launch.
#[derive(Clone, Default)]
pub struct List {
    /// What the device runs, in order.
    pub commands: Vec<et_command>,
    /// Where each came from.
    pub origins: Vec<Origin>,
    /// Scratch memory that the neediest command takes, in bytes.
    pub workspace: u64,
}

/// Where a command came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The node's place in the host's graph.
    pub index: usize,
    /// The kernel's name in logs.
    pub kernel: &'static str,
    /// The kernel's number.
    pub number: u32,
    /// The commands after it that its call does too.
    pub also: u32,
}

/// The commands of nodes, which come with their places in the graph and in order of execution. `lower` makes the
/// commands; a node that it refuses is an error.
pub fn items(
    nodes: impl Iterator<Item = (usize, Box<Node>)>,
    lower: impl Fn(&Node) -> Result<Lowered, Refusal>,
) -> Result<Vec<Item>, Box<(Node, Refusal)>> {
    let mut items = Vec::with_capacity(nodes.size_hint().1.unwrap_or(0));
    for (index, node) in nodes {
        match lower(&node) {
            Ok(Lowered::Nothing) => {}
            Ok(Lowered::Command(command)) => items.push(Item { node, index, command }),
            Err(refusal) => return Err(Box::new((*node, refusal))),
        }
    }
    Ok(items)
}

/// Command lists of at most `limit` commands that compute `items`. With a limit of 1, one by one as they come.
pub fn plan(items: &[Item], limit: usize, fusions: &Fusions) -> Vec<List> {
    let touched = Touched::by(items);
    let calls =
        if limit == 1 { one_by_one(items) } else { share(items, stage(&touched, &group(items, fusions)), fusions) };
    debug_assert!(calls.iter().map(|call| call.members.len()).sum::<usize>() == items.len());
    let mut written = Written::nothing(&touched);
    cut(calls, limit).iter().map(|calls| list(items, calls, &touched, &mut written)).collect()
}

/// The memory that items touch.
struct Touched {
    /// Of each item in turn: its sources, then its result.
    accesses: Vec<Access>,
    /// Where an item's accesses begin, and where the last one's end.
    first: Vec<usize>,
    pieces: Pieces,
}

impl Touched {
    fn by(items: &[Item]) -> Touched {
        let mut accesses = Vec::with_capacity(4 * items.len());
        let mut first = Vec::with_capacity(items.len() + 1);
        for Item { node, .. } in items {
            first.push(accesses.len());
            accesses.extend(node.src.iter().flatten().chain([&node.dst]).map(access));
        }
        first.push(accesses.len());
        let pieces = Pieces::new(&accesses);
        Touched { accesses, first, pieces }
    }

    /// What an item touches.
    fn accesses(&self, item: usize) -> impl Iterator<Item = (Access, Span)> + '_ {
        let mine = self.first[item]..self.first[item + 1];
        self.accesses[mine.clone()].iter().copied().zip(self.pieces.spans()[mine].iter().copied())
    }

    /// The pieces of an item's sources, and of its result.
    fn spans(&self, item: usize) -> (&[Span], Span) {
        let spans = &self.pieces.spans()[self.first[item]..self.first[item + 1]];
        let (result, sources) = spans.split_last().expect("every item has a result");
        (sources, *result)
    }
}

fn access(operand: &Operand) -> Access {
    (operand.addr, operand.span())
}

/// One call of a kernel: the items that it does, in order, and its stage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    members: Vec<usize>,
    stage: u32,
}

fn one_by_one(items: &[Item]) -> Vec<Call> {
    (0..items.len()).map(|i| Call { members: vec![i], stage: i as u32 }).collect()
}

/// How many neighbours each call does.
fn group(items: &[Item], fusions: &Fusions) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut at = 0;
    while at < items.len() {
        sizes.push(fusions.group(&items[at..]));
        at += sizes[sizes.len() - 1];
    }
    sizes
}

/// Gives each group its stage, and orders them by it.
fn stage(touched: &Touched, sizes: &[usize]) -> Vec<Call> {
    let mut stages = Stages::new(touched.pieces.count());
    let mut at = 0;
    let mut calls: Vec<Call> = Vec::with_capacity(sizes.len());
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for &size in sizes {
        reads.clear();
        writes.clear();
        for item in at..at + size {
            let (sources, result) = touched.spans(item);
            reads.extend_from_slice(sources);
            writes.push(result);
        }
        calls.push(Call { members: (at..at + size).collect(), stage: stages.place(&reads, &writes) });
        at += size;
    }
    calls.sort_by_key(|call| call.stage);
    calls
}

/// Lets calls of one stage that have one input be one call.
fn share(items: &[Item], calls: Vec<Call>, fusions: &Fusions) -> Vec<Call> {
    let mut all: Vec<Call> = Vec::with_capacity(calls.len());
    for call in calls {
        if let &[item] = &call.members[..] {
            let mates = all.iter_mut().rev().take_while(|mate| mate.stage == call.stage);
            let alike = |mate: &&mut Call| mate.members.iter().all(|&m| fusions.shares_input(&items[m], &items[item]));
            if let Some(mate) = mates.filter(|mate| mate.members.len() < MATES_MAX).find(alike) {
                mate.members.push(item);
                continue;
            }
        }
        all.push(call);
    }
    all
}

/// Members of a call with one input.
const MATES_MAX: usize = 3;

/// Parts with at most `limit` commands each.
fn cut(calls: Vec<Call>, limit: usize) -> Vec<Vec<Call>> {
    let mut parts: Vec<Vec<Call>> = Vec::new();
    let mut room = 0;
    for call in calls {
        if call.members.len() > room {
            parts.push(Vec::new());
            room = limit.max(call.members.len());
        }
        room -= call.members.len();
        if let Some(part) = parts.last_mut() {
            part.push(call);
        }
    }
    parts
}

/// The command list of one launch.
fn list(items: &[Item], calls: &[Call], touched: &Touched, written: &mut Written) -> List {
    let count = calls.iter().map(|call| call.members.len()).sum();
    let mut list = List { commands: Vec::with_capacity(count), origins: Vec::with_capacity(count), ..List::default() };
    written.begin_launch();
    let mut since = Used::default();
    for (i, call) in calls.iter().enumerate() {
        let used = Used::by(items, call);
        let meets = i > 0 && (call.stage != calls[i - 1].stage || since.conflicts(&used));
        since = if meets { used } else { since.and(&used) };
        for (place, &member) in call.members.iter().enumerate() {
            let Item { index, command, .. } = &items[member];
            let mut raw = command.raw;
            written.mark(&mut raw, member, touched);
            if place == 0 {
                raw.flags = if meets { ET_MEET as u16 } else { 0 };
                raw.group = call.members.len() as u16;
            }
            raw.workspace_size = command.workspace;
            list.workspace = list.workspace.max(command.workspace);
            list.commands.push(raw);
            let also = if place == 0 { call.members.len() as u32 - 1 } else { 0 };
            list.origins.push(Origin { index: *index, kernel: command.kernel, number: raw.kernel, also });
        }
    }
    list
}

/// What calls use that is no tensor.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    scratch: Scratch,
    workspace: bool,
}

impl Used {
    fn by(items: &[Item], call: &Call) -> Used {
        let commands = call.members.iter().map(|&member| &items[member].command);
        commands.fold(Used::default(), |used, command| {
            used.and(&Used { scratch: scratch(&command.raw), workspace: command.workspace > 0 })
        })
    }

    fn and(&self, other: &Used) -> Used {
        Used { scratch: self.scratch.max(other.scratch), workspace: self.workspace || other.workspace }
    }

    /// Whether harts may not flow from one into the other: a hart that is still in the first would find its scratch
    /// changed by another one.
    fn conflicts(&self, next: &Used) -> bool {
        let shared = self.scratch.max(next.scratch) == Scratch::Shared;
        shared && self.scratch.min(next.scratch) != Scratch::None || self.workspace && next.workspace
    }
}

/// What the commands of a launch have written to.
struct Written {
    launch: u32,
    /// Of each piece, the last launch that wrote to it; 0 for none.
    by: Vec<u32>,
}

impl Written {
    fn nothing(touched: &Touched) -> Written {
        Written { launch: 0, by: vec![0; touched.pieces.count()] }
    }

    /// Caches are empty when a launch begins.
    fn begin_launch(&mut self) {
        self.launch += 1;
    }

    /// Sets `ET_REFRESH` on the operands that an earlier command of the launch wrote to, and notes what this one writes: the
    /// command of item number `item`.
    fn mark(&mut self, command: &mut et_command, item: usize, touched: &Touched) {
        let sources = command.sources as usize;
        for operand in command.src.iter_mut().take(sources).chain([&mut command.dst]) {
            let span = reach(operand.addr, item, touched);
            if span.of(&self.by).contains(&self.launch) {
                operand.flags |= ET_REFRESH;
            }
        }
        let (_, result) = touched.spans(item);
        result.of_mut(&mut self.by).fill(self.launch);
    }
}

/// The pieces that an operand at `addr` of an item's command may reach. A lowering may have reshaped an operand or moved its
/// start, but not out of its tensor. So it may reach to the end of any of the node's tensors that its address lies in.
fn reach(addr: u64, item: usize, touched: &Touched) -> Span {
    let mut reached: Option<Span> = None;
    for ((start, len), span) in touched.accesses(item) {
        if start <= addr && addr - start < len {
            let begin = if start == addr { span.begin } else { touched.pieces.at(addr) };
            reached = Some(Span { begin, end: reached.map_or(0, |before| before.end).max(span.end) });
        }
    }
    reached.unwrap_or(Span { begin: touched.pieces.at(addr), end: touched.pieces.count() as u32 })
}

impl List {
    /// How often all harts meet, the end of the launch not counted.
    pub fn meetings(&self) -> usize {
        self.commands.iter().filter(|command| u32::from(command.flags) & ET_MEET != 0).count()
    }

    /// The list for people and for comparisons: a line per command, a rule where all harts meet. `name` names nodes.
    pub fn text(&self, name: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        let mut left = 0;
        for (command, origin) in self.commands.iter().zip(&self.origins) {
            if u32::from(command.flags) & ET_MEET != 0 {
                text.push_str("--\n");
            }
            let refreshed = |operand: &et_tensor| if operand.flags & ET_REFRESH != 0 { 'r' } else { '.' };
            let fresh: String = command.src.iter().take(command.sources as usize).map(refreshed).collect();
            let mark = if left > 0 { '+' } else { ' ' };
            let _ = writeln!(text, "{mark}{} {} [{fresh}]", origin.kernel, name(origin.index));
            left = if left > 0 { left - 1 } else { origin.also };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ET_KERNEL_BINARY, ET_KERNEL_MUL_MAT_VEC, ET_KERNEL_ROPE, ET_LINES_OWNED};
    use crate::graph::pieces::meet;
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
        Ok(Lowered::Command(Box::new(Command::new(ET_KERNEL_BINARY, "add_f32", &node.dst, &sources)?)))
    }

    fn all(nodes: Vec<Node>) -> Vec<Item> {
        items(nodes.into_iter().map(Box::new).enumerate(), command).unwrap()
    }

    fn text(items: &[Item], limit: usize) -> Vec<String> {
        let lists = plan(items, limit, &Fusions::none());
        lists.iter().map(|list| list.text(|index| items[index].node.name.clone())).collect()
    }

    /// What is wrong with lists that are to compute `items`, from all pairs of them: the slow way.
    fn verify(items: &[Item], lists: &[List]) -> Option<String> {
        // Of each item: its launch, how often harts have met there before it, and its call.
        let mut places = vec![None; items.len()];
        for (launch, list) in lists.iter().enumerate() {
            let (mut met, mut call, mut left) = (0, 0, 0);
            for (command, origin) in list.commands.iter().zip(&list.origins) {
                if left > 0 {
                    left -= 1;
                } else {
                    left = origin.also;
                    call += 1;
                }
                met += u32::from(command.flags) & ET_MEET;
                let item = items.iter().position(|item| item.index == origin.index)?;
                if places[item].replace((launch, met, call)).is_some() {
                    return Some(format!("item {item} comes twice"));
                }
            }
        }
        for (later, b) in items.iter().enumerate() {
            for (earlier, a) in items[..later].iter().enumerate() {
                let conflict = |x: &Operand, y: &Operand| meet(access(x), access(y));
                let reads = |node: &Node, dst: &Operand| node.src.iter().flatten().any(|source| conflict(source, dst));
                let depends =
                    reads(&b.node, &a.node.dst) || reads(&a.node, &b.node.dst) || conflict(&a.node.dst, &b.node.dst);
                let (Some(first), Some(second)) = (places[earlier], places[later]) else {
                    return Some("an item is missing".to_owned());
                };
                let apart = (first.0, first.1) < (second.0, second.1);
                let together = (first.0, first.2) == (second.0, second.2);
                if depends && !apart && !together {
                    return Some(format!("item {later} does not wait for item {earlier}"));
                }
            }
        }
        None
    }

    #[test]
    fn harts_meet_only_where_something_is_needed() {
        let items = all(vec![
            add(0x1000, 0x8000, 0x9000),
            add(0x2000, 0x1000, 0x8000),
            add(0x3000, 0x8000, 0x8000),
            add(0x1000, 0x2000, 0x3000),
        ]);
        let expected = " add_f32 n1000 [..]\n add_f32 n3000 [..]\n--\n add_f32 n2000 [r.]\n--\n add_f32 n1000 [rr]\n";
        assert_eq!(text(&items, 10), [expected]);
        assert_eq!(verify(&items, &plan(&items, 10, &Fusions::default())), None);
    }

    #[test]
    fn what_the_launch_wrote_is_refreshed_and_nothing_else() {
        let items = all(vec![add(0x1000, 0x8000, 0x9000), add(0x2000, 0x1000, 0x8000), add(0x1000, 0x1000, 0x10fc)]);
        let lists = plan(&items, 10, &Fusions::none());
        let refreshed = |command: &et_command| {
            [command.src[0], command.src[1], command.dst].map(|operand| operand.flags & ET_REFRESH != 0)
        };
        let flags: Vec<_> = lists[0].commands.iter().map(refreshed).collect();
        assert_eq!(flags, [[false, false, false], [true, false, false], [true, true, true]]);
        assert_eq!(lists[0].commands[0].dst.flags, ET_LINES_OWNED);
    }

    #[test]
    fn a_launch_starts_with_empty_caches() {
        let mut items =
            all(vec![add(0x1000, 0x8000, 0x9000), add(0x2000, 0x1000, 0x8000), add(0x3000, 0x2000, 0x1000)]);
        for (item, workspace) in items.iter_mut().zip([1, 2, 3]) {
            item.command.workspace = workspace;
        }
        let lists = plan(&items, 2, &Fusions::none());
        assert_eq!(lists.iter().map(|list| list.commands.len()).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(lists[1].text(|_| String::new()), " add_f32  [..]\n");
        assert_eq!(lists.iter().map(|list| list.workspace).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(lists[0].commands[0].workspace_size, 1);
        assert_eq!(text(&items, 1).len(), 3, "one by one");
    }

    #[test]
    fn a_source_larger_than_the_result_counts_whole() {
        // The last element of a long source was written; the result starts at the same address but is short.
        let mut node = add(0x1000, 0x1000, 0x9000);
        node.src[0] = Some(floats(0x1000, 1024));
        let items = all(vec![add(0x1f00, 0x8000, 0x9000), node]);
        assert_eq!(text(&items, 10), [" add_f32 n1f00 [..]\n--\n add_f32 n1000 [r.]\n"]);
    }

    #[test]
    fn scratch_and_workspace_are_used_by_one_call_at_a_time() {
        let kernels = |kernels: [u32; 3], workspaces: [u64; 3]| {
            let mut items = all((1..4).map(|i| add(0x1000 * i, 0x8000, 0x9000)).collect());
            for (i, item) in items.iter_mut().enumerate() {
                item.command.raw.kernel = kernels[i];
                item.command.workspace = workspaces[i];
            }
            plan(&items, 10, &Fusions::none())[0].meetings()
        };
        let (vec, rope, binary) = (ET_KERNEL_MUL_MAT_VEC, ET_KERNEL_ROPE, ET_KERNEL_BINARY);
        assert_eq!(kernels([vec, binary, vec], [0; 3]), 1);
        assert_eq!(kernels([vec, binary, rope], [0; 3]), 1);
        assert_eq!(kernels([rope, binary, rope], [0; 3]), 0);
        assert_eq!(kernels([binary; 3], [64, 0, 64]), 1);
    }

    #[test]
    fn a_refused_node_is_named() {
        let refuse = |_: &Node| Err(Refusal::new("no"));
        let refused = items([(0, Box::new(add(0x1000, 0, 0)))].into_iter(), refuse).map(|_| ()).unwrap_err();
        assert_eq!((refused.0.name.as_str(), refused.1.reason.as_str()), ("n1000", "no"));
    }

    #[test]
    fn random_graphs_keep_their_order_where_it_matters() {
        let mut next = crate::graph::random(7);
        for round in 0..50 {
            let nodes = (0..60).map(|i| {
                let mut node = add(0x1000 + 128 * next(60), 0x1000 + 128 * next(60), 0x1000 + 128 * next(60));
                node.name = format!("{i}");
                node
            });
            let items = all(nodes.collect());
            let limit = [60, 7, 1][round % 3];
            let lists = plan(&items, limit, &Fusions::default());
            assert_eq!(verify(&items, &lists), None, "round {round}");
            assert!(lists.iter().all(|list| list.commands.len() <= limit.max(4)));
        }
    }
}
