// MUL_MAT for many columns, on the tensor unit in F32: C(16 columns of src1 x 16 rows of src0) += A(columns x k) B(k x
// rows).
//
// dst is cut into tiles of 16 rows of src0 by 16 columns of src1. A minion takes a run of tiles, column tiles fastest,
// so that the tiles of one run share their weights: they are converted to F32 once, transposed by the tensor unit into
// lines of 16 rows at one k ("panel"), and used for every column tile. Activations are loaded from where they lie when
// their rows are whole lines of F32, and otherwise through a copy.
//
// When the panel of all of K does not fit, K is cut into chunks: the tiles' sums wait in scratchpad between chunks and
// return to C as the product of a unit matrix with them.
#include "et_dequant.h"
#include "et_mul_mat.h"
#include "et_tensor_unit.h"

// The minion's scratchpad (both harts' parts). A panel line is 16 weights at one k.
#define PANEL_K     640u
#define TILE_BYTES  1024u
#define SPILL_TILES 12u
struct scratch {
    uint8_t panel[PANEL_K * ET_LINE];
    uint8_t spill[SPILL_TILES * TILE_BYTES];
    uint8_t unit[TILE_BYTES];        // the unit matrix
    uint8_t stage[16 * PIECE_PITCH]; // rows on their way into the panel, columns of src1, or a tile on its way out
    uint8_t scales[2 * BLOCK_SCALES];
};
_Static_assert(sizeof(struct scratch) <= 2 * ET_SCRATCH_BYTES, "fits the minion's scratchpad");
#define SCRATCH(grid, field) ((grid)->scratch + offsetof(struct scratch, field))

struct problem {
    const struct et_grid *grid;
    const struct et_tensor *w, *x, *dst;
    const struct et_tensor *other, *sum; // what is added to the product, and where that goes; or 0
    uint32_t k;
    uint32_t chunk;  // elements of K at a time, a multiple of PIECE except when it is all of K
    uint32_t ratio2; // matrices of src1 per matrix of src0
    uint32_t ratio3;
    uint32_t tiles1; // column tiles of a matrix of src1
    bool direct;     // src1 can be loaded from where it lies
};

// A column tile: up to 16 columns of one matrix.
struct tile {
    uint64_t x;   // first column
    uint64_t dst; // its result for src0's row 0
    uint32_t columns;
};

// 16 rows of one matrix of src0.
struct strip {
    uint64_t addr;
    uint32_t first;
    uint32_t rows;
};

static struct strip find_strip(const struct problem *p, uint32_t matrix, uint32_t index)
{
    uint32_t i3 = matrix / p->w->ne[2], i2 = matrix - i3 * p->w->ne[2];
    struct strip s = {.first = index * 16, .rows = p->w->ne[1] - index * 16};
    if (s.rows > 16)
        s.rows = 16;
    s.addr = et_row(p->w, s.first, i2, i3);
    return s;
}

// Column tile `index` among those that multiply with matrix `matrix` of src0.
static struct tile find_tile(const struct problem *p, uint32_t matrix, uint32_t index)
{
    uint32_t i3 = matrix / p->w->ne[2], i2 = matrix - i3 * p->w->ne[2];
    uint32_t plane = index / p->tiles1, first = (index - plane * p->tiles1) * 16;
    i2 = i2 * p->ratio2 + plane % p->ratio2;
    i3 = i3 * p->ratio3 + plane / p->ratio2;
    struct tile t = {.columns = p->x->ne[1] - first};
    if (t.columns > 16)
        t.columns = 16;
    t.x = et_row(p->x, first, i2, i3);
    t.dst = et_row(p->dst, first, i2, i3);
    return t;
}

static void refresh_rows(const struct et_tensor *t, uint64_t addr, uint32_t rows, uint64_t bytes)
{
    if (!(t->flags & ET_REFRESH))
        return;
    for (; rows; --rows, addr += t->nb[1])
        et_evict(addr, bytes, 2);
    et_wait_cache();
}

