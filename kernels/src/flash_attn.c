// FLASH_ATTN_EXT: dst = softmax(scale * Q K^T + slope * mask) V without the matrix of logits in memory.
//
// A unit of work is a block of query rows (tokens and heads) that share the head of K and V, and a range of keys. One
// minion works through a unit in tiles of up to 64 keys, with the tensor unit in F32:
//   1. K of 16 keys is converted to F32 in scratchpad, and S(rows x 16) = Q(rows x dk) K^T(dk x 16), K being transposed
//      while it is loaded;
//   2. mask, softcap, running maximum and powers turn S into weights P, and older sums are scaled to the new maximum;
//   3. V of the tile is converted, and O(rows x dv) += P(rows x keys) V(keys x dv).
// Groups of 16 keys that the mask hides from all rows are passed over. When there are fewer blocks than minions (one
// token with few heads), ranges of keys go to different minions, their sums to the workspace, and all harts combine
// them.
//
// Weights of 0 are exact zeros, and the tensor unit skips a zero weight: what lies in hidden rows of V never counts.
#include "et_attention.h"
#include "et_kv.h"
#include "et_tensor_unit.h"

#define TILE        64u // keys
#define TILE_BYTES  (TILE * 4)
#define ROWS_MAX    64u    // rows of a block
#define STAGE_BYTES 16384u // K or V on their way to the tensor unit
#define SPLIT_KEYS  32u    // least keys of a range
#define SPLITS_MAX  256u
#define NO_MAXIMUM  0xFF7FFFFFu // -FLT_MAX: unlike -inf it can be subtracted from itself

// One row's running state.
struct row {
    uint64_t mask;    // address of its mask row, or 0
    uint32_t slope;   // F32
    uint32_t maximum; // F32
};

// The minion's scratchpad (both harts' parts). Behind it: rows of Q, rows of O, rows of S.
struct scratch {
    uint8_t stage[STAGE_BYTES];
    float sums[ROWS_MAX][8]; // each row's sum of weights, still in 8 parts
    float mask[TILE];        // a row of the mask as F32, even and odd keys of each 16 apart
    struct row rows[ROWS_MAX];
};
#define ROWS_BYTES (2 * ET_SCRATCH_BYTES - (uint32_t)sizeof(struct scratch))
_Static_assert(sizeof(struct scratch) % 64 == 0, "rows of Q start on a line");

struct attention {
    const struct et_command *cmd;
    const struct et_tensor *q, *k, *v, *mask, *sinks, *dst;
    uint32_t dk, dv;           // elements of a head
    uint32_t q_pitch, o_pitch; // bytes of a staged row
    uint32_t heads;            // that share K and V
    uint32_t groups;           // of such heads
    uint32_t all_rows;         // tokens times heads
    uint32_t block;            // rows of a block
    uint32_t blocks;           // in all_rows
    uint32_t units;
    uint32_t keys;   // of a range
    uint32_t splits; // ranges
    struct scratch *scratch;
    uint64_t q_rows, o_rows, s_rows;
};

// A block of rows with a range of keys.
struct unit {
    uint32_t rows;
    uint32_t first_row; // of all_rows
    uint32_t first_head;
    uint32_t i3;
    uint64_t k, v; // key 0
    uint32_t begin, end;
    uint32_t split;
};

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

static void plan(struct attention *a, const struct et_command *cmd, const struct et_grid *grid)
{
    a->cmd = cmd;
    a->dst = &cmd->dst;
    a->q = &cmd->src[0];
    a->k = &cmd->src[1];
    a->v = &cmd->src[2];
    a->mask = &cmd->src[3];
    a->sinks = &cmd->src[4];
    a->dk = a->q->ne[0];
    a->dv = a->v->ne[0];
    a->q_pitch = ceil_div(a->dk, 16) * 64;
    a->o_pitch = ceil_div(a->dv, 16) * 64;
    a->heads = gcd(a->q->ne[2] / a->k->ne[2], a->q->ne[2] / a->v->ne[2]);
    a->groups = a->q->ne[2] / a->heads;
    a->all_rows = a->heads * a->q->ne[1];

    // As many rows as fit share a conversion of K and V, but no minion shall go without work for that.
    uint32_t bands = a->groups * a->q->ne[3], block = ROWS_BYTES / (a->q_pitch + a->o_pitch + TILE_BYTES);
    if (block >= 16)
        block = block > ROWS_MAX ? ROWS_MAX : block & ~15u;
    while (block > 16 && bands * ceil_div(a->all_rows, block) < grid->minions)
        block -= 16;
    a->block = block < a->all_rows ? block : a->all_rows;
    a->blocks = ceil_div(a->all_rows, a->block);
    a->units = bands * a->blocks;

    uint32_t keys = a->k->ne[1], splits = grid->minions / a->units;
    uint64_t room = cmd->workspace_size / ((uint64_t)bands * a->all_rows * (64 + a->o_pitch));
    if (splits > room)
        splits = (uint32_t)room;
    if (splits > SPLITS_MAX)
        splits = SPLITS_MAX;
    if (splits > 1) {
        uint32_t range = (ceil_div(keys, splits) + 15) & ~15u;
        a->keys = range < SPLIT_KEYS ? SPLIT_KEYS : range;
        a->splits = ceil_div(keys, a->keys);
    }
    if (splits <= 1 || a->splits <= 1) {
        a->keys = keys;
        a->splits = 1;
    }

    // A minion's first hart takes its second one's scratchpad too.
    a->scratch = ET_PTR(struct scratch, grid->scratch);
    a->q_rows = (uintptr_t)(a->scratch + 1);
    a->o_rows = a->q_rows + (uint64_t)a->block * a->q_pitch;
    a->s_rows = a->o_rows + (uint64_t)a->block * a->o_pitch;
}

