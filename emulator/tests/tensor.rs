//! Every record of tensor.jsonl.xz, bit for bit: as programs that load a minion's state, write the CSRs, and store the
//! state, on a whole machine.

#[allow(dead_code)] // for its `records`
mod common;
mod machine;

use et_emulator::{Launch, Machine};
use machine::{bytes, entries, launch, number, Program, CODE};
use serde_json::Value;
use std::collections::BTreeMap;

/// A hart's code is at `CODE + hart * STRIDE`, its data at the same offset from DATA.
const STRIDE: u64 = 0x1_0000;
const DATA: u64 = 0x80_0800_0000;
/// Code that all harts enter.
const ENTRY: u64 = CODE + 128 * STRIDE;
/// Offsets in a hart's data: f registers, scratchpad lines, then the words that its code takes in order.
const SCRATCHPAD: u64 = 0x400;
const WORDS: u64 = 0x1000;
/// Offsets of what it leaves.
const OUT: u64 = 0x8000;
const OUT_SCRATCHPAD: u64 = 0x8400;
const OUT_CSRS: u64 = 0x9000;
/// Where records have their DRAM.
const MEMORY: u64 = 0x81_0000_0000;
const MEMORY_SIZE: u64 = 0x4_0000;
/// L2 scratchpad contents on their way to or from the host.
const STAGE: u64 = 0x80_0700_0000;

const CSRS: [(&str, u32); 3] = [("003", 0x003), ("805", 0x805), ("808", 0x808)];

/// A minion's state: 32 registers and 48 lines, as bytes, and the CSRs of [`CSRS`].
#[derive(Clone, PartialEq, Eq)]
struct State {
    f: Vec<u8>,
    scratchpad: Vec<u8>,
    csrs: [u64; 3],
}

impl State {
    /// Distinct junk, which must not matter and must stay.
    fn junk(seed: u8) -> State {
        let fill = |len: usize| (0..len).map(|i| (i as u8).wrapping_mul(37) ^ (i >> 8) as u8 ^ seed).collect();
        State { f: fill(1024), scratchpad: fill(48 * 64), csrs: [0; 3] }
    }

    fn set(&mut self, state: &Value) {
        for (register, lanes) in entries(state, "f") {
            let at = 32 * register.parse::<usize>().expect("a register");
            for (e, lane) in bytes(lanes).chunks(4).enumerate() {
                let lane = [lane[3], lane[2], lane[1], lane[0]];
                self.f[at + 4 * e..at + 4 * e + 4].copy_from_slice(&lane);
            }
        }
        for (line, data) in entries(state, "scp") {
            let at = 64 * line.parse::<usize>().expect("a line");
            self.scratchpad[at..at + 64].copy_from_slice(&bytes(data));
        }
        for (csr, value) in entries(state, "csr") {
            match CSRS.iter().position(|(name, _)| *name == csr) {
                Some(place) => self.csrs[place] = number(value),
                None => assert_eq!(csr, "804", "unexpected CSR"),
            }
        }
    }

    fn difference(&self, other: &State) -> Option<String> {
        for (name, own, other, size) in
            [("f", &self.f, &other.f, 32), ("line ", &self.scratchpad, &other.scratchpad, 64)]
        {
            for (n, (own, other)) in own.chunks(size).zip(other.chunks(size)).enumerate() {
                if let Some(at) = (0..size / 4).find(|at| own[4 * at..4 * at + 4] != other[4 * at..4 * at + 4]) {
                    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[4 * at..4 * at + 4].try_into().unwrap());
                    return Some(format!("{name}{n} word {at} is {:08x}, expected {:08x}", word(own), word(other)));
                }
            }
        }
        (self.csrs != other.csrs).then(|| format!("CSRs are {:x?}, expected {:x?}", self.csrs, other.csrs))
    }
}

