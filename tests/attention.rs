//! ROPE, SOFT_MAX and FLASH_ATTN_EXT on the emulated device against plain Rust in double precision: angles of any size,
//! rows that share cache lines with others, hidden keys, subnormal caches, and any number of shires.

mod common;

use common::{contiguous, f32_bytes, f32s, Device};
use ggml_abi::{Op, Type};
use ggml_et::graph::{Node, Operand};
use half::f16;

fn node(op: Op, dst: &Operand, sources: &[Option<&Operand>], params: &[i32]) -> Node {
    let mut src = [const { None }; 10];
    for (slot, source) in src.iter_mut().zip(sources) {
        *slot = source.cloned();
    }
    let mut all = [0; 16];
    all[..params.len()].copy_from_slice(params);
    Node { op, sub: None, name: String::new(), dst: dst.clone(), src, params: all }
}

fn bits(value: f32) -> i32 {
    value.to_bits() as i32
}

fn f16_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect()
}

/// Numbers between -1 and 1 that look random.
fn noise(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as i32 as f32 / 2f32.powi(31)
    };
    (0..count).map(|_| next()).collect()
}

fn assert_close(got: &[f32], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(got) - want).abs() <= tolerance, "{what}, element {i}: {got} is not {want}");
    }
}

const NORMAL: i32 = 0;
const NEOX: i32 = 2;

fn rope_params(n_dims: i32, mode: i32, offset: i32) -> [i32; 16] {
    let mut params = [0; 16];
    params[1..5].copy_from_slice(&[n_dims, mode, 0, 4096]);
    params[5..9].copy_from_slice(&[10000.0, 1.0, 0.0, 1.0].map(bits));
    params[15] = offset;
    params
}

/// One row's rotation. Angles are multiplied up in single precision: that is their definition.
fn rotated(row: &[f32], position: i32, n_dims: usize, mode: i32, offset: usize) -> Vec<f64> {
    let mut out: Vec<f64> = row.iter().map(|&x| f64::from(x)).collect();
    let scale = 10000f32.powf(-2.0 / n_dims as f32);
    let mut theta = position as f32;
    for pair in 0..n_dims / 2 {
        let (a, b) = if mode == NORMAL { (2 * pair, 2 * pair + 1) } else { (pair, pair + n_dims / 2) };
        let (a, b) = (offset + a, offset + b);
        let (sin, cos) = f64::from(theta).sin_cos();
        let (x, y) = (f64::from(row[a]), f64::from(row[b]));
        out[a] = x * cos - y * sin;
        out[b] = x * sin + y * cos;
        theta *= scale;
    }
    out
}

const POSITIONS: [i32; 7] = [0, -1, 131_075, -1_000_003, 262_145, i32::MAX, i32::MIN];

#[test]
fn angles_of_any_size_are_exact() {
    let device = Device::new(1);
    let (width, heads, tokens) = (72, 3, POSITIONS.len());
    let x = noise(1, width * heads * tokens);
    let src = contiguous(device.upload(&f32_bytes(&x)), Type::F32, [width as i64, heads as i64, tokens as i64, 1]);
    let positions: Vec<u8> = POSITIONS.iter().flat_map(|p| p.to_le_bytes()).collect();
    let positions = contiguous(device.upload(&positions), Type::I32, [tokens as i64, 1, 1, 1]);
    for (mode, offset) in [(NORMAL, 0), (NEOX, 0), (NORMAL, 8), (NEOX, 8)] {
        let dst = Operand { addr: device.upload(&vec![0; 4 * x.len()]), ..src.clone() };
        let params = rope_params(64, mode, offset);
        device.run(&node(Op::Rope, &dst, &[Some(&src), Some(&positions)], &params)).unwrap();
        let want: Vec<f64> = x
            .chunks(width)
            .enumerate()
            .flat_map(|(row, x)| rotated(x, POSITIONS[row / heads], 64, mode, offset as usize))
            .collect();
        let got = f32s(&device.download(dst.addr, 4 * x.len()));
        assert_close(&got, &want, 1e-6, &format!("mode {mode}, offset {offset}"));
    }
}

