//! Cache operations by address (ISA sheet 3.11): the checks. What they do is up to the memory outside.

use super::operation::{Operation, Rows};
use super::{address, bits, refuse, shire, CacheAction, Engine, Outside, Step};
use crate::hart::Hart;
use crate::memory::{Refusal, Region};
use crate::trap::{Cause, Trap};

impl<O: Outside> Engine<'_, O> {
    pub(super) fn cache_operation(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Step, Trap> {
        let action = match csr {
            0x81F => CacheAction::Prefetch,
            0x89F => CacheAction::Evict,
            0x8BF => CacheAction::Flush,
            0x8DF => CacheAction::Lock,
            _ => CacheAction::Unlock,
        };
        let level = bits(value, 59, 58);
        // The level nearest to the core is the only one that scratchpad lines can be moved to or from.
        let (nothing, scratchpad) = match action {
            CacheAction::Prefetch => (level == 3, level == 0),
            CacheAction::Lock | CacheAction::Unlock => (false, true),
            CacheAction::Flush | CacheAction::Evict => (level == 0, level == 1),
        };
        if nothing {
            return Ok(Step::Done);
        }
        let mask = if value >> 63 == 1 { hart.tensor_mask } else { u16::MAX };
        let (addr, stride) = (address(value, 6), address(hart.x[31], 6));
        let lines = Rows { addr, stride, rows: bits(value, 3, 0) as u32 + 1, bytes: 64, mask };
        let event = if action == CacheAction::Prefetch { 4 + (hart.x[31] & 1) } else { 6 };
        self.announce(hart, || Operation::Cache { event, action, level, lines });
        for addr in lines.iter() {
            match self.outside.classify(shire(hart), addr) {
                Region::Scratchpad(_) if !scratchpad => return Err(Trap { cause: Cause::BusError, tval: addr }),
                Region::Dram(_) | Region::Scratchpad(_) => {
                    self.outside.cache_line(hart, action, event, level, addr);
                }
                Region::Missing => return Err(Trap { cause: Cause::BusError, tval: addr }),
                Region::Register(_) | Region::Closed => {
                    return refuse(hart, Refusal::Fault, addr).map(|()| Step::Done);
                }
            }
        }
        Ok(Step::Done)
    }
}
