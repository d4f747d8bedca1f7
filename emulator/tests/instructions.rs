//! Every record of single instructions on a whole machine: between programs that load a hart's state and store it.

mod machine;
mod records;

use et_emulator::hart::Hart;
use et_emulator::{Config, Launch, LaunchError, Machine};
use machine::{launch, machine_with, Program, CODE};
use records::sources;
use records::state::Single;
use serde_json::Value;

/// Where the state before and after the instruction is.
const BEFORE: u64 = 0x80_1000_0000;
const AFTER: u64 = BEFORE + 0x1000;
/// Offsets in it: integer registers, vector registers, masks, CSRs.
const X: i32 = 0;
const F: i32 = 0x100;
const MASKS: i32 = 0x500;
const CSRS: i32 = 0x508;
/// Where records have their data.
const MEMORY: u64 = 0x81_0000_0000;
const MEMORY_SIZE: usize = 0x1000;
/// Where an instruction is that may be anywhere.
const PLACE: u64 = 0x80_0700_0000;

/// A CSR that keeps what is written to it and serves as a scratch register.
const SCRATCH: u32 = 0x8D2;
/// tensor_mask comes after what it is recomputed from.
const STATE_CSRS: [u32; 6] = [0x802, 0x803, 0x805, 0x808, 0x840, 0x003];

fn csrs(hart: &Hart) -> [u64; 6] {
    [
        hart.conv_size,
        hart.conv_ctrl,
        hart.tensor_mask.into(),
        hart.tensor_error.into(),
        hart.gsc_progress.into(),
        hart.fcsr.into(),
    ]
}

fn write_state(machine: &Machine, hart: &Hart) {
    let mut words: Vec<u64> = hart.x.to_vec();
    for register in &hart.f {
        words.extend(register.0.chunks(2).map(|pair| u64::from(pair[1]) << 32 | u64::from(pair[0])));
    }
    words.push(u64::from_le_bytes(hart.m));
    words.extend(csrs(hart));
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    machine.write(BEFORE, &bytes).expect("room in DRAM");
}

/// The state that [`store_state`] left; what it does not store is as in `hart`.
fn read_state(machine: &Machine, mut hart: Hart) -> Hart {
    let read = |offset: i32| {
        let mut bytes = [0; 8];
        machine.read(AFTER + offset as u64, &mut bytes).expect("in DRAM");
        u64::from_le_bytes(bytes)
    };
    for i in 1..32 {
        hart.x[i] = read(X + 8 * i as i32);
        for pair in 0..4 {
            let lanes = read(F + 32 * i as i32 + 8 * pair as i32);
            (hart.f[i].0[2 * pair], hart.f[i].0[2 * pair + 1]) = (lanes as u32, (lanes >> 32) as u32);
        }
    }
    for pair in 0..4 {
        let lanes = read(F + 8 * pair as i32);
        (hart.f[0].0[2 * pair], hart.f[0].0[2 * pair + 1]) = (lanes as u32, (lanes >> 32) as u32);
    }
    hart.m = read(MASKS).to_le_bytes();
    let [_, _, mask, error, progress, fcsr] = std::array::from_fn(|i| read(CSRS + 8 * i as i32));
    (hart.tensor_mask, hart.tensor_error) = (mask as u16, error as u16);
    (hart.gsc_progress, hart.fcsr) = (progress as u8, fcsr as u32);
    hart
}

/// `mova.m.x rs1` and `mova.x.m rd`.
const MOVA_M_X: u32 = 0xD600_107B;
const MOVA_X_M: u32 = 0xD600_007B;

fn load_state() -> Program {
    const BASE: u32 = 1;
    let mut program = Program::default();
    program.li(5, AFTER).csrrw(0, SCRATCH, 5).li(BASE, BEFORE);
    for register in 0..32 {
        program.flq2(register, BASE, F + 32 * register as i32);
    }
    program.ld(5, BASE, MASKS).word(MOVA_M_X | 5 << 15);
    for (i, csr) in STATE_CSRS.into_iter().enumerate() {
        program.ld(5, BASE, CSRS + 8 * i as i32).csrrw(0, csr, 5);
    }
    for register in (2..32).chain([BASE]) {
        program.ld(register, BASE, X + 8 * register as i32);
    }
    program
}

fn store_state() -> Program {
    const BASE: u32 = 1;
    let mut program = Program::default();
    program.csrrw(BASE, SCRATCH, BASE);
    for register in 2..32 {
        program.sd(register, BASE, X + 8 * register as i32);
    }
    program.csrr(5, SCRATCH).sd(5, BASE, X + 8 * BASE as i32).word(MOVA_X_M | 5 << 7).sd(5, BASE, MASKS);
    for (i, csr) in STATE_CSRS.into_iter().enumerate() {
        program.csrr(5, csr).sd(5, BASE, CSRS + 8 * i as i32);
    }
    for register in 0..32 {
        program.fsq2(register, BASE, F + 32 * register as i32);
    }
    program.exit(0);
    program
}

/// Whether ranges of `a_len` and `b_len` bytes overlap.
fn overlap(a: u64, a_len: u64, b: u64, b_len: u64) -> bool {
    a < b + b_len && b < a + a_len
}

