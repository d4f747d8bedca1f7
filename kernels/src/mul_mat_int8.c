// MUL_MAT of quantised weights for few columns, on the tensor unit in int8.
//
// A strip of 16 rows of weights is the B matrix: its quants, copied block by block to whole lines (two blocks, 64
// bytes, a line), are loaded transposed, 16 rows by 4 quants a scratchpad line. A column of src1 is the A matrix: each
// of its blocks of 32 is scaled to 16-bit integers (256 times finer than what the CPU's own product rounds to) and
// split into bytes: value = 256 * high + low. One multiplication then yields, for both blocks of a line and for 16
// rows, the products with the high and with the low bytes; the unit converts and scales them, and vector code adds them
// up, times the weights' block scales.
//
// The columns' byte lines are made once per shire: hart 1 of minion l%32 makes those of line l in the minion's
// scratchpad, while harts 0 copy weights, and every minion of the shire loads them from there. Harts 1 then fetch the
// weights of the list's next such command to L2.
//
// Strips are dealt out to the shires, and in a shire to the minions. Those left when each minion has equally many are
// cut along K when minions would idle: the minions leave each line's sums in scratchpad, and one adds them up. All
// sums run over lines in order, each line's from zero, so results do not depend on how the work is divided.
//
// Products with the same columns are done in one call: the slices are made once, and the strips of all are dealt out as
// one sequence. Of a pair whose results a GLU combines, the same minions take the same strips.
#include "et_dequant.h"
#include "et_math.h"
#include "et_mul_mat.h"
#include "et_tensor_unit.h"

// The byte lines of one line and column: high and low bytes of the first block (the second's places are zero), the same
// of the second, then a line of floats: the four rows' factors, and the sums of both blocks.
#define SLICE_LINES 5u
#define SLICE_BYTES (SLICE_LINES * ET_LINE)
#define FACTORS     256u
#define SUMS        272u

#define PASS_COLUMNS 4u  // columns whose sums stay in registers together
#define CHUNK_BLOCKS 32u // of a row that are copied at once
#define CHUNK_LINES  (CHUNK_BLOCKS / 2)
#define STRIP_PITCH  (CHUNK_LINES * ET_LINE)

#define MINION_SCRATCH (2 * ET_SCRATCH_BYTES)
struct scratch {
    uint8_t strip[16 * STRIP_PITCH];
    uint8_t slices[ET_INT8_SLICES][SLICE_BYTES];
    uint8_t stash[PASS_COLUMNS * ET_LINE];
};
_Static_assert(sizeof(struct scratch) <= MINION_SCRATCH, "fits the minion's scratchpad");

// Scratchpad lines: two buffers for a line of the strip (16 each), two for a slice.
#define LINE_B(i) (16u * (i))
#define LINE_A(i) (32u + 8u * (i))

// Local barriers, and the credit counter of all of them.
#define BARRIER_SLICES 1
#define BARRIER_SUMS   2
#define BARRIER_ROUND  3
#define CREDITS        1

#define PRODUCTS_MAX 3u

struct product {
    struct et_product is;
    const struct et_tensor *w;
    uint32_t strips; // of one matrix of w
};

struct problem {
    const struct et_grid *grid;
    const struct et_tensor *x;
    struct product products[PRODUCTS_MAX];
    uint32_t count;               // of products; several have one matrix each
    const struct et_command *glu; // what combines two products, of which the first goes through the function; or 0
    uint32_t type;                // of the weights
    uint32_t bytes;               // of a block
    uint32_t blocks;              // of a row
    uint32_t lines;               // of a row: pairs of blocks
    uint32_t columns;             // that multiply with one matrix
    uint32_t ratio2, ratio3;
    uint32_t strips; // of one matrix of every product, or of a pair
    uint64_t units;  // strips of all matrices
    uint64_t stash;  // room for a pass's results of a pair's second product
    bool ready;      // this hart knows that the round's slices are there
};

// 16 rows of one matrix of a product's weights.
struct strip {
    const struct product *product;
    uint32_t matrix;
    uint32_t row;
    uint32_t rows;
    uint64_t addr;
};

static struct strip find_strip(const struct problem *p, uint64_t unit)
{
    const struct product *of = p->products;
    for (const struct product *last = of + (p->glu ? 1 : p->count) - 1; of != last && unit >= of->strips; ++of)
        unit -= of->strips;
    struct strip s = {.product = of, .matrix = (uint32_t)unit < of->strips ? 0 : (uint32_t)(unit / of->strips)};
    s.row = (uint32_t)(unit - (uint64_t)s.matrix * of->strips) * 16;
    s.rows = of->w->ne[1] - s.row < 16 ? of->w->ne[1] - s.row : 16;
    uint32_t i3 = s.matrix ? s.matrix / of->w->ne[2] : 0;
    s.addr = et_row(of->w, s.row, s.matrix - i3 * of->w->ne[2], i3);
    return s;
}

// The strip of the pair's second product that belongs to one of the first.
static struct strip find_twin(const struct problem *p, const struct strip *first)
{
    struct strip s = *first;
    s.product = &p->products[1];
    s.addr = et_row(s.product->w, s.row, 0, 0);
    return s;
}

