// The contract between host and device: launch arguments, commands, tensors, and each kernel's parameters.
// Read by the kernels and, through bindgen, by the plugin; sizes are asserted on both sides.
// Plain C11, no includes but stdint.h, no bit fields, every gap named.
#ifndef ET_COMMAND_H
#define ET_COMMAND_H

#ifndef __ASSEMBLER__
#include <stdint.h>
#endif

// Version of this contract. The image carries it in an ELF note (name "ET", type 1, one uint32_t); the plugin refuses
// an image of another version. Raised whenever a struct or an enum here changes its meaning.
#define ET_IMAGE_ABI 2u

#define ET_LINE 64u          // bytes in a cache line
#define ET_SOURCES_MAX 5u

#ifndef __ASSEMBLER__

// Element types. The numbers are ours: a host's own are mapped by name.
enum et_type {
    ET_F32, ET_F16, ET_BF16,
    ET_Q8_0, ET_Q4_0, ET_Q4_1, ET_Q5_0, ET_Q5_1, ET_IQ4_NL,
    ET_I8, ET_I16, ET_I32, ET_I64,
    ET_TYPE_COUNT
};

// One kernel function each; the host's name for it in logs is in src/ops.
enum et_kernel {
    ET_KERNEL_BINARY,
    ET_KERNEL_UNARY,
    ET_KERNEL_GLU,
    ET_KERNEL_SCALE,
    ET_KERNEL_CLAMP,
    ET_KERNEL_SUM_ROWS,
    ET_KERNEL_RMS_NORM,
    ET_KERNEL_GET_ROWS,
    ET_KERNEL_SET_ROWS,
    ET_KERNEL_COPY,
    ET_KERNEL_MUL_MAT_VEC,   // few columns: vector dot products
    ET_KERNEL_MUL_MAT_TILE,  // many columns: tensor engine
    ET_KERNEL_ROPE,
    ET_KERNEL_SOFT_MAX,
    ET_KERNEL_FLASH_ATTN,
    ET_KERNEL_COUNT
};

// Operand flags.
// The operand was written earlier in the same launch: caches of the reading shire may hold stale lines, so the
// kernel refreshes what it reads (kernels/README.md). Clear for what only the host writes, such as weights.
#define ET_REFRESH 1u
// dst only: no line of dst is shared by two units of `row_unit` rows, so that rows may be written with normal stores
// and published by eviction. Clear: use global stores (fscwg.ps, fschg.ps, shg, sbg), which merge bytes in L3.
#define ET_LINES_OWNED 2u

// A tensor operand: element (i0,i1,i2,i3) starts at addr + i0*nb[0] + i1*nb[1] + i2*nb[2] + i3*nb[3]
// (for block types nb[0] is the size of a block, and i0 counts blocks). One cache line.
struct et_tensor {
    uint64_t addr;   // device address
    uint32_t type;   // enum et_type
    uint32_t flags;  // ET_REFRESH, ET_LINES_OWNED
    uint32_t ne[4];  // elements per dimension; unused operands have ne[0] = 0
    uint64_t nb[4];  // bytes between neighbours
};

enum et_binary_op { ET_ADD, ET_SUB, ET_MUL, ET_DIV };

struct et_binary_params {
    uint32_t op;     // enum et_binary_op; src[1] is broadcast by repetition
};

enum et_unary_op {
    ET_ABS, ET_SGN, ET_NEG, ET_STEP, ET_TANH, ET_ELU, ET_RELU, ET_SIGMOID, ET_GELU, ET_GELU_QUICK, ET_SILU,
    ET_HARDSWISH, ET_HARDSIGMOID, ET_EXP, ET_EXPM1, ET_SOFTPLUS, ET_GELU_ERF, ET_XIELU, ET_FLOOR, ET_CEIL, ET_ROUND,
    ET_TRUNC
};

struct et_unary_params {
    uint32_t op;     // enum et_unary_op
    float arg[4];    // XIELU: alpha_n, alpha_p, beta, eps
};

enum et_glu_op { ET_REGLU, ET_GEGLU, ET_SWIGLU, ET_SWIGLU_OAI, ET_GEGLU_ERF, ET_GEGLU_QUICK, ET_SWIGLU_CLAMP };

struct et_glu_params {
    uint32_t op; // enum et_glu_op
    float alpha; // SWIGLU_OAI
    float limit; // SWIGLU_OAI, SWIGLU_CLAMP
};

struct et_scale_params {
    float scale;
    float bias;
};

struct et_clamp_params {
    float min;
    float max;
};

// NORM also takes the mean from each element.
enum et_norm_op { ET_RMS_NORM, ET_NORM, ET_L2_NORM };

struct et_norm_params {
    uint32_t op; // enum et_norm_op
    float eps;
};

