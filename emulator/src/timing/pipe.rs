//! A shared path: so many bytes per cycle, whoever they belong to.
//!
//! Time is cut into slices, and a transfer takes what is left of its own slice and of those that follow. So it does not
//! matter whether two transfers are charged in the order of their times: harts run a little ahead of each other.

use super::constants::{Ticks, CYCLE};

/// Ticks in a slice.
const SLICE: Ticks = 64 * CYCLE;

/// Slices that are kept: transfers are charged at most so far apart.
const SLICES: usize = 2048;

/// One path.
#[derive(Clone, Debug)]
pub struct Pipe {
    /// Bytes that fit into a slice.
    capacity: u32,
    slices: Vec<Slice>,
    /// Slices from the first to before the second are full.
    full: (u64, u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    used: u32,
}

impl Pipe {
    /// An idle path.
    pub fn new(bytes_per_cycle: f64) -> Self {
        let capacity = (bytes_per_cycle * (SLICE / CYCLE) as f64) as u32;
        Pipe { capacity, slices: vec![Slice::default(); SLICES], full: (0, 0) }
    }

    /// Idle again, at time 0.
    pub fn reset(&mut self) {
        self.slices.fill(Slice::default());
        self.full = (0, 0);
    }

    /// Takes `bytes` through from `at` on; how much later than at once their last one comes out.
    #[inline]
    pub fn take(&mut self, at: Ticks, bytes: u32) -> Ticks {
        let first = at / SLICE;
        let mut number = first;
        if (self.full.0..self.full.1).contains(&number) {
            number = self.full.1;
        }
        let mut left = bytes;
        loop {
            let slice = &mut self.slices[number as usize % SLICES];
            if slice.number != number {
                *slice = Slice { number, used: 0 };
            }
            let taken = left.min(self.capacity - slice.used);
            slice.used += taken;
            left -= taken;
            let used = slice.used;
            if used == self.capacity {
                self.filled(number);
            }
            if left == 0 {
                if number == first {
                    return 0;
                }
                let end = number * SLICE + u64::from(used) * SLICE / u64::from(self.capacity);
                return end.saturating_sub(at);
            }
            number += 1;
        }
    }

    fn filled(&mut self, number: u64) {
        if self.full.1 == number {
            self.full.1 += 1;
        } else if self.full.1 < number {
            self.full = (number, number + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_queue_when_a_slice_is_full() {
        let mut pipe = Pipe::new(1.0);
        assert_eq!(pipe.take(0, 64), 0, "what fits is not late");
        assert_eq!(pipe.take(0, 32), SLICE + SLICE / 2);
        assert_eq!(pipe.take(SLICE, 32), 0);
        assert_eq!(pipe.take(10, 64), 3 * SLICE - 10);
        assert_eq!(pipe.take(100 * SLICE, 64), 0);
    }

    #[test]
    fn the_order_of_charging_does_not_matter_for_what_fits() {
        let mut pipe = Pipe::new(1.0);
        assert_eq!(pipe.take(5 * SLICE, 64), 0);
        assert_eq!(pipe.take(2 * SLICE, 64), 0, "the later transfer does not delay the earlier");
    }

    #[test]
    fn a_stream_gets_the_width_of_the_path() {
        let mut pipe = Pipe::new(110.0);
        let late = (0..100_000).map(|_| pipe.take(0, 64)).last().unwrap();
        let cycles = late as f64 / CYCLE as f64;
        assert!((cycles - 6_400_000.0 / 110.0).abs() < 100.0, "{cycles}");
    }
}
