//! What each instruction costs in the pipeline, and which registers it waits for.

use super::constants::*;
use et_isa::form::{Field, File, Operand};
use et_isa::{Class, Op, Row, TABLE};
use std::sync::LazyLock;

/// A unit that takes one instruction at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Integer multiplication and division.
    Multiplier,
    /// Transcendentals.
    Transcendental,
}

/// How an instruction is treated beyond issue and latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not at all.
    Plain,
    /// Jumps if its comparison holds.
    Branch,
    /// Always jumps.
    Jump,
    /// Waits for what the hart has under way.
    Fence,
    /// A CSR access, by number.
    Csr,
    /// One of the hart's loads through L1, of so many bytes.
    Load(u8),
    /// A store through L1.
    Store(u8),
    /// Lanes at f[rs1] + x[rs2], or within a block: elements of so many bytes.
    Gather(u8),
    /// The same, written.
    Scatter(u8),
    /// Lanes within one block of 32 bytes at x[rs2].
    Block {
        /// They are written.
        store: bool,
    },
    /// A load, store or atomic at x[rs1] that goes around L1, of so many bytes.
    Uncached {
        /// Done at L3, else at L2.
        global: bool,
        /// The address is in rs1.
        bytes: u8,
    },
    /// Lanes at f[rs1] + x[rs2] that go around L1.
    UncachedLanes {
        /// Done at L3, else at L2.
        global: bool,
        /// Elements of so many bytes.
        bytes: u8,
    },
}

/// A register file and field as a place in [`Scoreboard`](super::hart::Scoreboard): base, and which bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    base: u8,
    bits: u8,
}

/// Places of the scoreboard: x, f, m, one that is always ready, one that nobody reads.
pub const F: u8 = 32;
const M: u8 = 64;
const READY: u8 = 72;
pub const IGNORED: u8 = 73;
/// How many.
pub const REGISTERS: usize = 74;

impl Register {
    const NONE: Register = Register { base: READY, bits: 0 };

    const fn of(file: File) -> Register {
        match file {
            File::X => Register { base: 0, bits: 31 },
            File::F => Register { base: F, bits: 31 },
            File::M => Register { base: M, bits: 7 },
        }
    }

    /// The place of register `number`.
    #[inline(always)]
    pub const fn at(self, number: u8) -> usize {
        (self.base + (number & self.bits)) as usize
    }
}

/// What an instruction costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub kind: Kind,
    /// From it to the hart's next instruction.
    pub issue: Ticks,
    /// From its issue to where the other hart can.
    pub hold: Ticks,
    /// From it to the use of its result.
    pub latency: Ticks,
    /// It needs this unit as long as it issues.
    pub unit: Option<Unit>,
    /// From it to another transcendental of the same register.
    pub again: Ticks,
    /// It needs the vector unit.
    pub vector: bool,
    /// It multiplies and adds lanes.
    pub fused: bool,
    /// Sources: by rd, rs1, rs2, rs3, and the lanes' mask.
    pub sources: [Register; 4],
    pub masked: usize,
    /// Where its result goes.
    pub result: Register,
}

/// By [`Op`].
pub static COSTS: LazyLock<Vec<Cost>> = LazyLock::new(|| TABLE.iter().map(cost).collect());

fn cost(row: &Row) -> Cost {
    use Class::*;
    let (issue, latency) = interval(row);
    let kind = kind(row);
    let writes = !matches!(row.class, Store | FpStore | VectorStore | Scatter | CoherentStore);
    let rmw = row.class == PackedAtomic;
    let mut cost = Cost {
        kind,
        issue,
        hold: ISSUE,
        latency,
        unit: None,
        again: 0,
        vector: row.class.uses_vpu(),
        fused: matches!(row.op, Op::FmaddPs | Op::FmsubPs | Op::FnmsubPs | Op::FnmaddPs),
        sources: [Register::NONE; 4],
        masked: Register::NONE.at(0),
        result: Register { base: IGNORED, bits: 0 },
    };
    for operand in row.form.operands() {
        match *operand {
            Operand::Reg(file, Field::Rd) => {
                if writes {
                    cost.result = Register::of(file);
                }
                if !writes || rmw {
                    cost.sources[0] = Register::of(file);
                }
            }
            Operand::Reg(file, field) => cost.sources[slot(field)] = Register::of(file),
            Operand::Memory(_) => cost.sources[slot(Field::Rs1)] = Register::of(File::X),
            Operand::Address(field) => cost.sources[slot(field)] = Register::of(File::X),
            Operand::Index(file) => {
                cost.sources[slot(Field::Rs1)] = Register::of(file);
                cost.sources[slot(Field::Rs2)] = Register::of(File::X);
            }
            Operand::Rm | Operand::Imm(_) | Operand::Csr => {}
        }
    }
    let lanes = matches!(
        row.class,
        Vector | VectorInt | Convert | Transcendental | VectorLoad | VectorStore | Gather | Scatter | PackedAtomic
    );
    if lanes && !matches!(row.op, Op::Flq2 | Op::Fsq2) {
        cost.masked = Register::of(File::M).at(0);
    }
    match row.class {
        MulDiv => {
            cost.unit = Some(Unit::Multiplier);
            cost.hold = if issue >= DIVW_ISSUE { DIV_HOLD } else { MUL_HOLD };
        }
        Transcendental => {
            cost.unit = Some(Unit::Transcendental);
            cost.hold = TRANSCENDENTAL_HOLD;
            cost.again = if row.op == Op::FrcpPs { RCP_AGAIN } else { EXP_AGAIN };
        }
        Gather | Scatter | PackedAtomic => cost.hold = issue,
        _ => {}
    }
    cost
}

