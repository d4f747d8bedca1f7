//! Elementwise kernels on the emulated device against plain Rust: special values, accuracy near the edges, and the
//! shapes and memory layouts that the host's tests don't reach.

mod common;

use common::{contiguous, f32_bytes, f32s, Device};
use ggml_abi::{GluOp, Op, Type, UnaryOp};
use ggml_et::graph::{Node, Operand, SubOp};
use half::f16;

fn node(op: Op, sub: Option<SubOp>, dst: &Operand, sources: &[&Operand]) -> Node {
    let mut src = [const { None }; 10];
    for (slot, source) in src.iter_mut().zip(sources) {
        *slot = Some((*source).clone());
    }
    Node { op, sub, name: String::new(), dst: dst.clone(), src, params: [0; 16] }
}

fn unary(device: &Device, op: UnaryOp, x: &[f32]) -> Vec<f32> {
    let src = contiguous(device.upload(&f32_bytes(x)), Type::F32, [x.len() as i64, 1, 1, 1]);
    let dst = contiguous(device.upload(&vec![0; 4 * x.len()]), Type::F32, src.ne);
    device.run(&node(Op::Unary, Some(SubOp::Unary(op)), &dst, &[&src])).unwrap();
    f32s(&device.download(dst.addr, 4 * x.len()))
}

fn binary(device: &Device, op: Op, a: &[f32], b: &[f32]) -> Vec<f32> {
    let ne = [a.len() as i64, 1, 1, 1];
    let x = contiguous(device.upload(&f32_bytes(a)), Type::F32, ne);
    let y = contiguous(device.upload(&f32_bytes(b)), Type::F32, [b.len() as i64, 1, 1, 1]);
    let dst = contiguous(device.upload(&vec![0; 4 * a.len()]), Type::F32, ne);
    device.run(&node(op, None, &dst, &[&x, &y])).unwrap();
    f32s(&device.download(dst.addr, 4 * a.len()))
}

/// Magnitudes of all sizes, both signs.
fn spread(least: f32, greatest: f32, count: usize) -> Vec<f32> {
    let ratio = (f64::from(greatest) / f64::from(least)).ln();
    let at = |i: usize| (f64::from(least) * (ratio * i as f64 / count as f64).exp()) as f32;
    (0..count).flat_map(|i| [at(i), -at(i)]).collect()
}

/// The greatest error in units of the last place of the exact result, subnormal results aside.
fn worst_ulp(x: &[f32], y: &[f32], exact: impl Fn(f64) -> f64) -> f64 {
    let error = |(&x, &y): (&f32, &f32)| {
        let exact = exact(f64::from(x));
        if exact.abs() < f64::from(f32::MIN_POSITIVE) || exact.abs() > f64::from(f32::MAX) {
            return 0.0;
        }
        (f64::from(y) - exact).abs() / 2f64.powi(exact.abs().log2().floor() as i32 - 23)
    };
    x.iter().zip(y).map(error).fold(0.0, |worst, e| if e <= worst { worst } else { e })
}

#[test]
fn functions_are_accurate_over_their_range() {
    let device = Device::new(1);
    let wide = spread(1e-37, 100.0, 4000);
    for (op, ulp, exact) in [
        (UnaryOp::Exp, 4.0, f64::exp as fn(f64) -> f64),
        (UnaryOp::Expm1, 6.0, f64::exp_m1),
        (UnaryOp::Tanh, 4.0, f64::tanh),
        (UnaryOp::Elu, 6.0, |x| if x > 0.0 { x } else { x.exp_m1() }),
        (UnaryOp::Softplus, 9.0, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
    ] {
        let worst = worst_ulp(&wide, &unary(&device, op, &wide), exact);
        assert!(worst <= ulp, "{}: {worst} ulp", op.name());
    }
    // These end in differences from 1 that the CPU loses as well: the error counts against the argument.
    for (op, exact) in [
        (UnaryOp::Sigmoid, (|x| 1.0 / (1.0 + (-x).exp())) as fn(f64) -> f64),
        (UnaryOp::Silu, |x| x / (1.0 + (-x).exp())),
        (UnaryOp::Gelu, |x| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * x * (1.0 + 0.044715 * x * x)).tanh())),
        (UnaryOp::GeluQuick, |x| x / (1.0 + (-1.702 * x).exp())),
    ] {
        for (&x, &y) in wide.iter().zip(&unary(&device, op, &wide)) {
            let error = (f64::from(y) - exact(f64::from(x))).abs();
            assert!(error <= 3e-7 * f64::from(x.abs().max(1.0)), "{} of {x}: {y}", op.name());
        }
    }
}

