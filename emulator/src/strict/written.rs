//! Which bytes of DRAM hold something, and which belong to a buffer. Kept from launch to launch.

use super::line::Mask;
use std::collections::{BTreeMap, HashMap};

const PAGE: u64 = 4096;
const LINES: usize = 64;

#[derive(Debug)]
enum Page {
    Whole,
    Lines(Box<[Mask; LINES]>),
}

/// What the host and earlier launches have left in DRAM. Addresses are offsets into open DRAM.
#[derive(Debug, Default)]
pub struct Written {
    pages: HashMap<u64, Page>,
    /// Live buffers: start and end. Empty when nobody has said.
    live: BTreeMap<u64, u64>,
    launches: u64,
}

impl Written {
    /// The bytes of a line that hold something.
    pub fn line(&self, line: u64) -> Mask {
        match self.pages.get(&(line / LINES as u64)) {
            None => 0,
            Some(Page::Whole) => Mask::MAX,
            Some(Page::Lines(lines)) => lines[line as usize % LINES],
        }
    }

    /// Whether `count` lines of one page hold something in every byte and lie in one live buffer.
    pub fn is_plain(&self, line: u64, count: u64) -> bool {
        let (start, end) = (64 * line, 64 * (line + count));
        let inside = self.live.is_empty() || self.live.range(..=start).next_back().is_some_and(|(_, &to)| to >= end);
        inside && matches!(self.pages.get(&(line / LINES as u64)), Some(Page::Whole))
    }

    fn lines(&mut self, page: u64) -> &mut [Mask; LINES] {
        let page = self.pages.entry(page).or_insert_with(|| Page::Lines(Box::new([0; LINES])));
        if let Page::Whole = page {
            *page = Page::Lines(Box::new([Mask::MAX; LINES]));
        }
        match page {
            Page::Lines(lines) => lines,
            Page::Whole => unreachable!("made of lines just now"),
        }
    }

    /// Bytes of one line hold something now.
    pub fn add(&mut self, line: u64, mask: Mask) {
        if let Some(Page::Whole) = self.pages.get(&(line / LINES as u64)) {
            return;
        }
        self.lines(line / LINES as u64)[line as usize % LINES] |= mask;
    }

    /// A line holds exactly these bytes.
    pub fn set(&mut self, line: u64, mask: Mask) {
        if self.line(line) != mask {
            self.lines(line / LINES as u64)[line as usize % LINES] = mask;
        }
    }

    /// A range holds something, or nothing.
    pub fn mark(&mut self, start: u64, len: u64, written: bool) {
        let end = start.saturating_add(len);
        let mut at = start;
        while at < end {
            let page = at / PAGE;
            if at.is_multiple_of(PAGE) && end - at >= PAGE {
                match written {
                    true => drop(self.pages.insert(page, Page::Whole)),
                    false => drop(self.pages.remove(&page)),
                }
                at += PAGE;
                continue;
            }
            let next = ((at / 64 + 1) * 64).min(end);
            let mask = span((at % 64) as usize, (next - at) as usize);
            let line = at / 64;
            let old = self.line(line);
            self.set(line, if written { old | mask } else { old & !mask });
            at = next;
        }
    }

    /// `len` bytes at `to` are a copy of those at `from`.
    pub fn copy(&mut self, to: u64, from: u64, len: u64) {
        let holds: Vec<bool> = (from..from + len).map(|at| self.line(at / 64) >> (at % 64) & 1 == 1).collect();
        let mut at = 0;
        for run in holds.chunk_by(|a, b| a == b) {
            self.mark(to + at, run.len() as u64, run[0]);
            at += run.len() as u64;
        }
    }

    /// Launches before this one.
    pub fn count_launch(&mut self) -> u64 {
        self.launches += 1;
        self.launches - 1
    }

    /// Which ranges (start and length) are buffers; all of memory, if there are none.
    pub fn live(&mut self, buffers: impl Iterator<Item = (u64, u64)>) {
        self.live = buffers.map(|(start, len)| (start, start + len)).collect();
    }

    /// The bytes of a line that are in no live buffer.
    pub fn outside(&self, line: u64) -> Mask {
        if self.live.is_empty() {
            return 0;
        }
        let (start, end) = (64 * line, 64 * line + 64);
        let mut inside = 0;
        for (&from, &to) in self.live.range(..end).rev() {
            if to > start {
                let (from, to) = (from.max(start), to.min(end));
                inside |= span((from - start) as usize, (to - from) as usize);
            } else {
                break;
            }
        }
        !inside
    }
}

/// `len` bytes from byte `at` of a line on.
pub fn span(at: usize, len: usize) -> Mask {
    if len == 0 {
        0
    } else {
        (Mask::MAX >> (64 - len)) << at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_their_bytes() {
        let mut written = Written::default();
        written.mark(4096 - 10, 4096 + 30, true);
        assert_eq!(written.line(63), span(54, 10));
        assert_eq!(written.line(64), Mask::MAX);
        assert_eq!(written.line(128), span(0, 20));
        written.mark(4096 + 3, 2, false);
        assert_eq!(written.line(64), !span(3, 2));
        written.copy(3, 4096, 8);
        assert_eq!(written.line(0), span(3, 3) | span(8, 3));
    }

    #[test]
    fn bytes_between_buffers_are_outside() {
        let mut written = Written::default();
        assert_eq!(written.outside(1), 0, "nobody has said");
        written.live([(64, 10), (96, 32)].into_iter());
        assert_eq!(written.outside(1), !(span(0, 10) | span(32, 32)));
        assert_eq!(written.outside(0), Mask::MAX);
    }
}
