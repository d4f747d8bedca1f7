// SET_ROWS: row (i1, i2, i3) of src0 becomes row src1[i1, i2 mod ., i3 mod .] of matrix (i2, i3) of dst; the other rows
// of dst stay. An index that occurs twice leaves either row, line by line.
#include "et_transfer.h"

uint32_t et_set_rows(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *dst = &cmd->dst, *src = &cmd->src[0], *rows = &cmd->src[1];
    uint64_t width = src->ne[0], total = width * src->ne[1] * src->ne[2] * src->ne[3];
    struct et_range part = et_share(total, cmd->params.span.unit, grid->rank, grid->harts);
    if (part.begin >= part.end)
        return ET_OK;
    struct et_transfer t;
    uint32_t code = et_transfer_begin(&t, dst, src);
    if (code != ET_OK)
        return code;
    bool wide = rows->type == ET_I64;
    uint64_t row = part.begin / width, column = part.begin - row * width;
    struct et_index i = et_unflatten(src, row);
    for (uint64_t at = part.begin; at < part.end;) {
        uint64_t n = width - column;
        if (n > part.end - at)
            n = part.end - at;
        uint64_t where =
            rows->addr + i.i1 * rows->nb[0] + i.i2 % rows->ne[1] * rows->nb[1] + i.i3 % rows->ne[2] * rows->nb[2];
        et_refresh(rows, where, wide ? 8 : 4);
        uint64_t to = wide ? *ET_PTR(const uint64_t, where) : *ET_PTR(const uint32_t, where);
        if (to < dst->ne[1])
            et_transfer_run(&t, et_row(dst, (uint32_t)to, i.i2, i.i3) + et_side_offset(&t.dst, column),
                            et_row(src, i.i1, i.i2, i.i3) + et_side_offset(&t.src, column), n);
        else
            code = ET_BAD_INDEX;
        at += n;
        column = 0;
        et_next_row(src, &i);
    }
    et_transfer_end(&t);
    return code;
}