// GET_ROWS, SET_ROWS and copies divide elements, not rows: dst's (the source's for SET_ROWS), flattened.
struct et_span_params {
    uint32_t unit;   // elements that one hart takes together: whole blocks, and whole lines of dst where it owns them
};

// Which elements make pair p of a row, from `offset` on: 2p and 2p+1, or p and p+pairs.
enum et_rope_pairing { ET_ROPE_ADJACENT, ET_ROPE_HALVES };

// Which of a token's positions turns pair p. ET_ROPE_SECTIONS: sections[] pairs for each of four positions in turn, repeated;
// with ET_ROPE_SECTIONS_RESTART each section's angles start anew. ET_ROPE_INTERLEAVED: the first three take turns.
enum et_rope_axes { ET_ROPE_ONE, ET_ROPE_SECTIONS, ET_ROPE_SECTIONS_RESTART, ET_ROPE_INTERLEAVED };

struct et_rope_params {
    uint32_t pairing;      // enum et_rope_pairing
    uint32_t axes;         // enum et_rope_axes
    uint32_t pairs;        // rotated pairs; other elements are copied
    uint32_t offset;       // first rotated element
    float theta_scale;     // angle of a pair over that of the pair before
    float freq_scale;      // interpolation of positions
    float ext_factor;      // YaRN: share of extrapolation in the ramp's lower part
    float ramp_low;        // YaRN: pair where the ramp starts
    float ramp_range;      // YaRN: pairs of the ramp
    float cos_magnitude;   // factor of the cosines
    float sin_magnitude;   // factor of the sines; its sign is the direction
    uint32_t sections[4];
};

// ALiBi: head h adds its slope times the mask, 2^(log2_slope * (h + 1)) for the first `heads` heads, and
// 2^(log2_slope * (h - heads + 1/2)) for those beyond. log2_slope = 0 gives slope 1 to all.
struct et_alibi {
    float log2_slope;
    uint32_t heads;        // greatest power of two that is not above the number of heads
};

struct et_soft_max_params {
    float scale;
    struct et_alibi alibi;
};

struct et_flash_attn_params {
    float scale;           // already divided by softcap when that is not 0
    float softcap;         // 0: none
    struct et_alibi alibi;
};

// MUL_MAT_VEC of quantised weights: ceil(ne[0] / 2048) times the columns that share a matrix of src[0] is at most this.
#define ET_INT8_SLICES 152u

// Command flags.
// All harts of the launch meet before this command: it needs what an earlier one has written, or overwrites what an
// earlier one reads. Without it harts come straight from the commands before.
#define ET_MEET 1u

// What one kernel call needs. dst and src[i] are whole lines, so that a hart fetches only the operands it uses.
struct et_command {
    uint32_t kernel;         // enum et_kernel
    uint32_t sources;        // operands used of src[]
    uint32_t row_unit;       // rows of dst (flattened over dims 1..3) that one hart takes together; see ET_LINES_OWNED
    uint16_t flags;          // ET_MEET
    uint16_t group;          // commands that this call does, itself and those after it (0 and 1: itself); each is complete
    uint64_t workspace;      // device address of scratch memory in DRAM shared by all harts, 64-byte aligned, or 0
    uint64_t workspace_size; // bytes
    union {
        uint8_t bytes[96];
        struct et_binary_params binary;
        struct et_unary_params unary;
        struct et_glu_params glu;
        struct et_scale_params scale;
        struct et_clamp_params clamp;
        struct et_norm_params norm;
        struct et_span_params span;
        struct et_rope_params rope;
        struct et_soft_max_params soft_max;
        struct et_flash_attn_params flash_attn;
    } params;
    struct et_tensor dst;
    struct et_tensor src[ET_SOURCES_MAX];
};

// Where the command loop reports: the first command that failed.
struct et_status {
    uint32_t failed;   // 0, or 1 + index of the first failing command
    uint32_t code;     // what its kernel returned
    uint64_t reserved[7];
};

// Launch arguments: embedded in the launch message, so at most 128 bytes.
struct et_launch {
    uint64_t commands;   // device address of struct et_command[count], 64-byte aligned
    uint64_t count;
    uint64_t status;     // device address of struct et_status, zeroed by the host
    uint64_t barrier;    // device address of one zeroed line: the chip barrier's counter
    uint64_t timestamps; // device address of uint64_t[count + 1], or 0: the first hart's cycle counts at the start and
                         // when it has done each command and met the others, if it has to
    uint64_t reserved[3];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct et_tensor) == 64, "et_tensor is one line");
_Static_assert(sizeof(struct et_command) == 512, "et_command is eight lines");
_Static_assert(sizeof(struct et_status) == 64, "et_status is one line");
_Static_assert(sizeof(struct et_launch) == 64, "et_launch fits a launch message");
#endif

#endif // __ASSEMBLER__

#endif
