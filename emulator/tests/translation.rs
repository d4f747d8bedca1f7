//! Translated code against the interpreter: random programs run in both, with the same budgets, and must leave the same
//! state each time that they stop.
//!
//! The programs are the same in every run; scripts/test-full takes many more.

#![cfg(target_arch = "x86_64")]

use et_emulator::code::Code;
use et_emulator::exec::{run, Stop};
use et_emulator::hart::Hart;
use et_emulator::memory::{Memory, Window, OPEN_BASE, OWN_SCRATCHPAD, SCRATCHPAD_BASE, SCRATCHPAD_BYTES};
use et_emulator::platform::{Atomic, Level, Outcome, Platform, Windows};
use et_emulator::trap::{Cause, Trap};
use et_isa::form::{Field, File, Operand};
use et_isa::{encode, Class, Insn, Op, Operands, Status, TABLE};

const DRAM_BYTES: u64 = 96 << 20;
const DRAM_END: u64 = 0x80_0000_0000 + DRAM_BYTES;
const CODE: u64 = 0x80_0582_0000;
const DATA: u64 = 0x80_0583_0000;
const DATA_BYTES: usize = 1 << 13;
/// From here on in the own scratchpad is data, too.
const SCRATCH: u64 = OWN_SCRATCHPAD + SCRATCHPAD_BYTES - 0x800;
const SCRATCH_BYTES: usize = 0x800;
/// The hart is in shire 1 of 2.
const ID: u16 = 64 + 6;

/// A small deterministic generator (xorshift).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Bits of a float, often a special one.
    fn float(&mut self) -> u32 {
        const SPECIAL: [u32; 16] = [
            0,
            1,
            0x007F_FFFF,
            0x0080_0000,
            0x0080_0001,
            0x00FF_FFFF,
            0x3380_0000,
            0x3F7F_FFFF,
            0x3F80_0000,
            0x4F00_0000,
            0x4EFF_FFFF,
            0x7F7F_FFFF,
            0x7F80_0000,
            0x7FC0_0000,
            0x7FA0_0000,
            0x7FFF_FFFF,
        ];
        let bits = self.next() as u32;
        match self.below(8) {
            0 | 1 => self.pick(&SPECIAL) | bits & 0x8000_0000,
            2 => bits & 0x807F_FFFF | (120 + self.below(16) as u32) << 23,
            // Products of these are about the smallest normal.
            3 => bits & 0x807F_FFFF | (62 + self.below(4) as u32) << 23,
            4 => bits & 0x81FF_FFFF,
            // Integers, half floats, bytes.
            5 => bits & self.pick(&[0x1F, 0xFF, 0x7FFF, 0xFFFF]),
            _ => bits,
        }
    }
}

/// Memory as fast mode has it, and registers that do what the test wants to see.
struct Bare {
    memory: Memory,
    translate: bool,
    /// How often a credit is still missing.
    missing: u64,
    /// Loads and stores of the interpreter, of sizes that no gather or scatter has.
    accesses: u64,
}

impl Bare {
    fn new(translate: bool) -> Bare {
        Bare { memory: Memory::new(2, DRAM_BYTES).expect("memory"), translate, missing: 0, accesses: 0 }
    }

    fn fill(&self, place: u64, code: &[u8], random: &mut Random) {
        self.memory.dram.write(place - OPEN_BASE, code).expect("in DRAM");
        let mut bytes =
            |count: usize| -> Vec<u8> { (0..count / 4).flat_map(|_| random.float().to_le_bytes()).collect() };
        self.memory.dram.write(DATA - OPEN_BASE, &bytes(DATA_BYTES)).expect("in DRAM");
        let offset = SCRATCHPAD_BYTES + SCRATCH - OWN_SCRATCHPAD;
        self.memory.scratchpads.write(offset, &bytes(SCRATCH_BYTES)).expect("in the scratchpad");
    }

    fn contents(&self) -> Vec<u8> {
        let mut all = vec![0; DATA_BYTES + SCRATCH_BYTES];
        let (data, scratch) = all.split_at_mut(DATA_BYTES);
        self.memory.dram.read(DATA - OPEN_BASE, data).expect("in DRAM");
        self.memory.scratchpads.read(SCRATCHPAD_BYTES + SCRATCH - OWN_SCRATCHPAD, scratch).expect("in the scratchpad");
        all
    }

