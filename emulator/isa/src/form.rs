//! Operand forms: where the operands of an instruction sit in the word, and how they are written.

use Operand::{Address, Index, Memory, Reg, Rm};

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    /// Integer registers.
    X,
    /// Vector and floating-point registers.
    F,
    /// Mask registers, three bits wide.
    M,
}

/// The place of a register number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Bits 11:7.
    Rd,
    /// Bits 19:15.
    Rs1,
    /// Bits 24:20.
    Rs2,
    /// Bits 31:27.
    Rs3,
}

impl Field {
    /// Lowest bit.
    pub const fn shift(self) -> u32 {
        match self {
            Field::Rd => 7,
            Field::Rs1 => 15,
            Field::Rs2 => 20,
            Field::Rs3 => 27,
        }
    }
}

/// An immediate's layout (sheet 2.1). Values are those written in assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Imm {
    /// 31:20, signed.
    I12,
    /// 31:25 and 11:7, signed.
    S12,
    /// Branch offset, even.
    Branch,
    /// Jump offset, even.
    Jump,
    /// 31:12, unsigned as written.
    Upper,
    /// 31:27 and 24:20, signed.
    Imm10,
    /// 24:20 and 14:12, unsigned.
    Imm8,
    /// 25:20.
    Shift6,
    /// 24:20.
    Shift5,
    /// 22:20.
    Lane,
    /// 19:15, unsigned (CSR forms).
    Imm5,
    /// Predecessor and successor sets of a fence, 27:20.
    Fence,
}

impl Imm {
    /// Smallest and largest value.
    pub const fn range(self) -> (i32, i32) {
        match self {
            Imm::I12 | Imm::S12 => (-2048, 2047),
            Imm::Branch => (-4096, 4094),
            Imm::Jump => (-0x10_0000, 0xF_FFFE),
            Imm::Upper => (0, 0xF_FFFF),
            Imm::Imm10 => (-512, 511),
            Imm::Imm8 | Imm::Fence => (0, 255),
            Imm::Shift6 => (0, 63),
            Imm::Shift5 | Imm::Imm5 => (0, 31),
            Imm::Lane => (0, 7),
        }
    }

    /// The value in `word`.
    pub const fn get(self, word: u32) -> i32 {
        const fn field(word: u32, low: u32, count: u32) -> i32 {
            ((word >> low) & ((1 << count) - 1)) as i32
        }
        let signed = word as i32;
        match self {
            Imm::I12 => signed >> 20,
            Imm::S12 => (signed >> 25) << 5 | field(word, 7, 5),
            Imm::Branch => {
                (signed >> 31) << 12 | field(word, 7, 1) << 11 | field(word, 25, 6) << 5 | field(word, 8, 4) << 1
            }
            Imm::Jump => {
                (signed >> 31) << 20 | field(word, 12, 8) << 12 | field(word, 20, 1) << 11 | field(word, 21, 10) << 1
            }
            Imm::Upper => field(word, 12, 20),
            Imm::Imm10 => (signed >> 27) << 5 | field(word, 20, 5),
            Imm::Imm8 => field(word, 20, 5) << 3 | field(word, 12, 3),
            Imm::Shift6 => field(word, 20, 6),
            Imm::Shift5 => field(word, 20, 5),
            Imm::Lane => field(word, 20, 3),
            Imm::Imm5 => field(word, 15, 5),
            Imm::Fence => field(word, 20, 8),
        }
    }

