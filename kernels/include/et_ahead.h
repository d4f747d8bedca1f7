// What the loop brings to L2 before kernels need it: none of it changes during a launch, so nobody has to drop it.
#ifndef ET_AHEAD_H
#define ET_AHEAD_H

#include "et_kernel.h"

// How far a hart has got in the command list. Harts 1 do all of it, since they have less to do.
struct et_ahead {
    const struct et_command *lines; // the first command whose lines have not been fetched
    const struct et_command *next;  // the first whose weights have not
    const struct et_command *end;
    uint32_t products; // matrix products before `next` that have not been run
};

// The launch begins: fetches the image and the list's beginning.
void et_ahead_begin(struct et_ahead *ahead, const struct et_launch *launch, const struct et_grid *grid);

// `cmd` and its group have been run.
void et_ahead_done(struct et_ahead *ahead, const struct et_command *cmd, const struct et_grid *grid);

#endif
