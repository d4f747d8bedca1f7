//! An assembler for the x86-64 instructions that translated code is made of. Names are those of the processor's manuals;
//! operands are written destination first.

/// A general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reg(pub u8);

pub(super) const RAX: Reg = Reg(0);
pub(super) const RCX: Reg = Reg(1);
pub(super) const RDX: Reg = Reg(2);
pub(super) const RBX: Reg = Reg(3);
pub(super) const RSP: Reg = Reg(4);
pub(super) const RBP: Reg = Reg(5);
pub(super) const RSI: Reg = Reg(6);
pub(super) const RDI: Reg = Reg(7);
pub(super) const R12: Reg = Reg(12);
pub(super) const R13: Reg = Reg(13);
pub(super) const R14: Reg = Reg(14);
pub(super) const R15: Reg = Reg(15);

/// A vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ymm(pub u8);

/// `[base + index + disp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub base: Reg,
    pub index: Option<Reg>,
    pub disp: i32,
}

impl Mem {
    /// `[base + disp]`.
    pub const fn at(base: Reg, disp: i32) -> Mem {
        Mem { base, index: None, disp }
    }

    /// `[base + index + disp]`.
    pub const fn indexed(base: Reg, index: Reg, disp: i32) -> Mem {
        Mem { base, index: Some(index), disp }
    }
}

/// An operand that may be a register or memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    Reg(u8),
    Mem(Mem),
}

impl From<Reg> for Rm {
    fn from(reg: Reg) -> Rm {
        Rm::Reg(reg.0)
    }
}

impl From<Ymm> for Rm {
    fn from(reg: Ymm) -> Rm {
        Rm::Reg(reg.0)
    }
}

impl From<Mem> for Rm {
    fn from(mem: Mem) -> Rm {
        Rm::Mem(mem)
    }
}

/// Width of an integer operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// 32 bits; the upper half of a register that is written becomes 0.
    D,
    /// 64 bits.
    Q,
}

/// Two-operand arithmetic, by the number that immediate forms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts, by the number that immediate forms have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Left = 4,
    Right = 5,
    Arithmetic = 7,
}

/// Conditions, by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cond {
    Below = 2,
    AboveEqual = 3,
    Equal = 4,
    NotEqual = 5,
    Above = 7,
    Less = 12,
    GreaterEqual = 13,
}

/// How bytes become a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    I8,
    I16,
    I32,
    U8,
    U16,
    U32,
    U64,
}

/// A vector instruction: prefix (0 none, 1 `66`, 2 `F3`, 3 `F2`), opcode map (1 `0F`, 2 `0F38`, 3 `0F3A`), opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vex(pub u8, pub u8, pub u8);