    /// The bits of `value`, or `None` if it does not fit.
    pub const fn put(self, value: i32) -> Option<u32> {
        let (low, high) = self.range();
        if value < low || value > high {
            return None;
        }
        let v = value as u32;
        Some(match self {
            Imm::I12 => v << 20,
            Imm::S12 => (v >> 5) << 25 | (v & 31) << 7,
            Imm::Branch => {
                if v & 1 != 0 {
                    return None;
                }
                (v >> 12 & 1) << 31 | (v >> 5 & 63) << 25 | (v >> 1 & 15) << 8 | (v >> 11 & 1) << 7
            }
            Imm::Jump => {
                if v & 1 != 0 {
                    return None;
                }
                (v >> 20 & 1) << 31 | (v >> 1 & 0x3FF) << 21 | (v >> 11 & 1) << 20 | (v >> 12 & 0xFF) << 12
            }
            Imm::Upper => v << 12,
            Imm::Imm10 => (v >> 5 & 31) << 27 | (v & 31) << 20,
            Imm::Imm8 => (v >> 3) << 20 | (v & 7) << 12,
            Imm::Shift6 | Imm::Shift5 | Imm::Lane | Imm::Fence => v << 20,
            Imm::Imm5 => v << 15,
        })
    }
}

/// One operand as written in assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Reg(File, Field),
    /// Rounding mode, bits 14:12; left out means dynamic.
    Rm,
    /// An immediate.
    Imm(Imm),
    /// A CSR, bits 31:20.
    Csr,
    /// `imm(xN)` with the base in rs1.
    Memory(Imm),
    /// `index(xN)` with the index in rs1 and the base in rs2.
    Index(File),
    /// `(xN)`.
    Address(Field),
}

const fn x(field: Field) -> Operand {
    Reg(File::X, field)
}
const fn f(field: Field) -> Operand {
    Reg(File::F, field)
}
const fn m(field: Field) -> Operand {
    Reg(File::M, field)
}

const XD: Operand = x(Field::Rd);
const X1: Operand = x(Field::Rs1);
const X2: Operand = x(Field::Rs2);
const FD: Operand = f(Field::Rd);
const F1: Operand = f(Field::Rs1);
const F2: Operand = f(Field::Rs2);
const F3: Operand = f(Field::Rs3);
const MD: Operand = m(Field::Rd);
const M1: Operand = m(Field::Rs1);
const M2: Operand = m(Field::Rs2);

macro_rules! forms {
    ($($name:ident = [$($operand:expr),*];)*) => {
        /// An instruction's operand list, named after it: X, F, M is the register file; d, 1, 2, 3 the field.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Form {
            $($name,)*
        }

        impl Form {
            /// The operands in the order in which they are written.
            pub const fn operands(self) -> &'static [Operand] {
                match self {
                    $(Form::$name => &[$($operand),*],)*
                }
            }
        }
    };
}

forms! {
    None = [];
    Xd = [XD];
    X1 = [X1];
    XdX1X2 = [XD, X1, X2];
    XdX1Imm12 = [XD, X1, Operand::Imm(Imm::I12)];
    XdX1Shift6 = [XD, X1, Operand::Imm(Imm::Shift6)];
    XdX1Shift5 = [XD, X1, Operand::Imm(Imm::Shift5)];
    XdUpper = [XD, Operand::Imm(Imm::Upper)];
    XdJump = [XD, Operand::Imm(Imm::Jump)];
    XdOffset = [XD, Memory(Imm::I12)];
    X2Offset = [X2, Memory(Imm::S12)];
    X1X2 = [X1, X2];
    X1X2Branch = [X1, X2, Operand::Imm(Imm::Branch)];
    XdX2Addr1 = [XD, X2, Address(Field::Rs1)];
    X2Addr1 = [X2, Address(Field::Rs1)];
    XdCsrX1 = [XD, Operand::Csr, X1];
    XdCsrImm5 = [XD, Operand::Csr, Operand::Imm(Imm::Imm5)];
    Fence = [Operand::Imm(Imm::Fence)];
    FdOffset = [FD, Memory(Imm::I12)];
    F2Offset = [F2, Memory(Imm::S12)];
    FdAddr1 = [FD, Address(Field::Rs1)];
    FdF1Base = [FD, Index(File::F)];
    FdX1Base = [FD, Index(File::X)];
    FdF1Addr2 = [FD, F1, Address(Field::Rs2)];
    FdF1 = [FD, F1];
    FdF1Rm = [FD, F1, Rm];
    FdF1F2 = [FD, F1, F2];
    FdF1F2Rm = [FD, F1, F2, Rm];
    FdF1F2F3 = [FD, F1, F2, F3];
    FdF1F2F3Rm = [FD, F1, F2, F3, Rm];
    FdF1Imm10 = [FD, F1, Operand::Imm(Imm::Imm10)];
    FdF1Imm8 = [FD, F1, Operand::Imm(Imm::Imm8)];
    FdF1Shift5 = [FD, F1, Operand::Imm(Imm::Shift5)];
    FdImm20 = [FD, Operand::Imm(Imm::Upper)];
    FdX1 = [FD, X1];
    FdX1Rm = [FD, X1, Rm];
    XdF1 = [XD, F1];
    XdF1Rm = [XD, F1, Rm];
    XdF1F2 = [XD, F1, F2];
    XdF1Lane = [XD, F1, Operand::Imm(Imm::Lane)];
    MdF1 = [MD, F1];
    MdF1F2 = [MD, F1, F2];
    MdM1 = [MD, M1];
    MdM1M2 = [MD, M1, M2];
    MdX1Imm8 = [MD, X1, Operand::Imm(Imm::Imm8)];
    XdM1 = [XD, M1];
    XdM1M2 = [XD, M1, M2];
}

