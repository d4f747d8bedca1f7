//! tensor_reduce, send, receive, broadcast (ISA sheet 3.10).

use super::operation::{self, Operation};
use super::{bits, error, illegal, minion, Engine, Op, Outside, Step};
use crate::fp::{self, Flags, Rounding};
use crate::hart::Hart;
use crate::sync::{Offer, WaitFor};
use crate::trap::Trap;

/// One side of an exchange, as sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    side: Side,
    partner: u16,
    first: usize,
    count: usize,
}

#[derive(Clone, Copy, Debug)]
enum Side {
    /// Still to be offered.
    Send,
    /// Offered and not yet taken.
    Sent,
    Receive(Function),
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Add(Rounding),
    Max,
    Min,
    AddInt,
    MaxInt,
    MinInt,
    Move,
}

impl<O: Outside> Engine<'_, O> {
    pub(super) fn issue_reduction(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        let own = minion(hart);
        let distance = 1u16 << bits(value, 6, 3);
        // In a tree, minions are grouped by 2d; the group's first faces the one d further on, the others rest.
        let place = u32::from(own) % (2 * u32::from(distance));
        let (lower, upper) = (place == 0, place == u32::from(distance));
        let (sends, partner) = match bits(value, 1, 0) {
            0 => (true, bits(value, 15, 3) as u16),
            1 => (false, bits(value, 15, 3) as u16),
            2 if lower => (true, own + distance),
            2 if upper => (false, own - distance),
            3 if upper => (true, own - distance),
            3 if lower => (false, own + distance),
            _ => return Ok(Step::Done),
        };
        if partner == own {
            hart.tensor_error |= error::REDUCTION;
            return Ok(Step::Done);
        }
        let side = if sends {
            Side::Send
        } else {
            Side::Receive(match bits(value, 27, 24) {
                0 => Function::Add(Rounding::from_bits(hart.fcsr >> 5 & 7).ok_or_else(illegal)?),
                2 => Function::Max,
                3 => Function::Min,
                4 => Function::AddInt,
                6 => Function::MaxInt,
                7 => Function::MinInt,
                8 => Function::Move,
                _ => {
                    hart.tensor_error |= error::REDUCTION;
                    return Ok(Step::Done);
                }
            })
        };
        let count = bits(value, 22, 16) as usize;
        if count == 0 {
            return Ok(Step::Done);
        }
        let first = bits(value, 61, 57) as usize;
        self.enqueue(hart, Op::Reduction(Reduction { side, partner, first, count }), || Operation::Reduction {
            registers: operation::registers(first, 1, count),
            partner,
            sends,
        })
    }

    /// Goes as far as the partner allows.
    pub(super) fn reduce(&mut self, hart: &mut Hart, reduction: &mut Reduction) -> Step {
        let own = minion(hart);
        let &mut Reduction { ref mut side, partner, first, count } = reduction;
        let done = match *side {
            Side::Send => {
                let registers = (first..first + count).map(|n| hart.f[n % 32]).collect();
                self.board.mailboxes[usize::from(own)].offer(Offer { to: partner, registers, clock: hart.clock });
                self.board.wake.minion(partner);
                *side = Side::Sent;
                false
            }
            Side::Sent => self.board.mailboxes[usize::from(own)].finish(),
            Side::Receive(function) => {
                let mailbox = self.board.mailboxes.get(usize::from(partner));
                match mailbox.and_then(|mailbox| mailbox.take(own, count)) {
                    Some(offer) => {
                        self.board.wake.minion(partner);
                        combine(hart, first, &offer, function);
                        true
                    }
                    None => false,
                }
            }
        };
        if done {
            Step::Done
        } else {
            Step::Wait(WaitFor::Minion(partner))
        }
    }
}

fn combine(hart: &mut Hart, first: usize, offer: &Offer, function: Function) {
    hart.clock = hart.clock.max(offer.clock);
    let mut flags = Flags::default();
    for (n, sent) in offer.registers.iter().enumerate() {
        let register = &mut hart.f[(first + n) % 32];
        for (own, &sent) in register.0.iter_mut().zip(&sent.0) {
            *own = match function {
                Function::Add(rounding) => fp::add(sent, *own, rounding, &mut flags),
                Function::Max => fp::max(sent, *own, &mut flags),
                Function::Min => fp::min(sent, *own, &mut flags),
                Function::AddInt => sent.wrapping_add(*own),
                Function::MaxInt => (sent as i32).max(*own as i32) as u32,
                Function::MinInt => (sent as i32).min(*own as i32) as u32,
                Function::Move => sent,
            };
        }
    }
    hart.fcsr |= flags.0;
}
