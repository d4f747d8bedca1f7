// FLASH_ATTN_EXT, one tile of keys: see flash_attn.c.
#include "et_flash_attn.h"
#include "et_tensor_unit.h"

// Starts evicting lines, `stride` bytes apart (a multiple of 64): dest 1 = to L2, 2 = to L3.
static void evict_lines(uint64_t dest, uint64_t line, uint64_t stride, uint32_t lines)
{
    register uint64_t x31 __asm__("x31") = stride;
    __asm__ volatile("csrw evict_va, %0" ::"r"(dest << 58 | line | (lines - 1)), "r"(x31) : "memory");
}

// Drops this hart's copies of lines of scratchpad that the tensor unit has written.
static void forget(uint64_t addr, uint64_t stride, uint32_t rows)
{
    evict_lines(1, addr, stride, rows);
    et_wait_cache();
}

// Refreshes `bytes` of each of up to 16 rows, `stride` bytes apart.
static void refresh_rows(const struct et_tensor *t, uint64_t addr, uint64_t stride, uint32_t rows, uint64_t bytes)
{
    if (t->flags & ET_REFRESH) {
        evict_rows(addr, stride, rows, bytes);
        et_wait_cache();
    }
    prefetch_rows(addr, stride, rows, bytes);
}

// Which groups of 16 keys of a tile some row sees, one bit each.
static uint32_t visible_groups(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count)
{
    uint32_t groups = ceil_div(count, 16), visible = 0;
    if (!a->mask->ne[0])
        return (1u << groups) - 1;
    const struct row *rows = a->scratch->rows;
    uint64_t last = 0;
    if (a->mask->flags & ET_REFRESH) {
        for (uint32_t r = 0; r < u->rows; ++r) {
            if (rows[r].mask != last)
                et_evict(rows[r].mask + 2 * key, 2 * count, 2);
            last = rows[r].mask;
        }
        et_wait_cache();
    }
    V_BCAST_BITS("f1", 0xFC00FC00u);
    for (uint32_t g = 0; g < groups; ++g) {
        uint64_t offset = 2 * (key + 16 * g), seen;
        uint32_t words = (count - 16 * g + 1) / 2;
        V("fbci.pi f2, 0");
        if (words < 8)
            v_lanes(words);
        last = 0;
        for (uint32_t r = 0; r < u->rows; ++r) {
            if (rows[r].mask == last)
                continue;
            last = rows[r].mask;
            V_LOAD("f0", last + offset, 0);
            V("fxor.pi f0, f0, f1");
            V("for.pi f2, f2, f0");
        }
        if (words <= 8 && (count & 1)) {
            // What follows the last key belongs to nobody.
            __asm__ volatile("mov.m.x m0, %0, 0" ::"r"(1u << (words - 1)));
            V_BCAST_BITS("f0", 0xFFFF);
            V("fand.pi f2, f2, f0");
        }
        v_all_lanes();
        V("fsetm.pi m1, f2");
        __asm__ volatile("maskpopc %0, m1" : "=r"(seen));
        visible |= (uint32_t)(seen != 0) << g;
    }
    return visible;
}

// C = rows of 16 words at `addr`.
#define C_ROW(i, low, high)                                                                                            \
    if (rows == i)                                                                                                     \
        return;                                                                                                        \
    __asm__ volatile("flw.ps " low ", 0(%0)\n\tflw.ps " high ", 32(%0)" ::"r"(addr) : T_C_MATRIX);                     \
    addr += stride
static inline __attribute__((always_inline)) void load_c(uint64_t addr, uint64_t stride, uint32_t rows)
{
    forget(addr, stride, rows);
    C_ROW(0, "f0", "f1");
    C_ROW(1, "f2", "f3");
    C_ROW(2, "f4", "f5");
    C_ROW(3, "f6", "f7");
    C_ROW(4, "f8", "f9");
    C_ROW(5, "f10", "f11");
    C_ROW(6, "f12", "f13");
    C_ROW(7, "f14", "f15");
    C_ROW(8, "f16", "f17");
    C_ROW(9, "f18", "f19");
    C_ROW(10, "f20", "f21");
    C_ROW(11, "f22", "f23");
    C_ROW(12, "f24", "f25");
    C_ROW(13, "f26", "f27");
    C_ROW(14, "f28", "f29");
    C_ROW(15, "f30", "f31");
}

// On silicon a multiplication of exactly 4 rows is unsafe; a fifth does no harm.
static inline uint64_t fma_shape(uint32_t rows)
{
    return T_FMA_SHAPE(rows == 4 ? 5 : rows, 16);
}

