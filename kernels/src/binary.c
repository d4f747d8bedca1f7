// ADD, SUB, MUL, DIV; the second source is repeated.
#include "et_elementwise.h"
#include "et_math.h"

// Four groups at a time while that many are left; `first` counts the elements done.
#define STREAM(insn)                                                                                                   \
    do {                                                                                                               \
        uint64_t a = p->src[0], b = p->src[1], d = p->dst;                                                             \
        if (p->src_step[1] == 0) {                                                                                     \
            V_LOAD_BCAST("f4", b, 0);                                                                                  \
            V("fsgnj.ps f5, f4, f4");                                                                                  \
            V("fsgnj.ps f6, f4, f4");                                                                                  \
            V("fsgnj.ps f7, f4, f4");                                                                                  \
        }                                                                                                              \
        for (; p->n - first >= 32; first += 32, a += 128, b += 128, d += 128) {                                        \
            V_LOAD("f0", a, 0);                                                                                        \
            V_LOAD("f1", a, 32);                                                                                       \
            V_LOAD("f2", a, 64);                                                                                       \
            V_LOAD("f3", a, 96);                                                                                       \
            if (p->src_step[1]) {                                                                                      \
                V_LOAD("f4", b, 0);                                                                                    \
                V_LOAD("f5", b, 32);                                                                                   \
                V_LOAD("f6", b, 64);                                                                                   \
                V_LOAD("f7", b, 96);                                                                                   \
            }                                                                                                          \
            V(insn " f0, f0, f4");                                                                                     \
            V(insn " f1, f1, f5");                                                                                     \
            V(insn " f2, f2, f6");                                                                                     \
            V(insn " f3, f3, f7");                                                                                     \
            V_STORE("f0", d, 0);                                                                                       \
            V_STORE("f1", d, 32);                                                                                      \
            V_STORE("f2", d, 64);                                                                                      \
            V_STORE("f3", d, 96);                                                                                      \
        }                                                                                                              \
    } while (0)

#define SIMPLE(name, insn)                                                                                             \
    static inline void name##_lanes(void)                                                                              \
    {                                                                                                                  \
        V(insn " f0, f0, f8");                                                                                         \
    }                                                                                                                  \
    static void name(const struct et_piece *p)                                                                         \
    {                                                                                                                  \
        uint32_t first = 0;                                                                                            \
        if (p->fast)                                                                                                   \
            STREAM(insn);                                                                                              \
        if (first < p->n)                                                                                              \
            et_each2(p, first, name##_lanes);                                                                          \
    }

SIMPLE(add, "fadd.ps")
SIMPLE(sub, "fsub.ps")
SIMPLE(mul, "fmul.ps")

static inline void div_lanes(void)
{
    V("fsgnj.ps f1, f8, f8");
    v_div();
}

static void divide(const struct et_piece *p)
{
    et_each2(p, 0, div_lanes);
}

et_piece_fn *et_binary_piece(const struct et_command *cmd)
{
    switch (cmd->params.binary.op) {
    case ET_ADD:
        return add;
    case ET_SUB:
        return sub;
    case ET_MUL:
        return mul;
    case ET_DIV:
        return divide;
    default:
        return 0;
    }
}

uint32_t et_binary(const struct et_command *cmd, const struct et_grid *grid)
{
    // A sum that a norm follows in its group is done row by row.
    if (cmd->group > 1 && cmd[1].kernel == ET_KERNEL_RMS_NORM)
        return et_rms_norm(cmd, grid);
    return et_elementwise(cmd, grid);
}