const fn slot(field: Field) -> usize {
    match field {
        Field::Rd => 0,
        Field::Rs1 => 1,
        Field::Rs2 => 2,
        Field::Rs3 => 3,
    }
}

/// Issue and latency.
fn interval(row: &Row) -> (Ticks, Ticks) {
    use Class::*;
    match row.op {
        Op::Mul => (MUL_ISSUE, MUL_LATENCY),
        Op::Mulh | Op::Mulhu | Op::Mulhsu => (MULH_ISSUE, MUL_LATENCY),
        Op::Mulw => (MULW_ISSUE, MULW_LATENCY),
        Op::Div | Op::Divu | Op::Rem | Op::Remu => (DIV_ISSUE, DIV_ISSUE),
        Op::Divw | Op::Divuw | Op::Remw | Op::Remuw => (DIVW_ISSUE, DIVW_ISSUE),
        Op::FrcpPs => (RCP_ISSUE, RCP_LATENCY),
        Op::FmvXW | Op::FcvtWS | Op::FcvtWuS | Op::FeqS | Op::FltS | Op::FleS | Op::FclassS => {
            (TO_INT_ISSUE, TO_INT_LATENCY)
        }
        Op::FmvzXPs | Op::FmvsXPs => (TO_INT_ISSUE, TO_INT_LATENCY),
        Op::FsgnjS | Op::FsgnjnS | Op::FsgnjxS | Op::FminS | Op::FmaxS | Op::FmvWX => (ISSUE, SHORT_LATENCY),
        Op::FsgnjPs | Op::FsgnjnPs | Op::FsgnjxPs | Op::FminPs | Op::FmaxPs | Op::FcmovPs | Op::FcmovmPs => {
            (ISSUE, SHORT_LATENCY)
        }
        Op::FeqPs | Op::FltPs | Op::FlePs | Op::FclassPs => (ISSUE, SHORT_LATENCY),
        Op::FmulPi | Op::FmulhPi | Op::FmulhuPi => (ISSUE, FP_LATENCY),
        Op::Maskand | Op::Maskor | Op::Maskxor | Op::Masknot => (ISSUE, MASK_LATENCY),
        Op::MovMX => (ISSUE, MOV_MASK_LATENCY),
        Op::MovaXM | Op::MovaMX => (MOVA_ISSUE, MOVA_ISSUE),
        Op::Fg32bPs | Op::Fg32hPs | Op::Fg32wPs | Op::Fsc32bPs | Op::Fsc32hPs | Op::Fsc32wPs => {
            (ISSUE, VECTOR_LOAD_LATENCY)
        }
        _ => match row.class {
            Transcendental => (EXP_ISSUE, EXP_LATENCY),
            Fp | Vector | Convert => (ISSUE, FP_LATENCY),
            VectorInt | VectorMove => (ISSUE, SHORT_LATENCY),
            Mask => (ISSUE, COMPARE_LATENCY),
            Load => (ISSUE, LOAD_LATENCY),
            FpLoad | VectorLoad => (ISSUE, VECTOR_LOAD_LATENCY),
            Gather | Scatter | PackedAtomic => (GATHER_ISSUE, GATHER_ISSUE + VECTOR_LOAD_LATENCY - ISSUE),
            Csr => (CSR_ISSUE, CSR_ISSUE),
            _ => (ISSUE, INT_LATENCY),
        },
    }
}

