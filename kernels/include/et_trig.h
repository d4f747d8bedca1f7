// Sine and cosine, under the rule of et_math.h: argument in f0, only f0-f7 and m1 change.
#ifndef ET_TRIG_H
#define ET_TRIG_H

#include "et_vector.h"

// Beyond this the integer path takes over: up to it the quotient by pi/2 is rounded to the right integer within 2^-7.
#define V_TRIG_LIMIT 0x1p18f

// pi/2 in three parts; polynomials (minimax on |r| <= 0.8055, z = r*r): sin r = r + r*z*S(z), cos r = 1 - z/2 +
// z*z*C(z).
enum {
    V_TRIG_TWO_OVER_PI,
    V_TRIG_P1,
    V_TRIG_P2,
    V_TRIG_P3,
    V_TRIG_S2,
    V_TRIG_S1,
    V_TRIG_S0,
    V_TRIG_C2,
    V_TRIG_C1,
    V_TRIG_C0,
    V_TRIG_HALF,
    V_TRIG_ONE,
    V_TRIG_CONSTANTS
};
static const float v_trig[V_TRIG_CONSTANTS] = {0.63661977f,     1.5707964f,    -4.3711388e-8f, -1.7151245e-15f,
                                               -0.00019574842f, 0.0083326865f, -0.16666664f,   2.4534866e-5f,
                                               -0.0013888241f,  0.041666664f,  0.5f,           1.0f};

// 2/pi as a binary fraction, after 32 zero bits: enough for the greatest float.
static const uint32_t v_trig_two_over_pi[8] = {0,          0xA2F9836E, 0x4E441529, 0xFC2757D1,
                                               0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB};

// Reduces one float of any size exactly enough: *quadrant = nearest multiple of pi/2 (mod 4), result = the rest.
//
// |x| = m * 2^s with a 24-bit integer m. Of 2/pi only the 96 bits from weight 2^(1-s) on matter modulo 4.
static inline float v_trig_reduce(uint32_t bits, uint32_t *quadrant)
{
    uint32_t exponent = bits >> 23 & 255;
    *quadrant = 0;
    if (exponent == 255)
        return et_float(0x7FC00000);
    uint64_t m = (bits & 0x7FFFFF) | 0x800000;
    uint32_t skip = exponent - 150 - 2 + 32; // bits of the table above the window; at least 25 here
    const uint32_t *word = v_trig_two_over_pi + skip / 32;
    uint32_t shift = skip % 32;
    uint64_t b0 = (uint32_t)(((uint64_t)word[0] << 32 | word[1]) << shift >> 32);
    uint64_t b1 = (uint32_t)(((uint64_t)word[1] << 32 | word[2]) << shift >> 32);
    uint64_t b2 = (uint32_t)(((uint64_t)word[2] << 32 | word[3]) << shift >> 32);
    uint64_t turns = (m * b0 << 32) + m * b1 + (m * b2 >> 32); // quadrants in units of 2^-62, modulo 4
    uint64_t nearest = (turns + (1ull << 61)) >> 62;
    int64_t rest = (int64_t)(turns - (nearest << 62));
    float r = (float)(int32_t)(rest >> 32) + (float)(uint32_t)rest * 0x1p-32f;
    r *= 0x1p-30f * 1.57079633f;
    bool negative = bits >> 31;
    *quadrant = (uint32_t)(negative ? -nearest : nearest);
    return negative ? -r : r;
}

// f0 = sin x, f1 = cos x for any x; absolute error below 2^-22. NaN for infinities and NaN.
static inline void v_sin_cos(void)
{
    uint64_t k = (uintptr_t)v_trig;
    // x - n*P1 is exact (FMA, and the difference has no bits below P1's); the other parts repair pi/2's rounding.
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_TWO_OVER_PI);
    V("fmul.ps f2, f0, f1, rne");
    V("fround.ps f2, f2, rne");
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_P1);
    V("fnmsub.ps f3, f2, f1, f0, rne");
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_P2);
    V("fnmsub.ps f3, f2, f1, f3, rne");
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_P3);
    V("fnmsub.ps f3, f2, f1, f3, rne");
    V("fcvt.pw.ps f2, f2, rne");

    V("fsgnjx.ps f4, f0, f0");
    V_BCAST("f1", V_TRIG_LIMIT);
    uint64_t large;
    V("mov.m.x m1, x0, 0");
    V("fltm.ps m1, f1, f4");
    __asm__ volatile("maskpopc %0, m1" : "=r"(large));
    if (large) {
        uint32_t x[8], quadrant[8];
        float rest[8];
        V_STORE("f0", (uintptr_t)x, 0);
        V_STORE("f2", (uintptr_t)quadrant, 0);
        V_STORE("f3", (uintptr_t)rest, 0);
        uint64_t masks;
        __asm__ volatile("mova.x.m %0" : "=r"(masks));
        for (uint32_t lane = 0; lane < 8; ++lane)
            if (masks >> (8 + lane) & 1)
                rest[lane] = v_trig_reduce(x[lane], &quadrant[lane]);
        V_LOAD("f2", (uintptr_t)quadrant, 0);
        V_LOAD("f3", (uintptr_t)rest, 0);
    }

    V("fmul.ps f4, f3, f3, rne");
    V_LOAD_BCAST("f5", k, 4 * V_TRIG_S2);
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_S1);
    V_LOAD_BCAST("f6", k, 4 * V_TRIG_C2);
    V_LOAD_BCAST("f7", k, 4 * V_TRIG_C1);
    V("fmadd.ps f5, f5, f4, f1, rne");
    V("fmadd.ps f6, f6, f4, f7, rne");
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_S0);
    V_LOAD_BCAST("f7", k, 4 * V_TRIG_C0);
    V("fmadd.ps f5, f5, f4, f1, rne");
    V("fmadd.ps f6, f6, f4, f7, rne");
    V("fmul.ps f7, f4, f4, rne");
    V("fmul.ps f5, f5, f4, rne");
    V_LOAD_BCAST("f0", k, 4 * V_TRIG_HALF);
    V_LOAD_BCAST("f1", k, 4 * V_TRIG_ONE);
    V("fnmsub.ps f1, f4, f0, f1, rne");
    V("fmadd.ps f5, f5, f3, f3, rne");
    V("fmadd.ps f6, f6, f7, f1, rne");

    // Odd quadrants swap the two; bit 1 of n and of n + 1 are their signs.
    V("fslli.pi f7, f2, 31");
    V("fsrai.pi f7, f7, 31");
    V("fcmov.ps f0, f7, f6, f5");
    V("fcmov.ps f1, f7, f5, f6");
    V("fandi.pi f3, f2, 2");
    V("faddi.pi f2, f2, 1");
    V("fandi.pi f2, f2, 2");
    V("fslli.pi f3, f3, 30");
    V("fslli.pi f2, f2, 30");
    V("fxor.pi f0, f0, f3");
    V("fxor.pi f1, f1, f2");
}

#endif
