// Vector mathematics: argument and result in f0 (second argument in f1), only f0-f7 change, lanes outside m0 keep f0.
//
// The chip gives 1/x within 1 ulp, 2^x within 1.4 and log2 x within 2.5, and no division or square root. The functions
// here repair the error that a change of base would multiply, and the special values. Subnormal arguments count as
// zero and subnormal results become zero, as everywhere in the chip's arithmetic. Polynomials are minimax fits.
// Errors are in ulp of the exact result, measured with the chip's own errors at their worst.
#ifndef ET_MATH_H
#define ET_MATH_H

#include "et_vector.h"

#define V_LOG2E    1.44269504f
#define V_LN2      0.693147182f
#define V_LN2_REST -1.90465421e-9f // ln 2 - V_LN2

// 1/x; 1 ulp. Zero gives inf, |x| above 2^126 gives zero.
static inline void v_rcp(void)
{
    V("frcp.ps f0, f0");
}

// f0 / f1; 1 ulp (2 when |f0| is below 2^-102, where the remainder is subnormal). IEEE special values.
static inline void v_div(void)
{
    // Above 2^126 the reciprocal would be flushed: scale both; a numerator lost by it had no normal quotient.
    V("fsgnjx.ps f2, f1, f1");
    V_BCAST("f3", 0x1p64f);
    V("fle.ps f2, f3, f2");
    V_BCAST("f3", 0x1p-64f);
    V_BCAST("f4", 1.0f);
    V("fcmov.ps f2, f2, f3, f4");
    V("fmul.ps f0, f0, f2");
    V("fmul.ps f1, f1, f2");
    V("frcp.ps f3, f1");
    V("fmul.ps f4, f0, f3");
    V("fnmsub.ps f5, f4, f1, f0");
    V("fmadd.ps f5, f5, f3, f4");
    // Where an infinity or a zero made the remainder NaN, the first product is exact or rightly NaN.
    V("feq.ps f2, f5, f5");
    V("fcmov.ps f0, f2, f5, f4");
}

// 1 / sqrt(x); 1.5 ulp. Zero gives inf, inf gives zero, negative gives NaN.
static inline void v_rsqrt(void)
{
    V("flog.ps f1, f0");
    V_BCAST("f2", -0.5f);
    V("fmul.ps f1, f1, f2");
    V("fexp.ps f1, f1");
    // One Newton step in a form without under- or overflow: y - y/2 * ((x*y)*y - 1).
    V_BCAST("f3", 1.0f);
    V("fmul.ps f4, f0, f1");
    V("fmsub.ps f4, f4, f1, f3");
    V("fmul.ps f5, f1, f2");
    V("fmadd.ps f4, f4, f5, f1");
    V("feq.ps f2, f4, f4");
    V("fcmov.ps f0, f2, f4, f1");
}

// e^x; 3 ulp over the whole range.
static inline void v_exp(void)
{
    V_BCAST("f1", V_LOG2E);
    V("fmul.ps f2, f0, f1");
    V("fexp.ps f3, f2");
    // What rounding the product lost: e^x = 2^t * e^(x - t ln 2), and the exponent left is tiny.
    V_BCAST("f4", V_LN2);
    V("fnmsub.ps f5, f2, f4, f0");
    V_BCAST("f4", V_LN2_REST);
    V("fnmsub.ps f5, f2, f4, f5");
    V("fmadd.ps f5, f3, f5, f3");
    // Outside, 2^t is inf or zero already and the rest would be NaN.
    V("fsgnjx.ps f1, f0, f0");
    V_BCAST("f4", 88.72f);
    V("flt.ps f1, f1, f4");
    V("fcmov.ps f0, f1, f5, f3");
}

// e^x for weights, x <= 0: absolute error below 2^-23; relative error grows as |x| * 2^-23. Changes f0, f1.
static inline void v_exp_weight(void)
{
    V_BCAST("f1", V_LOG2E);
    V("fmul.ps f0, f0, f1");
    V("fexp.ps f0, f0");
}

// ln x; 4 ulp. Zero gives -inf, negative gives NaN.
static inline void v_log(void)
{
    V("flog.ps f0, f0");
    V_BCAST("f1", V_LN2);
    V("fmul.ps f0, f0, f1");
}

