// Computes a graph whose kernel fails, reads its result, and goes on. Prints what each call gave.
// Usage: faults <plugin>   with device kernels whose SUM_ROWS fails
#include "ggml-backend.h"
#include "ggml.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = 64 };

static struct ggml_context * ctx;
static ggml_backend_t backend;

static void check(int good, const char * what) {
    if (!good) {
        printf("%s failed\n", what);
        exit(1);
    }
}

static void compute(const char * what, struct ggml_tensor * result) {
    struct ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, result);
    const enum ggml_status status = ggml_backend_graph_compute_async(backend, graph);
    printf("%s: %s\n", what, status == GGML_STATUS_SUCCESS ? "accepted" : "refused");
}

// Once as programs with one thread do, once in the order of the device's work.
static void show(const char * what, const struct ggml_tensor * t) {
    float values[2];
    ggml_backend_tensor_get_async(backend, t, &values[0], 0, sizeof(float));
    ggml_backend_synchronize(backend);
    ggml_backend_tensor_get(t, &values[1], 0, sizeof(float));
    printf("%s: %s %s\n", what, isnan(values[0]) ? "nothing" : "a number", isnan(values[1]) ? "nothing" : "a number");
}

int main(int argc, char ** argv) {
    check(argc == 2 && ggml_backend_load(argv[1]), "loading the plugin");
    backend = ggml_backend_init_by_name("ET0", NULL);
    check(backend != NULL, "opening ET0");
    ctx = ggml_init((struct ggml_init_params) {1 << 20, NULL, true});
    struct ggml_tensor * in = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, COUNT, COUNT);
    struct ggml_tensor * bad = ggml_sum_rows(ctx, in);
    struct ggml_tensor * good = ggml_scale(ctx, in, 2.0f);
    ggml_set_name(bad, "bad");
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    check(buffer != NULL, "taking memory");
    static float values[COUNT * COUNT];
    for (int i = 0; i < COUNT * COUNT; ++i) {
        values[i] = 1.0f + i;
    }
    ggml_backend_tensor_set(in, values, 0, sizeof values);
    ggml_backend_tensor_set(bad, values, 0, ggml_nbytes(bad));
    compute("bad", bad);
    show("its result", bad);
    compute("next", good);
    compute("after that", good);
    show("its result", good);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
    return 0;
}