    /// Whether an access is allowed.
    fn check(&self, level: Level, addr: u64, size: u64, cause: Cause) -> Result<(), Trap> {
        let aligned = level == Level::L1 || addr.is_multiple_of(size);
        if aligned && self.memory.flat(1, addr, size).is_some() {
            Ok(())
        } else {
            Err(Trap { cause, tval: addr })
        }
    }
}

impl Platform for Bare {
    const TRANSLATES: bool = true;

    fn windows(&self, _: &Hart) -> Option<Windows> {
        let memory = &self.memory;
        self.translate.then_some(Windows {
            dram: Window::new(OPEN_BASE, &memory.dram, 0, memory.dram.len() as u64)?,
            scratchpad: Window::new(OWN_SCRATCHPAD, &memory.scratchpads, SCRATCHPAD_BYTES, SCRATCHPAD_BYTES)?,
        })
    }

    fn load<const N: usize>(&mut self, _: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        self.accesses += u64::from(N == 8 || N == 32);
        self.check(level, addr, N as u64, Cause::LoadAccess)?;
        let (bytes, offset) = self.memory.flat(1, addr, N as u64).expect("checked");
        Ok(bytes.load(offset).expect("inside"))
    }

    fn store<const N: usize>(&mut self, _: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        self.accesses += u64::from(N == 8 || N == 32);
        self.check(level, addr, N as u64, Cause::StoreAccess)?;
        let (bytes, offset) = self.memory.flat(1, addr, N as u64).expect("checked");
        bytes.store(offset, data).expect("inside");
        Ok(())
    }

    fn atomic(&mut self, _: &Hart, _: Level, addr: u64, wide: bool, op: Atomic, operand: u64) -> Result<u64, Trap> {
        let fault = Trap { cause: Cause::StoreAccess, tval: addr };
        let (bytes, offset) = self.memory.flat(1, addr, 4).ok_or(fault)?;
        bytes.atomic(offset, wide, op, operand).ok_or(fault)
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        let bytes = self.memory.dram.load(addr.wrapping_sub(OPEN_BASE));
        bytes.map(u16::from_le_bytes).ok_or(Trap { cause: Cause::FetchAccess, tval: addr })
    }

    fn csr_write(&mut self, hart: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        match csr {
            0x800 => hart.vpu_busy = true,
            0x821 => {
                self.missing = self.missing.wrapping_sub(1) & 3;
                if self.missing != 0 {
                    return Ok(Outcome::Block);
                }
                hart.clock += 1000;
            }
            _ => {}
        }
        Ok(Outcome::Done(value ^ hart.clock ^ hart.retired << 32))
    }

    fn csr_read(&mut self, hart: &mut Hart, _: u16) -> Result<Outcome, Trap> {
        Ok(Outcome::Done(hart.clock << 32 | hart.retired))
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        self.missing = self.missing.wrapping_sub(1) & 3;
        hart.vpu_busy = self.missing != 0;
        !hart.vpu_busy
    }
}

/// An item of a program.
#[derive(Clone, Copy)]
enum Item {
    Word(u32),
    /// A compressed instruction.
    Half(u16),
    /// A branch or jump to an item.
    To(Op, Operands, usize),
}

/// Registers: bases of addresses, and what random instructions write. x1 is the return address, x4 counts rounds.
const BASES: std::ops::Range<u8> = 8..16;
const RESULTS: std::ops::Range<u8> = 16..31;
/// Vector registers with offsets for gathers.
const OFFSETS: std::ops::Range<u8> = 24..32;

