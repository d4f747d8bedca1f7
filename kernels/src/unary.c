// UNARY: one function of one element.
#include "et_elementwise.h"
#include "et_math.h"

// Functions that are not in et_math.h: f0 to f0, changing f0-f8.

static inline void v_abs(void)
{
    V("fsgnjx.ps f0, f0, f0");
}

static inline void v_neg(void)
{
    V("fsgnjn.ps f0, f0, f0");
}

static inline void v_sgn(void)
{
    V_BCAST_BITS("f1", 0);
    V_BCAST("f2", 1.0f);
    V_BCAST("f3", -1.0f);
    V("flt.ps f4, f1, f0");
    V("flt.ps f5, f0, f1");
    V("fand.pi f2, f2, f4");
    V("fand.pi f3, f3, f5");
    V("for.pi f0, f2, f3");
}

static inline void v_step(void)
{
    V_BCAST_BITS("f1", 0);
    V_BCAST("f2", 1.0f);
    V("flt.ps f0, f1, f0");
    V("fand.pi f0, f0, f2");
}

static inline void v_relu(void)
{
    V_BCAST_BITS("f1", 0);
    V("fmax.ps f0, f0, f1");
}

static inline void v_elu(void)
{
    V("fsgnj.ps f7, f0, f0");
    v_expm1();
    V_BCAST_BITS("f1", 0);
    V("flt.ps f1, f1, f7");
    V("fcmov.ps f0, f1, f7, f0");
}

// min(1, max(0, x/6 + 1/2))
static inline void v_hardsigmoid(void)
{
    V_BCAST("f1", 1.0f / 6.0f);
    V_BCAST("f2", 0.5f);
    V("fmadd.ps f0, f0, f1, f2");
    V_BCAST_BITS("f1", 0);
    V_BCAST("f2", 1.0f);
    V("fmax.ps f0, f0, f1");
    V("fmin.ps f0, f0, f2");
}

static inline void v_hardswish(void)
{
    V("fsgnj.ps f3, f0, f0");
    v_hardsigmoid();
    V("fmul.ps f0, f0, f3");
}

static inline void v_floor(void)
{
    V("fround.ps f0, f0, rdn");
}

static inline void v_ceil(void)
{
    V("fround.ps f0, f0, rup");
}

static inline void v_trunc(void)
{
    V("fround.ps f0, f0, rtz");
}

// Ties away from zero.
static inline void v_round(void)
{
    V("fround.ps f0, f0, rmm");
}

// f20-f23: alpha_n, alpha_p, beta, eps.
// x > 0: alpha_p x^2 + beta x; else (e^min(x, eps) - 1 - x) alpha_n + beta x.
static inline void v_xielu(void)
{
    V("fsgnj.ps f7, f0, f0");
    V("fmin.ps f0, f0, f23");
    v_expm1();
    V("fsub.ps f0, f0, f7");
    V("fmul.ps f0, f0, f20");
    V("fmul.ps f1, f7, f7");
    V("fmul.ps f1, f1, f21");
    V_BCAST_BITS("f2", 0);
    V("flt.ps f2, f2, f7");
    V("fcmov.ps f0, f2, f1, f0");
    V("fmadd.ps f0, f7, f22, f0");
}

#define UNARY(name)                                                                                                    \
    static void name##_piece(const struct et_piece *p)                                                                 \
    {                                                                                                                  \
        et_each1(p, 0, v_##name);                                                                                      \
    }

UNARY(abs)
UNARY(sgn)
UNARY(neg)
UNARY(step)
UNARY(tanh)
UNARY(elu)
UNARY(relu)
UNARY(sigmoid)
UNARY(gelu)
UNARY(gelu_quick)
UNARY(silu)
UNARY(hardswish)
UNARY(hardsigmoid)
UNARY(exp)
UNARY(expm1)
UNARY(softplus)
UNARY(gelu_erf)
UNARY(floor)
UNARY(ceil)
UNARY(round)
UNARY(trunc)

static void xielu_piece(const struct et_piece *p)
{
    const float *arg = p->cmd->params.unary.arg;
    V_BCAST("f20", arg[0]);
    V_BCAST("f21", arg[1]);
    V_BCAST("f22", arg[2]);
    V_BCAST("f23", arg[3]);
    et_each1(p, 0, v_xielu);
}

et_piece_fn *et_unary_piece(const struct et_command *cmd)
{
    switch (cmd->params.unary.op) {
    case ET_ABS:
        return abs_piece;
    case ET_SGN:
        return sgn_piece;
    case ET_NEG:
        return neg_piece;
    case ET_STEP:
        return step_piece;
    case ET_TANH:
        return tanh_piece;
    case ET_ELU:
        return elu_piece;
    case ET_RELU:
        return relu_piece;
    case ET_SIGMOID:
        return sigmoid_piece;
    case ET_GELU:
        return gelu_piece;
    case ET_GELU_QUICK:
        return gelu_quick_piece;
    case ET_SILU:
        return silu_piece;
    case ET_HARDSWISH:
        return hardswish_piece;
    case ET_HARDSIGMOID:
        return hardsigmoid_piece;
    case ET_EXP:
        return exp_piece;
    case ET_EXPM1:
        return expm1_piece;
    case ET_SOFTPLUS:
        return softplus_piece;
    case ET_GELU_ERF:
        return gelu_erf_piece;
    case ET_XIELU:
        return xielu_piece;
    case ET_FLOOR:
        return floor_piece;
    case ET_CEIL:
        return ceil_piece;
    case ET_ROUND:
        return round_piece;
    case ET_TRUNC:
        return trunc_piece;
    default:
        return 0;
    }
}

uint32_t et_unary(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_elementwise(cmd, grid);
}
