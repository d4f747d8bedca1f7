//! What went wrong on which hart, and its words.

use crate::sync::WaitFor;
use crate::trap::{Cause, Trap};
use std::fmt;

/// An exception that ended a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Hart number: shire << 6 | minion << 1 | thread.
    pub hart: u16,
    /// The instruction.
    pub pc: u64,
    /// What it raised.
    pub trap: Trap,
    /// Where it is in the source.
    pub location: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tval = self.trap.tval;
        write!(f, "hart {}", HartName(self.hart))?;
        match self.trap.cause {
            Cause::FetchAccess => write!(f, " ran into {tval:#x}, which holds no code")?,
            Cause::IllegalInstruction => write!(f, " hit an illegal instruction {tval:#010x}")?,
            Cause::Breakpoint => write!(f, " hit a breakpoint")?,
            Cause::LoadAccess => write!(f, " may not read {tval:#x} this way (region or alignment)")?,
            Cause::StoreAccess => write!(f, " may not write {tval:#x} this way (region or alignment)")?,
            Cause::BusError => write!(f, " reached for {tval:#x}, which does not exist (bus error)")?,
            Cause::MachineCode => write!(f, " hit an instruction that the chip does not implement, {tval:#010x}")?,
        }
        Place(self.pc, self.location.as_deref()).fmt(f)
    }
}

/// An `ecall` that the firmware does not offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCall {
    /// Hart number.
    pub hart: u16,
    /// The `ecall` instruction.
    pub pc: u64,
    /// What was in a0.
    pub number: u64,
    /// Where it is in the source.
    pub location: Option<String>,
}

impl fmt::Display for BadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hart {} made firmware call {}, which does not exist", HartName(self.hart), self.number)?;
        Place(self.pc, self.location.as_deref()).fmt(f)
    }
}

/// A hart in a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Hart number.
    pub hart: u16,
    /// The instruction that waits.
    pub pc: u64,
    /// For what.
    pub what: WaitFor,
    /// Where it is in the source.
    pub location: Option<String>,
}

/// Groups harts that wait for the same thing at the same place: a deadlock may have thousands.
pub(super) fn write_waiting(f: &mut fmt::Formatter<'_>, waiting: &[Waiting]) -> fmt::Result {
    const GROUPS: usize = 4;
    let mut groups: Vec<(&Waiting, usize)> = Vec::new();
    for hart in waiting {
        match groups.iter_mut().find(|(first, _)| first.pc == hart.pc && first.what == hart.what) {
            Some((_, count)) => *count += 1,
            None => groups.push((hart, 1)),
        }
    }
    for (i, (first, count)) in groups.iter().take(GROUPS).enumerate() {
        let separator = if i == 0 { "" } else { "; " };
        write!(f, "{separator}hart {}", HartName(first.hart))?;
        if *count > 1 {
            write!(f, " and {} more", count - 1)?;
        }
        write!(f, " for {}", first.what)?;
        write!(f, "{}", Place(first.pc, first.location.as_deref()))?;
    }
    match groups.len().saturating_sub(GROUPS) {
        0 => Ok(()),
        more => write!(f, "; and {more} more places"),
    }
}

struct HartName(u16);

impl fmt::Display for HartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(f, "{id} (shire {}, minion {}, thread {})", id >> 6, id >> 1 & 31, id & 1)
    }
}

struct Place<'a>(u64, Option<&'a str>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(location) => write!(f, " in {location} (pc {:#x})", self.0),
            None => write!(f, " at pc {:#x}", self.0),
        }
    }
}
