// Division of elementwise work and access to elements of any type and stride.
#include "et_elementwise.h"
#include "et_f16.h"

// Lines of dst in the smallest piece: with fewer, a hart's way into the work takes longer than the work.
#define PART_LINES 4u

// What is fetched ahead of an operand at most: 64 harts share an L2 of 512 KiB.
#define AHEAD_BYTES 2048u

static inline uint32_t element_size(const struct et_tensor *t)
{
    return t->type == ET_F32 ? 4 : 2;
}

// Bytes from element to element in a row of `t`, which serves a row of dst with `n` elements.
static inline uint64_t step_of(const struct et_tensor *t, uint32_t n)
{
    if (t->ne[0] == 1)
        return n == 1 ? element_size(t) : 0;
    return t->nb[0];
}

// Start of the row of `t` that belongs to row `i` of dst.
static uint64_t row_start(const struct et_tensor *t, struct et_index i)
{
    return et_row(t, et_repeat(i.i1, t->ne[1]), et_repeat(i.i2, t->ne[2]), et_repeat(i.i3, t->ne[3]));
}

// The same from the start of the row before, which is mostly a neighbour or the same.
static uint64_t next_row_start(const struct et_tensor *t, struct et_index i, uint64_t before)
{
    if (i.i1 && i.i1 < t->ne[1])
        return before + t->nb[1];
    return i.i1 && t->ne[1] == 1 ? before : row_start(t, i);
}

// dst's bytes that are written but not published yet.
struct written {
    uint64_t begin;
    uint64_t end;
};

static void note_written(struct written *w, uint64_t addr, uint64_t bytes)
{
    if (addr != w->end) {
        et_publish(w->begin, w->end - w->begin);
        w->begin = addr;
    }
    w->end = addr + bytes;
}

// Refreshes what `p` reads, unless the piece before read the same. A second source with a `period` is read whole.
static void refresh_sources(const struct et_piece *p, uint64_t *fresh, uint32_t period)
{
    for (uint32_t s = 0; s < p->cmd->sources; ++s) {
        const struct et_tensor *t = &p->cmd->src[s];
        uint32_t count = s == 1 && period ? period : p->n;
        if (p->src[s] != fresh[s])
            et_refresh(t, p->src[s], (count - 1) * p->src_step[s] + element_size(t));
        fresh[s] = p->src[s];
    }
}

// A piece whose second source, given from its start, ends after `period` elements and starts again. `begin` is the
// piece's place in the row.
static void run_periods(struct et_piece p, uint32_t begin, uint32_t period, et_piece_fn *fn)
{
    const uint64_t start = p.src[1];
    uint32_t at = begin % period;
    for (uint32_t left = p.n; left; left -= p.n) {
        p.n = left < period - at ? left : period - at;
        p.src[1] = start + at * p.src_step[1];
        fn(&p);
        p.dst += p.n * p.dst_step;
        p.src[0] += p.n * p.src_step[0];
        at = 0;
    }
}

et_piece_fn *et_piece_of(const struct et_command *cmd)
{
    switch (cmd->kernel) {
    case ET_KERNEL_BINARY:
        return et_binary_piece(cmd);
    case ET_KERNEL_UNARY:
        return et_unary_piece(cmd);
    case ET_KERNEL_GLU:
        return et_glu_piece(cmd);
    case ET_KERNEL_SCALE:
        return et_scale_piece(cmd);
    case ET_KERNEL_CLAMP:
        return et_clamp_piece(cmd);
    default:
        return 0;
    }
}

struct et_piece et_piece_in(const struct et_command *cmd, uint32_t width)
{
    const struct et_tensor *d = &cmd->dst;
    struct et_piece p = {.cmd = cmd, .dst_step = width == 1 ? element_size(d) : d->nb[0]};
    p.fast = d->flags & ET_LINES_OWNED && d->type == ET_F32 && p.dst_step == 4;
    for (uint32_t s = 0; s < cmd->sources; ++s) {
        const struct et_tensor *t = &cmd->src[s];
        p.src_step[s] = step_of(t, width);
        p.fast = p.fast && t->type == ET_F32 && (p.src_step[s] == 4 || (s == 1 && p.src_step[s] == 0));
    }
    return p;
}

void et_piece_at(struct et_piece *p, struct et_index i, uint32_t begin)
{
    p->dst = row_start(&p->cmd->dst, i) + begin * p->dst_step;
    for (uint32_t s = 0; s < p->cmd->sources; ++s)
        p->src[s] = row_start(&p->cmd->src[s], i) + begin * p->src_step[s];
}

// Whether an earlier one of these pieces writes what piece `m` reads.
static bool made_here(const struct et_piece *pieces, uint32_t m, uint64_t src)
{
    while (m)
        if (pieces[--m].dst == src)
            return true;
    return false;
}

