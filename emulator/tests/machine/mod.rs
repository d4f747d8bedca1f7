//! Programs for whole machines, written as instruction words.

#![allow(dead_code)]

use et_emulator::{Config, Launch, LaunchError, Machine, Report};
use std::time::Duration;

/// Where programs are placed.
pub const CODE: u64 = 0x80_0600_0000;

/// A machine with little memory. All code is translated at once where that is possible; what interprets it, too, are the
/// tests of the executor and of other modes.
pub fn machine(shires: u32, threads: usize) -> Machine {
    machine_with(Config { shires, threads, translate_after: Some(0), ..Config::default() })
}

/// The same with other settings.
pub fn machine_with(config: Config) -> Machine {
    Machine::new(Config { dram_bytes: 8 << 30, ..config }).expect("a machine")
}

/// Instruction words, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Program(pub Vec<u32>);

impl Program {
    pub fn word(&mut self, word: u32) -> &mut Self {
        self.0.push(word);
        self
    }

    /// `addi rd, rs1, imm`
    pub fn addi(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.word((imm as u32) << 20 | rs1 << 15 | rd << 7 | 0x13)
    }

    /// `ld rd, imm(rs1)`
    pub fn ld(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.word((imm as u32) << 20 | rs1 << 15 | 3 << 12 | rd << 7 | 0x03)
    }

    fn s(&mut self, opcode: u32, funct3: u32, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        let imm = imm as u32;
        self.word((imm >> 5 & 0x7F) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (imm & 31) << 7 | opcode)
    }

    /// `sd rs2, imm(rs1)`
    pub fn sd(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(0x23, 3, rs2, rs1, imm)
    }

    /// `lw rd, imm(rs1)`
    pub fn lw(&mut self, rd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.word((imm as u32) << 20 | rs1 << 15 | 2 << 12 | rd << 7 | 0x03)
    }

    /// `sw rs2, imm(rs1)`
    pub fn sw(&mut self, rs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(0x23, 2, rs2, rs1, imm)
    }

    /// `flq2 fd, imm(rs1)`
    pub fn flq2(&mut self, fd: u32, rs1: u32, imm: i32) -> &mut Self {
        self.word((imm as u32) << 20 | rs1 << 15 | 5 << 12 | fd << 7 | 0x07)
    }

    /// `fsq2 fs2, imm(rs1)`
    pub fn fsq2(&mut self, fs2: u32, rs1: u32, imm: i32) -> &mut Self {
        self.s(0x27, 5, fs2, rs1, imm)
    }

    /// `csrrw rd, csr, rs1`
    pub fn csrrw(&mut self, rd: u32, csr: u32, rs1: u32) -> &mut Self {
        self.word(csr << 20 | rs1 << 15 | 1 << 12 | rd << 7 | 0x73)
    }

    /// `csrwi csr, imm`
    pub fn csrwi(&mut self, csr: u32, imm: u32) -> &mut Self {
        self.word(csr << 20 | imm << 15 | 5 << 12 | 0x73)
    }

    /// `csrr rd, csr`
    pub fn csrr(&mut self, rd: u32, csr: u32) -> &mut Self {
        self.word(csr << 20 | 2 << 12 | rd << 7 | 0x73)
    }

    /// `slli rd, rs1, shamt`
    pub fn slli(&mut self, rd: u32, rs1: u32, shamt: u32) -> &mut Self {
        self.word(shamt << 20 | rs1 << 15 | 1 << 12 | rd << 7 | 0x13)
    }

    /// `add rd, rs1, rs2`
    pub fn add(&mut self, rd: u32, rs1: u32, rs2: u32) -> &mut Self {
        self.word(rs2 << 20 | rs1 << 15 | rd << 7 | 0x33)
    }

    /// Branches with `funct3` (0 beq, 1 bne) over `words` words from this one.
    pub fn branch(&mut self, funct3: u32, rs1: u32, rs2: u32, words: i32) -> &mut Self {
        let imm = (4 * words) as u32;
        self.word(
            (imm >> 12 & 1) << 31
                | (imm >> 5 & 0x3F) << 25
                | rs2 << 20
                | rs1 << 15
                | funct3 << 12
                | (imm >> 1 & 0xF) << 8
                | (imm >> 11 & 1) << 7
                | 0x63,
        )
    }

