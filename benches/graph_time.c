// What the host pays for a graph: the time of graph_compute on the device that computes nothing, for a graph that is
// known and for one that is planned anew, beside the time of hashing the bytes of its nodes once. Built and run by
// scripts/measure with GGML_ET_DEVICE=null.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"

enum { BLOCKS = 50, NODES_A_BLOCK = 10, RUNS = 201, WIDTH = 576 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int count)
{
    qsort(times, count, sizeof *times, by_value);
    return times[count / 2];
}

static struct ggml_tensor *product(struct ggml_context *ctx, int64_t rows, struct ggml_tensor *x)
{
    return ggml_mul_mat(ctx, ggml_new_tensor_2d(ctx, GGML_TYPE_Q8_0, x->ne[0], rows), x);
}

// Ten nodes as in the feed-forward part of a block.
static struct ggml_tensor *block(struct ggml_context *ctx, struct ggml_tensor *x, struct ggml_tensor **norm)
{
    struct ggml_tensor *weight = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH);
    *norm = ggml_rms_norm(ctx, x, 1e-5f);
    struct ggml_tensor *in = ggml_mul(ctx, *norm, weight);
    struct ggml_tensor *gated = ggml_swiglu_split(ctx, product(ctx, 1536, in), product(ctx, 1536, in));
    struct ggml_tensor *out = ggml_add(ctx, product(ctx, WIDTH, gated), x);
    struct ggml_tensor *last = ggml_mul(ctx, ggml_rms_norm(ctx, out, 1e-5f), weight);
    return ggml_add(ctx, last, out);
}

// One pass of FNV-1a over the nodes, word by word: a fast and simple reading of every byte.
static uint64_t hash(struct ggml_cgraph *graph)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const char *bytes = (const char *)ggml_graph_node(graph, i);
        for (size_t at = 0; at < sizeof(struct ggml_tensor); at += 8) {
            uint64_t word;
            memcpy(&word, bytes + at, 8);
            h = (h ^ word) * 0x100000001b3u;
        }
    }
    return h;
}

int main(void)
{
    ggml_backend_load_all();
    ggml_backend_dev_t device = ggml_backend_dev_by_name("ET0");
    ggml_backend_t backend = device ? ggml_backend_dev_init(device, NULL) : NULL;
    if (!backend) {
        fprintf(stderr, "no device ET0\n");
        return 1;
    }
    struct ggml_init_params params = {.mem_size = 16 << 20, .no_alloc = true};
    struct ggml_context *ctx = ggml_init(params);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    struct ggml_tensor *x = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, WIDTH), *first = NULL, *norm;
    for (int i = 0; i < BLOCKS; ++i) {
        x = block(ctx, x, &norm);
        if (!first)
            first = norm;
    }
    ggml_build_forward_expand(graph, x);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    int nodes = ggml_graph_n_nodes(graph);
    if (!buffer || nodes != BLOCKS * NODES_A_BLOCK) {
        fprintf(stderr, "no graph of %d nodes on ET0: %d\n", BLOCKS * NODES_A_BLOCK, nodes);
        return 1;
    }

    static double known[RUNS], anew[RUNS], hashed[RUNS];
    volatile uint64_t sink = 0;
    for (int i = 0; i < RUNS; ++i) {
        float eps = 1e-5f + 1e-9f * i;
        memcpy(first->op_params, &eps, sizeof eps);
        double start = now();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
            return 1;
        anew[i] = now() - start;
        start = now();
        if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS)
            return 1;
        known[i] = now() - start;
        start = now();
        sink ^= hash(graph);
        hashed[i] = now() - start;
    }
    printf("{\"nodes\": %d, \"known_us\": %.2f, \"anew_us\": %.2f, \"hash_us\": %.2f}\n", nodes, median(known, RUNS),
           median(anew, RUNS), median(hashed, RUNS));
    ggml_backend_buffer_free(buffer);
    ggml_backend_free(backend);
    ggml_free(ctx);
    return 0;
}
