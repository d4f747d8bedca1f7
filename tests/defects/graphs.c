// Computes one small graph on ET0: some operations, new values for what they read, the same again, and a copy of the result.
// Harts then find lines in their caches that others have written since.
// Usage: graphs <plugin> [case ...]   without cases: lists them
#include "ggml-backend.h"
#include "ggml.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ggml_tensor tensor;

enum { INPUTS_MAX = 4, FILLED_MAX = 8, TENSORS_MAX = 24 };

// Rows of what indices point into.
enum { TARGET_ROWS = 40 };

static struct ggml_context * ctx;

static tensor * add(tensor ** in) { return ggml_add(ctx, in[0], in[1]); }
static tensor * add_slices(tensor ** in) {
    return ggml_add_inplace(ctx, ggml_view_2d(ctx, in[0], in[1]->ne[0], in[0]->ne[1], in[0]->nb[1], 0), in[1]);
}
static tensor * mul_in_place(tensor ** in) { return ggml_mul_inplace(ctx, in[0], in[1]); }
static tensor * gelu(tensor ** in) { return ggml_gelu(ctx, in[0]); }
static tensor * tanh_of_slices(tensor ** in) {
    return ggml_tanh(ctx, ggml_view_2d(ctx, in[0], 24, in[0]->ne[1], in[0]->nb[1], 0));
}
static tensor * swiglu(tensor ** in) { return ggml_swiglu(ctx, in[0]); }
static tensor * scale(tensor ** in) { return ggml_scale(ctx, in[0], 0.5f); }
static tensor * scale_slices(tensor ** in) {
    return ggml_scale_inplace(ctx, ggml_view_2d(ctx, in[0], 16, in[0]->ne[1], in[0]->nb[1], 0), 0.5f);
}
static tensor * clamp(tensor ** in) { return ggml_clamp(ctx, in[0], -0.5f, 0.5f); }
static tensor * sum_rows(tensor ** in) { return ggml_sum_rows(ctx, in[0]); }
static tensor * rms_norm(tensor ** in) { return ggml_rms_norm(ctx, in[0], 1e-5f); }
static tensor * norm(tensor ** in) { return ggml_norm(ctx, in[0], 1e-5f); }
static tensor * get_rows(tensor ** in) { return ggml_get_rows(ctx, in[0], in[1]); }
static tensor * set_rows(tensor ** in) { return ggml_set_rows(ctx, in[0], in[1], in[2]); }
static tensor * mul_mat(tensor ** in) { return ggml_mul_mat(ctx, in[0], in[1]); }
static tensor * to_f16(tensor ** in) { return ggml_cast(ctx, in[0], GGML_TYPE_F16); }
static tensor * to_q8_0(tensor ** in) { return ggml_cast(ctx, in[0], GGML_TYPE_Q8_0); }
static tensor * copy_to_slices(tensor ** in) {
    return ggml_cpy(ctx, in[0], ggml_view_2d(ctx, in[1], in[0]->ne[0], in[1]->ne[1], in[1]->nb[1], 0));
}
static tensor * slices(tensor ** in) {
    return ggml_cont(ctx, ggml_view_2d(ctx, in[0], 20, in[0]->ne[1], in[0]->nb[1], 0));
}
static tensor * transpose(tensor ** in) { return ggml_cont(ctx, ggml_transpose(ctx, in[0])); }
static tensor * rope(tensor ** in) {
    return ggml_rope_ext(ctx, in[0], in[1], NULL, in[0]->ne[0], GGML_ROPE_TYPE_NEOX, 0, 10000, 1, 0, 1, 0, 0);
}
static tensor * rope_half(tensor ** in) {
    return ggml_rope_ext(ctx, in[0], in[1], NULL, in[0]->ne[0] / 2, 0, 0, 10000, 1, 0, 1, 0, 0);
}
static tensor * rope_with_factors(tensor ** in) {
    return ggml_rope_ext(ctx, in[0], in[1], in[2], in[0]->ne[0], GGML_ROPE_TYPE_NEOX, 0, 10000, 1, 0, 1, 0, 0);
}
static tensor * rope_sections(tensor ** in) {
    int sections[] = {8, 12, 12, 0};
    return ggml_rope_multi(ctx, in[0], in[1], NULL, in[0]->ne[0], sections, GGML_ROPE_TYPE_MROPE, 0, 10000, 1, 0, 1, 0, 0);
}
static tensor * soft_max(tensor ** in) { return ggml_soft_max_ext(ctx, in[0], in[1], 0.25f, 8.0f); }
static tensor * soft_max_part(tensor ** in) {
    return ggml_soft_max_inplace(ctx, ggml_view_2d(ctx, in[0], in[0]->ne[0], 70, in[0]->nb[1], 0));
}
static tensor * flash_attn(tensor ** in) { return ggml_flash_attn_ext(ctx, in[0], in[1], in[2], in[3], 0.125f, 0, 0); }
static tensor * soft_max_sinks(tensor ** in) {
    tensor * weights = ggml_soft_max_ext(ctx, in[0], NULL, 0.25f, 0);
    ggml_soft_max_add_sinks(weights, in[1]);
    return weights;
}
static tensor * flash_attn_sinks(tensor ** in) {
    tensor * attention = ggml_flash_attn_ext(ctx, in[0], in[1], in[2], NULL, 0.125f, 0, 0);
    ggml_flash_attn_ext_add_sinks(attention, in[3]);
    return attention;
}
// What is done in one call.
static tensor * chain(tensor ** in) { return ggml_mul(ctx, ggml_silu(ctx, ggml_add(ctx, in[0], in[1])), in[2]); }
static tensor * norm_of_sum(tensor ** in) {
    tensor * normal = ggml_rms_norm(ctx, ggml_add(ctx, in[0], in[1]), 1e-5f);
    return ggml_add(ctx, ggml_mul(ctx, normal, in[2]), in[3]);
}
static tensor * rope_to_cache(tensor ** in) {
    tensor * rows = rope(in + 1);
    return ggml_set_rows(ctx, in[0], ggml_reshape_2d(ctx, rows, rows->ne[0] * rows->ne[1], rows->ne[2]), in[3]);
}
static tensor * products(tensor ** in) {
    tensor * a = ggml_mul_mat(ctx, in[0], in[3]), * b = ggml_mul_mat(ctx, in[1], in[3]);
    return ggml_mul(ctx, ggml_mul(ctx, a, b), ggml_mul_mat(ctx, in[2], in[3]));
}
static tensor * product_and_sum(tensor ** in) { return ggml_add(ctx, ggml_mul_mat(ctx, in[0], in[1]), in[2]); }
static tensor * gate(tensor ** in) {
    return ggml_swiglu_split(ctx, ggml_mul_mat(ctx, in[0], in[2]), ggml_mul_mat(ctx, in[1], in[2]));
}

