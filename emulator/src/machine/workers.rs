//! What host threads keep from launch to launch: decoded code, and the memory that minions live in.

use super::run::Minion;
use crate::code::Code;
use std::sync::{Mutex, PoisonError};

/// One host thread's belongings.
pub(super) struct Worker {
    pub code: Code,
    /// Reset at each launch; kept because fresh memory for thousands of harts costs more than running short kernels.
    pub minions: Vec<Minion>,
}

/// The belongings of all host threads that launches may use.
pub(super) struct Workers {
    all: Vec<Worker>,
    translate_after: Option<u32>,
}

impl Workers {
    /// With code that is translated after it has run so many times.
    pub fn new(threads: usize, translate_after: Option<u32>) -> Self {
        let worker = |_| Worker { code: Code::new(false).translate_after(translate_after), minions: Vec::new() };
        Workers { all: (0..threads).map(worker).collect(), translate_after }
    }

    /// Drops the code that the host has overwritten since the last launch.
    pub fn prepare(&mut self, exact_flags: bool, stale: &Stale) -> &mut [Worker] {
        let stale = std::mem::take(&mut *stale.lock());
        for Worker { code, .. } in &mut self.all {
            if code.exact_flags() != exact_flags {
                *code = Code::new(exact_flags).translate_after(self.translate_after);
            } else if stale.overflowed {
                code.clear();
            } else {
                for &(addr, len) in &stale.ranges {
                    code.invalidate(addr, len);
                }
            }
        }
        &mut self.all
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
