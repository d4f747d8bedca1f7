//! From a trace to host code.
//!
//! While translated code runs, rbx points into the hart, rbp to the [`Context`](super::Context), r12 to the host's DRAM bytes, r13
//! holds the budget at the start of the trace, r14 the negated address of DRAM and r15 the last offset in it at which every
//! access is inside. Everything else is free between instructions.

use super::assembler::*;
use super::context::*;
use super::trace::{mask_after, target, End, Step, Trace, Walk};
use super::{Site, Translator, WRITES};
use crate::code::Slot;
use et_isa::{Class, Op};

/// More than the code of any trace.
pub(super) const LARGEST: usize = 64 << 10;

/// A trace that becomes code.
pub(super) struct Emitter<'a> {
    pub(super) asm: Assembler,
    translator: &'a mut Translator,
    trace: &'a Trace,
    /// How many instructions precede the current one, and where that is.
    done: usize,
    pub(super) pc: u64,
    /// What m0 holds, if that is known.
    pub(super) mask: Option<u8>,
    top: Label,
    cold: Vec<Cold>,
    /// Cells that get their first value, and the code that they lead to.
    unlinked: Vec<(usize, Label)>,
    /// Labels of the shared code.
    lookup: Label,
    interpret: Label,
    step: Label,
}

/// Code for what is rare, behind the trace.
enum Cold {
    /// An address that is not in DRAM: rax holds its offset. Goes on at `back` if it is in the own scratchpad.
    Scratchpad { label: Label, back: Label, slow: Label },
    /// The interpreter executes the instruction.
    Step { label: Label, back: Label, site: *const Site, done: usize },
    /// A branch out of the trace.
    Exit { label: Label, done: usize, target: u64 },
    /// The first instruction must be interpreted.
    Interpret { label: Label, pc: u64 },
}

impl<'a> Emitter<'a> {
    pub fn new(translator: &'a mut Translator, trace: &'a Trace) -> Self {
        let mut asm = Assembler::default();
        let start = translator.buffer.used() as i64;
        let common = translator.common;
        let [lookup, interpret, step] =
            [common.lookup, common.interpret, common.step].map(|offset| asm.outside(offset as i64 - start));
        let top = asm.label();
        let (cold, unlinked) = (Vec::new(), Vec::new());
        Emitter {
            asm,
            translator,
            trace,
            done: 0,
            pc: trace.start,
            mask: Some(0xFF),
            top,
            cold,
            unlinked,
            lookup,
            interpret,
            step,
        }
    }

    /// The code, and the cells that want the addresses of places in it.
    pub fn emit(mut self) -> (Vec<u8>, Vec<(usize, usize)>) {
        self.asm.place(self.top);
        self.enter();
        let trace = self.trace;
        for (done, (pc, slot)) in trace.instructions.iter().enumerate() {
            (self.done, self.pc) = (done, *pc);
            self.instruction(slot);
        }
        self.done = trace.instructions.len();
        match trace.end {
            End::Itself => {}
            End::Next(pc) => self.go(self.done, pc),
            End::Interpret(pc) => {
                self.retire(self.done);
                self.leave_at(pc, self.interpret);
            }
        }
        // Making one may ask for another.
        while let Some(cold) = self.cold.pop() {
            self.cold(cold);
        }
        self.asm.link();
        let unlinked = self.unlinked.iter().map(|&(cell, label)| (cell, self.asm.offset(label))).collect();
        (self.asm.code, unlinked)
    }

    /// Goes on only if the trace fits in the budget, and the hart is in the mode that it was made for.
    fn enter(&mut self) {
        let label = self.asm.label();
        self.cold.push(Cold::Interpret { label, pc: self.trace.start });
        self.asm.alu_imm(Alu::Cmp, Width::Q, R13, self.trace.instructions.len() as i32);
        self.asm.branch(Cond::Below, label);
        if self.trace.all_lanes {
            self.asm.cmp_byte(m(0), 0xFF);
            self.asm.branch(Cond::NotEqual, label);
        }
        if self.trace.nearest {
            self.asm.test_imm(FCSR, 0xE0);
            self.asm.branch(Cond::NotEqual, label);
        }
        if let Some(walk) = self.trace.walk() {
            self.look_ahead(&walk);
        }
    }

    /// Has the host fetch what a walk will load next. Rows of a matrix are long and far apart, and waiting for them is
    /// what walks cost most. The address need not be right.
    fn look_ahead(&mut self, walk: &Walk) {
        const LINE: i32 = 64;
        self.asm.mov(Width::Q, RAX, x(walk.base));
        match walk.step {
            Step::Register(step) => self.asm.alu(Alu::Add, Width::Q, RAX, x(step)),
            Step::Constant(step) => self.asm.alu_imm(Alu::Add, Width::Q, RAX, step),
        }
        self.asm.alu(Alu::Add, Width::Q, RAX, R14);
        let last = walk.offsets.iter().max().map(|offset| offset + WIDEST as i32 - 1);
        let mut offsets: Vec<i32> = walk.offsets.iter().copied().chain(last).collect();
        offsets.sort_unstable();
        offsets.dedup_by_key(|offset| *offset / LINE);
        for offset in offsets {
            self.asm.prefetch(Mem::indexed(R12, RAX, offset));
        }
    }

