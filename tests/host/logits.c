// Decodes fixed tokens as told, and writes the logits of each step's last token to a file: rows of floats.
// Usage: logits <folder of backends> <file> <word> ...
//   0=model.gguf   loads a model, with a context of 512 tokens, into place 0 (of 4); what was there before is freed
//   0p20           decodes a prompt of 20 tokens there
//   0s5            decodes 5 more tokens, one after the other
//   0-             frees what is there
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, CONTEXT = 512 };

static struct place {
    struct llama_model * model;
    struct llama_context * context;
    int length;
} places[PLACES];

static void check(int good, const char * what) {
    if (!good) {
        printf("%s failed\n", what);
        exit(1);
    }
}

static void clear(struct place * place) {
    llama_free(place->context);
    llama_model_free(place->model);
    memset(place, 0, sizeof *place);
}

static void load(struct place * place, const char * path) {
    clear(place);
    struct llama_model_params model = llama_model_default_params();
    model.n_gpu_layers = 99;
    place->model = llama_model_load_from_file(path, model);
    check(place->model != NULL, "loading the model");
    struct llama_context_params context = llama_context_default_params();
    context.n_ctx = CONTEXT;
    context.n_threads = context.n_threads_batch = 1;
    context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    place->context = llama_init_from_model(place->model, context);
    check(place->context != NULL, "making a context");
}

static void decode(struct place * place, int count, FILE * out) {
    check(place->context != NULL && place->length + count <= CONTEXT, "finding room");
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(place->model));
    llama_token tokens[CONTEXT];
    for (int i = 0; i < count; ++i) {
        tokens[i] = (place->length + i) * 31 % 997 % vocabulary;
    }
    check(llama_decode(place->context, llama_batch_get_one(tokens, count)) == 0, "decoding");
    place->length += count;
    const float * logits = llama_get_logits_ith(place->context, -1);
    check(logits != NULL && fwrite(logits, sizeof *logits, vocabulary, out) == (size_t) vocabulary, "writing");
}

int main(int argc, char ** argv) {
    check(argc > 2, "reading the command line");
    ggml_backend_load_all_from_path(argv[1]);
    FILE * out = fopen(argv[2], "wb");
    check(out != NULL, "opening the file");
    for (int i = 3; i < argc; ++i) {
        const unsigned number = argv[i][0] - '0';
        check(number < PLACES, "reading a place");
        struct place * place = &places[number];
        // Between the logs of the steps.
        fprintf(stderr, "WORD %s\n", argv[i]);
        switch (argv[i][1]) {
            case '=': load(place, argv[i] + 2); break;
            case 'p': decode(place, atoi(argv[i] + 2), out); break;
            case 's':
                for (int left = atoi(argv[i] + 2); left > 0; --left) {
                    decode(place, 1, out);
                }
                break;
            case '-': clear(place); break;
            default: check(0, "reading a word");
        }
    }
    check(fclose(out) == 0, "closing the file");
    for (int i = 0; i < PLACES; ++i) {
        clear(&places[i]);
    }
    return 0;
}
