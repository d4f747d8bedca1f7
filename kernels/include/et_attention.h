// What SOFT_MAX and FLASH_ATTN share. Logits are kept in units of ln 2, so that weights are plain powers of two, one
// instruction; log2(e) goes into factors that are there anyway.
#ifndef ET_ATTENTION_H
#define ET_ATTENTION_H

#include "et_math.h"

// The ALiBi slope of a head, times log2(e), in every lane of `f`.
#define V_ALIBI_SLOPE(f, alibi, head)                                                                                  \
    do {                                                                                                               \
        uint32_t head_ = (head), heads_ = (alibi)->heads;                                                              \
        float log2_slope_ = (alibi)->log2_slope;                                                                       \
        float power_ = head_ < heads_ ? (float)(head_ + 1) : (float)(head_ - heads_) + 0.5f;                           \
        V_BCAST(f, log2_slope_ *power_ + 0.528766373f); /* log2(log2(e)) */                                            \
        V("fexp.ps " f ", " f);                                                                                        \
    } while (0)

#endif
