//! States of one hart, for records of single instructions.

use std::collections::BTreeMap;

use et_emulator::hart::Hart;
use serde_json::Value;

use super::{bytes, entries, index, number, text, words};

/// Memory, byte by byte.
pub type Memory = BTreeMap<u64, u8>;

/// One instruction before and after.
pub struct Single<'a> {
    /// Address and bits of the instruction.
    pub pc: u64,
    pub code: Vec<u8>,
    pub before: Hart,
    pub memory: Memory,
    pub after: Hart,
    pub memory_after: Memory,
    /// The exception that it raises.
    pub trap: Option<Raised>,
    record: &'a Value,
}

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    pub cause: u64,
    pub tval: u64,
    /// Where, if not at the instruction: a jump completes before its target faults.
    pub pc: Option<u64>,
}

impl<'a> Single<'a> {
    /// Reads a record; an instruction that may be anywhere is put at `place`.
    pub fn new(record: &'a Value, place: u64) -> Self {
        let (input, output) = (&record["in"], &record["out"]);
        let pc = record.get("pc").map_or(place, |pc| number(text(pc)));
        let word = text(&record["w"]);
        assert!(matches!(word.len(), 4 | 8), "not an instruction: {word}");
        let mut code = bytes(word);
        code.reverse();
        let id = record.get("hart").map_or(0, |hart| hart.as_u64().expect("a number"));
        let mut before = junk(id as u16);
        set(&mut before, input);
        before.pc = pc;
        let memory = memory(input);
        let (mut after, mut memory_after) = (before.clone(), memory.clone());
        set(&mut after, output);
        memory_after.extend(self::memory(output));
        let trap = output.get("trap").map(|trap| Raised {
            cause: trap["cause"].as_u64().expect("a cause"),
            tval: number(text(&trap["tval"])),
            pc: trap.get("pc").map(|pc| number(text(pc))),
        });
        after.pc = match (trap, output.get("pc")) {
            (Some(trap), _) => trap.pc.unwrap_or(pc),
            (None, Some(next)) => number(text(next)),
            (None, None) => pc + code.len() as u64,
        };
        Single { pc, code, before, memory, after, memory_after, trap, record }
    }

    /// Compares what came out. `flags` are those of floating point, `ulps` is the allowed distance of float results.
    pub fn compare(&self, hart: &Hart, flags: bool) -> Result<(), String> {
        // The recorded values of these come from interpolated tables; ours are rounded correctly, and may differ by what
        // the tables' error allows. Special values are exact.
        let ulps = match text(&self.record["op"]) {
            "flog.ps" => 3,
            "frcp.ps" | "fexp.ps" => 2,
            _ => 0,
        };
        compare(hart, &self.after, flags, ulps)
    }

    /// Compares memory, which must hold nothing but what is expected.
    pub fn compare_memory(&self, memory: impl Iterator<Item = (u64, u8)>) -> Result<(), String> {
        for (addr, byte) in memory {
            let want = self.memory_after.get(&addr);
            if want != Some(&byte) {
                return Err(format!("memory {addr:x} is {byte:02x}, expected {want:02x?}"));
            }
        }
        Ok(())
    }
}

/// A hart with what a record does not list: distinct junk, which shows accidental reads and writes.
fn junk(id: u16) -> Hart {
    let mut hart = Hart::at_entry(id);
    for i in 0..32 {
        hart.x[i] = if i == 0 { 0 } else { 0xD1F3_5B79_0246_8ACE_u64.rotate_left(i as u32) };
        hart.f[i].0 = std::array::from_fn(|e| 0x7FA0_1234 ^ (i * 64 + e) as u32);
        hart.m[i & 7] = 0x5A ^ i as u8;
    }
    hart.m[0] = 0xFF;
    hart.tensor_mask = 0xC35A;
    hart
}

/// Sets what `state` lists.
fn set(hart: &mut Hart, state: &Value) {
    for (register, value) in entries(state, "x") {
        hart.x[index(register, 32)] = number(value);
    }
    for (register, value) in entries(state, "f") {
        for (lane, word) in hart.f[index(register, 32)].0.iter_mut().zip(words(value)) {
            *lane = word;
        }
    }
    for (register, value) in entries(state, "m") {
        hart.m[index(register, 8)] = number(value) as u8;
    }
    for (csr, value) in entries(state, "csr") {
        let value = number(value);
        match csr {
            "003" => hart.fcsr = value as u32,
            "802" => hart.conv_size = value,
            "803" => hart.conv_ctrl = value,
            "805" => hart.tensor_mask = value as u16,
            "808" => hart.tensor_error = value as u16,
            "840" => hart.gsc_progress = value as u8,
            _ => panic!("unexpected CSR {csr}"),
        }
    }
}

fn memory(state: &Value) -> Memory {
    let mut out = Memory::new();
    for (addr, data) in entries(state, "mem") {
        out.extend(bytes(data).into_iter().enumerate().map(|(i, byte)| (number(addr) + i as u64, byte)));
    }
    out
}

fn close(got: u32, want: u32, ulps: u32) -> bool {
    let normal = |a: u32| !matches!(a >> 23 & 0xFF, 0 | 0xFF);
    got == want || normal(got) && normal(want) && (got ^ want) >> 31 == 0 && got.abs_diff(want) <= ulps
}

fn compare(hart: &Hart, expected: &Hart, flags: bool, ulps: u32) -> Result<(), String> {
    for i in 0..32 {
        if hart.x[i] != expected.x[i] {
            return Err(format!("x{i} is {:x}, expected {:x}", hart.x[i], expected.x[i]));
        }
        for e in 0..8 {
            let (got, want) = (hart.f[i].0[e], expected.f[i].0[e]);
            if !close(got, want, ulps) {
                return Err(format!("f{i} lane {e} is {got:08x}, expected {want:08x}"));
            }
        }
    }
    for i in 0..8 {
        if hart.m[i] != expected.m[i] {
            return Err(format!("m{i} is {:02x}, expected {:02x}", hart.m[i], expected.m[i]));
        }
    }
    let fields = [
        ("pc", hart.pc, expected.pc),
        ("fcsr", hart.fcsr as u64, expected.fcsr as u64),
        ("tensor_mask", hart.tensor_mask as u64, expected.tensor_mask as u64),
        ("tensor_error", hart.tensor_error as u64, expected.tensor_error as u64),
        ("gsc_progress", hart.gsc_progress as u64, expected.gsc_progress as u64),
    ];
    for (name, got, want) in fields {
        let relevant = if name == "fcsr" && !flags { 0xE0 } else { u64::MAX };
        if (got ^ want) & relevant != 0 {
            return Err(format!("{name} is {got:x}, expected {want:x}"));
        }
    }
    Ok(())
}
