//! What strict mode has found, and its words.

use std::fmt;

/// The kind of a fault in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ViolationKind {
    /// A read saw an old value, because the new one was not published or an old copy was not dropped.
    StaleRead,
    /// Two harts use the same bytes, at least one writes, and nothing orders them.
    Race,
    /// Two harts write to one line, which caches write back whole.
    SharedLine,
    /// A line written back overwrote newer bytes.
    LostWrite,
    /// A value that nothing ever wrote was used.
    NeverWritten,
    /// An access outside every live buffer.
    OutsideBuffers,
    /// A write to a tensor that is not the command's result.
    BeyondResult,
    /// A store that no fence separates from the cache operation that is to publish it.
    MissingFence,
    /// A result of the tensor engine was used before its wait, or its operand changed under way.
    TensorHazard,
    /// An operation that nobody waited for.
    NotWaited,
    /// A part of a command's result that nobody wrote.
    ResultMissing,
    /// Lines that a command left dirty in L1.
    LeftDirty,
    /// Credits or barriers left over.
    Credits,
    /// A local barrier used by two groups.
    SharedBarrier,
    /// Rounding mode or lane mask left changed.
    FpState,
    /// A stack that is too small, or another hart's.
    Stack,
}

impl ViolationKind {
    fn name(self) -> &'static str {
        match self {
            ViolationKind::StaleRead => "stale read",
            ViolationKind::Race => "race",
            ViolationKind::SharedLine => "shared line",
            ViolationKind::LostWrite => "lost write",
            ViolationKind::NeverWritten => "never written",
            ViolationKind::OutsideBuffers => "outside all buffers",
            ViolationKind::BeyondResult => "beyond the result",
            ViolationKind::MissingFence => "missing fence",
            ViolationKind::TensorHazard => "tensor hazard",
            ViolationKind::NotWaited => "not waited for",
            ViolationKind::ResultMissing => "result missing",
            ViolationKind::LeftDirty => "left dirty",
            ViolationKind::Credits => "credits",
            ViolationKind::SharedBarrier => "shared barrier",
            ViolationKind::FpState => "FP state",
            ViolationKind::Stack => "stack",
        }
    }
}

/// An instruction that a hart executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Hart number: shire << 6 | minion << 1 | thread.
    pub hart: u16,
    /// The instruction.
    pub pc: u64,
    /// Where it is in the source.
    pub location: Option<String>,
}

/// One fault that strict mode reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What is wrong.
    pub kind: ViolationKind,
    /// Who did it.
    pub party: Party,
    /// The other side: who wrote what was missed, for example.
    pub other: Option<Party>,
    /// The command as `kernel (command 3, tensor 'x')`, empty outside of commands.
    pub command: String,
    /// The address, if the fault has one.
    pub address: Option<u64>,
    /// What happened and what to do about it, naming the other side.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), Name(&self.party))?;
        if !self.command.is_empty() {
            write!(f, " in {}", self.command)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// A hart and its place in the code.
pub struct Name<'a>(pub &'a Party);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Party { hart, pc, location } = self.0;
        write!(f, "hart {hart} (shire {}, minion {}, thread {}) ", hart >> 6, hart >> 1 & 31, hart & 1)?;
        match location {
            Some(location) => write!(f, "in {location} (pc {pc:#x})"),
            None => write!(f, "at pc {pc:#x}"),
        }
    }
}