// S(rows x 16) at `s`, rows TILE_BYTES apart, = or += Q at `q` times staged K, over `steps` times 16 elements.
// A is in lines 0-15, in halves when 8 rows are enough; B in lines 16-31 and 32-47 by turns.
static __attribute__((noinline)) void logits(uint64_t q, uint64_t q_pitch, uint64_t k, uint64_t k_pitch, uint32_t steps,
                                             uint64_t s, uint32_t rows, bool add)
{
    uint64_t shape = fma_shape(rows) | T_FMA_F32 | (add ? 0 : T_FIRST), turn = rows <= 8 ? 8 : 0;
    if (add)
        load_c(s, TILE_BYTES, rows);
    t_load(q | T_TO_LINE(0) | T_ROWS(rows), q_pitch);
    t_load(k | T_TO_LINE(16) | T_ROWS(16) | T_TRANSPOSE32, k_pitch | 1);
    for (uint32_t step = 0; step < steps; ++step) {
        uint64_t a = step & 1 ? turn : 0, b = 16 + 16 * (step & 1);
        T_WAIT(T_EVENT_LOAD);
        T_WAIT(T_EVENT_LOAD + 1);
        t_fma(shape | T_FMA_A(a) | T_FMA_B(b));
        shape &= ~T_FIRST;
        if (step + 1 < steps) {
            q += 64;
            k += 64;
            t_load(k | T_TO_LINE(48 - b) | T_ROWS(16) | T_TRANSPOSE32, k_pitch | 1);
            if (!turn)
                T_WAIT(T_EVENT_FMA);
            t_load(q | T_TO_LINE(turn - a) | T_ROWS(rows), q_pitch);
        }
    }
    T_WAIT(T_EVENT_FMA);
    t_store_c(s, rows, TILE_BYTES);
    T_WAIT(T_EVENT_STORE);
}

// O(rows x 16) at `o` += weights at `s` times staged V at `v`, over the visible groups of 16 keys.
// Weights go through three groups of lines, V through the B buffer.
static __attribute__((noinline)) void add_values(uint64_t o, uint64_t o_pitch, uint64_t s, uint64_t v, uint64_t v_pitch,
                                                 uint32_t visible, uint32_t rows)
{
    uint64_t shape = fma_shape(rows) | T_FMA_F32 | T_FMA_B_BUFFER, line = 0;
    load_c(o, o_pitch, rows);
    for (uint32_t g = 0; visible; ++g, visible >>= 1) {
        if (!(visible & 1))
            continue;
        t_load((s + 64 * g) | T_TO_LINE(line) | T_ROWS(rows), TILE_BYTES);
        t_load((v + 16 * v_pitch * g) | T_TO_B | T_ROWS(16), v_pitch | 1);
        T_WAIT(T_EVENT_LOAD);
        t_fma(shape | T_FMA_A(line));
        line = line == 32 ? 0 : line + 16;
    }
    T_WAIT(T_EVENT_FMA);
    t_store_c(o, rows, o_pitch);
    T_WAIT(T_EVENT_STORE);
}

// Step 1 for one group of up to 16 keys.
static void group_logits(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count, uint64_t s)
{
    uint64_t stage = (uintptr_t)a->scratch->stage, src = u->k + key * a->k->nb[1];
    uint32_t slab = STAGE_BYTES / (16 * 4);
    for (uint32_t d = 0; d < a->dk; d += slab) {
        uint32_t n = a->dk - d < slab ? a->dk - d : slab, steps = ceil_div(n, 16);
        uint64_t from = src + kv_bytes(a->k->type, d);
        refresh_rows(a->k, from, a->k->nb[1], count, kv_bytes(a->k->type, n));
        kv_stage(a->k->type, from, a->k->nb[1], count, n, stage, steps * 64);
        et_publish_scratch(stage, steps * 64 * 16);
        for (uint32_t r = 0; r < u->rows; r += 16)
            logits(a->q_rows + (uint64_t)r * a->q_pitch + d * 4, a->q_pitch, stage, steps * 64, steps,
                   s + (uint64_t)r * TILE_BYTES, u->rows - r < 16 ? u->rows - r : 16, d != 0);
    }
}

// How a mask row treats the groups of a tile, one bit each.
struct masking {
    uint32_t hidden; // hides all keys
    uint32_t mixed;  // neither that nor all zeros
};

