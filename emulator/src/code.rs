//! Decoded code, one 4 KB page at a time and one instruction at its first execution.
//!
//! A cache belongs to one host thread. Kernels cannot modify code (there is no fence.i), so only the host's
//! writes between launches make a page stale; it is then dropped with [`Code::invalidate`] or [`Code::clear`].

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use et_isa::{is_compressed, Class, Insn, Op, Status};

#[cfg(target_arch = "x86_64")]
use crate::jit::Translator;
use crate::platform::Platform;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx2;
use crate::trap::Trap;

const PAGE: u64 = 4096;
const SLOTS: usize = (PAGE / 2) as usize;

/// Whether a slot's instruction can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Yes.
    Ready = 0,
    /// Not looked at yet.
    Undecoded = 1,
    /// No defined instruction, or one that is illegal in U-mode whatever the state.
    Illegal = 2,
    /// An instruction that traps to machine mode.
    Mcode = 4,
}

/// An instruction with its operands at hand. `rm` is 0..4 or 7 for dynamic. Branch and jump offsets in `imm` count
/// slots; a CSR number takes the place of `imm`, and a 5-bit CSR immediate that of `rs1`. Integer instructions that
/// only write x0 appear as fences, which do nothing here.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Slot {
    pub imm: i32,
    pub op: Op,
    pub(crate) state: State,
    pub rd: u8,
    pub rs1: u8,
    pub rs2: u8,
    pub rs3: u8,
    pub rm: u8,
    /// Length in slots: 1 or 2.
    pub step: u8,
}

impl Slot {
    const UNDECODED: Slot =
        Slot { imm: 0, op: Op::Fence, state: State::Undecoded, rd: 0, rs1: 0, rs2: 0, rs3: 0, rm: 0, step: 1 };

    fn new(word: u32) -> Slot {
        let Some(insn) = Insn::decode(word) else {
            return Slot { state: State::Illegal, ..Slot::UNDECODED };
        };
        let row = insn.op.row();
        let operands = insn.operands();
        let state = match row.status {
            Status::Mcode => State::Mcode,
            Status::Graphics | Status::Illegal => State::Illegal,
            Status::Works if matches!(operands.rm, 5 | 6) => State::Illegal,
            Status::Works => State::Ready,
        };
        let idle = operands.rd == 0 && matches!(row.class, Class::Int | Class::MulDiv);
        let mut slot = Slot {
            // A fence of nothing.
            imm: if idle { 0 } else { operands.imm },
            op: if idle { Op::Fence } else { insn.op },
            state,
            rd: operands.rd,
            rs1: operands.rs1,
            rs2: operands.rs2,
            rs3: operands.rs3,
            rm: operands.rm,
            step: insn.len / 2,
        };
        match row.class {
            Class::Csr => {
                slot.rs1 = (insn.word >> 15 & 31) as u8;
                slot.imm = operands.csr as i32;
            }
            Class::Branch if insn.op != Op::Jalr => slot.imm >>= 1,
            _ if matches!(insn.op, Op::Lui | Op::Auipc) => slot.imm <<= 12,
            _ => {}
        }
        slot
    }
}

/// The slots of one page, one for each two bytes.
pub(crate) struct Page {
    pub slots: [Slot; SLOTS],
}

/// Spreads page numbers and addresses; nobody attacks with them.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The decoded code that one host thread has run.
pub struct Code {
    pages: HashMap<u64, Box<Page>, BuildHasherDefault<AddressHasher>>,
    exact_flags: bool,
    translate_after: Option<u32>,
    #[cfg(target_arch = "x86_64")]
    translator: Option<Box<Translator>>,
}

impl Code {
    /// An empty cache. With `exact_flags` the floating-point flags in fcsr are computed; without, they are left alone,
    /// which only a kernel that reads them can tell (see [`code_reads_flags`](crate::exec::code_reads_flags)).
    pub fn new(exact_flags: bool) -> Self {
        Code {
            pages: HashMap::default(),
            exact_flags,
            translate_after: None,
            #[cfg(target_arch = "x86_64")]
            translator: None,
        }
    }

    /// Translates what has run so many times to host code, where the platform and the host allow it. Not with exact
    /// flags.
    pub fn translate_after(self, times: Option<u32>) -> Self {
        Code { translate_after: times, ..self }
    }

    /// Whether code is translated.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn translates(&self) -> bool {
        self.translate_after.is_some()
    }

    /// The translated code, if it is wanted and possible. To be given back.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn take_translator(&mut self, proof: Avx2) -> Option<Box<Translator>> {
        let times = self.translate_after?;
        let translator = self.translator.take().or_else(|| Translator::new(proof, times).map(Box::new));
        if translator.is_none() {
            // The host does not allow it.
            self.translate_after = None;
        }
        translator
    }

    /// Takes translated code back.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn put_translator(&mut self, translator: Box<Translator>) {
        self.translator = Some(translator);
    }

    /// Whether floating-point flags are computed.
    pub fn exact_flags(&self) -> bool {
        self.exact_flags
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.forget_translations();
    }

    /// Forgets what lies in `len` bytes at `addr`, because the host wrote there. Data beside code is no reason to forget any.
    pub fn invalidate(&mut self, addr: u64, len: u64) {
        // An instruction may begin up to three bytes before.
        let (first, end) = (addr.saturating_sub(3), addr.saturating_add(len));
        let known = self.pages.len();
        self.pages.retain(|number, page| {
            let start = number * PAGE;
            let slot = |at: u64| (at.clamp(start, start + PAGE) - start).div_ceil(2) as usize;
            page.slots[slot(first)..slot(end)].iter().all(|slot| slot.state == State::Undecoded)
        });
        if self.pages.len() != known {
            self.forget_translations();
        }
    }

    fn forget_translations(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if let Some(translator) = &mut self.translator {
            translator.clear();
        }
    }

    /// The instruction at `pc`, decoded if it was not yet; `None` if it cannot be fetched.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn slot<P: Platform>(&mut self, platform: &mut P, pc: u64) -> Option<Slot> {
        let slot = &mut self.page(pc).slots[(pc % PAGE / 2) as usize];
        if slot.state == State::Undecoded {
            *slot = decode(platform, pc).ok()?;
        }
        Some(*slot)
    }

    /// The page of `pc`.
    #[inline]
    pub(crate) fn page(&mut self, pc: u64) -> &mut Page {
        self.pages.entry(pc / PAGE).or_insert_with(|| Box::new(Page { slots: [Slot::UNDECODED; SLOTS] }))
    }
}

/// The address of the page of `pc`.
pub(crate) const fn page_base(pc: u64) -> u64 {
    pc & !(PAGE - 1)
}

/// The bits of the instruction at `pc`: a half word if it is compressed.
pub(crate) fn fetch<P: Platform>(platform: &mut P, pc: u64) -> Result<u32, Trap> {
    let low = platform.fetch(pc)?;
    if is_compressed(low) {
        return Ok(low as u32);
    }
    Ok((platform.fetch(pc.wrapping_add(2))? as u32) << 16 | low as u32)
}

/// Decodes the instruction at `pc`.
#[cold]
#[inline(never)]
pub(crate) fn decode<P: Platform>(platform: &mut P, pc: u64) -> Result<Slot, Trap> {
    fetch(platform, pc).map(Slot::new)
}
