// CPY, CONT, DUP: the elements of src in order become those of dst in order; the shapes may differ. The host has merged
// the dimensions that adjoin in memory, so that runs are as long as they can be.
#include "et_transfer.h"

// A place in a tensor, as its row and the element there.
struct place {
    const struct et_tensor *tensor;
    const struct et_side *side;
    struct et_index row;
    uint64_t column;
};

static struct place place_at(const struct et_tensor *tensor, const struct et_side *side, uint64_t element)
{
    uint64_t row = element / tensor->ne[0];
    return (struct place){tensor, side, et_unflatten(tensor, row), element - row * tensor->ne[0]};
}

static uint64_t place_addr(const struct place *p)
{
    return et_row(p->tensor, p->row.i1, p->row.i2, p->row.i3) + et_side_offset(p->side, p->column);
}

static void place_advance(struct place *p, uint64_t n)
{
    p->column += n;
    if (p->column == p->tensor->ne[0]) {
        p->column = 0;
        et_next_row(p->tensor, &p->row);
    }
}

uint32_t et_copy(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *dst = &cmd->dst, *src = &cmd->src[0];
    uint64_t total = (uint64_t)dst->ne[0] * dst->ne[1] * dst->ne[2] * dst->ne[3];
    struct et_range part = et_share(total, cmd->params.span.unit, grid->rank, grid->harts);
    if (part.begin >= part.end)
        return ET_OK;
    struct et_transfer t;
    uint32_t code = et_transfer_begin(&t, dst, src);
    if (code != ET_OK)
        return code;
    struct place to = place_at(dst, &t.dst, part.begin), from = place_at(src, &t.src, part.begin);
    for (uint64_t at = part.begin; at < part.end;) {
        uint64_t n = part.end - at;
        if (n > dst->ne[0] - to.column)
            n = dst->ne[0] - to.column;
        if (n > src->ne[0] - from.column)
            n = src->ne[0] - from.column;
        et_transfer_run(&t, place_addr(&to), place_addr(&from), n);
        place_advance(&to, n);
        place_advance(&from, n);
        at += n;
    }
    et_transfer_end(&t);
    return ET_OK;
}
