//! Decoded code of all host threads, kept from launch to launch.

use crate::code::Code;
use std::sync::{Mutex, PoisonError};

/// One cache per host thread.
pub(super) struct Codes {
    caches: Vec<Code>,
}

impl Codes {
    pub fn new(threads: usize) -> Self {
        Codes { caches: (0..threads).map(|_| Code::new(false)).collect() }
    }

    /// The caches, without what the host has overwritten since the last launch.
    pub fn prepare(&mut self, exact_flags: bool, stale: &Stale) -> &mut [Code] {
        let stale = std::mem::take(&mut *stale.lock());
        for cache in &mut self.caches {
            if cache.exact_flags() != exact_flags {
                *cache = Code::new(exact_flags);
            } else if stale.overflowed {
                cache.clear();
            } else {
                for &(addr, len) in &stale.ranges {
                    cache.invalidate(addr, len);
                }
            }
        }
        &mut self.caches
    }
}

/// Where the host has written since the last launch.
#[derive(Default)]
pub(super) struct Stale(Mutex<Ranges>);

#[derive(Default)]
struct Ranges {
    ranges: Vec<(u64, u64)>,
    overflowed: bool,
}

impl Stale {
    /// More ranges than this are not worth telling apart: decoding again is cheap.
    const MAX: usize = 64;

    /// The host writes `len` bytes at `addr`.
    pub fn note(&self, addr: u64, len: u64) {
        let mut all = self.lock();
        if all.overflowed || len == 0 {
            return;
        }
        if let Some((start, size)) = all.ranges.last_mut() {
            if *start + *size == addr {
                *size += len;
                return;
            }
        }
        if all.ranges.len() < Self::MAX {
            all.ranges.push((addr, len));
        } else {
            *all = Ranges { ranges: Vec::new(), overflowed: true };
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ranges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_and_many_overflow() {
        let stale = Stale::default();
        stale.note(0, 10);
        stale.note(10, 5);
        assert_eq!(stale.lock().ranges, [(0, 15)]);
        for i in 1..100 {
            stale.note(i * 100, 1);
        }
        assert!(stale.lock().overflowed && stale.lock().ranges.is_empty());
    }
}
