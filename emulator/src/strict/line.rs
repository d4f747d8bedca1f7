//! One cache line in all the places that may hold it.
//!
//! What the line would hold if there were no caches, its *newest* bytes, is what a read is compared with. Places that
//! hold just that share it, and so do places with the same older bytes. *Home* is memory itself (L3, or a shire's
//! scratchpad).

use super::finding::Spot;
use super::writes::Version;

/// Bytes of a line, bit n for byte n.
pub type Mask = u64;

const LOW: Mask = 0xFFFF_FFFF;
const HIGH: Mask = !LOW;

/// Who holds a line. Shires are counted by rank in the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The L1 half of a hart, by place.
    L1(u16),
    /// The L2 of a shire.
    L2(u16),
    /// The coalescing buffer of a shire: some bytes only.
    Buffer(u16),
    /// Memory.
    Home,
}

/// A set of holders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Harts of one shire.
    harts: u64,
    shire: u16,
    home: bool,
    shires: u32,
    buffers: u32,
    /// Harts of others, shire by shire; no word is 0.
    others: Vec<(u16, u64)>,
}

impl Holders {
    /// A set of one.
    fn of(holder: Holder) -> Holders {
        let mut holders = Holders::default();
        holders.insert(holder);
        holders
    }

    /// Harts of one shire, and L2s.
    pub fn caches(shire: u16, harts: u64, shires: u32) -> Holders {
        Holders { harts, shire, shires, ..Holders::default() }
    }

    #[inline]
    pub fn contains(&self, holder: Holder) -> bool {
        match holder {
            Holder::L1(place) => {
                let (shire, bit) = (place / 64, place % 64);
                match shire == self.shire {
                    true => self.harts >> bit & 1 == 1,
                    false => self.others.iter().any(|&(other, bits)| other == shire && bits >> bit & 1 == 1),
                }
            }
            Holder::L2(shire) => self.shires >> shire & 1 == 1,
            Holder::Buffer(shire) => self.buffers >> shire & 1 == 1,
            Holder::Home => self.home,
        }
    }

    #[inline]
    pub fn insert(&mut self, holder: Holder) {
        match holder {
            Holder::L1(place) => {
                let (shire, bit) = (place / 64, 1 << (place % 64));
                if self.harts == 0 && self.others.is_empty() {
                    self.shire = shire;
                }
                if shire == self.shire {
                    self.harts |= bit;
                    return;
                }
                match self.others.iter_mut().find(|(other, _)| *other == shire) {
                    Some((_, bits)) => *bits |= bit,
                    None => self.others.push((shire, bit)),
                }
            }
            Holder::L2(shire) => self.shires |= 1 << shire,
            Holder::Buffer(shire) => self.buffers |= 1 << shire,
            Holder::Home => self.home = true,
        }
    }

    #[inline]
    pub fn remove(&mut self, holder: Holder) {
        match holder {
            Holder::L1(place) => {
                let (shire, bit) = (place / 64, 1u64 << (place % 64));
                if shire == self.shire {
                    self.harts &= !bit;
                } else if let Some(at) = self.others.iter().position(|(other, _)| *other == shire) {
                    self.others[at].1 &= !bit;
                    if self.others[at].1 == 0 {
                        self.others.swap_remove(at);
                    }
                }
            }
            Holder::L2(shire) => self.shires &= !(1 << shire),
            Holder::Buffer(shire) => self.buffers &= !(1 << shire),
            Holder::Home => self.home = false,
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.harts == 0 && self.shires | self.buffers == 0 && !self.home && self.others.is_empty()
    }
}

/// Which write each byte of a line is of.
#[derive(Clone, Debug)]
pub enum Versions {
    One(Version),
    Halves([Version; 2]),
    Each(Box<[Version; 64]>),
}

impl Versions {
    #[inline]
    pub fn get(&self, n: usize) -> Version {
        match self {
            Versions::One(version) => *version,
            Versions::Halves(halves) => halves[n / 32 % 2],
            Versions::Each(each) => each[n % 64],
        }
    }

    /// Bytes that are known to be of the same write as byte `n`.
    #[inline]
    pub fn run(&self, n: usize) -> Mask {
        match self {
            Versions::One(_) => Mask::MAX,
            Versions::Halves(_) if n < 32 => LOW,
            Versions::Halves(_) => HIGH,
            Versions::Each(_) => 1 << n,
        }
    }

    fn each(&mut self) -> &mut [Version; 64] {
        if !matches!(self, Versions::Each(_)) {
            *self = Versions::Each(Box::new(std::array::from_fn(|n| self.get(n))));
        }
        match self {
            Versions::Each(each) => each,
            _ => unreachable!("made so just now"),
        }
    }

