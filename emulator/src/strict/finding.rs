//! Faults as they are found: small, so that the same one many times costs nothing. Words come at the end of the launch.

use super::line::Holder;
use super::report::{Name, Party, Violation, ViolationKind};
use crate::labels::Labels;
use std::collections::HashMap;

/// Faults noted in one launch, and lines said about them; more would hide the first ones.
const MOST: usize = 400;
const MOST_SAID: usize = 32;

/// An instruction of a hart in a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub place: u16,
    pub command: u32,
    pub pc: u64,
}

/// What is left over from earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remnant {
    Scratchpad,
    Register(u8),
    Line(u8),
    TenB,
    TenC,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The newest bytes are with this holder, who is not asked by this read.
    Unpublished(Holder),
    /// Memory has the newest bytes; the copy that was read is older.
    OldCopy(Holder),
    /// The copy that was read is new because another hart has dropped the old one, in no order with the read.
    RefreshedByChance(Holder),
    /// A tensor store or a load to scratchpad was not waited for.
    StoreNotWaited(u8),
    /// Reads and writes without order. `reader`: the spot reads, the other wrote.
    ReadAfterWrite,
    WriteAfterRead,
    WriteAfterWrite,
    SharedLine,
    LostWrite,
    Unwritten,
    Remnant(Remnant),
    Outside {
        write: bool,
    },
    /// A write to a tensor that is not the command's result.
    BeyondResult,
    NoFence,
    /// A hart's own store at L2 or L3 and its read, without a fence between them.
    StoreUnderWay,
    /// An L1 scratchpad line is used before the load that fills it was waited for.
    LineNotLoaded {
        line: u8,
        event: u8,
    },
    /// An L1 scratchpad line is loaded while an operation that reads it is under way.
    LineInUse {
        line: u8,
        event: u8,
    },
    /// Two loads to one line.
    LineLoadedTwice {
        line: u8,
        event: u8,
    },
    /// A line of an operand was overwritten by another load before it was used.
    LineOverwritten {
        line: u8,
    },
    /// All that a load had brought was overwritten before anything used it.
    LineNeverUsed {
        line: u8,
    },
    /// A store at L2 or L3 at the end of a command that no fence has followed.
    NeverFenced,
    /// Bytes of a command's result that nobody has written.
    ResultMissing,
    /// Memory that a load under way reads is written.
    SourceInUse {
        event: u8,
    },
    Unfinished {
        event: u8,
    },
    LeftDirty,
    /// The same in a shire's L2.
    LeftInL2,
    CreditsLeft {
        counter: u8,
        count: u16,
    },
    BarrierLeft {
        barrier: u8,
        count: u8,
    },
    BarrierLimit {
        barrier: u8,
        limit: u8,
        before: u8,
    },
    BarrierGroups {
        barrier: u8,
    },
    BarrierTwice {
        barrier: u8,
    },
    Rounding(u8),
    LaneMask(u8),
    StackOverflow {
        below: u32,
    },
    ForeignStack {
        owner: u16,
    },
}

impl Fault {
    pub fn kind(self) -> ViolationKind {
        match self {
            Fault::Unpublished(_) | Fault::OldCopy(_) | Fault::RefreshedByChance(_) => ViolationKind::StaleRead,
            Fault::ReadAfterWrite | Fault::WriteAfterRead | Fault::WriteAfterWrite => ViolationKind::Race,
            Fault::SharedLine => ViolationKind::SharedLine,
            Fault::LostWrite => ViolationKind::LostWrite,
            Fault::Unwritten | Fault::Remnant(_) => ViolationKind::NeverWritten,
            Fault::Outside { .. } => ViolationKind::OutsideBuffers,
            Fault::BeyondResult => ViolationKind::BeyondResult,
            Fault::NoFence | Fault::NeverFenced | Fault::StoreUnderWay => ViolationKind::MissingFence,
            Fault::ResultMissing => ViolationKind::ResultMissing,
            Fault::StoreNotWaited(_)
            | Fault::LineNotLoaded { .. }
            | Fault::LineInUse { .. }
            | Fault::LineLoadedTwice { .. }
            | Fault::LineOverwritten { .. }
            | Fault::LineNeverUsed { .. }
            | Fault::SourceInUse { .. } => ViolationKind::TensorHazard,
            Fault::Unfinished { .. } => ViolationKind::NotWaited,
            Fault::LeftDirty | Fault::LeftInL2 => ViolationKind::LeftDirty,
            Fault::CreditsLeft { .. } | Fault::BarrierLeft { .. } => ViolationKind::Credits,
            Fault::BarrierLimit { .. } | Fault::BarrierGroups { .. } | Fault::BarrierTwice { .. } => {
                ViolationKind::SharedBarrier
            }
            Fault::Rounding(_) | Fault::LaneMask(_) => ViolationKind::FpState,
            Fault::StackOverflow { .. } | Fault::ForeignStack { .. } => ViolationKind::Stack,
        }
    }
}

