//! MUL_MAT.

use super::common::{block, require, source, Command, Refusal};
use crate::command::{
    et_command, et_tensor, ET_INT8_SLICES, ET_KERNEL_BINARY, ET_KERNEL_GLU, ET_KERNEL_MUL_MAT_TILE,
    ET_KERNEL_MUL_MAT_VEC,
};
use crate::graph::pieces::meet;
use crate::graph::plan::Item;
use crate::graph::{Node, Operand, SubOp};
use ggml_abi::{GluOp, Op, Type};

/// Columns up to which the vector kernel's dot products of plain weights cost less than converting the weights for the
/// tensor unit (docs/decisions/0001-gemv-and-interpreter.md).
const VEC_COLUMNS_PLAIN: i64 = 4;
/// The same for quantised weights, where the vector kernel works in int8 on the tensor unit.
const VEC_COLUMNS_QUANTISED: i64 = 20;

/// Bytes between rows of src0 up to which a kernel's 32-bit gather offsets reach 16 rows.
const ROW_STRIDE_MAX: u64 = 1 << 27;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (weights, columns, dst) = (source(node, 0)?, source(node, 1)?, &node.dst);
    let (vec, tile) = names(weights.ty).ok_or_else(|| Refusal::new(format!("src0 has type {}", weights.ty)))?;
    require(matches!(columns.ty, Type::F32 | Type::F16 | Type::BF16), || format!("src1 has type {}", columns.ty))?;
    require(dst.ty == Type::F32, || format!("the result has type {}", dst.ty))?;
    for (name, operand) in [("src0", weights), ("src1", columns), ("the result", dst)] {
        let dense = block(operand.ty).is_some_and(|(_, bytes)| operand.nb[0] == bytes);
        require(dense, || format!("{name} has gaps between the elements of a row"))?;
    }
    let k = weights.ne[0];
    let (elements, _) = block(weights.ty).unwrap_or((1, 0));
    require(k > 0 && k % elements == 0 && columns.ne[0] == k, || {
        format!("rows of {k} and {} elements can't be multiplied", columns.ne[0])
    })?;
    require(weights.nb[1] <= ROW_STRIDE_MAX, || "src0's rows are too far apart".into())?;
    for i in [2, 3] {
        let repeats = weights.ne[i] > 0 && columns.ne[i] % weights.ne[i] == 0;
        require(repeats, || format!("src1 does not repeat src0 in dimension {i}"))?;
    }

    let few = columns.ne[1] <= if elements == 1 { VEC_COLUMNS_PLAIN } else { VEC_COLUMNS_QUANTISED };
    let (kernel, name) = if few && (elements == 1 || slices_fit(weights, columns)) {
        (ET_KERNEL_MUL_MAT_VEC, vec)
    } else {
        (ET_KERNEL_MUL_MAT_TILE, tile)
    };
    Command::new(kernel, name, dst, &[weights, columns])
}

/// The byte lines of all columns that multiply with one matrix of src0 have room in a shire's scratchpad.
fn slices_fit(weights: &Operand, columns: &Operand) -> bool {
    let sharing = columns.rows() / (weights.ne[2] * weights.ne[3]).max(1);
    (weights.ne[0] as u64).div_ceil(2048).saturating_mul(sharing as u64) <= u64::from(ET_INT8_SLICES)
}

/// The kernels' names for a type of weights.
fn names(ty: Type) -> Option<(&'static str, &'static str)> {
    Some(match ty {
        Type::F32 => ("mul_mat_vec_f32", "mul_mat_tile_f32"),
        Type::F16 => ("mul_mat_vec_f16", "mul_mat_tile_f16"),
        Type::BF16 => ("mul_mat_vec_bf16", "mul_mat_tile_bf16"),
        Type::Q8_0 => ("mul_mat_vec_q8_0", "mul_mat_tile_q8_0"),
        Type::Q4_0 => ("mul_mat_vec_q4_0", "mul_mat_tile_q4_0"),
        Type::Q4_1 => ("mul_mat_vec_q4_1", "mul_mat_tile_q4_1"),
        _ => return None,
    })
}

/// Whether one call can compute both products: the int8 kernel makes the bytes of the columns once, the others run one
/// after the other.
pub fn shares_input(first: &Item, other: &Item) -> bool {
    let (a, b) = (&first.command.raw, &other.command.raw);
    let flat = |weights: &et_tensor| weights.ne[2] == 1 && weights.ne[3] == 1;
    is_mul_mat(a)
        && a.kernel == b.kernel
        && a.src[0].type_ == b.src[0].type_
        && a.src[0].ne[0] == b.src[0].ne[0]
        && flat(&a.src[0])
        && flat(&b.src[0])
        && matches!((&first.node.src[1], &other.node.src[1]), (Some(x), Some(y)) if same(x, y))
}

