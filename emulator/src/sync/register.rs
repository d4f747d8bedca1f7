//! ESRs that U-mode may touch (ISA sheet 4.3): 64-bit loads and stores.

use super::shire::SCRATCH_MASK;
use super::Board;
use crate::memory::region::Register;
use std::sync::atomic::Ordering::Relaxed;

/// What a register does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// FCC_CREDINC of a thread and counter.
    Credit { thread: usize, counter: usize },
    /// FAST_LOCAL_BARRIER n.
    Barrier(usize),
    /// DUMMY0 or DUMMY1 of a neighborhood.
    Scratch { neighborhood: usize, index: usize },
    /// UBROADCAST data.
    BroadcastData,
    /// UBROADCAST trigger.
    Broadcast,
    /// Present, writable, without effect on what is modelled; reads this value.
    Inert(u64),
}

fn kind(offset: u32) -> Option<Kind> {
    if !offset.is_multiple_of(8) {
        return None;
    }
    let neighborhood = (offset >> 16 & 3) as usize;
    Some(match offset {
        0x34_00C0..0x34_00E0 => {
            let k = ((offset - 0x34_00C0) / 8) as usize;
            Kind::Credit { thread: k / 2, counter: k % 2 }
        }
        0x34_0100..0x34_0200 => Kind::Barrier(((offset - 0x34_0100) / 8) as usize),
        0x34_0080 => Kind::Inert(0),
        // Instruction prefetch: done.
        0x34_02F8 => Kind::Inert(1),
        0x35_FFF0 => Kind::BroadcastData,
        0x35_FFF8 => Kind::Broadcast,
        // Shire-cache index operations of a bank: idle (4) in bits 31:24.
        _ if offset & !0x1_E000 == 0x30_0100 => Kind::Inert(4 << 24),
        _ => match offset & !0x3_0000 {
            0x10_0000 => Kind::Scratch { neighborhood, index: 0 },
            0x10_0008 => Kind::Scratch { neighborhood, index: 1 },
            0x10_0040 | 0x10_8000 | 0x10_8008 | 0x10_8010 => Kind::Inert(0),
            _ => return None,
        },
    })
}

/// The register that a broadcast's trigger names.
fn target(trigger: u64) -> u32 {
    ((trigger >> 54 & 0x1F) << 17 | (trigger >> 40 & 0x3FFF) << 3) as u32
}

impl Board {
    /// Reads an ESR; `None` when U-mode has no such register.
    pub fn load_register(&self, register: Register) -> Option<u64> {
        let shire = &self.shires[register.shire as usize];
        Some(match kind(register.offset)? {
            Kind::Credit { .. } | Kind::Broadcast => 0,
            Kind::Barrier(n) => shire.barriers[n].get(),
            Kind::Scratch { neighborhood, index } => shire.scratch[neighborhood][index].load(Relaxed),
            Kind::BroadcastData => shire.broadcast.load(Relaxed),
            Kind::Inert(value) => value,
        })
    }

    /// Writes an ESR at logical time `clock`; `None` when U-mode has no such register.
    pub fn store_register(&self, register: Register, value: u64, clock: u64) -> Option<()> {
        let shire = &self.shires[register.shire as usize];
        match kind(register.offset)? {
            Kind::Credit { thread, counter } => self.credit(register.shire, thread, counter, value as u32, clock),
            Kind::Barrier(n) => shire.barriers[n].set(value),
            Kind::Scratch { neighborhood, index } => {
                shire.scratch[neighborhood][index].store(value & SCRATCH_MASK, Relaxed);
            }
            Kind::BroadcastData => shire.broadcast.store(value, Relaxed),
            Kind::Broadcast => return self.broadcast(shire.broadcast.load(Relaxed), value, clock),
            Kind::Inert(_) => {}
        }
        Some(())
    }

    /// The credits that a write to an ESR gives: shire, counter, and harts as bits.
    pub fn credits(&self, register: Register, value: u64) -> Vec<(u32, usize, u64)> {
        match kind(register.offset) {
            Some(Kind::Credit { thread, counter }) => {
                let minions = (0..32).filter(|minion| value >> minion & 1 == 1);
                vec![(register.shire, counter, minions.fold(0, |all, minion| all | 1 << (2 * minion + thread)))]
            }
            Some(Kind::Broadcast) => {
                let data = self.shires[register.shire as usize].broadcast.load(Relaxed);
                let offset = target(value);
                let shires = (0..self.shires.len() as u32).filter(|shire| value >> shire & 1 == 1);
                match kind(offset) {
                    Some(Kind::Credit { .. }) => {
                        shires.flat_map(|shire| self.credits(Register { shire, offset }, data)).collect()
                    }
                    _ => Vec::new(),
                }
            }
            _ => Vec::new(),
        }
    }

    /// One credit for a thread of every minion in the mask.
    fn credit(&self, shire: u32, thread: usize, counter: usize, minions: u32, clock: u64) {
        let mut harts = 0u64;
        for (minion, credits) in self.shires[shire as usize].minions.iter().enumerate() {
            if minions >> minion & 1 == 1 {
                credits[thread].send(counter, clock);
                harts |= 1 << (2 * minion + thread);
            }
        }
        self.wake.harts(shire, harts);
    }

    /// Writes `data` to one register of several shires.
    fn broadcast(&self, data: u64, trigger: u64, clock: u64) -> Option<()> {
        let offset = target(trigger);
        if matches!(kind(offset)?, Kind::Broadcast | Kind::BroadcastData) {
            return None;
        }
        for shire in (0..self.shires.len() as u32).filter(|s| trigger >> s & 1 == 1) {
            self.store_register(Register { shire, offset }, data, clock)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Wake;

    fn board() -> Board {
        Board::new(2, Wake::new(2, 0, 1))
    }

    fn at(shire: u32, offset: u32) -> Register {
        Register { shire, offset }
    }

    #[test]
    fn credits_reach_the_thread_and_counter() {
        let board = board();
        board.store_register(at(1, 0x34_00C0 + 8 * 3), 0b101, 40).unwrap();
        let minions = &board.shires[1].minions;
        assert_eq!(minions[0][1].view(), 1 << 16);
        assert_eq!(minions[1][1].view(), 0);
        assert_eq!(minions[2][1].take(1), Some(40));
        assert_eq!(board.load_register(at(1, 0x34_00C0)), Some(0));
    }

    #[test]
    fn a_broadcast_writes_every_shire_of_its_mask() {
        let board = board();
        let target = 0x34_0108u64; // barrier 1
        board.store_register(at(0, 0x35_FFF0), 9, 0).unwrap();
        let trigger = (target >> 17) << 54 | (target >> 3 & 0x3FFF) << 40 | 0b11;
        board.store_register(at(0, 0x35_FFF8), trigger, 0).unwrap();
        assert_eq!(board.shires[0].barriers[1].get(), 9);
        assert_eq!(board.shires[1].barriers[1].get(), 9);
    }

    #[test]
    fn unknown_registers_are_refused() {
        let board = board();
        assert_eq!(board.load_register(at(0, 0x34_0200)), None);
        assert_eq!(board.store_register(at(0, 0x800), 1, 0), None, "message ports are disabled");
        assert_eq!(board.load_register(at(0, 0x30_0100 | 0xF << 13)), Some(4 << 24));
        board.store_register(at(0, 0x13_0008), u64::MAX, 0).unwrap();
        assert_eq!(board.load_register(at(0, 0x13_0008)), Some(0xFFFF_FFFF));
    }
}
