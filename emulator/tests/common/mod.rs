//! Records of single instructions, and a platform with nothing but flat memory to run them on.

use std::collections::HashMap;
use std::path::PathBuf;

use et_emulator::code::Code;
use et_emulator::exec::{run_on, Stop};
use et_emulator::fp;
use et_emulator::hart::Hart;
use et_emulator::memory::region::{classify, Region};
use et_emulator::platform::{Atomic, Level, Outcome, Platform};
use et_emulator::simd::Host;
use et_emulator::trap::{Cause, Trap};
use serde_json::Value;

/// All records of a file, whose directory the environment variable ET_VECTORS may replace.
pub fn records(file: &str) -> Vec<Value> {
    let own = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let path = std::env::var_os("ET_VECTORS").map_or_else(own, PathBuf::from).join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
    let mut text = Vec::new();
    lzma_rs::xz_decompress(&mut packed.as_slice(), &mut text).expect("an xz file");
    let lines = String::from_utf8(text).expect("UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_else(|_| panic!("not a hexadecimal number: {text}"))
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| number(&text[2 * i..2 * i + 2]) as u8).collect()
}

/// Flat memory and a tensor unit that only knows which operations exist.
#[derive(Default)]
pub struct Flat {
    pub memory: HashMap<u64, u8>,
    pub code: HashMap<u64, u8>,
    /// No credit is available, and no tensor operation ends.
    pub stuck: bool,
}

/// 16 GiB of DRAM, in bytes from where kernels may touch it.
const DRAM: u64 = 16 << 30;

impl Flat {
    /// Places instruction words.
    pub fn place(&mut self, addr: u64, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        self.code.extend(bytes.enumerate().map(|(i, byte)| (addr + i as u64, byte)));
    }

    /// Whether an access of `size` bytes is allowed.
    fn allows(&self, addr: u64, size: u64, level: Level) -> bool {
        let at = |addr| classify(DRAM, 2, 0, addr);
        match (at(addr), at(addr + size - 1)) {
            (Region::Dram(_), Region::Dram(_)) | (Region::Scratchpad(_), Region::Scratchpad(_)) => {
                level == Level::L1 || addr.is_multiple_of(size)
            }
            (Region::Register(_), _) => level == Level::L1 && size == 8 && addr.is_multiple_of(8),
            _ => false,
        }
    }

    fn read(&self, addr: u64, size: usize) -> impl Iterator<Item = u8> + '_ {
        (addr..addr + size as u64).map(|a| self.memory.get(&a).copied().unwrap_or(0xA5))
    }
}

impl Platform for Flat {
    fn load<const N: usize>(&mut self, _: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        if !self.allows(addr, N as u64, level) {
            return Err(Trap { cause: Cause::LoadAccess, tval: addr });
        }
        let mut out = [0; N];
        out.iter_mut().zip(self.read(addr, N)).for_each(|(to, from)| *to = from);
        Ok(out)
    }

    fn quick_load(&mut self, hart: &Hart, addr: u64) -> Option<[u8; 32]> {
        let in_dram = |addr| matches!(classify(DRAM, 2, 0, addr), Region::Dram(_));
        let plain = in_dram(addr) && in_dram(addr + 31);
        plain.then(|| self.load::<32>(hart, Level::L1, addr).expect("DRAM is open"))
    }

    fn store<const N: usize>(&mut self, _: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        if !self.allows(addr, N as u64, level) {
            return Err(Trap { cause: Cause::StoreAccess, tval: addr });
        }
        self.memory.extend(data.into_iter().enumerate().map(|(i, byte)| (addr + i as u64, byte)));
        Ok(())
    }

