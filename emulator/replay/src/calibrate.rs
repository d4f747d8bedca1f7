//! How fast the host is: a loop of its own instructions, so that rates of different machines and moments can be compared.

use crate::measure::cpu_time;
use std::hint::black_box;

const STEPS: u64 = 1 << 26;

/// Millions of steps per second of processor time through a chain of xorshifts and multiplications, as of xorshift64*.
pub fn calibrate() -> f64 {
    let start = cpu_time();
    let mut state = black_box(0x9E37_79B9_7F4A_7C15u64);
    let mut sum = 0u64;
    for _ in 0..STEPS {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        sum = sum.wrapping_add(state.wrapping_mul(0x2545_F491_4F6C_DD1D));
    }
    black_box(sum);
    STEPS as f64 / (cpu_time() - start).as_secs_f64() / 1e6
}
