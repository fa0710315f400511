/* What the session tests share: the image, and one-line ways to run something. */
#ifndef BRU_TESTS_SESSION_WORLD_H
#define BRU_TESTS_SESSION_WORLD_H

#include "test.h"
#include "brumate.h"

static inline bru_image *the_image(void) {
    static bru_image *image;
    if (!image) {
        const char *path = getenv("BRUMATE_IMAGE"), *guest = getenv("BRUMATE_GUEST");
        bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
        bru_error err;
        o.flags = BRU_IMAGE_TRUSTED;
        o.guest_path = guest ? guest : "build/core.so";
        if (bru_image_open(path ? path : "build/core.bru", &o, &image, &err) != BRU_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
    }
    return image;
}

static inline bru_session *session_with(const bru_session_options *options) {
    bru_session *s = NULL;
    bru_error err;
    if (bru_session_new(the_image(), options, &s, &err) != BRU_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return s;
}

static inline bru_result *run(bru_session *s, const char *src) {
    bru_result *r = NULL;
    bru_error err;
    if (bru_session_run(s, src, strlen(src), NULL, &r, &err) != BRU_OK)
        fprintf(stderr, "%s\n", err.message);
    return r;
}

#define CHECK_RUN(s, src, text)                                                                    \
    do {                                                                                           \
        bru_result *r_ = run(s, src);                                                              \
        CHECK_STR(r_ ? bru_result_text(r_, BRU_TEXT_OUTPUT, NULL) : NULL, text);                   \
        bru_result_free(r_);                                                                       \
    } while (0)

#endif
