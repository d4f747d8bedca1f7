//! What a tensor engine does, for those who watch it: which lines, registers and memory an operation uses, and its shape.

use super::outside::CacheAction;
use super::LINES;

/// Lines of the L1 scratchpad, bit n for line n.
pub type LineSet = u64;

/// f registers, bit n for fn.
pub type RegisterSet = u32;

/// Rows of memory: `rows` pieces of `bytes` bytes, `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Address of the first.
    pub addr: u64,
    /// From one to the next.
    pub stride: u64,
    /// How many.
    pub rows: u32,
    /// Length of each.
    pub bytes: u32,
    /// Bit i enables row i; rows from 16 on are always enabled.
    pub mask: u16,
}

impl Rows {
    /// Addresses of the enabled rows.
    pub fn iter(self) -> impl Iterator<Item = u64> {
        let enabled = move |row: &u32| *row >= 16 || self.mask >> row & 1 == 1;
        (0..self.rows).filter(enabled).map(move |row| {
            crate::memory::region::canonical(self.addr.wrapping_add(self.stride.wrapping_mul(u64::from(row))))
        })
    }
}

/// Where a product takes B from, or a load goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The L1 scratchpad.
    Lines(LineSet),
    /// The B buffer.
    TenB,
}

/// The element type of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Element {
    F32,
    F16,
    Int8,
}

/// How a load rearranges what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Transform {
    Plain,
    Interleave8,
    Interleave16,
    Transpose8,
    Transpose16,
    Transpose32,
}

/// An operation of the engine, as decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// tensor_load. Waited for by event 0 or 1, and by the product that takes TenB.
    Load {
        /// Its event; 2 for the B buffer, which has none.
        slot: usize,
        /// What it writes.
        to: Place,
        /// What it reads.
        from: Rows,
        /// On the way.
        transform: Transform,
        /// Minions of the shire that share it (bits), 0 when it is alone.
        group: u32,
    },
    /// tensor_load_l2.
    LoadL2 {
        /// Event 2 or 3.
        event: u64,
        /// First destination line, as an offset into the own shire's scratchpad.
        offset: u64,
        /// What it reads.
        from: Rows,
    },
    /// tensor_fma.
    Product {
        /// Type of A and B.
        element: Element,
        /// Rows of A.
        rows: usize,
        /// Words of A per row.
        depth: usize,
        /// Columns of B.
        columns: usize,
        /// Lines of A.
        a: LineSet,
        /// Lines of B.
        b: Place,
        /// The sums start at zero.
        first: bool,
        /// C lies in f registers, or goes there.
        registers: RegisterSet,
    },
    /// tensor_quant.
    Quant {
        /// How many transforms.
        transforms: usize,
        /// Of them, those that take a vector from the scratchpad.
        vectors: LineSet,
        /// Rows of C.
        rows: usize,
        /// Columns of C.
        columns: usize,
        /// Registers read and written.
        registers: RegisterSet,
    },
    /// tensor_store from the scratchpad.
    StoreLines {
        /// What it reads.
        from: LineSet,
        /// What it writes.
        to: Rows,
    },
    /// tensor_store from registers.
    StoreRegisters {
        /// What it reads.
        from: RegisterSet,
        /// What it writes.
        to: Rows,
    },
    /// One side of a send, broadcast or reduction.
    Reduction {
        /// Registers read, and written by the receiving side.
        registers: RegisterSet,
        /// The other side's global minion number.
        partner: u16,
        /// This side sends.
        sends: bool,
    },
    /// A cache operation by address.
    Cache {
        /// Its event: 4 or 5 for a prefetch, else 6.
        event: u64,
        /// What it does.
        action: CacheAction,
        /// To which level: 0 L1, 1 L2, 2 L3, 3 memory.
        level: u64,
        /// To which lines.
        lines: Rows,
    },
    /// tensor_wait has ended: nothing of the event is under way any more.
    Wait {
        /// The event (ISA sheet 3.4).
        event: u64,
    },
}

/// `count` lines from `first` on, `step` apart, modulo the number of lines.
pub(super) fn lines(first: usize, step: usize, count: usize) -> LineSet {
    (0..count).fold(0, |set, i| set | 1 << ((first + step * i) % LINES))
}

/// `count` registers from `first` on, `step` apart.
pub(super) fn registers(first: usize, step: usize, count: usize) -> RegisterSet {
    (0..count).fold(0, |set, i| set | 1 << ((first + step * i) % 32))
}

/// The registers of `rows` rows of C from register `first` on.
pub(super) fn accumulators(first: usize, rows: usize, columns: usize) -> RegisterSet {
    let halves = columns.div_ceil(8);
    (0..rows).fold(0, |set, row| set | registers(first + 2 * row, 1, halves))
}