#[test]
fn special_values_are_the_cpus() {
    let device = Device::new(1);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = [0.0, inf, -inf, nan, 1.0, -1.0, 3e38, -3e38, 89.0, -104.0];
    for (op, expected) in [
        (UnaryOp::Exp, [1.0, inf, 0.0, nan, 1f32.exp(), (-1f32).exp(), inf, 0.0, inf, 0.0]),
        (UnaryOp::Expm1, [0.0, inf, -1.0, nan, 1f32.exp_m1(), (-1f32).exp_m1(), inf, -1.0, inf, -1.0]),
        (UnaryOp::Tanh, [0.0, 1.0, -1.0, nan, 1f32.tanh(), -1f32.tanh(), 1.0, -1.0, 1.0, -1.0]),
        (UnaryOp::Sigmoid, [0.5, 1.0, 0.0, nan, 0.731_058_6, 0.268_941_43, 1.0, 0.0, 1.0, 0.0]),
        (UnaryOp::Silu, [0.0, inf, nan, nan, 0.731_058_6, -0.268_941_43, 3e38, 0.0, 89.0, 0.0]),
        (UnaryOp::Softplus, [2f32.ln(), inf, 0.0, nan, 1.313_261_6, 0.313_261_7, 3e38, 0.0, 89.0, 0.0]),
        (UnaryOp::GeluErf, [0.0, inf, nan, nan, 0.841_344_8, -0.158_655_25, 3e38, 0.0, 89.0, 0.0]),
        (UnaryOp::Relu, [0.0, inf, 0.0, 0.0, 1.0, 0.0, 3e38, 0.0, 89.0, 0.0]),
        (UnaryOp::Step, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]),
        (UnaryOp::Sgn, [0.0, 1.0, -1.0, 0.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0]),
        (UnaryOp::Hardsigmoid, [0.5, 1.0, 0.0, 0.0, 4.0 / 6.0, 2.0 / 6.0, 1.0, 0.0, 1.0, 0.0]),
    ] {
        for ((x, y), expected) in x.iter().zip(unary(&device, op, &x)).zip(expected) {
            let close = (y - expected).abs() <= 3e-7 * expected.abs();
            assert!(close || y == expected || (y.is_nan() && expected.is_nan()), "{} of {x}: {y}", op.name());
        }
    }
}

#[test]
fn rounding_goes_away_from_zero_on_ties() {
    let device = Device::new(1);
    let x = [0.5, -0.5, 1.5, 2.5, -2.5, 0.499_999_97, 8_388_609.0, -1.2, 1.2, f32::INFINITY];
    for (op, exact) in [
        (UnaryOp::Round, f32::round as fn(f32) -> f32),
        (UnaryOp::Floor, f32::floor),
        (UnaryOp::Ceil, f32::ceil),
        (UnaryOp::Trunc, f32::trunc),
        (UnaryOp::Abs, f32::abs),
        (UnaryOp::Neg, |x| -x),
    ] {
        assert_eq!(unary(&device, op, &x), x.map(exact), "{}", op.name());
    }
}

#[test]
fn division_is_within_an_ulp_and_keeps_special_values() {
    let device = Device::new(1);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let pairs = [
        (1.0, 0.0),
        (0.0, 0.0),
        (-1.0, 0.0),
        (inf, inf),
        (1.0, inf),
        (inf, 2.0),
        (inf, 0.0),
        (0.0, inf),
        (nan, 1.0),
        (1.0, nan),
        (1e38, 3e38),
        (3e38, 1e-30),
        (0.0, 5.0),
        (1.0, -0.0),
        (3e38, 3e38),
        (1e30, 2e38),
        (-7.0, 3.0),
        (1.5e-38, 1.2e-38),
    ];
    let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
    for ((a, b), q) in pairs.iter().zip(binary(&device, Op::Div, &a, &b)) {
        let (exact, close) = (a / b, (q - a / b).abs() <= f32::EPSILON * (a / b).abs());
        assert!(close || q == exact || (q.is_nan() && exact.is_nan()), "{a} / {b} = {q}");
    }
    let a = spread(1e-30, 1e38, 2000);
    for b in [3.0, 1.7e38, -7e-20, 1.1] {
        let worst = worst_ulp(&a, &binary(&device, Op::Div, &a, &[b]), |x| x / f64::from(b));
        assert!(worst <= 1.5, "/ {b}: {worst} ulp");
    }
}