// Sorts the visible groups; those that are mixed go to `out` as F32, the order of staged keys.
static struct masking stage_mask(uint64_t mask, uint32_t count, uint32_t visible, uint64_t out)
{
    struct masking m = {0, 0};
    V_F16_UNIT("f9");
    V_BCAST_BITS("f8", 0xFC00FC00u);
    for (uint32_t g = 0; visible >> g; ++g, mask += 32, out += 64) {
        if (!(visible >> g & 1))
            continue;
        uint32_t left = count - 16 * g;
        uint64_t unlike;
        if (left < 16) {
            kv_load_rest(mask, left);
        } else {
            V_LOAD("f0", mask, 0);
            V("fsrli.pi f1, f0, 16");
            V("fsetm.pi m1, f0");
            __asm__ volatile("maskpopc %0, m1" : "=r"(unlike));
            if (!unlike)
                continue;
            V("fxor.pi f2, f0, f8");
            V("fsetm.pi m1, f2");
            __asm__ volatile("maskpopc %0, m1" : "=r"(unlike));
            if (!unlike) {
                m.hidden |= 1u << g;
                continue;
            }
        }
        m.mixed |= 1u << g;
        V_F16_TO_F32("f0", "f4", "f9");
        V_F16_TO_F32("f1", "f5", "f9");
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
    }
    return m;
}

// Scales a row of O by f24 where the maximum has changed.
static void rescale(uint64_t o, uint64_t bytes)
{
    et_evict(o, bytes, 1);
    et_wait_cache();
    for (uint64_t at = o; at < o + bytes; at += 64) {
        V_LOAD("f0", at, 0);
        V_LOAD("f1", at, 32);
        V("fmul.ps f0, f0, f24, rne");
        V("fmul.ps f1, f1, f24, rne");
        V_STORE("f0", at, 0);
        V_STORE("f1", at, 32);
    }
    et_publish_scratch(o, bytes);
}

// f0 = softcap * tanh(f0). f21: softcap.
static __attribute__((noinline)) void cap(void)
{
    v_tanh();
    V("fmul.ps f0, f0, f21, rne");
}

// Row by row, a tile's logits are in f22-f29. f18: slope, f19: maximum, f20: -inf, f30: sum of weights.
#define CAP(f)                                                                                                         \
    V("fsgnj.ps f0, " f ", " f);                                                                                       \
    cap();                                                                                                             \
    V("fsgnj.ps " f ", f0, f0")

// Hidden keys are -inf even where K is NaN.
#define MASK(f, off)                                                                                                   \
    V_LOAD("f0", mask, off);                                                                                           \
    V("fmadd.ps " f ", f0, f18, " f ", rne");                                                                          \
    V("feq.ps f1, f0, f20");                                                                                           \
    V("fcmov.ps " f ", f1, f20, " f)

// -inf beyond the first n lanes.
#define HIDE_BEYOND(f, n)                                                                                              \
    __asm__ volatile("mov.m.x m0, %0, 0" ::"r"(0xFFu << (n)&0xFF));                                                    \
    V("fbci.ps " f ", 0xFF800");                                                                                       \
    v_all_lanes()

#define TAKE_GROUP(g, low, high)                                                                                       \
    if (seen & 1u << g) {                                                                                              \
        V_LOAD(low, s, 64 * g);                                                                                        \
        V_LOAD(high, s, 64 * g + 32);                                                                                  \
        if (capped) {                                                                                                  \
            CAP(low);                                                                                                  \
            CAP(high);                                                                                                 \
        }                                                                                                              \
        if (m.mixed & 1u << g) {                                                                                       \
            MASK(low, 64 * g);                                                                                         \
            MASK(high, 64 * g + 32);                                                                                   \
        }                                                                                                              \
        if (count < 16 * g + 16) {                                                                                     \
            HIDE_BEYOND(low, (count - 16 * g + 1) / 2);                                                                \
            HIDE_BEYOND(high, (count - 16 * g) / 2);                                                                   \
        }                                                                                                              \
        V("fmax.ps f19, f19, " low);                                                                                   \
        V("fmax.ps f19, f19, " high);                                                                                  \
    }

#define GIVE_GROUP(g, low, high)                                                                                       \
    if (seen & 1u << g) {                                                                                              \
        V("fsub.ps " low ", " low ", f19, rne");                                                                       \
        V("fsub.ps " high ", " high ", f19, rne");                                                                     \
        V("fexp.ps " low ", " low);                                                                                    \
        V("fexp.ps " high ", " high);                                                                                  \
        V("fadd.ps f30, f30, " low ", rne");                                                                           \
        V("fadd.ps f30, f30, " high ", rne");                                                                          \
        V_STORE(low, s, 64 * g);                                                                                       \
        V_STORE(high, s, 64 * g + 32);                                                                                 \
    } else if (visible & 1u << g) {                                                                                    \
        V("fbci.pi " low ", 0");                                                                                       \
        V_STORE(low, s, 64 * g);                                                                                       \
        V_STORE(low, s, 64 * g + 32);                                                                                  \
    }

