// The parts of the MUL_MAT kernel for few columns.
#ifndef ET_MUL_MAT_H
#define ET_MUL_MAT_H

#include "et_kernel.h"

// Quantised weights. Needs lines of 64 elements of all columns of one matrix of src0 in the shire's scratchpad:
// ceil(K / 2048) * columns <= ET_INT8_SLICES.
uint32_t et_mul_mat_int8(const struct et_command *cmd, const struct et_grid *grid);

#endif