/// Any length, in place and into a fresh tensor, on one and several shires: every element once, none beside it.
#[test]
fn every_length_is_covered_and_nothing_beside() {
    for shires in [1, 3] {
        let device = Device::new(shires);
        for n in [1usize, 7, 8, 16, 31, 33, 576, 2049, 20_000] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 + 0.25).collect();
            let mut padded = vec![-1.0; n + 32];
            padded[16..16 + n].copy_from_slice(&x);
            let addr = device.upload(&f32_bytes(&padded));
            // A view in the middle: its first and last lines hold others' bytes when n is odd.
            let place = Operand { view: true, ..contiguous(addr + 64, Type::F32, [n as i64, 1, 1, 1]) };
            device.run(&node(Op::Add, None, &place, &[&place, &place])).unwrap();
            let mut expected = padded.clone();
            expected[16..16 + n].iter_mut().for_each(|v| *v *= 2.0);
            assert_eq!(f32s(&device.download(addr, 4 * (n + 32))), expected, "{n} in place on {shires}");
            let doubled = binary(&device, Op::Add, &x, &x);
            assert!(doubled.iter().zip(&x).all(|(y, x)| *y == 2.0 * x), "{n} on {shires}");
        }
    }
}

#[test]
fn sources_repeat_in_every_dimension() {
    let device = Device::new(1);
    let ne = [12, 4, 3, 2];
    let a: Vec<f32> = (0..288).map(|i| i as f32).collect();
    for part in [[1, 1, 1, 1], [12, 1, 1, 1], [6, 2, 1, 1], [1, 4, 3, 1], [12, 4, 1, 2], [4, 1, 3, 2], [3, 2, 3, 2]] {
        let count = part.iter().product::<i64>() as usize;
        let b: Vec<f32> = (0..count).map(|i| 1000.0 * (i + 1) as f32).collect();
        let x = contiguous(device.upload(&f32_bytes(&a)), Type::F32, ne);
        let y = contiguous(device.upload(&f32_bytes(&b)), Type::F32, part);
        let dst = contiguous(device.upload(&[0; 4 * 288]), Type::F32, ne);
        device.run(&node(Op::Sub, None, &dst, &[&x, &y])).unwrap();
        let got = f32s(&device.download(dst.addr, 4 * 288));
        for (i, got) in got.iter().enumerate() {
            let index = [i % 12, i / 12 % 4, i / 48 % 3, i / 144];
            let at = (0..4).rev().fold(0, |at, d| at * part[d] as usize + index[d] % part[d] as usize);
            assert_eq!(*got, a[i] - b[at], "{part:?} at {index:?}");
        }
    }
}

#[test]
fn halves_keep_subnormals_and_odd_addresses() {
    let device = Device::new(1);
    let bits: Vec<u16> = (0..37).map(|i| if i < 30 { i * 37 } else { 0x7BFF - i }).collect();
    let bytes: Vec<u8> = [0u16; 3].iter().chain(&bits).flat_map(|h| h.to_le_bytes()).collect();
    // Three halves into a line, as rows of odd length are.
    let src = Operand { view: true, ..contiguous(device.upload(&bytes) + 6, Type::F16, [37, 1, 1, 1]) };
    for (ty, view) in [(Type::F16, false), (Type::F16, true)] {
        let dst = Operand { view, ..contiguous(device.upload(&[0; 96]), ty, src.ne) };
        device.run(&node(Op::Unary, Some(SubOp::Unary(UnaryOp::Neg)), &dst, &[&src])).unwrap();
        let got = device.download(dst.addr, 74);
        let got = got.chunks_exact(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()));
        for (got, &bits) in got.zip(&bits) {
            assert_eq!(got & 0x7FFF, bits, "{}", f16::from_bits(bits));
            assert!(bits == 0 || got >> 15 == 1);
        }
    }
}

#[test]
fn sources_with_gaps_between_elements() {
    let device = Device::new(1);
    let data: Vec<f32> = (0..20 * 9).map(|i| i as f32).collect();
    let base = contiguous(device.upload(&f32_bytes(&data)), Type::F32, [20, 9, 1, 1]);
    let transposed = Operand { ne: [9, 20, 1, 1], nb: [80, 4, 720, 720], view: true, ..base };
    let other = contiguous(device.upload(&f32_bytes(&data)), Type::F32, [9, 20, 1, 1]);
    let dst = contiguous(device.upload(&[0; 720]), Type::F32, [9, 20, 1, 1]);
    device.run(&node(Op::Add, None, &dst, &[&other, &transposed])).unwrap();
    let got = f32s(&device.download(dst.addr, 720));
    for (i, got) in got.iter().enumerate() {
        assert_eq!(*got, (i + i % 9 * 20 + i / 9) as f32);
    }
}

