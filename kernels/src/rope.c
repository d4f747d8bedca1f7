// ROPE: rotates pairs of elements of each row by angles that depend on the row's token and on the pair.
//
// The angle of pair p is position * theta_scale^p, multiplied up pair by pair in F32 as the host does: at large
// positions a differently rounded angle would be another angle. Cosines and sines are computed once per token and kept
// in scratchpad for all heads of that token which this hart owns.
//
// In a group, a SET_ROWS follows: a rotated row, which is in L1 still, goes to its place in the cache at once.
#include "et_f16.h"
#include "et_math.h"
#include "et_transfer.h"
#include "et_trig.h"

static const int32_t lane_numbers[8] __attribute__((aligned(32))) = {0, 1, 2, 3, 4, 5, 6, 7};

// Tables in scratch: one float per pair, or two equal ones (and alternating signs of the sine) where a vector holds
// both elements of a pair. The angles lie where the cosines will.
struct tables {
    uint64_t cosines;
    uint64_t sines;
    uint32_t count; // floats in each
    bool doubled;
};

static void store_angle(const struct tables *t, uint32_t pair, float theta)
{
    float *out = ET_PTR(float, t->cosines);
    if (t->doubled) {
        out[2 * pair] = theta;
        out[2 * pair + 1] = theta;
    } else {
        out[pair] = theta;
    }
}

static float position(const struct et_command *cmd, uint32_t token, uint32_t axis)
{
    const struct et_tensor *src = &cmd->src[1];
    uint64_t addr = src->addr + ((uint64_t)cmd->dst.ne[2] * axis + token) * src->nb[0];
    et_refresh(src, addr, 4);
    return (float)*ET_PTR(const int32_t, addr);
}

static void angles(const struct et_command *cmd, const struct tables *t, uint32_t token)
{
    const struct et_rope_params *p = &cmd->params.rope;
    float scale = p->theta_scale;
    float first[4], theta[4];
    if (p->axes == ET_ROPE_ONE) {
        float angle = position(cmd, token, 0);
        uint32_t pair = 0;
        // A taken branch takes longer than a product.
        for (; pair + 4 <= p->pairs; pair += 4) {
            store_angle(t, pair, angle);
            store_angle(t, pair + 1, angle *= scale);
            store_angle(t, pair + 2, angle *= scale);
            store_angle(t, pair + 3, angle *= scale);
            angle *= scale;
        }
        for (; pair < p->pairs; ++pair, angle *= scale)
            store_angle(t, pair, angle);
        return;
    }
    for (uint32_t axis = 0; axis < 4; ++axis)
        first[axis] = theta[axis] = position(cmd, token, axis);
    uint32_t s0 = p->sections[0], s1 = s0 + p->sections[1], s2 = s1 + p->sections[2], s3 = s2 + p->sections[3];
    uint32_t third = 0; // sector % 3
    for (uint32_t pair = 0, sector = 0; pair < p->pairs; ++pair) {
        uint32_t axis = sector < s0 ? 0 : sector < s1 ? 1 : sector < s2 ? 2 : 3;
        if (p->axes == ET_ROPE_INTERLEAVED)
            axis = sector < 3 * p->sections[third] ? third : 3;
        if (p->axes == ET_ROPE_SECTIONS_RESTART) {
            if (sector == 0)
                theta[0] = first[0];
            else if (sector == s0)
                theta[1] = first[1];
            else if (sector == s1)
                theta[2] = first[2];
            else if (sector == s2)
                theta[3] = first[3];
        }
        store_angle(t, pair, theta[axis]);
        for (uint32_t i = 0; i < 4; ++i)
            theta[i] *= scale;
        third = third == 2 ? 0 : third + 1;
        if (++sector == s3)
            sector = third = 0;
    }
}

