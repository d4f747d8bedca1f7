// Runs of elements between tensors. Same types: bytes. Different types: 32 elements at a time in f18-f21 as F32.
//
// Registers kept over a transfer: f9 = byte offsets of 8 words, f22 and f23 = byte offsets of 8 items of source and
// destination, f24-f27 = constants of the 16-bit conversions.
#include "et_transfer.h"

#include "et_f16.h"
#include "et_quant.h"

// Elements that are gathered in a buffer before they go out with global stores: a multiple of all block sizes.
#define BATCH 128u

// Statement X for lanes 8k .. 8k+7 of n elements.
#define PART(n, k, X)                                                                                                  \
    if ((n) >= 8 * (k) + 8) {                                                                                          \
        X;                                                                                                             \
    } else if ((n) > 8 * (k)) {                                                                                        \
        v_lanes((n)&7);                                                                                                \
        X;                                                                                                             \
        v_all_lanes();                                                                                                 \
    }

static void load_words(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    (void)t;
    PART(n, 0, V_LOAD("f18", addr, 0));
    PART(n, 1, V_LOAD("f19", addr, 32));
    PART(n, 2, V_LOAD("f20", addr, 64));
    PART(n, 3, V_LOAD("f21", addr, 96));
}

static void store_words(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    (void)t;
    PART(n, 0, V_STORE("f18", addr, 0));
    PART(n, 1, V_STORE("f19", addr, 32));
    PART(n, 2, V_STORE("f20", addr, 64));
    PART(n, 3, V_STORE("f21", addr, 96));
}

// Gathers and scatters of items `step` bytes apart.
#define STRIDED(insn, offsets, addr, step, n)                                                                          \
    do {                                                                                                               \
        uint64_t eight = 8 * (step);                                                                                   \
        PART(n, 0, V_GATHER(insn, "f18", offsets, addr));                                                              \
        PART(n, 1, V_GATHER(insn, "f19", offsets, (addr) + eight));                                                    \
        PART(n, 2, V_GATHER(insn, "f20", offsets, (addr) + 2 * eight));                                                \
        PART(n, 3, V_GATHER(insn, "f21", offsets, (addr) + 3 * eight));                                                \
    } while (0)

static void gather_words(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    STRIDED("fgw.ps", "f22", addr, t->src.step, n);
}

static void gather_halves(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    STRIDED("fgh.ps", "f22", addr, t->src.step, n);
}

static void scatter_words(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    STRIDED("fscwg.ps", "f23", addr, t->dst.step, n);
}

static void scatter_halves(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    STRIDED("fschg.ps", "f23", addr, t->dst.step, n);
}

// The block moves wrap at 32 bytes: right for 16 bytes at a multiple of 16.
static void load_halves(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    if (addr & 15) {
        gather_halves(t, addr, n);
        return;
    }
    PART(n, 0, V_LOAD_HALVES("f18", addr, V_HALVES_IN_ORDER));
    PART(n, 1, V_LOAD_HALVES("f19", addr + 16, V_HALVES_IN_ORDER));
    PART(n, 2, V_LOAD_HALVES("f20", addr + 32, V_HALVES_IN_ORDER));
    PART(n, 3, V_LOAD_HALVES("f21", addr + 48, V_HALVES_IN_ORDER));
}

static void store_halves(const struct et_transfer *t, uint64_t addr, uint32_t n)
{
    if (addr & 15) {
        STRIDED("fsch.ps", "f23", addr, t->dst.step, n);
        return;
    }
    PART(n, 0, V_STORE_HALVES("f18", addr, V_HALVES_IN_ORDER));
    PART(n, 1, V_STORE_HALVES("f19", addr + 16, V_HALVES_IN_ORDER));
    PART(n, 2, V_STORE_HALVES("f20", addr + 32, V_HALVES_IN_ORDER));
    PART(n, 3, V_STORE_HALVES("f21", addr + 48, V_HALVES_IN_ORDER));
}

