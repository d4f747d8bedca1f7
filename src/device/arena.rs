//! The allocator of device memory: best fit over a sorted list of holes, neighbours merged when freed.

use std::collections::BTreeMap;
use std::ops::Range;

/// Hands out parts of one range of device addresses. Sizes and addresses are multiples of `granule`.
#[derive(Debug)]
pub struct Arena {
    granule: u64,
    total: u64,
    free: u64,
    /// Start and size of each hole; no two touch.
    holes: BTreeMap<u64, u64>,
    /// Start and size of each block in use.
    blocks: BTreeMap<u64, u64>,
}

impl Arena {
    /// An arena over the whole granules of `range`. `granule` is a power of two.
    pub fn new(range: Range<u64>, granule: u64) -> Arena {
        let start = range.start.next_multiple_of(granule);
        let end = range.end & !(granule - 1);
        let total = end.saturating_sub(start);
        let holes = if total > 0 { BTreeMap::from([(start, total)]) } else { BTreeMap::new() };
        Arena { granule, total, free: total, holes, blocks: BTreeMap::new() }
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes not in use, in however many holes.
    pub fn free_bytes(&self) -> u64 {
        self.free
    }

    /// The size of the largest hole.
    pub fn largest(&self) -> u64 {
        self.holes.values().copied().max().unwrap_or(0)
    }

    /// Takes `size` bytes (at least one granule) from the smallest hole that has them.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let size = size.max(1).checked_next_multiple_of(self.granule)?;
        let (&start, &room) = self.holes.iter().filter(|(_, &room)| room >= size).min_by_key(|(_, &room)| room)?;
        self.holes.remove(&start);
        if room > size {
            self.holes.insert(start + size, room - size);
        }
        self.blocks.insert(start, size);
        self.free -= size;
        Some(start)
    }

    /// Gives back what `take` returned. Anything else is ignored.
    pub fn give(&mut self, addr: u64) {
        let Some(mut size) = self.blocks.remove(&addr) else {
            return;
        };
        self.free += size;
        let mut start = addr;
        if let Some((&before, &room)) = self.holes.range(..addr).next_back() {
            if before + room == addr {
                self.holes.remove(&before);
                start = before;
                size += room;
            }
        }
        if let Some(room) = self.holes.remove(&(start + size)) {
            size += room;
        }
        self.holes.insert(start, size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_rounded_inwards() {
        let arena = Arena::new(0x1001..0x2fff, 256);
        assert_eq!((arena.total(), arena.free_bytes()), (0x1e00, 0x1e00));
        assert_eq!(Arena::new(10..20, 256).take(1), None);
    }

    #[test]
    fn blocks_are_aligned_and_do_not_overlap() {
        let mut arena = Arena::new(0x1000..0x2000, 256);
        assert_eq!(arena.take(1), Some(0x1000));
        assert_eq!(arena.take(257), Some(0x1100));
        assert_eq!(arena.take(0), Some(0x1300));
        assert_eq!(arena.free_bytes(), 0x1000 - 0x400);
    }

    #[test]
    fn holes_merge_on_both_sides() {
        let mut arena = Arena::new(0..0x400, 256);
        let blocks: Vec<u64> = (0..4).map(|_| arena.take(256).unwrap()).collect();
        assert_eq!(arena.take(1), None);
        arena.give(blocks[0]);
        arena.give(blocks[2]);
        assert_eq!(arena.largest(), 256);
        arena.give(blocks[1]);
        assert_eq!(arena.largest(), 768);
        arena.give(blocks[3]);
        assert_eq!((arena.largest(), arena.free_bytes()), (0x400, 0x400));
        assert_eq!(arena.take(0x400), Some(0));
    }

    #[test]
    fn the_smallest_hole_that_fits_is_used() {
        let mut arena = Arena::new(0..0x1000, 256);
        let large = arena.take(0x600).unwrap();
        let _wall = arena.take(256).unwrap();
        let small = arena.take(0x200).unwrap();
        let _rest = arena.take(arena.largest()).unwrap();
        arena.give(large);
        arena.give(small);
        assert_eq!(arena.take(0x200), Some(small));
    }

    #[test]
    fn absurd_sizes_and_foreign_addresses_are_harmless() {
        let mut arena = Arena::new(0..0x1000, 256);
        assert_eq!(arena.take(u64::MAX), None);
        arena.give(0x100);
        assert_eq!(arena.free_bytes(), 0x1000);
    }
}
