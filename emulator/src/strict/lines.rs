//! The lines that a launch has touched.

use super::line::{Active, Holder, Holders, Mask};
use std::ops::{Index, IndexMut};

/// A use of bytes that a later write must be ordered after.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    pub place: u16,
    /// At L2 or L3, as polling does.
    pub coherent: bool,
    pub epoch: u32,
    pub command: u32,
    pub pc: u64,
    pub mask: Mask,
}

impl Read {
    /// Whether it is one with another, but for the bytes.
    #[inline]
    fn goes_with(&self, other: &Read) -> bool {
        (self.place, self.epoch, self.coherent) == (other.place, other.epoch, other.coherent)
    }
}

/// Reads of a line. When there are many, those that every hart knows of are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// The usual case: one hart reads.
    first: Read,
    more: Option<Box<More>>,
}

#[derive(Clone, Debug, Default)]
struct More {
    all: Vec<Read>,
    /// How many are many.
    limit: usize,
}

/// Where a hart's reads of lines were noted lately, so that they need not be looked for.
#[derive(Clone, Debug)]
pub struct Noted([(u32, u32); 64]);

impl Default for Noted {
    fn default() -> Self {
        Noted([(u32::MAX, 0); 64])
    }
}

impl Reads {
    /// Adds a read of line `line`. True when it is time to [`prune`](Self::prune).
    #[inline]
    pub fn note(&mut self, noted: &mut Noted, line: usize, read: Read) -> bool {
        if self.first.mask == 0 || self.first.goes_with(&read) {
            self.first = Read { mask: self.first.mask | read.mask, ..read };
            return false;
        }
        self.note_more(noted, line, read)
    }

    #[inline(never)]
    fn note_more(&mut self, noted: &mut Noted, line: usize, read: Read) -> bool {
        let more = self.more.get_or_insert_default();
        let slot = &mut noted.0[line % 64];
        if slot.0 == line as u32 {
            if let Some(old) = more.all.get_mut(slot.1 as usize).filter(|old| old.goes_with(&read)) {
                old.mask |= read.mask;
                old.pc = read.pc;
                return false;
            }
        }
        *slot = (line as u32, more.all.len() as u32);
        more.all.push(read);
        more.all.len() > more.limit.max(48)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Read> {
        let more = self.more.iter().flat_map(|more| &more.all);
        std::iter::once(&self.first).filter(|read| read.mask != 0).chain(more)
    }

    /// A write of these bytes, ordered after all reads of them: who is ordered after the write is after the reads, too.
    #[inline]
    pub fn covered(&mut self, mask: Mask) {
        if self.first.mask & !mask == 0 {
            self.first.mask = 0;
        }
        if let Some(more) = &mut self.more {
            more.all.retain(|read| read.mask & !mask != 0);
        }
    }

    /// Forgets what is ordered before everything that is still to come.
    pub fn prune(&mut self, floor: &[u32]) {
        let Some(more) = &mut self.more else { return };
        let gone = |read: &Read| read.epoch <= floor[usize::from(read.place)];
        more.all.retain(|read| !gone(read));
        if gone(&self.first) {
            self.first = more.all.pop().unwrap_or_default();
        }
        more.limit = 2 * more.all.len();
    }
}

/// A line as far as this launch knows it: one cache line of the host.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub struct Line {
    pub reads: Reads,
    pub active: Option<Box<Active>>,
    /// While nobody has written to it: the harts of one shire and the L2s that have a copy.
    harts: u64,
    shires: u32,
    shire: u16,
    /// Nobody had written some of its bytes when the launch began.
    pub unwritten: bool,
    /// Some of its bytes are in no live buffer.
    pub outside: bool,
}

impl Line {
    /// Whether anybody has used it.
    pub fn touched(&self) -> bool {
        self.active.is_some() || self.harts != 0 || self.shires != 0 || self.reads.iter().next().is_some()
    }

    /// Adds a cache that has a copy, while nobody has written to it. False if there is no room for it.
    #[inline]
    pub fn add_copy(&mut self, holder: Holder) -> bool {
        match holder {
            Holder::L1(place) => {
                if self.harts == 0 {
                    self.shire = place / 64;
                }
                if place / 64 != self.shire {
                    return false;
                }
                self.harts |= 1 << (place % 64);
            }
            Holder::L2(shire) => self.shires |= 1 << shire,
            Holder::Buffer(_) | Holder::Home => {}
        }
        true
    }

    /// A cache has no copy any more.
    pub fn drop_copy(&mut self, holder: Holder) {
        match holder {
            Holder::L1(place) if place / 64 == self.shire => self.harts &= !(1 << (place % 64)),
            Holder::L2(shire) => self.shires &= !(1 << shire),
            _ => {}
        }
    }

    /// Those that have a copy.
    pub fn copies(&self) -> Holders {
        Holders::caches(self.shire, self.harts, self.shires)
    }
}

/// Lines are numbered through open DRAM and then through the scratchpads. Those that a launch uses are held in blocks of
/// 64, which are made together; a line's index counts through the blocks.
#[derive(Debug)]
pub struct Lines {
    /// Per 64 lines, 1 + the number of their block, or 0.
    pages: Vec<u32>,
    blocks: Vec<Box<[Line; 64]>>,
    /// The number of the first line of each block.
    keys: Vec<u64>,
    /// Lines that were written, in order.
    pub written: Vec<usize>,
}

impl Lines {
    pub fn new(lines: u64) -> Lines {
        Lines { pages: vec![0; lines.div_ceil(64) as usize], blocks: Vec::new(), keys: Vec::new(), written: Vec::new() }
    }

    /// The index of a line, if it is in a block.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let block = self.pages[(key / 64) as usize].checked_sub(1)?;
        Some(block as usize * 64 + (key % 64) as usize)
    }

    /// The number of a line.
    #[inline]
    pub fn key(&self, index: usize) -> u64 {
        self.keys[index / 64] + (index % 64) as u64
    }

    /// Adds the block that a line is in, and gives the line's index. `edges` says of a line by number whether it has
    /// bytes that are unwritten, and outside.
    pub fn add(&mut self, key: u64, edges: impl Fn(u64) -> (bool, bool)) -> usize {
        let first = key & !63;
        let mut block = Box::<[Line; 64]>::new(std::array::from_fn(|_| Line::default()));
        for (line, n) in block.iter_mut().zip(first..) {
            (line.unwritten, line.outside) = edges(n);
        }
        self.blocks.push(block);
        self.keys.push(first);
        self.pages[(key / 64) as usize] = self.blocks.len() as u32;
        (self.blocks.len() - 1) * 64 + (key % 64) as usize
    }
}

impl Index<usize> for Lines {
    type Output = Line;

    #[inline]
    fn index(&self, index: usize) -> &Line {
        &self.blocks[index / 64][index % 64]
    }
}

impl IndexMut<usize> for Lines {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut Line {
        &mut self.blocks[index / 64][index % 64]
    }
}
