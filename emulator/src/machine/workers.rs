//! What host threads keep from launch to launch: decoded code, and the memory that minions live in.

use super::entry::Entry;
use super::run::Minion;
use crate::code::Code;
use std::sync::{Mutex, PoisonError};

/// What launches use again.
pub(super) struct Workers {
    /// One per host thread that launches may use.
    pub codes: Vec<Code>,
    /// Reset at each launch; kept because fresh memory for thousands of harts costs more than running short kernels.
    pub minions: Vec<Mutex<Minion>>,
    translate_after: Option<u32>,
}

impl Workers {
    /// With code that is translated after it has run so many times.
    pub fn new(threads: usize, translate_after: Option<u32>) -> Self {
        let code = |_| Code::new(false).translate_after(translate_after);
        Workers { codes: (0..threads).map(code).collect(), minions: Vec::new(), translate_after }
    }

    /// Drops the code that the host has overwritten since the last launch.
    pub fn prepare(&mut self, exact_flags: bool, stale: &Stale) {
        let stale = std::mem::take(&mut *stale.lock());
        for code in &mut self.codes {
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
    }

    /// Lets harts of the minions of `deal` be about to enter, and gives these and the code of every host thread.
    pub fn gather(&mut self, entry: &Entry, deal: &[(u32, u32)]) -> (&mut [Code], &mut [Mutex<Minion>]) {
        for (place, &(shire, minion)) in deal.iter().enumerate() {
            let id = (shire << 6 | minion << 1) as u16;
            match self.minions.get_mut(place) {
                Some(minion) => own(minion).reset(entry, id),
                None => self.minions.push(Mutex::new(Minion::new(entry, id))),
            }
        }
        (&mut self.codes, &mut self.minions[..deal.len()])
    }
}

/// A minion that no other thread can have.
pub(super) fn own(minion: &mut Mutex<Minion>) -> &mut Minion {
    minion.get_mut().unwrap_or_else(PoisonError::into_inner)
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
    /// More ranges than this are not worth telling apart: translating again costs less than looking each of them up.
    const MAX: usize = 4096;

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
        for i in 1..=Stale::MAX as u64 {
            stale.note(i * 100, 1);
        }
        assert!(stale.lock().overflowed && stale.lock().ranges.is_empty());
    }
}