// Angles to cosines and sines: frequency factors, interpolation, YaRN's blend, magnitudes.
static void cosines_and_sines(const struct et_command *cmd, const struct tables *t)
{
    const struct et_rope_params *p = &cmd->params.rope;
    const struct et_tensor *factors = &cmd->src[2];
    bool has_factors = cmd->sources > 2;
    uint64_t params = (uintptr_t)p, factor = factors->addr;
    if (has_factors)
        et_refresh(factors, factor, (uint64_t)p->pairs * 4);

    // f18: pair of each lane as an integer, f19: as a byte offset, f20: as a float. f21: signs of the sines.
    V_LOAD("f18", (uintptr_t)lane_numbers, 0);
    V_BCAST_BITS("f21", 0);
    if (t->doubled) {
        V("fandi.pi f21, f18, 1");
        V("fbci.pi f0, 1");
        V("fsub.pi f21, f0, f21");
        V("fslli.pi f21, f21, 31");
        V("fsrli.pi f18, f18, 1");
    }
    V("fslli.pi f19, f18, 2");
    V("fcvt.ps.pw f20, f18, rne");
    uint64_t step = t->doubled ? 4 : 8;
    uint64_t cosines = t->cosines, sines = t->sines;
    for (uint32_t left = t->count; left;) {
        uint32_t lanes = left < 8 ? left : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_LOAD("f0", cosines, 0);
        if (has_factors) {
            V_GATHER("fgw.ps", "f1", "f19", factor);
            v_div();
        }
        V_LOAD_BCAST("f1", params, offsetof(struct et_rope_params, freq_scale));
        V("fmul.ps f1, f0, f1, rne");
        if (p->ext_factor != 0.0f) {
            // mix = (1 - clamp((pair - low) / range)) * ext_factor; theta = scaled * (1 - mix) + unscaled * mix,
            // rounded as the host's compilers do: where positions are large, other roundings are other angles.
            V("fsgnj.ps f22, f0, f0");
            V("fsgnj.ps f23, f1, f1");
            V_LOAD_BCAST("f2", params, offsetof(struct et_rope_params, ramp_low));
            V("fsub.ps f0, f20, f2, rne");
            V_LOAD_BCAST("f1", params, offsetof(struct et_rope_params, ramp_range));
            v_div();
            V_BCAST_BITS("f3", 0);
            V("fmax.ps f2, f0, f3");
            V("fbci.ps f3, 0x3F800");
            V("fmin.ps f2, f2, f3");
            V("fsub.ps f2, f3, f2, rne");
            V_LOAD_BCAST("f4", params, offsetof(struct et_rope_params, ext_factor));
            V("fmul.ps f2, f2, f4, rne");
            V("fsub.ps f3, f3, f2, rne");
            V("fmul.ps f2, f22, f2, rne");
            V("fmadd.ps f1, f23, f3, f2, rne");
        }
        V("fsgnj.ps f0, f1, f1");
        v_sin_cos();
        V_LOAD_BCAST("f2", params, offsetof(struct et_rope_params, cos_magnitude));
        V_LOAD_BCAST("f3", params, offsetof(struct et_rope_params, sin_magnitude));
        V("fmul.ps f1, f1, f2, rne");
        V("fmul.ps f0, f0, f3, rne");
        V("fxor.pi f0, f0, f21");
        V_STORE("f1", cosines, 0);
        V_STORE("f0", sines, 0);
        V_BCAST_BITS("f0", step);
        V("fadd.pi f18, f18, f0");
        V("fcvt.ps.pw f20, f18, rne");
        cosines += 32;
        sines += 32;
        factor += 4 * step;
        left -= lanes;
    }
    v_all_lanes();
}

// One vector of F32 to dst: normal, or global through the byte offsets in f31.
#define STORE_F32(owned, f, addr)                                                                                      \
    do {                                                                                                               \
        if (owned)                                                                                                     \
            V_STORE(f, addr, 0);                                                                                       \
        else                                                                                                           \
            V_GATHER("fscwg.ps", f, "f31", addr);                                                                      \
    } while (0)

// Both elements of a pair side by side: x * cos + (other of the pair) * (-sin, +sin).
static inline __attribute__((always_inline)) void rotate_adjacent(uint64_t src, uint64_t dst, const struct tables *t,
                                                                  bool owned)
{
    uint64_t cosines = t->cosines, sines = t->sines;
    for (uint32_t left = t->count; left;) {
        uint32_t lanes = left < 8 ? left : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_LOAD("f0", src, 0);
        V_LOAD("f2", cosines, 0);
        V_LOAD("f3", sines, 0);
        V("fswizz.ps f1, f0, 0xB1");
        V("fmul.ps f0, f0, f2, rne");
        V("fmadd.ps f0, f1, f3, f0, rne");
        STORE_F32(owned, "f0", dst);
        src += 32;
        dst += 32;
        cosines += 32;
        sines += 32;
        left -= lanes;
    }
    v_all_lanes();
}