/// Runs a record. Some cannot be run this way, which is no difference: a call of the firmware, code where the host may
/// not write, a jump into the instruction itself or to data.
fn check(machine: &Machine, record: &Value, exact_flags: bool, skipped: &mut usize) -> Result<(), String> {
    const JUMP: u64 = 4;
    const REACH: u64 = 0xF_0000;
    let single = Single::new(record, PLACE);
    let (load, store) = (load_state(), store_state());
    let next = single.after.pc;
    // A stub at the next instruction jumps to where the state is stored; so does the end of the program that loads it to
    // the instruction.
    let (loader, storer) = (single.pc.wrapping_sub(0x8_0000), next.wrapping_sub(0x4_0000));
    let pieces = [
        (MEMORY, MEMORY_SIZE as u64),
        (single.pc, single.code.len() as u64),
        (loader, load.bytes().len() as u64 + JUMP),
        (storer, store.bytes().len() as u64),
        (next, JUMP),
    ];
    let pieces = if single.trap.is_some() { &pieces[..3] } else { &pieces[..] };
    let firmware = single.trap.is_some_and(|trap| trap.cause == 8);
    let outside =
        |&(addr, len): &(u64, u64)| !machine.dram().contains(&addr) || !machine.dram().contains(&(addr + len));
    let clash = pieces.iter().enumerate().any(|(i, a)| pieces[..i].iter().any(|b| overlap(a.0, a.1, b.0, b.1)));
    if firmware || clash || pieces.iter().any(outside) {
        *skipped += 1;
        return Ok(());
    }
    let write = |addr: u64, program: &Program| machine.write(addr, &program.bytes()).expect("room in DRAM");
    let jump = |from: u64, to: u64| {
        assert!(from.abs_diff(to) < REACH);
        let imm = to.wrapping_sub(from) as u32;
        let word =
            (imm >> 20 & 1) << 31 | (imm >> 1 & 0x3FF) << 21 | (imm >> 11 & 1) << 20 | (imm >> 12 & 0xFF) << 12 | 0x6F;
        Program(vec![word])
    };
    let end_of_load = loader + load.bytes().len() as u64;
    write(loader, &load);
    write(end_of_load, &jump(end_of_load, single.pc));
    if single.trap.is_none() {
        write(storer, &store);
        write(next, &jump(next, storer));
    }
    machine.write(single.pc, &single.code).expect("room in DRAM");
    // The other harts leave at once.
    let mut entry = Program::default();
    entry.csrr(5, 0xCD0).li(6, single.before.id.into()).branch(0, 5, 6, 5).exit(0).li(5, loader).jr(5);
    write(CODE, &entry);
    write_state(machine, &single.before);
    let mut memory = vec![0xA5; MEMORY_SIZE];
    machine.write(MEMORY, &memory).expect("room in DRAM");
    for (&addr, &byte) in &single.memory {
        machine.write(addr, &[byte]).expect("room in DRAM");
    }

    let shire = u32::from(single.before.id >> 6);
    let result = machine.launch(&Launch { exact_flags, ..launch(CODE, 1 << shire) });
    match (result, single.trap) {
        (Ok(_), None) => single.compare(&read_state(machine, single.after.clone()), exact_flags)?,
        (Err(LaunchError::Faults(faults)), Some(want)) if faults.len() == 1 => {
            let (got, pc) = (faults[0].trap, want.pc.unwrap_or(single.pc));
            if (got.cause as u64, got.tval, faults[0].pc) != (want.cause, want.tval, pc) {
                return Err(format!("{got:x?} at {:x}, expected {want:x?}", faults[0].pc));
            }
        }
        (Ok(_), Some(want)) => return Err(format!("no exception, expected {want:x?}")),
        (Err(error), _) => return Err(error.to_string()),
    }
    machine.read(MEMORY, &mut memory).expect("in DRAM");
    let touched = |addr: &u64| single.memory_after.contains_key(addr);
    single.compare_memory((MEMORY..).zip(memory).filter(|(addr, byte)| *byte != 0xA5 || touched(addr)))
}

fn run_file(file: &str) {
    for source in sources(file) {
        let shires = |record: &Value| 1 + (record.get("hart").and_then(Value::as_u64).unwrap_or(0) >> 6) as u32;
        let shires = source.records.iter().map(shires).max().unwrap_or(1);
        for (exact_flags, translate_after) in [(true, None), (false, None), (false, Some(0))] {
            let machine = machine_with(Config { shires, threads: 1, translate_after, ..Config::default() });
            let mut skipped = 0;
            source.check(&format!("on a machine, flags {exact_flags}, translated {translate_after:?}"), |record| {
                check(&machine, record, exact_flags, &mut skipped)
            });
            assert!(skipped <= 3 + source.records.len() / 50, "{skipped} of {} cannot be run", source.records.len());
        }
    }
}

#[test]
fn scalar() {
    run_file("scalar.jsonl.xz");
}

#[test]
fn vector() {
    run_file("vector.jsonl.xz");
}

#[test]
fn transcendental() {
    run_file("trans.jsonl.xz");
}

#[test]
fn traps() {
    run_file("trap.jsonl.xz");
}