#define F32 GGML_TYPE_F32
#define F16 GGML_TYPE_F16
#define I32 GGML_TYPE_I32

static const struct test {
    const char * name;
    tensor * (*build)(tensor ** in);
    struct {
        enum ggml_type type;
        int64_t ne[4];
        int weights; // stays as the host wrote it
    } in[INPUTS_MAX];
} tests[] = {
    {"add", add, {{F32, {64, 96, 1, 1}}, {F32, {64, 96, 1, 1}}}},
    {"add-row", add, {{F32, {576, 5, 1, 1}}, {F32, {576, 1, 1, 1}}}},
    {"add-repeated", add, {{F32, {1200, 3, 1, 1}}, {F32, {600, 1, 1, 1}}}},
    {"add-cycled", add, {{F32, {64, 192, 1, 1}}, {F32, {64, 4, 1, 1}}}},
    {"add-cycled-f16", add, {{F16, {64, 192, 1, 1}}, {F32, {64, 4, 1, 1}}}},
    {"add-rows", add, {{F32, {72, 96, 1, 1}}, {F32, {72, 1, 1, 1}}}},
    {"add-scalar", add, {{F32, {64, 96, 1, 1}}, {F32, {1, 1, 1, 1}}}},
    {"add-odd", add, {{F32, {37, 75, 1, 1}}, {F32, {37, 75, 1, 1}}}},
    {"add-slices", add_slices, {{F32, {40, 75, 1, 1}}, {F32, {37, 75, 1, 1}}}},
    {"add-f16", add, {{F16, {48, 75, 1, 1}}, {F32, {48, 75, 1, 1}}}},
    {"mul-in-place", mul_in_place, {{F32, {64, 96, 1, 1}}, {F32, {64, 96, 1, 1}}}},
    {"gelu", gelu, {{F32, {80, 96, 1, 1}}}},
    {"tanh-slices", tanh_of_slices, {{F32, {64, 96, 1, 1}}}},
    {"swiglu", swiglu, {{F32, {160, 96, 1, 1}}}},
    {"scale", scale, {{F32, {64, 96, 1, 1}}}},
    {"scale-slices", scale_slices, {{F32, {64, 200, 1, 1}}}},
    {"clamp", clamp, {{F32, {72, 96, 1, 1}}}},
    {"sum-rows", sum_rows, {{F32, {72, 96, 1, 1}}}},
    {"rms-norm", rms_norm, {{F32, {96, 96, 1, 1}}}},
    {"rms-norm-one", rms_norm, {{F32, {576, 1, 1, 1}}}},
    {"rms-norm-few", rms_norm, {{F32, {576, 3, 1, 1}}}},
    {"rms-norm-few-odd", rms_norm, {{F32, {72, 3, 1, 1}}}},
    {"rms-norm-odd", rms_norm, {{F32, {70, 75, 1, 1}}}},
    {"norm", norm, {{F32, {72, 96, 1, 1}}}},
    {"get-rows", get_rows, {{F32, {80, 40, 1, 1}}, {I32, {70, 1, 1, 1}}}},
    {"get-rows-q8_0", get_rows, {{GGML_TYPE_Q8_0, {96, 40, 1, 1}, 1}, {I32, {70, 1, 1, 1}}}},
    {"set-rows-f16", set_rows, {{F16, {80, 40, 1, 1}, 1}, {F32, {80, 8, 1, 1}}, {I32, {8, 1, 1, 1}}}},
    {"set-rows-owned", set_rows, {{F16, {96, 40, 1, 1}, 1}, {F32, {96, 40, 1, 1}}, {I32, {40, 1, 1, 1}}}},
    {"set-rows-q8_0", set_rows, {{GGML_TYPE_Q8_0, {96, 40, 1, 1}, 1}, {F32, {96, 8, 1, 1}}, {I32, {8, 1, 1, 1}}}},
    {"to-f16", to_f16, {{F32, {70, 75, 1, 1}}}},
    {"to-q8_0", to_q8_0, {{F32, {96, 75, 1, 1}}}},
    {"slices-to-f16", copy_to_slices, {{F32, {70, 75, 1, 1}}, {F16, {72, 75, 1, 1}, 1}}},
    {"slices-to-q8_0", copy_to_slices, {{F32, {96, 75, 1, 1}}, {GGML_TYPE_Q8_0, {128, 75, 1, 1}, 1}}},
    {"slices", slices, {{F32, {24, 400, 1, 1}}}},
    {"transpose", transpose, {{F32, {48, 64, 1, 1}}}},
    {"mul-mat-vec-f32", mul_mat, {{F32, {200, 300, 1, 1}, 1}, {F32, {200, 2, 1, 1}}}},
    {"mul-mat-vec-f16", mul_mat, {{F16, {136, 300, 1, 1}, 1}, {F32, {136, 2, 1, 1}}}},
    {"mul-mat-vec-kv", mul_mat, {{F16, {128, 130, 2, 1}}, {F32, {128, 1, 4, 1}}}},
    {"mul-mat-int8-q8_0", mul_mat, {{GGML_TYPE_Q8_0, {608, 1100, 1, 1}, 1}, {F32, {608, 2, 1, 1}}}},
    {"mul-mat-int8-q4_0", mul_mat, {{GGML_TYPE_Q4_0, {1184, 72, 1, 1}, 1}, {F32, {1184, 3, 1, 1}}}},
    {"mul-mat-int8-q4_1", mul_mat, {{GGML_TYPE_Q4_1, {608, 40, 1, 1}, 1}, {F32, {608, 4, 1, 1}}}},
    {"mul-mat-int8-kv", mul_mat, {{GGML_TYPE_Q8_0, {608, 40, 1, 1}}, {F32, {608, 2, 1, 1}}}},
    {"mul-mat-int8-rounds", mul_mat, {{GGML_TYPE_Q4_1, {96, 16, 200, 1}, 1}, {F32, {96, 1, 200, 1}}}},
    {"mul-mat-tile-f32", mul_mat, {{F32, {128, 160, 1, 1}, 1}, {F32, {128, 50, 1, 1}}}},
    {"mul-mat-tile-f16", mul_mat, {{F16, {128, 70, 1, 1}}, {F32, {128, 40, 1, 1}}}},
    {"mul-mat-tile-q8_0", mul_mat, {{GGML_TYPE_Q8_0, {704, 64, 1, 1}, 1}, {F32, {704, 33, 1, 1}}}},
    {"mul-mat-tile-rest", mul_mat, {{F32, {64, 10, 1, 1}, 1}, {F32, {64, 1100, 1, 1}}}},
    {"mul-mat-tile-short", mul_mat, {{F32, {64, 160, 1, 1}, 1}, {F32, {64, 200, 1, 1}}}},
    {"mul-mat-tile-batch", mul_mat, {{F32, {64, 640, 3, 1}, 1}, {F32, {64, 16, 3, 1}}}},
    {"mul-mat-tile-copy", mul_mat, {{GGML_TYPE_Q4_0, {160, 44, 1, 1}, 1}, {F16, {160, 33, 1, 1}}}},
    {"rope", rope, {{F32, {64, 9, 12, 1}}, {I32, {12, 1, 1, 1}}}},
    {"rope-many", rope, {{F32, {64, 9, 40, 1}}, {I32, {40, 1, 1, 1}}}},
    {"rope-factors", rope_with_factors, {{F32, {64, 9, 12, 1}}, {I32, {12, 1, 1, 1}}, {F32, {32, 1, 1, 1}}}},
    {"rope-sections", rope_sections, {{F32, {64, 9, 12, 1}}, {I32, {48, 1, 1, 1}}}},
    {"rope-half", rope_half, {{F32, {80, 3, 25, 1}}, {I32, {25, 1, 1, 1}}}},
    {"rope-f16", rope, {{F16, {48, 9, 12, 1}}, {I32, {12, 1, 1, 1}}}},
    {"soft-max", soft_max, {{F32, {96, 12, 8, 1}}, {F32, {96, 12, 1, 1}}}},
    {"soft-max-odd", soft_max, {{F32, {75, 12, 8, 1}}, {F16, {75, 12, 1, 1}}}},
    {"soft-max-sinks", soft_max_sinks, {{F32, {96, 12, 8, 1}}, {F32, {8, 1, 1, 1}}}},
    {"soft-max-part", soft_max_part, {{F32, {75, 71, 1, 1}}}},
    {"flash-attn", flash_attn, {{F32, {64, 40, 8, 1}}, {F16, {64, 80, 8, 1}}, {F16, {64, 80, 8, 1}}, {F16, {80, 40, 1, 1}}}},
    {"flash-attn-split", flash_attn, {{F32, {64, 1, 6, 1}}, {F32, {64, 200, 2, 1}}, {F32, {64, 200, 2, 1}}, {F16, {200, 1, 1, 1}}}},
    {"flash-attn-row", flash_attn, {{F32, {64, 1, 6, 1}}, {F16, {64, 200, 2, 1}}, {F16, {64, 200, 2, 1}}, {F16, {200, 1, 1, 1}}}},
    {"flash-attn-row-long", flash_attn, {{F32, {128, 1, 6, 1}}, {F16, {128, 200, 2, 1}}, {F16, {128, 200, 2, 1}}, {F16, {200, 1, 1, 1}}}},
    {"flash-attn-row-odd", flash_attn, {{F32, {64, 1, 6, 1}}, {F16, {64, 203, 2, 1}}, {F16, {64, 203, 2, 1}}, {F16, {203, 1, 1, 1}}}},
    {"flash-attn-row-sinks", flash_attn_sinks, {{F32, {64, 1, 6, 1}}, {F16, {64, 200, 2, 1}}, {F16, {64, 200, 2, 1}}, {F32, {6, 1, 1, 1}}}},
    {"flash-attn-split-wide", flash_attn, {{F32, {64, 1, 24, 1}}, {F32, {64, 200, 8, 1}}, {F32, {64, 200, 8, 1}}, {F16, {200, 1, 1, 1}}}},
    {"flash-attn-f32", flash_attn, {{F32, {40, 3, 4, 1}}, {F32, {40, 100, 4, 1}}, {F32, {40, 100, 4, 1}}, {F16, {100, 3, 1, 1}}}},
    {"flash-attn-q8_0", flash_attn, {{F32, {96, 2, 4, 1}}, {GGML_TYPE_Q8_0, {96, 70, 4, 1}, 1}, {GGML_TYPE_Q8_0, {96, 70, 4, 1}, 1}, {F16, {70, 2, 1, 1}}}},
    {"chain", chain, {{F32, {72, 96, 1, 1}}, {F32, {72, 96, 1, 1}}, {F32, {72, 96, 1, 1}}}},
    {"norm-of-sum", norm_of_sum, {{F32, {96, 96, 1, 1}}, {F32, {96, 96, 1, 1}}, {F32, {96, 1, 1, 1}}, {F32, {96, 1, 1, 1}}}},
    {"norm-of-sum-one", norm_of_sum, {{F32, {576, 1, 1, 1}}, {F32, {576, 1, 1, 1}}, {F32, {576, 1, 1, 1}}, {F32, {576, 1, 1, 1}}}},
    {"rope-to-cache", rope_to_cache, {{F16, {192, 40, 1, 1}, 1}, {F32, {64, 3, 12, 1}}, {I32, {12, 1, 1, 1}}, {I32, {12, 1, 1, 1}}}},
    {"rope-to-cache-narrow", rope_to_cache, {{F16, {192, 40, 1, 1}, 1}, {F32, {48, 4, 12, 1}}, {I32, {12, 1, 1, 1}}, {I32, {12, 1, 1, 1}}}},
    {"products", products, {{GGML_TYPE_Q8_0, {608, 48, 1, 1}, 1}, {GGML_TYPE_Q8_0, {608, 48, 1, 1}, 1}, {GGML_TYPE_Q8_0, {608, 48, 1, 1}, 1}, {F32, {608, 2, 1, 1}}}},
    {"product-and-sum-q8_0", product_and_sum, {{GGML_TYPE_Q8_0, {608, 1100, 1, 1}, 1}, {F32, {608, 2, 1, 1}}, {F32, {1100, 2, 1, 1}}}},
    {"product-and-sum-f16", product_and_sum, {{F16, {136, 300, 1, 1}, 1}, {F32, {136, 2, 1, 1}}, {F32, {300, 2, 1, 1}}}},
    {"product-and-sum-tile", product_and_sum, {{F32, {128, 160, 1, 1}, 1}, {F32, {128, 50, 1, 1}}, {F32, {160, 50, 1, 1}}}},
    {"gate", gate, {{GGML_TYPE_Q8_0, {608, 1100, 1, 1}, 1}, {GGML_TYPE_Q8_0, {608, 1100, 1, 1}, 1}, {F32, {608, 2, 1, 1}}}},
};