// Step 2: logits of a tile to weights, row by row.
static void weights(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count, uint32_t visible)
{
    const struct et_flash_attn_params *p = &a->cmd->params.flash_attn;
    struct scratch *w = a->scratch;
    bool capped = p->softcap != 0.0f;
    uint64_t last = 0, mask = (uintptr_t)w->mask, s = a->s_rows, o = a->o_rows;
    struct masking m = {0, 0};
    V("fbci.ps f20, 0xFF800");
    V_BCAST("f21", p->softcap * V_LOG2E);
    for (uint32_t r = 0; r < u->rows; ++r, s += TILE_BYTES, o += a->o_pitch) {
        struct row *row = &w->rows[r];
        if (row->mask != last) {
            last = row->mask;
            m = stage_mask(last + 2 * key, count, visible, mask);
        }
        uint32_t seen = visible & ~m.hidden;
        V_BCAST_BITS("f18", row->slope);
        V_BCAST_BITS("f31", row->maximum);
        V("fsgnj.ps f19, f31, f31");
        TAKE_GROUP(0, "f22", "f23")
        TAKE_GROUP(1, "f24", "f25")
        TAKE_GROUP(2, "f26", "f27")
        TAKE_GROUP(3, "f28", "f29")
        V_REDUCE("fmax.ps", "f19", "f0");
        V("fbci.pi f30, 0");
        GIVE_GROUP(0, "f22", "f23")
        GIVE_GROUP(1, "f24", "f25")
        GIVE_GROUP(2, "f26", "f27")
        GIVE_GROUP(3, "f28", "f29")
        // What older sums and O are worth under the new maximum.
        V("fsub.ps f24, f31, f19, rne");
        V("fexp.ps f24, f24");
        V_LOAD("f0", (uintptr_t)w->sums[r], 0);
        V("fmadd.ps f0, f0, f24, f30, rne");
        V_STORE("f0", (uintptr_t)w->sums[r], 0);
        uint32_t maximum = V_LANE("f19", 0);
        if (maximum != row->maximum && row->maximum != NO_MAXIMUM)
            rescale(o, a->o_pitch);
        row->maximum = maximum;
    }
    et_publish_scratch(a->s_rows, (uint64_t)u->rows * TILE_BYTES);
}
_Static_assert(TILE == 64, "four groups of 16 keys");

// Step 3 of a tile.
static void tile_values(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count, uint32_t visible)
{
    uint64_t stage = (uintptr_t)a->scratch->stage, stride = a->v->nb[1], src = u->v + key * stride;
    uint32_t groups = ceil_div(count, 16), slab = (STAGE_BYTES / (16 * groups * 64) * 16) & ~31u;
    for (uint32_t d = 0; d < a->dv; d += slab) {
        uint32_t n = a->dv - d < slab ? a->dv - d : slab, lines = ceil_div(n, 16), pitch = lines * 64;
        uint64_t from = src + kv_bytes(a->v->type, d);
        for (uint32_t g = 0; g < groups; ++g) {
            if (!(visible >> g & 1))
                continue;
            uint64_t keys = from + 16 * g * stride;
            uint32_t left = count - 16 * g < 16 ? count - 16 * g : 16;
            refresh_rows(a->v, keys, stride, left, kv_bytes(a->v->type, n));
            kv_stage(a->v->type, keys, stride, left, n, stage + 16 * g * pitch, pitch);
        }
        et_publish_scratch(stage, (uint64_t)groups * 16 * pitch);
        for (uint32_t r = 0; r < u->rows; r += 16)
            for (uint32_t line = 0; line < lines; ++line)
                add_values(a->o_rows + (uint64_t)r * a->o_pitch + d * 4 + line * 64, a->o_pitch,
                           a->s_rows + (uint64_t)r * TILE_BYTES, stage + line * 64, pitch, visible,
                           u->rows - r < 16 ? u->rows - r : 16);
    }
}

void et_flash_attn_tile(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count)
{
    uint32_t visible = visible_groups(a, u, key, count);
    if (!visible)
        return;
    for (uint32_t g = 0; 16 * g < count; ++g)
        if (visible >> g & 1)
            group_logits(a, u, key + 16 * g, count - 16 * g < 16 ? count - 16 * g : 16, a->s_rows + 64 * g);
    weights(a, u, key, count, visible);
    tile_values(a, u, key, count, visible);
}
