//! Firmware calls (ISA sheet 7.3): a0 is the number, a1 and a2 are arguments.

use crate::hart::Hart;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The kernel is done with this hart: return value and type.
    Return { value: i64, kind: u64 },
    /// Served: cache and counter operations, which flat memory does not need.
    Served,
    /// Not offered; the number.
    Unknown(u64),
}

/// Serves the call at which a hart stopped, and moves it on.
pub(super) fn serve(hart: &mut Hart) -> Call {
    const NUMBER: usize = 10;
    let call = match hart.x[NUMBER] {
        8 => Call::Return { value: hart.x[11] as i64, kind: hart.x[12] },
        1..=7 | 9..=11 | 301 | 302 => Call::Served,
        number => return Call::Unknown(number),
    };
    hart.x[NUMBER] = 0;
    hart.pc += 4;
    call
}
