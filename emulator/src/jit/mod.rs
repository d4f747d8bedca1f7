//! Translation of guest code to host code.
//!
//! Straight runs of instructions ([`Trace`]) that have run often become host code. Guest registers stay in the
//! [`Hart`]; each instruction loads what it needs and stores what it makes. What is not worth translating, and every
//! access that is not plain memory, calls the interpreter for one instruction. So the state is exact at each call and
//! when a hart stops.
//!
//! Translated code runs with "denormals are zeros" and "flush to zero", which on x86 is what the chip does (tininess is
//! decided after rounding, as sheet 1.4 wants it); the usual control word is back before any other code runs.

mod assembler;
mod buffer;
mod context;
mod emit;
mod integer;
mod memory;
mod trace;
mod vector;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

use crate::code::{AddressHasher, Slot};
use crate::hart::Hart;
use crate::memory::OPEN_BASE;
use crate::platform::Windows;
use crate::simd::Avx2;
use assembler::*;
use buffer::Buffer;
use context::*;
use emit::Emitter;
use trace::Trace;

/// Places that code may jump to. More than a kernel image has; when it is not enough, all starts anew.
const CELLS: usize = 1 << 14;

/// Size of the table for indirect jumps.
const JUMPS: usize = 1 << 10;

/// What executes the instructions that are left to the interpreter.
pub(crate) trait Interpreter {
    /// The hart that runs.
    fn hart(&mut self) -> *mut Hart;

    /// How many instructions may still retire. Up to date at each step, and when translated code has come back.
    fn left(&mut self) -> &mut u64;

    /// A write to a CSR, if it is one that can be done without anything else: false says that nothing was done.
    fn quick_write<const CSR: u16>(&mut self, value: u64) -> bool;

    /// Executes the instruction `slot` at `pc`.
    fn step(&mut self, slot: &Slot, pc: u64) -> Step;
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It has retired, and translated code may go on.
    Done,
    /// The interpreter has to go on, from `hart.pc`.
    Leave,
}

/// Why translated code came back; `hart.pc` is at the next instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There is no code for the next instruction yet.
    Lookup,
    /// The next instruction must be interpreted.
    Interpret,
    /// A step said so.
    Left,
}

/// An instruction that translated code leaves to the interpreter.
struct Site {
    slot: Slot,
    pc: u64,
}

/// An entry of the table for indirect jumps.
#[repr(C)]
#[derive(Clone, Copy)]
struct Jump {
    pc: u64,
    code: u64,
}

impl Jump {
    /// Of no instruction: addresses are even.
    const NONE: Jump = Jump { pc: 1, code: 0 };
}

/// What is known of a place that code jumps to.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// How often it was come to without code.
    count: u32,
    /// Its code.
    code: Option<Entry>,
    /// Where jumps to it find its code.
    cell: Option<usize>,
}

/// Where translated code begins in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(usize);

/// Executes one instruction for translated code; 0 if that may go on.
type StepFunction = unsafe extern "sysv64" fn(*mut Context, *const Site, u64) -> u32;

/// Does a write to a CSR; not 0 if nothing was done, and the interpreter has to.
type WriteFunction = unsafe extern "sysv64" fn(*mut Context, u64) -> u32;

/// The CSRs that have a [`WriteFunction`]: the tensor unit's product, quantisation, load and store, eviction, flush.
const WRITES: [u16; 6] = [0x801, 0x806, 0x83F, 0x87F, 0x89F, 0x8BF];

/// The translated code of one host thread.
pub(crate) struct Translator {
    threshold: u32,
    buffer: Buffer,
    common: Common,
    context: Box<Context>,
    places: HashMap<u64, Place, BuildHasherDefault<AddressHasher>>,
    cells: Box<[u64]>,
    cells_used: usize,
    jumps: Box<[Jump]>,
    /// Boxed, since code holds their addresses.
    #[allow(clippy::vec_box)]
    sites: Vec<Box<Site>>,
}

impl Translator {
    /// Without code. `None` where the host allows no executable memory.
    pub fn new(_: Avx2, threshold: u32) -> Option<Translator> {
        let mut buffer = Buffer::new().ok()?;
        let common = Common::append(&mut buffer)?;
        Some(Translator {
            threshold,
            buffer,
            common,
            context: Box::new(Context::new()),
            places: HashMap::default(),
            cells: vec![0; CELLS].into_boxed_slice(),
            cells_used: 0,
            jumps: vec![Jump::NONE; JUMPS].into_boxed_slice(),
            sites: Vec::new(),
        })
    }

    /// Forgets all code.
    pub fn clear(&mut self) {
        self.buffer.truncate(self.common.end);
        self.places.clear();
        self.cells_used = 0;
        self.jumps.fill(Jump::NONE);
        self.sites.clear();
    }