// e^x - 1; 5 ulp, also near zero.
static inline void v_expm1(void)
{
    V("fsgnj.ps f6, f0, f0");
    v_exp();
    V_BCAST("f1", 1.0f);
    V("fsub.ps f0, f0, f1");
    // |x| < 0.5: x + x^2 * P(x).
    V_BCAST("f1", 0.000198500071f);
    V_BCAST("f2", 0.00139961892f);
    V("fmadd.ps f1, f1, f6, f2");
    V_BCAST("f2", 0.00833357871f);
    V("fmadd.ps f1, f1, f6, f2");
    V_BCAST("f2", 0.0416653566f);
    V("fmadd.ps f1, f1, f6, f2");
    V_BCAST("f2", 0.166666642f);
    V("fmadd.ps f1, f1, f6, f2");
    V_BCAST("f2", 0.5f);
    V("fmadd.ps f1, f1, f6, f2");
    V("fmul.ps f3, f6, f6");
    V("fmadd.ps f1, f1, f3, f6");
    V("fsgnjx.ps f3, f6, f6");
    V("flt.ps f3, f3, f2");
    V("fcmov.ps f0, f3, f1, f0");
}

// ln(1 + x) for x >= 0; 8 ulp, also near zero.
static inline void v_log1p(void)
{
    // The sum u is rounded, but ln(u) / (u - 1) hardly changes between u and 1 + x: the quotient times x is right.
    V_BCAST("f1", 1.0f);
    V("fadd.ps f2, f0, f1");
    V("fsub.ps f3, f2, f1");
    V("flog.ps f2, f2");
    V("frcp.ps f4, f3");
    V_BCAST("f1", V_LN2);
    V("fmul.ps f2, f2, f1");
    V("fmul.ps f5, f0, f4");
    V("fmul.ps f5, f2, f5");
    // x too small to change the sum is the result itself; above 2^64 the quotient is 1, and its reciprocal may be lost.
    V_BCAST("f4", 0x1p64f);
    V("flt.ps f4, f0, f4");
    V("fcmov.ps f2, f4, f5, f2");
    V("fcmov.ps f0, f3, f2, f0");
}

// ln(1 + e^x); 8 ulp.
static inline void v_softplus(void)
{
    // max(x, 0) + ln(1 + e^-|x|)
    V("fsgnj.ps f6, f0, f0");
    V("fsgnjx.ps f0, f0, f0");
    V("fsgnjn.ps f0, f0, f0");
    v_exp();
    v_log1p();
    V_BCAST_BITS("f1", 0);
    V("fmax.ps f6, f6, f1");
    V("fadd.ps f0, f0, f6");
}

// 1 / (1 + e^-x); absolute error below 2^-23; the relative error grows as |x| * 2^-23 below zero. Changes f0, f1.
static inline void v_sigmoid(void)
{
    V_BCAST("f1", -V_LOG2E);
    V("fmul.ps f0, f0, f1");
    V("fexp.ps f0, f0");
    V_BCAST("f1", 1.0f);
    V("fadd.ps f0, f0, f1");
    V("frcp.ps f0, f0");
}

// x / (1 + e^-x). Changes f0-f2.
static inline void v_silu(void)
{
    V("fsgnj.ps f2, f0, f0");
    v_sigmoid();
    V("fmul.ps f0, f0, f2");
}

// tanh x; 3 ulp, also near zero.
static inline void v_tanh(void)
{
    // |x| >= 0.55: 1 - 2 / (1 + e^2|x|), with the sign of x.
    V("fsgnjx.ps f1, f0, f0");
    V_BCAST("f2", 2.0f * V_LOG2E);
    V("fmul.ps f2, f1, f2");
    V("fexp.ps f2, f2");
    V_BCAST("f3", 1.0f);
    V("fadd.ps f2, f2, f3");
    V("frcp.ps f2, f2");
    V_BCAST("f4", -2.0f);
    V("fmadd.ps f2, f2, f4, f3");
    V("fsgnj.ps f2, f2, f0");
    // Below: x + x^3 * P(x^2).
    V("fmul.ps f3, f0, f0");
    V_BCAST("f4", 0.0164373331f);
    V_BCAST("f5", -0.0526716635f);
    V("fmadd.ps f4, f4, f3, f5");
    V_BCAST("f5", 0.133207217f);
    V("fmadd.ps f4, f4, f3, f5");
    V_BCAST("f5", -0.333329469f);
    V("fmadd.ps f4, f4, f3, f5");
    V("fmul.ps f3, f3, f0");
    V("fmadd.ps f4, f4, f3, f0");
    V_BCAST("f5", 0.55f);
    V("fle.ps f5, f5, f1");
    V("fcmov.ps f0, f5, f2, f4");
}

