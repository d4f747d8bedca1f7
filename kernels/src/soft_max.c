// SOFT_MAX: each row of dst = the weights exp(x) / sum exp(x) with x = scale * src + slope * mask, and a sink's share
// in the sum where there are sinks.
//
// Three passes over a row: x and its maximum, powers and their sum, division. dst holds the row between passes.
#include "et_attention.h"
#include "et_f16.h"

static const int32_t lane_numbers[8] __attribute__((aligned(32))) = {0, 1, 2, 3, 4, 5, 6, 7};

// f18: scale * log2(e), f19: slope * log2(e), f20-f23: running maxima, then sums. f28: F16 unit, f29: offsets of
// halves, f31: offsets of words.

enum mask { NO_MASK, MASK_F32, MASK_F16 };

struct row {
    uint64_t src;
    uint64_t mask;
    uint64_t dst;
    uint32_t count;
};

// f = scaled logits of 8 elements at byte offset `off` of the F32 rows.
#define LOGITS(mask_type, f, m, off)                                                                                   \
    do {                                                                                                               \
        V_LOAD(f, src, off);                                                                                           \
        if (mask_type == MASK_F32)                                                                                     \
            V_LOAD(m, mask, off);                                                                                      \
        if (mask_type == MASK_F16) {                                                                                   \
            V_GATHER("fgh.ps", m, "f29", mask + (off) / 2);                                                            \
            V_F16_TO_F32(m, "f8", "f28");                                                                              \
        }                                                                                                              \
        V("fmul.ps " f ", " f ", f18, rne");                                                                           \
        if (mask_type != NO_MASK)                                                                                      \
            V("fmadd.ps " f ", " m ", f19, " f ", rne");                                                               \
    } while (0)

#define STORE(owned, f, off)                                                                                           \
    do {                                                                                                               \
        if (owned)                                                                                                     \
            V_STORE(f, dst, off);                                                                                      \
        else                                                                                                           \
            V_GATHER("fscwg.ps", f, "f31", dst + (off));                                                               \
    } while (0)

static inline __attribute__((always_inline)) void logits(const struct row *r, enum mask mask_type, bool owned)
{
    uint64_t src = r->src, mask = r->mask, dst = r->dst, mask_step = mask_type == MASK_F16 ? 64 : 128;
    uint32_t left = r->count;
    V("fbci.ps f20, 0xFF800");
    V("fbci.ps f21, 0xFF800");
    V("fbci.ps f22, 0xFF800");
    V("fbci.ps f23, 0xFF800");
    for (; left >= 32; left -= 32, src += 128, mask += mask_step, dst += 128) {
        LOGITS(mask_type, "f0", "f4", 0);
        LOGITS(mask_type, "f1", "f5", 32);
        LOGITS(mask_type, "f2", "f6", 64);
        LOGITS(mask_type, "f3", "f7", 96);
        V("fmax.ps f20, f20, f0");
        V("fmax.ps f21, f21, f1");
        V("fmax.ps f22, f22, f2");
        V("fmax.ps f23, f23, f3");
        STORE(owned, "f0", 0);
        STORE(owned, "f1", 32);
        STORE(owned, "f2", 64);
        STORE(owned, "f3", 96);
    }
    for (; left; src += 32, mask += mask_step / 4, dst += 32) {
        uint32_t lanes = left < 8 ? left : 8;
        v_lanes(lanes);
        LOGITS(mask_type, "f0", "f4", 0);
        V("fmax.ps f20, f20, f0");
        STORE(owned, "f0", 0);
        left -= lanes;
    }
    v_all_lanes();
    V("fmax.ps f20, f20, f21");
    V("fmax.ps f22, f22, f23");
    V("fmax.ps f20, f20, f22");
    V_REDUCE("fmax.ps", "f20", "f0");
}

// f24: the maximum.
static inline __attribute__((always_inline)) void powers(const struct row *r, bool owned)
{
    uint64_t dst = r->dst;
    uint32_t left = r->count;
    V_BCAST_BITS("f20", 0);
    V_BCAST_BITS("f21", 0);
    V_BCAST_BITS("f22", 0);
    V_BCAST_BITS("f23", 0);
#define POWER(f, sum, off)                                                                                             \
    V_LOAD(f, dst, off);                                                                                               \
    V("fsub.ps " f ", " f ", f24, rne");                                                                               \
    V("fexp.ps " f ", " f);                                                                                            \
    V("fadd.ps " sum ", " sum ", " f ", rne");                                                                         \
    STORE(owned, f, off)
    for (; left >= 32; left -= 32, dst += 128) {
        POWER("f0", "f20", 0);
        POWER("f1", "f21", 32);
        POWER("f2", "f22", 64);
        POWER("f3", "f23", 96);
    }
    for (; left; dst += 32) {
        uint32_t lanes = left < 8 ? left : 8;
        v_lanes(lanes);
        POWER("f0", "f20", 0);
        left -= lanes;
    }
#undef POWER
    v_all_lanes();
    V("fadd.ps f20, f20, f21, rne");
    V("fadd.ps f22, f22, f23, rne");
    V("fadd.ps f20, f20, f22, rne");
    V_REDUCE("fadd.ps", "f20", "f0");
}

