//! tensor_quant (ISA sheet 3.8): in-place transforms of the C registers.

use super::operation::{self, Operation};
use super::{bits, illegal, Engine, Op, Outside, Step};
use crate::fp::{self, Flags, Rounding};
use crate::hart::Hart;
use crate::trap::Trap;

/// A quantisation, as sampled at issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quant {
    value: u64,
    rounding: Rounding,
}

impl Quant {
    fn first(&self) -> usize {
        bits(self.value, 61, 57) as usize
    }

    fn columns(&self) -> usize {
        4 * (bits(self.value, 56, 55) as usize + 1)
    }

    fn rows(&self) -> usize {
        bits(self.value, 54, 51) as usize + 1
    }

    /// The first scratchpad line that a transform takes.
    fn line(&self) -> usize {
        bits(self.value, 50, 45) as usize
    }

    /// What it is to those who watch.
    fn operation(&self) -> Operation {
        let vectors = self.transforms().filter(|&code| takes_vector(code)).count();
        Operation::Quant {
            transforms: self.transforms().count(),
            vectors: operation::lines(self.line(), 1, vectors),
            rows: self.rows(),
            columns: self.columns(),
            registers: operation::accumulators(self.first(), self.rows(), self.columns()),
        }
    }

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

impl<O: Outside> Engine<'_, O> {
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
        self.enqueue(hart, Op::Quant(quant), || quant.operation())
    }

    pub(super) fn quantise(&mut self, hart: &mut Hart, quant: &Quant) {
        let (first, columns, rows, mut line) = (quant.first(), quant.columns(), quant.rows(), quant.line());
        let mut flags = Flags::default();
        // Whole registers, to the nearest and with nobody to read the flags: the host's arithmetic.
        #[cfg(target_arch = "x86_64")]
        let native = columns.is_multiple_of(8) && quant.rounding == Rounding::Nearest && !self.exact_flags;
        for code in quant.transforms() {
            let vector = self.unit.line(line).0;
            line += usize::from(takes_vector(code));
            #[cfg(target_arch = "x86_64")]
            if native && matches!(code, 1 | 6 | 7) {
                let factors = &super::Line(vector);
                if super::avx2::quantise(code, &mut hart.f, first, rows, columns / 8, factors) {
                    continue;
                }
            }
            for row in 0..rows {
                let register = |half: usize| (first + 2 * row + half) % 32;
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::hart::Vector;
    use crate::tensor::{avx2, Line};

    #[test]
    fn native_transforms_are_exact() {
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 32) as u32
        };
        let values = [0, 1 << 31, 1, 0x8000_0001, 0x0080_0000, 0x0080_0001, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000];
        for round in 0..3000 {
            let mut word = || match random() {
                n if n % 8 == 0 => values[(n / 8) as usize % values.len()],
                n if n % 8 < 3 => n & 0x3FFF_FFFF | n << 31,
                n => n,
            };
            let f: [Vector; 32] = std::array::from_fn(|_| Vector(std::array::from_fn(|_| word())));
            let factors = Line(std::array::from_fn(|_| word()));
            let (first, rows, halves) = (round % 32, 1 + round % 16, 1 + round % 2);
            let code = [1, 6, 7][round % 3];
            let (mut got, mut want) = (f, f);
            if !avx2::quantise(code, &mut got, first, rows, halves, &factors) {
                return;
            }
            for row in 0..rows {
                for column in 0..8 * halves {
                    let lane = &mut want[(first + 2 * row + column / 8) % 32].0[column % 8];
                    let (flags, nearest) = (&mut Flags::default(), Rounding::Nearest);
                    *lane = match code {
                        1 => fp::i32_to_f32(*lane, nearest, flags),
                        6 => fp::mul(*lane, factors.0[column], nearest, flags),
                        _ => fp::mul(*lane, factors.0[row], nearest, flags),
                    };
                }
            }
            assert!(got == want, "transform {code}");
        }
    }
}
