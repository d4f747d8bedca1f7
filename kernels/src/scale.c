// SCALE: x * scale + bias.
#include "et_elementwise.h"

static inline void scale_lanes(void)
{
    V("fmadd.ps f0, f0, f20, f21");
}

static void scale(const struct et_piece *p)
{
    V_BCAST("f20", p->cmd->params.scale.scale);
    V_BCAST("f21", p->cmd->params.scale.bias);
    et_each1(p, 0, scale_lanes);
}

et_piece_fn *et_scale_piece(const struct et_command *cmd)
{
    (void)cmd;
    return scale;
}

uint32_t et_scale(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_elementwise(cmd, grid);
}
