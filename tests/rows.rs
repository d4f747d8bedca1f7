//! GET_ROWS, SET_ROWS and copies on the emulated device against plain Rust: edges that the host's tests don't reach.

use std::sync::Arc;

use et_emulator::Config;
use ggml_abi::{Op, Type};
use ggml_et::command::{et_command, ET_REFRESH};
use ggml_et::device::emulated::Emulated;
use ggml_et::device::program::Program;
use ggml_et::device::session::{Failure, Session};
use ggml_et::graph::{Node, Operand};
use ggml_et::ops::{self, common::block, Lowered};
use half::{bf16, f16};

const QUANTISED: [Type; 6] = [Type::Q8_0, Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1, Type::IQ4_NL];
const IQ4_NL: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

struct Device(Arc<Session>);

impl Device {
    fn new() -> Device {
        let config = Config { shires: 1, dram_bytes: 1 << 28, ..Config::default() };
        Device(Arc::new(Session::open(Box::new(Emulated::open(&config).unwrap()), 1, None, None).unwrap()))
    }

    fn upload(&self, bytes: &[u8]) -> u64 {
        let addr = self.0.take(bytes.len() as u64, "tensor").unwrap();
        self.0.driver().write(addr, bytes).unwrap();
        addr
    }

    fn download(&self, addr: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        self.0.driver().read(addr, &mut out).unwrap();
        out
    }

    fn run(&self, op: Op, dst: &Operand, sources: &[Operand]) -> Result<(), Failure> {
        let mut src = [const { None }; 10];
        for (slot, source) in src.iter_mut().zip(sources) {
            *slot = Some(source.clone());
        }
        let node = Node { op, sub: None, name: String::new(), dst: dst.clone(), src, params: [0; 16] };
        let Ok(Lowered::Command(command)) = ops::lower(&node) else { panic!("{op} is refused") };
        let mut commands: [et_command; 1] = [command.raw];
        // As after another command of the launch, so that the refreshing is exercised too.
        for source in &mut commands[0].src {
            source.flags |= ET_REFRESH;
        }
        let mut program = Program::new(&self.0, commands.to_vec(), 0, None)?;
        self.0.run(&mut program, false, &Vec::new).map(|_| ())
    }

    /// Copies `count` elements, both sides contiguous, and returns the result's bytes.
    fn convert(&self, from: Type, to: Type, data: &[u8], count: usize) -> Vec<u8> {
        let src = contiguous(self.upload(data), from, [count as i64, 1, 1, 1]);
        let bytes = row_bytes(to, count);
        let dst = contiguous(self.upload(&vec![0xAA; bytes]), to, [count as i64, 1, 1, 1]);
        self.run(Op::Cpy, &dst, &[src]).unwrap();
        self.download(dst.addr, bytes)
    }
}

fn row_bytes(ty: Type, count: usize) -> usize {
    let (elements, bytes) = block(ty).unwrap();
    count / elements as usize * bytes as usize
}

fn contiguous(addr: u64, ty: Type, ne: [i64; 4]) -> Operand {
    let (_, bytes) = block(ty).unwrap();
    let row = row_bytes(ty, ne[0] as usize) as u64;
    let plane = row * ne[1] as u64;
    Operand { addr, ty, ne, nb: [bytes, row, plane, plane * ne[2] as u64], view: false }
}

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|b| u16::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Uniform in [-1, 1).
fn noise(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*state >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// The first of the elements with the greatest magnitude.
fn extreme(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |best: f32, &v| if best.abs() < v.abs() { v } else { best })
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 {
        0.0
    } else {
        1.0 / d
    }
}

fn nibbles(q: &[u8]) -> impl Iterator<Item = u8> + '_ {
    (0..16).map(|i| (q[i] & 15) | q[i + 16] << 4)
}

fn fifth_bits(q: &[u8]) -> [u8; 4] {
    q.iter().enumerate().fold(0u32, |bits, (i, q)| bits | u32::from(q >> 4 & 1) << i).to_le_bytes()
}

fn nearest_iq4_nl(x: f32) -> u8 {
    (1..16).filter(|&i| x >= (f32::from(IQ4_NL[i - 1]) + f32::from(IQ4_NL[i])) / 2.0).count() as u8
}

