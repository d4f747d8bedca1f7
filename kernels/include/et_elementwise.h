// Row loops for operations that compute each element of dst from the elements of the sources at the same place.
//
// An operation is an inline function over registers: first source in f0, second in f8, result in f0; it may change
// f0-f7 and f8. What it needs per row is loaded into f20-f27 before. et_elementwise divides dst into pieces of rows,
// sees to refreshing and publishing, and calls the operation's loop for each piece. Of a group, it calls the loops of
// all members for a few lines at a time, so that each finds in L1 what the one before has left.
#ifndef ET_ELEMENTWISE_H
#define ET_ELEMENTWISE_H

#include "et_vector.h"

// Neighbouring elements of one row of dst and what they are computed from.
struct et_piece {
    const struct et_command *cmd;
    uint64_t dst; // address of the first element
    uint64_t src[2];
    uint64_t dst_step;    // bytes from element to element
    uint64_t src_step[2]; // 0: one element for the whole row
    uint32_t n;           // elements, at least 1
    bool fast;            // all F32 without gaps (or src_step 0 for the second source), dst's lines owned
};

typedef void et_piece_fn(const struct et_piece *piece);

// The loop of an operation; 0 when there is none of that number.
et_piece_fn *et_binary_piece(const struct et_command *cmd);
et_piece_fn *et_unary_piece(const struct et_command *cmd);
et_piece_fn *et_glu_piece(const struct et_command *cmd);
et_piece_fn *et_scale_piece(const struct et_command *cmd);
et_piece_fn *et_clamp_piece(const struct et_command *cmd);

// The same by kernel; 0 for kernels that are not elementwise.
et_piece_fn *et_piece_of(const struct et_command *cmd);

// What et_binary, et_unary, et_glu, et_scale and et_clamp do: this hart's pieces of dst. Sources are broadcast by
// repetition in any dimension, the second one along rows as well. The members of a group are all F32 with dst of one
// shape in lines of its own, elements adjoin, and a source that an earlier member has written is exactly its dst.
uint32_t et_elementwise(const struct et_command *cmd, const struct et_grid *grid);

// Most members of a group.
#define ET_CHAIN_MAX 4u

// Elements that the members of a group take together: two lines of each operand, of the eight that a hart's L1 has.
#define ET_CHAIN_STEP 32u

// A piece's elements, without their addresses and number: the distances in a row of `width` elements, and `fast`.
struct et_piece et_piece_in(const struct et_command *cmd, uint32_t width);

// Its addresses: element `begin` of row `i` of dst.
void et_piece_at(struct et_piece *piece, struct et_index i, uint32_t begin);

// The next `n` elements.
static inline void et_piece_advance(struct et_piece *p, uint32_t n)
{
    p->dst += n * p->dst_step;
    p->src[0] += n * p->src_step[0];
    p->src[1] += n * p->src_step[1];
}

// Refreshes and fetches the sources of the `n` elements of each of `members` fast pieces, but for what earlier members
// write.
void et_pieces_fetch(const struct et_piece *pieces, uint32_t members, uint32_t n);

// Index of a repeated dimension. Most are equal or 1, and a remainder takes long.
static inline uint32_t et_repeat(uint32_t i, uint32_t ne)
{
    return i < ne ? i : ne == 1 ? 0 : i % ne;
}

// True for the element types that et_lanes_load and et_lanes_store know: F32, F16, BF16.
static inline bool et_is_float(const struct et_tensor *t)
{
    return t->type == ET_F32 || t->type == ET_F16 || t->type == ET_BF16;
}

// Elements of any float type, `step` bytes apart, into f0 as F32, for the lanes of m0. Changes f28-f31.
void et_lanes_load(uint64_t addr, uint64_t step, uint32_t type);

// f0 to elements of any float type, for the lanes of m0: through L1 when their lines are `owned`, else into L3.
// Changes f0 and f28-f31.
void et_lanes_store(uint64_t addr, uint64_t step, uint32_t type, bool owned);

// Lanes of a group of which `left` elements are left.
static inline void et_tail(int64_t left)
{
    if (left < 8)
        v_lanes((uint32_t)left);
}

// `op` for elements `first` and on of a piece with one source.
static inline __attribute__((always_inline)) void et_each1(const struct et_piece *p, uint32_t first, void (*op)(void))
{
    uint64_t s = p->src[0] + first * p->src_step[0], d = p->dst + first * p->dst_step;
    int64_t left = (int64_t)p->n - first;
    if (p->fast) {
        for (; left > 0; left -= 8, s += 32, d += 32) {
            et_tail(left);
            V_LOAD("f0", s, 0);
            op();
            V_STORE("f0", d, 0);
        }
    } else {
        const struct et_tensor *src = &p->cmd->src[0], *dst = &p->cmd->dst;
        for (; left > 0; left -= 8, s += 8 * p->src_step[0], d += 8 * p->dst_step) {
            et_tail(left);
            et_lanes_load(s, p->src_step[0], src->type);
            op();
            et_lanes_store(d, p->dst_step, dst->type, dst->flags & ET_LINES_OWNED);
        }
    }
    v_all_lanes();
}

// The same with two sources.
static inline __attribute__((always_inline)) void et_each2(const struct et_piece *p, uint32_t first, void (*op)(void))
{
    uint64_t a = p->src[0] + first * p->src_step[0], b = p->src[1] + first * p->src_step[1];
    uint64_t d = p->dst + first * p->dst_step;
    int64_t left = (int64_t)p->n - first;
    if (p->fast && p->src_step[1]) {
        for (; left > 0; left -= 8, a += 32, b += 32, d += 32) {
            et_tail(left);
            V_LOAD("f0", a, 0);
            V_LOAD("f8", b, 0);
            op();
            V_STORE("f0", d, 0);
        }
    } else {
        const struct et_tensor *src = p->cmd->src, *dst = &p->cmd->dst;
        for (; left > 0; left -= 8, a += 8 * p->src_step[0], b += 8 * p->src_step[1], d += 8 * p->dst_step) {
            et_tail(left);
            et_lanes_load(b, p->src_step[1], src[1].type);
            V("fsgnj.ps f8, f0, f0");
            et_lanes_load(a, p->src_step[0], src[0].type);
            op();
            et_lanes_store(d, p->dst_step, dst->type, dst->flags & ET_LINES_OWNED);
        }
    }
    v_all_lanes();
}

#endif