static void from_f16(void)
{
    V_F16_TO_F32("f18", "f0", "f24");
    V_F16_TO_F32("f19", "f1", "f24");
    V_F16_TO_F32("f20", "f2", "f24");
    V_F16_TO_F32("f21", "f3", "f24");
}

static void to_f16(void)
{
    V_F32_TO_F16("f18", "f0", "f1", "f25");
    V_F32_TO_F16("f19", "f2", "f3", "f25");
    V_F32_TO_F16("f20", "f4", "f5", "f25");
    V_F32_TO_F16("f21", "f6", "f7", "f25");
}

static void from_bf16(void)
{
    V_BF16_TO_F32("f18");
    V_BF16_TO_F32("f19");
    V_BF16_TO_F32("f20");
    V_BF16_TO_F32("f21");
}

static void to_bf16(void)
{
    V_F32_TO_BF16("f18", "f0", "f1", "f26", "f27");
    V_F32_TO_BF16("f19", "f2", "f3", "f26", "f27");
    V_F32_TO_BF16("f20", "f4", "f5", "f26", "f27");
    V_F32_TO_BF16("f21", "f6", "f7", "f26", "f27");
}

static void from_i32(void)
{
    V("fcvt.ps.pw f18, f18, rne");
    V("fcvt.ps.pw f19, f19, rne");
    V("fcvt.ps.pw f20, f20, rne");
    V("fcvt.ps.pw f21, f21, rne");
}

static void to_i32(void)
{
    V("fcvt.pw.ps f18, f18, rtz");
    V("fcvt.pw.ps f19, f19, rtz");
    V("fcvt.pw.ps f20, f20, rtz");
    V("fcvt.pw.ps f21, f21, rtz");
}

// Reading: move, then convert. Writing: convert, then move.
#define READER(name, move, convert)                                                                                    \
    static void name(const struct et_transfer *t, uint64_t addr, uint32_t n)                                           \
    {                                                                                                                  \
        move(t, addr, n);                                                                                              \
        convert();                                                                                                     \
    }
#define WRITER(name, convert, move)                                                                                    \
    static void name(const struct et_transfer *t, uint64_t addr, uint32_t n)                                           \
    {                                                                                                                  \
        convert();                                                                                                     \
        move(t, addr, n);                                                                                              \
    }
READER(load_f16, load_halves, from_f16)
READER(load_bf16, load_halves, from_bf16)
READER(load_i32, load_words, from_i32)
READER(gather_f16, gather_halves, from_f16)
READER(gather_bf16, gather_halves, from_bf16)
READER(gather_i32, gather_words, from_i32)
WRITER(store_f16, to_f16, store_halves)
WRITER(store_bf16, to_bf16, store_halves)
WRITER(store_i32, to_i32, store_words)
WRITER(scatter_f16, to_f16, scatter_halves)
WRITER(scatter_bf16, to_bf16, scatter_halves)
WRITER(scatter_i32, to_i32, scatter_words)

#define BLOCK(name, function)                                                                                          \
    static void name(const struct et_transfer *t, uint64_t addr, uint32_t n)                                           \
    {                                                                                                                  \
        (void)t;                                                                                                       \
        (void)n;                                                                                                       \
        function(addr);                                                                                                \
    }
BLOCK(load_q8_0, v_load_q8_0)
BLOCK(load_q4_0, v_load_q4_0)
BLOCK(load_q4_1, v_load_q4_1)
BLOCK(load_q5_0, v_load_q5_0)
BLOCK(load_q5_1, v_load_q5_1)
BLOCK(load_iq4_nl, v_load_iq4_nl)
BLOCK(store_q8_0, v_store_q8_0)
BLOCK(store_q4_0, v_store_q4_0)
BLOCK(store_q4_1, v_store_q4_1)
BLOCK(store_q5_0, v_store_q5_0)
BLOCK(store_q5_1, v_store_q5_1)
BLOCK(store_iq4_nl, v_store_iq4_nl)