// Column `index` of those that multiply with matrix `matrix`.
static struct et_index find_column(const struct problem *p, uint32_t matrix, uint32_t index)
{
    const struct et_tensor *w = p->products[0].w;
    uint32_t i3 = matrix ? matrix / w->ne[2] : 0, i2 = matrix - i3 * w->ne[2];
    if (p->columns == 1)
        return (struct et_index){0, i2, i3};
    uint32_t plane = index / p->x->ne[1];
    return (struct et_index){index - plane * p->x->ne[1], i2 * p->ratio2 + plane % p->ratio2,
                             i3 * p->ratio3 + plane / p->ratio2};
}

// The scratchpad of minion `lane` of this shire.
static uint64_t minion_scratch(const struct et_grid *grid, uint32_t lane)
{
    return grid->scratch - (uint64_t)grid->thread * ET_SCRATCH_BYTES + ((uint64_t)lane - grid->lane) * MINION_SCRATCH;
}

// The slice of line `line` and of the round's column `index` out of `count`.
static uint64_t slice_address(const struct et_grid *grid, uint32_t line, uint32_t index, uint32_t count)
{
    return minion_scratch(grid, line % 32) + offsetof(struct scratch, slices) +
           (uint64_t)(line / 32 * count + index) * SLICE_BYTES;
}

// Comes to a local barrier of `harts` harts of the shire. The last one releases those that wait with wait_barrier:
// harts 0, and harts 1 as well if `both`.
static void come_to_barrier(uint32_t barrier, uint32_t harts, bool both)
{
    uint64_t last;
    et_fence();
    __asm__ volatile("csrrw %0, flb, %1" : "=r"(last) : "r"((uint64_t)(harts - 1) << 5 | barrier) : "memory");
    if (last) {
        uint64_t credits = 0x1003400C0ull | 0xFFull << 22 | CREDITS << 3;
        *ET_PTR(volatile uint64_t, credits) = 0xFFFFFFFF;
        if (both)
            *ET_PTR(volatile uint64_t, credits + 16) = 0xFFFFFFFF;
    }
}

static void wait_barrier(void)
{
    __asm__ volatile("csrwi fcc, %0" ::"i"(CREDITS) : "memory");
}

// Before this hart 0's first use of the round's slices.
static void await_slices(struct problem *p)
{
    if (p->ready)
        return;
    p->ready = true;
    come_to_barrier(BARRIER_SLICES, 64, false);
    wait_barrier();
}

#define LOAD_8(f, i)                                                                                                   \
    do {                                                                                                               \
        if (type == ET_F32) {                                                                                          \
            V_LOAD(f, x, 32 * i);                                                                                      \
        } else {                                                                                                       \
            V_GATHER("fgh.ps", f, "f9", x + 16 * i);                                                                   \
            if (type == ET_F16)                                                                                        \
                V_F16_TO_F32(f, "f7", "f8");                                                                           \
            else                                                                                                       \
                V_BF16_TO_F32(f);                                                                                      \
        }                                                                                                              \
    } while (0)

