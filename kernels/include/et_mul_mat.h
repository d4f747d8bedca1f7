// What the MUL_MAT kernels share.
#ifndef ET_MUL_MAT_H
#define ET_MUL_MAT_H

#include "et_kernel.h"

// Quantised weights. Needs lines of 64 elements of all columns of one matrix of src0 in the shire's scratchpad:
// ceil(K / 2048) * columns <= ET_INT8_SLICES.
uint32_t et_mul_mat_int8(const struct et_command *cmd, const struct et_grid *grid);

// One product of a call, and the ADD of the group that it goes into, or 0.
struct et_product {
    const struct et_command *cmd;
    const struct et_command *add;
};

// The next product of a group.
static inline struct et_product et_next_product(const struct et_command **at, const struct et_command *end)
{
    struct et_product p = {(*at)++, 0};
    if (*at != end && (*at)->kernel == ET_KERNEL_BINARY)
        p.add = (*at)++;
    return p;
}

// What a product's ADD adds to it: a tensor of its shape and strides, or one row for all of its rows.
static inline const struct et_tensor *et_added(const struct et_product *p)
{
    return &p->add->src[p->add->src[0].addr == p->cmd->dst.addr];
}

static inline bool et_is_row(const struct et_tensor *added, const struct et_tensor *dst)
{
    return (uint64_t)added->ne[0] * added->ne[1] * added->ne[2] * added->ne[3] == dst->ne[0];
}

// The place in `t`, which has dst's strides (and perhaps fewer dimensions that adjoin), that `at` is in dst.
static inline uint64_t et_beside(const struct et_tensor *t, const struct et_tensor *dst, uint64_t at)
{
    return t->addr + (at - dst->addr);
}

#endif
