//! Plans kept from one computation to the next.

/// Plans by fingerprint, the most recently used first. Fingerprints are compared whole, so that no two graphs are taken
/// for one another.
#[derive(Debug)]
pub struct Cache<P> {
    entries: Vec<Entry<P>>,
    room: usize,
}

#[derive(Debug)]
struct Entry<P> {
    words: Vec<u64>,
    /// The host's number for the graph, 0 when it has none.
    uid: u64,
    plan: P,
}

impl<P> Cache<P> {
    /// For at most `room` plans. Without room nothing is found again.
    pub fn new(room: usize) -> Cache<P> {
        Cache { entries: Vec::new(), room }
    }

    /// The plan of the graph that the host calls `uid`.
    pub fn by_uid(&mut self, uid: u64) -> Option<&mut P> {
        let found = self.entries.iter().position(|entry| entry.uid == uid).filter(|_| uid != 0 && self.room > 0)?;
        Some(self.first(found))
    }

    /// The plan with this fingerprint, which the host calls `uid` now.
    pub fn by_words(&mut self, words: &[u64], uid: u64) -> Option<&mut P> {
        let found = self.entries.iter().position(|entry| entry.words == words).filter(|_| self.room > 0)?;
        self.entries[found].uid = uid;
        Some(self.first(found))
    }

    /// Adds a plan. The one that has been unused for longest makes room.
    pub fn insert(&mut self, words: &[u64], uid: u64, plan: P) -> &mut P {
        self.entries.truncate(self.room.saturating_sub(1));
        self.entries.insert(0, Entry { words: words.to_vec(), uid, plan });
        &mut self.entries[0].plan
    }

    /// The plans, the most recently used first.
    pub fn plans(&self) -> impl Iterator<Item = &P> {
        self.entries.iter().map(|entry| &entry.plan)
    }

    /// Drops the plans that `keep` is false for.
    pub fn retain(&mut self, mut keep: impl FnMut(&P) -> bool) {
        self.entries.retain(|entry| keep(&entry.plan));
    }

    fn first(&mut self, index: usize) -> &mut P {
        self.entries[..=index].rotate_right(1);
        &mut self.entries[0].plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_by_either_name_and_the_oldest_goes() {
        let mut cache = Cache::new(2);
        cache.insert(&[1], 10, 'a');
        cache.insert(&[2], 0, 'b');
        assert_eq!(cache.by_uid(0), None, "0 is no number");
        assert_eq!(cache.by_words(&[2], 20), Some(&mut 'b'));
        assert_eq!(cache.by_uid(20), Some(&mut 'b'));
        assert_eq!(cache.by_uid(10), Some(&mut 'a'));
        cache.insert(&[3], 0, 'c');
        assert_eq!(cache.by_words(&[2], 0), None);
        assert_eq!(cache.by_words(&[1], 11), Some(&mut 'a'));
        assert_eq!(cache.by_uid(10), None, "the host has given it another number");
        cache.retain(|&plan| plan == 'c');
        assert_eq!(cache.plans().collect::<String>(), "c");
        let mut none = Cache::new(0);
        assert_eq!(none.insert(&[1], 1, 'a'), &'a');
        assert_eq!(none.by_words(&[1], 1), None);
        assert_eq!(none.by_uid(1), None);
    }
}