    #[inline]
    fn set(&mut self, mask: Mask, version: Version) {
        match (&mut *self, mask) {
            (_, Mask::MAX) => *self = Versions::One(version),
            (Versions::Halves(halves), LOW) => halves[0] = version,
            (Versions::Halves(halves), HIGH) => halves[1] = version,
            (Versions::One(old), LOW) => *self = Versions::Halves([version, *old]),
            (Versions::One(old), HIGH) => *self = Versions::Halves([*old, version]),
            _ => {
                let each = self.each();
                bits(mask).for_each(|n| each[n] = version);
            }
        }
    }

    /// Bytes that are of different writes.
    pub fn differing(&self, other: &Versions) -> Mask {
        match (self, other) {
            (Versions::One(a), Versions::One(b)) if a == b => 0,
            _ => (0..64).filter(|&n| self.get(n) != other.get(n)).fold(0, |mask, n| mask | 1 << n),
        }
    }
}

/// What a line holds somewhere.
#[derive(Clone, Debug)]
pub struct Content {
    pub bytes: [u8; 64],
    pub version: Versions,
    /// Bytes that mean nothing.
    pub poison: Mask,
    /// Why (a number of the suspects).
    pub origin: u32,
}

/// New bytes for a line.
#[derive(Clone, Debug)]
pub struct Patch {
    pub mask: Mask,
    pub bytes: [u8; 64],
    pub version: Version,
    pub poison: Mask,
    pub origin: u32,
}

impl Content {
    pub fn apply(&mut self, patch: &Patch) {
        match patch.mask {
            Mask::MAX => self.bytes = patch.bytes,
            mask => put(&mut self.bytes, &patch.bytes, mask),
        }
        self.version.set(patch.mask, patch.version);
        self.poison = self.poison & !patch.mask | patch.poison & patch.mask;
        if patch.poison != 0 {
            self.origin = patch.origin;
        }
    }

    /// Takes the bytes of `mask` from another content.
    fn overlay(&mut self, other: &Content, mask: Mask) {
        put(&mut self.bytes, &other.bytes, mask);
        let each = self.version.each();
        bits(mask).for_each(|n| each[n] = other.version.get(n));
        self.poison = self.poison & !mask | other.poison & mask;
        if other.poison & mask != 0 {
            self.origin = other.origin;
        }
    }
}

/// Copies the bytes of `mask`, which mostly are one piece.
#[inline]
fn put(to: &mut [u8; 64], from: &[u8; 64], mask: Mask) {
    let (start, end) = (mask.trailing_zeros() as usize, 64 - mask.leading_zeros() as usize);
    if mask.count_ones() as usize == end.saturating_sub(start) {
        to[start.min(end)..end].copy_from_slice(&from[start.min(end)..end]);
    } else {
        bits(mask).for_each(|n| to[n] = from[n]);
    }
}

/// The numbers of the bits that are set.
pub fn bits(mut mask: Mask) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (n < 64).then_some(n)
    })
}

/// Bytes that are not the newest, and who holds them.
#[derive(Clone, Debug)]
struct Group {
    content: Content,
    holders: Holders,
}

/// Bytes that a cache has and that are not below it.
#[derive(Clone, Debug)]
pub struct Dirty {
    pub holder: Holder,
    pub mask: Mask,
    /// Of them, those whose stores no fence has followed.
    pub unfenced: Mask,
    /// The last write that made it so.
    pub version: Version,
}

/// Bytes of normal stores that a hart has written back, and its epoch when it knew.
#[derive(Clone, Copy, Debug)]
pub struct Published {
    pub place: u16,
    pub epoch: u32,
    pub mask: Mask,
}

/// An eviction from a shire's L2.
#[derive(Clone, Copy, Debug)]
pub struct Refresh {
    /// The cache operation.
    pub spot: Spot,
    /// The hart's epoch when it had ended.
    pub epoch: u32,
}

/// A shire's L2 had an old copy, which was evicted: who did that, and all who have evicted the line since.
#[derive(Clone, Debug)]
pub struct Refreshed {
    pub shire: u16,
    /// Bytes that were old.
    pub mask: Mask,
    /// The first eviction of each hart.
    pub by: Vec<Refresh>,
}

/// A line that was written in this launch.
#[derive(Clone, Debug)]
pub struct Active {
    /// What it would hold without caches.
    newest: Content,
    /// Who holds that.
    fresh: Holders,
    /// What others hold.
    older: Vec<Group>,
    pub dirty: Vec<Dirty>,
    pub published: Vec<Published>,
    pub refreshed: Vec<Refreshed>,
}