static void set_side(struct et_side *side, const struct et_tensor *tensor)
{
    static const uint8_t bytes[ET_TYPE_COUNT] = {
        [ET_F32] = 4,   [ET_F16] = 2,     [ET_BF16] = 2, [ET_Q8_0] = 34, [ET_Q4_0] = 18, [ET_Q4_1] = 20, [ET_Q5_0] = 22,
        [ET_Q5_1] = 24, [ET_IQ4_NL] = 18, [ET_I8] = 1,   [ET_I16] = 2,   [ET_I32] = 4,   [ET_I64] = 8,
    };
    side->item = bytes[tensor->type];
    side->step = tensor->nb[0];
    side->shift = side->item > 8 ? 5 : 0;
    side->dense = side->step == side->item;
}

static et_lanes_fn *reader(uint32_t type, bool dense)
{
    switch (type) {
    case ET_F32:
        return dense ? load_words : gather_words;
    case ET_F16:
        return dense ? load_f16 : gather_f16;
    case ET_BF16:
        return dense ? load_bf16 : gather_bf16;
    case ET_I32:
        return dense ? load_i32 : gather_i32;
    case ET_Q8_0:
        return dense ? load_q8_0 : 0;
    case ET_Q4_0:
        return dense ? load_q4_0 : 0;
    case ET_Q4_1:
        return dense ? load_q4_1 : 0;
    case ET_Q5_0:
        return dense ? load_q5_0 : 0;
    case ET_Q5_1:
        return dense ? load_q5_1 : 0;
    case ET_IQ4_NL:
        return dense ? load_iq4_nl : 0;
    default:
        return 0;
    }
}

static et_lanes_fn *writer(uint32_t type, bool dense)
{
    switch (type) {
    case ET_F32:
        return dense ? store_words : scatter_words;
    case ET_F16:
        return dense ? store_f16 : scatter_f16;
    case ET_BF16:
        return dense ? store_bf16 : scatter_bf16;
    case ET_I32:
        return dense ? store_i32 : scatter_i32;
    case ET_Q8_0:
        return dense ? store_q8_0 : 0;
    case ET_Q4_0:
        return dense ? store_q4_0 : 0;
    case ET_Q4_1:
        return dense ? store_q4_1 : 0;
    case ET_Q5_0:
        return dense ? store_q5_0 : 0;
    case ET_Q5_1:
        return dense ? store_q5_1 : 0;
    case ET_IQ4_NL:
        return dense ? store_iq4_nl : 0;
    default:
        return 0;
    }
}

uint32_t et_transfer_begin(struct et_transfer *t, const struct et_tensor *dst, const struct et_tensor *src)
{
    if (src->type >= ET_TYPE_COUNT || dst->type >= ET_TYPE_COUNT)
        return ET_BAD_TYPE;
    *t = (struct et_transfer){.owned = dst->flags & ET_LINES_OWNED, .refresh = src->flags & ET_REFRESH};
    set_side(&t->src, src);
    set_side(&t->dst, dst);
    t->raw = src->type == dst->type;
    t->lanes = true;
    if (!t->raw) {
        t->src.lanes = reader(src->type, t->src.dense);
        t->dst.lanes = writer(dst->type, t->dst.dense);
        if (!t->src.lanes || !t->dst.lanes)
            return ET_BAD_TYPE;
    } else if (t->src.dense && t->dst.dense) {
        t->lanes = false;
    } else if (t->src.item == 4) {
        t->src.lanes = t->src.dense ? load_words : gather_words;
        t->dst.lanes = t->dst.dense ? store_words : scatter_words;
    } else if (t->src.item == 2) {
        t->src.lanes = t->src.dense ? load_halves : gather_halves;
        t->dst.lanes = t->dst.dense ? store_halves : scatter_halves;
    } else {
        t->lanes = false;
    }
    V_LOAD("f0", (uintptr_t)q_lane_numbers, 0);
    V("fslli.pi f9, f0, 2");
    V_BCAST_BITS("f1", (uint32_t)t->src.step);
    V_BCAST_BITS("f2", (uint32_t)t->dst.step);
    V("fmul.pi f22, f0, f1");
    V("fmul.pi f23, f0, f2");
    V_F16_UNIT("f24");
    V_F16_HALF("f25");
    V_BF16_ROUND("f26");
    V_BF16_QUIET("f27");
    return ET_OK;
}

