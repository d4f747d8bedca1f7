//! Which commands one call does together.
//!
//! A fusion saves meetings of all harts and passes over memory. It never leaves a result out: every member's result is
//! written, unless the next one's takes its place in memory. So it does not matter who else reads them.

use super::pieces::meet;
use super::plan::Item;
use super::Operand;
use crate::ops::fuse as kernels;

/// Neighbouring commands that a kernel does in one call.
pub struct Pattern {
    /// What `GGML_ET_FUSION` calls it.
    pub name: &'static str,
    /// How many of the items, from the first on, are such a group; less than 2: none.
    pub find: fn(&[Item]) -> usize,
}

/// All patterns; of several that fit, the first is taken.
pub static PATTERNS: &[Pattern] = kernels::PATTERNS;

/// The name of the fusion of matrix products with one input.
pub const SHARED_INPUT: &str = "mul_mat_shared_input";

/// Which fusions are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusions {
    /// Those that are off.
    off: Vec<&'static str>,
}

impl Default for Fusions {
    /// All.
    fn default() -> Self {
        Fusions { off: Vec::new() }
    }
}

impl Fusions {
    /// The names of all.
    pub fn names() -> impl Iterator<Item = &'static str> {
        PATTERNS.iter().map(|pattern| pattern.name).chain([SHARED_INPUT])
    }

    /// None.
    pub fn none() -> Fusions {
        Fusions { off: Fusions::names().collect() }
    }

    /// "all", "none", or names with commas between: these alone, or all but these where each begins with "-".
    pub fn parse(text: &str) -> Option<Fusions> {
        match text {
            "all" | "1" => return Some(Fusions::default()),
            "none" | "0" => return Some(Fusions::none()),
            _ => {}
        }
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let without = words[0].starts_with('-');
        let mut named = Vec::new();
        for word in words {
            let name = if without { word.strip_prefix('-')? } else { word };
            named.push(Fusions::names().find(|&known| known == name)?);
        }
        Some(Fusions { off: Fusions::names().filter(|name| named.contains(name) == without).collect() })
    }

    fn has(&self, name: &str) -> bool {
        !self.off.contains(&name)
    }

    /// How many of `items`, from the first on, one call does.
    pub fn group(&self, items: &[Item]) -> usize {
        let mut found = PATTERNS.iter().filter(|pattern| self.has(pattern.name)).map(|pattern| (pattern.find)(items));
        found.find(|&count| count > 1 && may_run_together(&items[..count])).unwrap_or(1)
    }

    /// Whether one call can do `other`, which does not depend on `first` nor the other way round, with it.
    pub fn shares_input(&self, first: &Item, other: &Item) -> bool {
        self.has(SHARED_INPUT) && kernels::shares_input(first, other)
    }
}

/// No member writes where an earlier one reads or writes, but for the very same elements.
fn may_run_together(items: &[Item]) -> bool {
    let same = |a: &Operand, b: &Operand| a.addr == b.addr && a.ne == b.ne && a.nb == b.nb && a.ty == b.ty;
    let clear = |a: &Operand, b: &Operand| same(a, b) || !meet((a.addr, a.span()), (b.addr, b.span()));
    (1..items.len()).all(|later| {
        let written = &items[later].node.dst;
        items[..later].iter().all(|earlier| {
            let node = &earlier.node;
            clear(written, &node.dst) && node.src.iter().flatten().all(|source| clear(written, source))
        })
    })
}
