//! Every record of tensor.jsonl.xz, bit for bit: as programs that load a minion's state, write the CSRs, and store the
//! state, on a whole machine.

mod machine;
mod random;
mod records;

use et_emulator::{Launch, Machine};
use machine::{compare_memory, launch, machine, read_memory, write_memory, Program, CODE};
use records::{bytes, entries, index, number, sources, text, words};
use serde_json::Value;
use std::collections::BTreeMap;

/// A hart's code is at `CODE + hart * STRIDE`, its data at the same offset from DATA. There is room for 32 shires.
const STRIDE: u64 = 0x1_0000;
const DATA: u64 = 0x80_1000_0000;
/// Code that all harts enter.
const ENTRY: u64 = CODE + 2048 * STRIDE;
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
        State { f: fill(1024), scratchpad: fill(48 * 64), csrs: [0, 0xC35A ^ u64::from(seed), 0] }
    }

    fn set(&mut self, state: &Value) {
        for (register, lanes) in entries(state, "f") {
            let at = 32 * index(register, 32);
            for (lane, word) in self.f[at..at + 32].chunks_exact_mut(4).zip(words(lanes)) {
                lane.copy_from_slice(&word.to_le_bytes());
            }
        }
        for (line, data) in entries(state, "scp") {
            let at = 64 * index(line, 48);
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
    let coop = entries(&minion["in"], "csr").find(|(csr, _)| *csr == "804").map_or(0, |(_, value)| number(value));
    let csrs = CSRS.iter().zip(state.csrs).map(|(&(_, csr), value)| (csr, value));
    for (csr, value) in csrs.chain([(0x804, coop)]) {
        take(&mut program, 7, value);
        program.csrrw(0, csr, 7);
    }
    for step in minion["prog"].as_array().expect("steps") {
        let part = |i: usize| number(text(&step[i]));
        take(&mut program, 31, step.get(2).map_or(0xA5A5_A5A5_A5A5_A5A5, |_| part(2)));
        take(&mut program, 7, part(1));
        program.csrrw(0, part(0) as u32, 7);
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

/// The shires of a record's minions.
fn shire_mask(record: &Value) -> u64 {
    let minions = record["harts"].as_array().expect("minions");
    minions.iter().map(|minion| minion["hart"].as_u64().expect("a hart") >> 6).fold(0, |all, shire| all | 1 << shire)
}

/// Runs a record; gives the expected DRAM and other memory.
fn run(machine: &Machine, record: &Value, exact_flags: bool) -> Result<(Vec<u8>, BTreeMap<u64, u8>), String> {
    let mut dram: Vec<u8> = (0..MEMORY_SIZE).map(|i| ((i * 7) >> 3) as u8 ^ 0x5A).collect();
    machine.write(MEMORY, &dram).unwrap();
    let mut elsewhere = BTreeMap::new();
    let pieces = record.get("mem").unwrap_or(&Value::Null);
    for group in ["in", "out"] {
        for (addr, data) in entries(pieces, group) {
            let (addr, data) = (number(addr), bytes(data));
            if group == "in" {
                write_memory(machine, addr, &data);
            }
            for (addr, byte) in (addr..).zip(data) {
                match addr.checked_sub(MEMORY).and_then(|at| dram.get_mut(at as usize)) {
                    Some(place) => *place = byte,
                    None => drop(elsewhere.insert(addr, byte)),
                }
            }
        }
    }
    let minions = record["harts"].as_array().expect("minions");
    let shires = shire_mask(record);
    let mut entry = Program::default();
    entry.csrr(5, 0xCD0).slli(5, 5, STRIDE.trailing_zeros()).li(6, CODE).add(5, 5, 6).jr(5);
    machine.write(ENTRY, &entry.bytes()).unwrap();
    // Harts without a part leave at once.
    let mut quit = Program::default();
    quit.exit(0);
    for hart in (0..2048).filter(|h| shires >> (h >> 6) & 1 == 1) {
        machine.write(CODE + hart * STRIDE, &quit.bytes()).unwrap();
    }
    for (minion, state) in minions.iter().zip(states(record, &["in"])) {
        prepare(machine, minion, &state);
    }
    let launch = Launch { exact_flags, ..launch(ENTRY, shires) };
    machine.launch(&launch).map_err(|error| error.to_string())?;
    Ok((dram, elsewhere))
}

/// The states of a record's minions, with what `groups` list.
fn states(record: &Value, groups: &[&str]) -> Vec<State> {
    let minions = record["harts"].as_array().expect("minions");
    let state = |(n, minion): (usize, &Value)| {
        let mut state = State::junk(n as u8 * 16 + 1);
        groups.iter().for_each(|&group| state.set(&minion[group]));
        state
    };
    minions.iter().enumerate().map(state).collect()
}

fn check(machine: &Machine, record: &Value, exact_flags: bool) -> Result<(), String> {
    let (dram, elsewhere) = run(machine, record, exact_flags)?;
    let minions = record["harts"].as_array().expect("minions");
    for (minion, mut expected) in minions.iter().zip(states(record, &["in", "out"])) {
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
    compare_memory(MEMORY, &read_memory(machine, MEMORY, dram.len()), &dram)?;
    // What is listed in one piece may have changed in another.
    let mut elsewhere = elsewhere.into_iter().peekable();
    while let Some((start, byte)) = elsewhere.next() {
        let mut want = vec![byte];
        while let Some((_, byte)) = elsewhere.next_if(|&(addr, _)| addr == start + want.len() as u64) {
            want.push(byte);
        }
        compare_memory(start, &read_memory(machine, start, want.len()), &want)?;
    }
    Ok(())
}

fn all_records(threads: usize, exact_flags: bool) {
    let mut machine = machine(2, threads);
    for source in sources("tensor.jsonl.xz") {
        source.check(&format!("{threads} threads, flags {exact_flags}"), |record| {
            let shires = shire_mask(record).ilog2() + 1;
            if shires > machine.config().shires {
                machine = machine::machine(shires, threads);
            }
            check(&machine, record, exact_flags)
        });
    }
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

mod agreement {
    //! Random programs give the same with exact flags, which the portable arithmetic computes, and without, where the
    //! host's vector instructions do what they can.

    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn hex(words: &[u32]) -> String {
        words.iter().map(|word| format!("{word:08x}")).collect()
    }

    /// A word that may be a float, a pair of halves, or four bytes; `kind` is what most are.
    fn word(kind: u32) -> impl Strategy<Value = u32> {
        let special = prop::sample::select(vec![
            0,
            0x8000_0000,
            1,
            0x007F_FFFF,
            0x0080_0000,
            0x7F7F_FFFF,
            0x7F80_0000,
            0xFF80_0000,
            0x7F80_0001,
            0x7FC0_0000,
            0x3F80_0000,
            0xBF80_0000,
            0x3F7F_FFFF,
            0x7C00_3C00,
            0x3C00_FC00,
            0x7E00_0001,
            0x0001_8001,
            0x0400_7BFF,
        ]);
        let usual = any::<u32>().prop_map(move |bits| match kind {
            0 => bits & 0x807F_FFFF | (112 + (bits >> 8 & 15)) << 23,
            1 => bits & 0x8FFF_8FFF | 0x3000_3000,
            _ => bits,
        });
        prop_oneof![1 => special, 12 => usual]
    }

    /// One operation and its wait; a product has the type of the words.
    fn step(kind: u32) -> impl Strategy<Value = Vec<(u64, u64)>> {
        (0..8u32, any::<u64>()).prop_map(move |(choice, bits)| {
            let shape = bits & 0x81FF_F800_00F3_F3F1;
            let product = shape | [0, 1, 3][kind as usize] << 1;
            match choice {
                0 => {
                    let codes =
                        (0..1 + bits % 5).fold(0, |codes, t| codes | (1 + (bits >> (7 * t + 8)) % 10) << (4 * t));
                    vec![(0x806, bits & 0x3FFF_E000_0000_0000 | codes), (0x830, 10)]
                }
                1 => vec![(0x83F, bits & 0x07E0_0000_0000_003F | 7 << 59 | MEMORY), (0x830, 0)],
                2 => vec![(0x87F, bits & 0x3E78_0000_0000_0000 | 3 << 55 | (MEMORY + 0x8000)), (0x830, 8)],
                3 => vec![(0x002, bits % 5), (0x805, bits >> 16 & 0xFFFF)],
                // Flags that are set already would let the exact way use native arithmetic.
                _ => vec![(0x001, 0), (0x801, product), (0x830, 7)],
            }
        })
    }

    fn record() -> impl Strategy<Value = Value> {
        (0..3u32)
            .prop_flat_map(|kind| {
                let words = |count| prop::collection::vec(word(kind), count);
                let floats = prop::collection::vec(word(if kind == 2 { 2 } else { 0 }), 256);
                (floats, words(48 * 16), words(64 * 16), prop::collection::vec(step(kind), 1..6), 0..5u32)
            })
            .prop_map(|(f, lines, memory, steps, rounding)| {
                let bytes =
                    |words: &[u32]| words.iter().map(|word| format!("{:08x}", word.swap_bytes())).collect::<String>();
                let f: Value = (0..32).map(|r| (r.to_string(), json!(hex(&f[8 * r..8 * r + 8])))).collect();
                let scp: Value = (0..48).map(|l| (l.to_string(), json!(bytes(&lines[16 * l..16 * l + 16])))).collect();
                let step = |(csr, value): (u64, u64)| json!([format!("{csr:x}"), format!("{value:x}"), "40"]);
                let prog: Vec<Value> = steps.into_iter().flatten().map(step).collect();
                json!({
                    "mem": { "in": { format!("{MEMORY:x}"): bytes(&memory) } },
                    "harts": [{
                        "hart": 0,
                        "in": { "f": f, "scp": scp, "csr": { "003": format!("{:x}", rounding << 5), "805": "ffff" } },
                        "prog": prog,
                    }],
                })
            })
    }

    /// The minion's state and memory after the program.
    fn outcome(machine: &Machine, record: &Value, exact_flags: bool) -> Result<(State, Vec<u8>), TestCaseError> {
        run(machine, record, exact_flags).map_err(TestCaseError::fail)?;
        let mut state = collect(machine, 0);
        state.csrs[0] &= 0xE0;
        Ok((state, read_memory(machine, MEMORY, MEMORY_SIZE as usize)))
    }

    #[test]
    fn both_ways_agree() {
        let machine = machine::machine(1, 1);
        let mut runner = proptest::test_runner::TestRunner::new(crate::random::config(300, 20_000));
        let result = runner.run(&record(), |record| {
            let (want, want_memory) = outcome(&machine, &record, true)?;
            let (got, got_memory) = outcome(&machine, &record, false)?;
            prop_assert_eq!(got.difference(&want), None);
            prop_assert!(compare_memory(MEMORY, &got_memory, &want_memory).is_ok());
            Ok(())
        });
        result.unwrap_or_else(|error| panic!("{error}"));
    }
}
