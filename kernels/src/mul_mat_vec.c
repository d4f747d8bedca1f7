// MUL_MAT for few columns: dot products in F32. Quantised weights go to mul_mat_int8.c; here are F32, F16 and BF16.
//
// Work is dealt out in groups of 4 rows of src0 (over all matrices of src1). A hart brings a column of src1 into its
// scratchpad as F32, in the order in which words of two halves fall apart: 8 even elements, then 8 odd ones. It then
// runs over its rows, 4 at a time, so that one load of the column serves 4 rows. The 8 lanes of each row's sum go to
// scratchpad, where 8 rows are added up together.
#include "et_f16.h"
#include "et_mul_mat.h"

#define GROUP 4u    // rows whose dot products run together
#define RUN   64u   // rows between two preparations of the column
#define X_MAX 6144u // elements of K at a time

struct scratch {
    float x[X_MAX + 16];
    float sums[RUN][8];
};
_Static_assert(sizeof(struct scratch) <= ET_SCRATCH_BYTES, "fits the hart's scratchpad");

// Byte offsets of 8 elements for gathers and scatters.
static const uint32_t every_2[8] = {0, 2, 4, 6, 8, 10, 12, 14};
static const uint32_t every_4[8] = {0, 4, 8, 12, 16, 20, 24, 28};
static const uint32_t every_8[8] = {0, 8, 16, 24, 32, 40, 48, 56};
static const uint32_t every_32[8] = {0, 32, 64, 96, 128, 160, 192, 224};

static uint32_t element_bytes(uint32_t type)
{
    return type == ET_F32 ? 4 : 2;
}

// 8 elements in order (fewer under the mask) from `src` as F32 into f0; f8 holds every_2, f9 V_F16_UNIT.
static void load_in_order(uint32_t type, uint64_t src)
{
    if (type == ET_F32) {
        V_LOAD("f0", src, 0);
        return;
    }
    V_GATHER("fgh.ps", "f0", "f8", src);
    if (type == ET_F16)
        V_F16_TO_F32("f0", "f1", "f9");
    else
        V_BF16_TO_F32("f0");
}

// n elements of a column from `src` to `x` as F32. Pairs: whole groups of 16 are split into evens and odds. The rest
// follows in order, zeros behind it.
static void prepare(uint32_t type, uint64_t src, uint64_t x, uint32_t n, bool pairs)
{
    uint32_t bytes = element_bytes(type);
    V_F16_UNIT("f9");
    if (pairs) {
        V_LOAD("f8", every_8, 0);
        for (; n >= 16; n -= 16, src += 16 * bytes, x += 64) {
            if (type == ET_F32) {
                V_GATHER("fgw.ps", "f0", "f8", src);
                V_GATHER("fgw.ps", "f1", "f8", src + 4);
            } else {
                V_LOAD("f0", src, 0);
                V("fsrli.pi f1, f0, 16");
                if (type == ET_F16) {
                    V_F16_TO_F32("f0", "f2", "f9");
                    V_F16_TO_F32("f1", "f2", "f9");
                } else {
                    V_BF16_TO_F32("f0");
                    V_BF16_TO_F32("f1");
                }
            }
            V_STORE("f0", x, 0);
            V_STORE("f1", x, 32);
        }
    }
    V_LOAD("f8", every_2, 0);
    for (; n; src += 8 * bytes, x += 32) {
        uint32_t lanes = n < 8 ? n : 8;
        V("fbci.pi f0, 0");
        v_lanes(lanes);
        load_in_order(type, src);
        v_all_lanes();
        V_STORE("f0", x, 0);
        n -= lanes;
    }
}

// The four rows of a group.
struct rows {
    uint64_t a[GROUP];
};

// Inner loops keep the addresses in variables of their own, which stay in registers.
#define TAKE_ROWS()    uint64_t a0 = r->a[0], a1 = r->a[1], a2 = r->a[2], a3 = r->a[3]
#define GIVE_ROWS()    (r->a[0] = a0, r->a[1] = a1, r->a[2] = a2, r->a[3] = a3)
#define ADVANCE(bytes) (a0 += (bytes), a1 += (bytes), a2 += (bytes), a3 += (bytes))

