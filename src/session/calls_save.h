/* Open calls as bytes: u32 id, u32 length of the name, u64 length of the arguments, name,
 * arguments. What is read is not trusted. */
#ifndef BRU_SESSION_CALLS_SAVE_H
#define BRU_SESSION_CALLS_SAVE_H

#include "session/calls.h"

typedef struct saved_call {
    uint32_t id;
    size_t name_len, len;
    const char *name;
    const uint8_t *payload;
} saved_call;

/* Appends all that the guest still waits for, in the order of posting. */
BRU_MUST_CHECK bru_status calls_save(const call_list *l, buf *out, uint32_t *count);
/* Whether the bytes are `count` calls, whole and no more than a guest may have. */
bool calls_saved(const uint8_t *bytes, size_t len, uint32_t count);
/* The call at `at`, and where the next begins; of bytes that were checked. */
const uint8_t *calls_saved_next(const uint8_t *at, saved_call *out);
/* Posts them anew: the embedder is shown them again, and may reply before. */
BRU_MUST_CHECK bru_status calls_load(call_list *l, const uint8_t *bytes, uint32_t count);

#endif
