// Contexts of one model, each in a thread of its own: decodes tokens, drops the first ones, moves the rest down (a context
// shift), and decodes one more. Prints each context's logits.
// Usage: contexts <model> <folder of backends> <type of K> <type of V> <number of contexts>; types as in ggml.h.
#include "llama.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 40, DROPPED = 10, CONTEXTS_MAX = 8, SHOWN = 16 };

static struct llama_model * model;
static int type_k, type_v;
static float logits[CONTEXTS_MAX][SHOWN];

static void check(int good, const char * what) {
    if (!good) {
        printf("%s failed\n", what);
        exit(1);
    }
}

static void * work(void * out) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 256;
    params.n_threads = params.n_threads_batch = 1;
    params.type_k = type_k;
    params.type_v = type_v;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    struct llama_context * context = llama_init_from_model(model, params);
    check(context != NULL, "making a context");
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_token tokens[TOKENS];
    for (int i = 0; i < TOKENS; ++i) {
        tokens[i] = (i * 7 + 3) % vocabulary;
    }
    check(llama_decode(context, llama_batch_get_one(tokens, TOKENS)) == 0, "decoding");
    llama_memory_t memory = llama_get_memory(context);
    llama_memory_seq_rm(memory, 0, 0, DROPPED);
    llama_memory_seq_add(memory, 0, DROPPED, TOKENS, -DROPPED);
    check(llama_decode(context, llama_batch_get_one(tokens, 1)) == 0, "decoding after the shift");
    for (int i = 0; i < SHOWN; ++i) {
        ((float *) out)[i] = llama_get_logits_ith(context, -1)[i];
    }
    llama_free(context);
    return NULL;
}

int main(int argc, char ** argv) {
    check(argc == 6, "reading the command line");
    ggml_backend_load_all_from_path(argv[2]);
    type_k = atoi(argv[3]);
    type_v = atoi(argv[4]);
    const int contexts = atoi(argv[5]);
    check(contexts >= 1 && contexts <= CONTEXTS_MAX, "counting the contexts");
    struct llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 99;
    model = llama_model_load_from_file(argv[1], params);
    check(model != NULL, "loading the model");
    pthread_t threads[CONTEXTS_MAX];
    for (int i = 0; i < contexts; ++i) {
        check(pthread_create(&threads[i], NULL, work, logits[i]) == 0, "making a thread");
    }
    for (int i = 0; i < contexts; ++i) {
        pthread_join(threads[i], NULL);
        printf("logits");
        for (int j = 0; j < SHOWN; ++j) {
            printf(" %.6f", logits[i][j]);
        }
        printf("\n");
    }
    llama_model_free(model);
    return 0;
}
