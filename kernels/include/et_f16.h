// Exact conversions between F32 and the two 16-bit formats, 8 lanes at a time.
//
// Halves lie in the low 16 bits of a lane; upper bits are ignored on input and zero on output. The chip's own
// conversions flush F16 subnormals, which real files are full of. F32 subnormals are below F16's range and become
// zeros. NaN stays NaN. frm must be 0 (round to nearest, ties to even), as kernels leave it.
//
// The v_ functions follow the rule of et_math.h: argument and result in f0, changing only f0-f7. The macros work on
// registers of the caller's choice, with constants that the caller loads once.
#ifndef ET_F16_H
#define ET_F16_H

#include "et_vector.h"

// `k` for V_F16_TO_F32: the unit of F16 subnormals, 2^-24, of a mantissa that was shifted up by 22 bits.
#define V_F16_UNIT(k) V("fbci.ps " k ", 0x28800")
// `k` for V_F32_TO_F16: 0.5, whose unit in the last place is that of F16 subnormals.
#define V_F16_HALF(k) V("fbci.ps " k ", 0x3F000")

// F16 in `f` to F32 in `f`; `t` is clobbered. The mantissa times 2^-24 is right where the chip yields zero, and in
// other places smaller than its result, so that the greater magnitude (same sign: unsigned order) is the value.
#define V_F16_TO_F32(f, t, k)                                                                                          \
    do {                                                                                                               \
        V("fslli.pi " t ", " f ", 22");                                                                                \
        V("fcvt.ps.f16 " f ", " f);                                                                                    \
        V("fcvt.ps.pwu " t ", " t ", rne");                                                                            \
        V("fmul.ps " t ", " t ", " k);                                                                                 \
        V("fsgnj.ps " t ", " t ", " f);                                                                                \
        V("fmaxu.pi " f ", " f ", " t);                                                                                \
    } while (0)

// F32 in `f` to F16 in `f`; `t` and `u` are clobbered. Where the chip yields zero, adding 0.5 rounds to a multiple of
// 2^-24, and the count of those is the half's bit pattern (0x400 included, the smallest normal).
#define V_F32_TO_F16(f, t, u, k)                                                                                       \
    do {                                                                                                               \
        V("fsgnjx.ps " t ", " f ", " f);                                                                               \
        V("fsrli.pi " f ", " f ", 31");                                                                                \
        V("fcvt.f16.ps " u ", " t);                                                                                    \
        V("fadd.ps " t ", " t ", " k ", rne");                                                                         \
        V("fslli.pi " f ", " f ", 15");                                                                                \
        V("fsub.pi " t ", " t ", " k);                                                                                 \
        V("fcmov.ps " t ", " u ", " u ", " t);                                                                         \
        V("for.pi " f ", " f ", " t);                                                                                  \
    } while (0)

// BF16 in `f` to F32 in `f`, bit for bit.
#define V_BF16_TO_F32(f) V("fslli.pi " f ", " f ", 16")

// `k` and `q` for V_F32_TO_BF16: just below half a unit in the last place, and the quiet bit of a NaN.
#define V_BF16_ROUND(k) V("fbci.pi " k ", 0x7FFF")
#define V_BF16_QUIET(q) V("fbci.pi " q ", 64")

// F32 in `f` to BF16 in `f`; `t` and `u` are clobbered. Subnormals are kept; a NaN keeps its payload and becomes quiet.
#define V_F32_TO_BF16(f, t, u, k, q)                                                                                   \
    do {                                                                                                               \
        V("fsrli.pi " t ", " f ", 16");                                                                                \
        V("fandi.pi " u ", " t ", 1");                                                                                 \
        V("for.pi " t ", " t ", " q);                                                                                  \
        V("fadd.pi " u ", " u ", " f);                                                                                 \
        V("feq.ps " f ", " f ", " f);                                                                                  \
        V("fadd.pi " u ", " u ", " k);                                                                                 \
        V("fsrli.pi " u ", " u ", 16");                                                                                \
        V("fcmov.ps " f ", " f ", " u ", " t);                                                                         \
    } while (0)

static inline void v_f16_to_f32(void)
{
    V_F16_UNIT("f2");
    V_F16_TO_F32("f0", "f1", "f2");
}

static inline void v_f32_to_f16(void)
{
    V_F16_HALF("f3");
    V_F32_TO_F16("f0", "f1", "f2", "f3");
}

static inline void v_bf16_to_f32(void)
{
    V_BF16_TO_F32("f0");
}

static inline void v_f32_to_bf16(void)
{
    V_BF16_ROUND("f3");
    V_BF16_QUIET("f4");
    V_F32_TO_BF16("f0", "f1", "f2", "f3", "f4");
}

#endif
