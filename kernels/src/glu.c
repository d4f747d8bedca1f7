// GLU: act(src0) * src1, the two halves of one tensor or two tensors.
#include "et_elementwise.h"
#include "et_math.h"

// The smaller (greater) of f and k, keeping a NaN in f, which fmin.ps and fmax.ps lose.
#define AT_MOST(f, k, t)                                                                                               \
    do {                                                                                                               \
        V("flt.ps " t ", " k ", " f);                                                                                  \
        V("fcmov.ps " f ", " t ", " k ", " f);                                                                         \
    } while (0)

#define AT_LEAST(f, k, t)                                                                                              \
    do {                                                                                                               \
        V("flt.ps " t ", " f ", " k);                                                                                  \
        V("fcmov.ps " f ", " t ", " k ", " f);                                                                         \
    } while (0)

// Zero where x is not positive, whatever the other factor is.
static inline void reglu_lanes(void)
{
    V_BCAST_BITS("f1", 0);
    V("flt.ps f1, f1, f0");
    V("fmul.ps f0, f0, f8");
    V("fand.pi f0, f0, f1");
}

static inline void geglu_lanes(void)
{
    v_gelu();
    V("fmul.ps f0, f0, f8");
}

static inline void geglu_erf_lanes(void)
{
    v_gelu_erf();
    V("fmul.ps f0, f0, f8");
}

static inline void geglu_quick_lanes(void)
{
    v_gelu_quick();
    V("fmul.ps f0, f0, f8");
}

static inline void swiglu_lanes(void)
{
    v_silu();
    V("fmul.ps f0, f0, f8");
}

// f20, f21: limit and -limit; f22: alpha. x * sigmoid(alpha x) * (y + 1)
static inline void swiglu_oai_lanes(void)
{
    AT_MOST("f0", "f20", "f1");
    AT_MOST("f8", "f20", "f1");
    AT_LEAST("f8", "f21", "f1");
    V("fsgnj.ps f2, f0, f0");
    V("fmul.ps f0, f0, f22");
    v_sigmoid();
    V("fmul.ps f0, f0, f2");
    V("fmadd.ps f0, f0, f8, f0");
}

static inline void swiglu_clamp_lanes(void)
{
    AT_MOST("f0", "f20", "f1");
    AT_MOST("f8", "f20", "f1");
    AT_LEAST("f8", "f21", "f1");
    swiglu_lanes();
}

static void reglu(const struct et_piece *p)
{
    et_each2(p, 0, reglu_lanes);
}

static void geglu(const struct et_piece *p)
{
    et_each2(p, 0, geglu_lanes);
}

static void geglu_erf(const struct et_piece *p)
{
    et_each2(p, 0, geglu_erf_lanes);
}

static void geglu_quick(const struct et_piece *p)
{
    et_each2(p, 0, geglu_quick_lanes);
}

// The one that most models use: four groups at a time hide the latency of e^x and 1/x.
static void swiglu(const struct et_piece *p)
{
    uint32_t first = 0;
    if (p->fast) {
        uint64_t a = p->src[0], b = p->src[1], d = p->dst;
        V_BCAST("f20", -V_LOG2E);
        V_BCAST("f21", 1.0f);
        for (; p->n - first >= 32; first += 32, a += 128, b += 128, d += 128) {
            V_LOAD("f0", a, 0);
            V_LOAD("f1", a, 32);
            V_LOAD("f2", a, 64);
            V_LOAD("f3", a, 96);
            V("fmul.ps f4, f0, f20");
            V("fmul.ps f5, f1, f20");
            V("fmul.ps f6, f2, f20");
            V("fmul.ps f7, f3, f20");
            V("fexp.ps f4, f4");
            V("fexp.ps f5, f5");
            V("fexp.ps f6, f6");
            V("fexp.ps f7, f7");
            V_LOAD("f22", b, 0);
            V_LOAD("f23", b, 32);
            V_LOAD("f24", b, 64);
            V_LOAD("f25", b, 96);
            V("fadd.ps f4, f4, f21");
            V("fadd.ps f5, f5, f21");
            V("fadd.ps f6, f6, f21");
            V("fadd.ps f7, f7, f21");
            V("frcp.ps f4, f4");
            V("frcp.ps f5, f5");
            V("frcp.ps f6, f6");
            V("frcp.ps f7, f7");
            V("fmul.ps f0, f0, f4");
            V("fmul.ps f1, f1, f5");
            V("fmul.ps f2, f2, f6");
            V("fmul.ps f3, f3, f7");
            V("fmul.ps f0, f0, f22");
            V("fmul.ps f1, f1, f23");
            V("fmul.ps f2, f2, f24");
            V("fmul.ps f3, f3, f25");
            V_STORE("f0", d, 0);
            V_STORE("f1", d, 32);
            V_STORE("f2", d, 64);
            V_STORE("f3", d, 96);
        }
    }
    if (first < p->n)
        et_each2(p, first, swiglu_lanes);
}

static void load_limits(const struct et_piece *p)
{
    const struct et_glu_params *params = &p->cmd->params.glu;
    V_BCAST("f20", params->limit);
    V_BCAST("f21", -params->limit);
    V_BCAST("f22", params->alpha);
}

static void swiglu_oai(const struct et_piece *p)
{
    load_limits(p);
    et_each2(p, 0, swiglu_oai_lanes);
}

static void swiglu_clamp(const struct et_piece *p)
{
    load_limits(p);
    et_each2(p, 0, swiglu_clamp_lanes);
}

et_piece_fn *et_glu_piece(const struct et_command *cmd)
{
    switch (cmd->params.glu.op) {
    case ET_REGLU:
        return reglu;
    case ET_GEGLU:
        return geglu;
    case ET_SWIGLU:
        return swiglu;
    case ET_SWIGLU_OAI:
        return swiglu_oai;
    case ET_GEGLU_ERF:
        return geglu_erf;
    case ET_GEGLU_QUICK:
        return geglu_quick;
    case ET_SWIGLU_CLAMP:
        return swiglu_clamp;
    default:
        return 0;
    }
}

uint32_t et_glu(const struct et_command *cmd, const struct et_grid *grid)
{
    return et_elementwise(cmd, grid);
}