/// Code and data of one minion.
fn prepare(machine: &Machine, minion: &Value, state: &State) {
    const BASE: u32 = 5;
    const NEXT: u32 = 6;
    let hart = minion["hart"].as_u64().expect("a hart");
    let data = DATA + hart * STRIDE;
    let mut program = Program::default();
    let mut words: Vec<u64> = Vec::new();
    let mut take = |program: &mut Program, register: u32, word: u64| {
        program.ld(register, NEXT, 0).addi(NEXT, NEXT, 8);
        words.push(word);
    };
    program.li(BASE, data);
    program.li(NEXT, data + WORDS);
    for piece in 0..3 {
        take(&mut program, 31, 64);
        take(&mut program, 7, (16 * piece) << 53 | (data + SCRATCHPAD + piece * 1024) | 15);
        program.csrrw(0, 0x83F, 7).csrwi(0x830, 0);
    }
    for register in 0..32 {
        program.flq2(register, BASE, 32 * register as i32);
    }
    let coop = minion["in"]["csr"].get("804").and_then(Value::as_str).map_or(0, number);
    for (csr, value) in [(0x804, coop), (0x805, state.csrs[1]), (0x003, state.csrs[0])] {
        take(&mut program, 7, value);
        program.csrrw(0, csr, 7);
    }
    for step in minion["prog"].as_array().expect("steps") {
        let part = |i: usize| step.get(i).and_then(Value::as_str).map(number);
        take(&mut program, 31, part(2).unwrap_or(0xA5A5_A5A5_A5A5_A5A5));
        take(&mut program, 7, part(1).expect("a value"));
        program.csrrw(0, part(0).expect("a CSR") as u32, 7);
    }
    for (i, (_, csr)) in CSRS.iter().enumerate() {
        program.csrr(8 + i as u32, *csr);
    }
    take(&mut program, BASE, data + OUT);
    for register in 0..32 {
        program.fsq2(register, BASE, 32 * register as i32);
    }
    take(&mut program, BASE, data + OUT_CSRS);
    for i in 0..3 {
        program.sd(8 + i, BASE, 8 * i as i32);
    }
    for piece in 0..3 {
        take(&mut program, 31, 64);
        take(&mut program, 7, (16 * piece) << 56 | 15 << 51 | 1 << 48 | (data + OUT_SCRATCHPAD + piece * 1024));
        program.csrrw(0, 0x87F, 7).csrwi(0x830, 8);
    }
    program.exit(0);

    machine.write(CODE + hart * STRIDE, &program.bytes()).unwrap();
    machine.write(data, &state.f).unwrap();
    machine.write(data + SCRATCHPAD, &state.scratchpad).unwrap();
    let words: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    machine.write(data + WORDS, &words).unwrap();
}

fn collect(machine: &Machine, hart: u64) -> State {
    let data = DATA + hart * STRIDE;
    let mut state = State::junk(0);
    machine.read(data + OUT, &mut state.f).unwrap();
    machine.read(data + OUT_SCRATCHPAD, &mut state.scratchpad).unwrap();
    let mut csrs = [0; 24];
    machine.read(data + OUT_CSRS, &mut csrs).unwrap();
    state.csrs = std::array::from_fn(|i| u64::from_le_bytes(csrs[8 * i..8 * i + 8].try_into().unwrap()));
    state
}

/// The record's L2 scratchpad pieces are copied by hart 0: the host reaches DRAM only.
fn copy(machine: &Machine, to: u64, from: u64, len: u64) {
    let mut work = Program::default();
    work.li(6, from).li(7, to).li(8, from + len);
    work.lw(9, 6, 0).sw(9, 7, 0).addi(6, 6, 4).addi(7, 7, 4).branch(1, 6, 8, -4);
    let mut program = Program::default();
    program.csrr(5, 0xCD0).branch(1, 5, 0, work.0.len() as i32 + 1);
    program.0.append(&mut work.0);
    program.exit(0);
    program.run(machine, 1).unwrap();
}