/// A random instruction of the table that is no jump and no call.
fn instruction(random: &mut Random, masks: bool) -> u32 {
    loop {
        let row = &TABLE[random.below(TABLE.len())];
        let plain = !matches!(row.class, Class::Branch | Class::System);
        let likely =
            !matches!(row.class, Class::Atomic | Class::PackedAtomic | Class::CoherentStore) || random.one_in(8);
        if row.status != Status::Works || !plain || !likely || row.class == Class::Mask && !masks {
            continue;
        }
        let memory = row
            .form
            .operands()
            .iter()
            .any(|operand| matches!(operand, Operand::Memory(_) | Operand::Index(_) | Operand::Address(_)));
        let mut out = Operands::default();
        for operand in row.form.operands() {
            match *operand {
                Operand::Reg(File::M, field) => {
                    let number =
                        if field == Field::Rd && !random.one_in(3) { 1 + random.below(7) } else { random.below(8) };
                    out.set_register(field, number as u8);
                }
                Operand::Reg(File::X, Field::Rd) => {
                    out.set_register(
                        Field::Rd,
                        if random.one_in(12) { 0 } else { RESULTS.start + random.below(15) as u8 },
                    );
                }
                Operand::Reg(File::X, field) => out.set_register(field, random.below(32) as u8),
                Operand::Reg(_, field) => {
                    // Offsets stay, mostly.
                    let limit = if field == Field::Rd { 24 } else { 32 };
                    out.set_register(field, random.below(limit) as u8);
                }
                Operand::Address(field) => out.set_register(field, BASES.start + random.below(8) as u8),
                Operand::Memory(imm) => {
                    out.set_register(Field::Rs1, BASES.start + random.below(8) as u8);
                    let (low, high) = imm.range();
                    out.imm =
                        (random.below(512) as i32 - 256).clamp(low, high) & if random.one_in(3) { -1 } else { !31 };
                }
                Operand::Index(_) => {
                    out.set_register(Field::Rs1, OFFSETS.start + random.below(8) as u8);
                    out.set_register(Field::Rs2, BASES.start + random.below(8) as u8);
                }
                Operand::Imm(imm) => {
                    let (low, high) = imm.range();
                    out.imm = low + random.below((high - low + 1) as usize) as i32;
                }
                Operand::Rm => out.rm = random.pick(&[0, 0, 7, 7, 7, 1, 2, 3, 4]),
                Operand::Csr => {
                    // Rounding mode, flags, clock, credits, an operation that keeps the vector unit busy, progress.
                    out.csr =
                        random.pick(&[0x002, 0x003, 0xC03, 0xC04, 0x821, 0x800, 0x840, 0x8D0, 0x830, 0xCD0, 0x7FF]);
                    if matches!(out.csr, 2 | 3 | 0x840) && !random.one_in(16) {
                        out.csr = 0xC03;
                    }
                }
            }
        }
        if memory && random.one_in(200) {
            out.set_register(Field::Rs1, random.below(32) as u8);
        }
        if let Some(word) = encode(row.op, &out) {
            return word;
        }
    }
}

/// A program: some rounds of a body with branches and calls, then `ecall`, and the function that is called.
fn program(random: &mut Random) -> Vec<u8> {
    let length = 10 + random.below(80);
    // Each program is about some instructions, so that results meet.
    let masks = random.one_in(3);
    let mut items = Vec::new();
    let item = |random: &mut Random| match random.below(16) {
        // c.nop, c.addi t3, 1, c.mv t3, a0, c.li t5, -3.
        0 => Item::Half(random.pick(&[0x0001, 0x0E05, 0x8E2A, 0x5F75])),
        _ => Item::Word(instruction(random, masks)),
    };
    let function = length + 3;
    for at in 0..length {
        let next = at + 1 + random.below(length - at);
        match random.below(24) {
            0 | 1 => {
                let op = random.pick(&[Op::Beq, Op::Bne, Op::Blt, Op::Bge, Op::Bltu, Op::Bgeu]);
                let operands =
                    Operands { rs1: random.below(32) as u8, rs2: random.below(32) as u8, ..Operands::default() };
                items.push(Item::To(op, operands, next));
            }
            2 => items.push(Item::To(Op::Jal, Operands { rd: 1, ..Operands::default() }, function)),
            3 => items.push(Item::To(Op::Jal, Operands::default(), next)),
            4 if masks => {
                let word =
                    encode(Op::MovMX, &Operands { imm: random.pick(&[0xFF, 0xFF, 0xF0, 3]), ..Operands::default() });
                items.push(Item::Word(word.expect("in range")));
            }
            _ => items.push(item(random)),
        }
    }
    let word = |op, operands: Operands| Item::Word(encode(op, &operands).expect("in range"));
    items.push(word(Op::Addi, Operands { rd: 4, rs1: 4, imm: -1, ..Operands::default() }));
    items.push(Item::To(Op::Bne, Operands { rs1: 4, ..Operands::default() }, 0));
    items.push(word(Op::Ecall, Operands::default()));
    items.extend((0..4).map(|_| item(random)));
    items.push(word(Op::Jalr, Operands { rs1: 1, imm: random.below(2) as i32, ..Operands::default() }));

    let sizes = items.iter().map(|item| if matches!(item, Item::Half(_)) { 2 } else { 4 });
    let places: Vec<i32> = sizes.scan(0, |at, size| Some(std::mem::replace(at, *at + size))).collect();
    let mut bytes = Vec::new();
    for (item, place) in items.iter().zip(&places) {
        match *item {
            Item::Word(word) => bytes.extend(word.to_le_bytes()),
            Item::Half(half) => bytes.extend(half.to_le_bytes()),
            Item::To(op, operands, target) => {
                let word = encode(op, &Operands { imm: places[target] - place, ..operands }).expect("near enough");
                bytes.extend(word.to_le_bytes());
            }
        }
    }
    bytes
}

