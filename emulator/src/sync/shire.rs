//! Barriers and credits of one shire (ISA sheet 4.1, 4.2).

use super::cooperative::Cooperation;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

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

/// A counter and the latest logical time of those who changed it, in one word: harts on different host threads fight for it.
#[derive(Debug, Default)]
struct Stamped<const BITS: u32>(AtomicU64);

impl<const BITS: u32> Stamped<BITS> {
    const MASK: u64 = (1 << BITS) - 1;

    /// Replaces counter and time by what `step` makes of them. Gives both as they were, or `None` where `step` did not want to.
    fn change(&self, step: impl Fn(u64, u64) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
        let parts = |word: u64| (word & Self::MASK, word >> BITS);
        let next = |word| {
            let (count, time) = parts(word);
            step(count, time).map(|(count, time)| time << BITS | count & Self::MASK)
        };
        self.0.fetch_update(AcqRel, Acquire, next).ok().map(parts)
    }

    fn count(&self) -> u64 {
        self.0.load(Acquire) & Self::MASK
    }
}

/// A fast local barrier: a counter that returns to 0 at its limit. With the latest clock of those who came since then.
#[derive(Debug, Default)]
pub struct Barrier(Stamped<8>);

impl Barrier {
    /// Arrives at logical time `clock`. The one that finds the counter at `limit` resets it and gets the latest time of all.
    pub fn arrive(&self, limit: u8, clock: u64) -> Option<u64> {
        let limit = u64::from(limit);
        let step = |count, time: u64| Some(if count == limit { (0, 0) } else { (count + 1, time.max(clock)) });
        let (before, time) = self.0.change(step)?;
        (before == limit).then(|| time.max(clock))
    }

    /// The counter, as its ESR shows it.
    pub fn get(&self) -> u64 {
        self.0.count()
    }

    /// Presets the counter through its ESR.
    pub fn set(&self, value: u64) {
        self.0.change(|_, time| Some((value, time)));
    }
}

/// The credits of one hart, on a line of the host's cache of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct HartCredits {
    counters: [Stamped<16>; 2],
    overflow: AtomicBool,
}

impl HartCredits {
    /// Adds a credit to a counter (0 or 1), sent at logical time `clock`.
    pub fn send(&self, counter: usize, clock: u64) {
        let before = self.counters[counter].change(|count, time| Some((count + 1, time.max(clock))));
        if before.is_some_and(|(count, _)| count == u64::from(u16::MAX)) {
            self.overflow.store(true, Relaxed);
        }
    }

    /// Takes a credit: the latest time at which one was sent, or `None` when there is none.
    pub fn take(&self, counter: usize) -> Option<u64> {
        let step = |count: u64, time| Some((count.checked_sub(1)?, time));
        self.counters[counter].change(step).map(|(_, time)| time)
    }

    /// Both counters, as fccnb shows them.
    pub fn view(&self) -> u32 {
        let [zero, one] = &self.counters;
        (one.count() << 16 | zero.count()) as u32
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