// Bytes with normal stores.
static void copy_owned(uint64_t dst, uint64_t src, uint64_t bytes)
{
    for (; bytes >= 128; bytes -= 128, dst += 128, src += 128) {
        V_LOAD("f0", src, 0);
        V_LOAD("f1", src, 32);
        V_LOAD("f2", src, 64);
        V_LOAD("f3", src, 96);
        V_STORE("f0", dst, 0);
        V_STORE("f1", dst, 32);
        V_STORE("f2", dst, 64);
        V_STORE("f3", dst, 96);
    }
    for (; bytes >= 32; bytes -= 32, dst += 32, src += 32) {
        V_LOAD("f0", src, 0);
        V_STORE("f0", dst, 0);
    }
    if (bytes >= 4) {
        v_lanes((uint32_t)bytes / 4);
        V_LOAD("f0", src, 0);
        V_STORE("f0", dst, 0);
        v_all_lanes();
        dst += bytes & ~3ull;
        src += bytes & ~3ull;
    }
    for (bytes &= 3; bytes; --bytes)
        *ET_PTR(volatile uint8_t, dst++) = *ET_PTR(const volatile uint8_t, src++);
}

// Bytes with global stores, which need their natural alignment: 32 bytes, up to 8 words, a half, a byte at a time.
static void copy_global(uint64_t dst, uint64_t src, uint64_t bytes)
{
    while (bytes) {
        uint64_t n = 32 - (dst & 31);
        if (n > bytes)
            n = bytes;
        if (n == 32) {
            V_LOAD("f0", src, 0);
            __asm__ volatile("fswg.ps f0, (%0)" ::"r"(dst) : "memory");
        } else if (n >= 4 && (dst & 3) == 0) {
            n &= ~3ull;
            v_lanes((uint32_t)n / 4);
            V_LOAD("f0", src, 0);
            V_GATHER("fscwg.ps", "f0", "f9", dst);
            v_all_lanes();
        } else if (n >= 2 && (dst & 1) == 0) {
            n = 2;
            __asm__ volatile("shg %0, (%1)" ::"r"((uint64_t)et_get16(src)), "r"(dst) : "memory");
        } else {
            n = 1;
            __asm__ volatile("sbg %0, (%1)" ::"r"((uint64_t)*ET_PTR(const uint8_t, src)), "r"(dst) : "memory");
        }
        dst += n;
        src += n;
        bytes -= n;
    }
}

static void copy_bytes(const struct et_transfer *t, uint64_t dst, uint64_t src, uint64_t bytes)
{
    if (t->owned)
        copy_owned(dst, src, bytes);
    else
        copy_global(dst, src, bytes);
}

// Evicts the lines of `items` addresses `step` bytes apart, a multiple of a line.
static void evict_strided(uint64_t addr, uint64_t items, uint64_t step)
{
    register uint64_t stride __asm__("x31") = step;
    addr &= ~63ull;
    while (items) {
        uint64_t n = items < 16 ? items : 16;
        __asm__ volatile("csrw evict_va, %0" ::"r"(2ull << 58 | addr | (n - 1)), "r"(stride) : "memory");
        addr += n * step;
        items -= n;
    }
}

// The lines of a run of the source. A run that adjoins the last one, or lies in the same lines a few columns on, has
// them fresh already.
static void refresh(struct et_transfer *t, uint64_t src, uint64_t items)
{
    const struct et_side *side = &t->src;
    uint64_t begin = src, end = src + (items - 1) * side->step + side->item;
    bool scattered = side->step >= ET_LINE && !side->dense;
    if (scattered && side->step % ET_LINE == 0 && side->item <= 8) {
        if (begin >> 6 == t->fresh >> 6 && (end - 1) >> 6 == (t->fresh_end - 1) >> 6)
            return;
        evict_strided(begin, items, side->step);
        t->fresh = begin;
        t->fresh_end = end;
    } else if (scattered) {
        for (uint64_t i = 0; i < items; ++i)
            et_evict(begin + i * side->step, side->item, 2);
    } else {
        if (begin >= t->fresh && begin < t->fresh_end)
            begin = t->fresh_end;
        else
            t->fresh = begin & ~63ull;
        if (begin >= end)
            return;
        et_evict(begin, end - begin, 2);
        t->fresh_end = (end + 63) & ~63ull;
    }
    et_wait_cache();
}