// Makes one block of a slice: `half` says which of the two. Lanes 0-3 and 4-7 of the two vectors of a byte line hold 16
// bytes each; masks tell which 8 values go where, one mask byte per 8 values.
static void slice_block(uint32_t type, uint64_t x, uint64_t slice, uint32_t half, bool nibbles, float scale)
{
    static const uint32_t offsets[8] = {0, 2, 4, 6, 8, 10, 12, 14};
    static const uint32_t masks[2][2][2] = {
        {{0xC0300C03, 0}, {0, 0xC0300C03}},                   // quants in order
        {{0x00000C03, 0x0C030000}, {0x0000C030, 0xC0300000}}, // first halves of both blocks, then second halves
    };
    if (x) {
        V_LOAD("f9", offsets, 0);
        V_F16_UNIT("f8");
        LOAD_8("f0", 0);
        LOAD_8("f1", 1);
        LOAD_8("f2", 2);
        LOAD_8("f3", 3);
    } else {
        V("fbci.pi f0, 0");
        V("fbci.pi f1, 0");
        V("fbci.pi f2, 0");
        V("fbci.pi f3, 0");
    }
    // f5: the sum. A NaN or an infinity makes it one, and then the factors: the maximum alone overlooks NaN.
    V("fadd.ps f4, f0, f1, rne");
    V("fadd.ps f5, f2, f3, rne");
    V("fadd.ps f5, f4, f5, rne");
    V_REDUCE("fadd.ps", "f5", "f6");
    V("fsgnjx.ps f4, f0, f0");
    V("fsgnjx.ps f6, f1, f1");
    V("fsgnjx.ps f7, f2, f2");
    V("fsgnjx.ps f8, f3, f3");
    V("fmax.ps f4, f4, f6");
    V("fmax.ps f7, f7, f8");
    V("fmax.ps f4, f4, f7");
    V_REDUCE("fmax.ps", "f4", "f6");
    V_BCAST("f6", 0x1p-100f);
    V("fmax.ps f4, f4, f6");
    // 32512 = 127 * 256: the high byte of what rounds up stays below 128.
    V("frcp.ps f6, f4");
    V_BCAST("f7", 32512.0f);
    V("fmul.ps f6, f6, f7, rne");
    V("fmul.ps f0, f0, f6, rne");
    V("fmul.ps f1, f1, f6, rne");
    V("fmul.ps f2, f2, f6, rne");
    V("fmul.ps f3, f3, f6, rne");
    V_BCAST("f7", scale);
    V("fmul.ps f4, f4, f7, rne");
    V("fbci.pi f7, 0");
    V("fmadd.ps f4, f5, f7, f4, rne");
    uint32_t factor = V_LANE("f4", 0), sum = V_LANE("f5", 0);
    *ET_PTR(float, slice + FACTORS + half * 8) = 256.0f * et_float(factor);
    *ET_PTR(uint32_t, slice + FACTORS + half * 8 + 4) = factor;
    *ET_PTR(uint32_t, slice + SUMS + half * 4) = sum;
    V("fcvt.pw.ps f0, f0, rne");
    V("fcvt.pw.ps f1, f1, rne");
    V("fcvt.pw.ps f2, f2, rne");
    V("fcvt.pw.ps f3, f3, rne");
    uint32_t first = masks[nibbles][half][0], second = masks[nibbles][half][1];
    slice += half * 2 * ET_LINE;
    // The low byte as it is, then the high byte with the low one's carry; the high byte's line comes first.
    for (uint32_t high = 0; high < 2; ++high) {
        uint64_t line = slice + (1 - high) * ET_LINE;
        V("fbci.pi f4, 0");
        V("fbci.pi f5, 0");
#define PACK(f, i)                                                                                                     \
    __asm__ volatile("mov.m.x m0, %0, 0" ::"r"(first >> (8 * i)));                                                     \
    V("fpackrepb.pi f4, " f);                                                                                          \
    __asm__ volatile("mov.m.x m0, %0, 0" ::"r"(second >> (8 * i)));                                                    \
    V("fpackrepb.pi f5, " f)
        PACK("f0", 0);
        PACK("f1", 1);
        PACK("f2", 2);
        PACK("f3", 3);
#undef PACK
        v_all_lanes();
        V_STORE("f4", line, 0);
        V_STORE("f5", line, 32);
        V("faddi.pi f0, f0, 128");
        V("faddi.pi f1, f1, 128");
        V("faddi.pi f2, f2, 128");
        V("faddi.pi f3, f3, 128");
        V("fsrai.pi f0, f0, 8");
        V("fsrai.pi f1, f1, 8");
        V("fsrai.pi f2, f2, 8");
        V("fsrai.pi f3, f3, 8");
    }
}

// This minion's slices of the columns of matrices begin .. end.
static void make_slices(const struct problem *p, uint32_t begin, uint32_t end)
{
    uint32_t count = (end - begin) * p->columns, type = p->x->type;
    uint32_t bytes = type == ET_F32 ? 128 : 64; // of 32 elements
    // Q4_0's nibbles are multiplied as 16 * (nibble - 8).
    float scale = p->type == ET_Q4_0 ? 1.0f / (16 * 32512) : 1.0f / 32512;
    for (uint32_t line = p->grid->lane; line < p->lines; line += 32) {
        bool both = line * 2 + 1 < p->blocks;
        for (uint32_t index = 0; index < count; ++index) {
            uint32_t matrix = index < p->columns ? 0 : index / p->columns;
            struct et_index i = find_column(p, begin + matrix, index - matrix * p->columns);
            uint64_t src = et_row(p->x, i.i1, i.i2, i.i3) + (uint64_t)line * 2 * bytes;
            uint64_t slice = slice_address(p->grid, line, index, count);
            et_refresh(p->x, src, both ? 2 * bytes : bytes);
            et_prefetch(src, both ? 2 * bytes : bytes, 0);
            slice_block(type, src, slice, 0, p->type != ET_Q8_0, scale);
            slice_block(type, both ? src + bytes : 0, slice, 1, p->type != ET_Q8_0, scale);
            et_publish_scratch(slice, SLICE_BYTES);
        }
    }
}

// Copying a row: pairs of blocks become lines of two registers each; the tensor unit stores up to 8 lines at once,
// around the caches, where its loads find them. Per type: first blocks of the pairs, second blocks, what makes a line
// of them.
#define PAIRS_1(each) each(0, "f0", "f1")
#define PAIRS_2(each) PAIRS_1(each) each(1, "f2", "f3")
#define PAIRS_4(each) PAIRS_2(each) each(2, "f4", "f5") each(3, "f6", "f7")
#define PAIRS_8(each)                                                                                                  \
    PAIRS_4(each) each(4, "f8", "f9") each(5, "f10", "f11") each(6, "f12", "f13") each(7, "f14", "f15")

#define MASK_Q8_0(lanes)
#define FIRST_Q8_0(i, low, high)  V_LOAD(low, src, 68 * i);
#define SECOND_Q8_0(i, low, high) V_LOAD(high, src, 68 * i + 34);
#define LINE_Q8_0(i, low, high)

