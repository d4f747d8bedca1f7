// FLASH_ATTN_EXT for few rows of Q over F16 keys and values, such as one token's. See flash_attn.c for many.
//
// An aligned group of minions shares a row, each with a run of keys:
//   1. logits of its keys, one after the other, to scratchpad;
//   2. mask, softcap and maximum, which the tensor unit combines over the group, turn them into weights;
//   3. its sums of weights and of values times weights, which the tensor unit adds up in the group's first minion.
// Keys that the mask hides, and values with a weight of 0, are not looked at.
//
// Elements are in the "split" order of et_kv.h: of each 16 the even ones, then the odd ones.
#include "et_flash_attn.h"
#include "et_tensor_unit.h"

#define SLAB       64u  // elements of a row that are in registers
#define KEYS_MAX   512u // of a minion
#define KEYS_LEAST 8u
#define HIDDEN     0xFF800000u // -inf

// A minion's scratchpad.
struct place {
    uint32_t weights[KEYS_MAX]; // F32: logits, then weights
    float partial[KEYS_MAX][8]; // logits of rows longer than a slab, on their way
    float o[1024];
};
_Static_assert(sizeof(struct place) <= ET_SCRATCH_BYTES, "a hart's scratchpad");

struct part {
    const struct attention *a;
    struct place *place;
    uint64_t q, k, v, mask; // the row, key `begin` of K, V and of the mask's row or 0
    uint32_t count;         // keys
};

// 32 halves at `addr` to f0-f3, each 16 split. f9: V_F16_UNIT. Changes f4-f7.
static inline void load_32(uint64_t addr)
{
    V_LOAD("f0", addr, 0);
    V_LOAD("f2", addr, 32);
    V("fsrli.pi f1, f0, 16");
    V("fsrli.pi f3, f2, 16");
    V("fslli.pi f4, f0, 22");
    V("fslli.pi f6, f2, 22");
    V("fslli.pi f5, f1, 22");
    V("fslli.pi f7, f3, 22");
    V("fcvt.ps.pwu f4, f4, rne");
    V("fcvt.ps.pwu f6, f6, rne");
    V("fcvt.ps.pwu f5, f5, rne");
    V("fcvt.ps.pwu f7, f7, rne");
    V("fcvt.ps.f16 f0, f0");
    V("fcvt.ps.f16 f2, f2");
    V("fcvt.ps.f16 f1, f1");
    V("fcvt.ps.f16 f3, f3");
    V("fmul.ps f4, f4, f9");
    V("fmul.ps f6, f6, f9");
    V("fmul.ps f5, f5, f9");
    V("fmul.ps f7, f7, f9");
    V("fsgnj.ps f4, f4, f0");
    V("fsgnj.ps f6, f6, f2");
    V("fsgnj.ps f5, f5, f1");
    V("fsgnj.ps f7, f7, f3");
    V("fmaxu.pi f0, f0, f4");
    V("fmaxu.pi f2, f2, f6");
    V("fmaxu.pi f1, f1, f5");
    V("fmaxu.pi f3, f3, f7");
}

static bool hidden(const struct part *p, uint32_t key)
{
    return p->mask && *ET_PTR(const uint16_t, p->mask + 2 * key) == 0xFC00;
}

// Step 1. f18-f25: a slab of Q, split.
static void logits(const struct part *p, float scale)
{
    static const int32_t every_second[8] __attribute__((aligned(32))) = {0, 8, 16, 24, 32, 40, 48, 56};
    const struct attention *a = p->a;
    uint64_t stride = a->k->nb[1];
    V_F16_UNIT("f9");
    for (uint32_t d = 0; d < a->dk; d += SLAB) {
        uint64_t q = p->q + d * 4, key = p->k + d * 2;
        bool whole = a->dk - d >= SLAB, last = a->dk - d <= SLAB;
        V_LOAD("f30", (uintptr_t)every_second, 0);
        V_GATHER("fgw.ps", "f18", "f30", q);
        V_GATHER("fgw.ps", "f19", "f30", q + 4);
        V_GATHER("fgw.ps", "f20", "f30", q + 64);
        V_GATHER("fgw.ps", "f21", "f30", q + 68);
        if (whole) {
            V_GATHER("fgw.ps", "f22", "f30", q + 128);
            V_GATHER("fgw.ps", "f23", "f30", q + 132);
            V_GATHER("fgw.ps", "f24", "f30", q + 192);
            V_GATHER("fgw.ps", "f25", "f30", q + 196);
        }
        for (uint32_t i = 0; i < p->count; ++i, key += stride) {
            uint64_t partial = (uintptr_t)p->place->partial[i];
            if (hidden(p, i)) {
                p->place->weights[i] = HIDDEN;
                continue;
            }
            load_32(key);
            V("fmul.ps f26, f0, f18, rne");
            V("fmul.ps f27, f1, f19, rne");
            V("fmadd.ps f26, f2, f20, f26, rne");
            V("fmadd.ps f27, f3, f21, f27, rne");
            if (whole) {
                load_32(key + 64);
                V("fmadd.ps f26, f0, f22, f26, rne");
                V("fmadd.ps f27, f1, f23, f27, rne");
                V("fmadd.ps f26, f2, f24, f26, rne");
                V("fmadd.ps f27, f3, f25, f27, rne");
            }
            if (d) {
                V_LOAD("f0", partial, 0);
                V("fadd.ps f27, f27, f0, rne");
            }
            V("fadd.ps f26, f26, f27, rne");
            if (last) {
                V("fswizz.ps f0, f26, 0xB1");
                V("fadd.ps f26, f26, f0, rne");
                V("fswizz.ps f0, f26, 0x4E");
                V("fadd.ps f26, f26, f0, rne");
                p->place->weights[i] = et_bits((et_float(V_LANE("f26", 0)) + et_float(V_LANE("f26", 4))) * scale);
            } else {
                V_STORE("f26", partial, 0);
            }
        }
    }
}