// Transposes the staged piece and deals its lines out to the panel at `out`, where they lie in the order of K.
static void panel_piece(uint32_t type, uint64_t stage, uint32_t lines, uint64_t out)
{
    struct et_order order = et_order(type);
    for (uint32_t q = 0; q < lines; ++q) {
        uint32_t line = q % 3 * 16;
        if (q == 3)
            T_WAIT(T_EVENT_STORE);
        t_load(T_TRANSPOSE32 | T_TO_LINE(line) | (stage + q * 64) | T_ROWS(16), PIECE_PITCH);
        T_WAIT(T_EVENT_LOAD);
        for (uint32_t i = 0; i < 16 / order.run; ++i)
            t_store_lines(out + et_order_start(type, q, i) * ET_LINE, line + i * order.run, order.run,
                          order.step * ET_LINE);
    }
    T_WAIT(T_EVENT_STORE);
}

// Elements k .. k+n of the strip, as F32, into the panel.
static void fill_panel(const struct problem *p, const struct strip *s, uint32_t k, uint32_t n)
{
    uint32_t type = p->w->type, bytes = et_block_bytes(type);
    uint32_t elements = et_is_quantised(type) ? 32 : 1;
    uint64_t src = s->addr + (uint64_t)(k / elements) * bytes;
    uint64_t stage = SCRATCH(p->grid, stage), out = SCRATCH(p->grid, panel);
    refresh_rows(p->w, src, s->rows, (uint64_t)(n / elements) * bytes);
    T_WAIT(T_EVENT_FMA);
    for (uint32_t done = 0; done < n; done += PIECE) {
        uint32_t piece = n - done < PIECE ? n - done : PIECE;
        // The gathers' offsets are made again for each piece: C, which is f0-f31, was not theirs to keep them in.
        uint32_t offsets[16];
        for (uint32_t j = 0; j < 16; ++j)
            offsets[j] = (uint32_t)((j < s->rows ? j : s->rows - 1) * p->w->nb[1]);
        V_LOAD("f18", offsets, 0);
        V_LOAD("f19", offsets, 32);
        et_stage_piece(type, src, p->w->nb[1], s->rows, piece, stage, SCRATCH(p->grid, scales));
        et_publish_scratch(stage, 16 * PIECE_PITCH);
        panel_piece(type, stage, type == ET_Q4_0 || type == ET_Q4_1 ? 4 : (piece + 15) / 16, out);
        src += PIECE / elements * bytes;
        out += PIECE * ET_LINE;
    }
}

// C += A B over `words` elements of K: A's rows at `a`, `stride` bytes apart and whole lines; B's lines at `b`.
// A goes through three groups of scratchpad lines, so that the load for the next step never meets the multiplication of
// the last one; B streams through its buffer.
static void multiply(uint64_t a, uint64_t stride, uint32_t rows, uint64_t b, uint32_t words, uint64_t first)
{
    // On silicon a multiplication of exactly 4 rows is unsafe.
    uint64_t shape = T_FMA_SHAPE(rows == 4 ? 5 : rows, 16) | T_FMA_B_BUFFER | T_FMA_F32;
    uint64_t load_a = T_ROWS(rows) | a, load_b = T_TO_B | T_ROWS(16) | b;
    uint32_t steps = (words + 15) / 16, last = words - (steps - 1) * 16;
    T_WAIT(T_EVENT_FMA);
    t_load(load_a, stride);
    for (uint32_t step = 1;; step += 3) {
#define STEP(now, next)                                                                                                \
    if (step + now == steps)                                                                                           \
        break;                                                                                                         \
    t_load(load_b, ET_LINE);                                                                                           \
    load_a += 64;                                                                                                      \
    load_b += 16 * ET_LINE;                                                                                            \
    T_WAIT(T_EVENT_LOAD);                                                                                              \
    t_load(load_a + T_TO_LINE(16 * next), stride);                                                                     \
    t_fma((shape + T_FMA_A(16 * now)) | first);                                                                        \
    first = 0
        STEP(0, 1);
        STEP(1, 2);
        STEP(2, 0);
#undef STEP
    }
    uint64_t line = (steps - 1) % 3 * 16;
    t_load(load_b - (16 - last), ET_LINE);
    T_WAIT(T_EVENT_LOAD);
    t_fma((shape - ((uint64_t)(16 - last) << 47) + T_FMA_A(line)) | first);
}

