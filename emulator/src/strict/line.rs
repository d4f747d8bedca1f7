//! One cache line in all the places that may hold it.
//!
//! Places with the same content share it, so that a line that everybody reads costs one copy. Two places are not caches:
//! *home* is memory itself (L3, or a shire's scratchpad), and *truth* is what the line would hold if there were no
//! caches, which a read is compared with.

use super::writes::Version;

/// Bytes of a line, bit n for byte n.
pub type Mask = u64;

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
    /// Nobody: the newest bytes.
    Truth,
}

/// A set of holders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Harts, shire by shire; no word is 0.
    harts: Vec<(u16, u64)>,
    shires: u32,
    buffers: u32,
    home: bool,
    truth: bool,
}

impl Holders {
    pub fn contains(&self, holder: Holder) -> bool {
        match holder {
            Holder::L1(place) => {
                self.harts.iter().any(|&(shire, bits)| shire == place / 64 && bits >> (place % 64) & 1 == 1)
            }
            Holder::L2(shire) => self.shires >> shire & 1 == 1,
            Holder::Buffer(shire) => self.buffers >> shire & 1 == 1,
            Holder::Home => self.home,
            Holder::Truth => self.truth,
        }
    }

    pub fn insert(&mut self, holder: Holder) {
        match holder {
            Holder::L1(place) => {
                let bit = 1 << (place % 64);
                match self.harts.iter_mut().find(|(shire, _)| *shire == place / 64) {
                    Some((_, bits)) => *bits |= bit,
                    None => self.harts.push((place / 64, bit)),
                }
            }
            Holder::L2(shire) => self.shires |= 1 << shire,
            Holder::Buffer(shire) => self.buffers |= 1 << shire,
            Holder::Home => self.home = true,
            Holder::Truth => self.truth = true,
        }
    }

    pub fn remove(&mut self, holder: Holder) {
        match holder {
            Holder::L1(place) => {
                if let Some(at) = self.harts.iter().position(|(shire, _)| *shire == place / 64) {
                    self.harts[at].1 &= !(1 << (place % 64));
                    if self.harts[at].1 == 0 {
                        self.harts.swap_remove(at);
                    }
                }
            }
            Holder::L2(shire) => self.shires &= !(1 << shire),
            Holder::Buffer(shire) => self.buffers &= !(1 << shire),
            Holder::Home => self.home = false,
            Holder::Truth => self.truth = false,
        }
    }

    fn is_empty(&self) -> bool {
        self.harts.is_empty() && self.shires == 0 && self.buffers == 0 && !self.home && !self.truth
    }

    /// Whether nobody but `holder`, which is in it, and perhaps `also` is in the set.
    fn is_only(&self, holder: Holder, also: Option<Holder>) -> bool {
        let count = self.harts.iter().map(|(_, bits)| bits.count_ones()).sum::<u32>()
            + self.shires.count_ones()
            + self.buffers.count_ones()
            + u32::from(self.home)
            + u32::from(self.truth);
        count == 1 + u32::from(also.is_some_and(|also| also != holder && self.contains(also)))
    }
}

