//! MUL_MAT.

use super::common::{block, require, source, Command, Refusal};
use crate::command::{ET_INT8_SLICES, ET_KERNEL_MUL_MAT_TILE, ET_KERNEL_MUL_MAT_VEC};
use crate::graph::{Node, Operand};
use ggml_abi::Type;

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

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_abi::Op;

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
