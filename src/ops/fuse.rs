//! What kernels can do in one call; the conditions are beside the lowerings.

use super::{elementwise, mul_mat, norm, rope};
use crate::graph::fuse::Pattern;

pub use mul_mat::shares_input;

/// Groups of neighbouring commands, by priority.
pub static PATTERNS: &[Pattern] = &[
    Pattern { name: "mul_mat_glu", find: |items| if mul_mat::is_gated(items) { 3 } else { 0 } },
    Pattern { name: "mul_mat_add", find: |items| if mul_mat::is_added_to(items) { 2 } else { 0 } },
    Pattern { name: "norm", find: norm::group },
    Pattern { name: "rope_set_rows", find: |items| if rope::is_stored(items) { 2 } else { 0 } },
    Pattern { name: "elementwise", find: elementwise::chain },
];
