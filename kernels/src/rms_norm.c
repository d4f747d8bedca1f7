// RMS_NORM, NORM and L2_NORM: rows divided by their root mean square, deviation or length.
#include "et_elementwise.h"
#include "et_math.h"

// A row of the source and of dst.
struct line {
    const struct et_command *cmd;
    uint64_t src, dst;
    uint64_t src_step, dst_step;
    uint32_t n;
    bool dense; // the source's elements adjoin
    bool fast;  // dst's too, in lines of its own
};

// Steps over a row: `four` on f0-f3 as long as 32 elements are left, then `one` on f0 with the lanes that remain.
// `store`: f0-f3 are the result.
static inline __attribute__((always_inline)) void over(const struct line *l, bool store, void (*four)(void),
                                                       void (*one)(void))
{
    uint64_t s = l->src, d = l->dst;
    int64_t left = l->n;
    if (store ? l->fast : l->dense) {
        for (; left >= 32; left -= 32, s += 128, d += 128) {
            V_LOAD("f0", s, 0);
            V_LOAD("f1", s, 32);
            V_LOAD("f2", s, 64);
            V_LOAD("f3", s, 96);
            four();
            if (store) {
                V_STORE("f0", d, 0);
                V_STORE("f1", d, 32);
                V_STORE("f2", d, 64);
                V_STORE("f3", d, 96);
            }
        }
    }
    const struct et_tensor *src = &l->cmd->src[0], *dst = &l->cmd->dst;
    for (; left > 0; left -= 8, s += 8 * l->src_step, d += 8 * l->dst_step) {
        et_tail(left);
        et_lanes_load(s, l->src_step, src->type);
        one();
        if (store)
            et_lanes_store(d, l->dst_step, dst->type, dst->flags & ET_LINES_OWNED);
    }
    v_all_lanes();
}

// Registers of a row: f20-f23 sums, f24 what is taken from each element, f25 the factor, f26 1/n, f27 eps.

static inline void sum_four(void)
{
    V("fadd.ps f20, f20, f0");
    V("fadd.ps f21, f21, f1");
    V("fadd.ps f22, f22, f2");
    V("fadd.ps f23, f23, f3");
}

static inline void sum_one(void)
{
    V("fadd.ps f20, f20, f0");
}

static inline void squares_four(void)
{
    V("fmadd.ps f20, f0, f0, f20");
    V("fmadd.ps f21, f1, f1, f21");
    V("fmadd.ps f22, f2, f2, f22");
    V("fmadd.ps f23, f3, f3, f23");
}

static inline void squares_one(void)
{
    V("fmadd.ps f20, f0, f0, f20");
}

static inline void deviations_four(void)
{
    V("fsub.ps f0, f0, f24");
    V("fsub.ps f1, f1, f24");
    V("fsub.ps f2, f2, f24");
    V("fsub.ps f3, f3, f24");
    squares_four();
}

static inline void deviations_one(void)
{
    V("fsub.ps f0, f0, f24");
    squares_one();
}

static inline void scale_four(void)
{
    V("fmul.ps f0, f0, f25");
    V("fmul.ps f1, f1, f25");
    V("fmul.ps f2, f2, f25");
    V("fmul.ps f3, f3, f25");
}

static inline void scale_one(void)
{
    V("fmul.ps f0, f0, f25");
}

static inline void standardise_four(void)
{
    V("fsub.ps f0, f0, f24");
    V("fsub.ps f1, f1, f24");
    V("fsub.ps f2, f2, f24");
    V("fsub.ps f3, f3, f24");
    scale_four();
}

static inline void standardise_one(void)
{
    V("fsub.ps f0, f0, f24");
    scale_one();
}

static inline void clear_sums(void)
{
    V_BCAST_BITS("f20", 0);
    V_BCAST_BITS("f21", 0);
    V_BCAST_BITS("f22", 0);
    V_BCAST_BITS("f23", 0);
}

// The sum of the row into every lane of f0.
static inline void total(void)
{
    V("fadd.ps f20, f20, f21");
    V("fadd.ps f22, f22, f23");
    V("fadd.ps f0, f20, f22");
    V_REDUCE("fadd.ps", "f0", "f1");
}

static void norm_row(const struct line *l, uint32_t op)
{
    clear_sums();
    if (op == ET_NORM) {
        over(l, false, sum_four, sum_one);
        total();
        V("fmul.ps f24, f0, f26");
        clear_sums();
        over(l, false, deviations_four, deviations_one);
    } else {
        over(l, false, squares_four, squares_one);
    }
    total();
    if (op == ET_L2_NORM) {
        // 1 / max(length, eps)
        v_rsqrt();
        V("frcp.ps f1, f27");
        V("fmin.ps f25, f0, f1");
    } else {
        V("fmadd.ps f0, f0, f26, f27");
        v_rsqrt();
        V("fsgnj.ps f25, f0, f0");
    }
    if (op == ET_NORM)
        over(l, true, standardise_four, standardise_one);
    else
        over(l, true, scale_four, scale_one);
}

uint32_t et_rms_norm(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *dst = &cmd->dst, *src = &cmd->src[0];
    if (dst->type != ET_F32 || src->type != ET_F32)
        return ET_BAD_TYPE;
    if (cmd->params.norm.op > ET_L2_NORM)
        return ET_BAD_OP;
    struct et_range rows = et_rows(cmd, grid);
    if (rows.begin >= rows.end)
        return ET_OK;
    const bool owned = dst->flags & ET_LINES_OWNED;
    struct line l = {.cmd = cmd, .n = dst->ne[0]};
    l.src_step = l.n == 1 ? 4 : src->nb[0];
    l.dst_step = l.n == 1 ? 4 : dst->nb[0];
    l.dense = l.src_step == 4;
    l.fast = l.dense && l.dst_step == 4 && owned;

    V_BCAST("f0", 1.0f);
    V_BCAST("f1", (float)l.n);
    v_div();
    V("fsgnj.ps f26, f0, f0");
    V_BCAST("f27", cmd->params.norm.eps);
    struct et_index i = et_unflatten(dst, rows.begin);
    for (uint64_t row = rows.begin; row < rows.end; ++row, et_next_row(dst, &i)) {
        l.src = et_row(src, i.i1, i.i2, i.i3);
        l.dst = et_row(dst, i.i1, i.i2, i.i3);
        et_refresh(src, l.src, (l.n - 1) * l.src_step + 4);
        norm_row(&l, cmd->params.norm.op);
        if (owned)
            et_publish(l.dst, (l.n - 1) * l.dst_step + 4);
    }
    return ET_OK;
}
