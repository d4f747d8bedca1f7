//! Random scalar programs against `qemu-riscv64`, which shares nothing with us, where both have the same instructions.
//!
//! What the chip does in its own way is left out: instructions that it lacks (division and square root of floats,
//! 64-bit conversions), and denormal numbers, which it takes for zeros and does not produce. Operands of float arithmetic
//! therefore come from registers that nothing overwrites, and are so large that no result is denormal. Its flag of denormal
//! operands stays clear.
//!
//! The seed is fixed; PROPTEST_RNG_SEED sets another one, PROPTEST_CASES the number of programs, and scripts/test-full
//! takes many.

mod machine;
mod random;

use std::collections::HashMap;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use et_isa::form::{File, Operand};
use et_isa::{encode, expand, Class, Insn, Op, Operands, Status, TABLE};
use machine::{launch, Program, CODE};
use proptest::prelude::*;

/// Where a program and its areas are, in both.
const BASE: u64 = 0x80_0700_0000;
const AREAS: u64 = BASE + 0x8_0000;
/// Each piece of a program has an area, and a pointer to its data in s0 and sp.
const AREA: usize = 2048;
const X_IN: usize = 0;
const F_IN: usize = 256;
const FCSR_IN: usize = 384;
const DATA: usize = 512;
const DATA_SIZE: i32 = 512;
const X_OUT: usize = 1024;
const F_OUT: usize = 1280;
const FCSR_OUT: usize = 1408;
/// Float registers below this one are operands of arithmetic, the others take results.
const RESULTS: u8 = 16;
const POINTERS: [u8; 2] = [2, 8];

/// A small deterministic generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 20) as usize % limit
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn integer(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[0, 1, u64::MAX, 1 << 63, i64::MAX as u64, 1 << 31, 0x7FFF_FFFF, 0xFFFF_FFFF, !0 << 31]),
            1 => self.next() >> self.below(64),
            2 => (self.next() as i64 >> self.below(64)) as u64,
            _ => self.next(),
        }
    }

    /// Not denormal, and large enough that sums and products are not either.
    fn float(&mut self) -> u32 {
        let bits = self.next() as u32;
        match self.below(8) {
            0 => self.pick(&[0, 1 << 31, 0x3F80_0000, 0xBF80_0000, 0x7F7F_FFFF, 0x4F00_0000, 0xCF00_0000, 0x4F80_0000]),
            1 => self.pick(&[0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0xFFC1_2345, 0x7F80_0001, 0xFFA0_0000]),
            2 | 3 => bits & 0x807F_FFFF | (87 + self.below(168) as u32) << 23,
            // Products and sums that nearly cancel.
            4 => 0x3F80_0000 ^ (bits & 0x8000_0003),
            _ => bits & 0x807F_FFFF | (110 + self.below(40) as u32) << 23,
        }
    }
}

/// The halves that stand for a word.
static COMPRESSED: LazyLock<HashMap<u32, u16>> = LazyLock::new(|| {
    (0..=u16::MAX).filter(|half| half & 3 != 3).filter_map(|half| Some((expand(half)?, half))).collect()
});

/// A piece of code that is jumped over as a whole, and then `skip` such pieces more.
struct Item {
    words: Vec<(u32, bool)>,
    jump: Option<Jump>,
}

struct Jump {
    operands: Operands,
    op: Op,
    skip: usize,
}

impl Item {
    /// Bytes; a word may have a short form.
    fn len(&self) -> usize {
        self.words.iter().map(|&(_, short)| if short { 2 } else { 4 }).sum()
    }

    /// Resolves the jump over `distance` bytes after the item.
    fn finish(&mut self, distance: usize) {
        let Some(Jump { mut operands, op, .. }) = self.jump.take() else { return };
        let last = self.words.len() - 1;
        let short = self.words[last].1;
        if op == Op::Jalr {
            // From the auipc at the item's start: by an addition before a short form, else by the jump's own offset.
            let offset = (self.len() + distance) as i32;
            if short {
                self.words[1].0 =
                    insn(Op::Addi, Operands { rd: operands.rs1, rs1: operands.rs1, imm: offset, ..operands });
            } else {
                operands.imm = offset;
            }
        } else {
            operands.imm = (self.words[last].0 as usize + distance) as i32;
        }
        self.words[last].0 = insn(op, operands);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for &(word, short) in &self.words {
            if short {
                out.extend(COMPRESSED[&word].to_le_bytes());
            } else {
                out.extend(word.to_le_bytes());
            }
        }
        out
    }
}

