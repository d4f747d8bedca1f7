//! Barriers and credits of one shire (ISA sheet 4.1, 4.2).

use super::cooperative::Cooperation;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicU8};

/// The synchronisation state of one shire.
#[derive(Debug, Default)]
pub struct Shire {
    /// Fast local barriers.
    pub barriers: [Barrier; 32],
    /// Credit counters, two per hart, minion by minion.
    pub minions: [[HartCredits; 2]; 32],
    /// Cooperative tensor loads under way.
    pub cooperation: Cooperation,
    /// DUMMY0 and DUMMY1 of the four neighborhoods: scratch registers.
    pub scratch: [[AtomicU64; 2]; 4],
    /// UBROADCAST data.
    pub broadcast: AtomicU64,
}

/// A fast local barrier: a counter that returns to 0 at its limit.
#[derive(Debug, Default)]
pub struct Barrier {
    count: AtomicU8,
    /// The latest clock of those who came since the counter was last 0.
    clock: AtomicU64,
}

impl Barrier {
    /// Arrives at logical time `clock`. The one that finds the counter at `limit` resets it and gets the latest time of all.
    pub fn arrive(&self, limit: u8, clock: u64) -> Option<u64> {
        self.clock.fetch_max(clock, Relaxed);
        let step = |count: u8| Some(if count == limit { 0 } else { count.wrapping_add(1) });
        let before = self.count.fetch_update(AcqRel, Acquire, step).unwrap_or_else(|count| count);
        (before == limit).then(|| self.clock.swap(0, Relaxed).max(clock))
    }

    /// The counter, as its ESR shows it.
    pub fn get(&self) -> u64 {
        u64::from(self.count.load(Acquire))
    }

    /// Presets the counter through its ESR.
    pub fn set(&self, value: u64) {
        self.count.store(value as u8, Release);
    }
}

/// The credits of one hart.
#[derive(Debug, Default)]
pub struct HartCredits {
    counters: [Credits; 2],
    overflow: AtomicBool,
}

#[derive(Debug, Default)]
struct Credits {
    count: AtomicU16,
    clock: AtomicU64,
}

impl HartCredits {
    /// Adds a credit to a counter (0 or 1), sent at logical time `clock`.
    pub fn send(&self, counter: usize, clock: u64) {
        let credits = &self.counters[counter];
        credits.clock.fetch_max(clock, Relaxed);
        if credits.count.fetch_add(1, AcqRel) == u16::MAX {
            self.overflow.store(true, Relaxed);
        }
    }

    /// Takes a credit: the latest time at which one was sent, or `None` when there is none.
    pub fn take(&self, counter: usize) -> Option<u64> {
        let credits = &self.counters[counter];
        credits.count.fetch_update(AcqRel, Acquire, |count| count.checked_sub(1)).ok()?;
        Some(credits.clock.load(Relaxed))
    }

    /// Both counters, as fccnb shows them.
    pub fn view(&self) -> u32 {
        let [zero, one] = &self.counters;
        u32::from(one.count.load(Acquire)) << 16 | u32::from(zero.count.load(Acquire))
    }

    /// Whether a counter has overflowed since the last call.
    pub fn overflowed(&self) -> bool {
        self.overflow.load(Relaxed) && self.overflow.swap(false, Relaxed)
    }
}

/// The scratch registers keep 32 bits.
pub(super) const SCRATCH_MASK: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_to_arrive_resets_the_barrier() {
        let barrier = Barrier::default();
        assert_eq!(barrier.arrive(2, 50), None);
        assert_eq!(barrier.arrive(2, 10), None);
        assert_eq!(barrier.arrive(2, 20), Some(50));
        assert_eq!(barrier.get(), 0);
        barrier.set(0x1FF);
        assert_eq!(barrier.arrive(3, 0), None);
        assert_eq!(barrier.get(), 0, "8 bits");
    }

    #[test]
    fn credits_carry_the_latest_time() {
        let credits = HartCredits::default();
        assert_eq!(credits.take(1), None);
        credits.send(1, 30);
        credits.send(1, 20);
        assert_eq!(credits.view(), 2 << 16);
        assert_eq!(credits.take(1), Some(30));
        assert_eq!(credits.take(0), None);
    }

    #[test]
    fn the_65536th_credit_wraps_and_is_reported() {
        let credits = HartCredits::default();
        for _ in 0..0x1_0000 {
            assert!(!credits.overflowed());
            credits.send(0, 0);
        }
        assert_eq!(credits.view(), 0);
        assert!(credits.overflowed());
        assert!(!credits.overflowed());
    }
}
