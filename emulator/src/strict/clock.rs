//! Which accesses are ordered before which, whatever the timing: vector clocks over the harts of a launch.
//!
//! A hart's accesses carry its epoch. Synchronisation hands clocks on: who *releases* passes on all that it knows and starts
//! a new epoch, who *acquires* knows it from then on. An access of hart h in epoch e is ordered before what hart g does if
//! g's clock for h is e or more.

use std::rc::Rc;

/// What a hart knew when it released something.
pub type Stamp = Rc<[u32]>;

/// An epoch that nobody ever learns of: the access is not known to be complete.
pub const NEVER: u32 = u32::MAX;

/// The clocks of all harts of a launch, by place.
#[derive(Debug)]
pub struct Clocks(Vec<Box<[u32]>>);

impl Clocks {
    /// Clocks of harts that know nothing of each other.
    pub fn new(harts: usize) -> Clocks {
        let start = |place: usize| (0..harts).map(|other| u32::from(other == place)).collect();
        Clocks((0..harts).map(start).collect())
    }

    /// The hart's epoch.
    #[inline]
    pub fn now(&self, place: u16) -> u32 {
        self.0[usize::from(place)][usize::from(place)]
    }

    /// Whether what `other` did in `epoch` is ordered before what `place` does now.
    #[inline]
    pub fn knows(&self, place: u16, other: u16, epoch: u32) -> bool {
        self.0[usize::from(place)][usize::from(other)] >= epoch
    }

    /// All that a hart knows, to be passed on; later accesses are in a new epoch.
    pub fn release(&mut self, place: u16) -> Stamp {
        let clock = &mut self.0[usize::from(place)];
        let stamp = Rc::from(&clock[..]);
        clock[usize::from(place)] += 1;
        stamp
    }

    /// Passes all that a hart knows on to `into`, which grows from empty.
    pub fn release_into(&mut self, place: u16, into: &mut Vec<u32>) {
        let clock = &mut self.0[usize::from(place)];
        if into.is_empty() {
            into.extend_from_slice(clock);
        } else {
            join(into, clock);
        }
        clock[usize::from(place)] += 1;
    }

    /// The hart learns what was passed on.
    pub fn acquire(&mut self, place: u16, stamp: &[u32]) {
        join(&mut self.0[usize::from(place)], stamp);
    }

    /// Lowers `floor` to what the hart knows of each.
    pub fn lower(&self, place: u16, floor: &mut [u32]) {
        for (least, &known) in floor.iter_mut().zip(&self.0[usize::from(place)]) {
            *least = (*least).min(known);
        }
    }

    /// The hart learns of one access.
    pub fn learn(&mut self, place: u16, other: u16, epoch: u32) {
        let known = &mut self.0[usize::from(place)][usize::from(other)];
        if epoch != NEVER {
            *known = (*known).max(epoch);
        }
    }
}

fn join(into: &mut [u32], from: &[u32]) {
    for (own, &other) in into.iter_mut().zip(from) {
        *own = (*own).max(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_travels_with_releases() {
        let mut clocks = Clocks::new(3);
        let before = clocks.now(0);
        let stamp = clocks.release(0);
        let after = clocks.now(0);
        clocks.acquire(1, &stamp);
        assert!(clocks.knows(1, 0, before) && !clocks.knows(1, 0, after));
        let stamp = clocks.release(1);
        clocks.acquire(2, &stamp);
        assert!(clocks.knows(2, 0, before) && !clocks.knows(2, 0, after) && !clocks.knows(0, 2, 1));
        assert!(!clocks.knows(2, 0, NEVER));
    }
}