fn insn(op: Op, operands: Operands) -> u32 {
    encode(op, &operands).unwrap_or_else(|| panic!("{op:?} {operands:?}"))
}

/// Straight-line instructions that both execute alike.
fn plain(op: Op) -> bool {
    let row = op.row();
    let class = matches!(
        row.class,
        Class::Int
            | Class::MulDiv
            | Class::Load
            | Class::Store
            | Class::Fp
            | Class::FpLoad
            | Class::FpStore
            | Class::Csr
    );
    row.status == Status::Works && op != Op::Packb && (class || op == Op::Fence)
}

/// Whether an instruction only moves or looks at the bits of floats.
fn looks_at_bits(op: Op) -> bool {
    matches!(op, Op::FsgnjS | Op::FsgnjnS | Op::FsgnjxS | Op::FmvXW | Op::FclassS | Op::Fsw)
}

/// Brings random operands to what both execute alike; `None` if that cannot be.
fn tame(random: &mut Random, op: Op, mut operands: Operands) -> Option<Operands> {
    let memory = matches!(op.row().class, Class::Load | Class::Store | Class::FpLoad | Class::FpStore);
    for operand in op.row().form.operands() {
        match *operand {
            Operand::Reg(File::X, et_isa::form::Field::Rd) if POINTERS.contains(&operands.rd) => return None,
            Operand::Reg(File::F, et_isa::form::Field::Rd) => operands.rd |= RESULTS,
            Operand::Reg(File::F, field) if !looks_at_bits(op) => {
                let number = operands.register(field) % RESULTS;
                operands.set_register(field, number);
            }
            Operand::Rm if operands.rm > 4 => operands.rm = 7,
            Operand::Memory(_) if memory => {
                operands.rs1 = random.pick(&POINTERS);
                operands.imm = random.below(DATA_SIZE as usize - 8) as i32;
            }
            // fflags by immediates, valid values of frm, and reads of fcsr.
            Operand::Csr => match op {
                Op::Csrrwi if random.below(2) == 0 => (operands.csr, operands.imm) = (2, random.below(5) as i32),
                Op::Csrrwi | Op::Csrrsi | Op::Csrrci => operands.csr = 1,
                Op::Csrrs | Op::Csrrc => (operands.csr, operands.rs1) = (random.pick(&[1, 2, 3]), 0),
                _ => return None,
            },
            _ => {}
        }
    }
    Some(operands)
}

fn straight(random: &mut Random) -> Option<Item> {
    if random.below(3) == 0 {
        // A short form, which keeps the operands that it has.
        let word = expand(random.next() as u16 & !3 | random.pick(&[0, 1, 2]))?;
        let insn = Insn::decode(word)?;
        let operands = insn.operands();
        let memory = matches!(insn.op.row().class, Class::Load | Class::Store);
        let ours = operands == tame(&mut Random(1), insn.op, operands)? || memory && POINTERS.contains(&operands.rs1);
        return (plain(insn.op) && ours).then(|| Item { words: vec![(word, true)], jump: None });
    }
    let row = &TABLE[random.below(TABLE.len())];
    let word = row.matches | random.next() as u32 & !row.mask;
    let operands = tame(random, row.op, Insn::decode(word)?.operands())?;
    plain(row.op).then(|| Item { words: vec![(insn(row.op, operands), false)], jump: None })
}

fn jump(random: &mut Random) -> Option<Item> {
    let skip = 1 + random.below(4);
    let short = random.below(2) == 0;
    let free = |register: u8| register != 0 && !POINTERS.contains(&register);
    let [rd, rs1, rs2] = [(); 3].map(|()| random.below(32) as u8);
    let op = random.pick(&[Op::Beq, Op::Bne, Op::Blt, Op::Bge, Op::Bltu, Op::Bgeu, Op::Jal, Op::Jalr]);
    let length = if short { 2 } else { 4 };
    let (words, operands) = match op {
        Op::Jalr if free(rs1) && (short || !POINTERS.contains(&rd)) => {
            let auipc = insn(Op::Auipc, Operands { rd: rs1, ..Default::default() });
            let link = if short { rd & 1 } else { rd };
            let words =
                if short { vec![(auipc, false), (0, false), (0, true)] } else { vec![(auipc, false), (0, false)] };
            (words, Operands { rd: link, rs1, ..Default::default() })
        }
        Op::Jal if short || !POINTERS.contains(&rd) => {
            (vec![(length, short)], Operands { rd: if short { 0 } else { rd }, ..Default::default() })
        }
        Op::Beq | Op::Bne if short => (vec![(2, true)], Operands { rs1: rs1 & 7 | 8, ..Default::default() }),
        Op::Jal | Op::Jalr => return None,
        _ => (vec![(4, false)], Operands { rs1, rs2, ..Default::default() }),
    };
    Some(Item { words, jump: Some(Jump { operands, op, skip }) })
}

