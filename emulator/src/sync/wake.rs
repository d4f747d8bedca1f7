//! Who is to run again: wake bits for blocked harts, sleep for host threads without work, and the discovery of deadlock.
//!
//! A hart that blocks is not looked at again until its bit is set. Whoever changes what a hart may wait for makes the
//! change first and sets the bit second; the owner clears the bit first and looks second; so no change is missed.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The harts of one shire that one host thread runs, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Shire number.
    pub shire: u32,
    /// Its harts.
    pub harts: u64,
}

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
    bits: Vec<AtomicU64>,
    /// Per shire, the host threads with a share in it.
    owners: Vec<Vec<(usize, u64)>>,
    threads: Vec<Thread>,
    idle: Mutex<Idle>,
    stop: AtomicBool,
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
    live: usize,
}

impl Wake {
    /// For a chip of `shires` shires, whose harts are shared out among host threads (`shares[t]` for thread t).
    pub fn new(shires: u32, shares: &[Vec<Share>]) -> Self {
        let mut owners = vec![Vec::new(); shires as usize];
        for (thread, own) in shares.iter().enumerate() {
            for share in own {
                owners[share.shire as usize].push((thread, share.harts));
            }
        }
        Wake {
            bits: (0..shires).map(|_| AtomicU64::new(0)).collect(),
            owners,
            threads: shares.iter().map(|_| Thread::default()).collect(),
            idle: Mutex::new(Idle { sleeping: vec![false; shares.len()], asleep: 0, live: shares.len() }),
            stop: AtomicBool::new(false),
        }
    }

    /// Lets harts of a shire look again at what they wait for.
    pub fn harts(&self, shire: u32, harts: u64) {
        let Some(bits) = self.bits.get(shire as usize) else { return };
        bits.fetch_or(harts, SeqCst);
        for &(thread, share) in &self.owners[shire as usize] {
            if share & harts != 0 && self.threads[thread].drowsy.load(SeqCst) {
                self.rouse(&mut self.lock(), thread);
            }
        }
    }

    /// Lets hart 0 of a global minion look again.
    pub fn minion(&self, minion: u16) {
        self.harts(u32::from(minion >> 5), 1 << (2 * (minion & 31)));
    }

    /// Whether a share has wake bits.
    pub fn pending(&self, share: Share) -> bool {
        self.bits[share.shire as usize].load(SeqCst) & share.harts != 0
    }

    /// Takes the wake bits of a share.
    pub fn take(&self, share: Share) -> u64 {
        if !self.pending(share) {
            return 0;
        }
        self.bits[share.shire as usize].fetch_and(!share.harts, SeqCst) & share.harts
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

    /// Host thread `thread` has nothing to run: sleeps until one of its wake bits is set.
    pub fn sleep(&self, thread: usize, shares: &[Share], deadline: Option<Instant>) -> Verdict {
        let own = &self.threads[thread];
        own.drowsy.store(true, SeqCst);
        let mut idle = self.lock();
        if shares.iter().any(|&share| self.pending(share)) {
            own.drowsy.store(false, SeqCst);
            return Verdict::Woken;
        }
        idle.sleeping[thread] = true;
        idle.asleep += 1;
        // Nobody runs, and everybody saw no wake bit of its own: there is nobody left to set one.
        if idle.asleep == idle.live && !self.stopped() {
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

    /// Host thread `thread` has no harts left. True when this leaves only sleepers: a deadlock, and the launch is stopped.
    pub fn leave(&self) -> bool {
        let mut idle = self.lock();
        idle.live -= 1;
        let deadlock = idle.live > 0 && idle.asleep == idle.live && !self.stopped();
        drop(idle);
        if deadlock {
            self.stop();
        }
        deadlock
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

    fn wake(threads: usize) -> (Wake, Vec<Vec<Share>>) {
        let shares: Vec<_> = (0..threads).map(|t| vec![Share { shire: 0, harts: 0xFF << (8 * t) }]).collect();
        (Wake::new(1, &shares), shares)
    }

    #[test]
    fn a_sleeper_wakes_for_its_own_harts_only() {
        let (wake, shares) = wake(2);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wake.sleep(1, &shares[1], None));
            wake.harts(0, 1);
            wake.harts(0, 1 << 9);
            assert_eq!(sleeper.join().unwrap(), Verdict::Woken);
        });
        assert_eq!(wake.take(shares[0][0]), 1);
        assert_eq!(wake.take(shares[1][0]), 1 << 9);
        assert_eq!(wake.take(shares[1][0]), 0);
    }

    #[test]
    fn the_last_to_sleep_finds_the_deadlock() {
        let (wake, shares) = wake(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| wake.sleep(1, &shares[1], None));
            let own = wake.sleep(0, &shares[0], None);
            let other = other.join().unwrap();
            assert!(matches!(
                (own, other),
                (Verdict::Deadlock, Verdict::Stopped) | (Verdict::Stopped, Verdict::Deadlock)
            ));
        });
    }

    #[test]
    fn a_leaver_finds_the_deadlock_of_those_who_stay() {
        let (wake, shares) = wake(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| wake.sleep(1, &shares[1], None));
            while wake.lock().asleep == 0 {
                std::thread::yield_now();
            }
            assert!(wake.leave());
            assert_eq!(other.join().unwrap(), Verdict::Stopped);
        });
    }

    #[test]
    fn the_deadline_ends_a_sleep() {
        let (wake, shares) = wake(2);
        let deadline = Instant::now() + Duration::from_millis(5);
        assert_eq!(wake.sleep(0, &shares[0], Some(deadline)), Verdict::Deadline);
        assert!(wake.stopped());
    }
}
