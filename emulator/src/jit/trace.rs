//! What is translated at once: instructions that usually follow one another.

use crate::code::{Slot, State};
use et_isa::{Class, Op};

/// The longest trace. A hart must have as much budget left to enter one.
const LENGTH: usize = 96;

/// Instructions from `start` on, as they follow one another while no branch is taken; jumps are followed.
pub(super) struct Trace {
    pub start: u64,
    pub instructions: Vec<(u64, Slot)>,
    pub end: End,
    /// Whether it holds only when m0 is all ones.
    pub all_lanes: bool,
    /// Whether it holds only when the rounding mode in fcsr is to nearest.
    pub nearest: bool,
}

/// What comes after a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The instruction at this address.
    Next(u64),
    /// The last instruction decides.
    Itself,
    /// The instruction at this address, which must be interpreted.
    Interpret(u64),
}

impl Trace {
    /// The trace from `start`. `fetch` gives an instruction if it can be read, `known` whether a trace starts there.
    pub fn form(start: u64, mut fetch: impl FnMut(u64) -> Option<Slot>, known: impl Fn(u64) -> bool) -> Trace {
        let mut trace =
            Trace { start, instructions: Vec::new(), end: End::Next(start), all_lanes: false, nearest: false };
        let mut pc = start;
        // How many instructions come before m0 last ceased to be all ones.
        let mut partial = None;
        trace.end = loop {
            if let Some(before @ 1..) = partial.filter(|_| trace.instructions.len() == LENGTH) {
                // What follows could not be entered. The next trace takes the whole piece.
                pc = trace.instructions[before].0;
                trace.instructions.truncate(before);
                break End::Next(pc);
            }
            if trace.instructions.len() == LENGTH || !trace.instructions.is_empty() && known(pc) {
                break End::Next(pc);
            }
            let Some(slot) = fetch(pc).filter(|slot| slot.state == State::Ready) else {
                break End::Interpret(pc);
            };
            if matches!(slot.op, Op::Ecall | Op::Ebreak) {
                break End::Interpret(pc);
            }
            trace.instructions.push((pc, slot));
            trace.all_lanes |= slot.op.row().class.uses_vpu();
            trace.nearest |= slot.rm == 7;
            match mask_after(&slot) {
                Some(Some(0xFF)) => partial = None,
                Some(_) => partial = partial.or(Some(trace.instructions.len() - 1)),
                None => {}
            }
            let next = pc.wrapping_add(2 * u64::from(slot.step));
            match slot.op {
                Op::Jalr => break End::Itself,
                Op::Jal => {
                    pc = target(pc, &slot);
                    if trace.instructions.iter().any(|&(at, _)| at == pc) {
                        break End::Next(pc);
                    }
                    continue;
                }
                Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu if slot.imm < 0 => break End::Next(next),
                // The rounding mode, which the rest of a trace takes for granted, may change.
                _ if slot.op.row().class == Class::Csr && matches!(slot.imm, 1..=3) => break End::Next(next),
                _ => {}
            }
            pc = next;
        };
        trace
    }

    /// The first walk in the trace, if there is one.
    pub fn walk(&self) -> Option<Walk> {
        /// Fewer loads are followed well enough by the host's own prefetching.
        const LOADS: usize = 8;
        (0..self.instructions.len()).find_map(|at| {
            let slot = &self.instructions[at].1;
            let (base, step) = match slot.op {
                Op::Addi if slot.rd == slot.rs1 => (slot.rd, Step::Constant(slot.imm)),
                Op::Add if slot.rd == slot.rs1 => (slot.rd, Step::Register(slot.rs2)),
                Op::Add if slot.rd == slot.rs2 => (slot.rd, Step::Register(slot.rs1)),
                _ => return None,
            };
            let before = self.instructions[..at].iter().map(|(_, slot)| slot);
            let loads = before.filter(|slot| matches!(slot.op, Op::FlwPs | Op::Flq2) && slot.rs1 == base);
            let offsets: Vec<i32> = loads.map(|slot| slot.imm).collect();
            (offsets.len() >= LOADS).then_some(Walk { base, step, offsets })
        })
    }
}

/// A walk through memory: many vector loads from a register that then moves on.
pub(super) struct Walk {
    /// The register, and what is added to it.
    pub base: u8,
    pub step: Step,
    /// The offsets of the loads.
    pub offsets: Vec<i32>,
}

/// How far a walk moves on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Register(u8),
    Constant(i32),
}

/// Where a branch or jump leads.
pub(super) fn target(pc: u64, slot: &Slot) -> u64 {
    pc.wrapping_add((slot.imm as i64 as u64).wrapping_mul(2))
}

/// What m0 holds after an instruction that writes it, if that is known; `None` for instructions that do not.
pub(super) fn mask_after(slot: &Slot) -> Option<Option<u8>> {
    match slot.op {
        Op::MovMX if slot.rd == 0 => Some((slot.rs1 == 0).then_some(slot.imm as u8)),
        Op::MovaMX => Some(None),
        Op::Maskand | Op::Maskor | Op::Maskxor | Op::Masknot if slot.rd == 0 => Some(None),
        Op::FeqmPs | Op::FltmPs | Op::FlemPs | Op::FltmPi | Op::FsetmPi if slot.rd == 0 => Some(None),
        _ => None,
    }
}
