// Quantised blocks of 32 elements to and from vector registers.
//
// Elements 0-7, 8-15, 16-23, 24-31 of a block are in f18, f19, f20, f21 as F32. v_load_<type> reads a block at any
// address, v_store_<type> writes one with normal stores at any address. Both change f0-f8 and f28-f31, and m1-m4.
// Quantising gives the bits of the host's CPU backend on x86: every rounding that it makes is made here, in its order.
// Only where the scale leaves F16's range (a zero or an infinity is stored) the quants may differ.
#ifndef ET_QUANT_H
#define ET_QUANT_H

#include "et_f16.h"

// Scalars at any address.
typedef uint16_t __attribute__((may_alias)) et_any_u16;
typedef uint32_t __attribute__((may_alias)) et_any_u32;
typedef uint64_t __attribute__((may_alias)) et_any_u64;

static inline uint16_t et_get16(uint64_t addr)
{
    return *ET_PTR(const et_any_u16, addr);
}

static inline uint32_t et_get32(uint64_t addr)
{
    return *ET_PTR(const et_any_u32, addr);
}

static inline void et_put16(uint64_t addr, uint32_t value)
{
    *ET_PTR(et_any_u16, addr) = (uint16_t)value;
}

static inline void et_put32(uint64_t addr, uint32_t value)
{
    *ET_PTR(et_any_u32, addr) = value;
}

// 16 bytes, both addresses free of alignment.
static inline void et_copy16(uint64_t dst, uint64_t src)
{
    uint64_t low = ET_PTR(const et_any_u64, src)[0], high = ET_PTR(const et_any_u64, src)[1];
    ET_PTR(et_any_u64, dst)[0] = low;
    ET_PTR(et_any_u64, dst)[1] = high;
}

// One statement for each of the four registers.
#define Q_EACH(X)                                                                                                      \
    do {                                                                                                               \
        X("f18");                                                                                                      \
        X("f19");                                                                                                      \
        X("f20");                                                                                                      \
        X("f21");                                                                                                      \
    } while (0)

static const int32_t q_lane_numbers[8] __attribute__((aligned(32))) = {0, 1, 2, 3, 4, 5, 6, 7};

static const int8_t q_iq4_nl_values[16]
    __attribute__((aligned(32))) = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// f0 = F16 at `addr` as F32 in every lane.
static inline void q_load_scale(uint64_t addr)
{
    V_BCAST_BITS("f0", et_get16(addr));
    v_f16_to_f32();
}

// f0 and f3 = the two F16 at `addr`.
static inline void q_load_scales(uint64_t addr)
{
    V_BCAST_BITS("f3", et_get16(addr + 2));
    q_load_scale(addr);
    V_F16_TO_F32("f3", "f1", "f2");
}

// f18-f21 = the nibbles at `addr`: low ones first, as integers 0..15.
static inline void q_load_nibbles(uint64_t addr)
{
    uint8_t copy[32] __attribute__((aligned(32)));
    uint64_t aligned = (uintptr_t)copy;
    et_copy16(aligned, addr);
    V_LOAD_BYTES("f18", aligned, V_BYTES_IN_ORDER);
    V_LOAD_BYTES("f19", aligned + 8, V_BYTES_IN_ORDER);
    V("fsrli.pi f20, f18, 4");
    V("fsrli.pi f21, f19, 4");
#define X(f) V("fandi.pi " f ", " f ", 15")
    Q_EACH(X);
#undef X
}

// Adds 16 to the integers in f18-f21 whose bit in `high` is set (element i, bit i).
static inline void q_add_fifth_bits(uint32_t high)
{
    V_LOAD("f4", (uintptr_t)q_lane_numbers, 0);
#define X(f, i)                                                                                                        \
    V_BCAST_BITS("f5", high >> (8 * i));                                                                               \
    V("fsrl.pi f5, f5, f4");                                                                                           \
    V("fandi.pi f5, f5, 1");                                                                                           \
    V("fslli.pi f5, f5, 4");                                                                                           \
    V("for.pi " f ", " f ", f5")
    X("f18", 0);
    X("f19", 1);
    X("f20", 2);
    X("f21", 3);
#undef X
}

