// What the MUL_MAT kernels share.
#ifndef ET_MUL_MAT_H
#define ET_MUL_MAT_H

#include "et_kernel.h"

// Quantised weights. Needs lines of 64 elements of all columns of one matrix of src0 in the shire's scratchpad:
// ceil(K / 2048) * columns <= ET_INT8_SLICES.
uint32_t et_mul_mat_int8(const struct et_command *cmd, const struct et_grid *grid);

// An ADD of a group adds this to the product before it: a tensor of the product's shape, or one that is repeated in the
// dimensions where it has one element.
static inline const struct et_tensor *et_added(const struct et_command *add, const struct et_tensor *product)
{
    return &add->src[add->src[0].addr == product->addr];
}

static inline uint64_t et_added_row(const struct et_tensor *t, uint32_t i1, uint32_t i2, uint32_t i3)
{
    return et_row(t, t->ne[1] > 1 ? i1 : 0, t->ne[2] > 1 ? i2 : 0, t->ne[3] > 1 ? i3 : 0);
}

#endif