fn hart(random: &mut Random) -> Hart {
    let mut hart = Hart::at_entry(ID);
    for i in 1..32 {
        hart.x[i] = match random.below(4) {
            0 => random.float() as i32 as u64,
            1 => random.below(64) as u64,
            _ => random.next(),
        };
        hart.m[i & 7] = random.next() as u8;
    }
    for i in BASES {
        let near = random.below(DATA_BYTES - 1024) as u64 + 512;
        hart.x[i as usize] = match random.below(32) {
            0..=19 => (DATA + near) & !31,
            20..=22 => DATA + near,
            23..=25 => SCRATCH + 0x200 + random.below(0x400) as u64,
            // Not named as the own one.
            26 => SCRATCHPAD_BASE + (1 << 23) + (SCRATCH - OWN_SCRATCHPAD) + 0x200,
            // About the ends of what there is.
            27 => DRAM_END - random.below(64) as u64,
            28 => OWN_SCRATCHPAD + SCRATCHPAD_BYTES - random.below(64) as u64,
            _ => {
                random.pick(&[0, 8, OPEN_BASE - 1, OPEN_BASE - 4, OWN_SCRATCHPAD - 1, !0, DATA | 0xFFFF_FF00_0000_0000])
            }
        };
    }
    for register in &mut hart.f {
        register.0 = std::array::from_fn(|_| random.float());
    }
    for i in OFFSETS {
        let step = random.pick(&[1, 2, 4, 4, 34, 60]);
        let start = if random.one_in(4) { random.below(64) as u32 } else { 0 };
        hart.f[i as usize].0 = match random.below(8) {
            0 => std::array::from_fn(|_| random.below(512) as u32),
            1 => std::array::from_fn(|_| (random.below(512) as u32).wrapping_sub(256)),
            2 => std::array::from_fn(|_| random.next() as u32),
            _ => std::array::from_fn(|e| start + step * e as u32),
        };
    }
    hart.x[4] = 2 + random.below(8) as u64;
    hart.m[0] = if random.one_in(16) { random.next() as u8 } else { 0xFF };
    hart.fcsr = if random.one_in(16) { (random.below(8) as u32) << 5 } else { 0 };
    hart.pc = CODE;
    hart
}

/// Everything that there is to see of a hart.
fn differences(a: &Hart, b: &Hart) -> Vec<String> {
    let mut all = Vec::new();
    for i in 0..32 {
        if a.x[i] != b.x[i] {
            all.push(format!("x{i} {:x} {:x}", a.x[i], b.x[i]));
        }
        if a.f[i] != b.f[i] {
            all.push(format!("f{i} {:x?} {:x?}", a.f[i].0, b.f[i].0));
        }
    }
    let rest = |hart: &Hart| {
        let Hart { pc, m, fcsr, retired, clock, gsc_progress, vpu_busy, validation, .. } = hart;
        format!("pc {pc:x} m {m:x?} fcsr {fcsr:x} {retired} {clock} {gsc_progress} {vpu_busy} {validation:x?}")
    };
    if rest(a) != rest(b) {
        all.push(format!("{} / {}", rest(a), rest(b)));
    }
    all
}

fn listing(code: &[u8]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while let Some(bytes) = code.get(at..at + 2) {
        let low = u16::from_le_bytes([bytes[0], bytes[1]]);
        let size = if low & 3 == 3 { 4 } else { 2 };
        let word = code[at..at + size].iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let insn = Insn::decode(word).map_or("?".to_string(), |insn| insn.to_string());
        text += &format!("  {:x} {insn}\n", CODE + at as u64);
        at += size;
    }
    text
}

