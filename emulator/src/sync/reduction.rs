//! Exchange of vector registers between two minions (ISA sheet 3.10): a rendezvous of one sender and one receiver.

use crate::hart::Vector;
use std::sync::{Mutex, PoisonError};

/// Registers on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Global number of the minion that may take them.
    pub to: u16,
    /// The registers, in the sender's order.
    pub registers: Vec<Vector>,
    /// The sender's logical time.
    pub clock: u64,
}

/// Where a minion leaves what it sends.
#[derive(Debug, Default)]
pub struct Mailbox {
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Offered(Offer),
    Taken,
}

impl Mailbox {
    /// The sender offers registers. Its previous offer must have been taken.
    pub fn offer(&self, offer: Offer) {
        *self.lock() = Slot::Offered(offer);
    }

    /// The sender asks whether its offer was taken; if so the mailbox is free again.
    pub fn finish(&self) -> bool {
        let mut slot = self.lock();
        let taken = matches!(*slot, Slot::Taken);
        if taken {
            *slot = Slot::Empty;
        }
        taken
    }

    /// Minion `to` takes an offer of exactly `count` registers, if there is one for it.
    pub fn take(&self, to: u16, count: usize) -> Option<Offer> {
        let mut slot = self.lock();
        match &*slot {
            Slot::Offered(offer) if offer.to == to && offer.registers.len() == count => {
                match std::mem::replace(&mut *slot, Slot::Taken) {
                    Slot::Offered(offer) => Some(offer),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_partner_takes_an_offer() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.finish());
        mailbox.offer(Offer { to: 3, registers: vec![Vector::default(); 2], clock: 9 });
        assert!(mailbox.take(4, 2).is_none());
        assert!(mailbox.take(3, 1).is_none());
        assert!(!mailbox.finish());
        assert_eq!(mailbox.take(3, 2).map(|offer| offer.clock), Some(9));
        assert!(mailbox.take(3, 2).is_none());
        assert!(mailbox.finish());
        assert!(!mailbox.finish());
    }
}
