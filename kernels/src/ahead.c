// Fetching ahead: the image when a launch begins, the lines of commands, and weights of the next matrix products with
// few columns. Those read each weight once, so that without this the chip would wait for its DRAM in them, and the DRAM
// for the chip everywhere else.
#include "et_ahead.h"
#include "et_dequant.h"

// Commands whose lines are fetched together, each by one minion of a shire.
#define COMMANDS 16u
// Products whose weights are on their way or there, and of each how many lines a shire fetches at most: L2 has 8192.
#define PRODUCTS 2u
#define LINES    2048u
// Minions of a shire that fetch weights: every fourth. They are enough, and the others have less to do.
#define FETCHERS 8u

extern const char et_image_begin[], et_image_end[];

// One of `fetchers` shares of the lines from `begin` to before `end`; at most `most` lines of it.
static void fetch_share(uint64_t begin, uint64_t end, uint32_t share, uint32_t fetchers, uint64_t most)
{
    uint64_t line = begin >> 6, lines = ((end + 63) >> 6) - line;
    uint64_t first = lines * share / fetchers, count = lines * (share + 1) / fetchers - first;
    et_prefetch((line + first) << 6, (count < most ? count : most) << 6, 1);
}

// Rows begin .. end of a matrix of weights, if they adjoin.
static void fetch_rows(const struct et_tensor *w, uint64_t begin, uint64_t end, const struct et_grid *grid)
{
    uint64_t blocks = et_is_quantised(w->type) ? w->ne[0] / 32 : w->ne[0];
    if (end > w->ne[1])
        end = w->ne[1];
    if (begin < end && w->nb[1] == blocks * et_block_bytes(w->type))
        fetch_share(w->addr + begin * w->nb[1], w->addr + end * w->nb[1], grid->lane / (32 / FETCHERS), FETCHERS,
                    LINES / FETCHERS);
}

// Whether a call reads weights that are worth fetching: one matrix that only the host writes.
static bool is_product(const struct et_command *cmd)
{
    const struct et_tensor *w = &cmd->src[0];
    return cmd->kernel == ET_KERNEL_MUL_MAT_VEC && !(w->flags & ET_REFRESH) && w->ne[2] * w->ne[3] == 1;
}

// The rows that this shire takes of the products of a call.
static void fetch_weights(const struct et_command *cmd, const struct et_command *end, const struct et_grid *grid)
{
    // Products of plain weights, and those of a pair for a GLU, are dealt out one by one.
    bool quantised = et_is_quantised(cmd->src[0].type);
    if (!quantised || end[-1].kernel == ET_KERNEL_GLU) {
        uint32_t unit = quantised ? 16 : 4;
        for (; cmd != end; ++cmd) {
            if (!is_product(cmd))
                continue;
            struct et_range mine = et_share((cmd->src[0].ne[1] + unit - 1) / unit, 1, grid->shire, grid->shires);
            fetch_rows(&cmd->src[0], mine.begin * unit, mine.end * unit, grid);
        }
        return;
    }
    uint64_t strips = 0, before = 0;
    for (const struct et_command *c = cmd; c != end; ++c)
        strips += is_product(c) ? (c->src[0].ne[1] + 15) / 16 : 0;
    struct et_range mine = et_share(strips, 1, grid->shire, grid->shires);
    for (; cmd != end && before < mine.end; ++cmd) {
        if (!is_product(cmd))
            continue;
        uint64_t first = mine.begin > before ? mine.begin - before : 0;
        fetch_rows(&cmd->src[0], first * 16, (mine.end - before) * 16, grid);
        before += (cmd->src[0].ne[1] + 15) / 16;
    }
}

static void fetch(struct et_ahead *ahead, const struct et_command *cmd, const struct et_grid *grid)
{
    if (ahead->lines < ahead->end && cmd + COMMANDS >= ahead->lines) {
        const struct et_command *mine = ahead->lines + grid->lane;
        if (grid->lane < COMMANDS && mine < ahead->end)
            et_prefetch((uintptr_t)mine, sizeof *mine, 1);
        ahead->lines += COMMANDS;
    }
    if (grid->lane % (32 / FETCHERS))
        return;
    for (; ahead->products < PRODUCTS && ahead->next < ahead->end; ahead->next = et_group_end(ahead->next)) {
        if (is_product(ahead->next)) {
            fetch_weights(ahead->next, et_group_end(ahead->next), grid);
            ++ahead->products;
        }
    }
}

void et_ahead_begin(struct et_ahead *ahead, const struct et_launch *launch, const struct et_grid *grid)
{
    ahead->lines = ahead->next = ET_PTR(const struct et_command, launch->commands);
    ahead->end = ahead->next + launch->count;
    ahead->products = 0;
    fetch_share((uintptr_t)et_image_begin, (uintptr_t)et_image_end, grid->lane, 32, UINT64_MAX);
    fetch(ahead, ahead->next, grid);
}

void et_ahead_done(struct et_ahead *ahead, const struct et_command *cmd, const struct et_grid *grid)
{
    if (grid->lane % (32 / FETCHERS) == 0 && is_product(cmd))
        --ahead->products;
    fetch(ahead, et_group_end(cmd), grid);
}
