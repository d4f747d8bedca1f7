//! The executor: recorded single instructions, bit for bit, and the behaviour of the loop around them. One test program,
//! since each compiles the whole executor for its platform.

mod agreement;
mod flat;
mod random;
mod records;

use et_emulator::code::Code;
use et_emulator::exec::{code_reads_flags, run, Stop};
use et_emulator::hart::Hart;
use et_emulator::trap::{Cause, Trap};
use et_isa::{encode, Op, Operands};
use flat::{run_file, Flat};

#[test]
fn scalar() {
    run_file("scalar.jsonl.xz");
}

#[test]
fn vector() {
    run_file("vector.jsonl.xz");
}

#[test]
fn traps() {
    run_file("trap.jsonl.xz");
}

#[test]
fn transcendental() {
    run_file("trans.jsonl.xz");
}

#[test]
fn a_directory_without_records_is_refused_in_a_line() {
    let scratch = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let name = |path: &std::path::Path| path.as_os_str().to_os_string();
    let missing = scratch.join("no-such-directory");
    let empty = scratch.join("empty-directory");
    std::fs::create_dir_all(&empty).expect("scratch directory");
    for (dir, says) in [(&missing, "there is no directory"), (&empty, "has none of the files")] {
        let message = records::other_directory(&name(dir)).expect_err("refused");
        assert!(message.contains(says) && message.contains(dir.to_str().expect("UTF-8")), "{message}");
        assert_eq!(message.lines().count(), 1);
    }
    assert!(
        records::other_directory(std::ffi::OsStr::new("emulator/tests/vectors")).is_ok(),
        "from the project's root"
    );
}

const CODE: u64 = 0x80_0700_0000;

fn insn(op: Op, operands: Operands) -> u32 {
    encode(op, &operands).expect("operands in range")
}

fn addi(rd: u8, rs1: u8, imm: i32) -> u32 {
    insn(Op::Addi, Operands { rd, rs1, imm, ..Default::default() })
}

fn csr(op: Op, rd: u8, csr: u16, rs1: u8) -> u32 {
    insn(op, Operands { rd, csr, rs1, ..Default::default() })
}

const ECALL: u32 = 0x73;

/// A hart at `pc` with `words` there.
fn start(pc: u64, words: &[u32]) -> (Hart, Code, Flat) {
    let mut platform = Flat::default();
    platform.place(pc, words);
    let mut hart = Hart::at_entry(0);
    hart.pc = pc;
    (hart, Code::new(false), platform)
}

#[test]
fn budget_and_counters() {
    let (mut hart, mut code, mut platform) = start(CODE, &[addi(5, 5, 1), addi(5, 5, 1), addi(0, 0, 0), ECALL]);
    assert_eq!(run(&mut hart, &mut code, &mut platform, 2), Stop::Budget);
    assert_eq!((hart.x[5], hart.pc, hart.retired), (2, CODE + 8, 2));
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
    // The call itself has not retired, and x0 stays 0.
    assert_eq!((hart.x[0], hart.pc, hart.retired, hart.clock), (0, CODE + 12, 3, 3));
    assert_eq!(run(&mut hart, &mut code, &mut platform, 0), Stop::Budget);
}

#[test]
fn code_crosses_pages() {
    // The first instruction lies across the boundary; the branch goes back over it.
    let back = insn(Op::Bne, Operands { rs1: 5, rs2: 6, imm: -4, ..Default::default() });
    let (mut hart, mut code, mut platform) = start(CODE + 4094, &[addi(5, 5, 1), back, ECALL]);
    hart.x[6] = 3;
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
    assert_eq!((hart.x[5], hart.retired, hart.pc), (3, 6, CODE + 4094 + 8));
}

#[test]
fn a_blocked_instruction_runs_later() {
    let (mut hart, mut code, mut platform) = start(CODE, &[addi(5, 0, 7), csr(Op::Csrrwi, 5, 0x821, 0), ECALL]);
    platform.stuck = true;
    for _ in 0..2 {
        assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Blocked);
        assert_eq!((hart.x[5], hart.pc, hart.retired), (7, CODE + 4, 1));
    }
    platform.stuck = false;
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
    assert_eq!((hart.x[5], hart.retired), (0, 2));
}

#[test]
fn vector_instructions_wait_for_the_vector_unit() {
    let add = insn(Op::FaddPs, Operands::default());
    let (mut hart, mut code, mut platform) = start(CODE, &[addi(5, 0, 7), add, ECALL]);
    (hart.vpu_busy, platform.stuck) = (true, true);
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Blocked);
    assert_eq!((hart.x[5], hart.pc), (7, CODE + 4));
    platform.stuck = false;
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
    assert!(!hart.vpu_busy);
}

#[test]
fn the_platform_sees_an_exact_clock() {
    let read = csr(Op::Csrrs, 5, 0xC03, 0);
    let (mut hart, mut code, mut platform) = start(CODE, &[addi(6, 0, 0), addi(6, 0, 0), read, read, ECALL]);
    assert_eq!(run(&mut hart, &mut code, &mut platform, 3), Stop::Budget);
    assert_eq!(hart.x[5], 2);
    assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
    assert_eq!(hart.x[5], 3);
}

