//! What llama.cpp does in place to a KV cache must be possible on the device, whatever the cache's type: nobody else can
//! write there, and llama.cpp aborts when it is refused (design rule 3).

#[allow(dead_code)] // shared with other tests
mod common;

use common::{contiguous, Device};
use ggml_abi::{Op, Type};
use ggml_et::graph::{Node, Operand};
use ggml_et::ops::lower;

/// The types that `-ctk` and `-ctv` offer.
const CACHE: [Type; 9] =
    [Type::F32, Type::F16, Type::BF16, Type::Q8_0, Type::Q4_0, Type::Q4_1, Type::IQ4_NL, Type::Q5_0, Type::Q5_1];

fn node(op: Op, dst: Operand, sources: &[Operand], params: [i32; 16]) -> Node {
    let mut src = [const { None }; 10];
    for (slot, source) in src.iter_mut().zip(sources) {
        *slot = Some(source.clone());
    }
    Node { op, sub: None, name: "cache_k_l0 (view)".into(), dst, src, params }
}

fn rope_params(n_dims: i32, mode: i32) -> [i32; 16] {
    let mut params = [0; 16];
    params[1] = n_dims;
    params[2] = mode;
    for (i, value) in [(5, 10_000f32), (6, 1.0), (8, 1.0), (9, 32.0), (10, 1.0)] {
        params[i] = value.to_bits() as i32;
    }
    params
}

/// Part of a cache: `ne[1]` heads of `ne[2]` cells, in cells that are longer.
fn cells(addr: u64, ty: Type, ne: [i64; 4]) -> Operand {
    let mut view = contiguous(addr, ty, ne);
    view.nb[2] *= 2;
    view.nb[3] = view.nb[2] * ne[2] as u64;
    view.view = true;
    view
}

#[test]
fn every_cache_type_can_be_written_and_shifted() {
    let f32s = |ne| contiguous(0, Type::F32, ne);
    for ty in CACHE {
        let ok = |what: &str, node: Node| {
            if let Err(refusal) = lower(&node) {
                panic!("{what} of a {ty} cache: {refusal}");
            }
        };
        let cache = cells(0, ty, [64, 3, 16, 1]);
        let rows = contiguous(0, ty, [192, 32, 1, 1]);
        for index in [Type::I32, Type::I64] {
            let sources = [f32s([192, 5, 1, 1]), contiguous(0, index, [5, 1, 1, 1]), rows.clone()];
            ok("SET_ROWS", node(Op::SetRows, rows.clone(), &sources, [0; 16]));
        }
        let values = f32s([64, 3, 16, 1]);
        ok("CPY to a part", node(Op::Cpy, cache.clone(), &[values.clone(), cache.clone()], [0; 16]));
        ok("CPY from a part", node(Op::Cpy, values.clone(), &[cache.clone(), values.clone()], [0; 16]));
        if matches!(ty, Type::F32 | Type::F16 | Type::BF16) {
            let positions = contiguous(0, Type::I32, [16, 1, 1, 1]);
            for mode in [0, 2] {
                let sources = [cache.clone(), positions.clone()];
                ok("ROPE in place", node(Op::Rope, cache.clone(), &sources, rope_params(64, mode)));
            }
        }
    }
}

fn bf16(value: f32) -> u16 {
    (value.to_bits() >> 16) as u16
}

#[test]
fn a_bf16_cache_is_rotated_in_place() {
    let device = Device::new(1);
    let (row, heads, tokens) = (20usize, 3usize, 4usize);
    let values: Vec<f32> = (0..row * heads * tokens * 2).map(|i| ((i * 37 % 101) as f32 - 50.0) / 8.0).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|&value| bf16(value).to_le_bytes()).collect();
    let positions: Vec<u8> = [0i32, 1, -7, 300].iter().flat_map(|position| position.to_le_bytes()).collect();
    for mode in [0, 2] {
        let addr = device.upload(&bytes);
        let cache = cells(addr, Type::BF16, [row as i64, heads as i64, tokens as i64, 1]);
        let index = contiguous(device.upload(&positions), Type::I32, [4, 1, 1, 1]);
        let pairs = 8usize;
        let node = node(Op::Rope, cache.clone(), &[cache.clone(), index], rope_params(2 * pairs as i32, mode));
        device.run(&node).unwrap();
        let after = device.download(addr, bytes.len());
        let after = |i: usize| f32::from_bits(u32::from(u16::from_le_bytes([after[2 * i], after[2 * i + 1]])) << 16);

        let mut expected = values.clone();
        for token in 0..tokens {
            let position = [0f64, 1.0, -7.0, 300.0][token];
            for head in 0..heads {
                let at = (token * heads * 2 + head) * row;
                for pair in 0..pairs {
                    let angle = position * 10_000f64.powf(-(pair as f64) / pairs as f64);
                    let (a, b) = if mode == 0 { (2 * pair, 2 * pair + 1) } else { (pair, pair + pairs) };
                    let (x, y) = (f64::from(values[at + a]), f64::from(values[at + b]));
                    expected[at + a] = (x * angle.cos() - y * angle.sin()) as f32;
                    expected[at + b] = (x * angle.sin() + y * angle.cos()) as f32;
                }
            }
        }
        for (i, &value) in expected.iter().enumerate() {
            let error = (after(i) - value).abs();
            assert!(error <= value.abs() / 256.0 + 1e-3, "mode {mode}, element {i}: {} for {value}", after(i));
        }
    }
    // The values above are exact in BF16, so that what was not rotated is unchanged.
    assert!(values.iter().all(|&value| f32::from_bits(u32::from(bf16(value)) << 16) == value));
}
