// The command loop: every hart of the launch runs the same list, and all meet where the list says so and at its end.
#include "et_ahead.h"

struct et_env {
    uint32_t version;
    uint32_t reserved;
    uint64_t shire_mask;
    uint32_t mhz;
};

// Credit counter 0 and this local barrier belong to et_barrier; kernels use counter 1 and barriers from 1.
#define LOOP_FLB 0

static inline uint64_t hart_id(void)
{
    uint64_t id;
    __asm__ volatile("csrr %0, hartid" : "=r"(id));
    return id;
}

static inline uint64_t cycles(void)
{
    uint64_t c;
    __asm__ volatile("csrr %0, hpmcounter3" : "=r"(c));
    return c;
}

// Tells whoever watches which command this hart is in, counted from 1; 0 outside. The register does nothing on the chip.
static inline void mark(uint64_t command)
{
    __asm__ volatile("csrw validation3, %0" ::"r"(command));
}

// Gives a credit of counter 0 to all 64 harts of a shire whose first credit register is `reg`.
static inline void credit_shire(uint64_t reg)
{
    *ET_PTR(volatile uint64_t, reg) = 0xFFFFFFFF;      // harts 0
    *ET_PTR(volatile uint64_t, reg + 16) = 0xFFFFFFFF; // harts 1
}

// The same to all shires of a mask. Four at a time: a taken branch costs as much as the stores for one of them, and
// everybody waits.
static void credit_shires(uint64_t mask)
{
    const uint64_t pitch = 1ull << 22;
    for (uint64_t reg = 0x1003400C0ull; mask; mask >>= 4, reg += 4 * pitch) {
        if (mask & 1)
            credit_shire(reg);
        if (mask & 2)
            credit_shire(reg + pitch);
        if (mask & 4)
            credit_shire(reg + 2 * pitch);
        if (mask & 8)
            credit_shire(reg + 3 * pitch);
    }
}

// The last hart of a shire counts its shire in; the last shire resets the counter and releases everybody. Waiting on a
// credit costs the minion's other hart nothing, unlike polling.
void et_barrier(const struct et_grid *grid)
{
    uint64_t last, counter = grid->barrier;
    et_fence();
    __asm__ volatile("csrrw %0, flb, %1" : "=r"(last) : "r"(63ull << 5 | LOOP_FLB) : "memory");
    if (last) {
        uint64_t arrived = 0;
        if (grid->shires > 1)
            __asm__ volatile("amoaddg.w %0, %1, (%2)" : "=r"(arrived) : "r"(1), "r"(counter) : "memory");
        if (arrived == grid->shires - 1) {
            if (grid->shires > 1)
                __asm__ volatile("amoswapg.w %0, x0, (%1)" : "=r"(arrived) : "r"(counter) : "memory");
            et_fence();
            credit_shires(grid->shire_mask);
        }
    }
    __asm__ volatile("csrwi fcc, 0" ::: "memory");
}

// The time at which `reached` commands have been done, for those that had no time yet.
static uint64_t stamp(volatile uint64_t *stamps, uint64_t stamped, uint64_t reached)
{
    uint64_t now = cycles();
    for (; stamps && stamped <= reached; ++stamped)
        stamps[stamped] = now;
    return stamped;
}

// The first failure wins; later commands still run, so that no barrier is left short.
static void report(uint64_t status, uint64_t index, uint32_t code)
{
    register uint64_t expected __asm__("x31") = 0;
    uint64_t old;
    uint64_t value = (uint64_t)code << 32 | (uint32_t)(index + 1);
    __asm__ volatile("amocmpswapg.d %0, %1, (%2)" : "=r"(old) : "r"(value), "r"(status), "r"(expected) : "memory");
}

static uint32_t run(const struct et_command *cmd, const struct et_grid *grid)
{
    switch (cmd->kernel) {
    case ET_KERNEL_BINARY: return et_binary(cmd, grid);
    case ET_KERNEL_UNARY: return et_unary(cmd, grid);
    case ET_KERNEL_GLU: return et_glu(cmd, grid);
    case ET_KERNEL_SCALE: return et_scale(cmd, grid);
    case ET_KERNEL_CLAMP: return et_clamp(cmd, grid);
    case ET_KERNEL_SUM_ROWS: return et_sum_rows(cmd, grid);
    case ET_KERNEL_RMS_NORM: return et_rms_norm(cmd, grid);
    case ET_KERNEL_GET_ROWS: return et_get_rows(cmd, grid);
    case ET_KERNEL_SET_ROWS: return et_set_rows(cmd, grid);
    case ET_KERNEL_COPY: return et_copy(cmd, grid);
    case ET_KERNEL_MUL_MAT_VEC: return et_mul_mat_vec(cmd, grid);
    case ET_KERNEL_MUL_MAT_TILE: return et_mul_mat_tile(cmd, grid);
    case ET_KERNEL_ROPE: return et_rope(cmd, grid);
    case ET_KERNEL_SOFT_MAX: return et_soft_max(cmd, grid);
    case ET_KERNEL_FLASH_ATTN: return et_flash_attn(cmd, grid);
    default: return ET_BAD_KERNEL;
    }
}

int64_t et_main(const struct et_launch *launch, const struct et_env *env)
{
    uint64_t hart = hart_id();
    uint64_t mask = env->shire_mask & 0xFFFFFFFF;
    uint32_t shire = (uint32_t)(hart >> 6), rank = 0, shires = 0;
    for (uint32_t s = 0; s < 32; ++s) {
        if (mask >> s & 1) {
            rank += s < shire;
            ++shires;
        }
    }
    uint32_t lane = (uint32_t)(hart >> 1 & 31), thread = (uint32_t)(hart & 1);
    struct et_grid grid = {
        .rank = rank * 64 + thread * 32 + lane,
        .harts = shires * 64,
        .minion = rank * 32 + lane,
        .minions = shires * 32,
        .thread = thread,
        .shire = rank,
        .shires = shires,
        .lane = lane,
        .scratch = ET_SCRATCH_BASE + (hart & 63) * ET_SCRATCH_BYTES,
        .barrier = launch->barrier,
        .shire_mask = mask,
    };
    volatile uint64_t *stamps = grid.rank == 0 ? ET_PTR(volatile uint64_t, launch->timestamps) : 0;
    uint64_t stamped = 0, next = 0;
    struct et_ahead ahead;
    if (thread == 1)
        et_ahead_begin(&ahead, launch, &grid);
    while (next < launch->count) {
        const struct et_command *cmd = ET_PTR(const struct et_command, launch->commands) + next;
        mark(0);
        if (cmd->flags & ET_MEET)
            et_barrier(&grid);
        stamped = stamp(stamps, stamped, next);
        mark(next + 1);
        uint32_t code = run(cmd, &grid);
        if (code)
            report(launch->status, next, code);
        if (thread == 1)
            et_ahead_done(&ahead, cmd, &grid);
        et_fence();
        next += et_members(cmd);
    }
    mark(0);
    et_barrier(&grid);
    stamp(stamps, stamped, next);
    return 0;
}
