// CLAMP: max(min(x, max), min); a NaN becomes max.
#include "et_elementwise.h"

static inline void clamp_lanes(void)
{
    V("fmin.ps f0, f0, f20");
    V("fmax.ps f0, f0, f21");
}

static void clamp(const struct et_piece *p)
{
    V_BCAST("f20", p->cmd->params.clamp.max);
    V_BCAST("f21", p->cmd->params.clamp.min);
    et_each1(p, 0, clamp_lanes);
}

et_piece_fn *et_clamp_piece(const struct et_command *cmd)
{
    (void)cmd;
    return clamp;
}

uint32_t et_clamp(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_elementwise(cmd, grid);
}