#[test]
fn new_code_is_seen_after_invalidation() {
    let (mut hart, mut code, mut platform) = start(CODE, &[addi(5, 0, 1), ECALL]);
    let result = |hart: &mut Hart, code: &mut Code, platform: &mut Flat| {
        hart.pc = CODE;
        assert_eq!(run(hart, code, platform, 100), Stop::Ecall);
        hart.x[5]
    };
    assert_eq!(result(&mut hart, &mut code, &mut platform), 1);
    platform.place(CODE, &[addi(5, 0, 2)]);
    code.invalidate(CODE + 8192, 4);
    assert_eq!(result(&mut hart, &mut code, &mut platform), 1, "another page");
    code.invalidate(CODE + 8, 4000);
    code.invalidate(CODE - 100, 100);
    assert_eq!(result(&mut hart, &mut code, &mut platform), 1, "data around the code");
    code.invalidate(CODE + 3, 1);
    assert_eq!(result(&mut hart, &mut code, &mut platform), 2);
    platform.place(CODE, &[addi(5, 0, 3)]);
    code.invalidate(CODE - 100, 101);
    assert_eq!(result(&mut hart, &mut code, &mut platform), 3);
}

#[test]
fn readers_of_flags_are_found() {
    let found = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        code_reads_flags(&bytes)
    };
    assert!(found(&[addi(5, 0, 1), csr(Op::Csrrs, 5, 0x003, 0)]));
    assert!(found(&[csr(Op::Csrrwi, 5, 0x001, 0)]));
    // Rounding mode only, and writes whose old value is dropped.
    assert!(!found(&[csr(Op::Csrrs, 5, 0x002, 0), csr(Op::Csrrw, 0, 0x003, 5), csr(Op::Csrrw, 5, 0x830, 0)]));
}

#[test]
fn gathers_and_scatters_of_consecutive_elements() {
    const DATA: u64 = 0x81_0000_0100;
    let op = |op, rd, rs1, rs2| insn(op, Operands { rd, rs1, rs2, ..Default::default() });
    // The offsets of bytes, halves and words are in f1, f2 and f3; the base is in x10.
    let forms = [(Op::FgbPs, Op::FscbPs, 1), (Op::FghPs, Op::FschgPs, 2), (Op::FgwPs, Op::FscwgPs, 4)];
    for (i, (gather, scatter, size)) in forms.into_iter().enumerate() {
        for base in [DATA, DATA + 4] {
            let offsets = i as u8 + 1;
            let code = [op(gather, 4, offsets, 10), op(scatter, 4, offsets, 11), ECALL];
            let (mut hart, mut code, mut platform) = start(CODE, &code);
            hart.f[offsets as usize].0 = std::array::from_fn(|e| (size * e) as u32);
            hart.x[10] = base;
            hart.x[11] = base + 0x40;
            platform.memory.extend((0..32).map(|i| (base + i, 0x70 + 3 * i as u8)));
            assert_eq!(run(&mut hart, &mut code, &mut platform, 100), Stop::Ecall);
            for e in 0..8 {
                let bytes: [u8; 4] = std::array::from_fn(|i| 0x70 + 3 * (size * e + i.min(size - 1)) as u8);
                let bits = 32 - 8 * size as u32;
                let want = (u32::from_le_bytes(bytes) << bits) as i32 >> bits;
                assert_eq!(hart.f[4].0[e] as i32, want, "{gather:?} lane {e}");
            }
            for i in 0..8 * size as u64 {
                assert_eq!(platform.memory[&(base + 0x40 + i)], platform.memory[&(base + i)], "{scatter:?} byte {i}");
            }
            assert!(!platform.memory.contains_key(&(base + 0x40 + 8 * size as u64)));
        }
    }
}

/// `flw.ps f4, 0(x10)` or another load with one active lane, from `addr`.
fn masked_load(op: Op, addr: u64, mask: u8) -> Stop {
    let (mut hart, mut code, mut platform) =
        start(CODE, &[insn(op, Operands { rd: 4, rs1: 10, ..Default::default() })]);
    hart.x[10] = addr;
    hart.m[0] = mask;
    run(&mut hart, &mut code, &mut platform, 1)
}

#[test]
fn a_vector_inside_one_line_is_one_access() {
    let fault = |tval| Stop::Trap(Trap { cause: Cause::LoadAccess, tval });
    for op in [Op::FlwPs, Op::FlwlPs, Op::FlwgPs] {
        assert_eq!(masked_load(op, 0x1000, 0x10), fault(0x1000), "{op:?}");
        assert_eq!(masked_load(op, 0x1001, 0), Stop::Budget, "{op:?} without active lanes");
    }
    // Across lines, the lanes are accessed one by one.
    assert_eq!(masked_load(Op::FlwPs, 0x1030, 0x10), fault(0x1040));
    // The coherent loads are aligned, whichever lanes are active.
    assert_eq!(masked_load(Op::FlwlPs, 0x81_0000_0010, 0x10), fault(0x81_0000_0010));
    let store = insn(Op::FswPs, Operands { rs2: 4, rs1: 10, ..Default::default() });
    let (mut hart, mut code, mut platform) = start(CODE, &[store]);
    (hart.x[10], hart.m[0]) = (0x1008, 0x80);
    let want = Stop::Trap(Trap { cause: Cause::StoreAccess, tval: 0x1008 });
    assert_eq!(run(&mut hart, &mut code, &mut platform, 1), want);
}