// Columns of src1 that can't be loaded directly: elements k .. k+n as F32 into the stage.
static void stage_columns(const struct problem *p, const struct tile *t, uint32_t k, uint32_t n)
{
    uint64_t out = SCRATCH(p->grid, stage);
    static const uint32_t halves[8] = {0, 2, 4, 6, 8, 10, 12, 14};
    for (uint32_t column = 0; column < t->columns; ++column, out += PIECE_PITCH) {
        uint64_t src = t->x + column * p->x->nb[1] + (uint64_t)k * et_block_bytes(p->x->type);
        if (p->x->type == ET_F32) {
            piece_f32(src, out, n);
            continue;
        }
        V_LOAD("f18", halves, 0);
        V_F16_UNIT("f9");
        for (uint32_t i = 0; i < n; i += 8) {
            v_lanes(n - i < 8 ? n - i : 8);
            V_GATHER("fgh.ps", "f0", "f18", src + i * 2);
            if (p->x->type == ET_F16)
                V_F16_TO_F32("f0", "f2", "f9");
            else
                V_BF16_TO_F32("f0");
            V_STORE("f0", out + i * 4, 0);
        }
        v_all_lanes();
    }
    et_publish_scratch(SCRATCH(p->grid, stage), 16 * PIECE_PITCH);
}

static void unit_matrix(const struct et_grid *grid)
{
    uint64_t unit = SCRATCH(grid, unit);
    for (uint32_t i = 0; i < 16; ++i) {
        for (uint32_t j = 0; j < 16; ++j)
            *ET_PTR(float, unit + i * 64 + j * 4) = i == j;
    }
    et_publish_scratch(unit, TILE_BYTES);
}

// C = the tile stored at `addr`. A masked first multiplication clears C: it skips zero words, as a first one would not,
// so that an infinity stays in its row.
static void restore(const struct et_grid *grid, uint64_t addr)
{
    T_WAIT(T_EVENT_FMA);
    t_load(T_ROWS(16) | SCRATCH(grid, unit), ET_LINE);
    t_load(T_ROWS(16) | T_TO_LINE(16) | addr, ET_LINE);
    T_WAIT(T_EVENT_LOAD);
    __asm__ volatile("csrw tensor_mask, x0");
    t_fma(T_FMA_SHAPE(16, 1) | T_FMA_B(16) | T_FMA_MASKED | T_FMA_F32 | T_FIRST);
    t_fma(T_FMA_SHAPE(16, 16) | T_FMA_B(16) | T_FMA_F32);
    T_WAIT(T_EVENT_FMA);
}

// The results of 16 rows and a column, which lie at `stage`: to dst, with what is added to them to `sum`, or to both.
// Whole lines go by the tensor unit, others word by word in L3; f1 holds the words' offsets.
static void store_column(uint64_t stage, uint64_t dst, uint64_t other, uint64_t sum, uint32_t rows, bool whole)
{
    if (whole) {
        V_LOAD("f2", stage, 0);
        V_LOAD("f3", stage, 32);
        V_LOAD("f4", other, 0);
        V_LOAD("f5", other, 32);
        V("fadd.ps f2, f2, f4, rne");
        V("fadd.ps f3, f3, f5, rne");
        t_store_rows(sum, 1, 1, ET_LINE);
        return;
    }
    for (uint32_t row = 0; row < rows; row += 8) {
        v_lanes(rows - row < 8 ? rows - row : 8);
        V_LOAD("f0", stage + row * 4, 0);
        if (sum != dst)
            V_GATHER("fscwg.ps", "f0", "f1", dst + row * 4);
        if (sum) {
            V_LOAD("f2", other + row * 4, 0);
            V("fadd.ps f0, f0, f2, rne");
            V_GATHER("fscwg.ps", "f0", "f1", sum + row * 4);
        }
    }
}

