//! Which commands may run side by side: each gets the first stage in which all that it depends on is done.

use std::collections::BTreeMap;

/// Lines are the unit of conflicts: caches write whole lines back.
const LINE: u64 = crate::command::ET_LINE as u64;

/// Bytes that a command reads or writes, as (address, length).
pub type Access = (u64, u64);

/// What the commands so far have done to each line.
#[derive(Debug, Default)]
pub struct Stages {
    /// Disjoint pieces by start.
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    end: u64,
    /// The first stage after the last write, 0 for none.
    written: u32,
    /// The first stage after the last read, 0 for none.
    read: u32,
}

impl Stages {
    /// The stage of a command that follows those so far: after the writers of what it reads and writes, and after the
    /// readers of what it overwrites.
    pub fn place(&mut self, reads: &[Access], writes: &[Access]) -> u32 {
        let after_writes = reads.iter().map(|&access| self.last(access, |piece| piece.written));
        let stage = after_writes.max().unwrap_or(0);
        let after_all = writes.iter().map(|&access| self.last(access, |piece| piece.written.max(piece.read)));
        let stage = after_all.max().unwrap_or(0).max(stage);
        for &access in reads {
            self.read(access, stage + 1);
        }
        for &access in writes {
            self.write(access, stage + 1);
        }
        stage
    }

    fn last(&self, access: Access, of: impl Fn(&Piece) -> u32) -> u32 {
        let Some((start, end)) = lines(access) else { return 0 };
        // Most accesses are to a whole tensor again.
        if let Some(piece) = self.pieces.get(&start).filter(|piece| piece.end == end) {
            return of(piece);
        }
        let overlapping = self.pieces.range(..end).rev().take_while(|(_, piece)| piece.end > start);
        overlapping.map(|(_, piece)| of(piece)).max().unwrap_or(0)
    }

    fn read(&mut self, access: Access, after: u32) {
        let Some((start, end)) = lines(access) else { return };
        if let Some(piece) = self.pieces.get_mut(&start).filter(|piece| piece.end == end) {
            piece.read = piece.read.max(after);
            return;
        }
        self.cut(start);
        self.cut(end);
        let mut at = start;
        let mut gaps = Vec::new();
        for (&from, piece) in self.pieces.range_mut(start..end) {
            if from > at {
                gaps.push((at, from));
            }
            piece.read = piece.read.max(after);
            at = piece.end;
        }
        if at < end {
            gaps.push((at, end));
        }
        for (from, end) in gaps {
            self.pieces.insert(from, Piece { end, written: 0, read: after });
        }
    }

    fn write(&mut self, access: Access, after: u32) {
        let Some((start, end)) = lines(access) else { return };
        let whole = Piece { end, written: after, read: 0 };
        if let Some(piece) = self.pieces.get_mut(&start).filter(|piece| piece.end == end) {
            *piece = whole;
            return;
        }
        self.cut(start);
        self.cut(end);
        while let Some((&from, _)) = self.pieces.range(start..end).next() {
            self.pieces.remove(&from);
        }
        self.pieces.insert(start, whole);
    }

    /// Lets no piece reach over `at`.
    fn cut(&mut self, at: u64) {
        let Some((_, piece)) = self.pieces.range_mut(..at).next_back() else { return };
        if piece.end > at {
            let rest = *piece;
            piece.end = at;
            self.pieces.insert(at, rest);
        }
    }
}

/// The lines that an access touches, `None` when it has no bytes.
fn lines((addr, len): Access) -> Option<(u64, u64)> {
    let end = addr.saturating_add(len).checked_next_multiple_of(LINE).unwrap_or(u64::MAX);
    (len > 0).then_some((addr & !(LINE - 1), end))
}

/// Whether two accesses share a line.
pub fn meet(a: Access, b: Access) -> bool {
    match (lines(a), lines(b)) {
        (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_for_the_writer_and_a_writer_for_all() {
        let mut stages = Stages::default();
        assert_eq!(stages.place(&[(0, 64)], &[(0x1000, 256)]), 0);
        assert_eq!(stages.place(&[(0x1080, 4)], &[(0x2000, 64)]), 1, "reads what the first wrote");
        assert_eq!(stages.place(&[(0x1000, 4)], &[(0x3000, 64)]), 1, "so does this, beside it");
        assert_eq!(stages.place(&[], &[(0, 64)]), 1, "overwrites what the first read");
        assert_eq!(stages.place(&[], &[(0x10c0, 64)]), 1, "overwrites what the first wrote and nobody reads");
        assert_eq!(stages.place(&[], &[(0x1080, 64)]), 2, "overwrites what the second read");
        assert_eq!(stages.place(&[(0x8000, 0)], &[]), 0);
    }

    #[test]
    fn neighbours_in_one_line_conflict() {
        let mut stages = Stages::default();
        assert_eq!(stages.place(&[], &[(0x1000, 4)]), 0);
        assert_eq!(stages.place(&[], &[(0x103c, 4)]), 1);
        assert_eq!(stages.place(&[], &[(0x1040, 4)]), 0);
        assert!(meet((0x1000, 4), (0x103c, 4)) && !meet((0x1000, 4), (0x1040, 4)) && !meet((0x1000, 4), (0x1000, 0)));
    }

    #[test]
    fn it_agrees_with_a_comparison_of_all_pairs() {
        let mut next = crate::graph::random(1);
        let mut stages = Stages::default();
        let mut all: Vec<(Vec<Access>, Vec<Access>, u32)> = Vec::new();
        for _ in 0..400 {
            let mut some = |most| (0..=next(most)).map(|_| (next(4000), next(300))).collect::<Vec<Access>>();
            let (reads, writes) = (some(3), some(1));
            let conflict = |a: &[Access], b: &[Access]| a.iter().any(|&a| b.iter().any(|&b| meet(a, b)));
            let before =
                all.iter().filter(|(r, w, _)| conflict(&reads, w) || conflict(&writes, w) || conflict(&writes, r));
            let expected = before.map(|(_, _, stage)| stage + 1).max().unwrap_or(0);
            assert_eq!(stages.place(&reads, &writes), expected);
            all.push((reads, writes, expected));
        }
    }
}
