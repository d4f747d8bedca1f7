//! CSR instructions (ISA sheet 3.1).

use super::interp::Position;
use super::{Core, Done, Exit};
use crate::code::Slot;
use crate::platform::{Outcome, Platform};
use crate::simd::Vectors;
use et_isa::{csr, Op};

/// fcsr bits that exist, and those that fflags shows.
const FCSR: u32 = 0x8000_00FF;
const FFLAGS: u32 = 0x8000_001F;

/// What an instruction does with the CSR.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Write,
    Set,
    Clear,
}

impl<P: Platform, V: Vectors, const FLAGS: bool> Core<'_, P, V, FLAGS> {
    /// Executes an access. csrrs and csrrc with x0 or 0 do not write.
    #[inline(always)]
    pub(super) fn csr(&mut self, s: &Slot, at: &mut Position) -> Done {
        let (access, operand) = match s.op {
            Op::Csrrs => (Access::Set, self.x(s.rs1)),
            Op::Csrrc => (Access::Clear, self.x(s.rs1)),
            Op::Csrrwi => (Access::Write, u64::from(s.rs1)),
            Op::Csrrsi => (Access::Set, u64::from(s.rs1)),
            Op::Csrrci => (Access::Clear, u64::from(s.rs1)),
            _ => (Access::Write, self.x(s.rs1)),
        };
        // The platform may look at the clock.
        at.count::<P>(self.hart);
        let writes = access == Access::Write || s.rs1 != 0;
        let reads = s.rd != 0 || access != Access::Write;
        let value = self.access_csr(s.imm as u16, access, operand, reads, writes)?;
        self.put(s, value)
    }

    /// Gives the value for `rd`, which means nothing unless `reads`.
    #[inline(never)]
    fn access_csr(
        &mut self,
        number: u16,
        access: Access,
        operand: u64,
        reads: bool,
        writes: bool,
    ) -> Result<u64, Exit> {
        let csr = csr::lookup(number).ok_or(Exit::Illegal)?;
        if csr.closed || csr.read_only() && writes || csr.even_hart_only && self.hart.id & 1 != 0 {
            return Err(Exit::Illegal);
        }
        let old = if reads { self.read_csr(number)? } else { 0 };
        if !writes {
            return Ok(old);
        }
        let new = match access {
            Access::Write => operand,
            Access::Set => old | operand,
            Access::Clear => old & !operand,
        };
        Ok(self.write_csr(number, new)?.unwrap_or(old))
    }

    fn read_csr(&mut self, number: u16) -> Result<u64, Exit> {
        let hart = &mut *self.hart;
        Ok(match number {
            0x001 => (hart.fcsr & FFLAGS) as u64,
            0x002 => (hart.fcsr >> 5 & 7) as u64,
            0x003 => hart.fcsr as u64,
            0x805 => hart.tensor_mask as u64,
            0x808 => hart.tensor_error as u64,
            0x810 => hart.ucache_control as u64,
            0x840 => hart.gsc_progress as u64,
            0x8D0..=0x8D3 => hart.validation[(number & 3) as usize],
            0xCD0 => hart.id as u64,
            0xC00.. => match self.platform.csr_read(hart, number)? {
                Outcome::Done(value) => value,
                Outcome::Block => return Err(Exit::Blocked),
            },
            _ => 0,
        })
    }

    /// Writes; gives the value for `rd` if the write decides it.
    fn write_csr(&mut self, number: u16, value: u64) -> Result<Option<u64>, Exit> {
        let hart = &mut *self.hart;
        match number {
            0x001 => hart.fcsr = hart.fcsr & !FFLAGS | value as u32 & FFLAGS,
            0x002 => hart.fcsr = hart.fcsr & !0xE0 | (value as u32 & 7) << 5,
            0x003 => hart.fcsr = value as u32 & FCSR,
            0x802 => {
                hart.conv_size = value;
                hart.tensor_mask = convolution_mask(hart.conv_size, hart.conv_ctrl);
            }
            0x803 => {
                hart.conv_ctrl = value;
                hart.tensor_mask = convolution_mask(hart.conv_size, hart.conv_ctrl);
            }
            0x804 => hart.tensor_coop = value as u32 & 0xF_FF1F,
            0x805 => hart.tensor_mask = value as u16,
            0x808 => hart.tensor_error = value as u16 & 0x3FF,
            0x810 => {
                // Only the even hart switches the scratchpad.
                let writable = if hart.id & 1 == 0 { 0x7DE } else { 0x7DC };
                let before = hart.ucache_control;
                hart.ucache_control = before & !writable | value as u32 & writable;
                if hart.ucache_control & !before & 2 != 0 {
                    // The scratchpad was switched on, which clears it.
                    self.platform.csr_write(hart, number, value)?;
                }
            }
            0x840 => hart.gsc_progress = value as u8 & 7,
            0x8D0..=0x8D3 => hart.validation[(number & 3) as usize] = value,
            _ => {
                return match self.platform.csr_write(hart, number, value)? {
                    Outcome::Done(value) => Ok(Some(value)),
                    Outcome::Block => Err(Exit::Blocked),
                }
            }
        }
        Ok(None)
    }
}

/// The tensor mask of a convolution window (sheet 3.4): bit i is set where the i-th step lies inside the tensor.
fn convolution_mask(size: u64, ctrl: u64) -> u16 {
    let (row_step, rows) = ((size >> 56) as i8 as i64, (size >> 32 & 0xFFFF) as i64);
    let (column_step, columns) = ((size >> 24) as i8 as i64, (size & 0xFFFF) as i64);
    let (row, column) = ((ctrl >> 32) as i16 as i64, ctrl as i16 as i64);
    (0..16).fold(0, |mask, i| {
        let (row, column) = (row + i * row_step, column + i * column_step);
        mask | (((0..rows).contains(&row) && (0..columns).contains(&column)) as u16) << i
    })
}