// f20: what the row is multiplied by.
static inline __attribute__((always_inline)) void normalise(const struct row *r, bool owned)
{
    uint64_t dst = r->dst;
    uint32_t left = r->count;
#define DIVIDE(f, off)                                                                                                 \
    V_LOAD(f, dst, off);                                                                                               \
    V("fmul.ps " f ", " f ", f20, rne");                                                                               \
    STORE(owned, f, off)
    for (; left >= 32; left -= 32, dst += 128) {
        DIVIDE("f0", 0);
        DIVIDE("f1", 32);
        DIVIDE("f2", 64);
        DIVIDE("f3", 96);
    }
    for (; left; dst += 32) {
        uint32_t lanes = left < 8 ? left : 8;
        v_lanes(lanes);
        DIVIDE("f0", 0);
        left -= lanes;
    }
#undef DIVIDE
    v_all_lanes();
}

// Global stores went past this hart's caches.
static void read_back(const struct row *r)
{
    et_fence();
    et_evict(r->dst, (uint64_t)r->count * 4, 2);
    et_wait_cache();
}

static inline __attribute__((always_inline)) void row(const struct row *r, enum mask mask_type, const float *sink,
                                                      bool owned)
{
    logits(r, mask_type, owned);
    V("fsgnj.ps f24, f20, f20");
    if (sink) {
        V_LOAD_BCAST("f25", (uintptr_t)sink, 0);
        V_BCAST("f0", V_LOG2E);
        V("fmul.ps f25, f25, f0, rne");
        V("fmax.ps f24, f24, f25");
    }
    if (!owned)
        read_back(r);
    powers(r, owned);
    if (sink) {
        V("fsub.ps f25, f25, f24, rne");
        V("fexp.ps f25, f25");
        V("fadd.ps f20, f20, f25, rne");
    }
    V("frcp.ps f20, f20");
    if (!owned)
        read_back(r);
    normalise(r, owned);
    if (owned)
        et_publish(r->dst, (uint64_t)r->count * 4);
}

#define ROWS_OF(mask_type)                                                                                             \
    static void rows_##mask_type(const struct row *r, const float *sink, bool owned)                                   \
    {                                                                                                                  \
        if (owned)                                                                                                     \
            row(r, mask_type, sink, true);                                                                             \
        else                                                                                                           \
            row(r, mask_type, sink, false);                                                                            \
    }
ROWS_OF(NO_MASK)
ROWS_OF(MASK_F32)
ROWS_OF(MASK_F16)

uint32_t et_soft_max(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_soft_max_params *p = &cmd->params.soft_max;
    const struct et_tensor *d = &cmd->dst, *s = &cmd->src[0], *m = &cmd->src[1], *sinks = &cmd->src[2];
    struct et_range rows = et_rows(cmd, grid);
    if (rows.begin == rows.end)
        return ET_OK;

    V_LOAD("f31", (uintptr_t)lane_numbers, 0);
    V("fslli.pi f29, f31, 1");
    V("fslli.pi f31, f31, 2");
    V_F16_UNIT("f28");
    V_BCAST("f18", p->scale * V_LOG2E);
    bool owned = d->flags & ET_LINES_OWNED;
    uint32_t head = UINT32_MAX;
    struct et_index i = et_unflatten(d, rows.begin);
    for (uint64_t n = rows.begin; n < rows.end; ++n, et_next_row(d, &i)) {
        struct row r = {.src = et_row(s, i.i1, i.i2, i.i3), .dst = et_row(d, i.i1, i.i2, i.i3), .count = d->ne[0]};
        et_refresh(s, r.src, (uint64_t)r.count * 4);
        if (i.i2 != head) {
            head = i.i2;
            V_ALIBI_SLOPE("f19", &p->alibi, head);
        }
        const float *sink = 0;
        if (sinks->ne[0]) {
            sink = ET_PTR(const float, sinks->addr + head * sinks->nb[0]);
            et_refresh(sinks, (uintptr_t)sink, 4);
        }
        if (m->ne[0]) {
            r.mask = et_row(m, i.i1, i.i2 % m->ne[2], i.i3 % m->ne[3]);
            et_refresh(m, r.mask, (uint64_t)r.count * m->nb[0]);
        }
        if (!m->ne[0])
            rows_NO_MASK(&r, sink, owned);
        else if (m->type == ET_F32)
            rows_MASK_F32(&r, sink, owned);
        else
            rows_MASK_F16(&r, sink, owned);
    }
    return ET_OK;
}
