//! FLASH_ATTN_EXT.

use super::common::{Command, Refusal};
use crate::graph::Node;

/// The command for `node`.
pub fn lower(node: &Node) -> Result<Command, Refusal> {
    Err(Refusal::new(format!("{} has no kernel", node.label())))
}
