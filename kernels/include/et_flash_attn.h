// FLASH_ATTN_EXT's plan, and what its two source files share. src/flash_attn.c says how it works.
#ifndef ET_FLASH_ATTN_H
#define ET_FLASH_ATTN_H

#include "et_attention.h"
#include "et_kv.h"

#define TILE        64u // keys
#define TILE_BYTES  (TILE * 4)
#define ROWS_MAX    64u    // rows of a block
#define STAGE_BYTES 16384u // K or V on their way to the tensor unit
#define SPLIT_KEYS  32u    // least keys of a range
#define SPLITS_MAX  256u
#define NO_MAXIMUM  0xFF7FFFFFu // -FLT_MAX: unlike -inf it can be subtracted from itself

// One row's running state.
struct row {
    uint64_t mask;    // address of its mask row, or 0
    uint32_t slope;   // F32
    uint32_t maximum; // F32
};

// The minion's scratchpad (both harts' parts). Behind it: rows of Q, rows of O, rows of S.
struct scratch {
    uint8_t stage[STAGE_BYTES];
    float sums[ROWS_MAX][8]; // each row's sum of weights, still in 8 parts
    float mask[TILE];        // a row of the mask as F32, even and odd keys of each 16 apart
    struct row rows[ROWS_MAX];
};
#define ROWS_BYTES (2 * ET_SCRATCH_BYTES - (uint32_t)sizeof(struct scratch))
_Static_assert(sizeof(struct scratch) % 64 == 0, "rows of Q start on a line");

struct attention {
    const struct et_command *cmd;
    const struct et_tensor *q, *k, *v, *mask, *sinks, *dst;
    uint32_t dk, dv;           // elements of a head
    uint32_t q_pitch, o_pitch; // bytes of a staged row
    uint32_t heads;            // that share K and V
    uint32_t groups;           // of such heads
    uint32_t all_rows;         // tokens times heads
    uint32_t block;            // rows of a block
    uint32_t blocks;           // in all_rows
    uint32_t units;
    uint32_t keys;   // of a range
    uint32_t splits; // ranges
    struct scratch *scratch;
    uint64_t q_rows, o_rows, s_rows;
};

// A block of rows with a range of keys.
struct unit {
    uint32_t rows;
    uint32_t first_row; // of all_rows
    uint32_t first_head;
    uint32_t i3;
    uint64_t k, v; // key 0
    uint32_t begin, end;
    uint32_t split;
};

static inline uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

// Evicts, or fetches to L2, `bytes` of each of `rows` rows, `stride` bytes apart.
#define ROWS_OPERATION(name, csr, one, dest)                                                                           \
    static inline void name(uint64_t addr, uint64_t stride, uint32_t rows, uint64_t bytes)                             \
    {                                                                                                                  \
        if (stride % ET_LINE) {                                                                                        \
            for (; rows; --rows, addr += stride)                                                                       \
                one(addr, bytes, dest);                                                                                \
            return;                                                                                                    \
        }                                                                                                              \
        register uint64_t x31 __asm__("x31") = stride;                                                                 \
        for (uint64_t line = addr & ~63ull; line < addr + bytes; line += ET_LINE) {                                    \
            uint64_t at = line;                                                                                        \
            for (uint32_t left = rows, n; left; left -= n, at += n * stride) {                                         \
                n = left < 16 ? left : 16;                                                                             \
                __asm__ volatile("csrw " csr ", %0" ::"r"((uint64_t)(dest) << 58 | at | (n - 1)), "r"(x31)             \
                                 : "memory");                                                                          \
            }                                                                                                          \
        }                                                                                                              \
    }
ROWS_OPERATION(evict_rows, "evict_va", et_evict, 2)
ROWS_OPERATION(prefetch_rows, "prefetch_va", et_prefetch, 1)
#undef ROWS_OPERATION

// f24 = factor of a row of O. f19: maximum, f23: sum of weights, both in all lanes; a sink takes its share of the sum.
void et_flash_attn_factor(const struct attention *a, uint32_t head);

// A row of O at `o` times f24 to dst.
void et_flash_attn_store(const struct attention *a, uint64_t o, uint64_t dst);

// Does everything, if rows are so few that several minions share each; false: nothing done. src/flash_attn_row.c.
bool et_flash_attn_rows(const struct attention *a, const struct et_grid *grid);

// The three steps for `count` keys from `key` on; nothing when the mask hides them from all rows.
void et_flash_attn_tile(const struct attention *a, const struct unit *u, uint32_t key, uint32_t count);

#endif