type Formula<'a> = &'a dyn Fn(f64, f64) -> f64;

#[test]
fn gated_units_agree_with_their_formulas() {
    let device = Device::new(1);
    let n = 75;
    let x: Vec<f32> = (0..n).map(|i| i as f32 / 5.0 - 7.0).collect();
    let y: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin() * 9.0).collect();
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (alpha, limit) = (1.702f32, 5.0f32);
    let clamped = |x: f64, y: f64| (x.min(5.0), y.clamp(-5.0, 5.0));
    let formulas: [(GluOp, Formula); 5] = [
        (GluOp::Reglu, &|x, y| x.max(0.0) * y),
        (GluOp::Swiglu, &|x, y| x * sigmoid(x) * y),
        (GluOp::GegluQuick, &|x, y| x * sigmoid(1.702 * x) * y),
        (GluOp::SwigluOai, &|x, y| {
            let (x, y) = clamped(x, y);
            x * sigmoid(1.702 * x) * (y + 1.0)
        }),
        (GluOp::SwigluClamp, &|x, y| {
            let (x, y) = clamped(x, y);
            x * sigmoid(x) * y
        }),
    ];
    for (op, formula) in formulas {
        let ne = [n as i64, 1, 1, 1];
        let a = contiguous(device.upload(&f32_bytes(&x)), Type::F32, ne);
        let b = contiguous(device.upload(&f32_bytes(&y)), Type::F32, ne);
        let dst = contiguous(device.upload(&vec![0; 4 * n]), Type::F32, ne);
        let mut node = node(Op::Glu, Some(SubOp::Glu(op)), &dst, &[&a, &b]);
        node.params[2] = alpha.to_bits() as i32;
        node.params[3] = limit.to_bits() as i32;
        device.run(&node).unwrap();
        for ((&x, &y), got) in x.iter().zip(&y).zip(f32s(&device.download(dst.addr, 4 * n))) {
            let exact = formula(f64::from(x), f64::from(y));
            assert!((f64::from(got) - exact).abs() <= 1e-6 * exact.abs().max(1.0), "{} of {x}, {y}", op.name());
        }
    }
}

#[test]
fn norms_survive_extreme_rows() {
    let device = Device::new(1);
    let n = 45usize;
    let shape = |i: usize| ((i * 7919 % 101) as f32 - 50.0) / 50.0;
    for scale in [1e-15f32, 1.0, 1e15] {
        let x: Vec<f32> = (0..3 * n).map(|i| shape(i) * scale).collect();
        let src = contiguous(device.upload(&f32_bytes(&x)), Type::F32, [n as i64, 3, 1, 1]);
        for op in [Op::RmsNorm, Op::Norm, Op::L2Norm] {
            let dst = contiguous(device.upload(&vec![0; 12 * n]), Type::F32, src.ne);
            device.run(&node(op, None, &dst, &[&src])).unwrap();
            let got = f32s(&device.download(dst.addr, 12 * n));
            for (row, got) in x.chunks(n).zip(got.chunks(n)) {
                let mean = if op == Op::Norm { row.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64 } else { 0.0 };
                let squares: f64 = row.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
                let size = if op == Op::L2Norm { squares.sqrt() } else { (squares / n as f64).sqrt() };
                for (&x, &got) in row.iter().zip(got) {
                    let exact = (f64::from(x) - mean) / size;
                    assert!((f64::from(got) - exact).abs() <= 1e-6, "{op} at scale {scale}: {got}, not {exact}");
                }
            }
        }
        let dst = contiguous(device.upload(&[0; 12]), Type::F32, [1, 3, 1, 1]);
        device.run(&node(Op::SumRows, None, &dst, &[&src])).unwrap();
        for (row, got) in x.chunks(n).zip(f32s(&device.download(dst.addr, 12))) {
            let exact: f64 = row.iter().map(|&v| f64::from(v)).sum();
            assert!((f64::from(got) - exact).abs() <= 1e-5 * f64::from(scale));
        }
    }
}
