//! Cooperative tensor loads (ISA sheet 3.6): a load completes when every minion of its group has issued the same one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// One cooperative load, as all its members must issue it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    value: u64,
    x31: u64,
    group: u32,
}

/// The cooperative loads of a shire that some members have yet to issue.
#[derive(Debug, Default)]
pub struct Cooperation {
    gathering: Mutex<HashMap<Key, Gathering>>,
}

/// Who has issued a cooperative load. Cheap to clone; all clones see the same.
#[derive(Clone, Debug)]
pub struct Gathering {
    arrived: Arc<AtomicU32>,
    members: u32,
}

impl Cooperation {
    /// Minion `minion` issues a load with tensor_coop = `group`. A later identical load starts a new gathering.
    pub fn join(&self, minion: u32, value: u64, x31: u64, group: u32) -> Gathering {
        let own = 1u32 << minion;
        let members = members(group);
        if members & own == 0 {
            // Nobody waits for a minion outside the masks, nor it for them.
            return Gathering { arrived: Arc::new(AtomicU32::new(own)), members: own };
        }
        let mut all = self.gathering.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key { value, x31, group };
        let gathering = all.entry(key).or_insert_with(|| Gathering { arrived: Arc::default(), members }).clone();
        if gathering.arrived.fetch_or(own, Ordering::AcqRel) | own == members {
            all.remove(&key);
        }
        gathering
    }
}

impl Gathering {
    /// Whether all members have issued the load.
    pub fn complete(&self) -> bool {
        self.arrived.load(Ordering::Acquire) == self.members
    }

    /// The minions that take part, as bits.
    pub fn members(&self) -> u32 {
        self.members
    }
}

/// The minions of a shire that tensor_coop selects: bits 19:16 neighborhoods, 15:8 minions in each.
fn members(group: u32) -> u32 {
    (0..4).filter(|n| group >> (16 + n) & 1 == 1).fold(0, |all, n| all | (group >> 8 & 0xFF) << (8 * n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gathering_completes_with_its_last_member() {
        let cooperation = Cooperation::default();
        let group = 0b0101 << 16 | 0b10 << 8; // minions 1 and 17
        let first = cooperation.join(1, 7, 8, group);
        assert!(!first.complete());
        assert!(!cooperation.join(1, 9, 8, group).complete(), "another load");
        let last = cooperation.join(17, 7, 8, group);
        assert!(first.complete() && last.complete());
        assert_eq!(last.members(), 1 << 1 | 1 << 17);
        assert!(!cooperation.join(17, 7, 8, group).complete(), "the same load once more");
    }
}