static void fail(const char * what) {
    printf("%s\n", what);
    exit(2);
}

static void fill(tensor * t, uint32_t seed) {
    const int64_t n = ggml_nelements(t);
    float * values = malloc(n * sizeof(float));
    void * data = calloc(1, ggml_nbytes(t));
    uint32_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < n; ++i) {
        state = state * 1664525 + 1013904223;
        values[i] = (float) (state >> 8) / (1 << 23) - 1;
    }
    if (t->type == I32) {
        for (int64_t i = 0; i < n; ++i) {
            ((int32_t *) data)[i] = (int32_t) ((7 * i + seed) % TARGET_ROWS);
        }
    } else {
        ggml_quantize_chunk(t->type, values, data, 0, ggml_nrows(t), t->ne[0], NULL);
    }
    ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
    free(data);
    free(values);
}

// Gives each tensor a buffer of its own, with memory that is in no buffer behind it.
static int allocate(ggml_backend_t backend, ggml_backend_buffer_t * buffers) {
    ggml_backend_buffer_t gaps[TENSORS_MAX];
    int count = 0;
    for (tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src) {
            continue;
        }
        buffers[count] = ggml_backend_alloc_buffer(backend, ggml_nbytes(t));
        gaps[count] = ggml_backend_alloc_buffer(backend, 4096);
        if (!buffers[count] || !gaps[count] ||
            ggml_backend_tensor_alloc(buffers[count], t, ggml_backend_buffer_get_base(buffers[count])) != GGML_STATUS_SUCCESS) {
            fail("a tensor can't be allocated");
        }
        ++count;
    }
    for (tensor * t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t)) {
        if (t->view_src && ggml_backend_view_init(t) != GGML_STATUS_SUCCESS) {
            fail("a view can't be made");
        }
    }
    for (int i = 0; i < count; ++i) {
        ggml_backend_buffer_free(gaps[i]);
    }
    return count;
}

