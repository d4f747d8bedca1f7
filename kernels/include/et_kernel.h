// What every kernel starts from: who am I, which part of the work is mine, how inputs are read fresh and outputs
// published. kernels/README.md states the convention; facts: ISA sheet sections 4 to 7.
#ifndef ET_KERNEL_H
#define ET_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include "et_command.h"

// L2 scratchpad that one hart may use between entry and return of a kernel: its shire's scratchpad, divided evenly.
// 2 MiB is the least that any board configuration leaves.
#define ET_SCRATCH_BYTES (2u * 1024u * 1024u / 64u)
#define ET_SCRATCH_BASE 0xBF800000ull // direct format, own shire

enum { ET_OK = 0, ET_BAD_KERNEL = 1, ET_BAD_TYPE = 2, ET_BAD_OP = 3, ET_BAD_INDEX = 4 };

// The harts of a launch, and this one's place among them. Ranks run over the shires of the launch's mask: no shire
// count and no shire number is built in. Within a shire the 32 first ranks are the minions' harts 0.
struct et_grid {
    uint32_t rank;    // 0 .. harts-1
    uint32_t harts;
    uint32_t minion;  // 0 .. minions-1, over all shires of the launch
    uint32_t minions;
    uint32_t thread;  // 0: may use the tensor unit; 1: may not
    uint32_t shire;   // 0 .. shires-1
    uint32_t shires;
    uint32_t lane;    // minion within its shire, 0 .. 31
    uint64_t scratch; // this hart's ET_SCRATCH_BYTES of scratchpad (address); both harts' parts of a minion adjoin
    uint64_t barrier; // et_barrier's counter
    uint64_t shire_mask;
};

// Waits for every hart of the launch. The command loop does so after each command; a kernel in several phases may do it
// between them, provided that all harts do it equally often.
void et_barrier(const struct et_grid *grid);

typedef uint32_t et_kernel_fn(const struct et_command *cmd, const struct et_grid *grid);

// Commands that a call of cmd's kernel does.
static inline uint32_t et_members(const struct et_command *cmd)
{
    return cmd->group > 1 ? cmd->group : 1;
}

// The command after those.
static inline const struct et_command *et_group_end(const struct et_command *cmd)
{
    return cmd + et_members(cmd);
}

struct et_range {
    uint64_t begin;
    uint64_t end;
};

// This hart's share of `count` items, dealt in runs of `unit` items so that no run is cut.
static inline struct et_range et_share(uint64_t count, uint32_t unit, uint32_t rank, uint32_t ranks)
{
    uint64_t units = (count + unit - 1) / unit;
    struct et_range r = {units * rank / ranks * unit, units * (rank + 1) / ranks * unit};
    if (r.end > count)
        r.end = count;
    return r;
}

// Rows of dst (flattened over dimensions 1..3) that this hart computes; begin == end when it has none.
static inline struct et_range et_rows(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *d = &cmd->dst;
    return et_share((uint64_t)d->ne[1] * d->ne[2] * d->ne[3], cmd->row_unit, grid->rank, grid->harts);
}

// A hart's rank where a command deals little work: turned on from command to command, so that what runs side by side
// falls to different harts.
static inline uint32_t et_turned(const struct et_command *cmd, const struct et_grid *grid)
{
    uint32_t rank = grid->rank + (uint32_t)((uintptr_t)cmd / sizeof *cmd % 16) * (grid->harts / 16);
    return rank < grid->harts ? rank : rank - grid->harts;
}

// The three outer indices of a flattened row.
struct et_index {
    uint32_t i1, i2, i3;
};

static inline struct et_index et_unflatten(const struct et_tensor *t, uint64_t row)
{
    struct et_index i;
    uint64_t outer = row / t->ne[1];
    i.i1 = (uint32_t)(row - outer * t->ne[1]);
    i.i3 = (uint32_t)(outer / t->ne[2]);
    i.i2 = (uint32_t)(outer - (uint64_t)i.i3 * t->ne[2]);
    return i;
}

static inline void et_next_row(const struct et_tensor *t, struct et_index *i)
{
    if (++i->i1 < t->ne[1])
        return;
    i->i1 = 0;
    if (++i->i2 < t->ne[2])
        return;
    i->i2 = 0;
    ++i->i3;
}

