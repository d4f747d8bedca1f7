//! Records of single instructions, and a platform with nothing but flat memory to run them on.

use std::collections::HashMap;
use std::ops::Range;

use et_emulator::code::Code;
use et_emulator::exec::{run_on, Stop};
use et_emulator::fp;
use et_emulator::hart::Hart;
use et_emulator::memory::region::{classify, Region};
use et_emulator::platform::{Atomic, Level, Outcome, Platform};
use et_emulator::simd::Host;
use et_emulator::trap::{Cause, Trap};
use serde_json::Value;

use crate::records::sources;
use crate::records::state::{Raised, Single};

/// Flat memory and a tensor unit that only knows which operations exist.
#[derive(Default)]
pub struct Flat {
    pub memory: HashMap<u64, u8>,
    pub code: HashMap<u64, u8>,
    /// No credit is available, and no tensor operation ends.
    pub stuck: bool,
}

/// The DRAM of the records' environment that is open to kernels: 16 GiB but for the first 8 MiB.
const DRAM: Range<u64> = 0x80_0080_0000..0x84_0000_0000;

/// What lies at a physical address.
fn region(hart: &Hart, addr: u64) -> Region {
    match physical(addr) {
        addr if DRAM.contains(&addr) => Region::Dram(addr - DRAM.start),
        addr => classify(0, 2, u32::from(hart.id >> 6), addr),
    }
}

fn physical(addr: u64) -> u64 {
    addr & 0xFF_FFFF_FFFF
}

impl Flat {
    /// Places instruction words.
    pub fn place(&mut self, addr: u64, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        self.code.extend(bytes.enumerate().map(|(i, byte)| (addr + i as u64, byte)));
    }

    /// Checks an access of `size` bytes, which is split where it crosses lines; gives the address of a fault.
    fn check(&self, hart: &Hart, addr: u64, size: u64, level: Level) -> Result<(), u64> {
        let aligned = addr.is_multiple_of(size);
        if level != Level::L1 && !aligned {
            return Err(addr);
        }
        let rest = addr.wrapping_add(64 - addr % 64);
        let crosses = addr % 64 + size > 64;
        for part in std::iter::once(addr).chain(crosses.then_some(rest)) {
            match region(hart, part) {
                Region::Dram(_) | Region::Scratchpad(_) => {}
                Region::Register(_) if level == Level::L1 && size == 8 && aligned => {}
                _ => return Err(part),
            }
        }
        Ok(())
    }

    fn read(&self, addr: u64, size: usize) -> impl Iterator<Item = u8> + '_ {
        let at = move |i| self.memory.get(&physical(addr.wrapping_add(i))).copied().unwrap_or(0xA5);
        (0..size as u64).map(at)
    }
}

impl Platform for Flat {
    fn load<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64) -> Result<[u8; N], Trap> {
        self.check(hart, addr, N as u64, level).map_err(|tval| Trap { cause: Cause::LoadAccess, tval })?;
        let mut out = [0; N];
        out.iter_mut().zip(self.read(addr, N)).for_each(|(to, from)| *to = from);
        Ok(out)
    }

    fn quick_load(&mut self, hart: &Hart, addr: u64) -> Option<[u8; 32]> {
        let plain = DRAM.contains(&addr) && DRAM.contains(&(addr + 31));
        plain.then(|| self.load::<32>(hart, Level::L1, addr).expect("DRAM is open"))
    }

    fn store<const N: usize>(&mut self, hart: &Hart, level: Level, addr: u64, data: [u8; N]) -> Result<(), Trap> {
        self.check(hart, addr, N as u64, level).map_err(|tval| Trap { cause: Cause::StoreAccess, tval })?;
        self.memory.extend((0..).zip(data).map(|(i, byte)| (physical(addr.wrapping_add(i)), byte)));
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
        let region = region(hart, addr);
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
        if !DRAM.contains(&physical(addr)) {
            return Err(Trap { cause: Cause::FetchAccess, tval: addr });
        }
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
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// Compute and compare floating-point flags.
    pub flags: bool,
    pub host: Host,
}

/// Runs every record of `file` in all ways that the executor has; panics with the first differences.
pub fn run_file(file: &str) {
    for source in sources(file) {
        for (flags, host) in [(true, Host::Portable), (false, Host::Portable), (false, Host::detect())] {
            let mode = Mode { flags, host };
            source.check(&format!("{mode:?}"), |record| check(record, mode));
        }
    }
}

/// Runs one record.
fn check(record: &Value, mode: Mode) -> Result<(), String> {
    let single = Single::new(record, 0x80_0700_0000);
    let mut hart = single.before.clone();
    let code = (single.pc..).zip(single.code.iter().copied()).collect();
    let memory = single.memory.iter().map(|(addr, byte)| (*addr, *byte)).collect();
    let mut platform = Flat { memory, code, stuck: false };
    // A jump to a place that cannot be fetched from completes, and the fault is the next instruction's.
    let budget = if single.trap.is_some_and(|trap| trap.pc.is_some()) { 2 } else { 1 };
    let stop = run_on(mode.host, &mut hart, &mut Code::new(mode.flags), &mut platform, budget);
    match (stop, single.trap) {
        (Stop::Budget, None) => {}
        (Stop::Ecall, Some(Raised { cause: 8, tval: 0, .. })) => {}
        (Stop::Trap(got), Some(want)) if (got.cause as u64, got.tval) == (want.cause, want.tval) => {}
        (stop, want) => return Err(format!("stopped with {stop:x?}, expected {want:x?}")),
    }
    single.compare(&hart, mode.flags)?;
    single.compare_memory(platform.memory.into_iter())
}