impl Active {
    /// A line about to be written for the first time; `fresh` have copies of it.
    pub fn new(newest: Content, mut fresh: Holders) -> Active {
        fresh.insert(Holder::Home);
        let (older, dirty, published, refreshed) = Default::default();
        Active { newest, fresh, older, dirty, published, refreshed }
    }

    /// What it would hold without caches.
    #[inline]
    pub fn newest(&self) -> &Content {
        &self.newest
    }

    fn find(&self, holder: Holder) -> Option<usize> {
        self.older.iter().position(|group| group.holders.contains(holder))
    }

    /// What a holder has.
    #[inline]
    pub fn content(&self, holder: Holder) -> Option<&Content> {
        if self.fresh.contains(holder) {
            return Some(&self.newest);
        }
        self.find(holder).map(|group| &self.older[group].content)
    }

    /// What a holder has, and what it should have when that may be something else.
    #[inline]
    pub fn compare(&self, holder: Holder) -> Option<(&Content, Option<&Content>)> {
        if self.fresh.contains(holder) {
            return Some((&self.newest, None));
        }
        self.find(holder).map(|group| (&self.older[group].content, Some(&self.newest)))
    }

    /// `to` holds what `from` does.
    pub fn copy(&mut self, from: Holder, to: Holder) {
        if self.fresh.contains(from) {
            self.renew(to);
            return;
        }
        let Some(source) = self.find(from).filter(|&group| !self.older[group].holders.contains(to)) else { return };
        let old = self.find(to);
        self.fresh.remove(to);
        self.older[source].holders.insert(to);
        if let Some(old) = old {
            self.leave(old, to);
        }
    }

    /// A holder has the newest bytes.
    pub fn renew(&mut self, holder: Holder) {
        if !self.fresh.contains(holder) {
            self.forget(holder);
            self.fresh.insert(holder);
        }
    }

    fn leave(&mut self, group: usize, holder: Holder) {
        self.older[group].holders.remove(holder);
        if self.older[group].holders.is_empty() {
            self.older.swap_remove(group);
        }
    }

    /// A holder has the line no more.
    pub fn forget(&mut self, holder: Holder) {
        if self.fresh.contains(holder) {
            self.fresh.remove(holder);
        } else if let Some(group) = self.find(holder) {
            self.leave(group, holder);
        }
    }

    /// The line is evicted from a shire's L2.
    pub fn evict_shire(&mut self, shire: u16, by: Refresh) {
        let old = match self.compare(Holder::L2(shire)) {
            Some((content, Some(newest))) => content.version.differing(&newest.version),
            _ => 0,
        };
        self.forget(Holder::L2(shire));
        let known = self.refreshed.iter().position(|refreshed| refreshed.shire == shire);
        match (old, known) {
            (0, None) => {}
            (0, Some(known)) => {
                let known = &mut self.refreshed[known].by;
                if known.iter().all(|other| other.spot.place != by.spot.place) {
                    known.push(by);
                }
            }
            (mask, None) => self.refreshed.push(Refreshed { shire, mask, by: vec![by] }),
            (mask, Some(known)) => {
                let known = &mut self.refreshed[known];
                known.mask = mask;
                known.by.clear();
                known.by.push(by);
            }
        }
    }

    /// Makes `holder` hold exactly `content`.
    pub fn replace(&mut self, holder: Holder, content: Content) {
        self.forget(holder);
        self.older.push(Group { content, holders: Holders::of(holder) });
    }

    /// What was the newest is no more; those who hold it keep it.
    fn age(&mut self) {
        if !self.fresh.is_empty() {
            let holders = std::mem::take(&mut self.fresh);
            self.older.push(Group { content: self.newest.clone(), holders });
        }
    }

    /// Changes what a holder has, and the newest bytes with it.
    pub fn write(&mut self, holder: Holder, patch: &Patch) {
        let (fresh, group) = (self.fresh.contains(holder), self.find(holder));
        if !fresh && group.is_none() {
            return;
        }
        self.fresh.remove(holder);
        self.age();
        self.newest.apply(patch);
        if fresh {
            self.fresh.insert(holder);
        } else if let Some(group) = group {
            self.older[group].holders.remove(holder);
            let mut content = self.older[group].content.clone();
            if self.older[group].holders.is_empty() {
                self.older.swap_remove(group);
            }
            content.apply(patch);
            self.settle(holder, content);
        }
    }

    /// A holder that has nothing gets a content, which may be the newest.
    fn settle(&mut self, holder: Holder, content: Content) {
        if content.version.differing(&self.newest.version) == 0 {
            self.fresh.insert(holder);
        } else {
            self.older.push(Group { content, holders: Holders::of(holder) });
        }
    }