/// Whether the first two are a product and an addition to it: of as many elements, or of some that are repeated in whole
/// rows.
pub fn is_added_to(items: &[Item]) -> bool {
    let [product, sum, ..] = items else { return false };
    let (a, b) = (&product.command.raw, &sum.command.raw);
    if !is_mul_mat(a) || sum.node.op != Op::Add || b.kernel != ET_KERNEL_BINARY {
        return false;
    }
    let dst = &product.node.dst;
    let other = match &sum.node.src {
        [Some(x), Some(y), ..] if same(x, dst) => y,
        [Some(x), Some(y), ..] if same(y, dst) => x,
        _ => return false,
    };
    let row = other.ne == [dst.ne[0], 1, 1, 1] && other.nb[0] == dst.nb[0];
    other.addr != dst.addr
        && other.ty == dst.ty
        && (row || alike(other, dst))
        && alike(&sum.node.dst, dst)
        && keeps_sources(&product.node, &sum.node)
}

/// Whether the first three are two products with one input and the SWIGLU of them, for the int8 kernel.
pub fn is_gated(items: &[Item]) -> bool {
    let [first, second, glu, ..] = items else { return false };
    let (a, c) = (&first.command.raw, &glu.command.raw);
    let (x, y) = (&first.node.dst, &second.node.dst);
    let both = matches!(&glu.node.src, [Some(p), Some(q), ..] if same(p, x) && same(q, y) || same(p, y) && same(q, x));
    let quantised = |weights: &Operand| block(weights.ty).is_some_and(|(elements, _)| elements > 1);
    shares_input(first, second)
        && a.kernel == ET_KERNEL_MUL_MAT_VEC
        && first.node.src[0].as_ref().is_some_and(quantised)
        && c.kernel == ET_KERNEL_GLU
        && glu.node.sub == Some(SubOp::Glu(GluOp::Swiglu))
        && both
        && x.addr != y.addr
        && alike(x, y)
        && alike(&glu.node.dst, x)
        && [&first.node, &second.node].into_iter().all(|product| keeps_sources(product, &glu.node))
        && keeps_sources(&first.node, &second.node)
}

fn is_mul_mat(command: &et_command) -> bool {
    matches!(command.kernel, ET_KERNEL_MUL_MAT_VEC | ET_KERNEL_MUL_MAT_TILE)
}

/// The same elements.
fn same(a: &Operand, b: &Operand) -> bool {
    a.addr == b.addr && alike(a, b)
}

/// Elements in the same places, counted from their addresses.
fn alike(a: &Operand, b: &Operand) -> bool {
    a.ty == b.ty && a.ne == b.ne && a.nb == b.nb
}