#[rustfmt::skip]
impl Vex {
    pub const MOVUPS: Vex = Vex(0, 1, 0x10);
    pub const MOVUPS_STORE: Vex = Vex(0, 1, 0x11);
    pub const MOVAPS: Vex = Vex(0, 1, 0x28);
    pub const MOVAPS_STORE: Vex = Vex(0, 1, 0x29);
    pub const MOVSS: Vex = Vex(2, 1, 0x10);
    pub const MOVD: Vex = Vex(1, 1, 0x6E);
    pub const ADDPS: Vex = Vex(0, 1, 0x58);
    pub const MULPS: Vex = Vex(0, 1, 0x59);
    pub const SUBPS: Vex = Vex(0, 1, 0x5C);
    pub const DIVPS: Vex = Vex(0, 1, 0x5E);
    pub const MINPS: Vex = Vex(0, 1, 0x5D);
    pub const MAXPS: Vex = Vex(0, 1, 0x5F);
    pub const CMPPS: Vex = Vex(0, 1, 0xC2);
    pub const ANDPS: Vex = Vex(0, 1, 0x54);
    pub const ANDNPS: Vex = Vex(0, 1, 0x55);
    pub const ORPS: Vex = Vex(0, 1, 0x56);
    pub const XORPS: Vex = Vex(0, 1, 0x57);
    pub const BLENDVPS: Vex = Vex(1, 3, 0x4A);
    pub const FMADD231PS: Vex = Vex(1, 2, 0xB8);
    pub const FMSUB231PS: Vex = Vex(1, 2, 0xBA);
    pub const FNMADD231PS: Vex = Vex(1, 2, 0xBC);
    pub const FNMSUB231PS: Vex = Vex(1, 2, 0xBE);
    pub const CVTDQ2PS: Vex = Vex(0, 1, 0x5B);
    pub const CVTPS2DQ: Vex = Vex(1, 1, 0x5B);
    pub const CVTTPS2DQ: Vex = Vex(2, 1, 0x5B);
    pub const PADDD: Vex = Vex(1, 1, 0xFE);
    pub const PSUBD: Vex = Vex(1, 1, 0xFA);
    pub const PMULLD: Vex = Vex(1, 2, 0x40);
    pub const PAND: Vex = Vex(1, 1, 0xDB);
    pub const PANDN: Vex = Vex(1, 1, 0xDF);
    pub const POR: Vex = Vex(1, 1, 0xEB);
    pub const PXOR: Vex = Vex(1, 1, 0xEF);
    pub const PCMPEQD: Vex = Vex(1, 1, 0x76);
    pub const PCMPGTD: Vex = Vex(1, 1, 0x66);
    pub const PMINSD: Vex = Vex(1, 2, 0x39);
    pub const PMINUD: Vex = Vex(1, 2, 0x3B);
    pub const PMAXSD: Vex = Vex(1, 2, 0x3D);
    pub const PMAXUD: Vex = Vex(1, 2, 0x3F);
    pub const PSRLVD: Vex = Vex(1, 2, 0x45);
    pub const PSRAVD: Vex = Vex(1, 2, 0x46);
    pub const PSLLVD: Vex = Vex(1, 2, 0x47);
    pub const PSHUFD: Vex = Vex(1, 1, 0x70);
    pub const PSHUFB: Vex = Vex(1, 2, 0x00);
    pub const PERMD: Vex = Vex(1, 2, 0x36);
    pub const BLENDPS: Vex = Vex(1, 3, 0x0C);
    pub const PMOVSXBD: Vex = Vex(1, 2, 0x21);
    pub const PMOVSXWD: Vex = Vex(1, 2, 0x23);
    pub const PGATHERDD: Vex = Vex(1, 2, 0x90);
    pub const BROADCASTSS: Vex = Vex(1, 2, 0x18);
    pub const MOVMSKPS: Vex = Vex(0, 1, 0x50);
    pub const PTEST: Vex = Vex(1, 2, 0x17);
}