static inline uint64_t et_row(const struct et_tensor *t, uint32_t i1, uint32_t i2, uint32_t i3)
{
    return t->addr + i1 * t->nb[1] + i2 * t->nb[2] + i3 * t->nb[3];
}

static inline void et_fence(void)
{
    __asm__ volatile("fence" ::: "memory");
}

// Cache operations on the lines of [addr, addr + bytes): dest 1 = to L2 and out of L1, 2 = to L3 and out of L1 and L2.
// At most 16 lines an instruction; the stride goes in x31.
static inline void et_evict(uint64_t addr, uint64_t bytes, uint64_t dest)
{
    if (bytes == 0)
        return;
    uint64_t line = addr & ~63ull;
    uint64_t lines = ((addr + bytes + 63) >> 6) - (addr >> 6);
    register uint64_t stride __asm__("x31") = 64;
    while (lines) {
        uint64_t n = lines < 16 ? lines : 16;
        __asm__ volatile("csrw evict_va, %0" ::"r"(dest << 58 | line | (n - 1)), "r"(stride) : "memory");
        line += n * 64;
        lines -= n;
    }
}

static inline void et_wait_cache(void)
{
    __asm__ volatile("csrwi tensor_wait, 6" ::: "memory");
}

// Starts bringing the lines of [addr, addr + bytes) to L1 (dest 0) or to this shire's L2 (dest 1), and goes on. Only for
// lines that this hart reads in the same command, after their refresh, or waits for with et_wait_prefetch: another copy
// may come too late to be dropped.
static inline void et_prefetch(uint64_t addr, uint64_t bytes, uint64_t dest)
{
    if (bytes == 0)
        return;
    uint64_t line = addr & ~63ull;
    uint64_t lines = ((addr + bytes + 63) >> 6) - (addr >> 6);
    register uint64_t stride __asm__("x31") = 64;
    while (lines) {
        uint64_t n = lines < 16 ? lines : 16;
        __asm__ volatile("csrw prefetch_va, %0" ::"r"(dest << 58 | line | (n - 1)), "r"(stride) : "memory");
        line += n * 64;
        lines -= n;
    }
}

static inline void et_wait_prefetch(void)
{
    __asm__ volatile("csrwi tensor_wait, 4" ::: "memory");
}

// Before reading an operand that an earlier command of this launch wrote: drops the copies that this hart's L1 and this
// shire's L2 may still hold. Nothing for what only the host writes.
static inline void et_refresh(const struct et_tensor *t, uint64_t addr, uint64_t bytes)
{
    if (t->flags & ET_REFRESH) {
        et_evict(addr, bytes, 2);
        et_wait_cache();
    }
}

// The same without waiting: et_wait_cache comes before the first read. True when there is something to wait for.
static inline bool et_start_refresh(const struct et_tensor *t, uint64_t addr, uint64_t bytes)
{
    bool stale = t->flags & ET_REFRESH;
    if (stale)
        et_evict(addr, bytes, 2);
    return stale;
}

// After writing lines that this hart alone writes: brings them to L3, where every reader finds them.
static inline void et_publish(uint64_t addr, uint64_t bytes)
{
    et_fence();
    et_evict(addr, bytes, 2);
    et_wait_cache();
}

// The same for scratchpad that the tensor unit or the minion's other hart reads next: to its home, which is L2.
static inline void et_publish_scratch(uint64_t addr, uint64_t bytes)
{
    et_fence();
    et_evict(addr, bytes, 1);
    et_wait_cache();
}

// A pointer into device memory.
#define ET_PTR(type, addr) ((type *)(uintptr_t)(addr))

static inline uint32_t et_bits(float f)
{
    uint32_t u;
    __builtin_memcpy(&u, &f, 4);
    return u;
}

static inline float et_float(uint32_t u)
{
    float f;
    __builtin_memcpy(&f, &u, 4);
    return f;
}

// Kernels, one per enum et_kernel.
et_kernel_fn et_binary, et_unary, et_glu, et_scale, et_clamp, et_sum_rows, et_rms_norm, et_get_rows, et_set_rows, et_copy,
    et_mul_mat_vec, et_mul_mat_tile, et_rope, et_soft_max, et_flash_attn;

#endif