// erf x; 2 ulp, also near zero.
static inline void v_erf(void)
{
    // |x| >= 1: 1 - 2^-P(|x|), with the sign of x; from 4 on that is 1.
    V("fsgnjx.ps f1, f0, f0");
    V_BCAST("f2", 4.0f);
    V("fmin.ps f2, f1, f2");
    V_BCAST("f3", 0.000267719792f);
    V_BCAST("f4", -0.00424089888f);
    V("fmadd.ps f3, f3, f2, f4");
    V_BCAST("f4", 0.0314582326f);
    V("fmadd.ps f3, f3, f2, f4");
    V_BCAST("f4", -0.148651183f);
    V("fmadd.ps f3, f3, f2, f4");
    V_BCAST("f4", -0.920765281f);
    V("fmadd.ps f3, f3, f2, f4");
    V_BCAST("f4", -1.62597489f);
    V("fmadd.ps f3, f3, f2, f4");
    V_BCAST("f4", -0.000510329846f);
    V("fmadd.ps f3, f3, f2, f4");
    V("fexp.ps f3, f3");
    V_BCAST("f2", 1.0f);
    V("fsub.ps f3, f2, f3");
    V("fsgnj.ps f3, f3, f0");
    // Below: x + x * P(x^2).
    V("fmul.ps f4, f0, f0");
    V_BCAST("f5", -0.000563141657f);
    V_BCAST("f6", 0.0049175499f);
    V("fmadd.ps f5, f5, f4, f6");
    V_BCAST("f6", -0.0267113093f);
    V("fmadd.ps f5, f5, f4, f6");
    V_BCAST("f6", 0.112801798f);
    V("fmadd.ps f5, f5, f4, f6");
    V_BCAST("f6", -0.37612325f);
    V("fmadd.ps f5, f5, f4, f6");
    V_BCAST("f6", 0.128379121f);
    V("fmadd.ps f5, f5, f4, f6");
    V("fmadd.ps f5, f5, f0, f0");
    V("fle.ps f1, f2, f1");
    V("fcmov.ps f0, f1, f3, f5");
}

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), as x * sigmoid of twice the argument. Changes f0-f2.
static inline void v_gelu(void)
{
    V("fsgnj.ps f2, f0, f0");
    V("fmul.ps f1, f0, f0");
    V_BCAST("f0", 2.0f * 0.797884561f * 0.044715f);
    V("fmul.ps f0, f0, f1");
    V_BCAST("f1", 2.0f * 0.797884561f);
    V("fadd.ps f0, f0, f1");
    V("fmul.ps f0, f0, f2");
    v_sigmoid();
    V("fmul.ps f0, f0, f2");
}

// x * sigmoid(1.702 x). Changes f0-f2.
static inline void v_gelu_quick(void)
{
    V("fsgnj.ps f2, f0, f0");
    V_BCAST("f1", 1.702f);
    V("fmul.ps f0, f0, f1");
    v_sigmoid();
    V("fmul.ps f0, f0, f2");
}

// x/2 * (1 + erf(x / sqrt 2)).
static inline void v_gelu_erf(void)
{
    V("fsgnj.ps f7, f0, f0");
    V_BCAST("f1", 0.707106781f);
    V("fmul.ps f0, f0, f1");
    v_erf();
    V_BCAST("f1", 0.5f);
    V("fmul.ps f1, f7, f1");
    V("fmadd.ps f0, f0, f1, f1");
}

#endif
