// SET_ROWS: row (i1, i2, i3) of src0 becomes row src1[i1, i2 mod ., i3 mod .] of matrix (i2, i3) of dst; the other rows
// of dst stay. An index that occurs twice leaves either row, line by line.
#include "et_transfer.h"

bool et_set_rows_place(const struct et_command *cmd, struct et_index i, uint64_t *to, uint64_t *from)
{
    const struct et_tensor *dst = &cmd->dst, *rows = &cmd->src[1];
    bool wide = rows->type == ET_I64;
    uint64_t where =
        rows->addr + i.i1 * rows->nb[0] + i.i2 % rows->ne[1] * rows->nb[1] + i.i3 % rows->ne[2] * rows->nb[2];
    et_refresh(rows, where, wide ? 8 : 4);
    uint64_t row = wide ? *ET_PTR(const uint64_t, where) : *ET_PTR(const uint32_t, where);
    *to = et_row(dst, (uint32_t)row, i.i2, i.i3);
    *from = et_row(&cmd->src[0], i.i1, i.i2, i.i3);
    return row < dst->ne[1];
}

uint32_t et_set_rows(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_transfer_rows(cmd, grid, &cmd->src[0], et_set_rows_place);
}
