// GET_ROWS: row (i1, i2, i3) of dst is row src1[i1, i2, i3] of matrix (i2, i3) of src0, as F32 (I32 stays I32).
#include "et_transfer.h"

static bool place(const struct et_command *cmd, struct et_index i, uint64_t *to, uint64_t *from)
{
    const struct et_tensor *src = &cmd->src[0], *rows = &cmd->src[1];
    uint64_t where = rows->addr + i.i1 * rows->nb[0] + i.i2 * rows->nb[1] + i.i3 * rows->nb[2];
    et_refresh(rows, where, 4);
    uint32_t row = *ET_PTR(const uint32_t, where);
    *to = et_row(&cmd->dst, i.i1, i.i2, i.i3);
    *from = et_row(src, row, i.i2, i.i3);
    return row < src->ne[1];
}

uint32_t et_get_rows(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_transfer_rows(cmd, grid, &cmd->dst, place);
}