// Integers in f18-f21 to F32, times f0.
static inline void q_scale(void)
{
#define X(f) V("fcvt.ps.pw " f ", " f ", rne")
    Q_EACH(X);
#undef X
#define X(f) V("fmul.ps " f ", " f ", f0, rne")
    Q_EACH(X);
#undef X
}

// The same, plus f3; a product is rounded before the sum, as the host does.
static inline void q_scale_offset(void)
{
    q_scale();
#define X(f) V("fadd.ps " f ", " f ", f3, rne")
    Q_EACH(X);
#undef X
}

static inline void v_load_q8_0(uint64_t addr)
{
    uint8_t copy[32] __attribute__((aligned(32)));
    uint64_t aligned = (uintptr_t)copy;
    V_LOAD("f0", addr, 2);
    V_STORE("f0", aligned, 0);
    q_load_scale(addr);
    V_LOAD_BYTES("f18", aligned, V_BYTES_IN_ORDER);
    V_LOAD_BYTES("f19", aligned + 8, V_BYTES_IN_ORDER);
    V_LOAD_BYTES("f20", aligned + 16, V_BYTES_IN_ORDER);
    V_LOAD_BYTES("f21", aligned + 24, V_BYTES_IN_ORDER);
    q_scale();
}

static inline void v_load_q4_0(uint64_t addr)
{
    q_load_nibbles(addr + 2);
    q_load_scale(addr);
#define X(f) V("faddi.pi " f ", " f ", -8")
    Q_EACH(X);
#undef X
    q_scale();
}

static inline void v_load_q4_1(uint64_t addr)
{
    q_load_nibbles(addr + 4);
    q_load_scales(addr);
    q_scale_offset();
}

static inline void v_load_q5_0(uint64_t addr)
{
    q_load_nibbles(addr + 6);
    q_add_fifth_bits(et_get32(addr + 2));
    q_load_scale(addr);
#define X(f) V("faddi.pi " f ", " f ", -16")
    Q_EACH(X);
#undef X
    q_scale();
}

static inline void v_load_q5_1(uint64_t addr)
{
    q_load_nibbles(addr + 8);
    q_add_fifth_bits(et_get32(addr + 4));
    q_load_scales(addr);
    q_scale_offset();
}

static inline void v_load_iq4_nl(uint64_t addr)
{
    uint64_t values = (uintptr_t)q_iq4_nl_values;
    q_load_nibbles(addr + 2);
    q_load_scale(addr);
#define X(f) V_GATHER("fgb.ps", f, f, values)
    Q_EACH(X);
#undef X
    q_scale();
}

// f0 = 1 / f0, correctly rounded: frcp is within one unit, a Newton step in exact residuals rounds rightly from there
// but for a mantissa of ones, whose reciprocal is one unit above a power of two. Zero gives inf and inf zero.
static inline void q_reciprocal(void)
{
    V("frcp.ps f1, f0");
    V("fbci.ps f2, 0x3F800");
    V("fnmsub.ps f2, f0, f1, f2, rne");
    V("fmadd.ps f3, f2, f1, f1, rne");
    V("feq.ps f2, f2, f2");
    V("fcmov.ps f1, f2, f3, f1");
    V("fslli.pi f2, f0, 9");
    V("fsrai.pi f2, f2, 9");
    V("fbci.pi f3, -1");
    V("feq.pi f2, f2, f3");
    V("fsrli.pi f2, f2, 31");
    V("for.pi f0, f1, f2");
}

// f4 = f4 / f5, correctly rounded when f0 is the correctly rounded 1 / f5 and neither end of the range is near.
static inline void q_divide(void)
{
    V("fmul.ps f6, f4, f0, rne");
    V("fnmsub.ps f4, f6, f5, f4, rne");
    V("fmadd.ps f7, f4, f0, f6, rne");
    V("feq.ps f4, f4, f4");
    V("fcmov.ps f4, f4, f7, f6");
}

// f4 = f4 / divisor.
#define Q_DIVIDE_BY(divisor)                                                                                           \
    do {                                                                                                               \
        V_BCAST("f5", divisor);                                                                                        \
        V_BCAST("f0", 1.0f / divisor);                                                                                 \
        q_divide();                                                                                                    \
    } while (0)

