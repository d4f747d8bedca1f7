//! Who wrote what: every byte carries the number of the write that it comes from.

use super::clock::NEVER;

/// The number of a write. 0 is what was there when the launch began.
pub type Version = u32;

/// How a write reaches memory, and so when others may count on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A normal store: stays in L1 until it is published.
    Normal,
    /// A store at L2 or L3: complete at the next fence.
    Coherent,
    /// An atomic: complete at once.
    Atomic,
    /// Of the tensor engine: complete when this event is waited for.
    Tensor(u8),
}

/// One store instruction of one hart between two of its synchronisations.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// The hart's place in the launch.
    pub place: u16,
    /// Its kind.
    pub manner: Manner,
    /// The command that the hart was in.
    pub command: u32,
    /// The hart's epoch when it was complete, or [`NEVER`]. For a normal store: when it was fenced.
    pub epoch: u32,
    /// The instruction.
    pub pc: u64,
}

/// All writes of a launch.
#[derive(Debug)]
pub struct Writes {
    all: Vec<Write>,
    harts: Vec<Recent>,
}

/// What a hart wrote lately.
#[derive(Clone, Debug, Default)]
struct Recent {
    /// Writes of the current phase, found by instruction.
    cache: [(u64, Version); 8],
    /// Writes that a fence completes.
    unfenced: Vec<Version>,
    /// Writes of the tensor engine that a wait completes, with its event.
    waited: Vec<(u8, Version)>,
}

impl Writes {
    /// For a launch of `harts` harts.
    pub fn new(harts: usize) -> Writes {
        let host = Write { place: 0, manner: Manner::Atomic, command: 0, epoch: 0, pc: 0 };
        Writes { all: vec![host], harts: vec![Recent::default(); harts] }
    }

    /// A write by its number.
    #[inline]
    pub fn get(&self, version: Version) -> &Write {
        &self.all[version as usize]
    }

    /// The number for a write by `place` at `pc` in its epoch `now`.
    pub fn number(&mut self, place: u16, pc: u64, command: u32, manner: Manner, now: u32) -> Version {
        let recent = &mut self.harts[usize::from(place)];
        let slot = (pc >> 1) as usize % recent.cache.len();
        let (known, version) = recent.cache[slot];
        if known == pc && version != 0 && self.all[version as usize].command == command {
            return version;
        }
        let version = self.all.len() as Version;
        let epoch = if manner == Manner::Atomic { now } else { NEVER };
        self.all.push(Write { place, manner, command, epoch, pc });
        recent.cache[slot] = (pc, version);
        match manner {
            Manner::Tensor(event) => recent.waited.push((event, version)),
            Manner::Normal | Manner::Coherent => recent.unfenced.push(version),
            Manner::Atomic => {}
        }
        version
    }

    /// The hart does something that tells earlier writes from later ones.
    pub fn new_phase(&mut self, place: u16) {
        self.harts[usize::from(place)].cache = Default::default();
    }

    /// The hart's stores are complete at `now`.
    pub fn fence(&mut self, place: u16, now: u32) {
        let recent = &mut self.harts[usize::from(place)];
        if recent.unfenced.is_empty() {
            return;
        }
        recent.cache = Default::default();
        for version in recent.unfenced.drain(..) {
            self.all[version as usize].epoch = now;
        }
    }

    /// A store at L2 or L3 by the hart that no fence has followed.
    pub fn unfenced(&self, place: u16) -> Option<&Write> {
        let stores = self.harts[usize::from(place)].unfenced.iter();
        stores.map(|&version| self.get(version)).find(|write| write.manner == Manner::Coherent)
    }

    /// The tensor engine's writes of `event` are complete at `now`.
    pub fn waited(&mut self, place: u16, event: u8, now: u32) {
        let (all, recent) = (&mut self.all, &mut self.harts[usize::from(place)]);
        recent.waited.retain(|&(other, version)| {
            if other == event {
                all[version as usize].epoch = now;
            }
            other != event
        });
    }
}
