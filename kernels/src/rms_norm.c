// RMS_NORM, NORM and L2_NORM: rows divided by their root mean square, deviation or length.
//
// In a group, a sum may come before (the row is its result) and up to two operations on the result after. They are done
// a few lines at a time beside the norm's first and last pass. Where rows are few, several minions share one: each
// takes a run of lines, and the tensor unit adds up their sums, in an order that depends on the row's length and number
// only.
#include "et_elementwise.h"
#include "et_math.h"
#include "et_tensor_unit.h"

// A row of the source and of dst, or a part of one.
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
        for (; left >= 8; left -= 8, s += 32, d += 32) {
            V_LOAD("f0", s, 0);
            one();
            if (store)
                V_STORE("f0", d, 0);
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

// The sum of the row into every lane of f0. 2^levels minions share the row.
static void total(uint32_t levels)
{
    V("fadd.ps f20, f20, f21");
    V("fadd.ps f22, f22, f23");
    V("fadd.ps f0, f20, f22");
    if (levels) {
        for (uint32_t level = 0; level < levels; ++level)
            t_up(T_ADD, 0, 1, level);
        for (uint32_t level = levels; level; --level)
            t_down(0, 1, level - 1);
        T_WAIT(T_EVENT_REDUCE);
    }
    V_REDUCE("fadd.ps", "f0", "f1");
}

// A hart's work: a row, or a part of one, with what the group does beside it.
struct job {
    struct line line;
    uint32_t levels; // 2^levels minions share a row
    uint32_t members;
    uint32_t norm; // which of them is the norm
    struct et_piece pieces[ET_CHAIN_MAX];
    et_piece_fn *fn[ET_CHAIN_MAX];
};

// A pass with members `from` to `to` done before or, for the last pass, behind each step of it.
static inline __attribute__((always_inline)) void pass(const struct job *j, uint32_t from, uint32_t to, bool store,
                                                       void (*four)(void), void (*one)(void))
{
    if (from == to) {
        over(&j->line, store, four, one);
        return;
    }
    struct line l = j->line;
    struct et_piece pieces[2] = {j->pieces[from], j->pieces[to - 1]};
    for (uint32_t left = l.n; left; left -= l.n) {
        l.n = left < ET_CHAIN_STEP ? left : ET_CHAIN_STEP;
        if (store)
            over(&l, true, four, one);
        for (uint32_t m = from; m < to; ++m) {
            pieces[m - from].n = l.n;
            j->fn[m](&pieces[m - from]);
            et_piece_advance(&pieces[m - from], l.n);
        }
        if (!store)
            over(&l, false, four, one);
        l.src += l.n * 4;
        l.dst += l.n * 4;
    }
}

static void norm_row(const struct job *j, uint32_t op)
{
    clear_sums();
    if (op == ET_NORM) {
        pass(j, 0, j->norm, false, sum_four, sum_one);
        total(j->levels);
        V("fmul.ps f24, f0, f26");
        clear_sums();
        over(&j->line, false, deviations_four, deviations_one);
    } else {
        pass(j, 0, j->norm, false, squares_four, squares_one);
    }
    total(j->levels);
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
        pass(j, j->norm + 1, j->members, true, standardise_four, standardise_one);
    else
        pass(j, j->norm + 1, j->members, true, scale_four, scale_one);
}

// log2 of the minions that share a row: as many as give each at least two lines, and no more than there are.
static uint32_t sharing(const struct et_command *cmd, const struct et_grid *grid, uint64_t rows, uint32_t lines)
{
    uint32_t levels = 0;
    if (cmd->row_unit == 1 || rows == 1)
        while (levels < 5 && lines >> levels >= 4 && rows << (levels + 1) <= grid->minions)
            ++levels;
    return levels;
}

// Element `begin` of row `row`, whose index is `i`, for an operand of a member, which may have all rows in one.
static inline uint64_t place(const struct et_tensor *t, uint32_t n, uint64_t row, struct et_index i, uint32_t begin)
{
    if (t->ne[0] > n)
        return t->addr + (row * n + begin) * 4;
    uint64_t start = et_row(t, et_repeat(i.i1, t->ne[1]), et_repeat(i.i2, t->ne[2]), et_repeat(i.i3, t->ne[3]));
    return start + (t->ne[0] == 1 ? 0 : begin * t->nb[0]);
}

// Elements `begin` to `end` of row `row`.
static void run(struct job *j, uint64_t row, uint32_t begin, uint32_t end)
{
    struct line *l = &j->line;
    const struct et_tensor *dst = &l->cmd->dst, *src = &l->cmd->src[0];
    struct et_index i = {0, 0, 0};
    if (row)
        i = et_unflatten(dst, row);
    uint32_t n = end - begin;
    for (uint32_t m = 0; m < j->members; ++m) {
        struct et_piece *p = &j->pieces[m];
        p->dst = place(&p->cmd->dst, dst->ne[0], row, i, begin);
        for (uint32_t s = 0; s < p->cmd->sources; ++s)
            p->src[s] = place(&p->cmd->src[s], dst->ne[0], row, i, begin);
    }
    l->n = n;
    l->src = j->pieces[j->norm].src[0];
    l->dst = j->pieces[j->norm].dst;
    if (l->dense)
        et_pieces_fetch(j->pieces, j->members, n);
    else
        et_refresh(src, l->src, (n - 1) * l->src_step + 4);
    norm_row(j, l->cmd->params.norm.op);
    if (!(dst->flags & ET_LINES_OWNED))
        return;
    et_fence();
    for (uint32_t m = 0; m < j->members; ++m)
        if (m + 1 == j->members || j->pieces[m].dst != j->pieces[m + 1].dst)
            et_evict(j->pieces[m].dst, (n - 1) * l->dst_step + 4, 2);
    et_wait_cache();
}

uint32_t et_rms_norm(const struct et_command *cmd, const struct et_grid *grid)
{
    struct job j;
    j.members = et_members(cmd);
    j.norm = cmd->kernel == ET_KERNEL_BINARY;
    const struct et_command *norm = cmd + j.norm;
    const struct et_tensor *dst = &norm->dst, *src = &norm->src[0];
    if (dst->type != ET_F32 || src->type != ET_F32)
        return ET_BAD_TYPE;
    if (norm->params.norm.op > ET_L2_NORM || j.members > j.norm + 3)
        return ET_BAD_OP;
    struct line *l = &j.line;
    const uint32_t n = dst->ne[0];
    l->cmd = norm;
    l->src_step = n == 1 ? 4 : src->nb[0];
    l->dst_step = n == 1 ? 4 : dst->nb[0];
    l->dense = l->src_step == 4;
    l->fast = l->dense && l->dst_step == 4 && dst->flags & ET_LINES_OWNED;

    uint64_t rows = (uint64_t)dst->ne[1] * dst->ne[2] * dst->ne[3];
    uint32_t lines = (n + 15) / 16;
    j.levels = l->fast ? sharing(norm, grid, rows, lines) : 0;
    struct et_range mine;
    if (j.levels) {
        uint64_t row = grid->minion >> j.levels;
        mine = (struct et_range){row, row < rows && grid->thread == 0 ? row + 1 : row};
    } else {
        mine = et_rows(norm, grid);
    }
    if (mine.begin >= mine.end)
        return ET_OK;
    for (uint32_t m = 0; m < j.members; ++m) {
        j.pieces[m] = et_piece_in(&cmd[m], n);
        j.fn[m] = et_piece_of(&cmd[m]);
        if (m != j.norm && !(l->fast && j.fn[m] && j.pieces[m].fast))
            return ET_BAD_OP;
    }
    V_BCAST("f0", 1.0f);
    V_BCAST("f1", (float)n);
    v_div();
    V("fsgnj.ps f26, f0, f0");
    V_BCAST("f27", norm->params.norm.eps);
    uint32_t part = grid->minion & ((1u << j.levels) - 1), begin = j.levels ? (lines * part >> j.levels) * 16 : 0;
    uint32_t end = j.levels ? (lines * (part + 1) >> j.levels) * 16 : n;
    for (uint64_t row = mine.begin; row < mine.end; ++row)
        run(&j, row, begin, end < n ? end : n);
    return ET_OK;
}