fn write_memory(machine: &Machine, addr: u64, data: &[u8]) {
    if addr >= MEMORY {
        return machine.write(addr, data).unwrap();
    }
    machine.write(STAGE, data).unwrap();
    copy(machine, addr, STAGE, data.len() as u64);
}

fn read_memory(machine: &Machine, addr: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    if addr >= MEMORY {
        machine.read(addr, &mut out).unwrap();
    } else {
        copy(machine, STAGE, addr, len as u64);
        machine.read(STAGE, &mut out).unwrap();
    }
    out
}

fn check(machine: &Machine, record: &Value, exact_flags: bool) -> Result<(), String> {
    let mut memory: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let junk: Vec<u8> = (0..MEMORY_SIZE).map(|i| ((i * 7) >> 3) as u8 ^ 0x5A).collect();
    machine.write(MEMORY, &junk).unwrap();
    memory.insert(MEMORY, junk);
    let pieces = record.get("mem").unwrap_or(&Value::Null);
    for group in ["in", "out"] {
        for (addr, data) in entries(pieces, group) {
            let (addr, data) = (number(addr), bytes(data));
            if group == "in" {
                write_memory(machine, addr, &data);
            }
            match memory.get_mut(&MEMORY) {
                Some(all) if addr >= MEMORY => {
                    let at = (addr - MEMORY) as usize;
                    all[at..at + data.len()].copy_from_slice(&data);
                }
                _ => {
                    memory.insert(addr, data);
                }
            }
        }
    }
    let minions = record["harts"].as_array().expect("minions");
    let shires = minions.iter().map(|m| m["hart"].as_u64().unwrap() >> 6).fold(0u64, |all, s| all | 1 << s);
    let mut entry = Program::default();
    entry.csrr(5, 0xCD0).slli(5, 5, STRIDE.trailing_zeros()).li(6, CODE).add(5, 5, 6).jr(5);
    machine.write(ENTRY, &entry.bytes()).unwrap();
    // Harts without a part leave at once.
    let mut quit = Program::default();
    quit.exit(0);
    for hart in (0..128).filter(|h| shires >> (h >> 6) & 1 == 1) {
        machine.write(CODE + hart * STRIDE, &quit.bytes()).unwrap();
    }
    let mut expected = Vec::new();
    for (n, minion) in minions.iter().enumerate() {
        let mut state = State::junk(n as u8 * 16 + 1);
        state.set(&minion["in"]);
        prepare(machine, minion, &state);
        state.set(&minion["out"]);
        expected.push(state);
    }
    let launch = Launch { exact_flags, ..launch(ENTRY, shires) };
    machine.launch(&launch).map_err(|error| error.to_string())?;
    for (minion, mut expected) in minions.iter().zip(expected) {
        let hart = minion["hart"].as_u64().unwrap();
        let mut got = collect(machine, hart);
        if !exact_flags {
            got.csrs[0] &= 0xE0;
            expected.csrs[0] &= 0xE0;
        }
        if let Some(difference) = got.difference(&expected) {
            return Err(format!("hart {hart}: {difference}"));
        }
    }
    for (addr, data) in memory {
        let got = read_memory(machine, addr, data.len());
        if let Some(at) = (0..data.len()).find(|&i| got[i] != data[i]) {
            let at_addr = addr + at as u64;
            return Err(format!("memory {at_addr:x} is {:02x}, expected {:02x}", got[at], data[at]));
        }
    }
    Ok(())
}

fn all_records(threads: usize, exact_flags: bool) {
    let machine = machine::machine(2, threads);
    let records = common::records("tensor.jsonl.xz");
    let wrong: Vec<String> = records
        .iter()
        .filter_map(|record| {
            let difference = check(&machine, record, exact_flags).err()?;
            Some(format!("{} ({}): {difference}", record["id"], record["note"]))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), records.len(), wrong.join("\n"));
}

#[test]
fn on_one_thread() {
    all_records(1, true);
}

#[test]
fn on_two_threads() {
    all_records(2, true);
}

#[test]
fn without_flags() {
    all_records(2, false);
}