    fn atomic(
        &mut self,
        hart: &Hart,
        level: Level,
        addr: u64,
        wide: bool,
        op: Atomic,
        operand: u64,
    ) -> Result<u64, Trap> {
        let fault = Err(Trap { cause: Cause::StoreAccess, tval: addr });
        let region = classify(DRAM, 2, 0, addr);
        let scratchpad = matches!(region, Region::Scratchpad(_)) && level == Level::L3;
        if !(matches!(region, Region::Dram(_)) || scratchpad) {
            return fault;
        }
        let result = |old: u64, old_signed: i64, signed: i64, all: u64| match op {
            Atomic::Add => old.wrapping_add(operand) & all,
            Atomic::Swap => operand,
            Atomic::And => old & operand,
            Atomic::Or => old | operand,
            Atomic::Xor => old ^ operand,
            Atomic::Min => old_signed.min(signed) as u64 & all,
            Atomic::Max => old_signed.max(signed) as u64 & all,
            Atomic::MinU => old.min(operand),
            Atomic::MaxU => old.max(operand),
            Atomic::CompareSwap(comparand) => {
                if old == comparand {
                    operand
                } else {
                    old
                }
            }
            Atomic::MinPs => fp::atomic_min(old as u32, operand as u32) as u64,
            Atomic::MaxPs => fp::atomic_max(old as u32, operand as u32) as u64,
        };
        let no_load = |trap: Trap| Trap { cause: Cause::StoreAccess, ..trap };
        if wide {
            let old = u64::from_le_bytes(self.load(hart, Level::L3, addr).map_err(no_load)?);
            let new = result(old, old as i64, operand as i64, u64::MAX);
            self.store(hart, Level::L3, addr, new.to_le_bytes())?;
            Ok(old)
        } else {
            let old = u32::from_le_bytes(self.load(hart, Level::L3, addr).map_err(no_load)?);
            let new = result(old as u64, old as i32 as i64, operand as i32 as i64, u32::MAX as u64);
            self.store(hart, Level::L3, addr, (new as u32).to_le_bytes())?;
            Ok(old as u64)
        }
    }

    fn fetch(&mut self, addr: u64) -> Result<u16, Trap> {
        let Region::Dram(_) = classify(DRAM, 2, 0, addr) else {
            return Err(Trap { cause: Cause::FetchAccess, tval: addr });
        };
        let byte = |a| self.code.get(&a).copied().unwrap_or(0);
        Ok(u16::from_le_bytes([byte(addr), byte(addr + 1)]))
    }

    fn csr_write(&mut self, _: &mut Hart, csr: u16, value: u64) -> Result<Outcome, Trap> {
        // tensor_fma knows the types 0, 1 and 3.
        if csr == 0x801 && !matches!(value >> 1 & 7, 0 | 1 | 3) {
            return Err(Trap { cause: Cause::IllegalInstruction, tval: 0 });
        }
        if csr == 0x821 && self.stuck {
            return Ok(Outcome::Block);
        }
        Ok(Outcome::Done(0))
    }

    fn csr_read(&mut self, hart: &mut Hart, csr: u16) -> Result<Outcome, Trap> {
        Ok(Outcome::Done(if csr == 0xC03 { hart.clock } else { 0 }))
    }

    fn settle(&mut self, hart: &mut Hart) -> bool {
        hart.vpu_busy = self.stuck;
        !self.stuck
    }
}

/// How a record is run and compared.
#[derive(Clone, Copy)]
pub struct Mode {
    /// Compute and compare floating-point flags.
    pub flags: bool,
    pub host: Host,
    /// Allowed distance of float results, in units in the last place.
    pub ulps: u32,
}

/// Runs every record of `file` in all ways that the executor has; panics with the first differences.
pub fn run_file(file: &str, ulps: fn(&str) -> u32) {
    let records = records(file);
    assert!(!records.is_empty());
    for (flags, host) in [(true, Host::Portable), (false, Host::Portable), (false, Host::detect())] {
        let mut wrong = Vec::new();
        for record in &records {
            let mode = Mode { flags, host, ulps: ulps(text(&record["op"])) };
            if let Err(difference) = check(record, mode) {
                wrong.push(format!("{} {}: {difference}", text(&record["id"]), text(&record["asm"])));
            }
        }
        assert!(
            wrong.is_empty(),
            "{file} on {host:?}, flags {flags}: {} of {} differ:\n{}",
            wrong.len(),
            records.len(),
            wrong[..wrong.len().min(20)].join("\n")
        );
    }
}

/// The registers or memory of one kind that `state` lists.
fn group<'a>(state: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    state.get(name).and_then(Value::as_object).into_iter().flatten()
}

