//! Kernels under watch: what some harts do, with names for instructions, and whether strict mode finds something wrong.

#![allow(dead_code)]

use crate::machine::{launch, Program, CODE};
use et_emulator::labels::Labels;
use et_emulator::{Config, Launch, LaunchError, LineTable, Machine, Mode, Violation, ViolationKind};
use std::collections::BTreeMap;

/// Seeds under which a repaired kernel must be clean, and a wrong one reported.
pub const CLEAN: u64 = 200;
pub const WRONG: u64 = 25;

/// What the host has written; what lies 1 MiB further on it has not.
pub const DATA: u64 = 0x80_0800_0000;
pub const NOTHING: u64 = DATA + 0x10_0000;

/// Three harts of shire 0 (two of them of minion 0), and one of shire 1.
pub const A: u32 = 0;
pub const TWIN: u32 = 1;
pub const B: u32 = 2;
pub const FAR: u32 = 64;

/// Registers.
pub const ZERO: u32 = 0;
pub const SP: u32 = 2;
pub const VALUE: u32 = 7;
pub const ADDR: u32 = 8;
pub const TEMP: u32 = 9;
pub const STRIDE: u32 = 31;

/// A kernel: code for some harts, with names for instructions.
#[derive(Default)]
pub struct Kernel {
    pub program: Program,
    names: BTreeMap<usize, &'static str>,
}

impl Kernel {
    /// What hart `id` does; the others skip it.
    pub fn hart(mut self, id: u32, body: impl FnOnce(&mut Kernel)) -> Kernel {
        let mut own = Kernel::default();
        body(&mut own);
        own.program.exit(0);
        self.program.csrr(5, 0xCD0).addi(6, ZERO, id as i32).branch(1, 5, 6, own.program.0.len() as i32 + 1);
        let start = self.program.0.len();
        self.names.extend(own.names.into_iter().map(|(at, name)| (start + at, name)));
        self.program.0.append(&mut own.program.0);
        self
    }

    /// Names the next instruction.
    pub fn name(&mut self, name: &'static str) -> &mut Self {
        self.names.insert(self.program.0.len(), name);
        self
    }

    pub fn li(&mut self, register: u32, value: u64) -> &mut Self {
        // `Program::li` takes numbers below 2^63.
        if value >> 63 == 1 {
            self.program.li(register, value >> 1).slli(register, register, 1);
            self.program.addi(register, register, (value & 1) as i32);
        } else {
            self.program.li(register, value);
        }
        self
    }

    pub fn store(&mut self, name: &'static str, addr: u64) -> &mut Self {
        self.li(ADDR, addr).li(VALUE, 7);
        self.name(name).program.sd(VALUE, ADDR, 0);
        self
    }

    pub fn store_line(&mut self, name: &'static str, addr: u64) -> &mut Self {
        self.li(ADDR, addr);
        self.name(name).program.fsq2(2, ADDR, 0);
        self.name(name).program.fsq2(2, ADDR, 32);
        self
    }

    pub fn load(&mut self, name: &'static str, addr: u64) -> &mut Self {
        self.li(ADDR, addr);
        self.name(name).program.ld(VALUE, ADDR, 0);
        self
    }

    /// A vector load, whose value is stored to `to`.
    pub fn move_vector(&mut self, name: &'static str, from: u64, to: u64) -> &mut Self {
        self.li(ADDR, from);
        self.name(name).program.flq2(1, ADDR, 0);
        self.li(ADDR, to);
        self.name("use").program.fsq2(1, ADDR, 0);
        self
    }

    /// A 2-byte store at L3.
    pub fn global_store(&mut self, name: &'static str, addr: u64) -> &mut Self {
        self.li(ADDR, addr);
        self.name(name).program.word(0x1A00_303B | VALUE << 20 | ADDR << 15);
        self
    }

    pub fn atomic_add(&mut self, addr: u64) -> &mut Self {
        self.li(ADDR, addr).li(VALUE, 1);
        self.program.amoaddg_w(TEMP, VALUE, ADDR);
        self
    }

    pub fn fence(&mut self) -> &mut Self {
        self.program.word(0x0FF0_000F);
        self
    }

    pub fn csr(&mut self, name: &'static str, csr: u32, value: u64, stride: u64) -> &mut Self {
        self.li(STRIDE, stride).li(TEMP, value);
        self.name(name).program.csrrw(0, csr, TEMP);
        self
    }

    pub fn evict(&mut self, name: &'static str, addr: u64, level: u64) -> &mut Self {
        self.csr(name, 0x89F, level << 58 | addr, 64)
    }

    pub fn wait(&mut self, event: u32) -> &mut Self {
        self.program.csrwi(0x830, event);
        self
    }

