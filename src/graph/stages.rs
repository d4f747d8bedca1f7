//! Which commands may run side by side: each gets the first stage in which all that it depends on is done.

use super::pieces::Span;

/// What the commands so far have done to each piece of memory.
#[derive(Debug)]
pub struct Stages {
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    /// The first stage after the last write, 0 for none.
    written: u32,
    /// The first stage after the last read, 0 for none.
    read: u32,
}

impl Stages {
    /// No command yet, and so many pieces.
    pub fn new(pieces: usize) -> Stages {
        Stages { pieces: vec![Piece::default(); pieces] }
    }

    /// The stage of a command that follows those so far: after the writers of what it reads and writes, and after the
    /// readers of what it overwrites.
    pub fn place(&mut self, reads: &[Span], writes: &[Span]) -> u32 {
        let mut stage = 0;
        for piece in reads.iter().flat_map(|span| span.of(&self.pieces)) {
            stage = stage.max(piece.written);
        }
        for piece in writes.iter().flat_map(|span| span.of(&self.pieces)) {
            stage = stage.max(piece.written).max(piece.read);
        }
        for span in reads {
            span.of_mut(&mut self.pieces).iter_mut().for_each(|piece| piece.read = piece.read.max(stage + 1));
        }
        for span in writes {
            span.of_mut(&mut self.pieces).fill(Piece { written: stage + 1, read: 0 });
        }
        stage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::pieces::{meet, Access, Pieces};

    /// The stages of commands that read and write.
    fn stages(commands: &[(Vec<Access>, Vec<Access>)]) -> Vec<u32> {
        let accesses: Vec<Access> =
            commands.iter().flat_map(|(reads, writes)| reads.iter().chain(writes)).copied().collect();
        let pieces = Pieces::new(&accesses);
        let mut stages = Stages::new(pieces.count());
        let mut spans = pieces.spans();
        let place = |(reads, writes): &(Vec<Access>, Vec<Access>)| {
            let (read, rest) = spans.split_at(reads.len());
            let (written, rest) = rest.split_at(writes.len());
            spans = rest;
            stages.place(read, written)
        };
        commands.iter().map(place).collect()
    }

    #[test]
    fn a_reader_waits_for_the_writer_and_a_writer_for_all() {
        let commands = [
            (vec![(0, 64)], vec![(0x1000, 256)], 0, "the first"),
            (vec![(0x1080, 4)], vec![(0x2000, 64)], 1, "reads what the first wrote"),
            (vec![(0x1000, 4)], vec![(0x3000, 64)], 1, "so does this, beside it"),
            (vec![], vec![(0, 64)], 1, "overwrites what the first read"),
            (vec![], vec![(0x10c0, 64)], 1, "overwrites what the first wrote and nobody reads"),
            (vec![], vec![(0x1080, 64)], 2, "overwrites what the second read"),
            (vec![(0x8000, 0)], vec![], 0, "reads nothing"),
        ];
        let placed = stages(&commands.clone().map(|(reads, writes, ..)| (reads, writes)));
        for ((.., expected, what), stage) in commands.iter().zip(placed) {
            assert_eq!(stage, *expected, "{what}");
        }
    }

    #[test]
    fn neighbours_in_one_line_conflict() {
        let write = |addr| (vec![], vec![(addr, 4)]);
        assert_eq!(stages(&[write(0x1000), write(0x103c), write(0x1040)]), [0, 1, 0]);
    }

    #[test]
    fn it_agrees_with_a_comparison_of_all_pairs() {
        let mut next = crate::graph::random(1);
        let mut some = |most| (0..=next(most)).map(|_| (next(4000), next(300))).collect::<Vec<Access>>();
        let commands: Vec<_> = (0..400).map(|_| (some(3), some(1))).collect();
        let conflict = |a: &[Access], b: &[Access]| a.iter().any(|&a| b.iter().any(|&b| meet(a, b)));
        let placed = stages(&commands);
        for (i, (reads, writes)) in commands.iter().enumerate() {
            let depends =
                |(r, w): &(Vec<Access>, Vec<Access>)| conflict(reads, w) || conflict(writes, w) || conflict(writes, r);
            let before = commands[..i].iter().zip(&placed).filter(|(command, _)| depends(command));
            assert_eq!(placed[i], before.map(|(_, stage)| stage + 1).max().unwrap_or(0));
        }
    }
}
