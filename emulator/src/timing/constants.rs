//! Every number of the model, each with where it comes from. The table of docs/timing.md is printed from here.

use std::fmt;

/// Modelled time in quarters of a minion cycle: some measured intervals are not whole cycles.
pub type Ticks = u64;

/// Ticks in a cycle.
pub const CYCLE: Ticks = 4;

/// A number of cycles in ticks; it must be a multiple of a quarter.
const fn ticks(cycles: f64) -> Ticks {
    let ticks = (cycles * CYCLE as f64) as Ticks;
    assert!(ticks as f64 / CYCLE as f64 == cycles, "not a multiple of a quarter cycle");
    ticks
}

/// What kind of evidence a constant rests on, in the words of the project's timing sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Measured on the open RTL of the minion.
    Rtl,
    /// The chip's public documents.
    Doc,
    /// Firmware constants.
    Fw,
    /// Measured on a board.
    Brd,
    /// An estimate: no measurement is known.
    Est,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Rtl => "RTL",
            Source::Doc => "DOC",
            Source::Fw => "FW",
            Source::Brd => "BRD",
            Source::Est => "EST",
        })
    }
}

/// How far a constant can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Confidence {
    High,
    Medium,
    Low,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name in the code.
    pub name: &'static str,
    /// Its value as written.
    pub value: &'static str,
    /// What it counts.
    pub unit: &'static str,
    /// Section of the timing sheet.
    pub section: &'static str,
    /// Evidence.
    pub source: Source,
    /// Trust.
    pub confidence: Confidence,
    /// What it is.
    pub meaning: &'static str,
}

macro_rules! constants {
    (@type cycles) => { Ticks };
    (@type per_cycle) => { f64 };
    (@type $count:ident) => { u64 };
    (@value cycles $value:literal) => { ticks($value as f64) };
    (@value per_cycle $value:literal) => { $value as f64 };
    (@value $count:ident $value:literal) => { $value };
    (@unit per_cycle) => { "bytes per cycle" };
    (@unit count) => { "" };
    (@unit $unit:ident) => { stringify!($unit) };
    ($($name:ident = $value:literal $unit:ident, $section:literal, $source:ident, $confidence:ident, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: constants!(@type $unit) = constants!(@value $unit $value);)*

        /// All of them, in the order of the timing sheet.
        pub static TABLE: &[Constant] = &[$(Constant {
            name: stringify!($name),
            value: stringify!($value),
            unit: constants!(@unit $unit),
            section: $section,
            source: Source::$source,
            confidence: Confidence::$confidence,
            meaning: $meaning,
        },)*];
    };
}

