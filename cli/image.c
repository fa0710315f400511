/* brumate image info | build | verify. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int open_image(const settings *s, const char *path, bru_image **out) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_error err = { 0 };
    o.guest_path = s->guest;
    return bru_image_open(path, &o, out, &err) ? fail_error(&err) : 0;
}

static int info(const settings *s) {
    bru_image *image;
    int rc = open_image(s, s->arg_count ? s->args[0] : NULL, &image);
    if (rc) return rc;
    bru_image_info i;
    bru_image_get_info(image, &i);
    printf("id: %s\nformat: %" PRIu32 "\nguest: %s\nwasm_sha256: %s\n", i.id, i.format,
           i.guest_build, i.wasm_sha256);
    printf("file_bytes: %" PRIu64 "\nmemory_bytes: %" PRIu64 "\nstored_bytes: %" PRIu64
           "\nroot_bytes: %" PRIu64 "\nroot_entries: %" PRIu32 "\n",
           i.file_bytes, i.memory_bytes, i.stored_bytes, i.root_bytes, i.root_entries);
    fputs("preloaded:", stdout);
    for (const char *p = i.preloaded; *p;) {
        size_t n = strcspn(p, "\n");
        printf(" %.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    putchar('\n');
    bru_image_unref(image);
    return finish_stdout();
}

static int verify(const settings *s) {
    int worst = 0;
    for (size_t n = 0; n < s->arg_count; n++) {
        bru_image *image;
        int rc = open_image(s, s->args[n], &image);
        if (rc) {
            worst = rc;
            continue;
        }
        bru_image_info i;
        bru_image_get_info(image, &i);
        printf("%s: whole, id %s\n", s->args[n], i.id);
        bru_image_unref(image);
    }
    int rc = finish_stdout();
    return worst ? worst : rc;
}

/* The new image is renamed into place: what stands there must be a file, or nothing. */
static int build(const settings *s) {
    struct stat st;
    if (stat(s->output, &st) == 0 && !S_ISREG(st.st_mode))
        return fail("-o: %s: not a regular file", s->output);
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    bru_error err = { 0 };
    o.guest_path = s->guest;
    o.root_path = s->root;
    o.preload = s->preload;
    return bru_image_build(&o, s->output, &err) ? fail_error(&err) : 0;
}

int command_image(const settings *s) {
    if (s->command == COMMAND_BUILD) return build(s);
    return s->command == COMMAND_INFO ? info(s) : verify(s);
}
