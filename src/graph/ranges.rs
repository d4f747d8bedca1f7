//! A set of address ranges.

use std::collections::BTreeMap;

/// Address ranges that do not touch one another, by start.
#[derive(Debug, Default)]
pub struct Ranges {
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `len` bytes at `start`.
    pub fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut end) = (start, start.saturating_add(len));
        // Ranges are disjoint, so those that meet the new one are the last ones that start at or before its end.
        while let Some((&other, &other_end)) = self.ends.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.ends.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
    }

    /// True when one of `len` bytes at `start` is in the set.
    pub fn overlaps(&self, start: u64, len: u64) -> bool {
        len > 0 && self.ends.range(..start.saturating_add(len)).next_back().is_some_and(|(_, &end)| end > start)
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_others_stay() {
        let mut set = Ranges::default();
        set.insert(100, 10);
        set.insert(120, 10);
        set.insert(110, 10);
        set.insert(200, 1);
        assert_eq!(set.ends, BTreeMap::from([(100, 130), (200, 201)]));
        set.insert(90, 200);
        assert_eq!(set.ends, BTreeMap::from([(90, 290)]));
    }

    #[test]
    fn overlap_is_of_bytes_not_of_ends() {
        let mut set = Ranges::default();
        set.insert(100, 10);
        assert!(!set.overlaps(90, 10));
        assert!(set.overlaps(90, 11));
        assert!(set.overlaps(109, 1));
        assert!(!set.overlaps(110, 5));
        assert!(!set.overlaps(105, 0));
        set.insert(0, 0);
        assert!(!set.overlaps(0, 1));
    }

    #[test]
    fn it_agrees_with_a_plain_byte_map() {
        let mut next = crate::graph::random(12345);
        let (mut set, mut bytes) = (Ranges::default(), [false; 256]);
        for _ in 0..300 {
            let (start, len) = (next(200), next(30));
            assert_eq!(set.overlaps(start, len), bytes[start as usize..][..len as usize].contains(&true));
            if len < 5 {
                set.insert(start, len);
                bytes[start as usize..][..len as usize].fill(true);
            }
        }
    }
}