// 16 bytes of nibbles in lanes 0-3 and 16 in lanes 4-7; a line is the low nibbles, then the high ones. Q4_0 as
// 16 * (nibble - 8): f16 flips the sign bits and f17 is 0xF0F0F0F0. Q4_1 as the nibble: f17 is 0x0F0F0F0F.
#define MASK_Q4_0(lanes)          __asm__ volatile("mov.m.x m0, x0, " #lanes);
#define FIRST_Q4_0(i, low, high)  V_LOAD(high, src, 36 * i);
#define SECOND_Q4_0(i, low, high) V_LOAD(high, src, 36 * i + 18 - 16);
#define LINE_Q4_0(i, low, high)                                                                                        \
    V("fxor.pi " high ", " high ", f16");                                                                              \
    V("fslli.pi " low ", " high ", 4");                                                                                \
    V("fand.pi " high ", " high ", f17");                                                                              \
    V("fand.pi " low ", " low ", f17");
#define MASK_Q4_1(lanes)          MASK_Q4_0(lanes)
#define FIRST_Q4_1(i, low, high)  V_LOAD(high, src, 40 * i);
#define SECOND_Q4_1(i, low, high) V_LOAD(high, src, 40 * i + 20 - 16);
#define LINE_Q4_1(i, low, high)                                                                                        \
    V("fand.pi " low ", " high ", f17");                                                                               \
    V("fsrli.pi " high ", " high ", 4");                                                                               \
    V("fand.pi " high ", " high ", f17");

// The next `lines` lines of each row.
#define COPY_LINES(lines, type, step)                                                                                  \
    do {                                                                                                               \
        uint64_t src = from, to = out;                                                                                 \
        for (uint32_t row = 0; row < rows; ++row, src += stride, to += STRIP_PITCH) {                                  \
            MASK_##type(0x0f);                                                                                         \
            PAIRS_##lines(FIRST_##type);                                                                               \
            MASK_##type(0xf0);                                                                                         \
            PAIRS_##lines(SECOND_##type);                                                                              \
            MASK_##type(0xff);                                                                                         \
            PAIRS_##lines(LINE_##type);                                                                                \
            t_store_c(to, lines, ET_LINE);                                                                             \
        }                                                                                                              \
        from += 2 * lines * step;                                                                                      \
        out += lines * ET_LINE;                                                                                        \
    } while (0)