/// Sets the registers that `state` lists.
fn set_registers(hart: &mut Hart, state: &Value) {
    for (register, value) in group(state, "x") {
        hart.x[register.parse::<usize>().expect("a register")] = number(text(value));
    }
    for (register, value) in group(state, "f") {
        let lanes = &mut hart.f[register.parse::<usize>().expect("a register")].0;
        for (e, word) in text(value).as_bytes().chunks(8).enumerate() {
            lanes[e] = number(std::str::from_utf8(word).expect("digits")) as u32;
        }
    }
    for (register, value) in group(state, "m") {
        hart.m[register.parse::<usize>().expect("a register")] = number(text(value)) as u8;
    }
    for (csr, value) in group(state, "csr") {
        let value = number(text(value));
        match csr.as_str() {
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

fn memory(state: &Value) -> HashMap<u64, u8> {
    let mut out = HashMap::new();
    for (addr, data) in group(state, "mem") {
        out.extend(bytes(text(data)).into_iter().enumerate().map(|(i, byte)| (number(addr) + i as u64, byte)));
    }
    out
}

/// Runs one record.
pub fn check(record: &Value, mode: Mode) -> Result<(), String> {
    let mut hart = Hart::at_entry(record.get("hart").and_then(Value::as_u64).unwrap_or(0) as u16);
    // What the record does not list may hold anything; distinct junk shows accidental reads and writes.
    for i in 0..32 {
        hart.x[i] = if i == 0 { 0 } else { 0xD1F3_5B79_0246_8ACE_u64.rotate_left(i as u32) };
        hart.f[i].0 = std::array::from_fn(|e| 0x7FA0_1234 ^ (i * 64 + e) as u32);
        hart.m[i & 7] = 0x5A ^ i as u8;
    }
    hart.m[0] = 0xFF;
    let (input, output) = (&record["in"], &record["out"]);
    set_registers(&mut hart, input);
    let pc = record.get("pc").map_or(0x80_0700_0000, |pc| number(text(pc)));
    let word = text(&record["w"]);
    hart.pc = pc;
    let length = word.len() as u64 / 2;
    let code = (0..length).map(|i| (pc + i, (number(word) >> (8 * i)) as u8)).collect();
    let mut platform = Flat { memory: memory(input), code, stuck: false };

    // A word that is placed as data must not be touched, so expectations start from the input.
    let mut expected = hart.clone();
    let mut expected_memory = platform.memory.clone();
    set_registers(&mut expected, output);
    expected_memory.extend(memory(output));
    let trap = output.get("trap");
    expected.pc = match (trap, output.get("pc")) {
        (Some(trap), _) => trap.get("pc").map_or(pc, |pc| number(text(pc))),
        (None, Some(next)) => number(text(next)),
        (None, None) => pc + length,
    };

    // A jump to a place that cannot be fetched from completes, and the fault is the next instruction's.
    let budget = if trap.is_some_and(|t| t.get("pc").is_some()) { 2 } else { 1 };
    let stop = run_on(mode.host, &mut hart, &mut Code::new(mode.flags), &mut platform, budget);
    match (stop, trap) {
        (Stop::Budget, None) => {}
        (Stop::Ecall, Some(trap)) if trap["cause"] == 8 => {}
        (Stop::Trap(got), Some(trap)) => {
            let want = (trap["cause"].as_u64().expect("a cause"), number(text(&trap["tval"])));
            if (got.cause as u64, got.tval) != want {
                return Err(format!("trap {got:x?}, expected cause {} tval {:x}", want.0, want.1));
            }
        }
        (stop, _) => return Err(format!("stopped with {stop:x?}, expected trap {trap:?}")),
    }
    compare(&hart, &expected, mode)?;
    for (addr, byte) in &platform.memory {
        let want = expected_memory.get(addr);
        if want != Some(byte) {
            return Err(format!("memory {addr:x} is {byte:02x}, expected {want:02x?}"));
        }
    }
    Ok(())
}

fn close(got: u32, want: u32, ulps: u32) -> bool {
    let finite = |a: u32| a & 0x7F80_0000 != 0x7F80_0000;
    got == want || finite(got) && finite(want) && (got ^ want) >> 31 == 0 && got.abs_diff(want) <= ulps
}

fn compare(hart: &Hart, expected: &Hart, mode: Mode) -> Result<(), String> {
    for i in 0..32 {
        if hart.x[i] != expected.x[i] {
            return Err(format!("x{i} is {:x}, expected {:x}", hart.x[i], expected.x[i]));
        }
        for e in 0..8 {
            let (got, want) = (hart.f[i].0[e], expected.f[i].0[e]);
            if !close(got, want, mode.ulps) {
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
        let relevant = if name == "fcsr" && !mode.flags { 0xE0 } else { u64::MAX };
        if (got ^ want) & relevant != 0 {
            return Err(format!("{name} is {got:x}, expected {want:x}"));
        }
    }
    Ok(())
}
