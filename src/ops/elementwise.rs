//! What the lowerings of elementwise operations share.

use super::common::{block, require, Command, Refusal};
use super::rows::lanes_fit;
use crate::command::{et_command, ET_F32, ET_LINES_OWNED};
use crate::command::{ET_KERNEL_BINARY, ET_KERNEL_CLAMP, ET_KERNEL_GLU, ET_KERNEL_SCALE, ET_KERNEL_UNARY};
use crate::graph::pieces::meet;
use crate::graph::plan::Item;
use crate::graph::Operand;
use ggml_abi::Type;

/// Most members of a group of elementwise operations, as in the kernel.
const CHAIN_MAX: usize = 4;

/// A call of the elementwise kernel `kernel`, named `name` in logs. Sources may be repeated along any dimension of `dst`
/// that is a multiple of theirs, the first one along dimensions 1 to 3 only.
pub(super) fn command(
    kernel: u32,
    name: &'static str,
    dst: &Operand,
    sources: &[&Operand],
) -> Result<Command, Refusal> {
    for (i, operand) in std::iter::once(&dst).chain(sources).enumerate() {
        let which = || if i == 0 { "the result".to_owned() } else { format!("src{}", i - 1) };
        require(matches!(operand.ty, Type::F32 | Type::F16 | Type::BF16), || {
            format!("{} has type {}", which(), operand.ty)
        })?;
        lanes_fit(operand)?;
        let fits = dst.ne.iter().zip(&operand.ne).all(|(&whole, &part)| whole == 0 || (part > 0 && whole % part == 0));
        require(fits && (i != 1 || operand.ne[0] == dst.ne[0]), || format!("{} does not divide the result", which()))?;
    }
    match flat(dst, sources) {
        Some((dst, sources)) => Command::new(kernel, name, &dst, &sources.iter().collect::<Vec<_>>()),
        None => Command::new(kernel, name, dst, sources),
    }
}

/// The operands as single rows, where that means the same: the kernel then divides elements among the harts, not rows.
fn flat(dst: &Operand, sources: &[&Operand]) -> Option<(Operand, Vec<Operand>)> {
    let alike = |source: &&Operand| source.ne == dst.ne && source.is_contiguous();
    let single = |source: &Operand| source.elements() == 1;
    let mut rest = sources.iter();
    let possible = dst.is_contiguous() && rest.next().is_some_and(alike) && rest.all(|s| alike(s) || single(s));
    (possible && u32::try_from(dst.elements()).is_ok())
        .then(|| Some((row(dst)?, sources.iter().map(|source| row(source)).collect::<Option<_>>()?)))?
}

/// All elements of a contiguous tensor as one row.
fn row(tensor: &Operand) -> Option<Operand> {
    let (_, size) = block(tensor.ty)?;
    let n = tensor.elements();
    let whole = n as u64 * size;
    Some(Operand { ne: [n, 1, 1, 1], nb: [size, whole, whole, whole], ..tensor.clone() })
}

/// How many of `items`, from the first on, are elementwise operations on results of one shape, each on that of the one
/// before, in the form that the kernel does in one pass.
pub(super) fn chain(items: &[Item]) -> usize {
    let fits = |&count: &usize| {
        let raw = |item: usize| &items[item].command.raw;
        let (first, last) = (raw(0), raw(count - 1));
        let kernels = [ET_KERNEL_BINARY, ET_KERNEL_UNARY, ET_KERNEL_GLU, ET_KERNEL_SCALE, ET_KERNEL_CLAMP];
        kernels.contains(&last.kernel)
            && is_dense(last)
            && last.dst.ne == first.dst.ne
            && last.row_unit == first.row_unit
            && (count == 1 || continues(&items[..count]))
    };
    (1..=items.len().min(CHAIN_MAX)).take_while(fits).last().unwrap_or(0)
}

/// Whether all operands are F32 without gaps in rows of one length, or one element for a whole row, and the result's
/// lines are its own.
pub(super) fn is_dense(command: &et_command) -> bool {
    let plain = |tensor: &crate::command::et_tensor| tensor.type_ == ET_F32 && tensor.nb[0] == 4;
    let sources = &command.src[..command.sources as usize];
    let row = command.dst.ne[0];
    command.dst.flags & ET_LINES_OWNED != 0
        && plain(&command.dst)
        && sources.iter().enumerate().all(|(i, source)| {
            let fits = source.ne[0] == row || i == 1 && source.ne[0] == 1;
            source.type_ == ET_F32 && fits && (plain(source) || source.ne[0] == 1)
        })
}

