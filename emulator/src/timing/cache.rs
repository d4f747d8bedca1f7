//! Tags: which lines a cache holds, since when, and whether they are to be written back.

use super::constants::Ticks;

/// A line of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Number of the line, [`NONE`] when the way is empty.
    pub line: u64,
    /// When it came, or will come.
    pub ready: Ticks,
    /// It differs from the level below.
    pub dirty: bool,
}

/// No line.
pub const NONE: u64 = u64::MAX;

impl Way {
    const EMPTY: Way = Way { line: NONE, ready: 0, dirty: false };
}

/// The ways of a set, the one used last first.
#[derive(Clone, Copy, Debug)]
pub struct Set<const WAYS: usize>([Way; WAYS]);

impl<const WAYS: usize> Default for Set<WAYS> {
    fn default() -> Self {
        Set([Way::EMPTY; WAYS])
    }
}

impl<const WAYS: usize> Set<WAYS> {
    /// A line, which becomes the one used last.
    #[inline]
    pub fn find(&mut self, line: u64) -> Option<&mut Way> {
        if self.0[0].line != line {
            let place = self.0.iter().position(|way| way.line == line)?;
            self.0[..=place].rotate_right(1);
        }
        Some(&mut self.0[0])
    }

    /// Puts a line in, which must not be there, in place of the one not used for longest; gives that if it is dirty.
    #[inline]
    pub fn insert(&mut self, line: u64, ready: Ticks, dirty: bool) -> Option<u64> {
        self.0.rotate_right(1);
        let old = std::mem::replace(&mut self.0[0], Way { line, ready, dirty });
        old.dirty.then_some(old.line)
    }

    /// Takes a line out.
    pub fn remove(&mut self, line: u64) -> Option<Way> {
        let place = self.0.iter().position(|way| way.line == line)?;
        self.0[place..].rotate_left(1);
        Some(std::mem::replace(&mut self.0[WAYS - 1], Way::EMPTY))
    }
}

/// A set-associative cache of 4 ways.
#[derive(Clone, Debug)]
pub struct Cache {
    sets: Vec<Set<4>>,
}

impl Cache {
    /// An empty cache of so many lines.
    pub fn new(lines: u64) -> Self {
        Cache { sets: vec![Set::default(); lines as usize / 4] }
    }

    /// Empty again.
    pub fn reset(&mut self) {
        self.sets.fill(Set::default());
    }

    /// The set of a line.
    #[inline]
    pub fn set(&mut self, line: u64) -> &mut Set<4> {
        let sets = self.sets.len();
        &mut self.sets[line as usize % sets]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut set = Set::<4>::default();
        for line in 0..4 {
            assert_eq!(set.insert(line, 0, line == 1), None);
        }
        assert!(set.find(0).is_some());
        assert_eq!(set.insert(4, 0, false), Some(1), "1 is dirty and the oldest");
        assert!(set.find(1).is_none() && set.find(0).is_some() && set.find(2).is_some());
        assert!(set.remove(0).is_some() && set.remove(0).is_none());
        assert_eq!(set.insert(5, 0, false), None, "the empty way was free");
        assert!(set.find(2).is_some() && set.find(3).is_some() && set.find(4).is_some());
    }
}
