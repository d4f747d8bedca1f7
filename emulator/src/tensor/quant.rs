//! tensor_quant (ISA sheet 3.8): in-place transforms of the C registers.

use super::{bits, illegal, Engine, Op, Step};
use crate::fp::{self, Flags, Rounding};
use crate::hart::Hart;
use crate::simd;
use crate::trap::Trap;

/// A quantisation, as sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quant {
    value: u64,
    rounding: Rounding,
}

impl Quant {
    /// The transforms, in order.
    fn transforms(&self) -> impl Iterator<Item = u64> {
        let value = self.value;
        (0..10).map(move |t| value >> (4 * t) & 0xF).take_while(|&code| code != 0)
    }
}

/// Whether a transform takes a vector from the scratchpad.
fn takes_vector(code: u64) -> bool {
    (4..=7).contains(&code)
}

impl Engine<'_> {
    pub(super) fn issue_quant(&mut self, hart: &mut Hart, value: u64) -> Result<Step, Trap> {
        let rounding = Rounding::from_bits(hart.fcsr >> 5 & 7).ok_or_else(illegal)?;
        let quant = Quant { value, rounding };
        // Undefined on the chip; a kernel that asks for it is wrong.
        if quant.transforms().any(|code| code > 10) {
            return Err(illegal());
        }
        if quant.transforms().any(takes_vector) && !self.scratchpad_on(hart) {
            return Ok(Step::Done);
        }
        self.enqueue(hart, Op::Quant(quant))
    }

    pub(super) fn quantise(&mut self, hart: &mut Hart, quant: &Quant) {
        let value = quant.value;
        let first = bits(value, 61, 57) as usize;
        let columns = 4 * (bits(value, 56, 55) as usize + 1);
        let rows = bits(value, 54, 51) as usize + 1;
        let mut line = bits(value, 50, 45) as usize;
        let mut flags = Flags::default();
        // Whole registers, to the nearest and with nobody to read the flags: the host's arithmetic.
        let native = columns.is_multiple_of(8) && quant.rounding == Rounding::Nearest && !self.exact_flags;
        for code in quant.transforms() {
            let vector = self.unit.line(line).0;
            line += usize::from(takes_vector(code));
            for row in 0..rows {
                let register = |half: usize| (first + 2 * row + half) % 32;
                if native && matches!(code, 1 | 6 | 7) {
                    for half in 0..columns / 8 {
                        let lanes = &mut hart.f[register(half)].0;
                        *lanes = match code {
                            1 => simd::from_i32(*lanes),
                            6 => simd::careful::mul(*lanes, std::array::from_fn(|e| vector[8 * half + e])),
                            _ => simd::careful::mul(*lanes, [vector[row]; 8]),
                        };
                    }
                    continue;
                }
                if code == 10 {
                    let packed: [u8; 16] = std::array::from_fn(|n| hart.f[register(n / 8)].0[n % 8] as u8);
                    let target = &mut hart.f[register(0)].0;
                    for (n, byte) in packed.into_iter().enumerate().take(columns) {
                        let shift = 8 * (n % 4);
                        target[n / 4] = target[n / 4] & !(0xFF << shift) | u32::from(byte) << shift;
                    }
                    continue;
                }
                for column in 0..columns {
                    let element = &mut hart.f[register(column / 8)].0[column % 8];
                    let x = *element;
                    *element = match code {
                        1 => fp::i32_to_f32(x, quant.rounding, &mut flags),
                        2 => fp::f32_to_i32(x, quant.rounding, &mut flags),
                        3 => (x as i32).max(0) as u32,
                        4 => x.wrapping_add(vector[column]),
                        5 => x.wrapping_add(vector[row]),
                        6 => fp::mul(x, vector[column], quant.rounding, &mut flags),
                        7 => fp::mul(x, vector[row], quant.rounding, &mut flags),
                        8 => (x as i32).clamp(-128, 127) as u32 & 0xFF,
                        _ => (x as i32).clamp(0, 255) as u32,
                    };
                }
            }
        }
        hart.fcsr |= flags.0;
    }
}