fn kind(row: &Row) -> Kind {
    use Class::*;
    let name = row.mnemonic;
    let has = |text: &str| name.contains(text);
    let global = |stem: &str| stem.ends_with('g');
    match row.class {
        Branch if matches!(row.op, Op::Jal | Op::Jalr) => Kind::Jump,
        Branch => Kind::Branch,
        Csr => Kind::Csr,
        System if row.op == Op::Fence => Kind::Fence,
        Load => Kind::Load(width(name.trim_end_matches('u'))),
        Store => Kind::Store(width(name)),
        FpLoad => Kind::Load(4),
        FpStore => Kind::Store(4),
        VectorLoad | VectorStore if has("lwl.") || has("lwg.") || has("swl.") || has("swg.") => {
            Kind::Uncached { global: has("wg."), bytes: 32 }
        }
        VectorLoad => Kind::Load(if row.op == Op::FbcPs { 4 } else { 32 }),
        VectorStore => Kind::Store(32),
        CoherentStore => Kind::Uncached { global: global(name), bytes: if has("sb") { 1 } else { 2 } },
        Atomic => {
            let (stem, size) = name.split_once('.').unwrap_or((name, "w"));
            Kind::Uncached { global: global(stem), bytes: if size == "d" { 8 } else { 4 } }
        }
        PackedAtomic => Kind::UncachedLanes { global: global(name.split('.').next().unwrap_or(name)), bytes: 4 },
        Gather | Scatter if has("32") => Kind::Block { store: row.class == Scatter },
        Gather | Scatter => {
            let stem = name.trim_end_matches(".ps").trim_start_matches("fg").trim_start_matches("fsc");
            let bytes = width(&stem[..1]);
            match stem.len() {
                1 if row.class == Gather => Kind::Gather(bytes),
                1 => Kind::Scatter(bytes),
                _ => Kind::UncachedLanes { global: global(stem), bytes },
            }
        }
        _ => Kind::Plain,
    }
}

/// Bytes of the access that a mnemonic's last letter names.
fn width(name: &str) -> u8 {
    match name.as_bytes().last() {
        Some(b'b') => 1,
        Some(b'h') => 2,
        Some(b'd') => 8,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(op: Op) -> Cost {
        COSTS[op as usize]
    }

    #[test]
    fn memory_instructions_are_told_apart() {
        assert_eq!(of(Op::Lbu).kind, Kind::Load(1));
        assert_eq!(of(Op::Ld).kind, Kind::Load(8));
        assert_eq!(of(Op::Sh).kind, Kind::Store(2));
        assert_eq!(of(Op::FlwPs).kind, Kind::Load(32));
        assert_eq!(of(Op::FbcPs).kind, Kind::Load(4));
        assert_eq!(of(Op::FlwgPs).kind, Kind::Uncached { global: true, bytes: 32 });
        assert_eq!(of(Op::FswlPs).kind, Kind::Uncached { global: false, bytes: 32 });
        assert_eq!(of(Op::FghPs).kind, Kind::Gather(2));
        assert_eq!(of(Op::FscwPs).kind, Kind::Scatter(4));
        assert_eq!(of(Op::FscwgPs).kind, Kind::UncachedLanes { global: true, bytes: 4 });
        assert_eq!(of(Op::FgblPs).kind, Kind::UncachedLanes { global: false, bytes: 1 });
        assert_eq!(of(Op::Fg32bPs).kind, Kind::Block { store: false });
        assert_eq!(of(Op::Shg).kind, Kind::Uncached { global: true, bytes: 2 });
        assert_eq!(of(Op::Sbl).kind, Kind::Uncached { global: false, bytes: 1 });
        assert_eq!(of(Op::AmoaddgW).kind, Kind::Uncached { global: true, bytes: 4 });
        assert_eq!(of(Op::AmoswaplD).kind, Kind::Uncached { global: false, bytes: 8 });
        assert_eq!(of(Op::FamoaddgPi).kind, Kind::UncachedLanes { global: true, bytes: 4 });
    }

    #[test]
    fn registers_come_from_the_form() {
        let add = of(Op::Add);
        assert_eq!((add.sources[1].at(5), add.sources[2].at(6), add.result.at(7)), (5, 6, 7));
        let store = of(Op::FswPs);
        assert_eq!((store.sources[1].at(5), store.sources[2].at(6)), (5, 38));
        assert_eq!(store.result.at(9), IGNORED as usize);
        assert_eq!(store.masked, 64);
        let scatter = of(Op::FscwPs);
        assert_eq!((scatter.sources[0].at(3), scatter.sources[1].at(4), scatter.sources[2].at(5)), (35, 36, 5));
        assert_eq!(of(Op::FmaddPs).sources[3].at(31), 63);
        assert_eq!(of(Op::Flq2).masked, READY as usize);
    }
}