/// One block of 32 elements as the CPU backend makes it on x86.
fn quantised(ty: Type, x: &[f32]) -> Vec<u8> {
    let half = |v: f32| f16::from_f32(v).to_le_bytes();
    let max = extreme(x);
    let (low, high) = x.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| (low.min(v), high.max(v)));
    let symmetric = |d: f32, offset: f32, top: u8| -> Vec<u8> {
        x.iter().map(|v| ((v * inverse(d) + offset) as u8).min(top)).collect()
    };
    let ranged =
        |d: f32, top: u8| -> Vec<u8> { x.iter().map(|v| (((v - low) * inverse(d) + 0.5) as u8).min(top)).collect() };
    let mut out = Vec::new();
    match ty {
        Type::Q8_0 => {
            out.extend(half(max.abs() / 127.0));
            let id = if max == 0.0 { 0.0 } else { 127.0 / max.abs() };
            out.extend(x.iter().map(|v| (v * id).round_ties_even() as i8 as u8));
        }
        Type::Q4_0 => {
            let d = max / -8.0;
            out.extend(half(d));
            out.extend(nibbles(&symmetric(d, 8.5, 15)));
        }
        Type::Q5_0 => {
            let d = max / -16.0;
            let q = symmetric(d, 16.5, 31);
            out.extend(half(d));
            out.extend(fifth_bits(&q));
            out.extend(nibbles(&q));
        }
        Type::Q4_1 => {
            let d = (high - low) / 15.0;
            out.extend(half(d));
            out.extend(half(low));
            out.extend(nibbles(&ranged(d, 15)));
        }
        Type::Q5_1 => {
            let d = (high - low) / 31.0;
            let q = ranged(d, 31);
            out.extend(half(d));
            out.extend(half(low));
            out.extend(fifth_bits(&q));
            out.extend(nibbles(&q));
        }
        Type::IQ4_NL => {
            let id = inverse(max / -127.0);
            let q: Vec<u8> = x.iter().map(|v| nearest_iq4_nl(v * id)).collect();
            let (mut sum_x, mut sum_q) = (0.0f32, 0.0f32);
            for (&x, &q) in x.iter().zip(&q) {
                let q = f32::from(IQ4_NL[usize::from(q)]);
                sum_x += x * x * q * x;
                sum_q += x * x * q * q;
            }
            out.extend(half(if sum_q > 0.0 { sum_x / sum_q } else { 0.0 }));
            out.extend(nibbles(&q));
        }
        other => panic!("{other}"),
    }
    out
}

fn dequantised(ty: Type, b: &[u8]) -> Vec<f32> {
    let half = |at: usize| f16::from_le_bytes([b[at], b[at + 1]]).to_f32();
    let nibble = |at: usize, i: usize| if i < 16 { b[at + i] & 15 } else { b[at + i - 16] >> 4 };
    let fifth = |at: usize, i: usize| (b[at + i / 8] >> (i % 8) & 1) << 4;
    let d = half(0);
    (0..32)
        .map(|i| match ty {
            Type::Q8_0 => d * f32::from(b[2 + i] as i8),
            Type::Q4_0 => d * (f32::from(nibble(2, i)) - 8.0),
            Type::Q4_1 => d * f32::from(nibble(4, i)) + half(2),
            Type::Q5_0 => d * (f32::from(nibble(6, i) | fifth(2, i)) - 16.0),
            Type::Q5_1 => d * f32::from(nibble(8, i) | fifth(4, i)) + half(2),
            Type::IQ4_NL => d * f32::from(IQ4_NL[usize::from(nibble(2, i))]),
            other => panic!("{other}"),
        })
        .collect()
}

/// Blocks with ties of every kind, zeros, subnormal scales, and noise of many sizes.
fn blocks() -> Vec<f32> {
    let mut x = vec![0.0; 32];
    x.extend([-0.0; 32]);
    x.extend((0..32).map(|i| if i % 2 == 0 { 3.0 } else { -3.0 }));
    x.extend((0..32).map(|i| if i % 3 == 0 { -7.5 } else { 7.5 }));
    x.extend((0..32).map(|i| i as f32 - 16.0));
    x.extend((0..32).map(|i| (i as f32 - 16.0) * 0.5 * 127.0 / 16.0));
    x.extend((0..32).map(|i| if i == 31 { -1e-6 } else { 0.0 }));
    x.extend((0..32).map(|i| f32::from(IQ4_NL[i / 2]) + if i % 2 == 0 { 0.0 } else { 11.5 }));
    x.extend([1.0 + f32::EPSILON; 32]);
    x.extend([2.0 - f32::EPSILON; 32]);
    let mut state = 1;
    for exponent in -18..=14 {
        for _ in 0..8 {
            x.extend((0..32).map(|_| noise(&mut state) * (exponent as f32).exp2()));
            let offset = noise(&mut state) * 4.0;
            x.extend((0..32).map(|_| (noise(&mut state) + offset) * (exponent as f32).exp2()));
        }
    }
    x
}