static inline __attribute__((always_inline)) void rotate_halves(uint64_t src, uint64_t dst, const struct tables *t,
                                                                bool owned)
{
    uint64_t cosines = t->cosines, sines = t->sines, half = (uint64_t)t->count * 4;
    for (uint32_t left = t->count; left;) {
        uint32_t lanes = left < 8 ? left : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_LOAD("f0", src, 0);
        V_LOAD("f1", src + half, 0);
        V_LOAD("f2", cosines, 0);
        V_LOAD("f3", sines, 0);
        V("fmul.ps f4, f1, f3, rne");
        V("fmul.ps f5, f0, f3, rne");
        V("fmsub.ps f4, f0, f2, f4, rne");
        V("fmadd.ps f5, f1, f2, f5, rne");
        STORE_F32(owned, "f4", dst);
        STORE_F32(owned, "f5", dst + half);
        src += 32;
        dst += 32;
        cosines += 32;
        sines += 32;
        left -= lanes;
    }
    v_all_lanes();
}

// F16 or BF16, either pairing: the elements of a pair are `delta` bytes apart. f30: byte offsets of 8 pairs' first
// elements.
static inline __attribute__((always_inline)) void rotate_16(uint64_t src, uint64_t dst, const struct tables *t,
                                                            uint64_t delta, uint64_t step, bool bf16, bool owned)
{
    uint64_t cosines = t->cosines, sines = t->sines;
    if (bf16) {
        V_BF16_ROUND("f28");
        V_BF16_QUIET("f29");
    } else {
        V_F16_UNIT("f28");
        V_F16_HALF("f29");
    }
    for (uint32_t left = t->count; left;) {
        uint32_t lanes = left < 8 ? left : 8;
        if (lanes < 8)
            v_lanes(lanes);
        V_GATHER("fgh.ps", "f0", "f30", src);
        V_GATHER("fgh.ps", "f1", "f30", src + delta);
        V_LOAD("f2", cosines, 0);
        V_LOAD("f3", sines, 0);
        if (bf16) {
            V_BF16_TO_F32("f0");
            V_BF16_TO_F32("f1");
        } else {
            V_F16_TO_F32("f0", "f4", "f28");
            V_F16_TO_F32("f1", "f5", "f28");
        }
        V("fmul.ps f4, f1, f3, rne");
        V("fmul.ps f5, f0, f3, rne");
        V("fmsub.ps f4, f0, f2, f4, rne");
        V("fmadd.ps f5, f1, f2, f5, rne");
        if (bf16) {
            V_F32_TO_BF16("f4", "f0", "f1", "f28", "f29");
            V_F32_TO_BF16("f5", "f2", "f3", "f28", "f29");
        } else {
            V_F32_TO_F16("f4", "f0", "f1", "f29");
            V_F32_TO_F16("f5", "f2", "f3", "f29");
        }
        if (owned) {
            V_GATHER("fsch.ps", "f4", "f30", dst);
            V_GATHER("fsch.ps", "f5", "f30", dst + delta);
        } else {
            V_GATHER("fschg.ps", "f4", "f30", dst);
            V_GATHER("fschg.ps", "f5", "f30", dst + delta);
        }
        src += 8 * step;
        dst += 8 * step;
        cosines += 32;
        sines += 32;
        left -= lanes;
    }
    v_all_lanes();
}

// Elements that are not rotated. f31: byte offsets of 8 consecutive elements.
static void copy(uint32_t type, uint64_t src, uint64_t dst, uint32_t count, bool owned)
{
    uint32_t bytes = type == ET_F32 ? 32 : 16;
    for (uint32_t left = count; left; src += bytes, dst += bytes) {
        uint32_t lanes = left < 8 ? left : 8;
        if (lanes < 8)
            v_lanes(lanes);
        if (type == ET_F32) {
            V_LOAD("f0", src, 0);
            STORE_F32(owned, "f0", dst);
        } else {
            V_GATHER("fgh.ps", "f0", "f31", src);
            if (owned)
                V_GATHER("fsch.ps", "f0", "f31", dst);
            else
                V_GATHER("fschg.ps", "f0", "f31", dst);
        }
        left -= lanes;
    }
    v_all_lanes();
}

static void rotate_f32(const struct et_rope_params *p, uint64_t src, uint64_t dst, const struct tables *t, bool owned)
{
    if (p->pairing == ET_ROPE_ADJACENT) {
        if (owned)
            rotate_adjacent(src, dst, t, true);
        else
            rotate_adjacent(src, dst, t, false);
    } else if (owned) {
        rotate_halves(src, dst, t, true);
    } else {
        rotate_halves(src, dst, t, false);
    }
}