    fn instruction(&mut self, s: &Slot) {
        let handled = match s.op.row().class {
            Class::Int | Class::MulDiv | Class::System => self.integer(s),
            Class::Branch => self.control(s),
            Class::Load | Class::Store | Class::FpLoad | Class::FpStore => self.scalar_memory(s),
            Class::VectorLoad | Class::VectorStore | Class::Gather | Class::Scatter => self.vector_memory(s),
            Class::Fp => self.scalar_float(s),
            Class::Vector | Class::VectorInt | Class::VectorMove | Class::Convert | Class::Transcendental => {
                self.vector(s)
            }
            Class::Mask => self.mask(s),
            Class::Csr => self.csr(s),
            Class::Atomic | Class::CoherentStore | Class::PackedAtomic => false,
        };
        if !handled {
            let site = self.site(s);
            self.call(site, self.done);
        }
        if let Some(mask) = mask_after(s) {
            self.mask = mask;
        }
    }

    /// Has the interpreter execute an instruction.
    fn call(&mut self, site: *const Site, done: usize) {
        self.asm.mov_imm(RSI, site as u64);
        self.asm.lea(RDX, Mem::at(R13, -(done as i32)));
        self.asm.call_label(self.step);
    }

    /// Writes to CSRs that hold a number, and to the tensor unit's. Waits have nothing to wait for, unless a load is under way: while anything else
    /// is, no translated code runs.
    fn csr(&mut self, s: &Slot) -> bool {
        /// Waits for loads are those for events 0 and 1.
        const WAIT: i32 = 0x830;
        /// Operations that are sure to be without float arithmetic.
        const INTEGER: [i32; 5] = [0x801, 0x83F, 0x87F, 0x89F, 0x8BF];
        let after = self.asm.label();
        match s.op {
            Op::Csrrwi if s.rd == 0 && s.imm == WAIT => {
                if s.rs1 & 15 < 2 {
                    let slow = self.slow(s, after);
                    self.asm.cmp_byte(LOADS_WAITING, 0);
                    self.asm.branch(Cond::NotEqual, slow);
                }
            }
            Op::Csrrw if s.rd == 0 && matches!(s.imm, 0x8D0..=0x8D3) => {
                self.asm.mov(Width::Q, RAX, x(s.rs1));
                self.asm.store(8, validation(s.imm as usize & 3), RAX);
            }
            Op::Csrrw if s.rd == 0 => {
                let Some(index) = WRITES.iter().position(|&csr| i32::from(csr) == s.imm) else { return false };
                let slow = self.slow(s, after);
                self.asm.mov(Width::Q, RDI, RBP);
                self.asm.mov(Width::Q, RSI, x(s.rs1));
                self.asm.vzeroupper();
                if INTEGER.contains(&s.imm) {
                    self.asm.call(pointer(context!(writes), index));
                } else {
                    self.asm.ldmxcsr(context!(usual));
                    self.asm.call(pointer(context!(writes), index));
                    self.asm.ldmxcsr(context!(flushing));
                }
                self.asm.alu_imm(Alu::Cmp, Width::D, RAX, 0);
                self.asm.branch(Cond::NotEqual, slow);
            }
            _ => return false,
        }
        self.asm.place(after);
        true
    }

    fn site(&mut self, s: &Slot) -> *const Site {
        let site = Box::new(Site { slot: *s, pc: self.pc });
        let address: *const Site = &*site;
        self.translator.sites.push(site);
        address
    }

    /// A label from which the interpreter executes the current instruction, before the code goes on at `back`.
    pub(super) fn slow(&mut self, s: &Slot, back: Label) -> Label {
        let (label, site) = (self.asm.label(), self.site(s));
        self.cold.push(Cold::Step { label, back, site, done: self.done });
        label
    }

    /// A label for an address whose offset in DRAM, in rax, is too large; see [`Cold::Scratchpad`].
    pub(super) fn not_dram(&mut self, back: Label, slow: Label) -> Label {
        let label = self.asm.label();
        self.cold.push(Cold::Scratchpad { label, back, slow });
        label
    }

    /// Counts instructions of this trace as retired.
    fn retire(&mut self, count: usize) {
        if count > 0 {
            self.asm.alu_imm(Alu::Sub, Width::Q, R13, count as i32);
        }
    }