    /// Any 64-bit constant, below 2^63, 11 bits at a time.
    pub fn li(&mut self, rd: u32, value: u64) -> &mut Self {
        self.addi(rd, 0, (value >> 55 & 0x7FF) as i32);
        for shift in [44, 33, 22, 11, 0] {
            self.slli(rd, rd, 11).addi(rd, rd, (value >> shift & 0x7FF) as i32);
        }
        self
    }

    /// `jr rs1`
    pub fn jr(&mut self, rs1: u32) -> &mut Self {
        self.word(rs1 << 15 | 0x67)
    }

    /// `amoaddg.w rd, rs2, (rs1)`
    pub fn amoaddg_w(&mut self, rd: u32, rs2: u32, rs1: u32) -> &mut Self {
        self.word(0x0200_203B | rs2 << 20 | rs1 << 15 | rd << 7)
    }

    /// `amoswapg.w rd, rs2, (rs1)`
    pub fn amoswapg_w(&mut self, rd: u32, rs2: u32, rs1: u32) -> &mut Self {
        self.word(0x0A00_203B | rs2 << 20 | rs1 << 15 | rd << 7)
    }

    /// `auipc rd, pages`
    pub fn auipc(&mut self, rd: u32, pages: u32) -> &mut Self {
        self.word(pages << 12 | rd << 7 | 0x17)
    }

    /// `ecall`
    pub fn ecall(&mut self) -> &mut Self {
        self.word(0x73)
    }

    /// `return value` to the firmware.
    pub fn exit(&mut self, value: i32) -> &mut Self {
        self.addi(10, 0, 8).addi(11, 0, value).addi(12, 0, 0).ecall()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Runs the program at [`CODE`].
    pub fn run(&self, machine: &Machine, shire_mask: u64) -> Result<Report, LaunchError> {
        machine.write(CODE, &self.bytes()).expect("room for code");
        machine.launch(&launch(CODE, shire_mask))
    }
}

/// A launch without arguments.
pub fn launch(entry: u64, shire_mask: u64) -> Launch<'static> {
    Launch {
        entry,
        args: &[],
        shire_mask,
        deadline: Some(Duration::from_secs(60)),
        exact_flags: true,
        lines: None,
        labels: None,
    }
}

/// Where L2 scratchpad contents are on their way to or from the host.
const STAGE: u64 = 0x80_4000_0000;

/// The host reaches DRAM only: hart 0 copies the rest, word by word.
fn copy(machine: &Machine, to: u64, from: u64, len: usize) {
    let mut work = Program::default();
    work.li(6, from).li(7, to).li(8, from + len as u64);
    work.lw(9, 6, 0).sw(9, 7, 0).addi(6, 6, 4).addi(7, 7, 4).branch(1, 6, 8, -4);
    let mut program = Program::default();
    program.csrr(5, 0xCD0).branch(1, 5, 0, work.0.len() as i32 + 1);
    program.0.append(&mut work.0);
    program.exit(0);
    program.run(machine, 1).expect("a copy");
}

/// Writes whole words to DRAM or L2 scratchpad.
pub fn write_memory(machine: &Machine, addr: u64, data: &[u8]) {
    if machine.dram().contains(&addr) {
        return machine.write(addr, data).expect("room in DRAM");
    }
    machine.write(STAGE, data).expect("room in DRAM");
    copy(machine, addr, STAGE, data.len());
}

/// Reads whole words from DRAM or L2 scratchpad.
pub fn read_memory(machine: &Machine, addr: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let dram = machine.dram().contains(&addr);
    if !dram {
        copy(machine, STAGE, addr, len);
    }
    machine.read(if dram { addr } else { STAGE }, &mut out).expect("in DRAM");
    out
}

/// The first difference in memory at `addr`.
pub fn compare_memory(addr: u64, got: &[u8], want: &[u8]) -> Result<(), String> {
    match got.iter().zip(want).position(|(got, want)| got != want) {
        Some(at) => Err(format!("memory {:x} is {:02x}, expected {:02x}", addr + at as u64, got[at], want[at])),
        None => Ok(()),
    }
}