#[test]
fn random_programs_end_the_same() {
    let programs = if std::env::var_os("GGML_ET_TEST_FULL").is_some() { 100_000 } else { 8000 };
    let mut sides =
        [false, true].map(|translate| (Bare::new(translate), Code::new(false).translate_after(translate.then_some(0))));
    let mut retired = 0;
    for seed in 1..=programs {
        let mut random = Random(seed * 0x9E37_79B9_7F4A_7C15);
        let bytes = program(&mut random);
        let start = hart(&mut random);
        let mut harts = [start.clone(), start];
        for (platform, code) in &mut sides {
            platform.fill(CODE, &bytes, &mut random.clone());
            platform.missing = 0;
            code.invalidate(CODE, 1 << 12);
        }
        let mut faults = 0;
        for _ in 0..400 {
            let budget = random.pick(&[1, 2, 5, 20, 100, 500, 500, 2000, 2000, 2000]);
            let before = harts[0].pc;
            let [one, other] = [0, 1].map(|side| {
                let (platform, code) = &mut sides[side];
                run(&mut harts[side], code, platform, budget)
            });
            let different = differences(&harts[0], &harts[1]);
            assert!(
                one == other && different.is_empty(),
                "program {seed}: {budget} instructions from {before:x}: {one:x?} / {other:x?}\n{}\n{}",
                different.join("\n"),
                listing(&bytes)
            );
            match one {
                Stop::Budget | Stop::Blocked => {}
                Stop::Ecall => break,
                Stop::Trap(_) => {
                    // The next instruction, wherever that is.
                    let at = (harts[0].pc.wrapping_sub(CODE)) as usize;
                    let long = bytes.get(at).is_none_or(|byte| byte & 3 == 3);
                    faults += 1;
                    if faults == 40 || at >= bytes.len() {
                        break;
                    }
                    harts.iter_mut().for_each(|hart| hart.pc += if long { 4 } else { 2 });
                }
            }
        }
        retired += harts[0].retired;
        let [one, other] = [0, 1].map(|side| sides[side].0.contents());
        assert!(one == other, "program {seed} leaves other memory\n{}", listing(&bytes));
    }
    assert!(retired > 100 * programs, "only {retired} instructions");
    // Otherwise nothing was compared.
    let [interpreted, translated] = sides.map(|(platform, _)| platform.accesses);
    assert!(translated < interpreted / 2, "{translated} of {interpreted} accesses are the interpreter's");
}

/// Every branch goes on after the next instruction, so that a trace begins there, and traces overlap: far more code than
/// there is room for.
#[test]
fn code_that_does_not_fit_is_made_again() {
    const BRANCHES: usize = 3000;
    const PLACE: u64 = 0x80_0590_0000;
    let word = |op, operands: Operands| encode(op, &operands).expect("in range");
    let mut words = Vec::new();
    for i in 0..BRANCHES {
        words.push(word(
            Op::FgwPs,
            Operands { rd: (i % 24) as u8, rs1: 24 + (i % 8) as u8, rs2: 8, ..Default::default() },
        ));
        words.push(word(Op::Addi, Operands { rd: 16, rs1: 16, imm: i as i32 % 100, ..Default::default() }));
        words.push(word(Op::Bgeu, Operands { rs1: 16, rs2: 0, imm: 8, ..Default::default() }));
        words.push(word(Op::Addi, Operands { rd: 17, rs1: 17, imm: 1, ..Default::default() }));
    }
    words.push(word(Op::Ecall, Operands::default()));
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let random = Random(1);
    let mut start = hart(&mut random.clone());
    (start.pc, start.m[0], start.fcsr, start.x[8]) = (PLACE, 0xFF, 0, DATA);
    (24..32).for_each(|i| start.f[i].0 = std::array::from_fn(|e| (4 * e + i) as u32));
    let [one, other] = [None, Some(0)].map(|translate_after| {
        let mut platform = Bare::new(translate_after.is_some());
        platform.fill(PLACE, &bytes, &mut random.clone());
        let mut code = Code::new(false).translate_after(translate_after);
        let mut hart = start.clone();
        for _ in 0..2 {
            hart.pc = PLACE;
            assert_eq!(run(&mut hart, &mut code, &mut platform, u64::MAX), Stop::Ecall);
        }
        hart
    });
    assert_eq!(differences(&one, &other), [""; 0]);
    assert_eq!(one.retired, 6 * BRANCHES as u64);
}
