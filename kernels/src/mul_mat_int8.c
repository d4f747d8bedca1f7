// MUL_MAT of quantised weights for few columns, on the tensor unit in int8.
//
// A strip of 16 rows of weights is the B matrix: its quants, copied block by block to whole lines (two blocks, 64
// bytes, a line), are loaded transposed, 16 rows by 4 quants a scratchpad line. A column of src1 is the A matrix: each
// of its blocks of 32 is scaled to 16-bit integers (256 times finer than what the CPU's own product rounds to) and
// split into bytes: value = 256 * high + low. One multiplication then yields, for both blocks of a line and for 16
// rows, the products with the high and with the low bytes; the unit converts and scales them, and vector code adds them
// up, times the weights' block scales.
//
// The columns' byte lines are made once per shire: minion l%32 makes those of line l in its own scratchpad, a barrier
// follows, and every minion of the shire loads them from there.
#include "et_dequant.h"
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
};
_Static_assert(sizeof(struct scratch) <= MINION_SCRATCH, "fits the minion's scratchpad");

// Scratchpad lines: two buffers for a line of the strip (16 each), two for a slice.
#define LINE_B(i) (16u * (i))
#define LINE_A(i) (32u + 8u * (i))

#define BARRIER 1
#define CREDITS 1

struct problem {
    const struct et_grid *grid;
    const struct et_tensor *w, *x, *dst;
    uint32_t blocks;  // of a row
    uint32_t lines;   // of a row: pairs of blocks
    uint32_t columns; // that multiply with one matrix of src0
    uint32_t ratio2, ratio3;
    uint32_t strips; // of one matrix of src0
};

struct column {
    uint64_t x;
    uint64_t dst;
};

// Column `index` of those that multiply with matrix `matrix` of src0.
static struct column find_column(const struct problem *p, uint32_t matrix, uint32_t index)
{
    uint32_t i3 = matrix / p->w->ne[2], i2 = matrix - i3 * p->w->ne[2];
    if (p->columns == 1)
        return (struct column){et_row(p->x, 0, i2, i3), et_row(p->dst, 0, i2, i3)};
    uint32_t plane = index / p->x->ne[1], i1 = index - plane * p->x->ne[1];
    i2 = i2 * p->ratio2 + plane % p->ratio2;
    i3 = i3 * p->ratio3 + plane / p->ratio2;
    return (struct column){et_row(p->x, i1, i2, i3), et_row(p->dst, i1, i2, i3)};
}

// The slice of line `line` and of the round's column `index` out of `count`.
static uint64_t slice_address(const struct et_grid *grid, uint32_t line, uint32_t index, uint32_t count)
{
    uint64_t shire = grid->scratch - (uint64_t)grid->lane * MINION_SCRATCH;
    return shire + (uint64_t)(line % 32) * MINION_SCRATCH + offsetof(struct scratch, slices) +
           (uint64_t)(line / 32 * count + index) * SLICE_BYTES;
}

