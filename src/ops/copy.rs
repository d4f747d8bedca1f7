//! CPY, CONT, DUP.

use super::common::{block, require, source, Command, Refusal};
use super::rows::{convertible, lanes_fit, typed_name, unit};
use crate::command::{et_tensor, ET_KERNEL_COPY, ET_LINES_OWNED};
use crate::graph::Node;
use ggml_abi::Type;

/// The command for `node`. The elements of the source in order become those of the result in order.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    let (src, dst) = (source(node, 0)?, &node.dst);
    require(src.elements() == dst.elements(), || "source and result differ in size".to_owned())?;
    let mut command = Command::new(ET_KERNEL_COPY, typed_name!("cpy_", dst.ty), dst, &[src])?;
    command.raw.params.span.unit = unit(dst, command.raw.dst.flags & ET_LINES_OWNED != 0);
    // Types that Command::new accepted have blocks.
    let (src_block, dst_block) = (block(src.ty).unwrap_or((1, 1)), block(dst.ty).unwrap_or((1, 1)));
    merge(&mut command.raw.src[0], src_block);
    merge(&mut command.raw.dst, dst_block);
    if src.ty != dst.ty {
        require(convertible(src.ty) && convertible(dst.ty), || format!("no conversion from {} to {}", src.ty, dst.ty))?;
        lanes_fit(src)?;
        lanes_fit(dst)?;
        let blocks = src_block.0.max(dst_block.0) as u32;
        require(command.raw.src[0].ne[0] % blocks == 0 && command.raw.dst.ne[0] % blocks == 0, || {
            "rows that cut blocks".to_owned()
        })?;
    }
    for tensor in [&command.raw.src[0], &command.raw.dst] {
        require(tensor.nb[0] < 1 << 28, || format!("elements {} bytes apart", tensor.nb[0]))?;
    }
    Ok(command)
}

/// Makes rows as long as they can be: dimensions of one item vanish, and those that adjoin in memory become one. The
/// order of the elements stays. `block` is an item's elements and bytes.
fn merge(tensor: &mut et_tensor, block: (i64, u64)) {
    let (elements, bytes) = (block.0 as u32, block.1);
    let mut merged: Vec<(u32, u64)> = Vec::new();
    for (i, (&ne, &nb)) in tensor.ne.iter().zip(&tensor.nb).enumerate() {
        let items = if i == 0 { ne / elements } else { ne };
        // Blocks have to stay the innermost dimension, also a single one.
        let (items, step) = match (i, items) {
            (0, 1) if elements > 1 => (1, bytes),
            (_, 1) => continue,
            _ => (items, nb),
        };
        if let Some((inner, inner_step)) = merged.last_mut() {
            let whole = inner.checked_mul(items).filter(|items| items.checked_mul(elements).is_some());
            if let (Some(whole), true) = (whole, u64::from(*inner) * *inner_step == step) {
                *inner = whole;
                continue;
            }
        }
        merged.push((items, step));
    }
    if merged.is_empty() {
        merged.push((1, bytes));
    }
    merged.resize(4, (1, 0));
    for (i, (items, step)) in merged.into_iter().enumerate() {
        tensor.ne[i] = if i == 0 { items * elements } else { items };
        tensor.nb[i] = step;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(ne: [u32; 4], nb: [u64; 4], block: (i64, u64)) -> ([u32; 4], [u64; 4]) {
        let mut t = et_tensor { ne, nb, ..Default::default() };
        merge(&mut t, block);
        (t.ne, t.nb)
    }

    #[test]
    fn contiguous_tensors_become_one_row() {
        assert_eq!(merged([10, 3, 5, 2], [4, 40, 120, 600], (1, 4)), ([300, 1, 1, 1], [4, 0, 0, 0]));
        assert_eq!(merged([64, 3, 1, 1], [34, 68, 204, 204], (32, 34)), ([192, 1, 1, 1], [34, 0, 0, 0]));
        assert_eq!(merged([1, 1, 1, 1], [4, 400, 4, 4], (1, 4)), ([1, 1, 1, 1], [4, 0, 0, 0]));
    }

    #[test]
    fn strided_dimensions_stay() {
        assert_eq!(merged([3, 10, 2, 1], [40, 4, 120, 0], (1, 4)), ([3, 10, 2, 1], [40, 4, 120, 0]));
        assert_eq!(merged([8, 4, 6, 1], [4, 64, 256, 0], (1, 4)), ([8, 24, 1, 1], [4, 64, 0, 0]));
        assert_eq!(merged([1, 4, 1, 1], [4, 64, 0, 0], (1, 4)), ([4, 1, 1, 1], [64, 0, 0, 0]));
    }

    #[test]
    fn single_blocks_stay_rows() {
        assert_eq!(merged([32, 4, 1, 1], [34, 64, 0, 0], (32, 34)), ([32, 4, 1, 1], [34, 64, 0, 0]));
        assert_eq!(merged([32, 4, 1, 1], [34, 34, 0, 0], (32, 34)), ([128, 1, 1, 1], [34, 0, 0, 0]));
    }

    #[test]
    fn rows_stay_below_32_bits() {
        let (ne, _) = merged([1 << 20, 1 << 12, 2, 1], [1, 1 << 20, 1 << 32, 0], (1, 1));
        assert_eq!(ne, [1 << 20, 1 << 13, 1, 1]);
    }

    #[test]
    fn names_follow_the_result_type() {
        assert_eq!(typed_name!("cpy_", Type::IQ4_NL), "cpy_iq4_nl");
    }
}
