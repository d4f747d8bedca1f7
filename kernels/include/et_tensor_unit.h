// The tensor unit: one statement per operation. Hart 0 of a minion only; ISA sheet sections 3.2 to 3.9.
//
// L1 scratchpad: 48 lines of 64 bytes, reached by these operations alone. The C matrix is f0-f31: row i is f(2i),
// f(2i+1). Operations run beside the hart: wait for a load before its lines are used, and for a multiplication before a
// load overwrites what it reads. A second operation of one kind waits by itself for the first.
#ifndef ET_TENSOR_UNIT_H
#define ET_TENSOR_UNIT_H

#include "et_kernel.h"

// The compiler may hold C floats in f10-f17; whoever changes the C matrix says so.
#define T_C_MATRIX "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "memory"

enum {
    T_EVENT_LOAD = 0,
    T_EVENT_LOAD_1 = 1,
    T_EVENT_FMA = 7,
    T_EVENT_STORE = 8,
    T_EVENT_REDUCE = 9,
    T_EVENT_QUANT = 10
};
#define T_WAIT(event) __asm__ volatile("csrwi tensor_wait, %0" ::"i"(event) : "memory")

// Operands of a load, to be or-ed: transposition of 32-bit words (16 rows of 16 words), first scratchpad line, the
// B buffer as target instead, and the number of lines. The address must be a whole line's.
#define T_TRANSPOSE32   (7ull << 59)
#define T_TO_LINE(line) ((uint64_t)(line) << 53)
#define T_TO_B          (1ull << 52)
#define T_ROWS(rows)    ((uint64_t)(rows)-1)

// Starts loading lines `stride` bytes apart (a multiple of 64; plus T_ID_1 for a load of the second event).
#define T_ID_1 1ull
static inline void t_load(uint64_t operands, uint64_t stride)
{
    register uint64_t x31 __asm__("x31") = stride;
    __asm__ volatile("csrw tensor_load, %0" ::"r"(operands), "r"(x31) : "memory");
}

// Operands of a multiplication, to be or-ed: C(rows x 16) += A(rows x words) B(words x 16), a word being one F32 or
// four int8. A's and B's first lines, or the B buffer; T_FIRST forgets C's old value.
#define T_FMA_SHAPE(rows, words) (3ull << 55 | (uint64_t)((rows)-1) << 51 | (uint64_t)((words)-1) << 47)
#define T_FMA_A_WORD(word)       ((uint64_t)(word) << 43)
#define T_FMA_A(line)            ((uint64_t)(line) << 4)
#define T_FMA_B(line)            ((uint64_t)(line) << 12)
#define T_FMA_B_BUFFER           (1ull << 20)
#define T_FMA_F32                0ull
#define T_FMA_INT8               (3ull << 1)
#define T_FMA_TO_C               (1ull << 23) // int8 only: the sums leave for C with this operation
#define T_FMA_MASKED             (1ull << 63)
#define T_FIRST                  1ull

static inline void t_fma(uint64_t operands)
{
    __asm__ volatile("csrw tensor_fma, %0" ::"r"(operands) : T_C_MATRIX);
}

// The first `rows` rows of C from int32 to F32, row i then times word i of the scratchpad line `factors`.
static inline void t_to_f32_times(uint32_t rows, uint64_t factors)
{
    uint64_t operands = 3ull << 55 | (uint64_t)(rows - 1) << 51 | factors << 45 | 0x71;
    __asm__ volatile("csrw tensor_quant, %0" ::"r"(operands) : T_C_MATRIX);
}

// Stores `rows` rows of C from row `first` on, 64 bytes each, to whole lines `stride` bytes apart. Goes around L1 and
// L2.
static inline void t_store_rows(uint64_t addr, uint32_t first, uint32_t rows, uint64_t stride)
{
    register uint64_t x31 __asm__("x31") = stride;
    uint64_t operands = (uint64_t)first << 58 | 3ull << 55 | (uint64_t)(rows - 1) << 51 | addr;
    __asm__ volatile("csrw tensor_store, %0" ::"r"(operands), "r"(x31) : "memory");
}

static inline void t_store_c(uint64_t addr, uint32_t rows, uint64_t stride)
{
    t_store_rows(addr, 0, rows, stride);
}

// Stores `rows` scratchpad lines from `line` on in the same way.
static inline void t_store_lines(uint64_t addr, uint32_t line, uint32_t rows, uint64_t stride)
{
    register uint64_t x31 __asm__("x31") = stride;
    uint64_t operands = 1ull << 48 | (uint64_t)line << 56 | (uint64_t)(rows - 1) << 51 | addr;
    __asm__ volatile("csrw tensor_store, %0" ::"r"(operands), "r"(x31) : "memory");
}

// Steps of a tree over aligned groups of minions, by their numbers on the chip. Up: of `count` registers from f`first`
// on, those of a minion are combined with those of the one 2^level after it; that one only gives, others do nothing.
// Down: copies the other way. All levels up and then down leave the same in all members of a group.
enum t_combine { T_ADD = 0, T_MAX = 2 };
static inline void t_up(enum t_combine how, uint64_t first, uint64_t count, uint64_t level)
{
    uint64_t operands = first << 57 | (uint64_t)how << 24 | count << 16 | level << 3 | 3;
    __asm__ volatile("csrw tensor_reduce, %0" ::"r"(operands) : "memory");
}

static inline void t_down(uint64_t first, uint64_t count, uint64_t level)
{
    uint64_t operands = first << 57 | 8ull << 24 | count << 16 | level << 3 | 2;
    __asm__ volatile("csrw tensor_reduce, %0" ::"r"(operands) : "memory");
}

#endif
