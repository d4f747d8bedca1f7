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
// Few rows, such as those of a token with its heads, are better off without tiles: flash_attn_row.c takes them.
//
// Weights of 0 are exact zeros, and the tensor unit skips a zero weight: what lies in hidden rows of V never counts.
#include "et_flash_attn.h"

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void operands(struct attention *a, const struct et_command *cmd)
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
}

static void plan(struct attention *a, const struct et_grid *grid)
{
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
    uint64_t room = a->cmd->workspace_size / ((uint64_t)bands * a->all_rows * (64 + a->o_pitch));
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

// Global stores where rows of dst may share lines.
void et_flash_attn_store(const struct attention *a, uint64_t o, uint64_t dst)
{
    bool split = kv_split(a->v->type), owned = a->dst->flags & ET_LINES_OWNED && a->cmd->row_unit == 1;
    uint64_t second = split ? 4 : 32, begin = dst;
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
        if (owned)
            V_GATHER("fscw.ps", "f0", "f30", dst);
        else
            V_GATHER("fscwg.ps", "f0", "f30", dst);
        v_lanes(high);
        if (owned)
            V_GATHER("fscw.ps", "f1", "f30", dst + second);
        else
            V_GATHER("fscwg.ps", "f1", "f30", dst + second);
        v_all_lanes();
    }
    if (owned)
        et_publish(begin, (uint64_t)a->dv * 4);
}

void et_flash_attn_factor(const struct attention *a, uint32_t head)
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
            et_flash_attn_factor(a, head);
            et_flash_attn_store(a, o, et_row(a->dst, head, token, u->i3));
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
    for (uint32_t key = u.begin; key < u.end; key += TILE)
        et_flash_attn_tile(a, &u, key, u.end - key < TILE ? u.end - key : TILE);
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
    et_flash_attn_factor(a, head);
    et_flash_attn_store(a, sum, et_row(a->dst, head, token, i3));
    et_publish_scratch(share, SPLITS_MAX * 4 + a->o_pitch);
}

uint32_t et_flash_attn(const struct et_command *cmd, const struct et_grid *grid)
{
    struct attention a;
    operands(&a, cmd);
    if (et_flash_attn_rows(&a, grid))
        return ET_OK;
    plan(&a, grid);
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