    /// Leaves translated code with the hart at `pc`.
    fn leave_at(&mut self, pc: u64, way: Label) {
        self.asm.mov_imm(RAX, pc);
        self.asm.store(8, PC, RAX);
        self.asm.jump(way);
    }

    /// Goes to another place after `done` instructions of the trace.
    fn go(&mut self, done: usize, pc: u64) {
        self.retire(done);
        if pc == self.trace.start {
            return self.asm.jump(self.top);
        }
        if let Some(entry) = self.translator.places.get(&pc).and_then(|place| place.code) {
            let distance = entry.0 as i64 - self.translator.buffer.used() as i64;
            let label = self.asm.outside(distance);
            return self.asm.jump(label);
        }
        let (cell, new) = self.translator.cell(pc);
        self.asm.mov_imm(RAX, &self.translator.cells[cell] as *const u64 as u64);
        self.asm.jump_to(Mem::at(RAX, 0));
        if new {
            let label = self.asm.label();
            self.asm.place(label);
            self.leave_at(pc, self.lookup);
            self.unlinked.push((cell, label));
        }
    }

    fn cold(&mut self, cold: Cold) {
        match cold {
            Cold::Scratchpad { label, back, slow } => {
                self.asm.place(label);
                self.asm.alu(Alu::Sub, Width::Q, RAX, context!(scratchpad));
                self.asm.alu(Alu::Cmp, Width::Q, RAX, context!(scratchpad_last));
                self.asm.branch(Cond::Above, slow);
                self.asm.alu(Alu::Add, Width::Q, RAX, context!(scratchpad_bytes));
                self.asm.jump(back);
            }
            Cold::Step { label, back, site, done } => {
                self.asm.place(label);
                self.call(site, done);
                self.asm.jump(back);
            }
            Cold::Exit { label, done, target } => {
                self.asm.place(label);
                self.go(done, target);
            }
            Cold::Interpret { label, pc } => {
                self.asm.place(label);
                self.leave_at(pc, self.interpret);
            }
        }
    }

    /// Branches and jumps.
    fn control(&mut self, s: &Slot) -> bool {
        let next = self.pc.wrapping_add(2 * u64::from(s.step));
        let cond = match s.op {
            Op::Jal => {
                self.link(s, next);
                return true;
            }
            Op::Jalr => {
                self.indirect(s, next);
                return true;
            }
            Op::Beq => Cond::Equal,
            Op::Bne => Cond::NotEqual,
            Op::Blt => Cond::Less,
            Op::Bge => Cond::GreaterEqual,
            Op::Bltu => Cond::Below,
            Op::Bgeu => Cond::AboveEqual,
            _ => return false,
        };
        let label = self.asm.label();
        self.asm.mov(Width::Q, RAX, x(s.rs1));
        if s.rs2 == 0 {
            self.asm.alu_imm(Alu::Cmp, Width::Q, RAX, 0);
        } else {
            self.asm.alu(Alu::Cmp, Width::Q, RAX, x(s.rs2));
        }
        self.asm.branch(cond, label);
        self.cold.push(Cold::Exit { label, done: self.done + 1, target: target(self.pc, s) });
        true
    }

    /// Writes the return address of a jump.
    fn link(&mut self, s: &Slot, next: u64) {
        if s.rd != 0 {
            self.asm.mov_imm(RCX, next);
            self.asm.store(8, x(s.rd), RCX);
        }
    }

    /// A jump to an address in a register.
    fn indirect(&mut self, s: &Slot, next: u64) {
        use super::{Jump, JUMPS};
        use std::mem::{offset_of, size_of};
        self.asm.mov(Width::Q, RAX, x(s.rs1));
        if s.imm != 0 {
            self.asm.alu_imm(Alu::Add, Width::Q, RAX, s.imm);
        }
        self.asm.alu_imm(Alu::And, Width::Q, RAX, !1);
        self.link(s, next);
        self.retire(self.done + 1);
        const _: () = assert!(size_of::<Jump>() == 16 && JUMPS.is_power_of_two());
        let miss = self.asm.label();
        self.asm.mov(Width::D, RCX, RAX);
        self.asm.alu_imm(Alu::And, Width::D, RCX, 2 * (JUMPS as i32 - 1));
        self.asm.shift_imm(Shift::Left, Width::D, RCX, 3);
        self.asm.alu(Alu::Add, Width::Q, RCX, context!(jumps));
        self.asm.alu(Alu::Cmp, Width::Q, RAX, Mem::at(RCX, offset_of!(Jump, pc) as i32));
        self.asm.branch(Cond::NotEqual, miss);
        self.asm.jump_to(Mem::at(RCX, offset_of!(Jump, code) as i32));
        self.asm.place(miss);
        self.asm.store(8, PC, RAX);
        self.asm.jump(self.lookup);
    }
}
