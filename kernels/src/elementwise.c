// Division of elementwise work and access to elements of any type and stride.
#include "et_elementwise.h"
#include "et_f16.h"

// Lines of dst in the smallest piece: with fewer, a hart's way into the work takes longer than the work.
#define PART_LINES 4u

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

// Index of a repeated dimension. Most are equal or 1, and a remainder takes long.
static inline uint32_t repeat(uint32_t i, uint32_t ne)
{
    return i < ne ? i : ne == 1 ? 0 : i % ne;
}

// Start of the row of `t` that belongs to row `i` of dst.
static uint64_t row_start(const struct et_tensor *t, struct et_index i)
{
    return et_row(t, repeat(i.i1, t->ne[1]), repeat(i.i2, t->ne[2]), repeat(i.i3, t->ne[3]));
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

void et_elementwise(const struct et_command *cmd, const struct et_grid *grid, et_piece_fn *fn)
{
    const struct et_tensor *d = &cmd->dst;
    const bool owned = d->flags & ET_LINES_OWNED, second = cmd->sources > 1;
    const uint32_t width = d->ne[0], size = element_size(d);
    const uint64_t rows = (uint64_t)d->ne[1] * d->ne[2] * d->ne[3];
    // Fewer rows than harts: rows are cut at line boundaries, which need rows that start at one.
    uint32_t parts = 1, length = width;
    if (rows < grid->harts && (rows == 1 || cmd->row_unit == 1)) {
        uint32_t wanted = (uint32_t)((grid->harts + rows - 1) / rows);
        uint32_t unit = PART_LINES * ET_LINE / size;
        length = ((width - 1) / wanted / unit + 1) * unit;
        parts = (width - 1) / length + 1;
    }
    struct et_range range = et_share(rows * parts, parts == 1 ? cmd->row_unit : 1, grid->rank, grid->harts);
    if (range.begin >= range.end)
        return;

    struct et_piece p = {.cmd = cmd, .dst_step = width == 1 ? size : d->nb[0]};
    p.fast = owned && d->type == ET_F32 && p.dst_step == 4;
    bool stale = false;
    for (uint32_t s = 0; s < cmd->sources; ++s) {
        const struct et_tensor *t = &cmd->src[s];
        p.src_step[s] = step_of(t, width);
        p.fast = p.fast && t->type == ET_F32 && (p.src_step[s] == 4 || (s == 1 && p.src_step[s] == 0));
        stale = stale || (t->flags & ET_REFRESH);
    }
    // A second source shorter than the row, but longer than one element, starts again after this many.
    const uint32_t period = second && cmd->src[1].ne[0] != 1 && cmd->src[1].ne[0] != width ? cmd->src[1].ne[0] : 0;

    struct written written = {0, 0};
    uint64_t fresh[2] = {0, 0};
    uint64_t row = range.begin / parts;
    uint32_t part = (uint32_t)(range.begin - row * parts);
    struct et_index i = et_unflatten(d, row);
    uint64_t to = row_start(d, i), a = row_start(&cmd->src[0], i), b = second ? row_start(&cmd->src[1], i) : 0;
    for (uint64_t left = range.end - range.begin; left; --left) {
        uint32_t begin = part * length;
        p.n = width - begin < length ? width - begin : length;
        p.dst = to + begin * p.dst_step;
        p.src[0] = a + begin * p.src_step[0];
        p.src[1] = period ? b : b + begin * p.src_step[1];
        if (stale)
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