// The tile in C to where the results go.
static void store_tile(const struct problem *p, const struct strip *s, const struct tile *t)
{
    static const uint32_t words[8] = {0, 4, 8, 12, 16, 20, 24, 28};
    uint64_t stage = SCRATCH(p->grid, stage), dst = t->dst + s->first * 4ull, stride = p->dst->nb[1];
    uint64_t sum = 0, other = 0, other_stride = 0;
    if (p->sum) {
        bool row = et_is_row(p->other, p->dst);
        sum = et_beside(p->sum, p->dst, dst);
        other = row ? p->other->addr + s->first * 4ull : et_beside(p->other, p->dst, dst);
        other_stride = row ? 0 : stride;
    }
    bool whole = s->rows == 16 && ((dst | stride | sum) & 63) == 0;
    if (whole && sum != dst)
        t_store_c(dst, t->columns, stride);
    if (whole && !sum)
        return;
    t_store_c(stage, t->columns, ET_LINE);
    if (sum && p->other->flags & ET_REFRESH) {
        for (uint32_t column = 0; column < (other_stride ? t->columns : 1); ++column)
            et_evict(other + column * other_stride, s->rows * 4, 2);
        et_wait_cache();
    }
    T_WAIT(T_EVENT_STORE);
    V_LOAD("f1", words, 0);
    for (uint32_t column = 0; column < t->columns; ++column, stage += ET_LINE) {
        store_column(stage, dst, other, sum, s->rows, whole);
        dst += stride;
        sum += sum ? stride : 0;
        other += other_stride;
    }
    v_all_lanes();
    et_evict(SCRATCH(p->grid, stage), TILE_BYTES, 1);
    et_wait_cache();
}

// Column tiles begin .. end of a strip, at most SPILL_TILES when K is cut.
static void multiply_strip(const struct problem *p, const struct strip *s, uint32_t matrix, uint32_t begin,
                           uint32_t end)
{
    uint64_t panel = SCRATCH(p->grid, panel), stage = SCRATCH(p->grid, stage);
    for (uint32_t k = 0; k < p->k; k += p->chunk) {
        uint32_t n = p->k - k < p->chunk ? p->k - k : p->chunk;
        fill_panel(p, s, k, n);
        for (uint32_t index = begin; index < end; ++index) {
            struct tile t = find_tile(p, matrix, index);
            uint64_t spill = SCRATCH(p->grid, spill) + (index - begin) * TILE_BYTES;
            if (k)
                restore(p->grid, spill);
            if (p->direct) {
                multiply(t.x + k * 4ull, p->x->nb[1], t.columns, panel, n, k == 0);
            } else {
                for (uint32_t done = 0; done < n; done += PIECE) {
                    uint32_t piece = n - done < PIECE ? n - done : PIECE;
                    // C lives in the registers that the copy uses: it waits in the spill area.
                    if (k + done) {
                        t_store_c(spill, 16, ET_LINE);
                        T_WAIT(T_EVENT_STORE);
                    }
                    stage_columns(p, &t, k + done, piece);
                    if (k + done)
                        restore(p->grid, spill);
                    multiply(stage, PIECE_PITCH, t.columns, panel + (uint64_t)done * ET_LINE, piece, k + done == 0);
                    T_WAIT(T_EVENT_FMA);
                }
            }
            if (k + n < p->k)
                t_store_c(spill, 16, ET_LINE);
            else
                store_tile(p, s, &t);
        }
        T_WAIT(T_EVENT_STORE);
    }
}

