//! Measures the executor on small loops that all harts of one shire run, on one host thread:
//! `cargo run --release -p et-emulator --example speed [name...]`. Prints millions of guest instructions per second,
//! interpreted and translated.

use et_emulator::{Config, Launch, LaunchError, Machine};
use et_isa::{encode, Op, Operands};
use std::time::Instant;

const CODE: u64 = 0x80_0600_0000;
const DATA: u64 = 0x80_1000_0000;
/// Every hart walks this many bytes of each of its two arrays.
const WALK: i32 = 1 << 12;
const STEP: i32 = 64;
const ROUNDS: i32 = 2000;

// Integer registers of the loops: two moving pointers, the end of the first, the rounds left, the arrays, a pattern.
const P: u8 = 10;
const Q: u8 = 11;
const END: u8 = 12;
const LEFT: u8 = 13;
const A: u8 = 14;
const B: u8 = 15;
const BYTES: u8 = 16;

fn op(op: Op, operands: Operands) -> u32 {
    encode(op, &operands).expect("operands in range")
}

fn i(opcode: Op, rd: u8, rs1: u8, imm: i32) -> u32 {
    op(opcode, Operands { rd, rs1, imm, ..Default::default() })
}

fn r(opcode: Op, rd: u8, rs1: u8, rs2: u8) -> u32 {
    op(opcode, Operands { rd, rs1, rs2, ..Default::default() })
}

fn fma(fd: u8, f1: u8, f2: u8) -> u32 {
    op(Op::FmaddPs, Operands { rd: fd, rs1: f1, rs2: f2, rs3: fd, rm: 7, ..Default::default() })
}

/// The bodies: each executes once for every `STEP` bytes.
fn bodies() -> Vec<(&'static str, Vec<u32>)> {
    let load = |fd, base, imm| i(Op::FlwPs, fd, base, imm);
    vec![
        (
            "scalar",
            vec![
                i(Op::Lw, 5, P, 0),
                r(Op::Add, 6, 6, 5),
                r(Op::Xor, 7, 6, 5),
                i(Op::Slli, 7, 7, 3),
                r(Op::Sub, 8, 7, 6),
            ],
        ),
        ("dot", vec![load(1, P, 0), load(2, Q, 0), fma(3, 1, 2), load(4, P, 32), load(5, Q, 32), fma(6, 4, 5)]),
        (
            "add",
            vec![
                load(1, P, 0),
                load(2, Q, 0),
                op(Op::FaddPs, Operands { rd: 3, rs1: 1, rs2: 2, rm: 7, ..Default::default() }),
                op(Op::FswPs, Operands { rs1: Q, rs2: 3, ..Default::default() }),
            ],
        ),
        (
            "bytes",
            vec![
                r(Op::Fg32bPs, 1, BYTES, P),
                op(Op::FcvtPsPw, Operands { rd: 1, rs1: 1, rm: 7, ..Default::default() }),
                load(2, Q, 0),
                fma(3, 1, 2),
            ],
        ),
        ("fma", (3..11).map(|fd| fma(fd, 1, 2)).collect()),
        ("exp", vec![i(Op::FexpPs, 1, 2, 0), i(Op::FrcpPs, 3, 1, 0), i(Op::FlogPs, 4, 3, 0)]),
    ]
}

/// A kernel around a body: own arrays for each hart, a loop over them, and another around it.
fn kernel(body: &[u32]) -> Vec<u32> {
    let branch =
        |rs1, rs2, slots: usize| op(Op::Bne, Operands { rs1, rs2, imm: -4 * slots as i32, ..Default::default() });
    let mut code = vec![
        op(Op::Csrrs, Operands { rd: 5, csr: 0xCD0, ..Default::default() }),
        i(Op::Slli, 5, 5, 13),
        i(Op::Ld, A, 10, 0),
        i(Op::Ld, BYTES, 10, 8),
        r(Op::Add, A, A, 5),
        i(Op::Lui, 6, 0, WALK >> 12),
        r(Op::Add, B, A, 6),
        i(Op::Addi, LEFT, 0, ROUNDS),
        i(Op::FbciPs, 2, 0, 0x3F000),
    ];
    let outer = code.len();
    code.extend([i(Op::Addi, P, A, 0), i(Op::Addi, Q, B, 0), i(Op::Addi, END, B, 0)]);
    let inner = code.len();
    code.extend(body);
    code.extend([i(Op::Addi, P, P, STEP), i(Op::Addi, Q, Q, STEP)]);
    code.push(branch(P, END, code.len() - inner));
    code.push(i(Op::Addi, LEFT, LEFT, -1));
    code.push(branch(LEFT, 0, code.len() - outer));
    // Return from the kernel.
    code.extend([
        i(Op::Addi, 10, 0, 8),
        i(Op::Addi, 11, 0, 0),
        i(Op::Addi, 12, 0, 0),
        op(Op::Ecall, Operands::default()),
    ]);
    code
}

/// Millions of instructions per second of a loop, or what went wrong.
fn measure(body: &[u32], translate_after: Option<u32>) -> Result<f64, LaunchError> {
    let config = Config { shires: 1, threads: 1, translate_after, ..Config::default() };
    let machine = Machine::new(config).expect("a machine");
    let words = kernel(body);
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    machine.write(CODE, &code).expect("code fits");
    let data: Vec<u8> = (0..1 << 17).flat_map(|i: u32| (1.0 + (i % 17) as f32 * 0.125).to_le_bytes()).collect();
    machine.write(DATA, &data).expect("data fits");
    let args: Vec<u8> = [DATA, 0x39_8A41_8820].iter().flat_map(|value| value.to_le_bytes()).collect();
    let launch = Launch {
        entry: CODE,
        args: &args,
        shire_mask: 1,
        deadline: None,
        lines: None,
        labels: None,
        exact_flags: false,
    };
    let start = Instant::now();
    let report = machine.launch(&launch)?;
    Ok(report.instructions as f64 / start.elapsed().as_secs_f64() / 1e6)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("{:8} {:>12} {:>12}", "M/s", "interpreted", "translated");
    for (name, body) in bodies() {
        if !wanted.is_empty() && !wanted.iter().any(|w| w == name) {
            continue;
        }
        let speeds = [None, Some(Config::TRANSLATE_AFTER)].map(|translate_after| measure(&body, translate_after));
        match speeds {
            [Ok(interpreted), Ok(translated)] => println!("{name:8} {interpreted:12.1} {translated:12.1}"),
            [Err(error), _] | [_, Err(error)] => println!("{name:8} {error}"),
        }
    }
}