// Sums are in f24-f27, those of odd elements or vectors in f28-f31.
static void clear_sums(void)
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

// Registers of row i: its word w, its two values a and b, its two sums.
#define ROW_0(f) f("f2", "f6", "f18", "f24", "f28")
#define ROW_1(f) f("f3", "f7", "f19", "f25", "f29")
#define ROW_2(f) f("f4", "f8", "f20", "f26", "f30")
#define ROW_3(f) f("f5", "f9", "f21", "f27", "f31")
#define ROWS(f)  ROW_0(f) ROW_1(f) ROW_2(f) ROW_3(f)
#define LOAD_ROWS(off)                                                                                                 \
    V_LOAD("f2", a0, off);                                                                                             \
    V_LOAD("f3", a1, off);                                                                                             \
    V_LOAD("f4", a2, off);                                                                                             \
    V_LOAD("f5", a3, off)
#define LOAD_COLUMN(off)                                                                                               \
    V_LOAD("f0", x, off);                                                                                              \
    V_LOAD("f1", x, (off) + 32)

#define FMA_WORD(w, a, b, even, odd)     V("fmadd.ps " even ", " w ", f0, " even ", rne");
#define FMA_WORD_ODD(w, a, b, even, odd) V("fmadd.ps " odd ", " w ", f1, " odd ", rne");
#define FMA_EVEN(w, a, b, even, odd)     V("fmadd.ps " even ", " a ", f0, " even ", rne");
#define FMA_ODD(w, a, b, even, odd)      V("fmadd.ps " odd ", " a ", f1, " odd ", rne");

#define F32_STEP(off)                                                                                                  \
    LOAD_COLUMN(off);                                                                                                  \
    LOAD_ROWS(off);                                                                                                    \
    ROWS(FMA_WORD);                                                                                                    \
    LOAD_ROWS((off) + 32);                                                                                             \
    ROWS(FMA_WORD_ODD);

static uint64_t dot_f32(struct rows *r, uint64_t x, uint32_t n)
{
    TAKE_ROWS();
    for (; n >= 32; n -= 32, x += 128) {
        F32_STEP(0);
        F32_STEP(64);
        ADVANCE(128);
    }
    if (n >= 16) {
        F32_STEP(0);
        ADVANCE(64);
        x += 64;
        n -= 16;
    }
    if (n >= 8) {
        V_LOAD("f0", x, 0);
        LOAD_ROWS(0);
        ROWS(FMA_WORD);
        ADVANCE(32);
        x += 32;
    }
    GIVE_ROWS();
    return x;
}

#define BF16_EVEN(w, a, b, even, odd) V("fslli.pi " a ", " w ", 16");
#define BF16_ODD(w, a, b, even, odd)  V("fand.pi " a ", " w ", f22");
#define BF16_STEP(off)                                                                                                 \
    LOAD_COLUMN(2 * (off));                                                                                            \
    LOAD_ROWS(off);                                                                                                    \
    ROWS(BF16_EVEN);                                                                                                   \
    ROWS(FMA_EVEN);                                                                                                    \
    ROWS(BF16_ODD);                                                                                                    \
    ROWS(FMA_ODD);

static uint64_t dot_bf16(struct rows *r, uint64_t x, uint32_t n)
{
    TAKE_ROWS();
    V("fbci.ps f22, 0xFFFF0");
    for (; n >= 32; n -= 32, x += 128) {
        BF16_STEP(0);
        BF16_STEP(32);
        ADVANCE(64);
    }
    if (n >= 16) {
        BF16_STEP(0);
        ADVANCE(32);
        x += 64;
    }
    GIVE_ROWS();
    return x;
}

