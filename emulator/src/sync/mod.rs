//! What harts of different minions share besides memory: credits, barriers, rendezvous, and waking each other.
//!
//! A [`Board`] lives for one launch and starts in the state that the firmware leaves: no credit, all barriers at 0.

mod cooperative;
mod reduction;
mod register;
mod shire;
mod wake;

pub use cooperative::Gathering;
pub use reduction::{Mailbox, Offer};
pub use shire::Shire;
pub use wake::{Verdict, Wake};

use std::fmt;

/// Everything that harts share during one launch.
#[derive(Debug)]
pub struct Board {
    /// One per emulated shire, whether it takes part in the launch or not.
    pub shires: Vec<Shire>,
    /// One per global minion.
    pub mailboxes: Vec<Mailbox>,
    /// Who is to run again.
    pub wake: Wake,
}

impl Board {
    /// The state at kernel entry, for harts that are spread over host threads as `wake` says.
    pub fn new(shires: u32, wake: Wake) -> Self {
        Board {
            shires: (0..shires).map(|_| Shire::default()).collect(),
            mailboxes: (0..shires * 32).map(|_| Mailbox::default()).collect(),
            wake,
        }
    }
}

/// What keeps a hart from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// A credit in this counter (0 or 1).
    Credit(u8),
    /// The partner of a tensor send, receive, broadcast or reduction: a global minion number.
    Minion(u16),
    /// The other minions of a cooperative tensor load.
    CooperativeLoad,
}

impl fmt::Display for WaitFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitFor::Credit(counter) => write!(f, "a credit in FCC {counter}"),
            WaitFor::Minion(minion) => write!(f, "minion {minion} to take part in a tensor reduction"),
            WaitFor::CooperativeLoad => write!(f, "the other minions of a cooperative tensor load"),
        }
    }
}