/// Random code.
fn body(random: &mut Random) -> Vec<u8> {
    const LENGTH: usize = 60;
    let mut items = Vec::new();
    while items.len() < LENGTH {
        items.extend(if random.below(8) == 0 { jump(random) } else { straight(random) });
    }
    for i in 0..LENGTH {
        let end = (i + 1 + items[i].jump.as_ref().map_or(0, |jump| jump.skip)).min(LENGTH);
        let distance = items[i + 1..end.max(i + 1)].iter().map(Item::len).sum();
        items[i].finish(distance);
    }
    items.iter().flat_map(Item::bytes).collect()
}

/// `rd = addr`, from code at `pc`.
fn address(pc: u64, rd: u8, addr: u64) -> Vec<u32> {
    let distance = addr.wrapping_sub(pc) as i64;
    let low = (distance << 52 >> 52) as i32;
    let upper = ((distance - i64::from(low)) >> 12) as i32 & 0xF_FFFF;
    let auipc = insn(Op::Auipc, Operands { rd, imm: upper, ..Default::default() });
    vec![auipc, insn(Op::Addi, Operands { rd, rs1: rd, imm: low, ..Default::default() })]
}

/// Code that ends without its last words, which differ, and the areas.
fn program(seeds: &[u64]) -> (Vec<u8>, Vec<u8>) {
    let (mut code, mut areas): (Vec<u8>, Vec<u8>) = Default::default();
    for (n, &seed) in seeds.iter().enumerate() {
        let mut random = Random(seed | 1);
        let mut area: Vec<u8> = (0..AREA).map(|_| random.next() as u8).collect();
        for i in 0..32 {
            area[X_IN + 8 * i..][..8].copy_from_slice(&random.integer().to_le_bytes());
            area[F_IN + 4 * i..][..4].copy_from_slice(&random.float().to_le_bytes());
        }
        let fcsr = random.below(5) << 5 | random.below(32) & random.below(32);
        area[FCSR_IN..][..8].copy_from_slice(&(fcsr as u64).to_le_bytes());
        area[X_OUT..].fill(0);
        areas.extend(area);

        const BASE_REGISTER: u32 = 8;
        let at = |place: usize| place as i32 - DATA as i32;
        let mut load = Program::default();
        let pointer = AREAS + (n * AREA + DATA) as u64;
        load.0.extend(address(BASE + code.len() as u64, BASE_REGISTER as u8, pointer));
        load.addi(2, BASE_REGISTER, 0).ld(5, BASE_REGISTER, at(FCSR_IN)).csrrw(0, 0x003, 5);
        let (mut store, xs) = (Program::default(), (1..32).filter(|x| !POINTERS.map(u32::from).contains(x)));
        for x in xs {
            load.ld(x, BASE_REGISTER, at(X_IN + 8 * x as usize));
            store.sd(x, BASE_REGISTER, at(X_OUT + 8 * x as usize));
        }
        for f in 0..32u8 {
            let (rs1, offset) = (BASE_REGISTER as u8, 4 * f as usize);
            load.word(insn(Op::Flw, Operands { rd: f, rs1, imm: at(F_IN + offset), ..Default::default() }));
            store.word(insn(Op::Fsw, Operands { rs2: f, rs1, imm: at(F_OUT + offset), ..Default::default() }));
        }
        store.csrr(5, 0x003).sd(5, BASE_REGISTER, at(FCSR_OUT));
        code.extend(load.bytes());
        code.extend(body(&mut random));
        code.extend(store.bytes());
    }
    (code, areas)
}

