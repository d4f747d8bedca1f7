//! Operations in the forms that kernels use most, for translated code: without a look at what cannot be, and without a
//! copy on the way. Whatever is unusual is left to the general way.

use super::exact::Signs;
use super::{address, avx2, bits, shire, Engine, Line, Outside};
use crate::hart::Hart;
use crate::memory::Region;

impl<O: Outside> Engine<'_, O> {
    /// A write to an operation's CSR. False, with nothing done, when this is not for here.
    #[inline(always)]
    pub fn quick_write<const CSR: u16>(&mut self, hart: &mut Hart, value: u64) -> bool {
        if O::WATCHES {
            return false;
        }
        if matches!(CSR, 0x89F | 0x8BF) {
            return self.quick_eviction(hart, value);
        }
        // Nothing is under way, and the scratchpad is on.
        let idle = !hart.vpu_busy && hart.loads_waiting == 0 && hart.ucache_control & 3 == 3;
        if hart.id & 1 != 0 || !idle {
            return false;
        }
        let done = match CSR {
            0x801 => self.quick_int8(hart, value),
            0x806 => self.quick_quant(hart, value),
            0x83F => self.quick_load(hart, value),
            0x87F => self.quick_store(hart, value),
            _ => None,
        };
        done.is_some()
    }

    /// Eviction or flush of DRAM, which does nothing to memory without caches.
    #[inline(always)]
    fn quick_eviction(&self, hart: &Hart, value: u64) -> bool {
        let (addr, stride, rows) = (address(value, 6), address(hart.x[31], 6), bits(value, 3, 0) + 1);
        let dram = matches!(self.outside.classify(shire(hart), addr), Region::Dram(_));
        value >> 63 == 0 && dram && self.outside.flat(hart, addr, stride, rows).is_some()
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
                bytes.load_rows(offset, stride, lines, |line| &mut line.0)
            }
            7 => {
                let lines: &mut [Line; 16] = lines.try_into().ok()?;
                let (bytes, offset) = self.outside.flat(hart, addr, stride, 16)?;
                let source = |row: usize, part: usize| {
                    let mut words = [0; 8];
                    let at = offset + stride * row as u64 + 32 * part as u64;
                    bytes.load_rows(at, 0, &mut [&mut words], |words| *words).expect("all rows are inside");
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
        let (registers, _) = hart.f.get(first..first + 2 * rows)?.as_chunks::<2>();
        let (bytes, offset) = self.outside.flat(hart, addr, stride, rows as u64)?;
        bytes.store_rows(offset, stride, registers, |register| &register.0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hart::Vector;
    use crate::memory::{Memory, HOST_BASE, OPEN_BASE, OWN_SCRATCHPAD};
    use crate::sync::{Board, Wake};
    use crate::tensor::Unit;

    /// A small generator of reproducible numbers.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            self.0.rotate_left(29) ^ self.0 >> 17
        }

        /// Zeros, small integers and anything.
        fn word(&mut self) -> u32 {
            let bits = self.next() as u32;
            match self.next() % 4 {
                0 => 0,
                1 => bits & 0x8000_00FF,
                _ => bits,
            }
        }

        /// A bit with a chance of one in eight.
        fn rarely(&mut self, bit: u32) -> u64 {
            u64::from(self.next().is_multiple_of(8)) << bit
        }
    }

    /// A minion and its memory.
    struct World {
        memory: Memory,
        board: Board,
        unit: Unit,
        hart: Hart,
    }

    impl World {
        fn new() -> World {
            let memory = Memory::new(1, OPEN_BASE - crate::memory::DRAM_BASE + (32 << 20)).expect("memory");
            let board = Board::new(1, Wake::new(1, 1, 1));
            World { memory, board, unit: Unit::default(), hart: Hart::at_entry(0) }
        }

        /// What an operation may have changed.
        fn state(&self) -> impl PartialEq + std::fmt::Debug {
            let mut bytes = vec![0; 2 * PLACE as usize];
            let (dram, scratchpad) = bytes.split_at_mut(PLACE as usize);
            self.memory.dram.read(HOST_BASE - OPEN_BASE, dram).expect("inside");
            self.memory.scratchpads.read(0, scratchpad).expect("inside");
            let Unit { lines, ten_b, ten_c, setup, macs, .. } = &self.unit;
            let hart = (self.hart.f, self.hart.tensor_error, self.hart.fcsr);
            (bytes, hart, lines.0.to_vec(), *ten_b, *ten_c, *setup, *macs)
        }

        /// The operation in the quick way, if that is for it; whether it was.
        fn quick(&mut self, csr: u16, value: u64) -> bool {
            let World { memory, board, unit, hart } = self;
            let mut engine = Engine { unit, outside: &*memory, board, exact_flags: false };
            match csr {
                0x801 => engine.quick_write::<0x801>(hart, value),
                0x806 => engine.quick_write::<0x806>(hart, value),
                0x83F => engine.quick_write::<0x83F>(hart, value),
                0x87F => engine.quick_write::<0x87F>(hart, value),
                _ => engine.quick_write::<0x89F>(hart, value),
            }
        }

        /// The operation in the general way; whether it trapped.
        fn general(&mut self, csr: u16, value: u64) -> bool {
            let World { memory, board, unit, hart } = self;
            let mut engine = Engine { unit, outside: &*memory, board, exact_flags: false };
            engine.write(hart, csr, value).is_err()
        }
    }

    /// Bytes that operations reach in each memory.
    const PLACE: u64 = 16 << 10;

    #[test]
    fn quick_ways_do_what_the_general_one_does() {
        let mut random = Random(1);
        let (mut one, mut other) = (World::new(), World::new());
        let mut quick = std::collections::BTreeMap::new();
        for round in 0..20_000 {
            if round % 50 == 0 {
                let bytes: Vec<u8> = (0..PLACE / 4).flat_map(|_| random.word().to_le_bytes()).collect();
                let f: [Vector; 32] = std::array::from_fn(|_| Vector(std::array::from_fn(|_| random.word())));
                for world in [&mut one, &mut other] {
                    world.memory.dram.write(HOST_BASE - OPEN_BASE, &bytes).expect("inside");
                    world.memory.scratchpads.write(0, &bytes).expect("inside");
                    world.hart.f = f;
                }
            }
            // Fields of all operations; each takes what it knows. The rarest are those that the quick ways do not.
            let base = [HOST_BASE.next_multiple_of(64), OWN_SCRATCHPAD, 0x1000]
                [[0, 1, 0, 1, 0, 1, 2][random.next() as usize % 7]];
            let addr = base + 64 * (random.next() % 16);
            let shape = random.next() & (0xF << 51) | random.next() & 0xF;
            let (csr, value) = match random.next() % 5 {
                0 => {
                    let line = (random.next() % 50) << 53;
                    let transform = [0, 0, 7, 7, 5][random.next() as usize % 5] << 59;
                    let ten_b = random.rarely(52);
                    let rows = if random.next().is_multiple_of(2) { 15 } else { random.next() & 15 };
                    (0x83F, addr | line | transform | ten_b | rows | random.rarely(63))
                }
                1 => {
                    let a = (random.next() % 48) << 4 | (random.next() % 40) << 12;
                    let kind = [3, 3, 3, 0][random.next() as usize % 4] << 1;
                    let columns = random.next() & 3 << 55;
                    let depth = random.next() & 0xF << 47;
                    let flags = random.next() & (7 << 21 | 1);
                    let rare = random.rarely(63) | random.rarely(43) | random.rarely(20);
                    (0x801, a | kind | columns | depth | flags | shape & 0xF << 51 | rare)
                }
                2 => {
                    let codes = [0x71, 0x71, 0x71, 0x61, 0x871][random.next() as usize % 5];
                    let place = (random.next() % 48) << 45 | random.next() & 0x1E << 57;
                    (0x806, codes | place | 3 << 55 | shape & 0xF << 51)
                }
                3 => {
                    let rare = random.rarely(62) | random.rarely(48) | random.rarely(49) | random.rarely(4);
                    (0x87F, addr | random.next() & 0x1F << 57 | 3 << 55 | shape & 0xF << 51 | rare)
                }
                _ => (0x89F, addr | shape & 0xF | 1 << 58),
            };
            let stride = 64 * (random.next() % 8) + 16 * (random.next() % 16 / 15);
            let (mask, on) = (random.next() as u16, !random.next().is_multiple_of(64));
            for world in [&mut one, &mut other] {
                world.hart.x[31] = stride;
                world.hart.tensor_mask = mask;
                world.hart.ucache_control = if on { 0x203 } else { 0 };
            }
            let trapped = other.general(csr, value);
            if one.quick(csr, value) {
                *quick.entry(csr).or_insert(0) += 1;
                assert!(!trapped, "{csr:x} {value:x}");
            } else {
                assert_eq!(one.general(csr, value), trapped);
            }
            assert!(one.state() == other.state(), "{csr:x} {value:x} in round {round}");
        }
        // Each way was taken: by all but hosts without AVX2.
        assert!(!super::avx2::available() || quick.len() == 5 && quick.values().all(|&n| n > 200), "{quick:?}");
    }
}