// Combines registers from f`first` on over the group's minions, in the first one or in all.
static void combine(enum t_combine how, uint32_t first, uint32_t count, uint32_t levels, bool all)
{
    for (uint32_t level = 0; level < levels; ++level)
        t_up(how, first, count, level);
    for (uint32_t level = all ? levels : 0; level; --level)
        t_down(first, count, level - 1);
    T_WAIT(T_EVENT_REDUCE);
}

// Step 2; f26 = sums of weights. The group's maximum.
static uint32_t weights(const struct part *p, uint32_t head, uint32_t levels)
{
    static const int32_t halves[8] __attribute__((aligned(32))) = {0, 2, 4, 6, 8, 10, 12, 14};
    const struct et_flash_attn_params *params = &p->a->cmd->params.flash_attn;
    uint64_t begin = (uintptr_t)p->place->weights, end = begin + 4 * p->count, mask = p->mask;
    V("fbci.ps f20, 0xFF800");
    V_BCAST("f21", params->softcap * V_LOG2E);
    V_BCAST_BITS("f19", NO_MAXIMUM);
    V_F16_UNIT("f9");
    V_LOAD("f30", (uintptr_t)halves, 0);
    if (mask)
        V_ALIBI_SLOPE("f18", &params->alibi, head);
    for (uint64_t at = begin; at < end; at += 32, mask += 16) {
        if (end - at < 32)
            v_lanes((uint32_t)(end - at) / 4);
        V_LOAD("f0", at, 0);
        if (params->softcap != 0.0f) {
            v_tanh();
            V("fmul.ps f0, f0, f21, rne");
        }
        if (p->mask) {
            V_GATHER("fgh.ps", "f1", "f30", mask);
            V_F16_TO_F32("f1", "f2", "f9");
            V("fmadd.ps f0, f1, f18, f0, rne");
            V("feq.ps f1, f1, f20");
            V("fcmov.ps f0, f1, f20, f0");
        }
        V_STORE("f0", at, 0);
        V("fmax.ps f19, f19, f0");
    }
    v_all_lanes();
    V_REDUCE("fmax.ps", "f19", "f0");
    combine(T_MAX, 19, 1, levels, true);
    V("fbci.pi f26, 0");
    for (uint64_t at = begin; at < end; at += 32) {
        if (end - at < 32)
            v_lanes((uint32_t)(end - at) / 4);
        V_LOAD("f0", at, 0);
        V("fsub.ps f0, f0, f19, rne");
        V("fexp.ps f0, f0");
        V("fadd.ps f26, f26, f0, rne");
        V_STORE("f0", at, 0);
    }
    v_all_lanes();
    return V_LANE("f19", 0);
}

// Step 3 for a slab: f18-f25, split, in the group's first minion; with the first slab f26 too.
static void values(const struct part *p, uint32_t d, uint32_t levels)
{
    bool whole = p->a->dv - d >= SLAB;
    uint64_t v = p->v + d * 2, weight = (uintptr_t)p->place->weights;
    V("fbci.pi f18, 0");
    V("fbci.pi f19, 0");
    V("fbci.pi f20, 0");
    V("fbci.pi f21, 0");
    V("fbci.pi f22, 0");
    V("fbci.pi f23, 0");
    V("fbci.pi f24, 0");
    V("fbci.pi f25, 0");
    for (uint32_t i = 0; i < p->count; ++i, v += p->a->v->nb[1], weight += 4) {
        if (*ET_PTR(const volatile uint32_t, weight) == 0)
            continue;
        V_LOAD_BCAST("f8", weight, 0);
        load_32(v);
        V("fmadd.ps f18, f0, f8, f18, rne");
        V("fmadd.ps f19, f1, f8, f19, rne");
        V("fmadd.ps f20, f2, f8, f20, rne");
        V("fmadd.ps f21, f3, f8, f21, rne");
        if (whole) {
            load_32(v + 64);
            V("fmadd.ps f22, f0, f8, f22, rne");
            V("fmadd.ps f23, f1, f8, f23, rne");
            V("fmadd.ps f24, f2, f8, f24, rne");
            V("fmadd.ps f25, f3, f8, f25, rne");
        }
    }
    combine(T_ADD, 18, d ? 8 : 9, levels, false);
}