#define F16_EVEN(w, a, b, even, odd)     V("fcvt.ps.f16 " a ", " w);
#define F16_SHIFT(w, a, b, even, odd)    V("fsrli.pi " b ", " w ", 16");
#define F16_ODD(w, a, b, even, odd)      V("fcvt.ps.f16 " a ", " b);
#define F16_EXPONENT(w, a, b, even, odd) V("fand.pi " w ", " w ", f22");
#define F16_CARRY(w, a, b, even, odd)    V("fadd.pi " w ", " w ", f22");
#define F16_NORMAL(w, a, b, even, odd)   V("fand.pi f23, f23, " w);
#define F16_STEP(off)                                                                                                  \
    LOAD_COLUMN(2 * (off));                                                                                            \
    LOAD_ROWS(off);                                                                                                    \
    ROWS(F16_EVEN);                                                                                                    \
    ROWS(F16_SHIFT);                                                                                                   \
    ROWS(FMA_EVEN);                                                                                                    \
    ROWS(F16_ODD);                                                                                                     \
    ROWS(F16_EXPONENT);                                                                                                \
    ROWS(FMA_ODD);                                                                                                     \
    ROWS(F16_CARRY);                                                                                                   \
    ROWS(F16_NORMAL);

// With the chip's conversion, which takes subnormals for zero. On the way each half's exponent is added to all ones:
// the sum carries into the sign's place unless the exponent is zero. f23 collects the carries of all.
static uint64_t dot_f16(struct rows *r, uint64_t x, uint32_t n)
{
    TAKE_ROWS();
    V_BCAST_BITS("f22", 0x7C007C00);
    V("fbci.pi f23, 0xFFFFF");
    for (; n >= 32; n -= 32, x += 128) {
        F16_STEP(0);
        F16_STEP(32);
        ADVANCE(64);
    }
    if (n >= 16) {
        F16_STEP(0);
        ADVANCE(32);
        x += 64;
    }
    GIVE_ROWS();
    return x;
}

// After dot_f16: no zero and no subnormal has been met.
static bool all_normal(void)
{
    uint64_t missing;
    V_BCAST_BITS("f22", 0x80008000);
    V("fand.pi f23, f23, f22");
    V("fxor.pi f23, f23, f22");
    __asm__ volatile("fsetm.pi m1, f23\n\tmaskpopc %0, m1" : "=r"(missing));
    return missing == 0;
}

#define F16_EXACT_ODD(w, a, b, even, odd) V("fsrli.pi " a ", " w ", 16");
#define F16_EXACT(w, a, b, even, odd)     V_F16_TO_F32(a, "f23", "f22");
#define F16_COPY(w, a, b, even, odd)      V("for.pi " a ", " w ", " w);

static uint64_t dot_f16_exact(struct rows *r, uint64_t x, uint32_t n)
{
    TAKE_ROWS();
    V_F16_UNIT("f22");
    for (; n >= 16; n -= 16, x += 64) {
        LOAD_COLUMN(0);
        LOAD_ROWS(0);
        ROWS(F16_COPY);
        ROWS(F16_EXACT);
        ROWS(FMA_EVEN);
        ROWS(F16_EXACT_ODD);
        ROWS(F16_EXACT);
        ROWS(FMA_ODD);
        ADVANCE(32);
    }
    GIVE_ROWS();
    return x;
}

