//! Cache operations by address (ISA sheet 3.11). Flat memory has no caches: what remains are the checks, and the
//! zeroing of locked lines.

use super::{address, bits, refuse, shire, Engine, Step};
use crate::hart::Hart;
use crate::memory::{region, Refusal, Region};
use crate::trap::{Cause, Trap};

const PREFETCH: u16 = 0x81F;
const LOCK: u16 = 0x8DF;
const UNLOCK: u16 = 0x8FF;

impl Engine<'_> {
    pub(super) fn cache_operation(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Step, Trap> {
        let level = bits(value, 59, 58);
        // The level nearest to the core is the only one that scratchpad lines can be moved to or from.
        let (nothing, scratchpad) = match csr {
            PREFETCH => (level == 3, level == 0),
            LOCK | UNLOCK => (false, true),
            _ => (level == 0, level == 1),
        };
        if nothing {
            return Ok(Step::Done);
        }
        let mask = if value >> 63 == 1 { hart.tensor_mask } else { u16::MAX };
        let (addr, stride) = (address(value, 6), address(hart.x[31], 6));
        for line in (0..=bits(value, 3, 0)).filter(|i| mask >> i & 1 == 1) {
            let addr = region::canonical(addr.wrapping_add(stride.wrapping_mul(line)));
            match self.memory.classify(shire(hart), addr) {
                Region::Scratchpad(_) if !scratchpad => return Err(Trap { cause: Cause::BusError, tval: addr }),
                Region::Dram(_) | Region::Scratchpad(_) => {
                    if csr == LOCK {
                        let zeroed = self.memory.write_block(shire(hart), addr, [0; 64]);
                        debug_assert!(zeroed.is_ok(), "the region holds bytes");
                    }
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