#[test]
fn rotation_leaves_the_neighbours_in_a_line_alone() {
    // Rows of 20 halves in the midst of rows of 23: lines are shared with other rows and with what is between them.
    let device = Device::new(1);
    let (width, pitch, heads, tokens) = (20, 23, 5, POSITIONS.len());
    let x: Vec<f32> = noise(2, pitch * heads * tokens).iter().map(|&x| f16::from_f32(x).to_f32()).collect();
    let addr = device.upload(&f16_bytes(&x));
    let row = 2 * pitch as u64;
    let view = Operand {
        addr,
        ty: Type::F16,
        ne: [width as i64, heads as i64, tokens as i64, 1],
        nb: [2, row, row * heads as u64, row * (heads * tokens) as u64],
        view: true,
    };
    let positions: Vec<u8> = POSITIONS.iter().flat_map(|p| p.to_le_bytes()).collect();
    let positions = contiguous(device.upload(&positions), Type::I32, [tokens as i64, 1, 1, 1]);
    let params = rope_params(20, NEOX, 0);
    device.run(&node(Op::Rope, &view, &[Some(&view), Some(&positions)], &params)).unwrap();
    let want: Vec<f64> =
        x.chunks(pitch).enumerate().flat_map(|(row, x)| rotated(x, POSITIONS[row / heads], 20, NEOX, 0)).collect();
    let halves = device.download(addr, 2 * x.len());
    let got: Vec<f32> = halves.chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
    assert_close(&got, &want, 1e-3, "rotated in place");
}

/// exp(x) / sum exp(x) with a sink's share in the sum; zeros when everything is hidden and there is no sink.
fn soft_max(x: &[f64], sink: Option<f64>) -> Vec<f64> {
    let greatest = x.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    if greatest == f64::NEG_INFINITY {
        return vec![0.0; x.len()];
    }
    let sum: f64 = x.iter().copied().chain(sink).map(|x| (x - greatest).exp()).sum();
    x.iter().map(|x| (x - greatest).exp() / sum).collect()
}

#[test]
fn soft_max_rows_may_share_lines() {
    let device = Device::new(1);
    let (width, pitch, rows, heads) = (45, 47, 3, 3);
    let x = noise(3, pitch * rows * heads);
    let mask: Vec<f32> = noise(4, width * rows).iter().map(|&m| if m > 0.5 { f32::NEG_INFINITY } else { m }).collect();
    let sinks = [0.5, -2.0, 3.0];
    let row = 4 * pitch as u64;
    let view = |addr| Operand {
        addr,
        ty: Type::F32,
        ne: [width as i64, rows as i64, heads as i64, 1],
        nb: [4, row, row * rows as u64, row * (rows * heads) as u64],
        view: true,
    };
    let (src, dst) = (view(device.upload(&f32_bytes(&x))), view(device.upload(&f32_bytes(&vec![7.0; x.len()]))));
    let mask_at = contiguous(device.upload(&f16_bytes(&mask)), Type::F16, [width as i64, rows as i64, 1, 1]);
    let sinks_at = contiguous(device.upload(&f32_bytes(&sinks)), Type::F32, [3, 1, 1, 1]);
    let sources = [Some(&src), Some(&mask_at), Some(&sinks_at)];
    device.run(&node(Op::SoftMax, &dst, &sources, &[bits(2.0), bits(4.0)])).unwrap();
    // Three heads: two with slopes 2^-2 and 2^-4, one beyond with 2^-1.
    let slopes = [0.25, 0.0625, 0.5];
    let mut want = vec![7.0; x.len()];
    for (r, out) in want.chunks_mut(pitch).enumerate() {
        let (head, row) = (r / rows, r % rows);
        let logit = |i: usize| {
            let masked = f64::from(f16::from_f32(mask[row * width + i]).to_f32());
            2.0 * f64::from(x[r * pitch + i]) + slopes[head] * masked
        };
        let logits: Vec<f64> = (0..width).map(logit).collect();
        out[..width].copy_from_slice(&soft_max(&logits, Some(f64::from(sinks[head]))));
    }
    assert_close(&f32s(&device.download(dst.addr, 4 * x.len())), &want, 1e-6, "weights");
}

/// One FLASH_ATTN_EXT: heads of `dk` and `dv` elements, `heads` of Q over `k_heads` and `v_heads`.
struct Attention {
    dk: usize,
    dv: usize,
    heads: usize,
    k_heads: usize,
    v_heads: usize,
    tokens: usize,
    keys: usize,
    ty: Type,
    magnitude: f32,
    softcap: f32,
}