/// Whether the last of `items` works on the result of the one before, and reads the results of those before either
/// whole, element by element, or not at all.
pub(super) fn continues(items: &[Item]) -> bool {
    let Some((last, earlier)) = items.split_last() else { return false };
    let same = |a: &Operand, b: &Operand| a.addr == b.addr && a.ty == b.ty && a.ne == b.ne && a.nb == b.nb;
    let sources = || last.node.src.iter().flatten();
    let apart = |a: &Operand, b: &Operand| !meet((a.addr, a.span()), (b.addr, b.span()));
    earlier.last().is_some_and(|before| sources().any(|source| same(source, &before.node.dst)))
        && sources().all(|source| earlier.iter().all(|e| same(source, &e.node.dst) || apart(source, &e.node.dst)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::graph::Node;
    use crate::ops::{lower, Lowered};
    use ggml_abi::Op;

    pub fn f32s(ne: [i64; 4]) -> Operand {
        let mut nb = [4; 4];
        for i in 1..4 {
            nb[i] = nb[i - 1] * ne[i - 1] as u64;
        }
        Operand { addr: 0x80_1000_0000, ty: Type::F32, ne, nb, view: false }
    }

    /// Tensor `number` of that shape, in a place of its own.
    pub fn numbered(number: u64, ne: [i64; 4]) -> Operand {
        Operand { addr: 0x80_1000_0000 + (number << 24), ..f32s(ne) }
    }

    /// The operation with its command.
    pub fn item(op: Op, dst: &Operand, sources: &[&Operand]) -> Item {
        let mut src = [const { None }; 10];
        for (slot, &source) in src.iter_mut().zip(sources) {
            *slot = Some(source.clone());
        }
        let node = Node { op, sub: None, name: String::new(), dst: dst.clone(), src, params: [0; 16] };
        let Ok(Lowered::Command(command)) = lower(&node) else { panic!("{op} is refused") };
        Item { node: Box::new(node), index: 0, command }
    }

    #[test]
    fn a_chain_takes_the_result_before_whole() {
        let shape = [64, 3, 2, 1];
        let [a, b, c, d] = [0, 1, 2, 3].map(|number| numbered(number, shape));
        let first = item(Op::Add, &c, &[&a, &b]);
        let chain = |second: Item| chain(&[first.clone(), second]);
        assert_eq!(chain(item(Op::Mul, &d, &[&c, &b])), 2);
        assert_eq!(chain(item(Op::Mul, &c, &[&b, &c])), 2, "in place");
        assert_eq!(chain(item(Op::Clamp, &d, &[&c])), 2);
        assert_eq!(chain(item(Op::Mul, &d, &[&a, &b])), 1, "nothing of the first");
        let part = Operand { ne: [64, 1, 1, 1], ..c.clone() };
        assert_eq!(chain(item(Op::Mul, &d, &[&c, &part])), 1, "a row for all");
        let all = numbered(2, [384, 1, 1, 1]);
        assert_eq!(chain(item(Op::Mul, &numbered(3, all.ne), &[&all, &all])), 1, "another shape");
        let shifted = Operand { addr: c.addr + 256, ..c.clone() };
        assert_eq!(chain(item(Op::Mul, &d, &[&c, &shifted])), 1);
        let strided = Operand { nb: [8, 512, 1536, 3072], ..b.clone() };
        assert_eq!(chain(item(Op::Mul, &d, &[&c, &strided])), 1);
    }

    fn shape(dst: &Operand, sources: &[&Operand]) -> [[u32; 4]; 2] {
        let command = command(ET_KERNEL_BINARY, "add_f32", dst, sources).unwrap();
        [command.raw.dst.ne, command.raw.src[sources.len() - 1].ne]
    }

    #[test]
    fn equal_dense_shapes_become_one_row() {
        let t = f32s([576, 3, 2, 1]);
        assert_eq!(shape(&t, &[&t]), [[3456, 1, 1, 1]; 2]);
        assert_eq!(shape(&t, &[&t, &f32s([1, 1, 1, 1])]), [[3456, 1, 1, 1], [1, 1, 1, 1]]);
        let flat = command(ET_KERNEL_BINARY, "add_f32", &t, &[&t]).unwrap();
        assert_ne!(flat.raw.dst.flags & ET_LINES_OWNED, 0);
    }

    #[test]
    fn repeated_and_strided_sources_keep_their_rows() {
        let t = f32s([576, 3, 2, 1]);
        assert_eq!(shape(&t, &[&t, &f32s([576, 1, 1, 1])]), [[576, 3, 2, 1], [576, 1, 1, 1]]);
        let mut wide = t.clone();
        wide.nb[1] *= 2;
        wide.nb[2] *= 2;
        wide.nb[3] *= 2;
        assert_eq!(shape(&t, &[&wide]), [[576, 3, 2, 1]; 2]);
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        let t = f32s([576, 3, 2, 1]);
        assert!(command(ET_KERNEL_BINARY, "add_f32", &t, &[&t, &f32s([7, 1, 1, 1])]).is_err());
        assert!(command(ET_KERNEL_BINARY, "add_f32", &t, &[&f32s([1, 3, 2, 1]), &t]).is_err());
        let mut ints = t.clone();
        ints.ty = Type::I32;
        let refusal = command(ET_KERNEL_BINARY, "add_f32", &t, &[&t, &ints]).err().unwrap();
        assert_eq!(refusal.reason, "src1 has type i32");
    }
}
