// Vector code over named registers.
//
// The compiler is told to leave f0-f9 and f18-f31 alone (-ffixed-...), so vector values may stay in them from one
// statement to the next; C floats live in f10-f17. Nothing else may hold a vector: a spilled C float keeps 32 of 256 bits.
// Statements are volatile and so keep their order; those that touch memory say so.
// m0 is all ones between statements of generic code: whoever narrows it restores it.
#ifndef ET_VECTOR_H
#define ET_VECTOR_H

#include "et_kernel.h"

// One instruction without memory operands, as text: V("fmadd.ps f0, f1, f2, f0").
#define V(text) __asm__ volatile(text)

// 8 lanes from and to memory (normal accesses, masked by m0). `off` is a constant.
#define V_LOAD(f, addr, off) __asm__ volatile("flw.ps " f ", %1(%0)" ::"r"(addr), "i"(off) : "memory")
#define V_STORE(f, addr, off) __asm__ volatile("fsw.ps " f ", %1(%0)" ::"r"(addr), "i"(off) : "memory")
// One word of memory in every lane.
#define V_LOAD_BCAST(f, addr, off) __asm__ volatile("fbc.ps " f ", %1(%0)" ::"r"(addr), "i"(off) : "memory")
// 8 bytes or 8 halves out of one 32-byte block, sign-extended; `pattern` is V_BYTES_IN_ORDER or V_HALVES_IN_ORDER.
// They wrap inside the block: bytes need addr % 32 <= 24, halves addr % 32 <= 16.
#define V_LOAD_BYTES(f, addr, pattern) \
    __asm__ volatile("fg32b.ps " f ", %1(%0)" ::"r"(addr), "r"(pattern) : "memory")
#define V_LOAD_HALVES(f, addr, pattern) \
    __asm__ volatile("fg32h.ps " f ", %1(%0)" ::"r"(addr), "r"(pattern) : "memory")
// The same lanes back: the low byte or half of each, with the same rule for addresses.
#define V_STORE_BYTES(f, addr, pattern) \
    __asm__ volatile("fsc32b.ps " f ", %1(%0)" ::"r"(addr), "r"(pattern) : "memory")
#define V_STORE_HALVES(f, addr, pattern) \
    __asm__ volatile("fsc32h.ps " f ", %1(%0)" ::"r"(addr), "r"(pattern) : "memory")
#define V_BYTES_IN_ORDER 0x398A418820ull
#define V_HALVES_IN_ORDER 0x76543210ull
// Gathers and scatters over byte offsets in a register; slow (10 cycles) but free of alignment rules.
#define V_GATHER(insn, f, offsets, addr) \
    __asm__ volatile(insn " " f ", " offsets "(%0)" ::"r"(addr) : "memory")

// The same 32 bits in every lane, from an integer register or a C float.
#define V_BCAST_BITS(f, bits) __asm__ volatile("fbcx.ps " f ", %0" ::"r"((uint64_t)(bits)))
#define V_BCAST(f, value) V_BCAST_BITS(f, et_bits(value))

// One lane as bits.
#define V_LANE(f, lane)                                             \
    ({                                                              \
        uint64_t lane_;                                             \
        __asm__ volatile("fmvz.x.ps %0, " f ", " #lane : "=r"(lane_)); \
        (uint32_t)lane_;                                            \
    })

// Lanes 0 .. n-1 active, n in 1..8.
static inline void v_lanes(uint32_t n)
{
    __asm__ volatile("mov.m.x m0, %0, 0" ::"r"((1u << n) - 1));
}

static inline void v_all_lanes(void)
{
    __asm__ volatile("mov.m.x m0, x0, 0xff");
}

// Combines the lanes of `f` with `op` (fadd.ps, fmax.ps ...); the result is in every lane of `f`. `t` is clobbered.
#define V_REDUCE(op, f, t)                       \
    do {                                         \
        V("fswizz.ps " t ", " f ", 0xB1");       \
        V(op " " f ", " f ", " t);               \
        V("fswizz.ps " t ", " f ", 0x4E");       \
        V(op " " f ", " f ", " t);               \
        V_BCAST_BITS(t, V_LANE(f, 4));           \
        V(op " " f ", " f ", " t);               \
        V_BCAST_BITS(f, V_LANE(f, 0));           \
    } while (0)

#endif
