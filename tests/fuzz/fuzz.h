/* What fuzzers share: an input that is consumed from its beginning, and checks that end the
 * process, which is what a fuzzer notices. */
#ifndef BRU_TESTS_FUZZ_H
#define BRU_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

typedef struct input {
    const uint8_t *p;
    size_t left;
} input;

/* Zero when nothing is left. */
static inline uint32_t take(input *in, size_t bytes) {
    uint32_t v = 0;
    for (size_t i = 0; i < bytes && in->left > 0; i++, in->left--) v = v << 8 | *in->p++;
    return v;
}

#endif