static uint32_t token_of(const struct attention *a, uint32_t row)
{
    return row / a->heads;
}

static uint32_t head_of(const struct attention *a, const struct unit *u, uint32_t row)
{
    return u->first_head + row % a->heads;
}

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
    if (!(t->flags & ET_REFRESH))
        return;
    if (stride % 64 == 0) {
        for (uint64_t line = addr & ~63ull; line < addr + bytes; line += 64)
            evict_lines(2, line, stride, rows);
    } else {
        for (; rows; --rows, addr += stride)
            et_evict(addr, bytes, 2);
    }
    et_wait_cache();
}

// One row of Q times f8, in the order of staged K. f30: byte offsets of every second element.
static void stage_query(uint64_t src, uint64_t out, uint32_t n, bool split)
{
    for (; n; src += 64, out += 64) {
        uint32_t low = 8, high = 8;
        if (n < 16) {
            low = split ? (n + 1) / 2 : n < 8 ? n : 8;
            high = n - low;
            V("fbci.pi f0, 0");
            V("fbci.pi f1, 0");
        }
        n -= low + high;
        v_lanes(low);
        if (split)
            V_GATHER("fgw.ps", "f0", "f30", src);
        else
            V_LOAD("f0", src, 0);
        v_lanes(high);
        if (split)
            V_GATHER("fgw.ps", "f1", "f30", src + 4);
        else
            V_LOAD("f1", src, 32);
        v_all_lanes();
        V("fmul.ps f0, f0, f8, rne");
        V("fmul.ps f1, f1, f8, rne");
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
    }
}

static const int32_t every_second[8] __attribute__((aligned(32))) = {0, 8, 16, 24, 32, 40, 48, 56};

