// Weights to F32: pieces of 64 elements of up to 16 rows, as the matrix kernel stages them.
//
// A staged row is 64 floats = 8 vectors. Elements leave in the order in which they are cheapest to extract; which
// element of the piece the position 8*v + e (vector v, lane e) holds is the type's `et_order`. Rows beyond `rows` and
// positions beyond the end of the weights hold anything.
#ifndef ET_DEQUANT_H
#define ET_DEQUANT_H

#include "et_f16.h"

#define PIECE       64u  // elements of a row
#define PIECE_PITCH 256u // bytes between staged rows

// Position p = 8*v + e of a staged row, cut into `run` positions each: the runs of 16 positions (one line) `q` start at
// the elements that `et_order_start` gives and step by `step` elements.
struct et_order {
    uint32_t run;
    uint32_t step;
};

static inline struct et_order et_order(uint32_t type)
{
    switch (type) {
    case ET_F32:
        return (struct et_order){16, 1};
    case ET_F16:
    case ET_BF16:
        return (struct et_order){8, 2};
    case ET_Q8_0:
        return (struct et_order){8, 4};
    default:
        return (struct et_order){4, 4}; // Q4_0, Q4_1
    }
}

// First element of run `i` of line `q`.
static inline uint32_t et_order_start(uint32_t type, uint32_t q, uint32_t i)
{
    switch (type) {
    case ET_F32:
        return 16 * q;
    case ET_F16:
    case ET_BF16:
        return 16 * q + i;
    case ET_Q8_0:
        return 32 * (q >> 1) + 2 * (q & 1) + i;
    default:
        return 32 * (i & 1) + 16 * (i >> 1) + q;
    }
}

static inline void piece_f32(uint64_t src, uint64_t out, uint32_t n)
{
    for (; n >= 16; n -= 16, src += 64, out += 64) {
        V_LOAD("f0", src, 0);
        V_LOAD("f1", src, 32);
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
    }
    for (; n; src += 32, out += 32) {
        uint32_t lanes = n < 8 ? n : 8;
        v_lanes(lanes);
        V_LOAD("f0", src, 0);
        V_STORE("f0", out, 0);
        n -= lanes;
    }
    v_all_lanes();
}

// Words of two halves: the even elements in one vector, the odd ones in the next. f9 holds V_F16_UNIT.
static inline void piece_f16(uint64_t src, uint64_t out, uint32_t n)
{
    for (uint32_t words = (n + 1) / 2; words; src += 32, out += 64) {
        uint32_t lanes = words < 8 ? words : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_LOAD("f0", src, 0);
        V("fsrli.pi f1, f0, 16");
        V_F16_TO_F32("f0", "f2", "f9");
        V_F16_TO_F32("f1", "f3", "f9");
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
        words -= lanes;
    }
    v_all_lanes();
}

// f9 holds 0xFFFF0000.
static inline void piece_bf16(uint64_t src, uint64_t out, uint32_t n)
{
    for (uint32_t words = (n + 1) / 2; words; src += 32, out += 64) {
        uint32_t lanes = words < 8 ? words : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_LOAD("f0", src, 0);
        V("fslli.pi f1, f0, 16");
        V("fand.pi f0, f0, f9");
        V_STORE("f1", out, 0);
        V_STORE("f0", out, 32);
        words -= lanes;
    }
    v_all_lanes();
}

// One block of 32 bytes at `src`, scaled by the F32 at `scale`; vector r holds byte r of each word.
static inline void block_q8_0(uint64_t src, uint64_t scale, uint64_t out)
{
    V_LOAD("f0", src, 0);
    V_LOAD_BCAST("f8", scale, 0);
    V("fslli.pi f1, f0, 24");
    V("fslli.pi f2, f0, 16");
    V("fslli.pi f3, f0, 8");
    V("fsrai.pi f4, f0, 24");
    V("fsrai.pi f1, f1, 24");
    V("fsrai.pi f2, f2, 24");
    V("fsrai.pi f3, f3, 24");
    V("fcvt.ps.pw f4, f4, rne");
    V("fcvt.ps.pw f1, f1, rne");
    V("fcvt.ps.pw f2, f2, rne");
    V("fcvt.ps.pw f3, f3, rne");
    V("fmul.ps f4, f4, f8");
    V("fmul.ps f1, f1, f8");
    V("fmul.ps f2, f2, f8");
    V("fmul.ps f3, f3, f8");
    V_STORE("f1", out, 0);
    V_STORE("f2", out, 32);
    V_STORE("f3", out, 64);
    V_STORE("f4", out, 96);
}

// The nibbles in f0 times f8 plus f9: vector i holds nibble i of each word.
static inline void nibbles(uint64_t out)
{
    V("fsrli.pi f2, f0, 4");
    V("fsrli.pi f3, f0, 8");
    V("fsrli.pi f4, f0, 12");
    V("fsrli.pi f5, f0, 16");
    V("fsrli.pi f6, f0, 20");
    V("fsrli.pi f7, f0, 24");
    V("fandi.pi f1, f0, 15");
    V("fandi.pi f2, f2, 15");
    V("fandi.pi f3, f3, 15");
    V("fandi.pi f4, f4, 15");
    V("fandi.pi f5, f5, 15");
    V("fandi.pi f6, f6, 15");
    V("fandi.pi f7, f7, 15");
    V("fsrli.pi f0, f0, 28");
#define NIBBLE(f) V("fcvt.ps.pw " f ", " f ", rne")
    NIBBLE("f1");
    NIBBLE("f2");
    NIBBLE("f3");
    NIBBLE("f4");
    NIBBLE("f5");
    NIBBLE("f6");
    NIBBLE("f7");
    NIBBLE("f0");
#undef NIBBLE
#define NIBBLE(f, off)                                                                                                 \
    V("fmadd.ps " f ", " f ", f8, f9, rne");                                                                           \
    V_STORE(f, out, off)
    NIBBLE("f1", 0);
    NIBBLE("f2", 32);
    NIBBLE("f3", 64);
    NIBBLE("f4", 96);
    NIBBLE("f5", 128);
    NIBBLE("f6", 160);
    NIBBLE("f7", 192);
    NIBBLE("f0", 224);
#undef NIBBLE
}