/// Whether a result goes to no memory that a product reads: other harts may still read it.
fn keeps_sources(product: &Node, result: &Node) -> bool {
    let written = (result.dst.addr, result.dst.span());
    product.src.iter().flatten().all(|source| !meet(written, (source.addr, source.span())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Lowered;

    fn operand(ty: Type, ne: [i64; 4]) -> Operand {
        let (elements, bytes) = block(ty).unwrap();
        let mut nb = [bytes; 4];
        nb[1] = ne[0] as u64 / elements as u64 * bytes;
        nb[2] = nb[1] * ne[1] as u64;
        nb[3] = nb[2] * ne[2] as u64;
        Operand { addr: 0, ty, ne, nb, view: false }
    }

    fn node(weights: Operand, columns: Operand) -> Node {
        let ne = [weights.ne[1], columns.ne[1], columns.ne[2], columns.ne[3]];
        let mut src: [Option<Operand>; 10] = Default::default();
        src[0] = Some(weights);
        src[1] = Some(columns);
        let dst = operand(Type::F32, ne);
        Node { op: Op::MulMat, sub: None, name: String::new(), dst, src, params: [0; 16] }
    }

    fn kernel(ty: Type, k: i64, n: i64) -> &'static str {
        lower(&node(operand(ty, [k, 48, 1, 1]), operand(Type::F32, [k, n, 1, 1]))).unwrap().kernel
    }

    #[test]
    fn columns_decide_the_kernel() {
        assert_eq!(kernel(Type::F16, 64, 1), "mul_mat_vec_f16");
        assert_eq!(kernel(Type::F16, 64, 5), "mul_mat_tile_f16");
        assert_eq!(kernel(Type::Q8_0, 64, 16), "mul_mat_vec_q8_0");
        assert_eq!(kernel(Type::Q8_0, 64, 512), "mul_mat_tile_q8_0");
    }

    #[test]
    fn columns_beyond_the_scratchpad_go_to_the_tensor_unit() {
        assert_eq!(kernel(Type::Q4_0, 2048 * 16, 9), "mul_mat_vec_q4_0");
        assert_eq!(kernel(Type::Q4_0, 2048 * 16, 10), "mul_mat_tile_q4_0");
    }

    /// A tensor of a type at an address.
    fn at(addr: u64, ty: Type, ne: [i64; 4]) -> Operand {
        Operand { addr, ..operand(ty, ne) }
    }

    fn item(op: Op, sub: Option<SubOp>, dst: Operand, sources: &[Operand]) -> Item {
        let mut src: [Option<Operand>; 10] = Default::default();
        for (place, source) in src.iter_mut().zip(sources) {
            *place = Some(source.clone());
        }
        let node = Node { op, sub, name: String::new(), dst, src, params: [0; 16] };
        let Ok(Lowered::Command(command)) = crate::ops::lower(&node) else { panic!("{node:?}") };
        Item { node: Box::new(node), index: 0, command }
    }

    fn product(weights: u64, dst: u64) -> Item {
        let weights = at(weights, Type::Q8_0, [64, 48, 1, 1]);
        item(Op::MulMat, None, at(dst, Type::F32, [48, 2, 1, 1]), &[weights, at(0x1000, Type::F32, [64, 2, 1, 1])])
    }

    #[test]
    fn products_share_a_column_of_one_kernel() {
        assert!(shares_input(&product(0x8000, 0x2000), &product(0x9000, 0x3000)));
        let weights = at(0x8000, Type::F16, [64, 48, 1, 1]);
        let x = at(0x1000, Type::F32, [64, 2, 1, 1]);
        let plain = item(Op::MulMat, None, at(0x3000, Type::F32, [48, 2, 1, 1]), &[weights, x]);
        assert!(!shares_input(&product(0x8000, 0x2000), &plain));
    }

    #[test]
    fn what_is_added_has_the_products_rows() {
        let floats = |addr, ne| at(addr, Type::F32, ne);
        let added = |other: Operand, dst: u64| {
            let product = product(0x8000, 0x2000);
            let sum = item(Op::Add, None, floats(dst, [48, 2, 1, 1]), &[product.node.dst.clone(), other]);
            is_added_to(&[product, sum])
        };
        assert!(added(floats(0x4000, [48, 2, 1, 1]), 0x5000), "as many elements");
        assert!(added(floats(0x4000, [48, 1, 1, 1]), 0x2000), "a row, in place");
        assert!(added(floats(0x4000, [48, 2, 1, 1]), 0x4000), "to where the other is");
        assert!(!added(floats(0x4000, [1, 2, 1, 1]), 0x5000), "repeated in a row");
        assert!(!added(floats(0x2000, [48, 2, 1, 1]), 0x5000), "itself");
        assert!(!added(floats(0x4000, [48, 2, 1, 1]), 0x1000), "to where harts still read the columns");
    }

    #[test]
    fn a_gate_is_two_products_with_one_input() {
        let gated = |dst: u64, swapped: bool| {
            let (a, b) = (product(0x8000, 0x2000), product(0x9000, 0x3000));
            let (x, y) = if swapped { (&b, &a) } else { (&a, &b) };
            let glu = Some(SubOp::Glu(GluOp::Swiglu));
            let sources = [x.node.dst.clone(), y.node.dst.clone()];
            let glu = item(Op::Glu, glu, at(dst, Type::F32, [48, 2, 1, 1]), &sources);
            is_gated(&[a, b, glu])
        };
        assert!(gated(0x4000, false) && gated(0x4000, true) && gated(0x2000, false) && gated(0x3000, false));
        assert!(!gated(0x1000, false), "to where harts still read the columns");
    }

    #[test]
    fn refusals_say_why() {
        let reason = |weights, columns| lower(&node(weights, columns)).err().unwrap().reason;
        let x = || operand(Type::F32, [64, 2, 1, 1]);
        let mut transposed = operand(Type::F32, [64, 8, 1, 1]);
        transposed.nb.swap(0, 1);
        assert_eq!(reason(transposed, x()), "src0 has gaps between the elements of a row");
        assert_eq!(reason(operand(Type::Q5_0, [64, 8, 1, 1]), x()), "src0 has type q5_0");
        assert_eq!(
            reason(operand(Type::F32, [64, 8, 2, 1]), operand(Type::F32, [64, 2, 3, 1])),
            "src1 does not repeat src0 in dimension 2"
        );
    }
}