static void start_unit(const struct attention *a, const struct unit *u)
{
    const struct et_flash_attn_params *p = &a->cmd->params.flash_attn;
    struct scratch *s = a->scratch;
    V_LOAD("f30", (uintptr_t)every_second, 0);
    V_BCAST("f8", p->softcap != 0.0f ? p->scale : p->scale * V_LOG2E);
    for (uint32_t r = 0; r < u->rows; ++r) {
        uint32_t token = token_of(a, u->first_row + r), head = head_of(a, u, u->first_row + r);
        uint64_t q = et_row(a->q, token, head, u->i3);
        et_refresh(a->q, q, (uint64_t)a->dk * 4);
        stage_query(q, a->q_rows + (uint64_t)r * a->q_pitch, a->dk, kv_split(a->k->type));
        V_ALIBI_SLOPE("f0", &p->alibi, head);
        s->rows[r].slope = V_LANE("f0", 0);
        s->rows[r].maximum = NO_MAXIMUM;
        s->rows[r].mask = 0;
        if (a->mask->ne[0])
            s->rows[r].mask = et_row(a->mask, token, head % a->mask->ne[2], u->i3 % a->mask->ne[3]);
        V("fbci.pi f0, 0");
        V_STORE("f0", (uintptr_t)s->sums[r], 0);
    }
    V("fbci.pi f0, 0");
    uint64_t bytes = (uint64_t)u->rows * a->o_pitch;
    for (uint64_t o = a->o_rows; o < a->o_rows + bytes; o += 64) {
        V_STORE("f0", o, 0);
        V_STORE("f0", o, 32);
    }
    et_publish_scratch(a->q_rows, (uint64_t)u->rows * a->q_pitch);
    et_publish_scratch(a->o_rows, bytes);
    et_publish_scratch(a->s_rows, (uint64_t)u->rows * TILE_BYTES);
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

// A row of the mask as F32, the order of staged keys.
static void stage_mask(uint64_t mask, uint32_t count, uint32_t visible, uint64_t out)
{
    V_F16_UNIT("f9");
    for (uint32_t g = 0; visible >> g; ++g) {
        if (!(visible >> g & 1))
            continue;
        uint32_t left = count - 16 * g;
        if (left < 16) {
            kv_load_rest(mask + 32 * g, left);
        } else {
            V_LOAD("f0", mask + 32 * g, 0);
            V("fsrli.pi f1, f0, 16");
        }
        V_F16_TO_F32("f0", "f4", "f9");
        V_F16_TO_F32("f1", "f5", "f9");
        V_STORE("f0", out + 64 * g, 0);
        V_STORE("f1", out + 64 * g, 32);
    }
}

// f = logits of 8 keys, in units of ln 2. f18: slope, f20: -inf, f21: softcap. Hidden keys are -inf even where K is
// NaN.
#define FINISH_LOGITS(f, off)                                                                                          \
    do {                                                                                                               \
        V_LOAD(f, s, off);                                                                                             \
        if (capped) {                                                                                                  \
            V("fsgnj.ps f0, " f ", " f);                                                                               \
            v_tanh();                                                                                                  \
            V("fmul.ps " f ", f0, f21, rne");                                                                          \
        }                                                                                                              \
        if (mask) {                                                                                                    \
            V_LOAD("f0", mask, off);                                                                                   \
            V("fmadd.ps " f ", f0, f18, " f ", rne");                                                                  \
            V("feq.ps f1, f0, f20");                                                                                   \
            V("fcmov.ps " f ", f1, f20, " f);                                                                          \
        }                                                                                                              \
    } while (0)

// f = -inf beyond the first n lanes.
#define HIDE_BEYOND(f, n)                                                                                              \
    do {                                                                                                               \
        __asm__ volatile("mov.m.x m0, %0, 0" ::"r"(0xFFu << (n)&0xFF));                                                \
        V("fbci.ps " f ", 0xFF800");                                                                                   \
        v_all_lanes();                                                                                                 \
    } while (0)

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

// Step 2: logits of a tile to weights, row by row.
static void weights(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count, uint32_t visible)
{
    const struct et_flash_attn_params *p = &a->cmd->params.flash_attn;
    struct scratch *w = a->scratch;
    bool capped = p->softcap != 0.0f;
    uint64_t last = 0;
    V("fbci.ps f20, 0xFF800");
    V_BCAST("f21", p->softcap * V_LOG2E);
    for (uint32_t r = 0; r < u->rows; ++r) {
        struct row *row = &w->rows[r];
        uint64_t logits = a->s_rows + (uint64_t)r * TILE_BYTES, mask_row = (uintptr_t)w->mask;
        if (row->mask != last) {
            last = row->mask;
            stage_mask(last + 2 * key, count, visible, mask_row);
        }
        V_BCAST_BITS("f18", row->slope);
        V("fbci.ps f19, 0xFF800");
        for (uint32_t g = 0; visible >> g; ++g) {
            if (!(visible >> g & 1))
                continue;
            uint64_t s = logits + 64 * g, mask = row->mask ? mask_row + 64 * g : 0;
            uint32_t left = count - 16 * g;
            FINISH_LOGITS("f8", 0);
            FINISH_LOGITS("f9", 32);
            if (left < 16) {
                HIDE_BEYOND("f8", (left + 1) / 2);
                HIDE_BEYOND("f9", left / 2);
            }
            V("fmax.ps f19, f19, f8");
            V("fmax.ps f19, f19, f9");
            if (capped || mask || left < 16) {
                V_STORE("f8", s, 0);
                V_STORE("f9", s, 32);
            }
        }
        V_REDUCE("fmax.ps", "f19", "f0");
        V_BCAST_BITS("f22", row->maximum);
        V("fmax.ps f19, f22, f19");
        V("fsub.ps f24, f22, f19, rne");
        V("fexp.ps f24, f24");
        V("fbci.pi f23, 0");
        for (uint32_t g = 0; visible >> g; ++g) {
            if (!(visible >> g & 1))
                continue;
            uint64_t s = logits + 64 * g;
            V_LOAD("f0", s, 0);
            V_LOAD("f1", s, 32);
            V("fsub.ps f0, f0, f19, rne");
            V("fsub.ps f1, f1, f19, rne");
            V("fexp.ps f0, f0");
            V("fexp.ps f1, f1");
            V_STORE("f0", s, 0);
            V_STORE("f1", s, 32);
            V("fadd.ps f23, f23, f0, rne");
            V("fadd.ps f23, f23, f1, rne");
        }
        V_LOAD("f0", (uintptr_t)w->sums[r], 0);
        V("fmadd.ps f0, f0, f24, f23, rne");
        V_STORE("f0", (uintptr_t)w->sums[r], 0);
        uint32_t maximum = V_LANE("f19", 0);
        if (maximum != row->maximum && row->maximum != NO_MAXIMUM)
            rescale(a->o_rows + (uint64_t)r * a->o_pitch, a->o_pitch);
        row->maximum = maximum;
    }
    et_publish_scratch(a->s_rows, (uint64_t)u->rows * TILE_BYTES);
}

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

// A row of O times f24 to dst. Global stores: rows of dst may share lines.
static void store_result(const struct attention *a, uint64_t o, uint64_t dst)
{
    bool split = kv_split(a->v->type);
    uint64_t second = split ? 4 : 32;
    V_LOAD("f30", (uintptr_t)every_second, 0);
    if (!split)
        V("fsrli.pi f30, f30, 1");
    for (uint32_t n = a->dv; n; o += 64, dst += 64) {
        uint32_t low = 8, high = 8;
        if (n < 16) {
            low = split ? (n + 1) / 2 : n < 8 ? n : 8;
            high = n - low;
        }
        n -= low + high;
        V_LOAD("f0", o, 0);
        V_LOAD("f1", o, 32);
        V("fmul.ps f0, f0, f24, rne");
        V("fmul.ps f1, f1, f24, rne");
        v_lanes(low);
        V_GATHER("fscwg.ps", "f0", "f30", dst);
        v_lanes(high);
        V_GATHER("fscwg.ps", "f1", "f30", dst + second);
        v_all_lanes();
    }
}

// f24 = factor of a row of O. f19: maximum, f23: sum of weights, both in all lanes; a sink takes its share of the sum.
static void row_factor(const struct attention *a, uint32_t head)
{
    V("fbci.ps f24, 0x3F800");
    if (a->sinks->ne[0]) {
        uint64_t sink = a->sinks->addr + head * a->sinks->nb[0];
        et_refresh(a->sinks, sink, 4);
        V_LOAD_BCAST("f0", sink, 0);
        V_BCAST("f1", V_LOG2E);
        V("fmul.ps f0, f0, f1, rne");
        V("fmax.ps f1, f0, f19");
        V("fsub.ps f24, f19, f1, rne");
        V("fexp.ps f24, f24");
        V("fsub.ps f0, f0, f1, rne");
        V("fexp.ps f0, f0");
        V("fmadd.ps f23, f23, f24, f0, rne");
    }
    // No key seen and no sink: zeros.
    V("frcp.ps f0, f23");
    V("fmul.ps f24, f24, f0, rne");
    V("fbci.pi f1, 0");
    V("feq.ps f0, f23, f1");
    V("fcmov.ps f24, f0, f1, f24");
}

// A row's place in the workspace: the maximum, the sum of weights, and from the next line on O.
static uint64_t partial(const struct attention *a, uint32_t i3, uint32_t head, uint32_t token, uint32_t split)
{
    uint64_t row = ((uint64_t)i3 * a->q->ne[2] + head) * a->q->ne[1] + token;
    return a->cmd->workspace + (row * a->splits + split) * (64 + a->o_pitch);
}

static void finish_unit(const struct attention *a, const struct unit *u)
{
    struct scratch *s = a->scratch;
    et_evict(a->o_rows, (uint64_t)u->rows * a->o_pitch, 1);
    et_wait_cache();
    for (uint32_t r = 0; r < u->rows; ++r) {
        uint32_t token = token_of(a, u->first_row + r), head = head_of(a, u, u->first_row + r);
        uint64_t o = a->o_rows + (uint64_t)r * a->o_pitch;
        V_LOAD("f23", (uintptr_t)s->sums[r], 0);
        V_REDUCE("fadd.ps", "f23", "f0");
        V_BCAST_BITS("f19", s->rows[r].maximum);
        if (a->splits == 1) {
            row_factor(a, head);
            store_result(a, o, et_row(a->dst, head, token, u->i3));
        } else {
            uint64_t out = partial(a, u->i3, head, token, u->split);
            V_STORE("f19", out, 0);
            V_STORE("f23", out, 32);
            for (uint32_t i = 0; i < a->o_pitch; i += 64) {
                V_LOAD("f0", o + i, 0);
                V_LOAD("f1", o + i, 32);
                V_STORE("f0", out + i, 64);
                V_STORE("f1", out + i, 96);
            }
            et_publish(out, 64 + a->o_pitch);
        }
    }
}

static void run_unit(const struct attention *a, uint32_t item)
{
    struct unit u;
    uint32_t index = item / a->splits, band = index / a->blocks;
    u.split = item - index * a->splits;
    u.begin = u.split * a->keys;
    u.end = a->k->ne[1] - u.begin < a->keys ? a->k->ne[1] : u.begin + a->keys;
    u.first_row = (index - band * a->blocks) * a->block;
    u.rows = a->all_rows - u.first_row < a->block ? a->all_rows - u.first_row : a->block;
    u.i3 = band / a->groups;
    u.first_head = (band - u.i3 * a->groups) * a->heads;
    u.k = et_row(a->k, 0, u.first_head / (a->q->ne[2] / a->k->ne[2]), u.i3);
    u.v = et_row(a->v, 0, u.first_head / (a->q->ne[2] / a->v->ne[2]), u.i3);

    start_unit(a, &u);
    for (uint32_t key = u.begin; key < u.end; key += TILE) {
        uint32_t count = u.end - key < TILE ? u.end - key : TILE;
        uint32_t visible = visible_groups(a, &u, key, count);
        if (!visible)
            continue;
        for (uint32_t g = 0; 16 * g < count; ++g)
            if (visible >> g & 1)
                group_logits(a, &u, key + 16 * g, count - 16 * g < 16 ? count - 16 * g : 16, a->s_rows + 64 * g);
        weights(a, &u, key, count, visible);
        tile_values(a, &u, key, count, visible);
    }
    finish_unit(a, &u);
}

// One row from its parts. `share`: room for a float per part.
static void combine(const struct attention *a, uint32_t row, uint64_t share)
{
    uint32_t tokens = a->q->ne[1], outer = row / tokens, token = row - outer * tokens;
    uint32_t i3 = outer / a->q->ne[2], head = outer - i3 * a->q->ne[2];
    uint64_t parts = partial(a, i3, head, token, 0), pitch = 64 + a->o_pitch, end = parts + a->splits * pitch;
    // The workspace may have served other commands of this launch.
    et_evict(parts, a->splits * pitch, 2);
    et_wait_cache();
    V_BCAST_BITS("f19", NO_MAXIMUM);
    for (uint64_t part = parts; part < end; part += pitch) {
        V_LOAD("f0", part, 0);
        V("fmax.ps f19, f19, f0");
    }
    V("fbci.pi f23, 0");
    uint64_t at = share;
    for (uint64_t part = parts; part < end; part += pitch, at += 4) {
        V_LOAD("f0", part, 0);
        V_LOAD("f1", part, 32);
        V("fsub.ps f0, f0, f19, rne");
        V("fexp.ps f0, f0");
        V("fmadd.ps f23, f1, f0, f23, rne");
        __asm__ volatile("fsw f0, 0(%0)" ::"r"(at) : "memory");
    }
    uint64_t sum = share + SPLITS_MAX * 4;
    for (uint32_t i = 0; i < a->o_pitch; i += 64) {
        V("fbci.pi f0, 0");
        V("fbci.pi f1, 0");
        at = share;
        for (uint64_t part = parts + i; part < end; part += pitch, at += 4) {
            V_LOAD_BCAST("f2", at, 0);
            V_LOAD("f3", part, 64);
            V_LOAD("f4", part, 96);
            V("fmadd.ps f0, f3, f2, f0, rne");
            V("fmadd.ps f1, f4, f2, f1, rne");
        }
        V_STORE("f0", sum + i, 0);
        V_STORE("f1", sum + i, 32);
    }
    row_factor(a, head);
    store_result(a, sum, et_row(a->dst, head, token, i3));
    et_publish_scratch(share, SPLITS_MAX * 4 + a->o_pitch);
}

uint32_t et_flash_attn(const struct et_command *cmd, const struct et_grid *grid)
{
    struct attention a;
    plan(&a, cmd, grid);
    if (grid->thread == 0) {
        for (uint32_t item = grid->minion; item < a.units * a.splits; item += grid->minions)
            run_unit(&a, item);
        // The rest of the scratchpad was published for the tensor unit.
        et_publish_scratch((uintptr_t)a.scratch->sums, sizeof(struct scratch) - offsetof(struct scratch, sums));
    }
    if (a.splits > 1) {
        et_barrier(grid);
        uint32_t rows = a.q->ne[1] * a.q->ne[2] * a.q->ne[3];
        for (uint32_t row = grid->rank; row < rows; row += grid->harts)
            combine(&a, row, grid->scratch);
    }
    return ET_OK;
}
