//! MUL_MAT on the emulated device against sums in F64: scales and weights that the chip's conversion would flush, values
//! that are no numbers, and rows longer than the kernels' scratch memory. The host's tests cover shapes and strides.

mod common;

use common::{contiguous, f32_bytes, f32s, Device};
use ggml_abi::{GluOp, Op, Type};
use ggml_et::graph::{Node, Operand, SubOp};
use half::f16;

const TYPES: [Type; 6] = [Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_0, Type::Q4_1];

/// Columns that go to the dot products, to several columns of a pass, and to the tensor unit's tiles.
const COLUMNS: [usize; 3] = [1, 3, 24];

/// Reproducible numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    fn below(&mut self, n: u32) -> u32 {
        self.next() % n
    }

    /// -1 to 1.
    fn unit(&mut self) -> f32 {
        self.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Halves of which every second is a subnormal or a zero, or all are.
    fn half(&mut self, all: bool) -> f16 {
        let sign = (self.below(2) as u16) << 15;
        let small = all || self.below(2) == 0;
        f16::from_bits(sign | if small { self.below(0x400) } else { 0x400 + self.below(0x1000) } as u16)
    }
}

/// `rows` x `k` weights: as memory has them, and their values.
fn weights(ty: Type, rows: usize, k: usize, mut scale: impl FnMut(&mut Random) -> f16) -> (Vec<u8>, Vec<f64>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    let mut random = Random(rows as u64);
    let mut put = |value: f64| values.push(value);
    for _ in 0..rows * k / 32 {
        let mut scale = || scale(&mut random);
        if matches!(ty, Type::F32 | Type::F16 | Type::BF16) {
            for _ in 0..32 {
                let value = scale().to_f32();
                match ty {
                    Type::F32 => bytes.extend(value.to_le_bytes()),
                    Type::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                    _ => bytes.extend(&value.to_le_bytes()[2..]),
                }
                let kept = if ty == Type::BF16 { value.to_bits() & 0xFFFF_0000 } else { value.to_bits() };
                put(f32::from_bits(kept).into());
            }
            continue;
        }
        let d = scale();
        let m = scale();
        bytes.extend(d.to_le_bytes());
        match ty {
            Type::Q8_0 => {
                let quants: [i8; 32] = std::array::from_fn(|i| (i as i32 * 37 % 255 - 127) as i8);
                bytes.extend(quants.map(|q| q as u8));
                quants.iter().for_each(|&q| put(d.to_f64() * f64::from(q)));
            }
            _ => {
                let quants: [u8; 32] = std::array::from_fn(|i| (i as u8 * 7 + 3) % 16);
                let base = if ty == Type::Q4_1 { m.to_f64() } else { -8.0 * d.to_f64() };
                if ty == Type::Q4_1 {
                    bytes.extend(m.to_le_bytes());
                }
                bytes.extend((0..16).map(|i| quants[i] | quants[i + 16] << 4));
                quants.iter().for_each(|&q| put(d.to_f64() * f64::from(q) + base));
            }
        }
    }
    (bytes, values)
}

/// Multiplies on the device.
fn multiply(device: &Device, ty: Type, bytes: &[u8], rows: usize, x: &[f32], columns: usize) -> Vec<f32> {
    let k = (x.len() / columns) as i64;
    let w = contiguous(device.upload(bytes), ty, [k, rows as i64, 1, 1]);
    let x = contiguous(device.upload(&f32_bytes(x)), Type::F32, [k, columns as i64, 1, 1]);
    let dst =
        contiguous(device.upload(&vec![0xAA; 4 * rows * columns]), Type::F32, [rows as i64, columns as i64, 1, 1]);
    let mut src = [const { None }; 10];
    (src[0], src[1]) = (Some(w), Some(x));
    let addr = dst.addr;
    device.run(&Node { op: Op::MulMat, sub: None, name: String::new(), dst, src, params: [0; 16] }).unwrap();
    f32s(&device.download(addr, 4 * rows * columns))
}

/// Compares column by column: sums that are no numbers must be no numbers, and the others' mean squared error is small:
/// that of columns rounded to 8 bits would be a thousand times the limit.
fn compare(what: &str, got: &[f32], weights: &[f64], x: &[f32], rows: usize) {
    let k = weights.len() / rows;
    let (mut error, mut size) = (0.0, 0.0);
    for (got, x) in got.chunks_exact(rows).zip(x.chunks_exact(k)) {
        for (&got, w) in got.iter().zip(weights.chunks_exact(k)) {
            let want: f64 = w.iter().zip(x).map(|(&w, &x)| w * f64::from(x)).sum();
            assert_eq!(got.is_finite(), want.is_finite(), "{what}: {got} instead of {want}");
            if want.is_finite() {
                error += (f64::from(got) - want).powi(2);
                size += want * want;
            }
        }
    }
    assert!(error <= 3e-8 * size, "{what}: normalised mean squared error {:e}", error / size);
}