// Two blocks of 16 bytes of nibbles side by side: the first in lanes 0-3, the second in lanes 4-7. `first` and `second`
// are the addresses of the nibbles, `scale` and `base` those of the first block's factor and addend; the second's are
// `next` bytes further. second = 0: there is none.
static inline void blocks_q4(uint64_t first, uint64_t second, uint64_t scale, uint64_t base, uint64_t next,
                             uint64_t out)
{
    V_LOAD_BCAST("f8", scale, 0);
    V_LOAD_BCAST("f9", base, 0);
    __asm__ volatile("mov.m.x m0, x0, 0x0f");
    V_LOAD("f0", first, 0);
    if (second) {
        __asm__ volatile("mov.m.x m0, x0, 0xf0");
        V_LOAD("f0", second, -16);
        V_LOAD_BCAST("f8", scale + next, 0);
        V_LOAD_BCAST("f9", base + next, 0);
    }
    v_all_lanes();
    nibbles(out);
}

#define BLOCK_SCALES 128u // bytes of scales of one block column: 16 factors, then 16 addends

// Converts the scales of a block column of 16 rows at `src` to F32 at `out`: 16 factors, and for 4-bit types 16 addends
// (-8 factors, or the block's minimum). The rows' offsets from `src` are in f18 and f19.
static inline void block_scales(uint32_t type, uint64_t src, uint64_t out)
{
    V_F16_UNIT("f9");
    V_GATHER("fgh.ps", "f0", "f18", src);
    V_GATHER("fgh.ps", "f1", "f19", src);
    V_F16_TO_F32("f0", "f2", "f9");
    V_F16_TO_F32("f1", "f3", "f9");
    V_STORE("f0", out, 0);
    V_STORE("f1", out, 32);
    if (type == ET_Q4_0) {
        V_BCAST("f4", -8.0f);
        V("fmul.ps f0, f0, f4");
        V("fmul.ps f1, f1, f4");
    } else if (type == ET_Q4_1) {
        V_GATHER("fgh.ps", "f0", "f18", src + 2);
        V_GATHER("fgh.ps", "f1", "f19", src + 2);
        V_F16_TO_F32("f0", "f2", "f9");
        V_F16_TO_F32("f1", "f3", "f9");
    } else {
        return;
    }
    V_STORE("f0", out, 64);
    V_STORE("f1", out, 96);
}

// Bytes of a block and of its header.
static inline uint32_t et_block_bytes(uint32_t type)
{
    switch (type) {
    case ET_F32:
        return 4;
    case ET_F16:
    case ET_BF16:
        return 2;
    case ET_Q8_0:
        return 34;
    case ET_Q4_0:
        return 18;
    default:
        return 20; // Q4_1
    }
}

static inline bool et_is_quantised(uint32_t type)
{
    return type == ET_Q8_0 || type == ET_Q4_0 || type == ET_Q4_1;
}

// Stages `rows` rows of up to 64 elements: n elements (whole blocks for quantised types) from `src` on, rows `stride`
// bytes apart, into rows at `out`. `scales` is room for 2 * BLOCK_SCALES bytes. f18 and f19 hold the rows' offsets, 0
// .. 15 * stride, clamped to the last row.
static inline void et_stage_piece(uint32_t type, uint64_t src, uint64_t stride, uint32_t rows, uint32_t n, uint64_t out,
                                  uint64_t scales)
{
    uint32_t bytes = et_block_bytes(type);
    uint32_t blocks = n > 32 ? 2 : 1;
    if (et_is_quantised(type)) {
        block_scales(type, src, scales);
        if (blocks == 2)
            block_scales(type, src + bytes, scales + BLOCK_SCALES);
    } else if (type == ET_F16) {
        V_F16_UNIT("f9");
    } else if (type == ET_BF16) {
        V("fbci.ps f9, 0xFFFF0");
    }
    for (uint32_t row = 0; row < rows; ++row, src += stride, out += PIECE_PITCH, scales += 4) {
        switch (type) {
        case ET_F32:
            piece_f32(src, out, n);
            break;
        case ET_F16:
            piece_f16(src, out, n);
            break;
        case ET_BF16:
            piece_bf16(src, out, n);
            break;
        case ET_Q8_0:
            block_q8_0(src + 2, scales, out);
            if (blocks == 2)
                block_q8_0(src + bytes + 2, scales + BLOCK_SCALES, out + 128);
            break;
        default: {
            uint64_t first = src + (type == ET_Q4_0 ? 2 : 4);
            blocks_q4(first, blocks == 2 ? first + bytes : 0, scales, scales + 64, BLOCK_SCALES, out);
        }
        }
    }
}

#endif