// The last elements of a row, in order: n < 16.
#define TAIL_ROW(i, sum)                                                                                               \
    load_in_order(type, a##i);                                                                                         \
    V("fmadd.ps " sum ", f0, f2, " sum ", rne");

static void dot_tail(uint32_t type, const struct rows *r, uint64_t x, uint32_t n)
{
    TAKE_ROWS();
    V_LOAD("f8", every_2, 0);
    V_F16_UNIT("f9");
    while (n) {
        uint32_t lanes = n < 8 ? n : 8;
        v_lanes(lanes);
        V_LOAD("f2", x, 0);
        TAIL_ROW(0, "f24");
        TAIL_ROW(1, "f25");
        TAIL_ROW(2, "f26");
        TAIL_ROW(3, "f27");
        ADVANCE(8 * element_bytes(type));
        x += 32;
        n -= lanes;
    }
    v_all_lanes();
}

// Dot products of n elements of 4 rows with the prepared column; their lanes are added to the sums at `sums`, or put
// there.
static void dot_rows(uint32_t type, const struct rows *start, uint64_t x, uint32_t n, uint64_t sums, bool add)
{
    struct rows r = *start;
    uint64_t rest = x;
    clear_sums();
    switch (type) {
    case ET_F32:
        rest = dot_f32(&r, x, n);
        break;
    case ET_BF16:
        rest = dot_bf16(&r, x, n);
        break;
    default:
        rest = dot_f16(&r, x, n);
        if (!all_normal()) {
            r = *start;
            clear_sums();
            rest = dot_f16_exact(&r, x, n);
        }
    }
    uint32_t group = type == ET_F32 ? 8 : 16;
    if (n % group)
        dot_tail(type, &r, rest, n % group);
    V("fadd.ps f24, f24, f28, rne");
    V("fadd.ps f25, f25, f29, rne");
    V("fadd.ps f26, f26, f30, rne");
    V("fadd.ps f27, f27, f31, rne");
    if (add) {
        V_LOAD("f0", sums, 0);
        V_LOAD("f1", sums, 32);
        V_LOAD("f2", sums, 64);
        V_LOAD("f3", sums, 96);
        V("fadd.ps f24, f24, f0, rne");
        V("fadd.ps f25, f25, f1, rne");
        V("fadd.ps f26, f26, f2, rne");
        V("fadd.ps f27, f27, f3, rne");
    }
    V_STORE("f24", sums, 0);
    V_STORE("f25", sums, 32);
    V_STORE("f26", sums, 64);
    V_STORE("f27", sums, 96);
}

// Where a column's results go: the product, and what it becomes with another column added, if `sum` is not 0.
struct results {
    uint64_t dst, other, sum;
};

// Adds up the lanes of `rows` sums and writes the results.
static void store_sums(uint64_t sums, struct results to, uint32_t rows)
{
    V_LOAD("f9", every_32, 0);
    V_LOAD("f8", every_4, 0);
    while (rows) {
        uint32_t lanes = rows < 8 ? rows : 8;
        v_lanes(lanes);
        V_GATHER("fgw.ps", "f0", "f9", sums);
        V_GATHER("fgw.ps", "f1", "f9", sums + 4);
        V_GATHER("fgw.ps", "f2", "f9", sums + 8);
        V_GATHER("fgw.ps", "f3", "f9", sums + 12);
        V_GATHER("fgw.ps", "f4", "f9", sums + 16);
        V_GATHER("fgw.ps", "f5", "f9", sums + 20);
        V_GATHER("fgw.ps", "f6", "f9", sums + 24);
        V_GATHER("fgw.ps", "f7", "f9", sums + 28);
        V("fadd.ps f0, f0, f1, rne");
        V("fadd.ps f2, f2, f3, rne");
        V("fadd.ps f4, f4, f5, rne");
        V("fadd.ps f6, f6, f7, rne");
        V("fadd.ps f0, f0, f2, rne");
        V("fadd.ps f4, f4, f6, rne");
        V("fadd.ps f0, f0, f4, rne");
        if (to.sum != to.dst)
            V_GATHER("fscwg.ps", "f0", "f8", to.dst);
        if (to.sum) {
            V_LOAD("f1", to.other, 0);
            V("fadd.ps f0, f0, f1, rne");
            V_GATHER("fscwg.ps", "f0", "f8", to.sum);
            to.other += 32;
            to.sum += 32;
        }
        sums += 256;
        to.dst += 32;
        rows -= lanes;
    }
    v_all_lanes();
}

// Rows first .. first+rows of src0 (rows <= RUN) times all columns of matrix (i2, i3) of src1. `ready` says which
// column is prepared.
static void multiply_rows(const struct et_product *product, const struct et_grid *grid, uint32_t i2, uint32_t i3,
                          uint32_t first, uint32_t rows, uint64_t *ready)
{
    const struct et_command *cmd = product->cmd;
    const struct et_tensor *w = &cmd->src[0], *src1 = &cmd->src[1];
    uint32_t k = w->ne[0], bytes = element_bytes(w->type);
    uint64_t x = grid->scratch + offsetof(struct scratch, x), sums = grid->scratch + offsetof(struct scratch, sums);
    uint64_t base = et_row(w, first, i2 / (src1->ne[2] / w->ne[2]), i3 / (src1->ne[3] / w->ne[3]));
    if (w->flags & ET_REFRESH) {
        for (uint32_t row = 0; row < rows; ++row)
            et_evict(base + row * w->nb[1], (uint64_t)k * bytes, 2);
        et_wait_cache();
    }
    for (uint32_t i1 = 0; i1 < src1->ne[1]; ++i1) {
        uint64_t column = et_row(src1, i1, i2, i3);
        for (uint32_t start = 0; start < k; start += X_MAX) {
            uint32_t n = k - start < X_MAX ? k - start : X_MAX;
            uint64_t src = column + (uint64_t)start * element_bytes(src1->type);
            if (*ready != src) {
                et_refresh(src1, src, (uint64_t)n * element_bytes(src1->type));
                prepare(src1->type, src, x, n, w->type != ET_F32);
                *ready = src;
            }
            for (uint32_t row = 0; row < rows; row += GROUP) {
                struct rows r;
                for (uint32_t i = 0; i < GROUP; ++i) {
                    uint32_t at = row + i < rows ? row + i : rows - 1;
                    r.a[i] = base + at * w->nb[1] + (uint64_t)start * bytes;
                }
                dot_rows(w->type, &r, x, n, sums + row * 32, start != 0);
            }
        }
        const struct et_tensor *dst = &cmd->dst;
        struct results to = {et_row(dst, i1, i2, i3) + first * 4ull, 0, 0};
        if (product->add) {
            const struct et_tensor *other = et_added(product);
            to.other = et_is_row(other, dst) ? other->addr + first * 4ull : et_beside(other, dst, to.dst);
            to.sum = et_beside(&product->add->dst, dst, to.dst);
            et_refresh(other, to.other, rows * 4);
        }
        store_sums(sums, to, rows);
    }
}

// This hart's rows of one product; their number, in groups.
static uint64_t multiply_product(const struct et_product *product, const struct et_grid *grid, uint64_t *ready)
{
    const struct et_tensor *w = &product->cmd->src[0], *src1 = &product->cmd->src[1];
    uint32_t groups = (w->ne[1] + GROUP - 1) / GROUP;
    struct et_range mine = et_share((uint64_t)src1->ne[2] * src1->ne[3] * groups, 1, grid->rank, grid->harts);
    for (uint64_t at = mine.begin; at < mine.end;) {
        uint64_t matrix = at / groups;
        uint32_t group = (uint32_t)(at - matrix * groups), take = groups - group;
        if (take > RUN / GROUP)
            take = RUN / GROUP;
        if (take > mine.end - at)
            take = (uint32_t)(mine.end - at);
        uint32_t first = group * GROUP, rows = take * GROUP;
        if (rows > w->ne[1] - first)
            rows = w->ne[1] - first;
        uint32_t i3 = (uint32_t)(matrix / src1->ne[2]), i2 = (uint32_t)(matrix - (uint64_t)i3 * src1->ne[2]);
        multiply_rows(product, grid, i2, i3, first, rows, ready);
        at += take;
    }
    return mine.end - mine.begin;
}

uint32_t et_mul_mat_vec(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *w = &cmd->src[0];
    if (w->type != ET_F32 && w->type != ET_F16 && w->type != ET_BF16)
        return et_mul_mat_int8(cmd, grid);
    // Products of a group share the column that is prepared.
    uint64_t ready = 0, most = 0;
    for (const struct et_command *end = et_group_end(cmd); cmd != end;) {
        struct et_product product = et_next_product(&cmd, end);
        uint64_t taken = multiply_product(&product, grid, &ready);
        most = taken > most ? taken : most;
    }
    // No scratch stays dirty in L1.
    if (most) {
        uint64_t k = w->ne[0] < X_MAX ? w->ne[0] : X_MAX, rows = (most < RUN / GROUP ? most : RUN / GROUP) * GROUP;
        et_fence();
        et_evict(grid->scratch + offsetof(struct scratch, x), (k + 7) / 8 * 32, 1);
        et_evict(grid->scratch + offsetof(struct scratch, sums), rows * 32, 1);
        et_wait_cache();
    }
    return ET_OK;
}
