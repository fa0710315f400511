/* Runs a fuzzer as an ordinary test: over the files of its corpus, which are given as folders, and
 * over some thousand inputs made up from a fixed seed. */
#include "fuzz.h"

#include <dirent.h>

#define MADE_UP 1500
#define LONGEST 4096

static void replay_file(const char *path) {
    FILE *f = fopen(path, "rb");
    MUST(f != NULL);
    static uint8_t bytes[1 << 20];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    uint8_t *copy = malloc(n ? n : 1); /* its own size, so that reading past it is noticed */
    MUST(copy != NULL);
    memcpy(copy, bytes, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static unsigned replay_folder(const char *folder) {
    unsigned count = 0;
    DIR *dir = opendir(folder);
    if (!dir) {
        fprintf(stderr, "no corpus at %s\n", folder);
        exit(1);
    }
    for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
        char path[4096];
        if (d->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        replay_file(path);
        count++;
    }
    closedir(dir);
    return count;
}

static uint32_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

int main(int argc, char **argv) {
    unsigned kept = 0;
    for (int i = 1; i < argc; i++) kept += replay_folder(argv[i]);
    uint64_t state = 42;
    for (unsigned i = 0; i < MADE_UP; i++) {
        size_t len = next_random(&state) % LONGEST;
        uint8_t *bytes = malloc(len ? len : 1);
        MUST(bytes != NULL);
        for (size_t k = 0; k < len; k++) bytes[k] = (uint8_t)next_random(&state);
        LLVMFuzzerTestOneInput(bytes, len);
        free(bytes);
    }
    printf("%u kept inputs, %u made up\n", kept, MADE_UP);
    return 0;
}
