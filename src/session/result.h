/* What an execution leaves behind; made by the session, read through brumate/result.h. */
#ifndef BRU_SESSION_RESULT_H
#define BRU_SESSION_RESULT_H

#include "base/base.h"
#include "brumate/result.h"

enum {
    RESULT_TEXTS = BRU_TEXT_VALUE_ERROR + 1,
    RESULT_ARTIFACTS_MAX = 4096,
    RESULT_ARTIFACT_TYPE_MAX = 255 /* bytes */
};

typedef struct artifact {
    char *bytes; /* owned: the type, a NUL, the data, and a NUL that does not count */
    size_t len;  /* of the data */
    size_t data_at;
} artifact;

struct bru_result {
    bru_reason reason;
    int exit_code;
    bool session_alive;
    bru_usage usage;
    struct {
        char *data; /* owned, NUL-terminated; NULL: empty */
        size_t len;
        bool shared; /* another text's bytes */
    } texts[RESULT_TEXTS];
    artifact *artifacts;
    size_t artifact_count, artifact_bytes; /* of types and data */
};

/* A completed result without texts; NULL without memory. */
bru_result *result_new(void);

/* Copies `len` bytes in as a text; BRU_ENOMEM leaves the text empty. */
bru_status result_set(bru_result *r, bru_text which, const void *data, size_t len);

/* Keeps an artifact. BRU_ELIMIT if there are too many, or of more than `max` bytes together;
 * BRU_EGUEST for a type that is none; BRU_ENOMEM. */
bru_status result_add_artifact(bru_result *r, uint64_t max, const void *type, size_t type_len,
                               const void *data, size_t len);

/* Takes the output over: `both` streams in order, `len` bytes, and what each wrote, `lens`. A NULL
 * in `one` means that `both` is all that stream's. All have room for a NUL. */
void result_give_output(bru_result *r, char *both, size_t len, char *one[2], const size_t lens[2]);

#endif