impl Attention {
    /// Runs it; token t sees the keys up to the last but (tokens - 1 - t), and the last 5 keys, hidden from all, are NaN.
    fn check(&self, device: &Device) {
        let Attention { dk, dv, heads, tokens, keys, .. } = *self;
        let visible = |token: usize| keys - 5 - (tokens - 1 - token).min(keys - 5);
        let cache = |seed, width: usize, heads: usize| {
            let mut data: Vec<f32> = noise(seed, width * keys * heads).iter().map(|x| x * self.magnitude).collect();
            for head in data.chunks_mut(width * keys) {
                head[width * (keys - 5)..].fill(f32::NAN);
            }
            let bytes = if self.ty == Type::F16 { f16_bytes(&data) } else { f32_bytes(&data) };
            if self.ty == Type::F16 {
                data.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
            }
            (data, contiguous(device.upload(&bytes), self.ty, [width as i64, keys as i64, heads as i64, 1]))
        };
        let (k, k_at) = cache(11, dk, self.k_heads);
        let (v, v_at) = cache(12, dv, self.v_heads);
        let q = noise(13, dk * tokens * heads);
        let q_at = contiguous(device.upload(&f32_bytes(&q)), Type::F32, [dk as i64, tokens as i64, heads as i64, 1]);
        let hidden = |i: usize| if i % keys < visible(i / keys) { 0.0 } else { f32::NEG_INFINITY };
        let mask: Vec<f32> = (0..keys * tokens).map(hidden).collect();
        let mask_at = contiguous(device.upload(&f16_bytes(&mask)), Type::F16, [keys as i64, tokens as i64, 1, 1]);
        let dst_ne = [dv as i64, heads as i64, tokens as i64, 1];
        let dst = contiguous(device.upload(&vec![0xFF; 4 * dv * heads * tokens]), Type::F32, dst_ne);

        let scale = 1.0 / (self.magnitude * (dk as f32).sqrt());
        let params = [bits(scale), 0, bits(self.softcap)];
        let sources = [Some(&q_at), Some(&k_at), Some(&v_at), Some(&mask_at)];
        device.run(&node(Op::FlashAttnExt, &dst, &sources, &params)).unwrap();

        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        let row = |data: &[f32], width: usize, i: usize| data[i * width..(i + 1) * width].to_vec();
        let mut want = Vec::new();
        for (token, head) in (0..tokens).flat_map(|token| (0..heads).map(move |head| (token, head))) {
            let query = row(&q, dk, head * tokens + token);
            let logit = |key: usize| {
                let s = f64::from(scale) * dot(&query, &row(&k, dk, head * self.k_heads / heads * keys + key));
                let cap = f64::from(self.softcap);
                if cap == 0.0 {
                    s
                } else {
                    cap * (s / cap).tanh()
                }
            };
            let weights = soft_max(&(0..visible(token)).map(logit).collect::<Vec<f64>>(), None);
            let mut sum = vec![0.0; dv];
            for (key, weight) in weights.iter().enumerate() {
                for (sum, &v) in sum.iter_mut().zip(&row(&v, dv, head * self.v_heads / heads * keys + key)) {
                    *sum += weight * f64::from(v);
                }
            }
            want.extend(sum);
        }
        let got = f32s(&device.download(dst.addr, 4 * want.len()));
        let what = format!("{dk}/{dv}, {heads} heads, {tokens} tokens, {keys} keys, {:?}", self.ty);
        assert_close(&got, &want, 2e-6 * f64::from(self.magnitude), &what);
    }
}

const PLAIN: Attention = Attention {
    dk: 64,
    dv: 64,
    heads: 6,
    k_heads: 2,
    v_heads: 2,
    tokens: 1,
    keys: 150,
    ty: Type::F16,
    magnitude: 1.0,
    softcap: 0.0,
};

#[test]
fn attention_agrees_on_any_number_of_shires() {
    // Ranges of keys go to different minions when there are many; the rows of 40 tokens fill several blocks.
    for shires in [1, 3] {
        let device = Device::new(shires);
        PLAIN.check(&device);
        Attention { keys: 37, ..PLAIN }.check(&device);
        Attention { tokens: 40, ..PLAIN }.check(&device);
        Attention { tokens: 5, softcap: 3.0, ..PLAIN }.check(&device);
    }
}

#[test]
fn attention_takes_heads_of_any_size() {
    let device = Device::new(1);
    for (dk, dv) in [(65, 67), (40, 8), (1, 3), (576, 512), (300, 272)] {
        Attention { dk, dv, tokens: 3, ..PLAIN }.check(&device);
    }
    Attention { dk: 33, dv: 31, ty: Type::F32, ..PLAIN }.check(&device);
    Attention { v_heads: 3, tokens: 2, ..PLAIN }.check(&device);
}

#[test]
fn subnormal_caches_are_exact() {
    let device = Device::new(1);
    Attention { magnitude: 4e-5, ..PLAIN }.check(&device);
    Attention { magnitude: 4e-6, tokens: 20, dk: 72, dv: 72, ..PLAIN }.check(&device);
}
