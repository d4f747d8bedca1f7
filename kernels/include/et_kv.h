// Rows of K and V to F32 in scratchpad, from every type that a KV cache may have.
//
// 16-bit types leave each 16 elements as the 8 even ones, then the 8 odd ones ("split"), as they come out of 32-bit
// words; other types keep the order. A staged row is filled up with zeros to a multiple of 16 elements.
#ifndef ET_KV_H
#define ET_KV_H

#include "et_quant.h"

static inline bool kv_split(uint32_t type)
{
    return type == ET_F16 || type == ET_BF16;
}

// Bytes of `elements` elements (whole blocks) of a row.
static inline uint64_t kv_bytes(uint32_t type, uint32_t elements)
{
    switch (type) {
    case ET_F32:
        return (uint64_t)elements * 4;
    case ET_Q8_0:
        return (uint64_t)elements / 32 * 34;
    case ET_Q4_0:
    case ET_IQ4_NL:
        return (uint64_t)elements / 32 * 18;
    case ET_Q4_1:
        return (uint64_t)elements / 32 * 20;
    case ET_Q5_0:
        return (uint64_t)elements / 32 * 22;
    case ET_Q5_1:
        return (uint64_t)elements / 32 * 24;
    default:
        return (uint64_t)elements * 2;
    }
}

static inline void kv_stage_f32(uint64_t src, uint64_t out, uint32_t n)
{
    for (; n >= 16; n -= 16, src += 64, out += 64) {
        V_LOAD("f0", src, 0);
        V_LOAD("f1", src, 32);
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
    }
    if (n) {
        uint32_t low = n < 8 ? n : 8;
        V("fbci.pi f0, 0");
        V("fbci.pi f1, 0");
        v_lanes(low);
        V_LOAD("f0", src, 0);
        v_lanes(n - low);
        V_LOAD("f1", src, 32);
        v_all_lanes();
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
    }
}

// f0 = even, f1 = odd elements among the last n < 16 at `src`, as words of one element each, zeros beyond.
static inline void kv_load_rest(uint64_t src, uint32_t n)
{
    V("fbci.pi f0, 0");
    V("fbci.pi f1, 0");
    v_lanes((n + 1) / 2);
    V_LOAD("f0", src, 0);
    v_lanes(n / 2);
    V("fsrli.pi f1, f0, 16");
    v_all_lanes();
}

// f9 holds V_F16_UNIT.
static inline void kv_stage_f16_exact(uint64_t src, uint64_t out, uint32_t n)
{
    while (n) {
        if (n < 16) {
            kv_load_rest(src, n);
            n = 0;
        } else {
            V_LOAD("f0", src, 0);
            V("fsrli.pi f1, f0, 16");
            n -= 16;
        }
        V_F16_TO_F32("f0", "f4", "f9");
        V_F16_TO_F32("f1", "f5", "f9");
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
        src += 32;
        out += 64;
    }
}

// The chip's conversion is right but for subnormals. Whole vectors go through it while f8 notes halves with an exponent
// of 0 (a borrow into its top bit, when 1 is taken from the exponent); a row that has one is converted again.
// f9 holds V_F16_UNIT, f28 the exponent's bits of both halves, f29 minus its last ones, f30 the top bits.
static inline void kv_stage_f16(uint64_t src, uint64_t out, uint32_t n)
{
    uint64_t from = src, to = out, found;
    uint32_t left = n;
    V("fbci.pi f8, 0");
    for (; left >= 32; left -= 32, from += 64, to += 128) {
        V_LOAD("f0", from, 0);
        V_LOAD("f2", from, 32);
        V("fsrli.pi f1, f0, 16");
        V("fsrli.pi f3, f2, 16");
        V("fand.pi f4, f0, f28");
        V("fand.pi f5, f2, f28");
        V("fcvt.ps.f16 f0, f0");
        V("fcvt.ps.f16 f1, f1");
        V("fcvt.ps.f16 f2, f2");
        V("fcvt.ps.f16 f3, f3");
        V("fadd.pi f4, f4, f29");
        V("fadd.pi f5, f5, f29");
        V_STORE("f0", to, 0);
        V_STORE("f1", to, 32);
        V_STORE("f2", to, 64);
        V_STORE("f3", to, 96);
        V("for.pi f8, f8, f4");
        V("for.pi f8, f8, f5");
    }
    V("fand.pi f8, f8, f30");
    V("fsetm.pi m1, f8");
    __asm__ volatile("maskpopc %0, m1" : "=r"(found));
    if (found) {
        from = src;
        to = out;
        left = n;
    }
    kv_stage_f16_exact(from, to, left);
}