    /// Fence, evict to a level, wait.
    pub fn publish(&mut self, addr: u64, level: u64) -> &mut Self {
        self.fence().evict("evict", addr, level).wait(6)
    }

    pub fn refresh(&mut self, addr: u64) -> &mut Self {
        self.evict("refresh", addr, 2).wait(6)
    }

    /// Gives `to` a credit of counter 0 after a fence.
    pub fn give(&mut self, to: u32) -> &mut Self {
        self.fence().give_at_once("give", to, 0)
    }

    pub fn give_at_once(&mut self, name: &'static str, to: u32, counter: u64) -> &mut Self {
        let register = 0x1_0034_00C0 | u64::from(to >> 6) << 22 | (u64::from(to & 1) * 2 + counter) << 3;
        self.li(ADDR, register).li(VALUE, 1 << (to >> 1 & 31));
        self.name(name).program.sd(VALUE, ADDR, 0);
        self
    }

    pub fn take(&mut self) -> &mut Self {
        self.program.csrwi(0x821, 0);
        self
    }

    pub fn arrive(&mut self, name: &'static str, barrier: u64, limit: u64) -> &mut Self {
        self.li(TEMP, limit << 5 | barrier);
        self.name(name).program.csrrw(VALUE, 0x820, TEMP);
        self
    }

    /// Loads one line to the scratchpad.
    pub fn load_line(&mut self, name: &'static str, addr: u64, line: u64, id: u64) -> &mut Self {
        self.csr(name, 0x83F, line << 53 | addr, 64 | id)
    }

    /// C(1 x 16) = A(line 0, one word) B(line 1).
    pub fn product(&mut self, name: &'static str, first: bool) -> &mut Self {
        self.csr(name, 0x801, 3 << 55 | 1 << 12 | u64::from(first), 0)
    }

    /// Stores the first row of C, 64 bytes.
    pub fn store_c(&mut self, name: &'static str, addr: u64) -> &mut Self {
        self.csr(name, 0x87F, 3 << 55 | addr, 64)
    }

    pub fn command(&mut self, number: u32) -> &mut Self {
        self.program.csrwi(0x8D3, number);
        self
    }

    pub fn finish(mut self) -> Kernel {
        self.program.exit(0);
        self
    }
}

struct Names<'a>(&'a Kernel);

impl LineTable for Names<'_> {
    fn locate(&self, pc: u64) -> Option<String> {
        let at = (pc.wrapping_sub(CODE) / 4) as usize;
        self.0.names.get(&at).map(|name| (*name).to_owned())
    }
}

pub fn strict(shires: u32) -> Machine {
    let config = Config { shires, dram_bytes: 1 << 30, mode: Mode::Strict { seed: 1 }, ..Config::default() };
    Machine::new(config).expect("a machine")
}

/// Runs a kernel under the next seed.
pub fn run(machine: &Machine, kernel: &Kernel, labels: Option<&Labels>) -> Result<(), LaunchError> {
    machine.write(CODE, &kernel.program.bytes()).unwrap();
    machine.write(DATA, &[0; 4096]).unwrap();
    machine.discard(NOTHING, 4096).unwrap();
    let shires = (1 << machine.config().shires) - 1;
    let names = Names(kernel);
    machine.launch(&Launch { lines: Some(&names), labels, ..launch(CODE, shires) }).map(|_| ())
}

pub fn violations(error: LaunchError) -> Vec<Violation> {
    match error {
        LaunchError::Violations { violations, .. } => violations,
        other => panic!("{other}"),
    }
}

/// The kernel is reported under every seed: `kind` at instruction `at`, with `other` on the other side.
pub fn wrong(shires: u32, kernel: Kernel, kind: ViolationKind, at: &str, other: Option<&str>) {
    let (machine, kernel) = (strict(shires), kernel.finish());
    for seed in 0..WRONG {
        let found = violations(run(&machine, &kernel, None).expect_err("a report"));
        let own = |violation: &&Violation| {
            violation.kind == kind
                && violation.party.location.as_deref() == Some(at)
                && other.is_none_or(|other| {
                    violation.other.as_ref().is_some_and(|party| party.location.as_deref() == Some(other))
                })
        };
        let report = found.iter().find(own);
        let text = report.unwrap_or_else(|| panic!("seed {seed}: {found:#?}")).to_string();
        assert!(!text.contains('\n'), "{text}");
        if seed == 0 {
            println!("{text}");
        }
    }
}

pub fn clean(shires: u32, kernel: Kernel) {
    let (machine, kernel) = (strict(shires), kernel.finish());
    for seed in 0..CLEAN {
        if let Err(error) = run(&machine, &kernel, None) {
            panic!("seed {seed}: {error}");
        }
    }
}

pub fn kernel() -> Kernel {
    Kernel::default()
}