static void multiply_product(const struct et_product *product, const struct et_grid *grid)
{
    const struct et_command *cmd = product->cmd;
    struct problem p = {.grid = grid, .w = &cmd->src[0], .x = &cmd->src[1], .dst = &cmd->dst, .k = cmd->src[0].ne[0]};
    p.other = product->add ? et_added(product) : 0;
    p.sum = product->add ? &product->add->dst : 0;
    p.ratio2 = p.x->ne[2] / p.w->ne[2];
    p.ratio3 = p.x->ne[3] / p.w->ne[3];
    p.tiles1 = (p.x->ne[1] + 15) / 16;
    p.direct = p.x->type == ET_F32 && ((p.x->addr | p.x->nb[1] | p.x->nb[2] | p.x->nb[3]) & 63) == 0;
    uint32_t chunks = (p.k + PANEL_K - 1) / PANEL_K;
    p.chunk = chunks == 1 ? p.k : ((p.k + chunks - 1) / chunks + PIECE - 1) / PIECE * PIECE;
    if (chunks > 1 || !p.direct)
        unit_matrix(grid);

    uint32_t strips = (p.w->ne[1] + 15) / 16;
    uint32_t tiles = p.ratio2 * p.ratio3 * p.tiles1;
    uint32_t most = chunks > 1 || !p.direct ? SPILL_TILES : tiles;
    struct et_range mine = et_share((uint64_t)p.w->ne[2] * p.w->ne[3] * strips * tiles, 1, grid->minion, grid->minions);
    // Column tiles [fresh, fresh_end) of src0's matrix `fresh_matrix` were refreshed by this minion.
    uint32_t fresh = 0, fresh_end = 0, fresh_matrix = 0;
    for (uint64_t at = mine.begin; at < mine.end;) {
        uint64_t strip_index = at / tiles;
        uint32_t begin = (uint32_t)(at - strip_index * tiles);
        uint32_t end = mine.end - at < tiles - begin ? begin + (uint32_t)(mine.end - at) : tiles;
        if (end - begin > most)
            end = begin + most;
        uint32_t matrix = (uint32_t)(strip_index / strips);
        struct strip s = find_strip(&p, matrix, (uint32_t)(strip_index - (uint64_t)matrix * strips));
        if (p.x->flags & ET_REFRESH) {
            if (matrix != fresh_matrix)
                fresh = fresh_end = 0;
            for (uint32_t index = begin; index < end; ++index) {
                if (index >= fresh && index < fresh_end)
                    continue;
                struct tile t = find_tile(&p, matrix, index);
                refresh_rows(p.x, t.x, t.columns, (uint64_t)p.k * et_block_bytes(p.x->type));
            }
            // Runs of one minion follow each other, so that what was refreshed stays one range or starts anew.
            if (fresh == fresh_end || end < fresh || begin > fresh_end) {
                fresh = begin;
                fresh_end = end;
            } else {
                fresh = begin < fresh ? begin : fresh;
                fresh_end = end > fresh_end ? end : fresh_end;
            }
            fresh_matrix = matrix;
        }
        multiply_strip(&p, &s, matrix, begin, end);
        at += end - begin;
    }
    // The rest of the scratchpad was published for the tensor unit.
    if (et_is_quantised(p.w->type))
        et_publish_scratch(SCRATCH(grid, scales), 2 * BLOCK_SCALES);
    T_WAIT(T_EVENT_STORE);
}

uint32_t et_mul_mat_tile(const struct et_command *cmd, const struct et_grid *grid)
{
    if (grid->thread != 0)
        return ET_OK;
    for (const struct et_command *end = et_group_end(cmd); cmd != end;) {
        struct et_product product = et_next_product(&cmd, end);
        multiply_product(&product, grid);
    }
    return ET_OK;
}
