//! What the lowerings of elementwise operations share.

use super::common::{block, require, Command, Refusal};
use super::rows::lanes_fit;
use crate::graph::Operand;
use ggml_abi::Type;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{ET_KERNEL_BINARY, ET_LINES_OWNED};

    fn f32s(ne: [i64; 4]) -> Operand {
        let mut nb = [4; 4];
        for i in 1..4 {
            nb[i] = nb[i - 1] * ne[i - 1] as u64;
        }
        Operand { addr: 0x80_1000_0000, ty: Type::F32, ne, nb, view: false }
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