// Through registers, straight into dst.
static void run_direct(const struct et_transfer *t, uint64_t dst, uint64_t src, uint64_t n)
{
    uint64_t src_step = et_side_offset(&t->src, 32), dst_step = et_side_offset(&t->dst, 32);
    for (; n >= 32; n -= 32) {
        t->src.lanes(t, src, 32);
        t->dst.lanes(t, dst, 32);
        src += src_step;
        dst += dst_step;
    }
    if (n) {
        t->src.lanes(t, src, (uint32_t)n);
        t->dst.lanes(t, dst, (uint32_t)n);
    }
}

// Through registers and a buffer: global stores of words cost less than of halves, and blocks have odd sizes.
static void run_buffered(const struct et_transfer *t, uint64_t dst, uint64_t src, uint64_t n)
{
    uint8_t buffer[BATCH * 4] __attribute__((aligned(64)));
    uint64_t from = (uintptr_t)buffer;
    while (n) {
        uint64_t batch = n < BATCH ? n : BATCH, bytes = et_side_offset(&t->dst, batch);
        run_direct(t, from, src, batch);
        copy_global(dst, from, bytes);
        src += et_side_offset(&t->src, batch);
        dst += bytes;
        n -= batch;
    }
}

void et_transfer_run(struct et_transfer *t, uint64_t dst, uint64_t src, uint64_t n)
{
    uint64_t items = n >> t->src.shift;
    if (t->refresh)
        refresh(t, src, items);
    if (t->lanes) {
        if (t->owned || !t->dst.dense)
            run_direct(t, dst, src, n);
        else
            run_buffered(t, dst, src, n);
    } else if (t->src.dense && t->dst.dense) {
        copy_bytes(t, dst, src, items * t->src.item);
    } else {
        for (uint64_t i = 0; i < items; ++i)
            copy_bytes(t, dst + i * t->dst.step, src + i * t->src.step, t->src.item);
    }
    if (!t->owned)
        return;
    if (dst != t->written_end) {
        et_transfer_end(t);
        t->written = dst;
    }
    t->written_end = dst + et_side_offset(&t->dst, n);
}

void et_transfer_end(struct et_transfer *t)
{
    if (t->written != t->written_end)
        et_publish(t->written, t->written_end - t->written);
    t->written = t->written_end;
}

uint32_t et_transfer_rows(const struct et_command *cmd, const struct et_grid *grid, const struct et_tensor *rows,
                          et_place_fn *place)
{
    uint64_t width = rows->ne[0], total = width * rows->ne[1] * rows->ne[2] * rows->ne[3];
    struct et_range part = et_share(total, cmd->params.span.unit, et_turned(cmd, grid), grid->harts);
    if (part.begin >= part.end)
        return ET_OK;
    struct et_transfer t;
    uint32_t code = et_transfer_begin(&t, &cmd->dst, &cmd->src[0]);
    if (code != ET_OK)
        return code;
    uint64_t row = part.begin / width, column = part.begin - row * width;
    struct et_index i = et_unflatten(rows, row);
    for (uint64_t at = part.begin; at < part.end;) {
        uint64_t n = width - column, to, from;
        if (n > part.end - at)
            n = part.end - at;
        if (place(cmd, i, &to, &from))
            et_transfer_run(&t, to + et_side_offset(&t.dst, column), from + et_side_offset(&t.src, column), n);
        else
            code = ET_BAD_INDEX;
        at += n;
        column = 0;
        et_next_row(rows, &i);
    }
    et_transfer_end(&t);
    return code;
}