void et_pieces_fetch(const struct et_piece *pieces, uint32_t members, uint32_t n)
{
    bool stale = false;
    for (uint32_t pass = 0; pass < 2; ++pass) {
        for (uint32_t m = 0; m < members; ++m) {
            const struct et_piece *p = &pieces[m];
            for (uint32_t s = 0; s < p->cmd->sources; ++s) {
                const struct et_tensor *t = &p->cmd->src[s];
                uint64_t bytes = (n - 1) * p->src_step[s] + 4;
                if (made_here(pieces, m, p->src[s]))
                    continue;
                // What the host has written can come before the rest is refreshed.
                if (pass == 0 && et_start_refresh(t, p->src[s], bytes))
                    stale = true;
                else if (pass == (t->flags & ET_REFRESH ? 1u : 0u))
                    et_prefetch(p->src[s], bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES, 1);
            }
        }
        if (!stale)
            return;
        if (pass == 0)
            et_wait_cache();
    }
}

// How rows are dealt: in `parts` of `length` elements, of which `range` are this hart's.
struct division {
    uint32_t parts;
    uint32_t length;
    struct et_range range;
};

static struct division divide(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *d = &cmd->dst;
    uint32_t width = d->ne[0];
    uint64_t rows = (uint64_t)d->ne[1] * d->ne[2] * d->ne[3];
    struct division work = {1, width, {0, 0}};
    // Fewer rows than harts: rows are cut at line boundaries, which need rows that start at one.
    if (rows < grid->harts && (rows == 1 || cmd->row_unit == 1)) {
        uint32_t wanted = (uint32_t)((grid->harts + rows - 1) / rows);
        uint32_t unit = PART_LINES * ET_LINE / element_size(d);
        work.length = ((width - 1) / wanted / unit + 1) * unit;
        work.parts = (width - 1) / work.length + 1;
    }
    work.range = et_share(rows * work.parts, work.parts == 1 ? cmd->row_unit : 1, grid->rank, grid->harts);
    return work;
}

static void one(const struct et_command *cmd, struct division work, et_piece_fn *fn)
{
    const struct et_tensor *d = &cmd->dst;
    const bool owned = d->flags & ET_LINES_OWNED, second = cmd->sources > 1;
    const uint32_t width = d->ne[0], size = element_size(d), parts = work.parts, length = work.length;
    struct et_piece p = et_piece_in(cmd, width);
    bool stale = false;
    for (uint32_t s = 0; s < cmd->sources; ++s)
        stale = stale || (cmd->src[s].flags & ET_REFRESH);
    // A second source shorter than the row, but longer than one element, starts again after this many.
    const uint32_t period = second && cmd->src[1].ne[0] != 1 && cmd->src[1].ne[0] != width ? cmd->src[1].ne[0] : 0;

    struct written written = {0, 0};
    uint64_t fresh[2] = {0, 0};
    uint64_t row = work.range.begin / parts;
    uint32_t part = (uint32_t)(work.range.begin - row * parts);
    struct et_index i = et_unflatten(d, row);
    uint64_t to = row_start(d, i), a = row_start(&cmd->src[0], i), b = second ? row_start(&cmd->src[1], i) : 0;
    for (uint64_t left = work.range.end - work.range.begin; left; --left) {
        uint32_t begin = part * length;
        p.n = width - begin < length ? width - begin : length;
        p.dst = to + begin * p.dst_step;
        p.src[0] = a + begin * p.src_step[0];
        p.src[1] = period ? b : b + begin * p.src_step[1];
        if (p.fast && !period)
            et_pieces_fetch(&p, 1, p.n);
        else if (stale)
            refresh_sources(&p, fresh, period);
        if (owned)
            note_written(&written, p.dst, (p.n - 1) * p.dst_step + size);
        if (period)
            run_periods(p, begin, period, fn);
        else
            fn(&p);
        if (++part < parts)
            continue;
        part = 0;
        et_next_row(d, &i);
        to = next_row_start(d, i, to);
        a = next_row_start(&cmd->src[0], i, a);
        if (second)
            b = next_row_start(&cmd->src[1], i, b);
    }
    et_publish(written.begin, written.end - written.begin);
}