static inline void kv_stage_bf16(uint64_t src, uint64_t out, uint32_t n)
{
    while (n) {
        if (n < 16) {
            kv_load_rest(src, n);
            n = 0;
        } else {
            V_LOAD("f0", src, 0);
            V("fsrli.pi f1, f0, 16");
            n -= 16;
        }
        V("fslli.pi f0, f0, 16");
        V("fslli.pi f1, f1, 16");
        V_STORE("f0", out, 0);
        V_STORE("f1", out, 32);
        src += 32;
        out += 64;
    }
}

#define KV_STAGE_BLOCKS(load, bytes)                                                                                   \
    static inline void kv_stage_##load(uint64_t src, uint64_t out, uint32_t n)                                         \
    {                                                                                                                  \
        for (; n; n -= 32, src += bytes, out += 128) {                                                                 \
            v_load_##load(src);                                                                                        \
            V_STORE("f18", out, 0);                                                                                    \
            V_STORE("f19", out, 32);                                                                                   \
            V_STORE("f20", out, 64);                                                                                   \
            V_STORE("f21", out, 96);                                                                                   \
        }                                                                                                              \
    }
KV_STAGE_BLOCKS(q8_0, 34)
KV_STAGE_BLOCKS(q4_0, 18)
KV_STAGE_BLOCKS(q4_1, 20)
KV_STAGE_BLOCKS(q5_0, 22)
KV_STAGE_BLOCKS(q5_1, 24)
KV_STAGE_BLOCKS(iq4_nl, 18)
#undef KV_STAGE_BLOCKS

// Stages n elements of each of `rows` rows, `stride` bytes apart at `src`. Row r goes to `out` + place(r) * pitch,
// where rows 0, 2, 4 ... take places 0, 1, 2 ... and rows 1, 3, 5 ... places 8, 9, 10 ...: the order in which masks are
// read.
static inline void kv_stage(uint32_t type, uint64_t src, uint64_t stride, uint32_t rows, uint32_t n, uint64_t out,
                            uint64_t pitch)
{
    uint64_t other = out + 8 * pitch, place;
#define ROWS(stage)                                                                                                    \
    for (; rows; --rows, src += stride) {                                                                              \
        stage(src, out, n);                                                                                            \
        place = out + pitch;                                                                                           \
        out = other;                                                                                                   \
        other = place;                                                                                                 \
    }                                                                                                                  \
    break
    V_F16_UNIT("f9");
    switch (type) {
    case ET_F32:
        ROWS(kv_stage_f32);
    case ET_F16:
        V_BCAST_BITS("f28", 0x7C007C00u);
        V_BCAST_BITS("f29", 0xFBFFFC00u);
        V_BCAST_BITS("f30", 0x80008000u);
        ROWS(kv_stage_f16);
    case ET_BF16:
        ROWS(kv_stage_bf16);
    case ET_Q8_0:
        ROWS(kv_stage_q8_0);
    case ET_Q4_0:
        ROWS(kv_stage_q4_0);
    case ET_Q4_1:
        ROWS(kv_stage_q4_1);
    case ET_Q5_0:
        ROWS(kv_stage_q5_0);
    case ET_Q5_1:
        ROWS(kv_stage_q5_1);
    default:
        ROWS(kv_stage_iq4_nl);
    }
#undef ROWS
}

#endif