static void rotate_narrow(uint32_t type, const struct et_rope_params *p, uint64_t src, uint64_t dst,
                          const struct tables *t, bool owned)
{
    bool adjacent = p->pairing == ET_ROPE_ADJACENT;
    uint64_t delta = adjacent ? 2 : 2 * p->pairs, step = adjacent ? 4 : 2;
    if (type == ET_F16) {
        if (owned)
            rotate_16(src, dst, t, delta, step, false, true);
        else
            rotate_16(src, dst, t, delta, step, false, false);
    } else if (owned) {
        rotate_16(src, dst, t, delta, step, true, true);
    } else {
        rotate_16(src, dst, t, delta, step, true, false);
    }
}

// Writes row `row` of ROPE's contiguous dst, which lies at `from`, to the place that SET_ROWS gives it: part of one of
// its rows. False when the index points outside.
static bool set_row(const struct et_command *rope, const struct et_command *set, uint64_t row, uint64_t from)
{
    uint32_t width = rope->dst.ne[0], pieces = set->src[0].ne[0] / width;
    struct et_index i = {(uint32_t)row / pieces, 0, 0};
    uint32_t piece = (uint32_t)row - i.i1 * pieces;
    uint64_t to, whole;
    if (!et_set_rows_place(set, i, &to, &whole))
        return false;
    struct et_transfer t;
    et_transfer_begin(&t, &set->dst, &set->src[0]);
    uint64_t bytes = et_side_offset(&t.dst, width);
    t.refresh = false;
    t.owned = t.owned && bytes % ET_LINE == 0;
    et_transfer_run(&t, to + piece * bytes, from, width);
    et_transfer_end(&t);
    return true;
}

uint32_t et_rope(const struct et_command *cmd, const struct et_grid *grid)
{
    const struct et_tensor *d = &cmd->dst, *s = &cmd->src[0];
    const struct et_rope_params *p = &cmd->params.rope;
    if (d->type != ET_F32 && d->type != ET_F16 && d->type != ET_BF16)
        return ET_BAD_TYPE;
    uint64_t all = (uint64_t)d->ne[1] * d->ne[2] * d->ne[3];
    struct et_range rows = et_share(all, cmd->row_unit, et_turned(cmd, grid), grid->harts);
    if (rows.begin == rows.end)
        return ET_OK;
    const struct et_command *set = cmd->group > 1 ? cmd + 1 : 0;
    uint32_t code = ET_OK;

    bool owned = d->flags & ET_LINES_OWNED, adjacent = p->pairing == ET_ROPE_ADJACENT;
    uint64_t size = d->type == ET_F32 ? 4 : 2, bytes = d->ne[0] * size;
    struct tables t = {.cosines = grid->scratch, .doubled = adjacent && d->type == ET_F32};
    t.count = t.doubled ? 2 * p->pairs : p->pairs;
    t.sines = t.cosines + (((uint64_t)t.count * 4 + 63) & ~63ull);
    uint32_t rest = p->offset + 2 * p->pairs;

    uint32_t token = UINT32_MAX;
    struct et_index i = et_unflatten(d, rows.begin);
    for (uint64_t row = rows.begin; row < rows.end; ++row, et_next_row(d, &i)) {
        uint64_t src = et_row(s, i.i1, i.i2, i.i3), dst = et_row(d, i.i1, i.i2, i.i3);
        bool stale = et_start_refresh(s, src, bytes);
        if (i.i2 != token) {
            token = i.i2;
            angles(cmd, &t, token);
            cosines_and_sines(cmd, &t);
        }
        if (stale)
            et_wait_cache();
        V_LOAD("f30", (uintptr_t)lane_numbers, 0);
        V("fslli.pi f31, f30, 1");
        if (d->type == ET_F32)
            V("fslli.pi f31, f30, 2");
        if (adjacent)
            V("fslli.pi f30, f30, 2");
        else
            V("fslli.pi f30, f30, 1");
        uint64_t from = src + p->offset * size, to = dst + p->offset * size;
        if (d->type == ET_F32)
            rotate_f32(p, from, to, &t, owned);
        else
            rotate_narrow(d->type, p, from, to, &t, owned);
        if (src != dst) {
            copy(d->type, src, dst, p->offset, owned);
            copy(d->type, src + rest * size, dst + rest * size, d->ne[0] - rest, owned);
        }
        if (set && !set_row(cmd, set, row, dst))
            code = ET_BAD_INDEX;
        if (owned)
            et_publish(dst, bytes);
    }
    et_publish_scratch(t.cosines, t.sines - t.cosines + (uint64_t)t.count * 4);
    return code;
}