fn column(random: &mut Random, n: usize) -> Vec<f32> {
    (0..n).map(|_| random.unit()).collect()
}

#[test]
fn subnormal_halves_count() {
    let device = Device::new(1);
    let mut random = Random(1);
    for ty in TYPES {
        for columns in COLUMNS {
            for (rows, k, all) in [(40, 160, true), (40, 160, false), (16, 64, false)] {
                let (bytes, values) = weights(ty, rows, k, |random| random.half(all));
                let x = column(&mut random, columns * k);
                let got = multiply(&device, ty, &bytes, rows, &x, columns);
                compare(&format!("{ty}, {columns} columns, all {all}"), &got, &values, &x, rows);
            }
        }
    }
}

#[test]
fn a_column_with_nan_or_infinity_leaves_the_others_alone() {
    let device = Device::new(1);
    let mut random = Random(2);
    let (rows, k) = (20, 160);
    for ty in TYPES {
        for columns in [3, 24] {
            for odd in [f32::NAN, f32::INFINITY] {
                let (bytes, values) =
                    weights(ty, rows, k, |random| f16::from_bits(0x2000 + random.below(0x1000) as u16));
                let mut x = column(&mut random, columns * k);
                x[k + 5] = odd;
                let got = multiply(&device, ty, &bytes, rows, &x, columns);
                compare(&format!("{ty}, {columns} columns, {odd}"), &got, &values, &x, rows);
            }
        }
    }
}

#[test]
fn long_rows_are_cut() {
    let device = Device::new(2);
    let mut random = Random(3);
    for ty in TYPES {
        for columns in COLUMNS {
            let (rows, k) = (5, 6144 + 96);
            let (bytes, values) = weights(ty, rows, k, |random| f16::from_f32(random.unit()));
            let x = column(&mut random, columns * k);
            let got = multiply(&device, ty, &bytes, rows, &x, columns);
            compare(&format!("{ty}, {columns} columns"), &got, &values, &x, rows);
        }
    }
}

/// Runs nodes one by one and then as one group; both times all results must be the same.
fn compare_group(what: &str, device: &Device, nodes: &[Node], bytes: usize) {
    let results = || nodes.iter().map(|node| device.download(node.dst.addr, bytes)).collect::<Vec<_>>();
    nodes.iter().for_each(|node| device.run(node).unwrap());
    let single = results();
    nodes.iter().for_each(|node| device.fill(node.dst.addr, bytes, 0xAA));
    device.run_group(nodes).unwrap();
    assert!(single == results(), "{what}");
}

#[test]
fn groups_give_the_bits_of_their_members() {
    let device = Device::new(2);
    let mut random = Random(4);
    let (rows, k) = (88, 320);
    for ty in TYPES {
        for columns in COLUMNS {
            let ne = [rows as i64, columns as i64, 1, 1];
            let floats = |random: &mut Random, n: usize| device.upload(&f32_bytes(&column(random, n)));
            let x = contiguous(floats(&mut random, columns * k), Type::F32, [k as i64, columns as i64, 1, 1]);
            let node = |op, sub, sources: [&Operand; 2]| {
                let dst = contiguous(device.upload(&vec![0; 4 * rows * columns]), Type::F32, ne);
                let mut src = [const { None }; 10];
                (src[0], src[1]) = (Some(sources[0].clone()), Some(sources[1].clone()));
                Node { op, sub, name: String::new(), dst, src, params: [0; 16] }
            };
            let mut product = || {
                let (bytes, _) = weights(ty, rows, k, |_| f16::from_f32(random.unit()));
                let w = contiguous(device.upload(&bytes), ty, [k as i64, rows as i64, 1, 1]);
                node(Op::MulMat, None, [&w, &x])
            };
            let (a, b, c) = (product(), product(), product());
            let what = format!("{ty}, {columns} columns");
            let bytes = 4 * rows * columns;
            compare_group(&what, &device, &[a.clone(), b.clone(), c], bytes);
            for added in [ne, [rows as i64, 1, 1, 1]] {
                let n = (added[0] * added[1]) as usize;
                let other = contiguous(floats(&mut random, n), Type::F32, added);
                compare_group(&what, &device, &[a.clone(), node(Op::Add, None, [&a.dst, &other])], bytes);
            }
            if columns < 24 && !matches!(ty, Type::F32 | Type::F16 | Type::BF16) {
                let glu = |x: &Node, y: &Node| node(Op::Glu, Some(SubOp::Glu(GluOp::Swiglu)), [&x.dst, &y.dst]);
                compare_group(&what, &device, &[a.clone(), b.clone(), glu(&a, &b)], bytes);
                compare_group(&what, &device, &[a.clone(), b.clone(), glu(&b, &a)], bytes);
            }
        }
    }
}