/// Operand values of one instruction; what a form does not have is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Operands {
    pub rd: u8,
    pub rs1: u8,
    pub rs2: u8,
    pub rs3: u8,
    pub rm: u8,
    pub csr: u16,
    pub imm: i32,
}

impl Operands {
    /// The register number of `field`.
    pub const fn register(&self, field: Field) -> u8 {
        match field {
            Field::Rd => self.rd,
            Field::Rs1 => self.rs1,
            Field::Rs2 => self.rs2,
            Field::Rs3 => self.rs3,
        }
    }

    /// Sets the register number of `field`.
    pub fn set_register(&mut self, field: Field, number: u8) {
        match field {
            Field::Rd => self.rd = number,
            Field::Rs1 => self.rs1 = number,
            Field::Rs2 => self.rs2 = number,
            Field::Rs3 => self.rs3 = number,
        }
    }

    /// The operands of `word` under `form`.
    pub fn extract(form: Form, word: u32) -> Self {
        let mut out = Operands::default();
        let number = |field: Field| (word >> field.shift() & 31) as u8;
        for operand in form.operands() {
            match *operand {
                Reg(File::M, field) => out.set_register(field, number(field) & 7),
                Reg(_, field) | Address(field) => out.set_register(field, number(field)),
                Rm => out.rm = (word >> 12 & 7) as u8,
                Operand::Imm(imm) => out.imm = imm.get(word),
                Operand::Csr => out.csr = (word >> 20) as u16,
                Memory(imm) => {
                    out.rs1 = number(Field::Rs1);
                    out.imm = imm.get(word);
                }
                Index(_) => {
                    out.rs1 = number(Field::Rs1);
                    out.rs2 = number(Field::Rs2);
                }
            }
        }
        out
    }

    /// The bits of these operands under `form`; `None` if a value does not fit.
    pub fn insert(&self, form: Form) -> Option<u32> {
        let mut word = 0;
        let place = |field: Field, limit: u8| {
            let number = self.register(field);
            (number < limit).then_some((number as u32) << field.shift())
        };
        for operand in form.operands() {
            word |= match *operand {
                Reg(File::M, field) => place(field, 8)?,
                Reg(_, field) | Address(field) => place(field, 32)?,
                Rm => (self.rm < 8).then_some((self.rm as u32) << 12)?,
                Operand::Imm(imm) => imm.put(self.imm)?,
                Operand::Csr => (self.csr < 0x1000).then_some((self.csr as u32) << 20)?,
                Memory(imm) => place(Field::Rs1, 32)? | imm.put(self.imm)?,
                Index(_) => place(Field::Rs1, 32)? | place(Field::Rs2, 32)?,
            };
        }
        Some(word)
    }
}