    /// Makes a whole new line what `holder` has, and the newest.
    pub fn begin(&mut self, holder: Holder, patch: &Patch) {
        self.forget(holder);
        self.age();
        let version = Versions::One(patch.version);
        self.newest = Content { bytes: patch.bytes, version, poison: patch.poison, origin: patch.origin };
        self.fresh.insert(holder);
    }

    /// Puts the bytes of `mask` of one holder into another's content.
    pub fn merge(&mut self, from: Holder, to: Holder, mask: Mask) {
        let (Some(source), Some(mut content)) = (self.content(from).cloned(), self.content(to).cloned()) else {
            return;
        };
        content.overlay(&source, mask);
        self.forget(to);
        self.settle(to, content);
    }

    /// The dirty bytes of a holder.
    pub fn dirt(&mut self, holder: Holder) -> Option<&mut Dirty> {
        self.dirty.iter_mut().find(|dirty| dirty.holder == holder)
    }

    /// The holder has nothing to write back.
    pub fn clean(&mut self, holder: Holder) {
        self.dirty.retain(|dirty| dirty.holder != holder);
    }

    /// Bytes written back by `place`, known in its epoch.
    pub fn publish(&mut self, place: u16, epoch: u32, mask: Mask) {
        self.unpublish(mask);
        self.published.push(Published { place, epoch, mask });
    }

    /// Bytes that were written again.
    pub fn unpublish(&mut self, mask: Mask) {
        for published in &mut self.published {
            published.mask &= !mask;
        }
        self.published.retain(|published| published.mask != 0);
    }

    /// Who holds the write `version` of byte `n`.
    pub fn holders_of(&self, n: usize, version: Version) -> impl Iterator<Item = &Holders> {
        let fresh = (self.newest.version.get(n) == version).then_some(&self.fresh);
        let older = self.older.iter().filter(move |group| group.content.version.get(n) == version);
        fresh.into_iter().chain(older.map(|group| &group.holders))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(mask: Mask, version: Version) -> Patch {
        Patch { mask, bytes: [version as u8; 64], version, poison: 0, origin: 0 }
    }

    fn line() -> Active {
        let content = Content { bytes: [0; 64], version: Versions::One(0), poison: 0, origin: 0 };
        Active::new(content, Holders::of(Holder::L2(0)))
    }

    // Calls that stay calls: rustc 1.95 overflows its stack when it can follow what becomes of a line.

    #[inline(never)]
    fn write(line: &mut Active, holder: Holder, mask: Mask, version: Version) {
        line.write(holder, &patch(mask, version));
    }

    #[inline(never)]
    fn merge(line: &mut Active, from: Holder, to: Holder, mask: Mask) {
        line.merge(from, to, mask);
    }

    #[inline(never)]
    fn version(line: &Active, holder: Holder, n: usize) -> Option<Version> {
        line.content(holder).map(|content| content.version.get(n))
    }

    #[inline(never)]
    fn old_byte(line: &Active, holder: Holder, n: usize) -> Option<u8> {
        line.compare(holder).map(|(content, _)| content.bytes[n])
    }

    #[test]
    fn holders_keep_what_they_have() {
        let (own, far) = (Holder::L1(3), Holder::L1(70));
        let mut line = line();
        line.copy(Holder::L2(0), own);
        line.copy(Holder::Home, far);
        write(&mut line, own, HIGH, 1);
        assert_eq!(version(&line, own, 40), Some(1));
        for old in [Holder::L2(0), Holder::Home, far] {
            assert_eq!(old_byte(&line, old, 40), Some(0), "{old:?}");
        }
        write(&mut line, far, LOW, 2);
        assert_eq!((line.newest().version.get(0), line.newest().version.get(40)), (2, 1));
        assert_eq!((version(&line, far, 0), version(&line, far, 40)), (Some(2), Some(0)));
        merge(&mut line, own, far, HIGH);
        assert!(line.compare(far).is_some_and(|(_, newest)| newest.is_none()), "it has all that is new");
        line.forget(own);
        assert_eq!(version(&line, own, 0), None);
    }

    #[test]
    fn an_eviction_of_an_old_copy_is_remembered() {
        let spot = |place| Spot { place, command: 0, pc: 0 };
        let mut line = line();
        line.evict_shire(1, Refresh { spot: spot(64), epoch: 1 });
        assert!(line.refreshed.is_empty(), "shire 1 has no copy");
        write(&mut line, Holder::Home, LOW, 1);
        for place in [2, 4, 2] {
            line.evict_shire(0, Refresh { spot: spot(place), epoch: 1 });
        }
        let [Refreshed { shire: 0, mask: LOW, by }] = &line.refreshed[..] else { panic!("{:?}", line.refreshed) };
        assert_eq!(by.iter().map(|by| by.spot.place).collect::<Vec<_>>(), [2, 4]);
    }
}