/// What a line holds somewhere.
#[derive(Clone, Debug)]
pub struct Content {
    pub bytes: [u8; 64],
    /// Which write each byte is of.
    pub version: [Version; 64],
    /// All bytes are of one write; if not, they may be or not.
    pub single: bool,
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
        if patch.mask == Mask::MAX {
            self.bytes = patch.bytes;
            self.version = [patch.version; 64];
            self.single = true;
        } else {
            self.single = false;
            for n in bits(patch.mask) {
                self.bytes[n] = patch.bytes[n];
                self.version[n] = patch.version;
            }
        }
        self.poison = self.poison & !patch.mask | patch.poison & patch.mask;
        if patch.poison != 0 {
            self.origin = patch.origin;
        }
    }

    /// Takes the bytes of `mask` from another content.
    fn overlay(&mut self, other: &Content, mask: Mask) {
        self.single = false;
        for n in bits(mask) {
            self.bytes[n] = other.bytes[n];
            self.version[n] = other.version[n];
        }
        self.poison = self.poison & !mask | other.poison & mask;
        if other.poison & mask != 0 {
            self.origin = other.origin;
        }
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

#[derive(Clone, Debug)]
struct Group {
    content: Box<Content>,
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

/// A line that was written in this launch.
#[derive(Clone, Debug)]
pub struct Active {
    groups: Vec<Group>,
    pub dirty: Vec<Dirty>,
    pub published: Vec<Published>,
}

impl Active {
    /// A line about to be written for the first time; `holders` have copies of it.
    pub fn new(content: Content, mut holders: Holders) -> Active {
        holders.insert(Holder::Home);
        holders.insert(Holder::Truth);
        Active { groups: vec![Group { content: Box::new(content), holders }], dirty: Vec::new(), published: Vec::new() }
    }

    fn find(&self, holder: Holder) -> Option<usize> {
        self.groups.iter().position(|group| group.holders.contains(holder))
    }

    /// What a holder has.
    pub fn content(&self, holder: Holder) -> Option<&Content> {
        self.find(holder).map(|group| &*self.groups[group].content)
    }

    /// What a holder has, and what it should have when that is something else.
    pub fn compare(&self, holder: Holder) -> Option<(&Content, Option<&Content>)> {
        let group = &self.groups[self.find(holder)?];
        let truth = if group.holders.truth { None } else { self.content(Holder::Truth) };
        Some((&group.content, truth))
    }

    /// `to` holds what `from` does.
    pub fn copy(&mut self, from: Holder, to: Holder) {
        let Some(source) = self.find(from) else { return };
        if self.groups[source].holders.contains(to) {
            return;
        }
        self.groups[source].holders.insert(to);
        if let Some(old) = (0..self.groups.len()).find(|&g| g != source && self.groups[g].holders.contains(to)) {
            self.leave(old, to);
        }
    }

    fn leave(&mut self, group: usize, holder: Holder) {
        self.groups[group].holders.remove(holder);
        if self.groups[group].holders.is_empty() {
            self.groups.swap_remove(group);
        }
    }

    /// A holder has the line no more.
    pub fn forget(&mut self, holder: Holder) {
        if let Some(group) = self.find(holder) {
            self.leave(group, holder);
        }
    }

    /// Makes `holder` hold exactly `content`.
    pub fn replace(&mut self, holder: Holder, content: Content) {
        self.forget(holder);
        let mut holders = Holders::default();
        holders.insert(holder);
        self.groups.push(Group { content: Box::new(content), holders });
    }

    /// A group with `holder` alone.
    fn detach(&mut self, holder: Holder) -> Option<usize> {
        let group = self.find(holder)?;
        if self.groups[group].holders.is_only(holder, None) {
            return Some(group);
        }
        let content = self.groups[group].content.clone();
        self.groups[group].holders.remove(holder);
        let mut holders = Holders::default();
        holders.insert(holder);
        self.groups.push(Group { content, holders });
        Some(self.groups.len() - 1)
    }

    /// Changes what a holder has, and the truth with it.
    pub fn write(&mut self, holder: Holder, patch: &Patch) {
        let Some(group) = self.find(holder) else { return };
        if self.groups[group].holders.truth {
            if !self.groups[group].holders.is_only(holder, Some(Holder::Truth)) {
                let content = self.groups[group].content.clone();
                let mut holders = Holders::default();
                for own in [holder, Holder::Truth] {
                    self.groups[group].holders.remove(own);
                    holders.insert(own);
                }
                self.groups.push(Group { content, holders });
            }
            if let Some(group) = self.find(holder) {
                self.groups[group].content.apply(patch);
            }
            return;
        }
        for changed in [holder, Holder::Truth] {
            if let Some(group) = self.detach(changed) {
                self.groups[group].content.apply(patch);
            }
        }
        let same = match (self.content(holder), self.content(Holder::Truth)) {
            (Some(own), Some(truth)) => own.version == truth.version,
            _ => false,
        };
        if same {
            self.copy(holder, Holder::Truth);
        }
    }

    /// Makes a whole new line what `holder` has, and the truth.
    pub fn begin(&mut self, holder: Holder, patch: &Patch) {
        let content = Content {
            bytes: patch.bytes,
            version: [patch.version; 64],
            single: true,
            poison: patch.poison,
            origin: patch.origin,
        };
        for old in [holder, Holder::Truth] {
            self.forget(old);
        }
        let mut holders = Holders::default();
        holders.insert(holder);
        holders.insert(Holder::Truth);
        self.groups.push(Group { content: Box::new(content), holders });
    }

    /// Puts the bytes of `mask` of one holder into another's content.
    pub fn merge(&mut self, from: Holder, to: Holder, mask: Mask) {
        let Some(source) = self.content(from).cloned() else { return };
        let equal = |truth: Option<&Content>, own: &Content| truth.is_some_and(|truth| truth.version == own.version);
        if let Some(group) = self.detach(to) {
            self.groups[group].content.overlay(&source, mask);
            let own = &self.groups[group].content;
            if to != Holder::Truth && equal(self.content(Holder::Truth), own) {
                self.copy(Holder::Truth, to);
            }
        }
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

    /// Who holds the write `version` of byte `n`, besides the truth.
    pub fn holders_of(&self, n: usize, version: Version) -> impl Iterator<Item = &Holders> {
        self.groups.iter().filter(move |group| group.content.version[n] == version).map(|group| &group.holders)
    }
}
