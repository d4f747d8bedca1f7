//! Every instruction on random states gives the same in all ways that the executor has: with exact flags and without,
//! with the host's vector instructions and without.
//!
//! The seed is fixed; PROPTEST_RNG_SEED sets another one, PROPTEST_CASES the number of rounds through the table, and
//! scripts/test-full takes many.

use std::collections::HashMap;

use et_emulator::code::Code;
use et_emulator::exec::{run_on, Stop};
use et_emulator::hart::{Hart, Vector};
use et_emulator::simd::Host;
use et_isa::{Class, Insn, Row, Status, TABLE};
use proptest::prelude::*;

use crate::flat::Flat;

const CODE: u64 = 0x80_0700_0000;
const DATA: u64 = 0x81_0000_0000;
const DATA_SIZE: u64 = 512;

/// Floats at the edges of what the instructions tell apart, halves included.
#[rustfmt::skip]
const SPECIAL: [u32; 40] = [
    0, 0x8000_0000, 1, 0x8000_0001, 0x007F_FFFF, 0x807F_FFFF, 0x0080_0000, 0x8080_0000,
    0x0080_0001, 0x7F7F_FFFF, 0xFF7F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7F80_0001, 0xFFA0_0000, 0x7FC0_0000,
    0xFFC0_0001, 0x3F7F_FFFF, 0x3F80_0000, 0x3F80_0001, 0xBF80_0000, 0x3F00_0000, 0xBF00_0000, 0x3FC0_0000,
    0x4F00_0000, 0xCF00_0000, 0xCF00_0001, 0x4F80_0000, 0x4B00_0001, 0x42FE_0000, 0x4300_0000, 0xC2FC_0000,
    0xC2FC_0001, 0x387F_C000, 0x387F_E000, 0x477F_EFFF, 0x477F_F000, 0x7E80_0000, 0x7E80_0001, 0x7BFF_FC00,
];

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 20) % limit
    }

    fn lane(&mut self, rare: u64) -> u32 {
        let bits = self.next() as u32;
        match self.below(rare) {
            0 => SPECIAL[self.below(SPECIAL.len() as u64) as usize],
            1 => bits,
            // Near one another, so that sums cancel and products stay in range.
            _ => bits & 0x807F_FFFF | (112 + (bits >> 8 & 15)) << 23,
        }
    }
}

/// A hart before `word`, and memory for it.
fn state(random: &mut Random, row: &Row, word: u32) -> (Hart, Flat) {
    let mut hart = Hart::at_entry(0);
    let rare = [2, 6, 40][random.below(3) as usize];
    for register in &mut hart.f {
        register.0 = std::array::from_fn(|_| random.lane(rare));
    }
    for x in &mut hart.x[1..] {
        *x = random.next();
    }
    hart.m = random.next().to_le_bytes();
    if random.below(3) != 0 {
        hart.m[0] = 0xFF;
    }
    hart.fcsr = [0, 0, 0, 1, 2, 3, 4, random.below(8) as u32][random.below(8) as usize] << 5;
    let [rs1, rs2] = [word >> 15 & 31, word >> 20 & 31].map(|register| register as usize);
    let operands = Insn::decode(word).expect("defined").operands();
    let alignment = 1 << random.below(6);
    let spot = (DATA + 128 + random.below(128)) / alignment * alignment;
    match row.class {
        Class::Gather | Class::Scatter | Class::PackedAtomic => {
            let scale = [1, 2, 4, 4, random.next() as u32 & 4][random.below(5) as usize];
            hart.f[rs1].0 = std::array::from_fn(|e| scale * e as u32);
            hart.x[rs2] = spot;
        }
        Class::Atomic | Class::CoherentStore => hart.x[rs1] = spot & !7,
        Class::Load | Class::Store | Class::FpLoad | Class::FpStore => {
            hart.x[rs1] = spot.wrapping_sub(operands.imm as i64 as u64);
        }
        Class::VectorLoad | Class::VectorStore => hart.x[rs1] = spot.wrapping_sub(operands.imm as i64 as u64),
        _ => {}
    }
    hart.x[0] = 0;
    hart.pc = CODE;
    let mut platform = Flat::default();
    platform.place(CODE, &[word]);
    platform.memory.extend((DATA..DATA + DATA_SIZE).map(|addr| (addr, random.next() as u8)));
    (hart, platform)
}

/// Where one way stopped, and the state then, without floating-point flags.
#[derive(Debug, PartialEq)]
struct Outcome {
    stop: Stop,
    f: [Vector; 32],
    x: [u64; 32],
    m: [u8; 8],
    pc: u64,
    rounding: u32,
    progress: u8,
    memory: HashMap<u64, u8>,
}

fn outcome(seed: u64, row: &Row, word: u32, flags: bool, host: Host) -> Outcome {
    let (mut hart, mut platform) = state(&mut Random(seed | 1), row, word);
    let stop = run_on(host, &mut hart, &mut Code::new(flags), &mut platform, 1);
    let Hart { f, x, m, pc, fcsr, gsc_progress: progress, .. } = hart;
    Outcome { stop, f, x, m, pc, rounding: fcsr & 0xE0, progress, memory: platform.memory }
}

proptest! {
    // The seed of one instruction's state is all there is to shrink.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..crate::random::config(40, 3000) })]

    #[test]
    fn all_ways_agree(seed in any::<u64>()) {
        let mut random = Random(seed | 1);
        // What a CSR instruction does is not a matter of the way.
        for row in TABLE.iter().filter(|row| row.status == Status::Works && row.class != Class::Csr) {
            let (word, seed) = (row.matches | random.next() as u32 & !row.mask, random.next());
            let want = outcome(seed, row, word, true, Host::Portable);
            for host in [Host::Portable, Host::detect()] {
                let got = outcome(seed, row, word, false, host);
                let insn = Insn::decode(word).expect("defined");
                prop_assert!(got == want, "{insn}, {host:?}:\n{got:x?}\n{want:x?}");
            }
        }
    }
}