// f0 = 1 / f4, or 0 where f4 is 0.
static inline void q_inverse_scale(void)
{
    V("fsgnj.ps f0, f4, f4");
    q_reciprocal();
    V_BCAST_BITS("f1", 0);
    V("feq.ps f2, f4, f1");
    V("fcmov.ps f0, f2, f1, f0");
}

// f28 = the element with the greatest magnitude, the first one of equals, f29 = its magnitude, in every lane. NaNs are
// passed over; 0 when there is nothing else.
static inline void q_extreme(void)
{
    V("fmax.ps f0, f18, f19");
    V("fmax.ps f2, f20, f21");
    V("fmin.ps f1, f18, f19");
    V("fmin.ps f3, f20, f21");
    V("fmax.ps f0, f0, f2");
    V("fmin.ps f1, f1, f3");
    V("fsgnjn.ps f1, f1, f1");
    V_BCAST_BITS("f2", 0);
    V("fmax.ps f0, f0, f2");
    V("fmax.ps f1, f1, f2");
    V_REDUCE("fmax.ps", "f0", "f2");
    V_REDUCE("fmax.ps", "f1", "f2");
    V("fsgnjn.ps f3, f1, f1");
    V("flt.ps f2, f0, f1");
    V("fcmov.ps f28, f2, f3, f0");
    V("fmax.ps f29, f0, f1");
    uint32_t up = V_LANE("f0", 0), down = V_LANE("f1", 0);
    if (up != down || up == 0)
        return;
    float x[32];
    uint64_t at = (uintptr_t)x;
    V_STORE("f18", at, 0);
    V_STORE("f19", at, 32);
    V_STORE("f20", at, 64);
    V_STORE("f21", at, 96);
    uint32_t bits;
    do {
        bits = et_get32(at);
        at += 4;
    } while ((bits & 0x7FFFFFFF) != up);
    V_BCAST_BITS("f28", bits);
}

// f28 = least, f29 = greatest element, in every lane.
static inline void q_range(void)
{
    V("fmin.ps f28, f18, f19");
    V("fmin.ps f0, f20, f21");
    V("fmax.ps f29, f18, f19");
    V("fmax.ps f1, f20, f21");
    V("fmin.ps f28, f28, f0");
    V("fmax.ps f29, f29, f1");
    V_REDUCE("fmin.ps", "f28", "f0");
    V_REDUCE("fmax.ps", "f29", "f0");
}

// F32 in `f` as F16 bits. Clobbers f, f1, f2, f3.
#define Q_HALF_BITS(f)                                                                                                 \
    ({                                                                                                                 \
        V_F16_HALF("f3");                                                                                              \
        V_F32_TO_F16(f, "f1", "f2", "f3");                                                                             \
        V_LANE(f, 0);                                                                                                  \
    })

// f18-f21 = trunc(f * f0 + f1), at most f2, an integer; NaN gives 0.
static inline void q_round_nibbles(void)
{
    V_BCAST_BITS("f3", 0);
#define X(f) V("fmul.ps " f ", " f ", f0, rne")
    Q_EACH(X);
#undef X
#define X(f) V("fadd.ps " f ", " f ", f1, rne")
    Q_EACH(X);
#undef X
#define X(f) V("fmax.ps " f ", " f ", f3")
    Q_EACH(X);
#undef X
#define X(f) V("fcvt.pw.ps " f ", " f ", rtz")
    Q_EACH(X);
#undef X
#define X(f) V("fmin.pi " f ", " f ", f2")
    Q_EACH(X);
#undef X
}

// The low nibbles of f18-f21 at `addr`: elements i and i + 16 share a byte. Clobbers f18-f21.
static inline void q_store_nibbles(uint64_t addr)
{
    uint8_t bytes[32] __attribute__((aligned(32)));
    uint64_t aligned = (uintptr_t)bytes;
    V("fandi.pi f18, f18, 15");
    V("fandi.pi f19, f19, 15");
    V("fslli.pi f20, f20, 4");
    V("fslli.pi f21, f21, 4");
    V("for.pi f18, f18, f20");
    V("for.pi f19, f19, f21");
    V_STORE_BYTES("f18", aligned, V_BYTES_IN_ORDER);
    V_STORE_BYTES("f19", aligned + 8, V_BYTES_IN_ORDER);
    et_copy16(addr, aligned);
}