    /// The code for where the hart is, translated now if it has been asked for often enough. `fetch` gives instructions.
    pub fn entry(&mut self, hart: &Hart, fetch: impl FnMut(u64) -> Option<Slot>) -> Option<Entry> {
        let pc = hart.pc;
        let place = self.places.entry(pc).or_default();
        let entry = match place.code {
            Some(entry) => entry,
            None => {
                place.count = place.count.saturating_add(1);
                if place.count <= self.threshold {
                    return None;
                }
                self.translate(hart, fetch)?
            }
        };
        let code = self.buffer.address(entry.0) as u64;
        self.jumps[(pc / 2) as usize % JUMPS] = Jump { pc, code };
        Some(entry)
    }

    #[cold]
    fn translate(&mut self, hart: &Hart, fetch: impl FnMut(u64) -> Option<Slot>) -> Option<Entry> {
        let pc = hart.pc;
        let known = |pc| self.places.get(&pc).is_some_and(|place| place.code.is_some());
        let trace = Trace::form(pc, fetch, known);
        if trace.instructions.is_empty() || trace.all_lanes && hart.m[0] != 0xFF {
            return None;
        }
        if self.buffer.used() + emit::LARGEST > Buffer::SIZE || self.cells_used + trace.instructions.len() + 1 > CELLS {
            self.clear();
        }
        let (code, unlinked) = Emitter::new(self, &trace).emit();
        debug_assert!(code.len() <= emit::LARGEST);
        let Some(start) = self.buffer.append(&code) else {
            // The host refuses, and what there was may not be executable any more.
            self.clear();
            self.threshold = u32::MAX;
            return None;
        };
        for (cell, offset) in unlinked {
            self.cells[cell] = self.buffer.address(start + offset) as u64;
        }
        let place = self.places.entry(pc).or_default();
        place.code = Some(Entry(start));
        if let Some(cell) = place.cell {
            self.cells[cell] = self.buffer.address(start) as u64;
        }
        place.code
    }

    /// The cell for jumps to `pc`, and whether it is new and must get a value.
    fn cell(&mut self, pc: u64) -> (usize, bool) {
        let place = self.places.entry(pc).or_default();
        let new = place.cell.is_none();
        let cell = *place.cell.get_or_insert(self.cells_used);
        self.cells_used += usize::from(new);
        (cell, new)
    }

    /// Runs translated code from where the hart is.
    pub fn run<I: Interpreter>(&mut self, entry: Entry, interpreter: &mut I, windows: &Windows) -> Reason {
        let context = &mut *self.context;
        context.hart = interpreter.hart().cast::<u8>().wrapping_add(BIAS);
        context.interpreter = (interpreter as *mut I).cast();
        context.step = Some(step::<I>);
        context.writes = [
            Some(write::<I, 0x801>),
            Some(write::<I, 0x806>),
            Some(write::<I, 0x83F>),
            Some(write::<I, 0x87F>),
            Some(write::<I, 0x89F>),
            Some(write::<I, 0x8BF>),
        ];
        context.left = *interpreter.left();
        context.dram = windows.dram.host();
        let (Some(dram_last_near), Some(scratchpad_last)) =
            (windows.dram.len().checked_sub(WIDEST + NEAR), windows.scratchpad.len().checked_sub(WIDEST))
        else {
            return Reason::Interpret;
        };
        context.dram_last = windows.dram.len() - WIDEST;
        context.dram_last_near = dram_last_near;
        context.scratchpad = windows.scratchpad.guest().wrapping_sub(OPEN_BASE);
        context.scratchpad_bytes = (windows.scratchpad.host() as u64).wrapping_sub(windows.dram.host() as u64);
        context.scratchpad_last = scratchpad_last;
        context.jumps = self.jumps.as_ptr();
        let code = self.buffer.address(entry.0);
        // SAFETY: the code at the start of the buffer is the function that `Common` wrote, with this signature; what it
        // runs was made by `Emitter`, which keeps to the calling convention. It accesses the hart, the context, and the
        // windows within their bounds, and calls `step` as that wants it. Nothing else uses these until it returns,
        // and the code is in `self`, which is borrowed.
        let reason = unsafe {
            let enter: extern "sysv64" fn(*mut Context, *const u8) -> u32 = std::mem::transmute(self.buffer.address(0));
            enter(context, code)
        };
        if let Some(panic) = self.context.panic.take() {
            resume_unwind(panic);
        }
        let reason = match reason {
            LOOKUP => Reason::Lookup,
            INTERPRET => Reason::Interpret,
            _ => return Reason::Left,
        };
        *interpreter.left() = self.context.left;
        reason
    }
}

