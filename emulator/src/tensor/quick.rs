//! Operations in the forms that kernels use most, for translated code: without a look at what cannot be, and without a
//! copy on the way. Whatever is unusual is left to the general way.

use super::exact::Signs;
use super::{address, avx2, bits, Engine, Line, Outside};
use crate::hart::Hart;

impl<O: Outside> Engine<'_, O> {
    /// A write to an operation's CSR. False, with nothing done, when this is not for here.
    #[inline(always)]
    pub fn quick_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> bool {
        // Nothing is under way, and the scratchpad is on.
        let idle = !hart.vpu_busy && hart.loads_waiting == 0 && hart.ucache_control & 3 == 3;
        if O::WATCHES || hart.id & 1 != 0 || !idle {
            return false;
        }
        let done = match csr {
            0x801 => self.quick_int8(hart, value),
            0x806 => self.quick_quant(hart, value),
            0x83F => self.quick_load(hart, value),
            0x87F => self.quick_store(hart, value),
            _ => None,
        };
        done.is_some()
    }

    /// tensor_load of whole lines, plain or transposed by words.
    #[inline(always)]
    fn quick_load(&mut self, hart: &Hart, value: u64) -> Option<()> {
        let (masked, cooperative, ten_b) = (1 << 63, 1 << 62, 1 << 52);
        if value & (masked | cooperative | ten_b) != 0 {
            return None;
        }
        let (addr, stride) = (address(value, 6), address(hart.x[31], 6));
        let (first, rows) = (bits(value, 58, 53) as usize, bits(value, 3, 0) as usize + 1);
        let lines = self.unit.lines.0.get_mut(first..first + rows)?;
        match bits(value, 61, 59) {
            0 => {
                let (bytes, offset) = self.outside.flat(hart, addr, stride, rows as u64)?;
                bytes.load_rows(offset, stride, lines.iter_mut().map(|line| &mut line.0))
            }
            7 => {
                let lines: &mut [Line; 16] = lines.try_into().ok()?;
                let (bytes, offset) = self.outside.flat(hart, addr, stride, 16)?;
                let source = |row: usize, part: usize| {
                    let mut words = [0; 8];
                    let at = offset + stride * row as u64 + 32 * part as u64;
                    bytes.load_rows(at, 0, std::iter::once(&mut words)).expect("all rows are inside");
                    words
                };
                avx2::transpose_to(source, lines).then_some(())
            }
            _ => None,
        }
    }

    /// tensor_store of whole lines from registers that follow one another.
    #[inline(always)]
    fn quick_store(&mut self, hart: &Hart, value: u64) -> Option<()> {
        // A step of 1, four pieces a row, from registers, alone.
        let shape = 3 << 62 | 3 << 55 | 1 << 48 | 3 << 49;
        let (addr, stride) = (address(value, 4), address(hart.x[31], 4));
        if value & shape != 3 << 55 || !addr.is_multiple_of(64) || !stride.is_multiple_of(64) {
            return None;
        }
        let (first, rows) = (bits(value, 61, 57) as usize, bits(value, 54, 51) as usize + 1);
        let registers = hart.f.get(first..first + 2 * rows)?;
        let (bytes, offset) = self.outside.flat(hart, addr, stride, rows as u64)?;
        bytes.store_rows(offset, stride, registers.chunks_exact(2).map(|row| [&row[0].0, &row[1].0]))
    }

    /// tensor_quant from i32 to f32, then times a factor for each row.
    #[inline(always)]
    fn quick_quant(&mut self, hart: &mut Hart, value: u64) -> Option<()> {
        // 16 columns, and the two transforms; those after an end do not count.
        let shape = 3 << 55 | 0xFFF;
        let nearest = hart.fcsr & 0xE0 == 0;
        if value & shape != 3 << 55 | 0x71 || !nearest || self.exact_flags {
            return None;
        }
        let (first, rows) = (bits(value, 61, 57) as usize, bits(value, 54, 51) as usize + 1);
        let registers = hart.f.get_mut(first..first + 2 * rows)?;
        avx2::scale_rows(registers, self.unit.line(bits(value, 50, 45) as usize)).then_some(())
    }

    /// tensor_fma of int8.
    #[inline(always)]
    fn quick_int8(&mut self, hart: &mut Hart, value: u64) -> Option<()> {
        // int8, whole registers of columns, all rows, from A's word 0 on.
        let shape = 1 << 63 | 1 << 55 | 0xF << 43 | 7 << 1;
        if value & shape != 1 << 55 | 3 << 1 {
            return None;
        }
        let (rows, depth) = (bits(value, 54, 51) as usize + 1, bits(value, 50, 47) as usize + 1);
        let from_ten_b = bits(value, 20, 20) == 1;
        let unit = &mut *self.unit;
        if unit.setup != from_ten_b.then_some(depth as u8) {
            return None;
        }
        let (first_a, first_b) = (bits(value, 9, 4) as usize, bits(value, 17, 12) as usize);
        let a = unit.lines.0.get(first_a..first_a + rows)?;
        let b = if from_ten_b { unit.ten_b.get(..depth)? } else { unit.lines.0.get(first_b..first_b + depth)? };
        let signs = Signs { a_unsigned: bits(value, 21, 21) == 1, b_unsigned: bits(value, 22, 22) == 1 };
        let halves = bits(value, 56, 56) as usize + 1;
        let target = (bits(value, 23, 23) == 1).then_some(&mut hart.f);
        if !avx2::multiply_int8_lines(a, b, halves, bits(value, 0, 0) == 1, signs, &mut unit.ten_c, target) {
            return None;
        }
        unit.setup = None;
        unit.macs.int8 += (4 * rows * 8 * halves * depth) as u64;
        Some(())
    }
}