/// A place in the code that jumps go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Code under construction.
#[derive(Default)]
pub(super) struct Assembler {
    pub code: Vec<u8>,
    /// Where labels are.
    labels: Vec<Option<i64>>,
    /// The end of 32-bit distances to fill in, and the label that they lead to.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn byte(&mut self, byte: u8) {
        self.code.push(byte);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.code.extend_from_slice(bytes);
    }

    /// ModRM, SIB and displacement.
    fn modrm(&mut self, reg: u8, rm: Rm) {
        let reg = (reg & 7) << 3;
        let Mem { base, index, disp } = match rm {
            Rm::Reg(rm) => return self.byte(0xC0 | reg | rm & 7),
            Rm::Mem(mem) => mem,
        };
        let low = base.0 & 7;
        // Without displacement, rbp and r13 mean something else.
        let mode = match disp {
            0 if low != 5 => 0,
            -128..=127 => 0x40,
            _ => 0x80,
        };
        match index {
            Some(index) => self.bytes(&[mode | reg | 4, (index.0 & 7) << 3 | low]),
            // rsp and r12 as a base need a SIB byte.
            None if low == 4 => self.bytes(&[mode | reg | 4, 0x24]),
            None => self.byte(mode | reg | low),
        }
        match mode {
            0 => {}
            0x40 => self.byte(disp as u8),
            _ => self.bytes(&disp.to_le_bytes()),
        }
    }

    /// An instruction with a general register (or an opcode extension) and an operand. `byte` says that one
    /// of the registers 4 to 7 is a byte register, which needs a REX prefix to mean the low byte.
    fn general(&mut self, prefix: Option<u8>, width: Width, byte: bool, opcode: &[u8], reg: u8, rm: Rm) {
        if let Some(prefix) = prefix {
            self.byte(prefix);
        }
        let (x, b) = extensions(rm);
        let rex = 0x40 | ((width == Width::Q) as u8) << 3 | (reg >> 3) << 2 | x << 1 | b;
        if rex != 0x40 || byte {
            self.byte(rex);
        }
        self.bytes(opcode);
        self.modrm(reg, rm);
    }

    /// A VEX instruction of 128 (`l` 0) or 256 bits.
    fn vex(&mut self, Vex(pp, map, opcode): Vex, w: bool, l: u8, reg: u8, vvvv: u8, rm: Rm) {
        let (x, b) = extensions(rm);
        self.bytes(&[
            0xC4,
            (reg >> 3 ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | map,
            (w as u8) << 7 | (!vvvv & 15) << 3 | l << 2 | pp,
            opcode,
        ]);
        self.modrm(reg, rm);
    }

    /// `op dst, src`.
    pub fn alu(&mut self, op: Alu, width: Width, dst: Reg, src: impl Into<Rm>) {
        self.general(None, width, false, &[(op as u8) << 3 | 3], dst.0, src.into());
    }

    /// `op dst, imm`.
    pub fn alu_imm(&mut self, op: Alu, width: Width, dst: impl Into<Rm>, imm: i32) {
        let dst = dst.into();
        match i8::try_from(imm) {
            Ok(imm) => {
                self.general(None, width, false, &[0x83], op as u8, dst);
                self.byte(imm as u8);
            }
            Err(_) => {
                self.general(None, width, false, &[0x81], op as u8, dst);
                self.bytes(&imm.to_le_bytes());
            }
        }
    }

    /// `cmp byte [mem], imm`.
    pub fn cmp_byte(&mut self, mem: Mem, imm: u8) {
        self.general(None, Width::D, false, &[0x80], Alu::Cmp as u8, mem.into());
        self.byte(imm);
    }

    /// `test rm, imm`.
    pub fn test_imm(&mut self, rm: impl Into<Rm>, imm: i32) {
        self.general(None, Width::D, false, &[0xF7], 0, rm.into());
        self.bytes(&imm.to_le_bytes());
    }

    /// `shl`, `shr` or `sar dst, count`.
    pub fn shift_imm(&mut self, op: Shift, width: Width, dst: Reg, count: u8) {
        self.general(None, width, false, &[0xC1], op as u8, dst.into());
        self.byte(count);
    }

    /// `shlx`, `shrx` or `sarx dst, src, count`.
    pub fn shift(&mut self, op: Shift, width: Width, dst: Reg, src: impl Into<Rm>, count: Reg) {
        let pp = match op {
            Shift::Left => 1,
            Shift::Arithmetic => 2,
            Shift::Right => 3,
        };
        self.vex(Vex(pp, 2, 0xF7), width == Width::Q, 0, dst.0, count.0, src.into());
    }

    /// `imul dst, src`.
    pub fn imul(&mut self, width: Width, dst: Reg, src: impl Into<Rm>) {
        self.general(None, width, false, &[0x0F, 0xAF], dst.0, src.into());
    }

    /// `mul` or `imul src`: rdx:rax = rax * src.
    pub fn mul_wide(&mut self, signed: bool, src: impl Into<Rm>) {
        self.general(None, Width::Q, false, &[0xF7], 4 + signed as u8, src.into());
    }

    /// `mov dst, src` between registers or from memory.
    pub fn mov(&mut self, width: Width, dst: Reg, src: impl Into<Rm>) {
        self.general(None, width, false, &[0x8B], dst.0, src.into());
    }

    /// `div src`: rax and rdx = quotient and remainder of rdx:rax.
    pub fn div(&mut self, width: Width, src: impl Into<Rm>) {
        self.general(None, width, false, &[0xF7], 6, src.into());
    }

    /// `lea dst, mem`.
    pub fn lea(&mut self, dst: Reg, mem: Mem) {
        self.general(None, Width::Q, false, &[0x8D], dst.0, mem.into());
    }

    /// `mov dst, imm`, the shortest.
    pub fn mov_imm(&mut self, dst: Reg, imm: u64) {
        if let Ok(imm) = u32::try_from(imm) {
            if dst.0 >= 8 {
                self.byte(0x41);
            }
            self.byte(0xB8 | dst.0 & 7);
            self.bytes(&imm.to_le_bytes());
        } else if let Ok(imm) = i32::try_from(imm as i64) {
            self.general(None, Width::Q, false, &[0xC7], 0, dst.into());
            self.bytes(&imm.to_le_bytes());
        } else {
            self.bytes(&[0x48 | dst.0 >> 3, 0xB8 | dst.0 & 7]);
            self.bytes(&imm.to_le_bytes());
        }
    }

    /// `mov qword [mem], imm`, sign-extended.
    pub fn store_imm(&mut self, mem: Mem, imm: i32) {
        self.general(None, Width::Q, false, &[0xC7], 0, mem.into());
        self.bytes(&imm.to_le_bytes());
    }

    /// A load with extension to 64 bits. Also from the low part of a register.
    pub fn load(&mut self, kind: Load, dst: Reg, src: impl Into<Rm>) {
        let (width, opcode): (_, &[u8]) = match kind {
            Load::I8 => (Width::Q, &[0x0F, 0xBE]),
            Load::I16 => (Width::Q, &[0x0F, 0xBF]),
            Load::I32 => (Width::Q, &[0x63]),
            Load::U8 => (Width::D, &[0x0F, 0xB6]),
            Load::U16 => (Width::D, &[0x0F, 0xB7]),
            Load::U32 => (Width::D, &[0x8B]),
            Load::U64 => (Width::Q, &[0x8B]),
        };
        let src = src.into();
        let byte = matches!((kind, src), (Load::I8 | Load::U8, Rm::Reg(4..)));
        self.general(None, width, byte, opcode, dst.0, src);
    }

    /// Stores the low 1, 2, 4 or 8 bytes of a register.
    pub fn store(&mut self, bytes: u8, mem: Mem, src: Reg) {
        let mem = mem.into();
        match bytes {
            1 => self.general(None, Width::D, src.0 >= 4, &[0x88], src.0, mem),
            2 => self.general(Some(0x66), Width::D, false, &[0x89], src.0, mem),
            4 => self.general(None, Width::D, false, &[0x89], src.0, mem),
            _ => self.general(None, Width::Q, false, &[0x89], src.0, mem),
        }
    }

    /// `setcc dst` on the low byte.
    pub fn setcc(&mut self, cond: Cond, dst: Reg) {
        self.general(None, Width::D, dst.0 >= 4, &[0x0F, 0x90 | cond as u8], 0, dst.into());
    }

    /// A vector instruction on 256 bits, `op dst, a, b`; `a` is not used by some.
    pub fn vector(&mut self, op: Vex, dst: Ymm, a: Ymm, b: impl Into<Rm>) {
        self.vex(op, false, 1, dst.0, a.0, b.into());
    }

    /// A vector instruction with one source.
    pub fn vector1(&mut self, op: Vex, dst: Ymm, src: impl Into<Rm>) {
        self.vex(op, false, 1, dst.0, 0, src.into());
    }

    /// [`vector`](Self::vector) with an immediate byte.
    pub fn vector_imm(&mut self, op: Vex, dst: Ymm, a: Ymm, b: impl Into<Rm>, imm: u8) {
        self.vector(op, dst, a, b);
        self.byte(imm);
    }

    /// [`vector1`](Self::vector1) with an immediate byte.
    pub fn vector_imm_1(&mut self, op: Vex, dst: Ymm, src: impl Into<Rm>, imm: u8) {
        self.vector1(op, dst, src);
        self.byte(imm);
    }

    /// `vblendvps dst, no, yes, mask`.
    pub fn blend(&mut self, dst: Ymm, no: Ymm, yes: impl Into<Rm>, mask: Ymm) {
        self.vector(Vex::BLENDVPS, dst, no, yes);
        self.byte(mask.0 << 4);
    }

    /// `vpslld`, `vpsrld` or `vpsrad dst, src, count`.
    pub fn vector_shift(&mut self, op: Shift, dst: Ymm, src: Ymm, count: u8) {
        let number = match op {
            Shift::Left => 6,
            Shift::Right => 2,
            Shift::Arithmetic => 4,
        };
        self.vex(Vex(1, 1, 0x72), false, 1, number, dst.0, src.into());
        self.byte(count);
    }

    /// `vpgatherdd dst, [base + index], mask` for each lane; the registers must differ.
    pub fn gather(&mut self, dst: Ymm, base: Reg, index: Ymm, mask: Ymm) {
        self.vex(Vex::PGATHERDD, false, 1, dst.0, mask.0, Mem::indexed(base, Reg(index.0), 0).into());
    }

    /// An instruction on the lowest lane that clears the others: a load, or a move from a general register.
    pub fn scalar1(&mut self, op: Vex, dst: Ymm, src: impl Into<Rm>) {
        self.vex(op, false, 0, dst.0, 0, src.into());
    }

    /// `vmovmskps dst, src`.
    pub fn movmskps(&mut self, dst: Reg, src: Ymm) {
        self.vex(Vex::MOVMSKPS, false, 1, dst.0, 0, src.into());
    }

    /// `prefetcht0 mem`.
    pub fn prefetch(&mut self, mem: Mem) {
        self.general(None, Width::D, false, &[0x0F, 0x18], 1, mem.into());
    }

    /// `ldmxcsr mem`.
    pub fn ldmxcsr(&mut self, mem: Mem) {
        self.general(None, Width::D, false, &[0x0F, 0xAE], 2, mem.into());
    }

    /// `stmxcsr mem`.
    pub fn stmxcsr(&mut self, mem: Mem) {
        self.general(None, Width::D, false, &[0x0F, 0xAE], 3, mem.into());
    }

    /// `vzeroupper`.
    pub fn vzeroupper(&mut self) {
        self.bytes(&[0xC5, 0xF8, 0x77]);
    }

    /// `push reg`.
    pub fn push(&mut self, reg: Reg) {
        self.general(None, Width::D, false, &[0xFF], 6, reg.into());
    }

    /// `pop reg`.
    pub fn pop(&mut self, reg: Reg) {
        self.general(None, Width::D, false, &[0x8F], 0, reg.into());
    }

    /// `ret`.
    pub fn ret(&mut self) {
        self.byte(0xC3);
    }

    /// `call [mem]`.
    pub fn call(&mut self, mem: Mem) {
        self.general(None, Width::D, false, &[0xFF], 2, mem.into());
    }

    /// `jmp [mem]` or `jmp reg`.
    pub fn jump_to(&mut self, target: impl Into<Rm>) {
        self.general(None, Width::D, false, &[0xFF], 4, target.into());
    }

    /// A new label, not placed yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label here.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len() as i64);
    }

    /// Where a label is.
    pub fn offset(&self, label: Label) -> usize {
        self.labels[label.0].expect("a placed label") as usize
    }

    /// A label at a distance from the start of this code.
    pub fn outside(&mut self, distance: i64) -> Label {
        self.labels.push(Some(distance));
        Label(self.labels.len() - 1)
    }

    /// `jmp label`.
    pub fn jump(&mut self, label: Label) {
        self.byte(0xE9);
        self.distance(label);
    }

    /// `call label`.
    pub fn call_label(&mut self, label: Label) {
        self.byte(0xE8);
        self.distance(label);
    }

    /// `jcc label`.
    pub fn branch(&mut self, cond: Cond, label: Label) {
        self.bytes(&[0x0F, 0x80 | cond as u8]);
        self.distance(label);
    }

    fn distance(&mut self, label: Label) {
        self.bytes(&[0; 4]);
        self.jumps.push((self.code.len(), label));
    }

    /// Fills in the distances of jumps. All labels that are used must be placed.
    pub fn link(&mut self) {
        for (end, label) in self.jumps.drain(..) {
            let target = self.labels[label.0].expect("a placed label");
            let distance = (target - end as i64) as i32;
            self.code[end - 4..end].copy_from_slice(&distance.to_le_bytes());
        }
    }
}

/// The top bits of the index and base registers of an operand.
fn extensions(rm: Rm) -> (u8, u8) {
    match rm {
        Rm::Reg(rm) => (0, rm >> 3),
        Rm::Mem(mem) => (mem.index.map_or(0, |index| index.0 >> 3), mem.base.0 >> 3),
    }
}
