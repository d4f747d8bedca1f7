//! Memory cut wherever an access begins or ends, so that what is known of it fits in a flat array.

/// Lines are the unit of conflicts: caches write whole lines back.
const LINE: u64 = crate::command::ET_LINE as u64;

/// Bytes that a command reads or writes, as (address, length).
pub type Access = (u64, u64);

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

/// Pieces that follow one another, from `begin` to before `end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub begin: u32,
    /// Behind the last.
    pub end: u32,
}

impl Span {
    /// What is known of its pieces, one value for each of all pieces being in `all`.
    pub fn of<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        &all[self.begin as usize..self.end as usize]
    }

    /// The same, to be changed.
    pub fn of_mut<'a, T>(&self, all: &'a mut [T]) -> &'a mut [T] {
        &mut all[self.begin as usize..self.end as usize]
    }
}

/// Memory in pieces, and the pieces of each access.
#[derive(Debug)]
pub struct Pieces {
    /// Where pieces begin, in order; the last one is where the last piece ends.
    bounds: Vec<u64>,
    spans: Vec<Span>,
}

impl Pieces {
    /// Of all `accesses` there will be.
    pub fn new(accesses: &[Access]) -> Pieces {
        let mut ends = Vec::with_capacity(2 * accesses.len());
        for (i, &access) in accesses.iter().enumerate() {
            if let Some((begin, end)) = lines(access) {
                ends.extend([(begin, 2 * i as u32), (end, 2 * i as u32 + 1)]);
            }
        }
        ends.sort_unstable();
        let mut bounds = Vec::with_capacity(ends.len());
        let mut spans = vec![Span::default(); accesses.len()];
        for (at, end) in ends {
            if bounds.last() != Some(&at) {
                bounds.push(at);
            }
            let span = &mut spans[end as usize / 2];
            let place = if end % 2 == 0 { &mut span.begin } else { &mut span.end };
            *place = bounds.len() as u32 - 1;
        }
        Pieces { bounds, spans }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// The pieces of the accesses, in their order; none for an access of no bytes.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The piece that holds `addr`, or else the next one, or `count`.
    pub fn at(&self, addr: u64) -> u32 {
        let after = self.bounds.partition_point(|&bound| bound <= addr);
        (after.saturating_sub(1) as u32).min(self.count() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_are_made_of_whole_pieces() {
        let pieces = Pieces::new(&[(0x1000, 256), (0x1040, 4), (0x3000, 0), (0x2000, 64)]);
        assert_eq!(pieces.bounds, [0x1000, 0x1040, 0x1080, 0x1100, 0x2000, 0x2040]);
        let span = |begin, end| Span { begin, end };
        assert_eq!(pieces.spans(), [span(0, 3), span(1, 2), span(0, 0), span(4, 5)]);
        assert_eq!(pieces.count(), 5);
        let at = [0, 0x1000, 0x107f, 0x1fff, 0x203f, 0x2040, u64::MAX].map(|addr| pieces.at(addr));
        assert_eq!(at, [0, 0, 1, 3, 4, 5, 5]);
        assert_eq!(Pieces::new(&[]).count(), 0);
    }

    #[test]
    fn neighbours_in_one_line_meet() {
        assert!(meet((0x1000, 4), (0x103c, 4)));
        assert!(!meet((0x1000, 4), (0x1040, 4)));
        assert!(!meet((0x1000, 4), (0x1000, 0)));
        assert!(meet((u64::MAX - 1, 10), (u64::MAX - 100, 99)));
    }
}