/// A fault with those concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    pub fault: Fault,
    pub spot: Spot,
    pub other: Option<Spot>,
    /// Where a value that should not be there was used.
    pub used: Option<Spot>,
    pub address: Option<u64>,
}

/// The faults of a launch.
#[derive(Debug, Default)]
pub struct Findings {
    reported: Vec<Finding>,
    known: HashMap<(ViolationKind, u64, u64), ()>,
    /// Faults that matter only if the value is used.
    suspects: Vec<Finding>,
    suspected: HashMap<(ViolationKind, u64, u64, u16), u32>,
}

fn key(finding: &Finding) -> (ViolationKind, u64, u64) {
    (finding.fault.kind(), finding.spot.pc, finding.other.map_or(0, |other| other.pc))
}

impl Findings {
    /// Reports a fault, unless the same was reported before.
    pub fn report(&mut self, finding: Finding) {
        if self.reported.len() < MOST && self.known.insert(key(&finding), ()).is_none() {
            self.reported.push(finding);
        }
    }

    /// Notes what is wrong with a value; the number, which is not 0, goes with the value.
    pub fn suspect(&mut self, finding: Finding) -> u32 {
        let (kind, pc, other) = key(&finding);
        let next = self.suspects.len() as u32 + 1;
        let number = *self.suspected.entry((kind, pc, other, finding.spot.place)).or_insert(next);
        if number == next {
            self.suspects.push(finding);
        }
        number
    }

    /// The value with this number was used.
    pub fn used(&mut self, number: u32, spot: Spot) {
        if let Some(&suspect) = (number as usize).checked_sub(1).and_then(|number| self.suspects.get(number)) {
            self.report(Finding { used: Some(spot), ..suspect });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.reported.is_empty()
    }
}

/// What names are made of.
pub struct Names<'a> {
    pub locate: &'a dyn Fn(u64) -> Option<String>,
    pub labels: Option<&'a Labels>,
    /// Hart numbers by place.
    pub harts: &'a [u16],
}