// All minions of the shire (their harts 0) have come here.
static void shire_barrier(void)
{
    uint64_t last;
    et_fence();
    __asm__ volatile("csrrw %0, flb, %1" : "=r"(last) : "r"(31ull << 5 | BARRIER) : "memory");
    if (last)
        *ET_PTR(volatile uint64_t, 0x1003400C0ull | 0xFFull << 22 | CREDITS << 3) = 0xFFFFFFFF;
    __asm__ volatile("csrwi fcc, %0" ::"i"(CREDITS) : "memory");
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
    float scale = p->w->type == ET_Q4_0 ? 1.0f / (16 * 32512) : 1.0f / 32512;
    for (uint32_t index = 0; index < count; ++index) {
        uint32_t matrix = index / p->columns;
        uint64_t x = find_column(p, begin + matrix, index - matrix * p->columns).x;
        for (uint32_t line = p->grid->lane; line < p->lines; line += 32) {
            uint64_t slice = slice_address(p->grid, line, index, count);
            uint64_t src = x + (uint64_t)line * 2 * bytes;
            bool both = line * 2 + 1 < p->blocks;
            et_refresh(p->x, src, both ? 2 * bytes : bytes);
            slice_block(type, src, slice, 0, p->w->type != ET_Q8_0, scale);
            slice_block(type, both ? src + bytes : 0, slice, 1, p->w->type != ET_Q8_0, scale);
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
static void copy_strip(const struct problem *p, uint64_t src, uint32_t rows, uint32_t blocks)
{
    uint64_t stride = p->w->nb[1], out = p->grid->scratch + offsetof(struct scratch, strip);
    if (p->w->flags & ET_REFRESH) {
        for (uint32_t row = 0; row < rows; ++row)
            et_evict(src + row * stride, (uint64_t)blocks * et_block_bytes(p->w->type), 2);
        et_wait_cache();
    }
    if (p->w->type == ET_Q8_0) {
        copy_q8_0(src + 2, stride, rows, blocks, out);
    } else if (p->w->type == ET_Q4_0) {
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
// the column's factors; d of the two blocks is in f8/f9 and f18/f19. Sums are in lo (rows 0-7) and hi (rows 8-15). The
// next column's slice is on its way meanwhile.
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
    V("fmadd.ps " lo ", f0, f8, " lo ", rne");                                                                         \
    V("fmadd.ps " hi ", f1, f9, " hi ", rne");                                                                         \
    V("fmadd.ps " lo ", f4, f18, " lo ", rne");                                                                        \
    V("fmadd.ps " hi ", f5, f19, " hi ", rne")
#define LOAD_COLUMN(i) t_load((load_a | T_TO_LINE(8 * (i & 1))) + i * SLICE_BYTES, ET_LINE)

// The same for Q4_1's minima of the two blocks, in f0/f1 and f2/f3: times the sums of the column's blocks.
#define MINIMA(i, lo, hi)                                                                                              \
    if (columns > i) {                                                                                                 \
        V_LOAD_BCAST("f4", slice, i *SLICE_BYTES + SUMS);                                                              \
        V_LOAD_BCAST("f5", slice, i *SLICE_BYTES + SUMS + 4);                                                          \
        V("fmadd.ps " lo ", f0, f4, " lo ", rne");                                                                     \
        V("fmadd.ps " hi ", f1, f4, " hi ", rne");                                                                     \
        V("fmadd.ps " lo ", f2, f5, " lo ", rne");                                                                     \
        V("fmadd.ps " hi ", f3, f5, " hi ", rne");                                                                     \
    }

// The F16 at `src` of each row, as F32; the offsets of the rows are in f21 and f23.
#define ROW_SCALES(lo, hi, src)                                                                                        \
    V_GATHER("fgh.ps", lo, "f21", src);                                                                                \
    V_GATHER("fgh.ps", hi, "f23", src);                                                                                \
    V_F16_TO_F32(lo, "f20", "f22");                                                                                    \
    V_F16_TO_F32(hi, "f20", "f22")

// Adds the strip's products with `columns` columns over the lines of one chunk to f24-f31. `src` is the chunk's first
// block of the first row; `slice` the first line's slice of the first column.
static void multiply_chunk(const struct problem *p, uint64_t src, uint32_t blocks, uint64_t slice, uint32_t columns)
{
    const uint64_t other = T_TO_LINE(LINE_B(0)) ^ T_TO_LINE(LINE_B(1)),
                   other_b = T_FMA_B(LINE_B(0)) ^ T_FMA_B(LINE_B(1));
    uint64_t load_b =
        (p->grid->scratch + offsetof(struct scratch, strip)) | T_TRANSPOSE32 | T_ROWS(16) | T_TO_LINE(LINE_B(0));
    uint64_t load_a = slice | T_ROWS(SLICE_LINES) | T_TO_LINE(LINE_A(0));
    uint64_t multiply = T_FMA_SHAPE(4, 16) | T_FMA_B(LINE_B(0)) | T_FMA_INT8 | T_FMA_TO_C | T_FIRST;
    uint32_t bytes = et_block_bytes(p->w->type);
    bool minima = p->w->type == ET_Q4_1;
    t_load(load_b, STRIP_PITCH | T_ID_1);
    for (;;) {
        LOAD_COLUMN(0);
        T_WAIT(T_EVENT_LOAD_1);
        if (blocks > 2) {
            load_b = (load_b + ET_LINE) ^ other;
            t_load(load_b, STRIP_PITCH | T_ID_1);
        }
        ROW_SCALES("f8", "f9", src);
        if (blocks > 1) {
            ROW_SCALES("f18", "f19", src + bytes);
        } else {
            V("fbci.pi f18, 0");
            V("fbci.pi f19, 0");
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
        if (minima) {
            ROW_SCALES("f0", "f1", src + 2);
            if (blocks > 1) {
                ROW_SCALES("f2", "f3", src + bytes + 2);
            } else {
                V("fbci.pi f2, 0");
                V("fbci.pi f3, 0");
            }
            MINIMA(0, "f24", "f25");
            MINIMA(1, "f26", "f27");
            MINIMA(2, "f28", "f29");
            MINIMA(3, "f30", "f31");
        }
        if (blocks <= 2)
            return;
        blocks -= 2;
        src += 2 * bytes;
        slice += MINION_SCRATCH;
        load_a += MINION_SCRATCH;
        multiply ^= other_b;
    }
}

#define STORE_COLUMN(i, lo, hi)                                                                                        \
    if (columns > i) {                                                                                                 \
        uint64_t dst = find_column(p, matrix, first + i).dst + row * 4ull;                                             \
        v_lanes(rows < 8 ? rows : 8);                                                                                  \
        V_GATHER("fscwg.ps", lo, "f0", dst);                                                                           \
        if (rows > 8) {                                                                                                \
            v_lanes(rows - 8);                                                                                         \
            V_GATHER("fscwg.ps", hi, "f0", dst + 32);                                                                  \
        }                                                                                                              \
        v_all_lanes();                                                                                                 \
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

// One strip with all columns of its matrix; `index` and `count` place the columns' slices in the round.
static void multiply_strip(const struct problem *p, uint32_t matrix, uint32_t strip, uint32_t index, uint32_t count)
{
    static const uint32_t words[8] = {0, 4, 8, 12, 16, 20, 24, 28};
    uint32_t i3 = matrix / p->w->ne[2], i2 = matrix - i3 * p->w->ne[2];
    uint32_t row = strip * 16, rows = p->w->ne[1] - row;
    if (rows > 16)
        rows = 16;
    uint64_t base = et_row(p->w, row, i2, i3);
    uint32_t bytes = et_block_bytes(p->w->type);
    row_offsets(p->w->nb[1], rows);
    for (uint32_t first = 0; first < p->columns; first += PASS_COLUMNS) {
        uint32_t columns = p->columns - first < PASS_COLUMNS ? p->columns - first : PASS_COLUMNS;
        V("fbci.pi f24, 0");
        V("fbci.pi f25, 0");
        V("fbci.pi f26, 0");
        V("fbci.pi f27, 0");
        V("fbci.pi f28, 0");
        V("fbci.pi f29, 0");
        V("fbci.pi f30, 0");
        V("fbci.pi f31, 0");
        for (uint32_t block = 0; block < p->blocks; block += CHUNK_BLOCKS) {
            uint32_t blocks = p->blocks - block < CHUNK_BLOCKS ? p->blocks - block : CHUNK_BLOCKS;
            uint64_t src = base + (uint64_t)block * bytes;
            copy_strip(p, src, rows, blocks);
            multiply_chunk(p, src, blocks, slice_address(p->grid, block / 2, index + first, count), columns);
        }
        V_LOAD("f0", words, 0);
        STORE_COLUMN(0, "f24", "f25");
        STORE_COLUMN(1, "f26", "f27");
        STORE_COLUMN(2, "f28", "f29");
        STORE_COLUMN(3, "f30", "f31");
    }
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

uint32_t et_mul_mat_int8(const struct et_command *cmd, const struct et_grid *grid)
{
    if (grid->thread != 0)
        return ET_OK;
    struct problem p = {.grid = grid, .w = &cmd->src[0], .x = &cmd->src[1], .dst = &cmd->dst};
    p.blocks = p.w->ne[0] / 32;
    p.lines = (p.blocks + 1) / 2;
    p.ratio2 = p.x->ne[2] / p.w->ne[2];
    p.ratio3 = p.x->ne[3] / p.w->ne[3];
    p.columns = p.ratio2 * p.ratio3 * p.x->ne[1];
    p.strips = (p.w->ne[1] + 15) / 16;
    // A round takes as many matrices of src0 as there is room for the slices of their columns.
    uint32_t most = ET_INT8_SLICES / ((p.lines + 31) / 32 * p.columns);
    struct et_range shire = et_share((uint64_t)p.w->ne[2] * p.w->ne[3] * p.strips, 1, grid->shire, grid->shires);
    for (uint64_t at = shire.begin; at < shire.end;) {
        uint32_t matrix = (uint32_t)(at / p.strips);
        uint64_t end = (uint64_t)(matrix + most) * p.strips;
        if (end > shire.end)
            end = shire.end;
        uint32_t last = (uint32_t)((end + p.strips - 1) / p.strips);
        uint32_t count = (last - matrix) * p.columns;
        if (at != shire.begin)
            shire_barrier();
        make_slices(&p, matrix, last);
        shire_barrier();
        if (p.w->type == ET_Q4_1)
            forget_slices(&p, count);
        struct et_range mine = et_share(end - at, 1, grid->lane, 32);
        for (uint64_t unit = at + mine.begin; unit < at + mine.end; ++unit) {
            uint32_t m = (uint32_t)(unit / p.strips);
            multiply_strip(&p, m, (uint32_t)(unit - (uint64_t)m * p.strips), (m - matrix) * p.columns, count);
        }
        at = end;
    }
    return ET_OK;
}