// A row, or this minion's part of it.
static void run(const struct attention *a, const struct et_grid *grid, uint32_t row, uint32_t levels)
{
    const struct et_flash_attn_params *params = &a->cmd->params.flash_attn;
    const struct et_tensor *q = a->q, *k = a->k, *v = a->v, *mask = a->mask;
    uint32_t outer = row / q->ne[1], token = row - outer * q->ne[1];
    uint32_t i3 = outer / q->ne[2], head = outer - i3 * q->ne[2];
    uint32_t members = 1u << levels, number = grid->minion & (members - 1);
    uint32_t each = ceil_div(k->ne[1], members), begin = each * number;
    uint32_t end = begin + each < k->ne[1] ? begin + each : k->ne[1];
    struct part p = {.a = a, .place = ET_PTR(struct place, grid->scratch), .count = end > begin ? end - begin : 0};
    p.q = et_row(q, token, head, i3);
    p.k = et_row(k, begin, head / (q->ne[2] / k->ne[2]), i3);
    p.v = et_row(v, begin, head / (q->ne[2] / v->ne[2]), i3);
    if (mask->ne[0])
        p.mask = et_row(mask, token, head % mask->ne[2], i3 % mask->ne[3]) + 2 * begin;

    bool stale = et_start_refresh(q, p.q, a->dk * 4);
    if (p.mask && p.count && et_start_refresh(mask, p.mask, 2 * p.count))
        stale = true;
    if (k->flags & ET_REFRESH)
        evict_rows(p.k, k->nb[1], p.count, a->dk * 2);
    if (v->flags & ET_REFRESH)
        evict_rows(p.v, v->nb[1], p.count, a->dv * 2);
    if (stale || (k->flags | v->flags) & ET_REFRESH)
        et_wait_cache();
    if (p.mask)
        et_prefetch(p.mask, 2 * p.count, 1);
    et_prefetch(p.q, a->dk * 4, 1);
    prefetch_rows(p.k, k->nb[1], p.count, a->dk * 2);
    prefetch_rows(p.v, v->nb[1], p.count, a->dv * 2);

    logits(&p, params->softcap != 0.0f ? params->scale : params->scale * V_LOG2E);
    uint32_t maximum = weights(&p, head, levels), sum = 0;
    uint64_t o = (uintptr_t)p.place->o;
    for (uint32_t d = 0; d < a->dv; d += SLAB, o += SLAB * 4) {
        values(&p, d, levels);
        if (number)
            continue;
        V_STORE("f18", o, 0);
        V_STORE("f19", o, 32);
        V_STORE("f20", o, 64);
        V_STORE("f21", o, 96);
        V_STORE("f22", o, 128);
        V_STORE("f23", o, 160);
        V_STORE("f24", o, 192);
        V_STORE("f25", o, 224);
        if (d == 0) {
            V_REDUCE("fadd.ps", "f26", "f0");
            sum = V_LANE("f26", 0);
        }
    }
    if (number == 0) {
        V_BCAST_BITS("f19", maximum);
        V_BCAST_BITS("f23", sum);
        et_flash_attn_factor(a, head);
        et_flash_attn_store(a, (uintptr_t)p.place->o, et_row(a->dst, head, token, i3));
    }
    // Dirty lines of scratchpad must not stay.
    et_fence();
    et_evict((uintptr_t)p.place->weights, 4 * p.count, 1);
    if (a->dk > SLAB)
        et_evict((uintptr_t)p.place->partial, 32 * p.count, 1);
    if (number == 0)
        et_evict((uintptr_t)p.place->o, a->o_pitch, 1);
    et_wait_cache();
    // Rows of hidden keys have been fetched, too.
    et_wait_prefetch();
}

bool et_flash_attn_rows(const struct attention *a, const struct et_grid *grid)
{
    const struct et_tensor *q = a->q;
    uint64_t rows = (uint64_t)q->ne[1] * q->ne[2] * q->ne[3];
    if (rows == 0 || a->k->type != ET_F16 || a->v->type != ET_F16 || a->dk % 32 || a->dv % 32 || a->dv > 1024)
        return false;
    // Groups are aligned by the minions' numbers on the chip, which run on over shires only where none is left out.
    uint32_t levels = 0, most = 5;
    if (grid->shire_mask == (1ull << grid->shires) - 1)
        most = 10;
    while (levels < most && rows << (levels + 1) <= grid->minions && a->k->ne[1] >> (levels + 1) >= KEYS_LEAST)
        ++levels;
    if (levels == 0 || ceil_div(a->k->ne[1], 1u << levels) > KEYS_MAX)
        return false;
    uint64_t row = grid->minion >> levels;
    if (grid->thread == 0 && row < rows)
        run(a, grid, (uint32_t)row, levels);
    return true;
}