// Bit 4 of the integers 0..31 in f18-f21 (element i, bit i).
static inline uint32_t q_fifth_bits(void)
{
    uint64_t masks;
    V("fbci.pi f1, 15");
    V("fltm.pi m1, f1, f18");
    V("fltm.pi m2, f1, f19");
    V("fltm.pi m3, f1, f20");
    V("fltm.pi m4, f1, f21");
    __asm__ volatile("mova.x.m %0" : "=r"(masks));
    return (uint32_t)(masks >> 8);
}

static inline void v_store_q8_0(uint64_t addr)
{
    uint8_t bytes[32] __attribute__((aligned(32)));
    uint64_t aligned = (uintptr_t)bytes;
    q_extreme();
    V("fsgnj.ps f4, f29, f29");
    Q_DIVIDE_BY(127.0f);
    V("fsgnj.ps f28, f4, f4");
    et_put16(addr, Q_HALF_BITS("f28"));
    V("fsgnj.ps f5, f29, f29");
    V("fsgnj.ps f4, f29, f29");
    q_inverse_scale();
    V_BCAST("f4", 127.0f);
    q_divide();
#define X(f) V("fmul.ps " f ", " f ", f4, rne")
    Q_EACH(X);
#undef X
#define X(f) V("fcvt.pw.ps " f ", " f ", rne")
    Q_EACH(X);
#undef X
    V_STORE_BYTES("f18", aligned, V_BYTES_IN_ORDER);
    V_STORE_BYTES("f19", aligned + 8, V_BYTES_IN_ORDER);
    V_STORE_BYTES("f20", aligned + 16, V_BYTES_IN_ORDER);
    V_STORE_BYTES("f21", aligned + 24, V_BYTES_IN_ORDER);
    V_LOAD("f18", aligned, 0);
    V_STORE("f18", addr, 2);
}

static inline void v_store_q4_0(uint64_t addr)
{
    q_extreme();
    V_BCAST("f4", -0.125f);
    V("fmul.ps f4, f28, f4, rne");
    V("fsgnj.ps f28, f4, f4");
    et_put16(addr, Q_HALF_BITS("f28"));
    q_inverse_scale();
    V_BCAST("f1", 8.5f);
    V("fbci.pi f2, 15");
    q_round_nibbles();
    q_store_nibbles(addr + 2);
}

static inline void v_store_q5_0(uint64_t addr)
{
    q_extreme();
    V_BCAST("f4", -0.0625f);
    V("fmul.ps f4, f28, f4, rne");
    V("fsgnj.ps f28, f4, f4");
    et_put16(addr, Q_HALF_BITS("f28"));
    q_inverse_scale();
    V_BCAST("f1", 16.5f);
    V("fbci.pi f2, 31");
    q_round_nibbles();
    et_put32(addr + 2, q_fifth_bits());
    q_store_nibbles(addr + 6);
}

