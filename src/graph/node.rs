//! One operation of a graph, copied out of the host's structs: all that a lowering may look at.

use ggml_abi::face::Tensor;
use ggml_abi::{GluOp, Op, Type, UnaryOp};

/// A tensor as an operand: where it is and how its elements lie.
///
/// Element (i0, i1, i2, i3) starts at `addr` + sum of i*`nb`[i]; for block types i0 counts blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    /// Device address; 0 while the tensor has no memory yet (`supports_op` asks before allocation).
    pub addr: u64,
    /// Element type.
    pub ty: Type,
    /// Elements per dimension.
    pub ne: [i64; 4],
    /// Bytes between neighbours per dimension.
    pub nb: [u64; 4],
    /// The tensor is a view of a part of another: bytes around it, in the same cache lines, may belong to somebody else.
    pub view: bool,
}

impl Operand {
    /// A host's tensor.
    pub fn read(tensor: &Tensor<'_>) -> Operand {
        Operand { addr: tensor.addr, ty: tensor.ty, ne: tensor.ne, nb: tensor.nb, view: tensor.view }
    }

    /// Number of elements.
    pub fn elements(&self) -> i64 {
        self.ne.iter().product()
    }

    /// Rows: elements of dimensions 1 to 3.
    pub fn rows(&self) -> i64 {
        self.ne[1..].iter().product()
    }

    /// True when a dimension is 0.
    pub fn is_empty(&self) -> bool {
        self.ne.contains(&0)
    }

    /// Elements and bytes of one block of the type: (1, element size) for the plain ones. `None` when the device has
    /// no name for the type.
    pub fn block(&self) -> Option<(i64, u64)> {
        crate::ops::common::block(self.ty)
    }

    /// Bytes of one row without padding, `None` for unknown types.
    pub fn row_bytes(&self) -> Option<u64> {
        let (elements, bytes) = self.block()?;
        Some(self.ne[0] as u64 / elements as u64 * bytes)
    }

    /// True when the elements follow one another without a gap, in order. False for unknown types.
    pub fn is_contiguous(&self) -> bool {
        let (Some((elements, bytes)), Some(row)) = (self.block(), self.row_bytes()) else {
            return false;
        };
        if self.ne[0] != elements && self.nb[0] != bytes {
            return false;
        }
        let mut next = row;
        for (&ne, &nb) in self.ne[1..].iter().zip(&self.nb[1..]) {
            if ne != 1 && nb != next {
                return false;
            }
            next *= ne as u64;
        }
        true
    }

    /// The bytes from the first to the last element: length of the range that starts at `addr`. 0 when empty.
    /// Strides come from the host, so the sum saturates instead of wrapping.
    pub fn span(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let (elements, bytes) = self.block().unwrap_or((1, self.nb[0]));
        let blocks = (self.ne[0] as u64).div_ceil(elements as u64);
        let mut span = bytes.saturating_add((blocks - 1).saturating_mul(self.nb[0]));
        for (&ne, &nb) in self.ne[1..].iter().zip(&self.nb[1..]) {
            span = span.saturating_add((ne as u64 - 1).saturating_mul(nb));
        }
        span
    }
}

/// What a UNARY or GLU node computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubOp {
    /// Of `Op::Unary`.
    Unary(UnaryOp),
    /// Of `Op::Glu`.
    Glu(GluOp),
}

impl SubOp {
    /// The host's name.
    pub fn name(self) -> &'static str {
        match self {
            SubOp::Unary(op) => op.name(),
            SubOp::Glu(op) => op.name(),
        }
    }
}

/// One graph node: an operation, its result and its sources.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// The sub-operation of UNARY and GLU nodes.
    pub sub: Option<SubOp>,
    /// The result tensor's name, for logs.
    pub name: String,
    /// The result.
    pub dst: Operand,
    /// The sources, in the host's slots.
    pub src: [Option<Operand>; 10],
    /// The host's `op_params`, raw.
    pub params: [i32; 16],
}

impl Node {
    /// The node that computes `tensor`.
    pub fn read(tensor: &Tensor<'_>) -> Node {
        Node {
            op: tensor.op,
            sub: tensor.unary.map(SubOp::Unary).or(tensor.glu.map(SubOp::Glu)),
            name: tensor.name.to_string_lossy().into_owned(),
            dst: Operand::read(tensor),
            src: tensor.src.map(|source| source.map(|source| Operand::read(&source.read()))),
            params: tensor.params,
        }
    }

    /// Word `i` of `op_params` as an integer.
    pub fn param_i32(&self, i: usize) -> i32 {
        self.params[i]
    }

    /// Word `i` of `op_params` as a float.
    pub fn param_f32(&self, i: usize) -> f32 {
        f32::from_bits(self.params[i] as u32)
    }

    /// The operation as people name it: the sub-operation where there is one, as the host's `ggml_op_desc`.
    pub fn label(&self) -> &'static str {
        self.sub.map_or(self.op.name(), SubOp::name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(ne: [i64; 4]) -> Operand {
        let mut nb = [4; 4];
        for i in 1..4 {
            nb[i] = nb[i - 1] * ne[i - 1] as u64;
        }
        Operand { addr: 0, ty: Type::F32, ne, nb, view: false }
    }

    #[test]
    fn contiguity_ignores_strides_of_single_rows() {
        let mut t = f32s([5, 1, 3, 1]);
        assert!(t.is_contiguous());
        t.nb[1] = 4096;
        assert!(t.is_contiguous());
        t.nb[2] = 64;
        assert!(!t.is_contiguous());
    }

    #[test]
    fn span_reaches_the_last_byte() {
        let mut t = f32s([5, 2, 1, 1]);
        assert_eq!(t.span(), 40);
        t.nb[1] = 64;
        assert_eq!(t.span(), 84);
        t.ne[2] = 0;
        assert_eq!(t.span(), 0);
        let q = Operand { addr: 0, ty: Type::Q8_0, ne: [64, 2, 1, 1], nb: [34, 68, 136, 136], view: false };
        assert_eq!(q.span(), 136);
        assert!(q.is_contiguous());
    }
}
