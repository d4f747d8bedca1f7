// SUM_ROWS: the sum of each row.
#include "et_elementwise.h"

uint32_t et_sum_rows(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *dst = &cmd->dst, *src = &cmd->src[0];
    if (dst->type != ET_F32 || src->type != ET_F32)
        return ET_BAD_TYPE;
    struct et_range rows = et_rows(cmd, grid);
    if (rows.begin >= rows.end)
        return ET_OK;
    const uint32_t n = src->ne[0];
    const uint64_t step = n == 1 ? 4 : src->nb[0];
    struct et_index i = et_unflatten(dst, rows.begin);
    for (uint64_t row = rows.begin; row < rows.end; ++row, et_next_row(dst, &i)) {
        uint64_t s = et_row(src, i.i1, i.i2, i.i3);
        et_refresh(src, s, (n - 1) * step + 4);
        V_BCAST_BITS("f20", 0);
        V_BCAST_BITS("f21", 0);
        V_BCAST_BITS("f22", 0);
        V_BCAST_BITS("f23", 0);
        int64_t left = n;
        for (; step == 4 && left >= 32; left -= 32, s += 128) {
            V_LOAD("f0", s, 0);
            V_LOAD("f1", s, 32);
            V_LOAD("f2", s, 64);
            V_LOAD("f3", s, 96);
            V("fadd.ps f20, f20, f0");
            V("fadd.ps f21, f21, f1");
            V("fadd.ps f22, f22, f2");
            V("fadd.ps f23, f23, f3");
        }
        for (; left > 0; left -= 8, s += 8 * step) {
            et_tail(left);
            et_lanes_load(s, step, ET_F32);
            V("fadd.ps f20, f20, f0");
        }
        v_all_lanes();
        V("fadd.ps f20, f20, f21");
        V("fadd.ps f22, f22, f23");
        V("fadd.ps f0, f20, f22");
        V_REDUCE("fadd.ps", "f0", "f1");
        // Sums of neighbouring rows share a line with other harts' ones.
        v_lanes(1);
        et_lanes_store(et_row(dst, i.i1, i.i2, i.i3), 4, ET_F32, false);
        v_all_lanes();
    }
    return ET_OK;
}