#[test]
fn quantisers_give_the_cpus_bits() {
    let device = Device::new();
    let x = blocks();
    for ty in QUANTISED {
        let bytes = block(ty).unwrap().1 as usize;
        let got = device.convert(Type::F32, ty, &f32_bytes(&x), x.len());
        for (i, (got, x)) in got.chunks_exact(bytes).zip(x.chunks_exact(32)).enumerate() {
            assert_eq!(got, quantised(ty, x), "{ty} block {i}: {x:?}");
        }
    }
}

#[test]
fn infinities_and_nans_stay_in_their_block() {
    let device = Device::new();
    let mut x = vec![1.0; 96];
    x[32] = f32::NAN;
    x[40] = f32::INFINITY;
    x[41] = f32::NEG_INFINITY;
    for ty in QUANTISED {
        let bytes = block(ty).unwrap().1 as usize;
        let got = device.convert(Type::F32, ty, &f32_bytes(&x), x.len());
        for i in [0, 2] {
            assert_eq!(got[i * bytes..(i + 1) * bytes], quantised(ty, &x[i * 32..(i + 1) * 32]), "{ty} block {i}");
        }
    }
}

#[test]
fn dequantisers_give_the_cpus_bits() {
    let device = Device::new();
    let mut state = 7;
    for ty in QUANTISED {
        let bytes = block(ty).unwrap().1 as usize;
        let scales = if matches!(ty, Type::Q4_1 | Type::Q5_1) { 2 } else { 1 };
        let mut data = Vec::new();
        for i in 0..200 {
            // Scales of every size, subnormal ones among them.
            for _ in 0..scales {
                data.extend(f16::from_bits(((i * 155) & 0x7BFF) as u16 | (i as u16 & 1) << 15).to_le_bytes());
            }
            data.extend((2 * scales..bytes).map(|_| (noise(&mut state) * 128.0) as i8 as u8));
        }
        let got = device.convert(ty, Type::F32, &data, data.len() / bytes * 32);
        let expected: Vec<f32> = data.chunks_exact(bytes).flat_map(|b| dequantised(ty, b)).collect();
        assert_eq!(words(&got), words(&f32_bytes(&expected)), "{ty}");
    }
}

#[test]
fn every_half_converts_exactly() {
    let device = Device::new();
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let wide = device.convert(Type::F16, Type::F32, &all, 1 << 16);
    for (h, got) in (0..=u16::MAX).zip(words(&wide)) {
        let expected = f16::from_bits(h).to_f32();
        assert!(got == expected.to_bits() || f32::from_bits(got).is_nan() && expected.is_nan(), "{h:#x}");
    }
    let back = device.convert(Type::F32, Type::F16, &wide, 1 << 16);
    for (h, got) in (0..=u16::MAX).zip(halves(&back)) {
        assert!(got == h || f16::from_bits(h).is_nan() && f16::from_bits(got).is_nan(), "{h:#x}");
    }
    let wide = device.convert(Type::BF16, Type::F32, &all, 1 << 16);
    assert!((0..=u16::MAX).zip(words(&wide)).all(|(h, got)| got == u32::from(h) << 16));
}

#[test]
fn narrowing_rounds_to_nearest_even() {
    let device = Device::new();
    let mut x = vec![0.0, -0.0, 65504.0, 65519.9, 65520.0, -1e30, f32::INFINITY, f32::NAN, -f32::MIN_POSITIVE, 1e-45];
    for exponent in -26..=16 {
        for quarter in 4..12 {
            let value = quarter as f32 / 4.0 * (exponent as f32).exp2();
            x.extend([value, -value, value * (1.0 + f32::EPSILON), value * (1.0 + 0.5f32.powi(11)), value / 3.0]);
        }
    }
    x.resize(x.len().next_multiple_of(8) + 3, 1.5);
    for (got, x) in halves(&device.convert(Type::F32, Type::F16, &f32_bytes(&x), x.len())).into_iter().zip(&x) {
        let (got, expected) = (f16::from_bits(got), f16::from_f32(*x));
        assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{x:e}: {got:?}");
    }
    for (got, x) in halves(&device.convert(Type::F32, Type::BF16, &f32_bytes(&x), x.len())).into_iter().zip(&x) {
        let (got, expected) = (bf16::from_bits(got), bf16::from_f32(*x));
        assert!(got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan(), "{x:e}: {got:?}");
    }
}