// The members of a group, a step at a time.
static uint32_t chain(const struct et_command *cmd, struct division work, uint32_t members)
{
    struct et_piece pieces[ET_CHAIN_MAX];
    struct written written[ET_CHAIN_MAX];
    et_piece_fn *fn[ET_CHAIN_MAX];
    for (uint32_t m = 0; m < members; ++m) {
        pieces[m] = et_piece_in(&cmd[m], cmd->dst.ne[0]);
        written[m] = (struct written){0, 0};
        fn[m] = et_piece_of(&cmd[m]);
        if (!fn[m] || !pieces[m].fast)
            return ET_BAD_OP;
    }
    uint64_t row = work.range.begin / work.parts;
    uint32_t part = (uint32_t)(work.range.begin - row * work.parts);
    struct et_index i = et_unflatten(&cmd->dst, row);
    for (uint64_t piece = work.range.begin; piece < work.range.end; ++piece) {
        uint32_t begin = part * work.length, n = cmd->dst.ne[0] - begin;
        if (n > work.length)
            n = work.length;
        for (uint32_t m = 0; m < members; ++m)
            et_piece_at(&pieces[m], i, begin);
        et_pieces_fetch(pieces, members, n);
        for (uint32_t m = 0; m < members; ++m)
            if (m + 1 == members || pieces[m].dst != pieces[m + 1].dst)
                note_written(&written[m], pieces[m].dst, n * 4);
        for (uint32_t step; n; n -= step) {
            step = n < ET_CHAIN_STEP ? n : ET_CHAIN_STEP;
            for (uint32_t m = 0; m < members; ++m) {
                pieces[m].n = step;
                fn[m](&pieces[m]);
                et_piece_advance(&pieces[m], step);
            }
        }
        if (++part == work.parts) {
            part = 0;
            et_next_row(&cmd->dst, &i);
        }
    }
    et_fence();
    for (uint32_t m = 0; m < members; ++m)
        et_evict(written[m].begin, written[m].end - written[m].begin, 2);
    et_wait_cache();
    return ET_OK;
}

uint32_t et_elementwise(const struct et_command *cmd, const struct et_grid *grid)
{
    uint32_t members = et_members(cmd);
    for (uint32_t s = 0; s < cmd->sources; ++s)
        if (!et_is_float(&cmd->src[s]))
            return ET_BAD_TYPE;
    if (!et_is_float(&cmd->dst))
        return ET_BAD_TYPE;
    et_piece_fn *fn = et_piece_of(cmd);
    if (!fn || members > ET_CHAIN_MAX)
        return ET_BAD_OP;
    struct division work = divide(cmd, grid);
    if (work.range.begin >= work.range.end)
        return ET_OK;
    if (members > 1)
        return chain(cmd, work, members);
    one(cmd, work, fn);
    return ET_OK;
}

// Byte offsets of 8 elements into `f`.
static inline void lane_offsets(uint64_t step)
{
    static const uint32_t lanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    V_LOAD("f31", lanes, 0);
    V_BCAST_BITS("f30", (uint32_t)step);
    V("fmul.pi f31, f31, f30");
}

// 8 halves from `addr` on lie in one 32-byte block.
static inline bool one_block(uint64_t addr, uint64_t step)
{
    return step == 2 && (addr & 31) <= 16;
}

void et_lanes_load(uint64_t addr, uint64_t step, uint32_t type)
{
    if (type == ET_F32) {
        if (step == 4) {
            V_LOAD("f0", addr, 0);
        } else if (step == 0) {
            V_LOAD_BCAST("f0", addr, 0);
        } else {
            lane_offsets(step);
            V_GATHER("fgw.ps", "f0", "f31", addr);
        }
        return;
    }
    if (one_block(addr, step)) {
        V_LOAD_HALVES("f0", addr, V_HALVES_IN_ORDER);
    } else {
        lane_offsets(step);
        V_GATHER("fgh.ps", "f0", "f31", addr);
    }
    if (type == ET_BF16) {
        V_BF16_TO_F32("f0");
    } else {
        V_F16_UNIT("f30");
        V_F16_TO_F32("f0", "f31", "f30");
    }
}

void et_lanes_store(uint64_t addr, uint64_t step, uint32_t type, bool owned)
{
    if (type == ET_F32) {
        if (owned && step == 4) {
            V_STORE("f0", addr, 0);
            return;
        }
        lane_offsets(step);
        if (owned)
            V_GATHER("fscw.ps", "f0", "f31", addr);
        else
            V_GATHER("fscwg.ps", "f0", "f31", addr);
        return;
    }
    if (type == ET_BF16) {
        V_BF16_ROUND("f30");
        V_BF16_QUIET("f29");
        V_F32_TO_BF16("f0", "f31", "f28", "f30", "f29");
    } else {
        V_F16_HALF("f30");
        V_F32_TO_F16("f0", "f31", "f28", "f30");
    }
    if (owned && one_block(addr, step)) {
        __asm__ volatile("fsc32h.ps f0, %1(%0)" ::"r"(addr), "r"(V_HALVES_IN_ORDER) : "memory");
        return;
    }
    lane_offsets(step);
    if (owned)
        V_GATHER("fsch.ps", "f0", "f31", addr);
    else
        V_GATHER("fschg.ps", "f0", "f31", addr);
}
