//! Who is to run again: wake bits for blocked harts, sleep for host threads without work, and the discovery of deadlock.
//!
//! A hart that blocks is not looked at again until its bit is set. Whoever changes what a hart may wait for makes the
//! change first and sets the bit second; who runs the hart clears the bit first and looks second; so no change is missed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a host thread's sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There may be work.
    Woken,
    /// Somebody ended the launch.
    Stopped,
    /// Every host thread sleeps, so no hart can ever go on.
    Deadlock,
    /// The deadline passed.
    Deadline,
}

/// Wake bits and sleeping host threads of one launch.
#[derive(Debug)]
pub struct Wake {
    shires: Vec<Shire>,
    threads: Vec<Thread>,
    idle: Mutex<Idle>,
    stop: AtomicBool,
}

/// The harts of one shire, as bits.
#[derive(Debug)]
struct Shire {
    /// Those that take part in the launch.
    members: u64,
    /// Those that are to be looked at.
    bits: AtomicU64,
}

#[derive(Debug, Default)]
struct Thread {
    /// Set a little before `Idle::sleeping`; a cheap hint for wakers.
    drowsy: AtomicBool,
    signal: Condvar,
}

#[derive(Debug)]
struct Idle {
    sleeping: Vec<bool>,
    asleep: usize,
}

impl Wake {
    /// For a chip of `shires` shires, of which those in `shire_mask` run a kernel on so many host threads.
    pub fn new(shires: u32, shire_mask: u64, threads: usize) -> Self {
        let members = |shire: u32| if shire_mask >> shire & 1 == 1 { u64::MAX } else { 0 };
        Wake {
            shires: (0..shires).map(|s| Shire { members: members(s), bits: AtomicU64::new(0) }).collect(),
            threads: (0..threads).map(|_| Thread::default()).collect(),
            idle: Mutex::new(Idle { sleeping: vec![false; threads], asleep: 0 }),
            stop: AtomicBool::new(false),
        }
    }

    /// Lets harts of a shire look again at what they wait for.
    pub fn harts(&self, shire: u32, harts: u64) {
        let Some(Shire { members, bits }) = self.shires.get(shire as usize) else { return };
        let harts = harts & members;
        bits.fetch_or(harts, SeqCst);
        // One more thread for each hart is enough.
        let sleepers = (0..self.threads.len()).filter(|&thread| self.threads[thread].drowsy.load(SeqCst));
        for thread in sleepers.take(harts.count_ones() as usize) {
            self.rouse(&mut self.lock(), thread);
        }
    }

    /// Lets hart 0 of a global minion look again.
    pub fn minion(&self, minion: u16) {
        self.harts(u32::from(minion >> 5), 1 << (2 * (minion & 31)));
    }

    /// Sets the bits of harts again that the caller, who is awake, took and will look for.
    pub fn put_back(&self, shire: u32, harts: u64) {
        self.shires[shire as usize].bits.fetch_or(harts, SeqCst);
    }

    /// Whether any hart is to be looked at.
    pub fn pending(&self) -> bool {
        self.shires.iter().any(|shire| shire.bits.load(SeqCst) != 0)
    }

    /// Takes the wake bits of one minion out of `among`, which has both or none of a minion's: the first at or after bit
    /// `from`, or else the first.
    pub fn take_minion(&self, shire: u32, among: u64, from: u32) -> Option<u64> {
        let bits = &self.shires[shire as usize].bits;
        loop {
            let set = bits.load(SeqCst) & among;
            if set == 0 {
                return None;
            }
            let later = set & (u64::MAX << from);
            let hart = if later != 0 { later } else { set }.trailing_zeros();
            let both = 3 << (hart & !1);
            let taken = bits.fetch_and(!both, SeqCst) & both;
            if taken != 0 {
                return Some(taken);
            }
        }
    }

    /// Takes all wake bits of a shire.
    pub fn take(&self, shire: u32) -> u64 {
        let bits = &self.shires[shire as usize].bits;
        if bits.load(SeqCst) == 0 {
            return 0;
        }
        bits.swap(0, SeqCst)
    }

    /// Whether the launch is to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Ends the launch: everybody stops soon, sleepers included.
    pub fn stop(&self) {
        self.stop.store(true, SeqCst);
        let mut idle = self.lock();
        for thread in 0..self.threads.len() {
            self.rouse(&mut idle, thread);
        }
    }

    /// Host thread `thread` has nothing to run: sleeps until there may be something.
    pub fn sleep(&self, thread: usize, deadline: Option<Instant>) -> Verdict {
        let own = &self.threads[thread];
        own.drowsy.store(true, SeqCst);
        let mut idle = self.lock();
        if self.pending() {
            own.drowsy.store(false, SeqCst);
            return Verdict::Woken;
        }
        idle.sleeping[thread] = true;
        idle.asleep += 1;
        // Nobody runs, and there is no wake bit: there is nobody left to set one.
        if idle.asleep == self.threads.len() && !self.stopped() {
            drop(idle);
            self.stop();
            return Verdict::Deadlock;
        }
        loop {
            if self.stopped() {
                return Verdict::Stopped;
            }
            if !idle.sleeping[thread] {
                return Verdict::Woken;
            }
            let patience = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                drop(idle);
                self.stop();
                return Verdict::Deadline;
            }
            idle = match own.signal.wait_timeout(idle, patience.min(Duration::from_secs(3600))) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    fn rouse(&self, idle: &mut Idle, thread: usize) {
        if std::mem::take(&mut idle.sleeping[thread]) {
            idle.asleep -= 1;
            self.threads[thread].drowsy.store(false, SeqCst);
            self.threads[thread].signal.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_wakes_for_members_of_the_launch() {
        let wake = Wake::new(2, 1, 2);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wake.sleep(1, None));
            wake.harts(1, 1);
            wake.harts(0, 1 << 9 | 1 << 3);
            assert_eq!(sleeper.join().unwrap(), Verdict::Woken);
        });
        assert_eq!(wake.take(1), 0, "shire 1 takes no part");
        assert_eq!(wake.take_minion(0, u64::MAX, 4), Some(1 << 9));
        assert_eq!(wake.take_minion(0, 3 << 8, 0), None);
        wake.put_back(0, 1 << 2);
        assert_eq!(wake.take_minion(0, u64::MAX, 4), Some(3 << 2), "both harts");
        wake.put_back(0, 1 << 3);
        assert_eq!(wake.take(0), 1 << 3);
        assert!(!wake.pending());
    }

    #[test]
    fn the_last_to_sleep_finds_the_deadlock() {
        let wake = Wake::new(1, 1, 2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| wake.sleep(1, None));
            let own = wake.sleep(0, None);
            let other = other.join().unwrap();
            assert!(matches!(
                (own, other),
                (Verdict::Deadlock, Verdict::Stopped) | (Verdict::Stopped, Verdict::Deadlock)
            ));
        });
    }

    #[test]
    fn the_deadline_ends_a_sleep() {
        let wake = Wake::new(1, 1, 2);
        let deadline = Instant::now() + Duration::from_millis(5);
        assert_eq!(wake.sleep(0, Some(deadline)), Verdict::Deadline);
        assert!(wake.stopped());
    }
}