#[test]
fn views_leave_their_neighbours_alone() {
    let device = Device::new();
    let x: Vec<f32> = (0..640).map(|i| i as f32 - 320.0).collect();
    for ty in [Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_0, Type::Q4_1, Type::Q5_0, Type::Q5_1] {
        for width in [1i64, 7, 32, 64, 96] {
            let (elements, bytes) = block(ty).unwrap();
            if width % elements != 0 {
                continue;
            }
            let row = width as u64 / elements as u64 * bytes;
            let src = contiguous(device.upload(&f32_bytes(&x)), Type::F32, [width, 5, 1, 1]);
            // Rows with a gap of one item, starting one item into the buffer.
            let base = device.upload(&[0xAA; 4096]);
            let mut dst = contiguous(base + bytes, ty, [width, 5, 1, 1]);
            dst.nb[1] = row + bytes;
            dst.view = true;
            device.run(Op::Cpy, &dst, &[src]).unwrap();
            let expected = device.convert(Type::F32, ty, &f32_bytes(&x[..width as usize * 5]), width as usize * 5);
            let got = device.download(base, 4096);
            let mut at = 0;
            for expected in expected.chunks_exact(row as usize) {
                assert_eq!(got[at..at + bytes as usize], vec![0xAA; bytes as usize], "{ty} {width}");
                at += bytes as usize;
                assert_eq!(got[at..at + row as usize], *expected, "{ty} {width}");
                at += row as usize;
            }
            assert!(got[at..].iter().all(|&byte| byte == 0xAA), "{ty} {width}");
        }
    }
}

#[test]
fn strided_blocks_and_transposed_elements_are_found() {
    let device = Device::new();
    let x: Vec<f32> = (0..1920).map(|i| i as f32 - 960.0).collect();
    // The middle 64 of 192 elements of each row, as a context shift reads a cache.
    for ty in QUANTISED {
        let stored = device.convert(Type::F32, ty, &f32_bytes(&x), x.len());
        let whole = words(&device.convert(ty, Type::F32, &stored, x.len()));
        let mut src = contiguous(device.upload(&stored), ty, [192, 10, 1, 1]);
        src.addr += row_bytes(ty, 64) as u64;
        (src.ne[0], src.view) = (64, true);
        let dst = contiguous(device.upload(&[0xAA; 2560]), Type::F32, [64, 10, 1, 1]);
        device.run(Op::Cpy, &dst, &[src]).unwrap();
        let expected: Vec<u32> = whole.chunks_exact(192).flat_map(|row| &row[64..128]).copied().collect();
        assert_eq!(words(&device.download(dst.addr, 2560)), expected, "{ty}");
    }
    // Distances between neighbours below a line, of whole lines, and neither.
    for (columns, rows) in [(6, 320), (32, 60), (40, 48), (192, 10)] {
        let mut src = contiguous(device.upload(&f32_bytes(&x)), Type::F32, [rows, columns, 1, 1]);
        (src.nb[0], src.nb[1]) = (columns as u64 * 4, 4);
        let transposed: Vec<f32> =
            (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).map(|i| x[i as usize]).collect();
        for ty in [Type::F32, Type::F16] {
            let expected = device.convert(Type::F32, ty, &f32_bytes(&transposed), x.len());
            let dst = contiguous(device.upload(&vec![0xAA; expected.len()]), ty, [rows, columns, 1, 1]);
            device.run(Op::Cpy, &dst, &[src.clone()]).unwrap();
            assert_eq!(device.download(dst.addr, expected.len()), expected, "{ty} {columns} {rows}");
        }
    }
}

#[test]
fn an_index_out_of_range_is_an_error_and_writes_nothing() {
    let device = Device::new();
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let table = contiguous(device.upload(&f32_bytes(&x)), Type::F32, [16, 4, 1, 1]);
    for bad in [4i32, -1] {
        let rows = [1i32, bad].map(i32::to_le_bytes).concat();
        let rows = contiguous(device.upload(&rows), Type::I32, [2, 1, 1, 1]);
        let dst = contiguous(device.upload(&[0xAA; 128]), Type::F32, [16, 2, 1, 1]);
        assert!(matches!(device.run(Op::GetRows, &dst, &[table.clone(), rows.clone()]), Err(Failure::Kernel { .. })));
        let got = device.download(dst.addr, 128);
        assert_eq!(got[..64], f32_bytes(&x[16..32]));
        assert_eq!(got[64..], [0xAA; 64]);

        let before = device.download(table.addr - 256, 1024);
        let src = contiguous(device.upload(&f32_bytes(&[9.0; 32])), Type::F32, [16, 2, 1, 1]);
        assert!(matches!(device.run(Op::SetRows, &table, &[src, rows]), Err(Failure::Kernel { .. })));
        let after = device.download(table.addr - 256, 1024);
        assert_eq!(after[256 + 64..256 + 128], f32_bytes(&[9.0; 16]));
        assert_eq!(after[..256 + 64], before[..256 + 64]);
        assert_eq!(after[256 + 128..], before[256 + 128..]);
        device.0.driver().write(table.addr, &f32_bytes(&x)).unwrap();
    }
}
