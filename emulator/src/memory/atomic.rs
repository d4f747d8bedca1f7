//! Guest atomics on host atomics. `l` and `g` forms differ in where they act, which flat memory does not see.

use super::Mapping;
use crate::fp;
use crate::platform::Atomic;
use std::sync::atomic::Ordering::SeqCst;

impl Mapping {
    /// An atomic of 8 (`wide`) or 4 bytes: the old value, zero-extended, or `None` when misaligned or outside.
    pub fn atomic(&self, offset: u64, wide: bool, op: Atomic, operand: u64) -> Option<u64> {
        if wide {
            let cell = self.double(offset)?;
            Some(match op {
                Atomic::Add => cell.fetch_add(operand, SeqCst),
                Atomic::Swap => cell.swap(operand, SeqCst),
                Atomic::And => cell.fetch_and(operand, SeqCst),
                Atomic::Or => cell.fetch_or(operand, SeqCst),
                Atomic::Xor => cell.fetch_xor(operand, SeqCst),
                _ => {
                    let step = |old| Some(apply_wide(op, old, operand));
                    cell.fetch_update(SeqCst, SeqCst, step).unwrap_or_else(|old| old)
                }
            })
        } else {
            let cell = self.word(offset)?;
            let operand = operand as u32;
            Some(u64::from(match op {
                Atomic::Add => cell.fetch_add(operand, SeqCst),
                Atomic::Swap => cell.swap(operand, SeqCst),
                Atomic::And => cell.fetch_and(operand, SeqCst),
                Atomic::Or => cell.fetch_or(operand, SeqCst),
                Atomic::Xor => cell.fetch_xor(operand, SeqCst),
                _ => {
                    let step = |old| Some(apply(op, old, operand));
                    cell.fetch_update(SeqCst, SeqCst, step).unwrap_or_else(|old| old)
                }
            }))
        }
    }
}

/// The new value of an atomic of 8 (`wide`) or 4 bytes.
pub fn updated(op: Atomic, wide: bool, old: u64, operand: u64) -> u64 {
    match wide {
        true => apply_wide(op, old, operand),
        false => u64::from(apply(op, old as u32, operand as u32)),
    }
}

/// The new value of a 64-bit atomic. The `.ps` forms exist for 32 bits only.
fn apply_wide(op: Atomic, old: u64, operand: u64) -> u64 {
    match op {
        Atomic::Add => old.wrapping_add(operand),
        Atomic::And => old & operand,
        Atomic::Or => old | operand,
        Atomic::Xor => old ^ operand,
        Atomic::Min => (old as i64).min(operand as i64) as u64,
        Atomic::Max => (old as i64).max(operand as i64) as u64,
        Atomic::MinU => old.min(operand),
        Atomic::MaxU => old.max(operand),
        Atomic::CompareSwap(comparand) if old != comparand => old,
        Atomic::Swap | Atomic::CompareSwap(_) | Atomic::MinPs | Atomic::MaxPs => operand,
    }
}

/// The new value of a 32-bit atomic.
fn apply(op: Atomic, old: u32, operand: u32) -> u32 {
    match op {
        Atomic::Add => old.wrapping_add(operand),
        Atomic::And => old & operand,
        Atomic::Or => old | operand,
        Atomic::Xor => old ^ operand,
        Atomic::Min => (old as i32).min(operand as i32) as u32,
        Atomic::Max => (old as i32).max(operand as i32) as u32,
        Atomic::MinU => old.min(operand),
        Atomic::MaxU => old.max(operand),
        Atomic::CompareSwap(comparand) if old != comparand as u32 => old,
        Atomic::Swap | Atomic::CompareSwap(_) => operand,
        Atomic::MinPs => fp::atomic_min(old, operand),
        Atomic::MaxPs => fp::atomic_max(old, operand),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_and_unsigned_order() {
        assert_eq!(apply(Atomic::Min, 0xFFFF_FFFF, 1), 0xFFFF_FFFF);
        assert_eq!(apply(Atomic::MinU, 0xFFFF_FFFF, 1), 1);
        assert_eq!(apply_wide(Atomic::Max, u64::MAX, 1), 1);
        assert_eq!(apply_wide(Atomic::MaxU, u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn compare_swap_looks_at_its_width() {
        let memory = Mapping::new(4096).unwrap();
        let compare = Atomic::CompareSwap(0xDEAD_0000_0000);
        assert_eq!(memory.atomic(0, false, compare, 5), Some(0), "the low 32 bits match");
        assert_eq!(memory.atomic(0, true, compare, 6), Some(5), "64 bits do not");
        assert_eq!(memory.atomic(0, true, Atomic::Add, u64::MAX), Some(5));
        assert_eq!(memory.atomic(2, false, Atomic::Add, 1), None, "misaligned");
    }
}