constants! {
    MHZ = 650 MHz, "1.1", Fw, Medium, "minion clock: what cycles are to seconds";
    ISSUE = 1 cycles, "1.2", Rtl, High, "issue of an instruction that is not named below";
    INT_LATENCY = 1 cycles, "1.2", Rtl, High, "result of integer arithmetic";
    MUL_ISSUE = 5.5 cycles, "1.2", Rtl, High, "issue of a 64-bit multiplication";
    MUL_LATENCY = 7 cycles, "1.2", Rtl, High, "its result";
    MULH_ISSUE = 6 cycles, "1.2", Rtl, High, "issue of mulh, mulhu, mulhsu";
    MULW_ISSUE = 3.5 cycles, "1.2", Rtl, High, "issue of mulw";
    MULW_LATENCY = 5 cycles, "1.2", Rtl, High, "its result";
    MUL_HOLD = 3 cycles, "1.4", Est, Medium, "a multiplication keeps the other hart from issuing; from the row ALU beside mul";
    DIV_ISSUE = 35.5 cycles, "1.2", Rtl, High, "issue and result of a 64-bit division (measured 35.4)";
    DIVW_ISSUE = 19.5 cycles, "1.2", Rtl, High, "issue and result of a 32-bit division (measured 19.4)";
    DIV_HOLD = 16 cycles, "1.4", Est, Medium, "a division keeps the other hart from issuing; from the row ALU beside div";
    BRANCH_BUBBLE = 10 cycles, "1.2", Rtl, High, "a taken branch or jal: the front end is empty";
    JALR_BUBBLE = 10.5 cycles, "1.2", Rtl, High, "the same for jalr (measured 11 to 12 in all)";
    BRANCH_HOLD = 3 cycles, "1.4", Rtl, Medium, "slots of a taken branch that the other hart can't use; from the row ALU beside a self-jump";
    FP_LATENCY = 7 cycles, "1.2", Rtl, High, "result of float add, mul, fma, of packed integer mul, and of conversions within the vector unit";
    SHORT_LATENCY = 2 cycles, "1.2", Rtl, High, "result of packed integer arithmetic, logic, moves, compares, minima";
    TO_INT_ISSUE = 3 cycles, "1.2", Rtl, High, "issue of moves from the vector unit to integer registers";
    TO_INT_LATENCY = 9 cycles, "1.2", Rtl, High, "their result";
    EXP_ISSUE = 4 cycles, "1.2", Rtl, High, "issue of fexp.ps and flog.ps (measured 3.6 to 4)";
    EXP_LATENCY = 28 cycles, "1.2", Rtl, High, "their result (measured 26 to 29)";
    EXP_AGAIN = 21 cycles, "1.2", Rtl, High, "from one to the next that reads the same register";
    RCP_ISSUE = 3 cycles, "1.2", Rtl, High, "issue of frcp.ps (measured 2.75 to 3)";
    RCP_LATENCY = 21 cycles, "1.2", Rtl, High, "its result (measured 20 to 22)";
    RCP_AGAIN = 14.5 cycles, "1.2", Rtl, High, "from one to the next that reads the same register (measured 14.6)";
    TRANSCENDENTAL_HOLD = 3 cycles, "1.4", Est, Medium, "a transcendental keeps the other hart from issuing; from the row FMA beside fexp";
    MASK_LATENCY = 4.75 cycles, "1.2", Rtl, High, "result of mask logic (measured 4.8)";
    COMPARE_LATENCY = 10 cycles, "1.2", Rtl, High, "mask of a comparison, count of a mask";
    MOV_MASK_LATENCY = 6 cycles, "1.2", Rtl, High, "mask of mov.m.x";
    MOVA_ISSUE = 8.5 cycles, "1.2", Rtl, High, "issue of mova.x.m and, assumed, mova.m.x";
    CSR_ISSUE = 5.25 cycles, "1.2", Rtl, High, "an ordinary CSR access (measured 5 to 5.5)";
    LOAD_LATENCY = 4 cycles, "1.3", Rtl, High, "integer load that hits L1";
    VECTOR_LOAD_LATENCY = 6 cycles, "1.3", Rtl, High, "load to an f register that hits L1";
    MISALIGNED_ISSUE = 1.75 cycles, "1.3", Rtl, High, "issue of a misaligned access";
    FIRST_WRITE = 1 cycles, "1.3", Rtl, High, "first store to a clean line, extra";
    GATHER_ISSUE = 10 cycles, "1.3", Rtl, High, "issue of a gather, a scatter or a packed atomic";
    MISS_HOLD = 16 cycles, "1.4", Est, Low, "a hart that waits for a cache miss uses up its turns so long; between the rows ALU (1.54) and FMA (1.17) beside a miss loop";
    L0_LINES = 16 count, "1.5", Doc, High, "lines of the instruction L0, which 4 minions share";
    L1I_LINES = 512 count, "1.5", Doc, Medium, "lines of a neighborhood's instruction cache, 4 ways";
    L1I_LATENCY = 10 cycles, "1.5", Doc, Medium, "line from the instruction cache";
    L1I_PITCH = 9 cycles, "1.5", Doc, Medium, "from one of its lines to the next";
    FETCH_AHEAD = 8 cycles, "1.5", Est, Low, "straight-line code asks for its next line so early (one of two buffers of 8 instructions)";
    FETCH = 4 cycles, "1.2", Rtl, High, "fetch that the bubble of a branch contains";
    FMA_START = 18 cycles, "2.2", Rtl, High, "tensor product in floats from the scratchpad, 4 rows or more: this + words * (2 * rows + 1)";
    FMA_SMALL_START = 14 cycles, "2.2", Rtl, High, "the same with 3 rows or less: this + words * FMA_SMALL_STEP";
    FMA_SMALL_STEP = 7 cycles, "2.2", Rtl, High, "see there";
    IMA_START = 14.25 cycles, "2.2", Rtl, High, "tensor product in int8 from the scratchpad: this + words * (rows + 3)";
    IMA_ONE_STEP = 3.5 cycles, "2.2", Rtl, High, "step of an int8 product of one row";
    FMA_STREAM_START = 1 cycles, "2.2", Rtl, High, "product in floats from the B buffer: this + words * (2 * rows + 1)";
    IMA_STREAM_START = 14 cycles, "2.2", Rtl, High, "product in int8 from the B buffer: this + words * rows";
    STREAM_FIRST = 10 cycles, "2.2", Rtl, High, "first line of a B buffer load, beyond the latency";
    STREAM_BATCH = 8 cycles, "2.2", Rtl, High, "pitch of four lines of B buffer loads in a row, beyond the latency";
    STREAM_START = 20 cycles, "2.2", Rtl, High, "pitch of B buffer loads in a row, beyond their batches";
    PRODUCT_DONE = 1 cycles, "2.2", Rtl, High, "end of a product alone, beyond its pitch";
    LOAD_START = 23 cycles, "2.3", Rtl, High, "tensor load: this + batches of 4 lines * (latency + LOAD_BATCH)";
    LOAD_STREAM_START = 12 cycles, "2.3", Rtl, High, "the same to the B buffer";
    LOAD_BATCH = 5 cycles, "2.3", Rtl, High, "see there";
    LOAD_IN_FLIGHT = 4 count, "2.3", Rtl, High, "line requests of tensor loads in flight";
    LOAD_LINE = 2 cycles, "2.3", Rtl, High, "a line takes at least so long";
    TRANSPOSE32 = 324 cycles, "2.3", Rtl, Medium, "16 lines of a transposing load, beyond a plain one of the rows that it reads";
    TRANSPOSE16 = 220 cycles, "2.3", Rtl, Medium, "the same";
    TRANSPOSE8 = 220 cycles, "2.3", Rtl, Medium, "the same";
    INTERLEAVE16 = 452 cycles, "2.3", Rtl, Medium, "16 lines of an interleaving load, beyond a plain one of the rows that it reads";
    INTERLEAVE8 = 244 cycles, "2.3", Rtl, Medium, "the same";
    LANDING = 0.75 cycles, "2.5", Est, Medium, "a line that lands in the scratchpad while a product runs delays it; between the double-buffered rows";
    COOPERATIVE = 6 cycles, "2.6", Est, Low, "a cooperative load, beyond a plain one, from its last member on";
    STORE_START = 18 cycles, "2.4", Rtl, Medium, "tensor store: this + latency + rows * STORE_ROW";
    STORE_ROW = 6 cycles, "2.4", Rtl, High, "row of 64 bytes";
    STORE_ROW_32 = 4.25 cycles, "2.4", Rtl, High, "row of 32 bytes (measured 120 for 16)";
    STORE_ROW_16 = 5.5 cycles, "2.4", Rtl, High, "row of 16 bytes (measured 139 for 16)";
    STORE_STREAM = 34 cycles, "2.4", Rtl, High, "stores in a row: a row takes (latency + this) / 8 at least";
    QUANT_START = 19 cycles, "2.4", Rtl, High, "tensor quantisation: this + vectors of 8 per transform";
    QUANT_SMALL = 7 cycles, "2.4", Rtl, High, "a float transform of up to 8 vectors, extra";
    REDUCE_REGISTER = 8 cycles, "2.4", Est, Low, "an exchanged register, beside the latency of one message";
    SCRATCHPAD_SWITCH = 100 cycles, "2.4", Rtl, Medium, "switching the L1 scratchpad on";
    MISSES_IN_FLIGHT = 2 count, "3.1", Rtl, High, "L1 misses of a minion in flight";
    REPLAYS = 8 count, "3.1", Doc, High, "misses of a minion that wait for their turn before a hart stops";
    MISS_USE = 13 cycles, "3.1", Rtl, High, "use of a missed line, beyond the latency";
    MISS_PITCH = 12 cycles, "3.1", Rtl, High, "a miss occupies its place, beyond the latency";
    UNCACHED_USE = 15 cycles, "3.1", Rtl, High, "result of an atomic or of an l or g access, beyond the latency";
    UNCACHED_PITCH = 3 cycles, "3.1", Rtl, High, "from one to the next of a hart, beyond the latency";
    L2_LATENCY = 33 cycles, "3.2", Doc, High, "line from the own shire's L2 or scratchpad";
    L3_LATENCY = 115 cycles, "3.2", Est, Medium, "line from L3 or from another shire's scratchpad";
    DRAM_LATENCY = 250 cycles, "3.2", Est, Low, "line from DRAM";
    L2_LINES = 8192 count, "3.2", Fw, Medium, "lines of a shire's L2 (512 KiB), 4 ways";
    L3_LINES = 524288 count, "3.2", Fw, Medium, "lines of L3 (32 slices of 1 MiB), 4 ways";
    NEIGHBORHOOD_BYTES = 64 per_cycle, "3.2", Doc, High, "what a neighborhood of 8 minions takes from its shire's cache";
    SHIRE_BYTES = 256 per_cycle, "3.2", Doc, High, "what a shire's cache gives";
    NOC_BYTES = 157 per_cycle, "3.2", Doc, Medium, "what a shire takes from the mesh (102 GB/s)";
    DRAM_BYTES = 183.7 per_cycle, "3.2", Fw, Medium, "peak of the DRAM (119.4 GB/s)";
    DRAM_SHARE = 0.6 per_cycle, "3.3", Brd, Medium, "share of it that is reached (best shown: memset by tensor stores)";
    SAME_LINE = 4 cycles, "4", Est, Low, "global atomics on one line, from one to the next";
    CACHE_OPERATION = 2 cycles, "6.1", Est, Low, "a line of an evict, flush or prefetch in the queue of its hart";
    FLB = 25 cycles, "4", Est, Medium, "a local barrier's answer";
    FLB_IN_FLIGHT = 4 count, "4", Doc, Medium, "local barrier requests of a neighborhood in flight";
    CREDIT_SEND = 3 cycles, "6.3", Est, Low, "store to another hart's credits";
    CREDIT_ARRIVAL = 25 cycles, "4", Est, Low, "from there to the hart";
    MESH = 40 cycles, "3.2", Est, Medium, "one way over the mesh, for credits to other shires";
}

/// The table as in docs/timing.md.
pub fn table() -> String {
    let mut text = String::from(
        "| constant | value | unit | sheet | source | confidence | meaning |\n|---|---|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let Constant { name, value, unit, section, source, confidence, meaning } = row;
        text += &format!("| `{name}` | {value} | {unit} | {section} | {source} | {confidence:?} | {meaning} |\n");
    }
    text
}