// What Q4_1 and Q5_1 share: scale and least element to `addr`, f18-f21 = integers 0..levels.
#define Q_STORE_SCALES(addr, levels)                                                                                   \
    do {                                                                                                               \
        q_range();                                                                                                     \
        V("fsub.ps f4, f29, f28, rne");                                                                                \
        Q_DIVIDE_BY((float)levels);                                                                                    \
        V("fsgnj.ps f29, f4, f4");                                                                                     \
        V("fsgnj.ps f0, f28, f28");                                                                                    \
        et_put16(addr, Q_HALF_BITS("f29"));                                                                            \
        et_put16(addr + 2, Q_HALF_BITS("f0"));                                                                         \
        q_inverse_scale();                                                                                             \
        V("fsub.ps f18, f18, f28, rne");                                                                               \
        V("fsub.ps f19, f19, f28, rne");                                                                               \
        V("fsub.ps f20, f20, f28, rne");                                                                               \
        V("fsub.ps f21, f21, f28, rne");                                                                               \
        V("fbci.ps f1, 0x3F000");                                                                                      \
        V("fbci.pi f2, " #levels);                                                                                     \
        q_round_nibbles();                                                                                             \
    } while (0)

static inline void v_store_q4_1(uint64_t addr)
{
    Q_STORE_SCALES(addr, 15);
    q_store_nibbles(addr + 4);
}

static inline void v_store_q5_1(uint64_t addr)
{
    Q_STORE_SCALES(addr, 31);
    et_put32(addr + 4, q_fifth_bits());
    q_store_nibbles(addr + 8);
}

// IQ4_NL: every element takes the nearest of 16 values under a first scale; the final scale is then the least squares
// fit for these, weighted by the elements' squares. The sums run in element order, so they are scalar.
static inline void v_store_iq4_nl(uint64_t addr)
{
    float products[64];
    uint64_t at = (uintptr_t)products, values = (uintptr_t)q_iq4_nl_values;
    q_extreme();
    V("fsgnj.ps f4, f28, f28");
    Q_DIVIDE_BY(-127.0f);
    q_inverse_scale();
    // Index = how many of the midpoints between neighbours are at or below the scaled element.
    V("fbci.pi f28, 0");
    V("fbci.pi f29, 0");
    V("fbci.pi f30, 0");
    V("fbci.pi f31, 0");
    V("fmul.ps f4, f18, f0, rne");
    V("fmul.ps f5, f19, f0, rne");
    V("fmul.ps f6, f20, f0, rne");
    V("fmul.ps f7, f21, f0, rne");
#define MIDPOINT(f32_high)                                                                                             \
    V("fbci.ps f0, " #f32_high);                                                                                       \
    V("fle.ps f1, f0, f4");                                                                                            \
    V("fle.ps f2, f0, f5");                                                                                            \
    V("fle.ps f3, f0, f6");                                                                                            \
    V("fle.ps f8, f0, f7");                                                                                            \
    V("fsub.pi f28, f28, f1");                                                                                         \
    V("fsub.pi f29, f29, f2");                                                                                         \
    V("fsub.pi f30, f30, f3");                                                                                         \
    V("fsub.pi f31, f31, f8")
    MIDPOINT(0xC2E70); // -115.5
    MIDPOINT(0xC2BB0); // -93.5
    MIDPOINT(0xC2940); // -74
    MIDPOINT(0xC2640); // -57
    MIDPOINT(0xC2280); // -42
    MIDPOINT(0xC1E40); // -28.5
    MIDPOINT(0xC1800); // -16
    MIDPOINT(0xC0900); // -4.5
    MIDPOINT(0x40E00); // 7
    MIDPOINT(0x41980); // 19
    MIDPOINT(0x41FC0); // 31.5
    MIDPOINT(0x42360); // 45.5
    MIDPOINT(0x42740); // 61
    MIDPOINT(0x429E0); // 79
    MIDPOINT(0x42CA0); // 101
#undef MIDPOINT
    // (w*q)*x and (w*q)*q with w = x*x.
#define X(x, index, at_x, at_q)                                                                                        \
    V_GATHER("fgb.ps", "f0", index, values);                                                                           \
    V("fcvt.ps.pw f0, f0, rne");                                                                                       \
    V("fmul.ps f1, " x ", " x ", rne");                                                                                \
    V("fmul.ps f1, f1, f0, rne");                                                                                      \
    V("fmul.ps f2, f1, " x ", rne");                                                                                   \
    V("fmul.ps f3, f1, f0, rne");                                                                                      \
    V_STORE("f2", at, at_x);                                                                                           \
    V_STORE("f3", at, at_q)
    X("f18", "f28", 0, 128);
    X("f19", "f29", 32, 160);
    X("f20", "f30", 64, 192);
    X("f21", "f31", 96, 224);
#undef X
    float sum_x = 0.0f, sum_q = 0.0f;
    for (uint32_t i = 0; i < 32; i += 4) {
        for (uint32_t j = i; j < i + 4; ++j) {
            sum_x += products[j];
            sum_q += products[j + 32];
        }
    }
    V("fsgnj.ps f18, f28, f28");
    V("fsgnj.ps f19, f29, f29");
    V("fsgnj.ps f20, f30, f30");
    V("fsgnj.ps f21, f31, f31");
    V_BCAST("f5", sum_q);
    V("fsgnj.ps f0, f5, f5");
    q_reciprocal();
    V_BCAST("f4", sum_x);
    q_divide();
    V_BCAST_BITS("f1", 0);
    V("flt.ps f2, f1, f5");
    V("fcmov.ps f0, f2, f4, f1");
    et_put16(addr, Q_HALF_BITS("f0"));
    q_store_nibbles(addr + 2);
}

#endif