/// # Safety
/// Called by translated code only: with the context of a run of an interpreter `I`, and a site of its translator.
unsafe extern "sysv64" fn step<I: Interpreter>(context: *mut Context, site: *const Site, left: u64) -> u32 {
    // SAFETY: as the caller promises; translated code does not use them meanwhile.
    let (context, site) = unsafe { (&mut *context, &*site) };
    if context.panic.is_some() {
        return 1;
    }
    // SAFETY: `run` put its interpreter there, and does not use it before translated code returns.
    let interpreter = unsafe { &mut *context.interpreter.cast::<I>() };
    let done = catch_unwind(AssertUnwindSafe(|| {
        *interpreter.left() = left;
        interpreter.step(&site.slot, site.pc)
    }));
    match done {
        Ok(Step::Done) => return 0,
        Ok(Step::Leave) => {}
        // It must not unwind through translated code.
        Err(panic) => context.panic = Some(panic),
    }
    1
}

/// # Safety
/// Called by translated code only, with the context of a run of an interpreter `I`.
unsafe extern "sysv64" fn write<I: Interpreter, const CSR: u16>(context: *mut Context, value: u64) -> u32 {
    // SAFETY: as the caller promises; translated code does not use it meanwhile.
    let context = unsafe { &mut *context };
    // SAFETY: as in `step`.
    let interpreter = unsafe { &mut *context.interpreter.cast::<I>() };
    match catch_unwind(AssertUnwindSafe(|| interpreter.quick_write::<CSR>(value))) {
        Ok(done) => u32::from(!done),
        Err(panic) => {
            // The step that follows will find it.
            context.panic = Some(panic);
            1
        }
    }
}

/// What translated code returns.
const LOOKUP: u32 = 0;
const INTERPRET: u32 = 1;
const LEFT: u32 = 2;

/// Code that all traces share, at the start of the buffer: the way in, the ways out, the call of the interpreter.
#[derive(Clone, Copy, Debug)]
struct Common {
    lookup: usize,
    interpret: usize,
    step: usize,
    end: usize,
}

impl Common {
    /// Registers that calls preserve and translated code uses.
    const SAVED: [Reg; 6] = [RBX, RBP, R12, R13, R14, R15];

    fn append(buffer: &mut Buffer) -> Option<Common> {
        let mut asm = Assembler::default();
        let (out, leave) = (asm.label(), asm.label());
        // The way in: context, code.
        Self::SAVED.iter().for_each(|&reg| asm.push(reg));
        // The stack is aligned for calls again.
        asm.alu_imm(Alu::Sub, Width::Q, RSP, 8);
        asm.mov(Width::Q, RBP, RDI);
        asm.mov(Width::Q, RBX, context!(hart));
        asm.mov(Width::Q, R12, context!(dram));
        asm.mov(Width::Q, R13, context!(left));
        asm.mov_imm(R14, OPEN_BASE.wrapping_neg());
        asm.mov(Width::Q, R15, context!(dram_last));
        asm.stmxcsr(context!(usual));
        asm.ldmxcsr(context!(flushing));
        asm.jump_to(RSI);
        // The ways out, with the budget in r13 and pc written.
        let lookup = asm.code.len();
        asm.mov_imm(RAX, LOOKUP.into());
        asm.jump(out);
        let interpret = asm.code.len();
        asm.mov_imm(RAX, INTERPRET.into());
        asm.place(out);
        asm.store(8, context!(left), R13);
        asm.place(leave);
        asm.ldmxcsr(context!(usual));
        asm.vzeroupper();
        asm.alu_imm(Alu::Add, Width::Q, RSP, 8);
        Self::SAVED.iter().rev().for_each(|&reg| asm.pop(reg));
        asm.ret();
        // A step: rsi is the site, rdx the budget before it.
        let step = asm.code.len();
        asm.alu_imm(Alu::Sub, Width::Q, RSP, 8);
        asm.ldmxcsr(context!(usual));
        asm.vzeroupper();
        asm.mov(Width::Q, RDI, RBP);
        asm.call(context!(step));
        let stopped = asm.label();
        asm.alu_imm(Alu::Add, Width::Q, RSP, 8);
        asm.alu_imm(Alu::Cmp, Width::D, RAX, 0);
        asm.branch(Cond::NotEqual, stopped);
        asm.ldmxcsr(context!(flushing));
        asm.ret();
        asm.place(stopped);
        // Drop the return address.
        asm.alu_imm(Alu::Add, Width::Q, RSP, 8);
        asm.mov_imm(RAX, LEFT.into());
        asm.jump(leave);
        asm.link();
        buffer.append(&asm.code)?;
        Some(Common { lookup, interpret, step, end: buffer.used() })
    }
}

#[cfg(test)]
mod tests;
