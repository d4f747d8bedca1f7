//! What kernels can do in one call: the conditions beside the lowerings.

use crate::command::{et_command, et_tensor, ET_F32, ET_KERNEL_BINARY, ET_KERNEL_MUL_MAT_TILE, ET_KERNEL_MUL_MAT_VEC};
use crate::graph::fuse::Pattern;
use crate::graph::plan::Item;
use ggml_abi::Op;

/// Groups of neighbouring commands, by priority.
pub static PATTERNS: &[Pattern] =
    &[Pattern { name: "mul_mat_add", find: |items| if mul_mat_add(items) { 2 } else { 0 } }];

/// Whether one call can compute both matrix products, which have one input.
pub fn shares_input(first: &Item, other: &Item) -> bool {
    let (a, b) = (&first.command.raw, &other.command.raw);
    let flat = |weights: &et_tensor| weights.ne[2] == 1 && weights.ne[3] == 1;
    is_mul_mat(a)
        && a.kernel == b.kernel
        && a.src[0].type_ == b.src[0].type_
        && a.src[0].ne[0] == b.src[0].ne[0]
        && flat(&a.src[0])
        && flat(&b.src[0])
        && same(&a.src[1], &b.src[1])
}

/// A product and what is added to it: as many elements, or one row for all columns.
fn mul_mat_add(items: &[Item]) -> bool {
    let [product, sum, ..] = items else { return false };
    let adds = sum.node.op == Op::Add;
    let (product, sum) = (&product.command.raw, &sum.command.raw);
    if !is_mul_mat(product) || !adds || sum.kernel != ET_KERNEL_BINARY {
        return false;
    }
    let [a, b, ..] = &sum.src;
    let other = match (same(a, &product.dst), same(b, &product.dst)) {
        (true, false) => b,
        (false, true) => a,
        _ => return false,
    };
    let plain = |tensor: &et_tensor| tensor.type_ == ET_F32 && tensor.nb[0] == 4;
    let fits = |d: usize| other.ne[d] == product.dst.ne[d] || d > 0 && other.ne[d] == 1;
    other.addr != product.dst.addr
        && sum.dst.ne == product.dst.ne
        && (0..4).all(fits)
        && [other, &sum.dst, &product.dst].into_iter().all(plain)
}

fn is_mul_mat(command: &et_command) -> bool {
    matches!(command.kernel, ET_KERNEL_MUL_MAT_VEC | ET_KERNEL_MUL_MAT_TILE)
}

/// The same elements.
fn same(a: &et_tensor, b: &et_tensor) -> bool {
    a.addr == b.addr && a.type_ == b.type_ && a.ne == b.ne && a.nb == b.nb
}