/// The areas after the program has run in qemu.
fn in_qemu(mut code: Vec<u8>, areas: &[u8]) -> Vec<u8> {
    let mut end = Program::default();
    end.0.extend(address(BASE + code.len() as u64, 11, AREAS));
    // write(1, areas, length); exit(0)
    end.addi(10, 0, 1).li(12, areas.len() as u64).addi(17, 0, 64).ecall();
    end.addi(10, 0, 0).addi(17, 0, 93).ecall();
    code.extend(end.bytes());
    code.resize((AREAS - BASE) as usize, 0);
    code.extend(areas);

    // An executable of one segment, which may be written.
    const HEADERS: u64 = 0x1000;
    let mut elf = b"\x7FELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    const EXECUTABLE: u16 = 2;
    const RISC_V: u16 = 243;
    const DOUBLE_COMPRESSED_ABI: u32 = 5;
    elf.extend([EXECUTABLE, RISC_V].iter().flat_map(|half| half.to_le_bytes()));
    elf.extend(1u32.to_le_bytes());
    elf.extend([BASE, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    elf.extend(DOUBLE_COMPRESSED_ABI.to_le_bytes());
    elf.extend([64u16, 56, 1, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let (load, all_rights) = (1u32, 7u32);
    elf.extend([load, all_rights].iter().flat_map(|word| word.to_le_bytes()));
    let size = code.len() as u64;
    elf.extend([HEADERS, BASE, BASE, size, size, HEADERS].iter().flat_map(|word| word.to_le_bytes()));
    elf.resize(HEADERS as usize, 0);
    elf.extend(code);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("qemu-program");
    std::fs::write(&path, elf).expect("write the program");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("make it executable");
    let out = Command::new("qemu-riscv64").arg(&path).output().expect("run qemu-riscv64");
    let messages = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && out.stdout.len() == areas.len(), "qemu-riscv64: {} {messages}", out.status);
    out.stdout
}

/// The areas after the program has run in the emulator.
fn in_emulator(mut code: Vec<u8>, areas: &[u8]) -> Vec<u8> {
    let mut end = Program::default();
    end.exit(0);
    code.extend(end.bytes());
    let mut entry = Program::default();
    entry.csrr(5, 0xCD0).branch(0, 5, 0, 5).exit(0).li(5, BASE).jr(5);
    let machine = machine::machine(1, 1);
    machine.write(CODE, &entry.bytes()).expect("room for code");
    machine.write(BASE, &code).expect("room for code");
    machine.write(AREAS, areas).expect("room for data");
    machine.launch(&launch(CODE, 1)).unwrap_or_else(|error| panic!("{error}"));
    let mut out = vec![0; areas.len()];
    machine.read(AREAS, &mut out).expect("in DRAM");
    out
}

/// What lies at an offset of an area.
fn place(at: usize) -> String {
    match at {
        X_OUT..F_OUT => format!("x{}", (at - X_OUT) / 8),
        F_OUT..FCSR_OUT => format!("f{}", (at - F_OUT) / 4),
        FCSR_OUT.. => "fcsr".to_string(),
        _ => format!("data byte {}", at as i32 - DATA as i32),
    }
}

fn listing(code: &[u8]) -> String {
    let (mut at, mut out) = (0, String::new());
    while let Some(low) = code.get(at..at + 2) {
        let high = code.get(at + 2..at + 4).unwrap_or(&[0, 0]);
        let Some(insn) = Insn::decode(u32::from_le_bytes([low[0], low[1], high[0], high[1]])) else { break };
        out.push_str(&format!("{:x}: {insn}\n", BASE + at as u64));
        at += insn.len as usize;
    }
    out
}

fn agree(seeds: &[u64]) -> Result<(), TestCaseError> {
    let (code, areas) = program(seeds);
    prop_assert!(code.len() + 256 < (AREAS - BASE) as usize, "the program is too long");
    let (want, got) = (in_qemu(code.clone(), &areas), in_emulator(code.clone(), &areas));
    let Some(at) = want.iter().zip(&got).position(|(want, got)| want != got) else { return Ok(()) };
    let (piece, place, from) = (at / AREA, place(at % AREA), at & !7);
    if seeds.len() > 1 {
        // The piece alone tells more.
        agree(&seeds[piece..=piece])?;
    }
    let (want, got, listing) = (&want[from..from + 8], &got[from..from + 8], listing(&code));
    prop_assert!(false, "piece {piece}, {place}: {got:02x?}, qemu has {want:02x?}\n{listing}");
    Ok(())
}

/// Whether there is a qemu.
fn available() -> bool {
    match Command::new("qemu-riscv64").arg("--version").output() {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("skipped: there is no qemu-riscv64 (Debian's package qemu-user has it)");
            false
        }
        Err(error) => panic!("qemu-riscv64: {error}"),
    }
}

proptest! {
    // A difference is traced to its piece, which is short.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..random::config(20, 1000) })]

    #[test]
    fn scalar_programs_agree(seeds in prop::collection::vec(any::<u64>(), 40..=60)) {
        if available() {
            agree(&seeds)?;
        }
    }
}
