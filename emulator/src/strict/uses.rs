//! Which registers an instruction uses, from the instruction table.

use et_isa::form::{Field, File, Operand};
use et_isa::table::TABLE;
use et_isa::{Class, Op};
use std::sync::OnceLock;

/// Register fields, to be or-ed.
pub const RD: u8 = 1;
pub const RS1: u8 = 2;
pub const RS2: u8 = 4;
pub const RS3: u8 = 8;

/// What an instruction reads and writes.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    pub class: Class,
    /// Fields of vector registers that it reads.
    pub f_sources: u8,
    /// It writes the vector register in rd.
    pub f_dest: bool,
    /// Fields of integer registers that it reads.
    pub x_sources: u8,
    /// It writes the integer register in rd.
    pub x_dest: bool,
    /// All lanes of rd are written, whatever m0 is.
    pub all_lanes: bool,
    /// It accesses memory.
    pub memory: bool,
    /// It accesses memory for lanes.
    pub memory_vector: bool,
    /// The address has an immediate offset.
    pub offset: bool,
}

/// What all instructions use.
#[derive(Clone, Copy, Debug)]
pub struct Uses(&'static [Use]);

impl Uses {
    pub fn new() -> Uses {
        static USES: OnceLock<Vec<Use>> = OnceLock::new();
        Uses(USES.get_or_init(|| TABLE.iter().map(|row| find(row.op)).collect()))
    }

    /// What `op` uses.
    #[inline]
    pub fn of(self, op: Op) -> &'static Use {
        &self.0[op as usize]
    }
}

fn field(field: Field) -> u8 {
    match field {
        Field::Rd => RD,
        Field::Rs1 => RS1,
        Field::Rs2 => RS2,
        Field::Rs3 => RS3,
    }
}

fn find(op: Op) -> Use {
    let row = op.row();
    let class = row.class;
    let stores = matches!(class, Class::FpStore | Class::VectorStore | Class::Scatter);
    let memory_vector = matches!(
        class,
        Class::VectorLoad | Class::VectorStore | Class::Gather | Class::Scatter | Class::FpLoad | Class::FpStore
    );
    let mut used = Use {
        class,
        f_sources: 0,
        f_dest: false,
        x_sources: 0,
        x_dest: false,
        all_lanes: matches!(class, Class::Fp | Class::FpLoad) || matches!(op, Op::Flq2 | Op::Fsq2),
        memory: memory_vector || matches!(class, Class::Load | Class::Store | Class::Atomic | Class::PackedAtomic),
        memory_vector,
        offset: false,
    };
    for operand in row.form.operands() {
        match *operand {
            Operand::Reg(File::F, Field::Rd) if stores => used.f_sources |= RD,
            Operand::Reg(File::F, Field::Rd) => used.f_dest = true,
            Operand::Reg(File::F, other) => used.f_sources |= field(other),
            Operand::Reg(File::X, Field::Rd) => used.x_dest = true,
            Operand::Reg(File::X, other) => used.x_sources |= field(other),
            Operand::Memory(_) => {
                used.x_sources |= RS1;
                used.offset = true;
            }
            Operand::Index(File::F) => {
                used.f_sources |= RS1;
                used.x_sources |= RS2;
            }
            Operand::Index(_) => used.x_sources |= RS1 | RS2,
            Operand::Address(other) => used.x_sources |= field(other),
            _ => {}
        }
    }
    if class == Class::PackedAtomic {
        used.f_sources |= RD;
    }
    used
}

/// Bytes of an element of a scatter.
pub fn element(op: Op) -> u32 {
    match op {
        Op::FscbPs | Op::FscblPs | Op::FscbgPs | Op::Fsc32bPs => 1,
        Op::FschPs | Op::FschlPs | Op::FschgPs | Op::Fsc32hPs => 2,
        _ => 4,
    }
}
