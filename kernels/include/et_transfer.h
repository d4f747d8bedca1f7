// Runs of elements from one tensor to another, converted between any two element types, with any strides: the common
// part of GET_ROWS, SET_ROWS and copies.
#ifndef ET_TRANSFER_H
#define ET_TRANSFER_H

#include "et_kernel.h"

struct et_transfer;

// Up to 32 elements between memory and f18-f21.
typedef void et_lanes_fn(const struct et_transfer *t, uint64_t addr, uint32_t n);

// One side of a transfer. An item is an element, or a block of 32 for quantised types.
struct et_side {
    et_lanes_fn *lanes;
    uint64_t step;  // bytes from item to item
    uint32_t item;  // bytes of an item
    uint32_t shift; // log2 of an item's elements
    bool dense;     // step == item
};

struct et_transfer {
    struct et_side src;
    struct et_side dst;
    bool raw;             // the bytes of an item are moved as they are
    bool lanes;           // items pass through vector registers
    bool owned;           // ET_LINES_OWNED
    bool refresh;         // ET_REFRESH
    uint64_t fresh;       // lines of the source from here ...
    uint64_t fresh_end;   // ... to here were refreshed
    uint64_t written;     // bytes from here ...
    uint64_t written_end; // ... to here wait for being published
};

// Prepares transfers from `src` to `dst`; ET_OK, or ET_BAD_TYPE when the pair of types has no conversion. Loads f9 and
// f22-f27, which have to stay until the last run; a run changes all other vector registers.
uint32_t et_transfer_begin(struct et_transfer *t, const struct et_tensor *dst, const struct et_tensor *src);

// Moves n elements; `dst` and `src` are the first ones' addresses. Whole blocks where a side is quantised.
void et_transfer_run(struct et_transfer *t, uint64_t dst, uint64_t src, uint64_t n);

// Publishes what the runs wrote.
void et_transfer_end(struct et_transfer *t);

// Where row `i` goes to and comes from: addresses of the first elements. False when an index points outside.
typedef bool et_place_fn(const struct et_command *cmd, struct et_index i, uint64_t *to, uint64_t *from);

// Transfers this hart's part of the rows of `rows`, which is dst or src[0], between dst and src[0], dealt in
// params.span.unit elements. Rows that `place` refuses are left out, and ET_BAD_INDEX returned.
uint32_t et_transfer_rows(const struct et_command *cmd, const struct et_grid *grid, const struct et_tensor *rows,
                          et_place_fn *place);

// SET_ROWS's place of row `i` of src[0].
bool et_set_rows_place(const struct et_command *cmd, struct et_index i, uint64_t *to, uint64_t *from);

// Bytes from a row's start to its element `i`, the first of an item.
static inline uint64_t et_side_offset(const struct et_side *side, uint64_t i)
{
    return (i >> side->shift) * side->step;
}

#endif