static void run(ggml_backend_t backend, const struct test * test) {
    ctx = ggml_init((struct ggml_init_params) {1 << 20, NULL, true});
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    tensor * in[INPUTS_MAX], * filled[FILLED_MAX];
    int count = 0, inputs = 0;
    for (; inputs < INPUTS_MAX && test->in[inputs].ne[0]; ++inputs) {
        in[inputs] = ggml_new_tensor(ctx, test->in[inputs].type, 4, test->in[inputs].ne);
        ggml_format_name(in[inputs], "input-%d", inputs);
        filled[count++] = in[inputs];
    }
    tensor * result = test->build(in);
    ggml_set_name(result, "first");
    ggml_build_forward_expand(graph, result);
    for (int i = 0; i < inputs; ++i) {
        if (test->in[i].weights) {
            continue;
        }
        tensor * values = ggml_dup_tensor(ctx, in[i]);
        ggml_format_name(values, "values-%d", i);
        filled[count++] = values;
        in[i] = ggml_cpy(ctx, values, in[i]);
        ggml_format_name(in[i], "changed-%d", i);
        ggml_build_forward_expand(graph, in[i]);
    }
    result = test->build(in);
    ggml_set_name(result, "second");
    result = ggml_dup(ctx, result);
    ggml_set_name(result, "copy");
    ggml_build_forward_expand(graph, result);
    ggml_backend_buffer_t buffers[TENSORS_MAX];
    const int allocated = allocate(backend, buffers);
    for (int i = 0; i < count; ++i) {
        fill(filled[i], i + 1);
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        if (!ggml_backend_supports_op(backend, ggml_graph_node(graph, i))) {
            fail("the device does not support the graph");
        }
    }
    const enum ggml_status status = ggml_backend_graph_compute(backend, graph);
    printf("%s: %s\n", test->name, status == GGML_STATUS_SUCCESS ? "computed" : "failed");
    for (int i = 0; i < allocated; ++i) {
        ggml_backend_buffer_free(buffers[i]);
    }
    ggml_free(ctx);
}

int main(int argc, char ** argv) {
    const int known = sizeof(tests) / sizeof(tests[0]);
    if (argc < 2) {
        fail("no plugin was named");
    }
    if (argc == 2) {
        for (int i = 0; i < known; ++i) {
            printf("%s\n", tests[i].name);
        }
        return 0;
    }
    if (!ggml_backend_load(argv[1])) {
        fail("the plugin can't be loaded");
    }
    ggml_backend_t backend = ggml_backend_init_by_name("ET0", NULL);
    if (!backend) {
        fail("there is no ET0");
    }
    for (int a = 2; a < argc; ++a) {
        int i = 0;
        while (i < known && strcmp(tests[i].name, argv[a])) {
            ++i;
        }
        if (i == known) {
            fail("there is no such case");
        }
        run(backend, &tests[i]);
    }
    ggml_backend_free(backend);
    return 0;
}
