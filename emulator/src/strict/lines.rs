//! The lines that a launch has touched.

use super::line::{Active, Holders, Mask};

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

/// Reads of a line. When there are many, those that every hart knows of are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    /// The usual case: one hart reads.
    first: Read,
    more: Vec<Read>,
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
        let same = |old: &Read| old.place == read.place && old.epoch == read.epoch && old.coherent == read.coherent;
        if self.first.mask == 0 || same(&self.first) {
            self.first = Read { mask: self.first.mask | read.mask, ..read };
            return false;
        }
        let slot = &mut noted.0[line % 64];
        if slot.0 == line as u32 {
            if let Some(old) = self.more.get_mut(slot.1 as usize).filter(|old| same(old)) {
                old.mask |= read.mask;
                old.pc = read.pc;
                return false;
            }
        }
        *slot = (line as u32, self.more.len() as u32);
        self.more.push(read);
        self.more.len() > self.limit.max(48)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Read> {
        std::iter::once(&self.first).filter(|read| read.mask != 0).chain(&self.more)
    }

    /// A write of these bytes, ordered after all reads of them: who is ordered after the write is after the reads, too.
    pub fn covered(&mut self, mask: Mask) {
        if self.first.mask & !mask == 0 {
            self.first.mask = 0;
        }
        if !self.more.is_empty() {
            self.more.retain(|read| read.mask & !mask != 0);
        }
    }

    /// Forgets what is ordered before everything that is still to come.
    pub fn prune(&mut self, floor: &[u32]) {
        let gone = |read: &Read| read.epoch <= floor[usize::from(read.place)];
        self.more.retain(|read| !gone(read));
        if gone(&self.first) {
            self.first = self.more.pop().unwrap_or_default();
        }
        self.limit = 2 * self.more.len();
    }
}

/// A line as far as this launch knows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its number (see [`Lines`]).
    pub key: u64,
    /// Bytes that nobody had written when the launch began.
    pub unwritten: Mask,
    /// Bytes in no live buffer.
    pub outside: Mask,
    /// Of them, those that may not even be read: a line past the end of a buffer may.
    pub unreadable: Mask,
    /// Who has a copy, while nobody has written to it.
    pub holders: Holders,
    pub reads: Reads,
    pub active: Option<Box<Active>>,
}

/// Lines are numbered through open DRAM and then through the scratchpads.
#[derive(Debug)]
pub struct Lines {
    /// Per 64 lines, 1 + the place of their indices, or 0.
    pages: Vec<u32>,
    indices: Vec<[u32; 64]>,
    pub all: Vec<Line>,
}

impl Lines {
    pub fn new(lines: u64) -> Lines {
        Lines { pages: vec![0; lines.div_ceil(64) as usize], indices: Vec::new(), all: Vec::new() }
    }

    /// The index in `all` of a line; `None` if it was not touched yet.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let page = self.pages[(key / 64) as usize].checked_sub(1)?;
        let index = self.indices[page as usize][(key % 64) as usize].checked_sub(1)?;
        Some(index as usize)
    }

    /// Adds a line that was not touched yet.
    pub fn add(&mut self, line: Line) -> usize {
        let page = &mut self.pages[(line.key / 64) as usize];
        if *page == 0 {
            self.indices.push([0; 64]);
            *page = self.indices.len() as u32;
        }
        let index = self.all.len();
        self.indices[*page as usize - 1][(line.key % 64) as usize] = index as u32 + 1;
        self.all.push(line);
        index
    }
}