// `blocks` blocks of each of `rows` rows; the first row's first quants are at `from`.
#define COPY_ROWS(name, type, step)                                                                                    \
    static void name(uint64_t from, uint64_t stride, uint32_t rows, uint32_t blocks, uint64_t out)                     \
    {                                                                                                                  \
        for (uint32_t n = blocks; n >= 16; n -= 16)                                                                    \
            COPY_LINES(8, type, step);                                                                                 \
        if (blocks & 8)                                                                                                \
            COPY_LINES(4, type, step);                                                                                 \
        if (blocks & 4)                                                                                                \
            COPY_LINES(2, type, step);                                                                                 \
        if (blocks & 2)                                                                                                \
            COPY_LINES(1, type, step);                                                                                 \
        if (blocks & 1) {                                                                                              \
            for (uint64_t src = from; rows; --rows, src += stride, out += STRIP_PITCH) {                               \
                MASK_##type(0x0f);                                                                                     \
                PAIRS_1(FIRST_##type);                                                                                 \
                MASK_##type(0xff);                                                                                     \
                PAIRS_1(LINE_##type);                                                                                  \
                t_store_c(out, 1, ET_LINE);                                                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
COPY_ROWS(copy_q8_0, Q8_0, 34)
COPY_ROWS(copy_q4_0, Q4_0, 18)
COPY_ROWS(copy_q4_1, Q4_1, 20)

// Rows of the strip: `blocks` blocks of each from `src` on.
static void copy_strip(const struct problem *p, const struct et_tensor *w, uint64_t src, uint32_t rows, uint32_t blocks)
{
    uint64_t stride = w->nb[1], out = p->grid->scratch + offsetof(struct scratch, strip);
    if (w->flags & ET_REFRESH) {
        for (uint32_t row = 0; row < rows; ++row)
            et_evict(src + row * stride, (uint64_t)blocks * p->bytes, 2);
        et_wait_cache();
    }
    if (p->type == ET_Q8_0) {
        copy_q8_0(src + 2, stride, rows, blocks, out);
    } else if (p->type == ET_Q4_0) {
        V_BCAST_BITS("f16", 0x88888888);
        V_BCAST_BITS("f17", 0xF0F0F0F0);
        copy_q4_0(src + 2, stride, rows, blocks, out);
    } else {
        V_BCAST_BITS("f17", 0x0F0F0F0F);
        copy_q4_1(src + 4, stride, rows, blocks, out);
    }
    T_WAIT(T_EVENT_STORE);
}

// A column's products with one line: C's rows are the first block's high and low products and the second's, scaled by
// the column's factors; d of the two blocks is in f8/f9 and f18/f19. They are added up in f0/f1 (rows 0-7 and 8-15),
// with Q4_1's minima of the two blocks, in f10/f11 and f12/f13, times the sums of the column's blocks; then the line's
// sum is added to lo and hi. The next column's slice is on its way meanwhile.
#define COLUMN(i, lo, hi, next)                                                                                        \
    T_WAIT(T_EVENT_LOAD);                                                                                              \
    next;                                                                                                              \
    t_fma(multiply | T_FMA_A(LINE_A(i & 1)));                                                                          \
    t_to_f32_times(4, LINE_A(i & 1) + 4);                                                                              \
    T_WAIT(T_EVENT_QUANT);                                                                                             \
    V("fadd.ps f0, f0, f2, rne");                                                                                      \
    V("fadd.ps f1, f1, f3, rne");                                                                                      \
    V("fadd.ps f4, f4, f6, rne");                                                                                      \
    V("fadd.ps f5, f5, f7, rne");                                                                                      \
    V("fmul.ps f0, f0, f8, rne");                                                                                      \
    V("fmul.ps f1, f1, f9, rne");                                                                                      \
    V("fmadd.ps f0, f4, f18, f0, rne");                                                                                \
    V("fmadd.ps f1, f5, f19, f1, rne");                                                                                \
    if (minima) {                                                                                                      \
        V_LOAD_BCAST("f2", slice, i *SLICE_BYTES + SUMS);                                                              \
        V_LOAD_BCAST("f3", slice, i *SLICE_BYTES + SUMS + 4);                                                          \
        V("fmadd.ps f0, f10, f2, f0, rne");                                                                            \
        V("fmadd.ps f1, f11, f2, f1, rne");                                                                            \
        V("fmadd.ps f0, f12, f3, f0, rne");                                                                            \
        V("fmadd.ps f1, f13, f3, f1, rne");                                                                            \
    }                                                                                                                  \
    V("fadd.ps " lo ", " lo ", f0, rne");                                                                              \
    V("fadd.ps " hi ", " hi ", f1, rne")
#define LOAD_COLUMN(i) t_load((load_a | T_TO_LINE(8 * (i & 1))) + i * SLICE_BYTES, ET_LINE)

// The F16 at `src` of each row, and at `next` if there is one, as F32; the offsets of the rows are in f21 and f23. Both
// of a row are often on one line, which is still in L1 for the second.
#define ROW_SCALES(lo, hi, src, next_lo, next_hi, next)                                                                \
    V_GATHER("fgh.ps", lo, "f21", src);                                                                                \
    if (next)                                                                                                          \
        V_GATHER("fgh.ps", next_lo, "f21", next);                                                                      \
    V_GATHER("fgh.ps", hi, "f23", src);                                                                                \
    if (next)                                                                                                          \
        V_GATHER("fgh.ps", next_hi, "f23", next);                                                                      \
    V_F16_TO_F32(lo, "f20", "f22");                                                                                    \
    V_F16_TO_F32(hi, "f20", "f22");                                                                                    \
    if (next) {                                                                                                        \
        V_F16_TO_F32(next_lo, "f20", "f22");                                                                           \
        V_F16_TO_F32(next_hi, "f20", "f22");                                                                           \
    } else {                                                                                                           \
        V("fbci.pi " next_lo ", 0");                                                                                   \
        V("fbci.pi " next_hi ", 0");                                                                                   \
    }

// What COLUMN needs of the two blocks of a line, the second of which may not be there.
static inline void load_scales(uint64_t src, uint32_t bytes, bool second, bool minima)
{
    uint64_t next = second ? src + bytes : 0;
    ROW_SCALES("f8", "f9", src, "f18", "f19", next);
    if (minima) {
        src += 2;
        next += second ? 2 : 0;
        ROW_SCALES("f10", "f11", src, "f12", "f13", next);
    }
}

static inline void clear_sums(void)
{
    V("fbci.pi f24, 0");
    V("fbci.pi f25, 0");
    V("fbci.pi f26, 0");
    V("fbci.pi f27, 0");
    V("fbci.pi f28, 0");
    V("fbci.pi f29, 0");
    V("fbci.pi f30, 0");
    V("fbci.pi f31, 0");
}

// Where the sums of a strip's lines go that several minions share: first column's first line, and the distance of
// columns.
struct sums {
    uint64_t addr;
    uint64_t pitch;
};

// Adds the strip's products with `columns` columns over the lines of one chunk to f24-f31; or, with `sums`, leaves each
// line's there. `src` is the chunk's first block of the first row; `slice` the first line's slice of the first column.
static inline __attribute__((always_inline)) void multiply_lines(struct problem *p, uint64_t src, uint32_t blocks,
                                                                 uint64_t slice, uint32_t columns, struct sums sums,
                                                                 bool minima)
{
    const uint64_t other = T_TO_LINE(LINE_B(0)) ^ T_TO_LINE(LINE_B(1)),
                   other_b = T_FMA_B(LINE_B(0)) ^ T_FMA_B(LINE_B(1));
    uint64_t load_b =
        (p->grid->scratch + offsetof(struct scratch, strip)) | T_TRANSPOSE32 | T_ROWS(16) | T_TO_LINE(LINE_B(0));
    uint64_t load_a = slice | T_ROWS(SLICE_LINES) | T_TO_LINE(LINE_A(0));
    uint64_t multiply = T_FMA_SHAPE(4, 16) | T_FMA_B(LINE_B(0)) | T_FMA_INT8 | T_FMA_TO_C | T_FIRST;
    uint32_t bytes = p->bytes;
    t_load(load_b, STRIP_PITCH | T_ID_1);
    load_scales(src, bytes, blocks > 1, minima);
    await_slices(p);
    for (;;) {
        LOAD_COLUMN(0);
        T_WAIT(T_EVENT_LOAD_1);
        if (blocks > 2) {
            load_b = (load_b + ET_LINE) ^ other;
            t_load(load_b, STRIP_PITCH | T_ID_1);
        }
        if (columns == 1) {
            COLUMN(0, "f24", "f25", );
        } else {
            COLUMN(0, "f24", "f25", LOAD_COLUMN(1));
            if (columns == 2) {
                COLUMN(1, "f26", "f27", );
            } else {
                COLUMN(1, "f26", "f27", LOAD_COLUMN(2));
                if (columns == 3) {
                    COLUMN(2, "f28", "f29", );
                } else {
                    COLUMN(2, "f28", "f29", LOAD_COLUMN(3));
                    COLUMN(3, "f30", "f31", );
                }
            }
        }
        if (sums.addr) {
            t_store_rows(sums.addr, 12, columns, sums.pitch);
            sums.addr += ET_LINE;
            clear_sums();
        }
        if (blocks <= 2)
            return;
        blocks -= 2;
        src += 2 * bytes;
        slice += MINION_SCRATCH;
        load_a += MINION_SCRATCH;
        multiply ^= other_b;
        load_scales(src, bytes, blocks > 1, minima);
    }
}

static void multiply_chunk(struct problem *p, uint64_t src, uint32_t blocks, uint64_t slice, uint32_t columns,
                           struct sums sums)
{
    multiply_lines(p, src, blocks, slice, columns, sums, false);
}

static void multiply_chunk_minima(struct problem *p, uint64_t src, uint32_t blocks, uint64_t slice, uint32_t columns,
                                  struct sums sums)
{
    multiply_lines(p, src, blocks, slice, columns, sums, true);
}

// The offsets of `rows` rows and V_F16_UNIT, for ROW_SCALES. Rows beyond the last are the last again.
static void row_offsets(uint64_t stride, uint32_t rows)
{
    static const uint32_t indices[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    V_LOAD("f21", indices, 0);
    V_LOAD("f23", indices, 32);
    V_BCAST_BITS("f22", rows - 1);
    V("fmin.pi f21, f21, f22");
    V("fmin.pi f23, f23, f22");
    V_BCAST_BITS("f22", stride);
    V("fmul.pi f21, f21, f22");
    V("fmul.pi f23, f23, f22");
    V_F16_UNIT("f22");
}

// The first `rows` of the 16 floats in f0 and f1 to global memory. Whole lines go by the tensor unit.
static void put_floats(uint64_t dst, uint32_t rows)
{
    static const uint32_t words[8] = {0, 4, 8, 12, 16, 20, 24, 28};
    if (rows == 16 && (dst & 63) == 0) {
        t_store_rows(dst, 0, 1, ET_LINE);
        return;
    }
    V_LOAD("f2", words, 0);
    v_lanes(rows < 8 ? rows : 8);
    V_GATHER("fscwg.ps", "f0", "f2", dst);
    if (rows > 8) {
        v_lanes(rows - 8);
        V_GATHER("fscwg.ps", "f1", "f2", dst + 32);
    }
    v_all_lanes();
}

// f4 and f5: `rows` floats.
static void get_floats(const struct et_tensor *t, uint64_t src, uint32_t rows)
{
    et_refresh(t, src, rows * 4);
    v_lanes(rows < 8 ? rows : 8);
    V_LOAD("f4", src, 0);
    if (rows > 8) {
        v_lanes(rows - 8);
        V_LOAD("f5", src, 32);
    }
    v_all_lanes();
}

// One strip's and column's results in f0 and f1 to where they go: the product, and what becomes of it. Of a pair the
// second product's are in f18 and f19.
static void store_results(const struct problem *p, const struct strip *s, uint32_t column)
{
    const struct et_product *product = &s->product->is;
    const struct et_tensor *shape = &product->cmd->dst;
    struct et_index i = find_column(p, s->matrix, column);
    uint64_t dst = et_row(shape, i.i1, i.i2, i.i3) + s->row * 4ull, result = dst;
    if (product->add) {
        const struct et_tensor *other = et_added(product);
        uint64_t src = et_is_row(other, shape) ? other->addr + s->row * 4ull : et_beside(other, shape, dst);
        result = et_beside(&product->add->dst, shape, dst);
        get_floats(other, src, s->rows);
        if (result != dst)
            put_floats(dst, s->rows);
        V("fadd.ps f0, f0, f4, rne");
        V("fadd.ps f1, f1, f5, rne");
    }
    if (p->glu) {
        uint64_t twin = et_beside(&p->products[1].is.cmd->dst, shape, dst);
        result = et_beside(&p->glu->dst, shape, dst);
        if (result != dst)
            put_floats(dst, s->rows);
        V("fsgnj.ps f8, f0, f0");
        V("fsgnj.ps f9, f1, f1");
        V("fsgnj.ps f0, f18, f18");
        V("fsgnj.ps f1, f19, f19");
        if (result != twin)
            put_floats(twin, s->rows);
        V("fsgnj.ps f0, f9, f9");
        v_silu();
        V("fmul.ps f9, f0, f19");
        V("fsgnj.ps f0, f8, f8");
        v_silu();
        V("fmul.ps f0, f0, f18");
        V("fsgnj.ps f1, f9, f9");
    }
    put_floats(result, s->rows);
}

// Lines begin .. end of a strip with `columns` columns from `first` on: f24-f31, or lines in scratchpad. The columns'
// slices are the round's from `index` on, out of `count`.
static void multiply_pass(struct problem *p, const struct strip *s, uint32_t begin, uint32_t end, uint32_t first,
                          uint32_t columns, uint32_t index, uint32_t count, struct sums sums)
{
    const struct et_tensor *w = s->product->w;
    row_offsets(w->nb[1], s->rows);
    clear_sums();
    for (uint32_t line = begin, next; line < end; line = next) {
        next = (line / CHUNK_LINES + 1) * CHUNK_LINES;
        if (next > end)
            next = end;
        uint32_t blocks = (2 * next < p->blocks ? 2 * next : p->blocks) - 2 * line;
        uint64_t src = s->addr + (uint64_t)line * 2 * p->bytes;
        uint64_t slice = slice_address(p->grid, line, index + first, count);
        struct sums to = sums;
        if (sums.addr)
            to.addr += first * sums.pitch + (uint64_t)line * ET_LINE;
        copy_strip(p, w, src, s->rows, blocks);
        if (p->type == ET_Q4_1)
            multiply_chunk_minima(p, src, blocks, slice, columns, to);
        else
            multiply_chunk(p, src, blocks, slice, columns, to);
    }
}

// A whole strip with all columns of its matrix.
static void multiply_strip(struct problem *p, const struct strip *s, uint32_t index, uint32_t count)
{
    const struct sums none = {0, 0};
    for (uint32_t first = 0; first < p->columns; first += PASS_COLUMNS) {
        uint32_t columns = p->columns - first < PASS_COLUMNS ? p->columns - first : PASS_COLUMNS;
        if (p->glu) {
            struct strip twin = find_twin(p, s);
            multiply_pass(p, &twin, 0, p->lines, first, columns, index, count, none);
            t_store_rows(p->stash, 12, columns, ET_LINE);
            T_WAIT(T_EVENT_STORE);
            et_evict(p->stash, columns * ET_LINE, 1);
            et_wait_cache();
        }
        multiply_pass(p, s, 0, p->lines, first, columns, index, count, none);
#define STORE_COLUMN(i, lo, hi)                                                                                        \
    if (columns > i) {                                                                                                 \
        V("fsgnj.ps f0, " lo ", " lo);                                                                                 \
        V("fsgnj.ps f1, " hi ", " hi);                                                                                 \
        if (p->glu) {                                                                                                  \
            V_LOAD("f18", p->stash, i *ET_LINE);                                                                       \
            V_LOAD("f19", p->stash, i *ET_LINE + 32);                                                                  \
        }                                                                                                              \
        store_results(p, s, first + i);                                                                                \
    }
        STORE_COLUMN(0, "f24", "f25");
        STORE_COLUMN(1, "f26", "f27");
        STORE_COLUMN(2, "f28", "f29");
        STORE_COLUMN(3, "f30", "f31");
#undef STORE_COLUMN
    }
}

// Lines begin .. end of a strip with all columns of its matrix, for add_strip.
static void multiply_part(struct problem *p, const struct strip *s, uint32_t begin, uint32_t end, uint32_t index,
                          uint32_t count, struct sums sums)
{
    for (uint32_t first = 0; first < p->columns; first += PASS_COLUMNS) {
        uint32_t columns = p->columns - first < PASS_COLUMNS ? p->columns - first : PASS_COLUMNS;
        multiply_pass(p, s, begin, end, first, columns, index, count, sums);
    }
}

// f0 and f1: the sum of the lines from `at` on.
static void add_lines(const struct problem *p, uint64_t at)
{
    const uint64_t begin = at, end = at + (uint64_t)p->lines * ET_LINE;
    et_evict(begin, end - begin, 1);
    et_wait_cache();
    V("fbci.pi f0, 0");
    V("fbci.pi f1, 0");
    for (; at != end; at += ET_LINE) {
        V_LOAD("f4", at, 0);
        V_LOAD("f5", at, 32);
        V("fadd.ps f0, f0, f4, rne");
        V("fadd.ps f1, f1, f5, rne");
    }
    // The lines are other ones' soon: a later command may store to a part of one and write the rest of this copy back.
    et_evict(begin, end - begin, 1);
}

// Adds up the lines of a strip and column, and stores the result.
static void add_strip(const struct problem *p, const struct strip *s, uint32_t column, struct sums sums)
{
    if (p->glu) {
        add_lines(p, sums.addr + (p->columns + column) * sums.pitch);
        V("fsgnj.ps f18, f0, f0");
        V("fsgnj.ps f19, f1, f1");
    }
    add_lines(p, sums.addr + column * sums.pitch);
    store_results(p, s, column);
}

// The sums in the slices are read by normal loads: drops what this hart's L1 kept of an earlier round.
static void forget_slices(const struct problem *p, uint32_t count)
{
    for (uint32_t line = 0; line < p->lines; ++line) {
        for (uint32_t index = 0; index < count; ++index)
            et_evict(slice_address(p->grid, line, index, count) + FACTORS, ET_LINE, 1);
    }
    et_wait_cache();
}

// A hart 0's part of a round: strips begin .. end of the shire. The round's first matrix is `matrix`, and `count`
// columns have slices.
static void multiply_round(struct problem *p, uint64_t begin, uint64_t end, uint32_t matrix, uint32_t count)
{
    const struct et_grid *grid = p->grid;
    // Strips, or pairs, that are left, and the parts that a strip of them is cut into; 0: it is not.
    uint32_t rest = (uint32_t)(end - begin) % 32, left = p->glu ? 2 * rest : rest, parts = 0;
    struct et_range mine = et_share(end - begin, 1, grid->lane, 32);
    // The lines' sums lie behind the slices.
    uint32_t slices = (p->lines + 31) / 32 * count;
    struct sums sums = {0, (uint64_t)p->lines * ET_LINE};
    uint64_t room = (p->glu ? 2 : 1) * p->columns * sums.pitch;
    if (rest && room <= (ET_INT8_SLICES - slices) * SLICE_BYTES) {
        // Short parts cost more; beside whole strips they would gain little.
        uint64_t whole = (end - begin) / 32;
        uint32_t most = whole ? p->lines / 3 : p->lines;
        parts = 32 / left < most ? 32 / left : most;
        if (parts == 1 && left == rest)
            parts = 0;
        if (parts)
            mine = (struct et_range){whole * grid->lane, whole * (grid->lane + 1)};
    }
    if (p->type == ET_Q4_1)
        forget_slices(p, count);
    for (uint64_t unit = begin + mine.begin; unit < begin + mine.end; ++unit) {
        struct strip s = find_strip(p, unit);
        multiply_strip(p, &s, (s.matrix - matrix) * p->columns, count);
    }
    if (parts) {
        uint64_t area = offsetof(struct scratch, slices) + slices * SLICE_BYTES;
        uint32_t which = grid->lane / parts, part = grid->lane % parts;
        if (which < left) {
            bool second = which >= rest;
            which -= second ? rest : 0;
            struct strip s = find_strip(p, end - rest + which);
            uint32_t index = (s.matrix - matrix) * p->columns;
            sums.addr = minion_scratch(grid, which) + area;
            if (second) {
                s = find_twin(p, &s);
                sums.addr += p->columns * sums.pitch;
            }
            multiply_part(p, &s, p->lines * part / parts, p->lines * (part + 1) / parts, index, count, sums);
        }
        T_WAIT(T_EVENT_STORE);
        await_slices(p);
        come_to_barrier(BARRIER_SUMS, 32, false);
        wait_barrier();
        for (uint32_t i = grid->lane; i < rest * p->columns; i += 32) {
            uint32_t column = i / rest;
            struct strip s = find_strip(p, end - rest + (i - column * rest));
            sums.addr = minion_scratch(grid, i - column * rest) + area;
            add_strip(p, &s, column, sums);
        }
    }
    et_wait_cache();
    await_slices(p);
    T_WAIT(T_EVENT_STORE);
}

// The commands of a call.
static void read_problem(struct problem *p, const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *w = &cmd->src[0], *x = &cmd->src[1];
    p->grid = grid;
    p->x = x;
    p->type = w->type;
    p->bytes = et_block_bytes(w->type);
    p->blocks = w->ne[0] / 32;
    p->lines = (p->blocks + 1) / 2;
    p->ratio2 = x->ne[2] / w->ne[2];
    p->ratio3 = x->ne[3] / w->ne[3];
    p->columns = p->ratio2 * p->ratio3 * x->ne[1];
    p->count = p->strips = 0;
    p->glu = 0;
    p->stash = grid->scratch + offsetof(struct scratch, stash);
    const struct et_command *end = et_group_end(cmd);
    if (end[-1].kernel == ET_KERNEL_GLU)
        p->glu = --end;
    while (cmd != end) {
        struct product *product = &p->products[p->count++];
        product->is = et_next_product(&cmd, end);
        product->w = &product->is.cmd->src[0];
        product->strips = (product->w->ne[1] + 15) / 16;
        p->strips += product->strips;
    }
    if (p->glu) {
        p->strips = p->products[0].strips;
        if (p->products[0].is.cmd->dst.addr != p->glu->src[0].addr) {
            struct product second = p->products[0];
            p->products[0] = p->products[1];
            p->products[1] = second;
        }
    }
    p->units = (uint64_t)w->ne[2] * w->ne[3] * p->strips;
}

uint32_t et_mul_mat_int8(const struct et_command *cmd, const struct et_grid *grid)
{
    struct problem p;
    read_problem(&p, cmd, grid);
    struct et_range shire = et_share(p.units, 1, grid->shire, grid->shires);
    // A round takes as many matrices as there is room for the slices of their columns.
    uint32_t most = ET_INT8_SLICES / ((p.lines + 31) / 32 * p.columns);
    for (uint64_t at = shire.begin; at < shire.end;) {
        uint32_t matrix = (uint32_t)(at / p.strips);
        uint64_t end = (uint64_t)(matrix + most) * p.strips;
        if (end > shire.end)
            end = shire.end;
        uint32_t last = (uint32_t)((end + p.strips - 1) / p.strips);
        if (at != shire.begin) {
            come_to_barrier(BARRIER_ROUND, 64, true);
            wait_barrier();
        }
        if (grid->thread == 1) {
            make_slices(&p, matrix, last);
            come_to_barrier(BARRIER_SLICES, 64, false);
        } else {
            p.ready = false;
            multiply_round(&p, at, end, matrix, (last - matrix) * p.columns);
        }
        at = end;
    }
    return ET_OK;
}