impl Names<'_> {
    fn party(&self, spot: Spot) -> Party {
        Party {
            hart: self.harts.get(usize::from(spot.place)).copied().unwrap_or(0),
            pc: spot.pc,
            location: (self.locate)(spot.pc),
        }
    }

    fn shire(&self, rank: u16) -> u16 {
        self.harts.get(64 * usize::from(rank)).map_or(rank, |hart| hart >> 6)
    }

    fn command(&self, number: u32) -> String {
        let Some(index) = number.checked_sub(1) else { return String::new() };
        match self.labels.and_then(|labels| labels.commands.get(index as usize)) {
            Some(command) => format!("{} (command {index}, tensor '{}')", command.kernel, command.tensor()),
            None => format!("command {index}"),
        }
    }

    /// What lies at an address, as far as the command or the launch knows.
    fn memory(&self, address: u64, command: u32) -> String {
        let Some(labels) = self.labels else { return String::new() };
        let operands = command.checked_sub(1).and_then(|index| labels.commands.get(index as usize));
        let operand = operands.and_then(|command| command.operands.iter().find(|o| o.contains(address)));
        match operand.or_else(|| labels.at_end(address)) {
            Some(extent) => format!(" ('{}' + {})", extent.name, address - extent.address),
            None => String::new(),
        }
    }

    fn holder(&self, holder: Holder) -> String {
        match holder {
            Holder::L1(place) => format!("the L1 of hart {}", self.harts.get(usize::from(place)).unwrap_or(&0)),
            Holder::L2(rank) => format!("the L2 of shire {}", self.shire(rank)),
            Holder::Buffer(rank) => format!("the coalescing buffer of shire {}", self.shire(rank)),
            Holder::Home => "memory".into(),
        }
    }

    /// The violations in the order in which they were found. One line of source may be several instructions: it is
    /// told of once.
    pub fn violations(&self, findings: &Findings) -> Vec<Violation> {
        let mut all: Vec<Violation> = Vec::new();
        for violation in findings.reported.iter().map(|finding| self.violation(finding)) {
            let place = |violation: &Violation| {
                let other = violation.other.as_ref().and_then(|other| other.location.clone());
                violation.party.location.clone().map(|location| (violation.kind, location, other))
            };
            let known = place(&violation).is_some_and(|own| all.iter().any(|said| place(said).as_ref() == Some(&own)));
            if !known && all.len() < MOST_SAID {
                all.push(violation);
            }
        }
        all
    }

    fn violation(&self, finding: &Finding) -> Violation {
        let other = finding.other.map(|other| self.party(other));
        let mut text = self.text(finding, other.as_ref());
        if let Some(used) = finding.used.filter(|used| *used != finding.spot) {
            let party = self.party(used);
            text += &format!("; the value is used by {}", Name(&party));
        }
        Violation {
            kind: finding.fault.kind(),
            party: self.party(finding.spot),
            other,
            command: self.command(finding.spot.command),
            address: finding.address,
            text,
        }
    }

    fn text(&self, finding: &Finding, other: Option<&Party>) -> String {
        let at = finding
            .address
            .map_or(String::new(), |address| format!("{address:#x}{}", self.memory(address, finding.spot.command)));
        let by = match (other, finding.other) {
            (Some(party), Some(spot)) if spot.command != finding.spot.command && spot.command != 0 => {
                format!("{}, {}", Name(party), self.command(spot.command))
            }
            (Some(party), _) => Name(party).to_string(),
            _ => "the host".into(),
        };
        match finding.fault {
            Fault::Unpublished(holder @ Holder::L1(_)) => format!(
                "reads {at}, but what {by} wrote there is still in {}; after its stores it must publish the line: fence, \
                 evict (to L3, or to L2 for scratchpad and its own shire), tensor_wait 6",
                self.holder(holder)
            ),
            Fault::Unpublished(holder @ Holder::L2(_)) => format!(
                "reads {at}, but what {by} wrote there has only come to {}; evict it to L3 (dest 2) and tensor_wait 6",
                self.holder(holder)
            ),
            Fault::Unpublished(holder) => format!(
                "reads {at}, but what {by} wrote there lingers as a part of a line in {}; store whole lines, or evict \
                 the line to L3 after tensor_wait 8",
                self.holder(holder)
            ),
            Fault::OldCopy(holder) => format!(
                "reads {at} from an old copy in {}, and misses what {by} wrote there; evict the line and tensor_wait 6 \
                 before the first read",
                self.holder(holder)
            ),
            Fault::RefreshedByChance(holder) => format!(
                "reads {at}, of which {} had an old copy until {by} evicted it, which nothing orders before the read; \
                 evict the line and tensor_wait 6 before the first read",
                self.holder(holder)
            ),
            Fault::StoreNotWaited(event) => {
                format!("reads {at} before tensor_wait {event} for what {by} stores there")
            }
            Fault::ReadAfterWrite => format!(
                "reads {at}, and {by} writes it; nothing orders the two: a barrier or a credit is missing, or a fence \
                 or wait before it"
            ),
            Fault::WriteAfterRead => format!(
                "writes {at}, and {by} reads it; nothing orders the two: a barrier or a credit is missing, or a wait \
                 before it"
            ),
            Fault::WriteAfterWrite => format!(
                "writes {at}, and {by} writes it too; nothing orders the two: a barrier or a credit is missing, or a \
                 fence or wait before it"
            ),
            Fault::SharedLine => format!(
                "writes to the line of {at}, which {by} writes too; caches write whole lines back, so that one of the \
                 writes is lost: give each line one writer, or use global stores"
            ),
            Fault::LostWrite => format!(
                "writes the line of {at} back from an old copy, over what {by} wrote there; evict the line before the \
                 first store to it"
            ),
            Fault::Unwritten => format!("reads {at}, which nobody has written"),
            Fault::Remnant(what) => match what {
                Remnant::Scratchpad => format!("reads {at}, which holds nothing: it was written in an earlier command"),
                Remnant::Register(n) => format!("takes f{n}, which no instruction of this command has set"),
                Remnant::Line(n) => {
                    format!("takes L1 scratchpad line {n}, which no load of this command has filled")
                }
                Remnant::TenB => "takes the B buffer, which no load of this command has filled".into(),
                Remnant::TenC => {
                    "adds to the integer accumulators, which no operation of this command has started at zero".into()
                }
            },
            Fault::Outside { write } => {
                format!("{} {at}, which is in no live buffer", if write { "writes" } else { "reads" })
            }
            Fault::BeyondResult => format!("writes {at}, which is not a part of the command's result"),
            Fault::NoFence => format!(
                "starts to write the line of {at} back before the store by {by} is complete; put a fence between them"
            ),
            Fault::StoreUnderWay => {
                format!("reads {at} while what {by} stores there may still be on its way; put a fence between them")
            }
            Fault::LineNotLoaded { line, event } => format!(
                "takes L1 scratchpad line {line} while the load by {by} may still be filling it; tensor_wait {event} \
                 must come first"
            ),
            Fault::LineInUse { line, event } => format!(
                "loads L1 scratchpad line {line} while the operation by {by} may still be reading it; tensor_wait \
                 {event} must come first"
            ),
            Fault::LineLoadedTwice { line, event } => format!(
                "loads L1 scratchpad line {line} while the load by {by} may still be filling it; tensor_wait {event} \
                 must come first"
            ),
            Fault::LineOverwritten { line } => format!(
                "takes L1 scratchpad line {line} as {by} has filled it, over what the load of the lines beside it had \
                 put there and nothing had used"
            ),
            Fault::LineNeverUsed { line } => format!(
                "loads L1 scratchpad line {line}, and with it the last of what {by} had loaded is overwritten before \
                 anything used it"
            ),
            Fault::NeverFenced => {
                "stores globally, and no fence follows before the end of the command: the store may come too late".into()
            }
            Fault::ResultMissing => format!("is the last to write before {at}, a part of the result that nobody writes"),
            Fault::SourceInUse { event } => format!(
                "writes {at} while the tensor load by {by} may still be reading it; tensor_wait {event} must come first"
            ),
            Fault::Unfinished { event } => {
                format!("starts an operation and never waits for it; tensor_wait {event} is missing")
            }
            Fault::LeftDirty => format!(
                "leaves the line of {at} dirty in L1 at the end of the command; it must be published (fence, evict, \
                 tensor_wait 6) before others can rely on it"
            ),
            Fault::LeftInL2 => format!(
                "leaves the line of {at} dirty in its shire's L2 at the end of the command; it must be evicted to L3 \
                 (dest 2) before harts of other shires can rely on it"
            ),
            Fault::CreditsLeft { counter, count } => format!(
                "gives a credit that is never consumed: {count} are left in FCC {counter} of hart {} when the kernel \
                 returns",
                other.map_or(0, |other| other.hart)
            ),
            Fault::BarrierLeft { barrier, count } => format!(
                "is the last to arrive at local barrier {barrier}, which has {count} arrivals and is not complete when \
                 the kernel returns"
            ),
            Fault::BarrierLimit { barrier, limit, before } => format!(
                "arrives at local barrier {barrier} with limit {limit}, while {by} waits there with limit {before}"
            ),
            Fault::BarrierGroups { barrier } => format!(
                "arrives at local barrier {barrier}, which the group of {by} uses at the same time; give each group a \
                 barrier of its own"
            ),
            Fault::BarrierTwice { barrier } => format!(
                "arrives at local barrier {barrier} a second time before the others of its first arrival ({by}) have"
            ),
            Fault::Rounding(mode) => format!("leaves the rounding mode at {mode}; it must be 0 again at the end"),
            Fault::LaneMask(mask) => format!("leaves m0 at {mask:#04x}; it must be 0xff again at the end"),
            Fault::StackOverflow { below } => {
                format!("uses {at}, {below} bytes below its stack of 4 KiB: the stack has overflowed")
            }
            Fault::ForeignStack { owner } => format!("uses {at} in the stack of hart {owner}"),
        }
    }
}
