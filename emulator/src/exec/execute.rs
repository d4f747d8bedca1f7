//! What each instruction does: one arm per row of the instruction table.

use et_isa::Op;

use super::interp::Position;
use super::vector::{immediate_float, scalar};
use super::{Core, Done, Exit};
use crate::code::Slot;
use crate::fp::{self, Rounding};
use crate::platform::{Atomic, Level, Platform};
use crate::simd::{self, each, Vectors};
use crate::trap::{Cause, Trap};

/// Executes `op` with the operands in `s`.
#[inline(always)]
pub(super) fn execute<'p, P: Platform, V: Vectors, const FLAGS: bool>(
    core: &mut Core<'_, P, V, FLAGS>,
    op: Op,
    mut s: &'p Slot,
    at: &mut Position,
    page: &'p [Slot],
) -> Done {
    // Macros, not functions over closures: the fast forms must be inlined here, where the host's vector instructions
    // are switched on.
    macro_rules! values {
        (|$a:ident| $result:expr) => {{
            let $a = core.f(s.rs1);
            each!(|$a| $result)
        }};
        (|$a:ident, $b:ident| $result:expr) => {{
            let ($a, $b) = (core.f(s.rs1), core.f(s.rs2));
            each!(|$a, $b| $result)
        }};
        (|$a:ident, $b:ident, $c:ident| $result:expr) => {{
            let ($a, $b, $c) = (core.f(s.rs1), core.f(s.rs2), core.f(s.rs3));
            each!(|$a, $b, $c| $result)
        }};
    }
    // Operations on bits and integers.
    macro_rules! lanes {
        ($($function:tt)*) => {
            core.write(s.rd, values!($($function)*))
        };
    }
    // Float operations that do not round by a mode.
    macro_rules! plain {
        ($fast:path, $exact:expr, $by_lane:ident, $($source:ident),*) => {
            if FLAGS { core.$by_lane(s, $exact) } else { core.write(s.rd, $fast($(core.f(s.$source)),*)) }
        };
    }
    macro_rules! compare {
        ($write:ident, $fast:path, $exact:expr) => {{
            let holds = if FLAGS { core.exact_compare(s, $exact) } else { $fast(core.f(s.rs1), core.f(s.rs2)) };
            core.$write(s.rd, holds)
        }};
    }
    // Float operations that are fast when they round to nearest.
    macro_rules! rounded {
        ($fast:path, $exact:expr, $by_lane:ident, $($source:ident),*) => {
            rounded!(core.rounding(s), $fast, $exact, $by_lane, $($source),*)
        };
        ($rm:expr, $fast:path, $exact:expr, $by_lane:ident, $($source:ident),*) => {
            match $rm {
                Ok(Rounding::Nearest) if !FLAGS => core.write(s.rd, $fast($(core.f(s.$source)),*)),
                Ok(rm) => core.$by_lane(s, rm, $exact),
                Err(exit) => Err(exit),
            }
        };
    }
    // What often comes several times in a row.
    macro_rules! repeated {
        ($done:expr) => {
            loop {
                let done = $done;
                if done.is_err() {
                    break done;
                }
                match at.repeat::<P>(page, op) {
                    Some(next) => s = next,
                    None => break done,
                }
            }
        };
    }
    // Arithmetic. The rare vectors that need care are read again, so that the common path need not keep them.
    macro_rules! arithmetic {
        ($name:ident, $again:ident, $by_lane:ident, $($source:ident),*) => {
            match core.rounding(s) {
                Ok(Rounding::Nearest) if !FLAGS => match core.vectors.$name($(core.f(s.$source)),*) {
                    Some(r) => core.write(s.rd, r),
                    None => core.$again(s, simd::careful::$name),
                },
                Ok(rm) => core.$by_lane(s, rm, fp::$name),
                Err(exit) => Err(exit),
            }
        };
    }
    // Arithmetic on lane 0; what the fast form makes of the zeros in the other lanes is dropped.
    macro_rules! scalar {
        ($name:ident, $by_lane:ident, $($source:ident),*) => {
            match core.rounding(s) {
                Ok(Rounding::Nearest) if !FLAGS => match core.vectors.$name($(scalar(core.lane0(s.$source))),*) {
                    Some(r) => core.write_scalar(s.rd, r[0]),
                    None => core.$by_lane(s, Rounding::Nearest, fp::$name),
                },
                Ok(rm) => core.$by_lane(s, rm, fp::$name),
                Err(exit) => Err(exit),
            }
        };
    }
    macro_rules! pick {
        ($name:ident) => {
            if FLAGS {
                core.exact_plain2(s, fp::$name)
            } else {
                match core.vectors.$name(core.f(s.rs1), core.f(s.rs2)) {
                    Some(r) => core.write(s.rd, r),
                    None => core.again2(s, simd::careful::$name),
                }
            }
        };
    }
    // Operations that are fast in all modes that the host has instructions for.
    macro_rules! by_mode {
        ($fast:path, $exact:expr) => {
            match core.rounding(s) {
                Ok(Rounding::Nearest) if !FLAGS => core.write(s.rd, $fast(core.f(s.rs1), Rounding::Nearest)),
                Ok(Rounding::Zero) if !FLAGS => core.write(s.rd, $fast(core.f(s.rs1), Rounding::Zero)),
                Ok(Rounding::Down) if !FLAGS => core.write(s.rd, $fast(core.f(s.rs1), Rounding::Down)),
                Ok(Rounding::Up) if !FLAGS => core.write(s.rd, $fast(core.f(s.rs1), Rounding::Up)),
                Ok(rm) => core.exact1(s, rm, $exact),
                Err(exit) => Err(exit),
            }
        };
    }
    match op {
        // Integer.
        Op::Lui => core.int(s, s.imm as i64 as u64),
        Op::Auipc => core.int(s, at.pc().wrapping_add(s.imm as i64 as u64)),
        Op::Addi => repeated!(core.int(s, core.x(s.rs1).wrapping_add(s.imm as i64 as u64))),
        Op::Slti => core.int(s, ((core.x(s.rs1) as i64) < s.imm as i64) as u64),
        Op::Sltiu => core.int(s, (core.x(s.rs1) < s.imm as i64 as u64) as u64),
        Op::Xori => core.int(s, core.x(s.rs1) ^ s.imm as i64 as u64),
        Op::Ori => core.int(s, core.x(s.rs1) | s.imm as i64 as u64),
        Op::Andi => core.int(s, core.x(s.rs1) & s.imm as i64 as u64),
        Op::Slli => core.int(s, core.x(s.rs1) << (s.imm & 63)),
        Op::Srli => core.int(s, core.x(s.rs1) >> (s.imm & 63)),
        Op::Srai => core.int(s, (core.x(s.rs1) as i64 >> (s.imm & 63)) as u64),
        Op::Add => repeated!(core.int(s, core.x(s.rs1).wrapping_add(core.x(s.rs2)))),
        Op::Sub => core.int(s, core.x(s.rs1).wrapping_sub(core.x(s.rs2))),
        Op::Sll => core.int(s, core.x(s.rs1) << (core.x(s.rs2) & 63)),
        Op::Slt => core.int(s, ((core.x(s.rs1) as i64) < core.x(s.rs2) as i64) as u64),
        Op::Sltu => core.int(s, (core.x(s.rs1) < core.x(s.rs2)) as u64),
        Op::Xor => core.int(s, core.x(s.rs1) ^ core.x(s.rs2)),
        Op::Srl => core.int(s, core.x(s.rs1) >> (core.x(s.rs2) & 63)),
        Op::Sra => core.int(s, (core.x(s.rs1) as i64 >> (core.x(s.rs2) & 63)) as u64),
        Op::Or => core.int(s, core.x(s.rs1) | core.x(s.rs2)),
        Op::And => core.int(s, core.x(s.rs1) & core.x(s.rs2)),
        Op::Addiw => core.int(s, word(core.x(s.rs1).wrapping_add(s.imm as i64 as u64) as u32)),
        Op::Slliw => core.int(s, word((core.x(s.rs1) as u32) << (s.imm & 31))),
        Op::Srliw => core.int(s, word(core.x(s.rs1) as u32 >> (s.imm & 31))),
        Op::Sraiw => core.int(s, (core.x(s.rs1) as i32 >> (s.imm & 31)) as u64),
        Op::Addw => core.int(s, word(core.x(s.rs1).wrapping_add(core.x(s.rs2)) as u32)),
        Op::Subw => core.int(s, word(core.x(s.rs1).wrapping_sub(core.x(s.rs2)) as u32)),
        Op::Sllw => core.int(s, word((core.x(s.rs1) as u32) << (core.x(s.rs2) & 31))),
        Op::Srlw => core.int(s, word(core.x(s.rs1) as u32 >> (core.x(s.rs2) & 31))),
        Op::Sraw => core.int(s, (core.x(s.rs1) as i32 >> (core.x(s.rs2) & 31)) as u64),
        Op::Mul => core.int(s, core.x(s.rs1).wrapping_mul(core.x(s.rs2))),
        Op::Mulh => core.int(s, ((core.x(s.rs1) as i64 as i128 * core.x(s.rs2) as i64 as i128) >> 64) as u64),
        Op::Mulhsu => core.int(s, ((core.x(s.rs1) as i64 as i128 * core.x(s.rs2) as i128) >> 64) as u64),
        Op::Mulhu => core.int(s, ((core.x(s.rs1) as u128 * core.x(s.rs2) as u128) >> 64) as u64),
        Op::Div => core.int(s, div(core.x(s.rs1) as i64, core.x(s.rs2) as i64)),
        Op::Divu => core.int(s, core.x(s.rs1).checked_div(core.x(s.rs2)).unwrap_or(u64::MAX)),
        Op::Rem => core.int(s, rem(core.x(s.rs1) as i64, core.x(s.rs2) as i64)),
        Op::Remu => core.int(s, core.x(s.rs1).checked_rem(core.x(s.rs2)).unwrap_or(core.x(s.rs1))),
        Op::Mulw => core.int(s, word(core.x(s.rs1).wrapping_mul(core.x(s.rs2)) as u32)),
        Op::Divw => core.int(s, word(div(core.x(s.rs1) as i32 as i64, core.x(s.rs2) as i32 as i64) as u32)),
        Op::Divuw => core.int(s, word((core.x(s.rs1) as u32).checked_div(core.x(s.rs2) as u32).unwrap_or(u32::MAX))),
        Op::Remw => core.int(s, word(rem(core.x(s.rs1) as i32 as i64, core.x(s.rs2) as i32 as i64) as u32)),
        Op::Remuw => {
            core.int(s, word((core.x(s.rs1) as u32).checked_rem(core.x(s.rs2) as u32).unwrap_or(core.x(s.rs1) as u32)))
        }
        Op::Packb => core.int(s, (core.x(s.rs2) & 0xFF) << 8 | core.x(s.rs1) & 0xFF),
        // Control.
        Op::Jal => {
            core.set_x(s.rd, at.link());
            at.branch(s, true)
        }
        Op::Jalr => {
            let target = core.offset(s) & !1;
            core.set_x(s.rd, at.link());
            at.jump(target)
        }
        Op::Beq => at.branch(s, core.x(s.rs1) == core.x(s.rs2)),
        Op::Bne => at.branch(s, core.x(s.rs1) != core.x(s.rs2)),
        Op::Blt => at.branch(s, (core.x(s.rs1) as i64) < core.x(s.rs2) as i64),
        Op::Bge => at.branch(s, core.x(s.rs1) as i64 >= core.x(s.rs2) as i64),
        Op::Bltu => at.branch(s, core.x(s.rs1) < core.x(s.rs2)),
        Op::Bgeu => at.branch(s, core.x(s.rs1) >= core.x(s.rs2)),
        Op::Fence => Ok(()),
        Op::Ecall => Err(Exit::Ecall),
        Op::Ebreak => Err(Exit::Trap(Trap { cause: Cause::Breakpoint, tval: at.pc() })),
        Op::Csrrw | Op::Csrrs | Op::Csrrc | Op::Csrrwi | Op::Csrrsi | Op::Csrrci => core.csr(s, at),
        // Scalar memory.
        Op::Lb => core.scalar_load(s, |bytes| i8::from_le_bytes(bytes) as u64),
        Op::Lh => core.scalar_load(s, |bytes| i16::from_le_bytes(bytes) as u64),
        Op::Lw => core.scalar_load(s, |bytes| i32::from_le_bytes(bytes) as u64),
        Op::Ld => core.scalar_load(s, u64::from_le_bytes),
        Op::Lbu => core.scalar_load(s, |bytes| u8::from_le_bytes(bytes) as u64),
        Op::Lhu => core.scalar_load(s, |bytes| u16::from_le_bytes(bytes) as u64),
        Op::Lwu => core.scalar_load(s, |bytes| u32::from_le_bytes(bytes) as u64),
        Op::Sb => core.store(Level::L1, core.offset(s), (core.x(s.rs2) as u8).to_le_bytes()),
        Op::Sh => core.store(Level::L1, core.offset(s), (core.x(s.rs2) as u16).to_le_bytes()),
        Op::Sw => core.store(Level::L1, core.offset(s), (core.x(s.rs2) as u32).to_le_bytes()),
        Op::Sd => {
            // A credit, which is a store of this kind, carries the clock.
            at.count::<P>(core.hart);
            core.store(Level::L1, core.offset(s), core.x(s.rs2).to_le_bytes())
        }
        Op::Sbl => core.store(Level::L2, core.x(s.rs1), (core.x(s.rs2) as u8).to_le_bytes()),
        Op::Sbg => core.store(Level::L3, core.x(s.rs1), (core.x(s.rs2) as u8).to_le_bytes()),
        Op::Shl => core.store(Level::L2, core.x(s.rs1), (core.x(s.rs2) as u16).to_le_bytes()),
        Op::Shg => core.store(Level::L3, core.x(s.rs1), (core.x(s.rs2) as u16).to_le_bytes()),
        Op::Flw => core.float_load(s),
        Op::Fsw => core.store(Level::L1, core.offset(s), core.lane0(s.rs2).to_le_bytes()),
        // Scalar floating point.
        Op::FaddS => scalar!(add, exact_scalar2, rs1, rs2),
        Op::FsubS => scalar!(sub, exact_scalar2, rs1, rs2),
        Op::FmulS => scalar!(mul, exact_scalar2, rs1, rs2),
        Op::FmaddS => scalar!(fma, exact_scalar3, rs1, rs2, rs3),
        Op::FmsubS => scalar!(fms, exact_scalar3, rs1, rs2, rs3),
        Op::FnmsubS => scalar!(fnms, exact_scalar3, rs1, rs2, rs3),
        Op::FnmaddS => scalar!(fnma, exact_scalar3, rs1, rs2, rs3),
        Op::FsgnjS => core.write_scalar(s.rd, fp::sgnj(core.lane0(s.rs1), core.lane0(s.rs2))),
        Op::FsgnjnS => core.write_scalar(s.rd, fp::sgnjn(core.lane0(s.rs1), core.lane0(s.rs2))),
        Op::FsgnjxS => core.write_scalar(s.rd, fp::sgnjx(core.lane0(s.rs1), core.lane0(s.rs2))),
        Op::FminS => core.scalar_pick(s, fp::min),
        Op::FmaxS => core.scalar_pick(s, fp::max),
        Op::FeqS => core.scalar_compare(s, fp::eq),
        Op::FltS => core.scalar_compare(s, fp::lt),
        Op::FleS => core.scalar_compare(s, fp::le),
        Op::FcvtWS => core.scalar_to_int(s, fp::f32_to_i32),
        Op::FcvtWuS => core.scalar_to_int(s, fp::f32_to_u32),
        Op::FcvtSW => core.int_to_scalar(s, fp::i32_to_f32),
        Op::FcvtSWu => core.int_to_scalar(s, fp::u32_to_f32),
        Op::FmvXW => core.put(s, word(core.lane0(s.rs1))),
        Op::FclassS => core.put(s, fp::class(core.lane0(s.rs1)) as u64),
        Op::FmvWX => core.write_scalar(s.rd, core.x(s.rs1) as u32),
        // Packed floating point.
        Op::FaddPs => repeated!(arithmetic!(add, again2, exact2, rs1, rs2)),
        Op::FsubPs => arithmetic!(sub, again2, exact2, rs1, rs2),
        Op::FmulPs => repeated!(arithmetic!(mul, again2, exact2, rs1, rs2)),
        Op::FmaddPs => repeated!(arithmetic!(fma, again3, exact3, rs1, rs2, rs3)),
        Op::FmsubPs => arithmetic!(fms, again3, exact3, rs1, rs2, rs3),
        Op::FnmsubPs => arithmetic!(fnms, again3, exact3, rs1, rs2, rs3),
        Op::FnmaddPs => arithmetic!(fnma, again3, exact3, rs1, rs2, rs3),
        Op::FminPs => pick!(min),
        Op::FmaxPs => pick!(max),
        Op::FsgnjPs => lanes!(|a, b| fp::sgnj(a, b)),
        Op::FsgnjnPs => lanes!(|a, b| fp::sgnjn(a, b)),
        Op::FsgnjxPs => lanes!(|a, b| fp::sgnjx(a, b)),
        Op::FeqPs => compare!(write, simd::eq, fp::eq),
        Op::FeqmPs => compare!(write_mask, simd::eq, fp::eq),
        Op::FltPs => compare!(write, simd::lt, fp::lt),
        Op::FltmPs => compare!(write_mask, simd::lt, fp::lt),
        Op::FlePs => compare!(write, simd::le, fp::le),
        Op::FlemPs => compare!(write_mask, simd::le, fp::le),
        Op::FclassPs => lanes!(|a| fp::class(a)),
        Op::FcmovPs => lanes!(|a, b, c| if a != 0 { b } else { c }),
        Op::FcmovmPs => core.select_by_mask(s),
        Op::FroundPs => by_mode!(simd::round, fp::round_to_integral),
        Op::FfrcPs => plain!(simd::fraction, fp::fraction, exact_plain1, rs1),
        Op::FrcpPs => plain!(simd::recip, fp::recip, exact_plain1, rs1),
        Op::FexpPs => plain!(simd::exp2, fp::exp2, exact_plain1, rs1),
        Op::FlogPs => plain!(simd::log2, fp::log2, exact_plain1, rs1),
        // Conversions.
        Op::FcvtPwPs => {
            let fast = match core.rounding(s) {
                Ok(rm) if !FLAGS => core.vectors.to_i32(core.f(s.rs1), rm),
                _ => None,
            };
            match fast {
                Some(r) => core.write(s.rd, r),
                None => by_mode!(simd::to_i32, fp::f32_to_i32),
            }
        }
        Op::FcvtPwuPs => by_mode!(simd::to_u32, fp::f32_to_u32),
        Op::FcvtPsPw => repeated!(rounded!(simd::from_i32, fp::i32_to_f32, exact1, rs1)),
        Op::FcvtPsPwu => rounded!(simd::from_u32, fp::u32_to_f32, exact1, rs1),
        Op::FcvtPsF16 => plain!(simd::from_f16, |a, flags| fp::f16_to_f32(a as u16, flags), exact_plain1, rs1),
        Op::FcvtF16Ps => {
            rounded!(core.frm(), simd::to_f16, |a, rm, flags| fp::f32_to_f16(a, rm, flags) as u32, exact1, rs1)
        }
        // Packed integer.
        Op::FaddPi => lanes!(|a, b| a.wrapping_add(b)),
        Op::FsubPi => lanes!(|a, b| a.wrapping_sub(b)),
        Op::FmulPi => lanes!(|a, b| a.wrapping_mul(b)),
        Op::FmulhPi => lanes!(|a, b| ((a as i32 as i64 * b as i32 as i64) >> 32) as u32),
        Op::FmulhuPi => lanes!(|a, b| ((a as u64 * b as u64) >> 32) as u32),
        Op::FandPi => repeated!(lanes!(|a, b| a & b)),
        Op::ForPi => lanes!(|a, b| a | b),
        Op::FxorPi => lanes!(|a, b| a ^ b),
        Op::FsllPi => lanes!(|a, b| if b < 32 { a << (b & 31) } else { 0 }),
        Op::FsrlPi => lanes!(|a, b| if b < 32 { a >> (b & 31) } else { 0 }),
        Op::FsraPi => lanes!(|a, b| (a as i32 >> b.min(31)) as u32),
        Op::FminPi => lanes!(|a, b| (a as i32).min(b as i32) as u32),
        Op::FmaxPi => lanes!(|a, b| (a as i32).max(b as i32) as u32),
        Op::FminuPi => lanes!(|a, b| a.min(b)),
        Op::FmaxuPi => lanes!(|a, b| a.max(b)),
        Op::FeqPi => lanes!(|a, b| simd::mask(a == b)),
        Op::FltPi => lanes!(|a, b| simd::mask((a as i32) < b as i32)),
        Op::FlePi => lanes!(|a, b| simd::mask(a as i32 <= b as i32)),
        Op::FltuPi => lanes!(|a, b| simd::mask(a < b)),
        Op::FnotPi => lanes!(|a| !a),
        Op::FaddiPi => lanes!(|a| a.wrapping_add(s.imm as u32)),
        Op::FandiPi => lanes!(|a| a & s.imm as u32),
        Op::FslliPi => repeated!(lanes!(|a| a << (s.imm & 31))),
        Op::FsrliPi => repeated!(lanes!(|a| a >> (s.imm & 31))),
        Op::FsraiPi => lanes!(|a| (a as i32 >> (s.imm & 31)) as u32),
        Op::Fsat8Pi => lanes!(|a| (a as i32).clamp(-128, 127) as u32 & 0xFF),
        Op::Fsatu8Pi => lanes!(|a| (a as i32).clamp(0, 255) as u32),
        // Moves and masks.
        Op::FswizzPs => core.swizzle(s),
        Op::FpackrepbPi => core.pack_bytes(s),
        Op::FpackrephPi => core.pack_halves(s),
        Op::FbcxPs => core.write(s.rd, [core.x(s.rs1) as u32; 8]),
        Op::FbciPs => core.write(s.rd, [immediate_float(s.imm as u32); 8]),
        Op::FbciPi => core.write(s.rd, [(s.imm << 12 >> 12) as u32; 8]),
        Op::FmvzXPs => core.put(s, core.f(s.rs1)[s.imm as usize & 7] as u64),
        Op::FmvsXPs => core.put(s, word(core.f(s.rs1)[s.imm as usize & 7])),
        Op::FltmPi => core.write_mask(s.rd, values!(|a, b| simd::mask((a as i32) < b as i32))),
        Op::FsetmPi => core.write_mask(s.rd, values!(|a| simd::mask(a != 0))),
        Op::Maskand => core.set_m(s, core.m(s.rs1) & core.m(s.rs2)),
        Op::Maskor => core.set_m(s, core.m(s.rs1) | core.m(s.rs2)),
        Op::Maskxor => core.set_m(s, core.m(s.rs1) ^ core.m(s.rs2)),
        Op::Masknot => core.set_m(s, !core.m(s.rs1)),
        Op::MovMX => core.set_m(s, (core.x(s.rs1) as u32 | s.imm as u32) as u8),
        Op::MovaXM => core.put(s, u64::from_le_bytes(core.hart.m)),
        Op::MovaMX => {
            core.hart.m = core.x(s.rs1).to_le_bytes();
            Ok(())
        }
        Op::Maskpopc => core.put(s, core.m(s.rs1).count_ones() as u64),
        Op::Maskpopcz => core.put(s, core.m(s.rs1).count_zeros() as u64),
        // Vector memory.
        Op::FlwPs => repeated!(core.vector_load(s, Level::L1, core.offset(s), core.hart.m[0])),
        Op::Flq2 => core.vector_load(s, Level::L1, core.offset(s), 0xFF),
        Op::FswPs => repeated!(core.vector_store(s.rs2, Level::L1, core.offset(s), core.hart.m[0])),
        Op::Fsq2 => core.vector_store(s.rs2, Level::L1, core.offset(s), 0xFF),
        Op::FbcPs => core.broadcast_load(s),
        Op::FlwlPs => core.coherent_load(s, Level::L2),
        Op::FswlPs => core.coherent_store(s, Level::L2),
        Op::FlwgPs => core.coherent_load(s, Level::L3),
        Op::FswgPs => core.coherent_store(s, Level::L3),
        Op::FgbPs => core.gather::<1>(s, Level::L1),
        Op::FgblPs => core.gather::<1>(s, Level::L2),
        Op::FgbgPs => core.gather::<1>(s, Level::L3),
        Op::Fg32bPs => core.block_gather::<1>(s),
        Op::FghPs => core.gather::<2>(s, Level::L1),
        Op::FghlPs => core.gather::<2>(s, Level::L2),
        Op::FghgPs => core.gather::<2>(s, Level::L3),
        Op::Fg32hPs => core.block_gather::<2>(s),
        Op::FgwPs => core.gather::<4>(s, Level::L1),
        Op::FgwlPs => core.gather::<4>(s, Level::L2),
        Op::FgwgPs => core.gather::<4>(s, Level::L3),
        Op::Fg32wPs => core.block_gather::<4>(s),
        Op::FscbPs => core.scatter::<1>(s, Level::L1),
        Op::FscblPs => core.scatter::<1>(s, Level::L2),
        Op::FscbgPs => core.scatter::<1>(s, Level::L3),
        Op::Fsc32bPs => core.block_scatter::<1>(s),
        Op::FschPs => core.scatter::<2>(s, Level::L1),
        Op::FschlPs => core.scatter::<2>(s, Level::L2),
        Op::FschgPs => core.scatter::<2>(s, Level::L3),
        Op::Fsc32hPs => core.block_scatter::<2>(s),
        Op::FscwPs => core.scatter::<4>(s, Level::L1),
        Op::FscwlPs => core.scatter::<4>(s, Level::L2),
        Op::FscwgPs => core.scatter::<4>(s, Level::L3),
        Op::Fsc32wPs => core.block_scatter::<4>(s),
        // Atomics.
        Op::AmoaddlW => core.atomic(s, Level::L2, false, Atomic::Add),
        Op::AmoswaplW => core.atomic(s, Level::L2, false, Atomic::Swap),
        Op::AmoandlW => core.atomic(s, Level::L2, false, Atomic::And),
        Op::AmoorlW => core.atomic(s, Level::L2, false, Atomic::Or),
        Op::AmoxorlW => core.atomic(s, Level::L2, false, Atomic::Xor),
        Op::AmominlW => core.atomic(s, Level::L2, false, Atomic::Min),
        Op::AmomaxlW => core.atomic(s, Level::L2, false, Atomic::Max),
        Op::AmominulW => core.atomic(s, Level::L2, false, Atomic::MinU),
        Op::AmomaxulW => core.atomic(s, Level::L2, false, Atomic::MaxU),
        Op::AmocmpswaplW => core.compare_swap(s, Level::L2, false),
        Op::AmoaddlD => core.atomic(s, Level::L2, true, Atomic::Add),
        Op::AmoswaplD => core.atomic(s, Level::L2, true, Atomic::Swap),
        Op::AmoandlD => core.atomic(s, Level::L2, true, Atomic::And),
        Op::AmoorlD => core.atomic(s, Level::L2, true, Atomic::Or),
        Op::AmoxorlD => core.atomic(s, Level::L2, true, Atomic::Xor),
        Op::AmominlD => core.atomic(s, Level::L2, true, Atomic::Min),
        Op::AmomaxlD => core.atomic(s, Level::L2, true, Atomic::Max),
        Op::AmominulD => core.atomic(s, Level::L2, true, Atomic::MinU),
        Op::AmomaxulD => core.atomic(s, Level::L2, true, Atomic::MaxU),
        Op::AmocmpswaplD => core.compare_swap(s, Level::L2, true),
        Op::FamoaddlPi => core.packed_atomic(s, Level::L2, Atomic::Add),
        Op::FamoswaplPi => core.packed_atomic(s, Level::L2, Atomic::Swap),
        Op::FamoandlPi => core.packed_atomic(s, Level::L2, Atomic::And),
        Op::FamoorlPi => core.packed_atomic(s, Level::L2, Atomic::Or),
        Op::FamoxorlPi => core.packed_atomic(s, Level::L2, Atomic::Xor),
        Op::FamominlPi => core.packed_atomic(s, Level::L2, Atomic::Min),
        Op::FamomaxlPi => core.packed_atomic(s, Level::L2, Atomic::Max),
        Op::FamominulPi => core.packed_atomic(s, Level::L2, Atomic::MinU),
        Op::FamomaxulPi => core.packed_atomic(s, Level::L2, Atomic::MaxU),
        Op::FamominlPs => core.packed_atomic(s, Level::L2, Atomic::MinPs),
        Op::FamomaxlPs => core.packed_atomic(s, Level::L2, Atomic::MaxPs),
        Op::AmoaddgW => core.atomic(s, Level::L3, false, Atomic::Add),
        Op::AmoswapgW => core.atomic(s, Level::L3, false, Atomic::Swap),
        Op::AmoandgW => core.atomic(s, Level::L3, false, Atomic::And),
        Op::AmoorgW => core.atomic(s, Level::L3, false, Atomic::Or),
        Op::AmoxorgW => core.atomic(s, Level::L3, false, Atomic::Xor),
        Op::AmomingW => core.atomic(s, Level::L3, false, Atomic::Min),
        Op::AmomaxgW => core.atomic(s, Level::L3, false, Atomic::Max),
        Op::AmominugW => core.atomic(s, Level::L3, false, Atomic::MinU),
        Op::AmomaxugW => core.atomic(s, Level::L3, false, Atomic::MaxU),
        Op::AmocmpswapgW => core.compare_swap(s, Level::L3, false),
        Op::AmoaddgD => core.atomic(s, Level::L3, true, Atomic::Add),
        Op::AmoswapgD => core.atomic(s, Level::L3, true, Atomic::Swap),
        Op::AmoandgD => core.atomic(s, Level::L3, true, Atomic::And),
        Op::AmoorgD => core.atomic(s, Level::L3, true, Atomic::Or),
        Op::AmoxorgD => core.atomic(s, Level::L3, true, Atomic::Xor),
        Op::AmomingD => core.atomic(s, Level::L3, true, Atomic::Min),
        Op::AmomaxgD => core.atomic(s, Level::L3, true, Atomic::Max),
        Op::AmominugD => core.atomic(s, Level::L3, true, Atomic::MinU),
        Op::AmomaxugD => core.atomic(s, Level::L3, true, Atomic::MaxU),
        Op::AmocmpswapgD => core.compare_swap(s, Level::L3, true),
        Op::FamoaddgPi => core.packed_atomic(s, Level::L3, Atomic::Add),
        Op::FamoswapgPi => core.packed_atomic(s, Level::L3, Atomic::Swap),
        Op::FamoandgPi => core.packed_atomic(s, Level::L3, Atomic::And),
        Op::FamoorgPi => core.packed_atomic(s, Level::L3, Atomic::Or),
        Op::FamoxorgPi => core.packed_atomic(s, Level::L3, Atomic::Xor),
        Op::FamomingPi => core.packed_atomic(s, Level::L3, Atomic::Min),
        Op::FamomaxgPi => core.packed_atomic(s, Level::L3, Atomic::Max),
        Op::FamominugPi => core.packed_atomic(s, Level::L3, Atomic::MinU),
        Op::FamomaxugPi => core.packed_atomic(s, Level::L3, Atomic::MaxU),
        Op::FamomingPs => core.packed_atomic(s, Level::L3, Atomic::MinPs),
        Op::FamomaxgPs => core.packed_atomic(s, Level::L3, Atomic::MaxPs),
        // Never reached: the decoder marks these as refused.
        Op::FenceI
        | Op::SfenceVma
        | Op::Sret
        | Op::Mret
        | Op::Wfi
        | Op::FdivS
        | Op::FsqrtS
        | Op::FcvtLS
        | Op::FcvtLuS
        | Op::FcvtSL
        | Op::FcvtSLu
        | Op::Bitmixb
        | Op::FdivPs
        | Op::FdivPi
        | Op::FdivuPi
        | Op::FremPi
        | Op::FremuPi
        | Op::FrcpFixRast
        | Op::FsqrtPs
        | Op::FsinPs
        | Op::FrsqPs
        | Op::MaskpopcRast
        | Op::CubefacePs
        | Op::CubefaceidxPs
        | Op::CubesgnscPs
        | Op::CubesgntcPs
        | Op::FcvtRastPs
        | Op::FcvtPsRast
        | Op::FcvtPsF10
        | Op::FcvtPsF11
        | Op::FcvtPsUn24
        | Op::FcvtPsUn16
        | Op::FcvtPsUn10
        | Op::FcvtPsUn8
        | Op::FcvtPsUn2
        | Op::FcvtPsSn16
        | Op::FcvtPsSn8
        | Op::FcvtF11Ps
        | Op::FcvtF10Ps
        | Op::FcvtUn24Ps
        | Op::FcvtUn16Ps
        | Op::FcvtUn10Ps
        | Op::FcvtUn8Ps
        | Op::FcvtUn2Ps
        | Op::FcvtSn16Ps
        | Op::FcvtSn8Ps => Err(Exit::Illegal),
    }
}

/// A 32-bit result in a register.
#[inline(always)]
fn word(value: u32) -> u64 {
    value as i32 as u64
}

fn div(a: i64, b: i64) -> u64 {
    if b == 0 {
        u64::MAX
    } else {
        a.wrapping_div(b) as u64
    }
}

fn rem(a: i64, b: i64) -> u64 {
    if b == 0 {
        a as u64
    } else {
        a.wrapping_rem(b) as u64
    }
}
