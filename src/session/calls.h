/* The calls of host functions that a guest has under way: posted, handed to the embedder, replied
 * to, delivered. Ids are the guest's, so they may be anything. */
#ifndef BRU_SESSION_CALLS_H
#define BRU_SESSION_CALLS_H

#include "base/base.h"

enum {
    CALLS_OPEN_MAX = 16384,     /* at a time */
    CALLS_BYTES_MAX = 256 << 20 /* of names, payloads and replies that wait, together */
};

typedef struct call {
    struct call *next, *prev; /* among the news */
    bool news;                /* in that list */
    uint32_t id;
    bool handed;    /* the embedder has seen it */
    bool known;     /* or may know of it otherwise: from the snapshot that it came out of */
    bool dropped;   /* the guest no longer waits */
    uint64_t order; /* of posting */
    char *name; /* NUL-terminated; with the payload behind it: a snapshot may want both as long as
                 * the guest waits */
    size_t len; /* of the payload */
    size_t charge; /* bytes that count */
} call;

typedef struct call_list {
    call **slots; /* all that are open, by a hash of their id; a power of two of them, or none */
    uint32_t slot_count, open;
    uint32_t dropped;   /* of them, whose end the guest does not wait for */
    call *first, *last; /* news: what the embedder has not seen, in the order of posting */
    uint64_t posted;    /* how many there were in all */
    size_t bytes;
    buf replies; /* agent_reply records for the guest to take */
} call_list;

void calls_init(call_list *l);
void calls_clear(call_list *l); /* keeps its memory for replies */
void calls_free(call_list *l);

/* BRU_ELIMIT beyond a ceiling or an id that is open; BRU_ENOMEM. Bytes are copied. */
bru_status calls_post(call_list *l, uint32_t id, const void *name, size_t name_len,
                      const void *payload, size_t len);
void calls_drop(call_list *l, uint32_t id);

/* The next call that the embedder has not seen, or whose end it has not; NULL if none. It then
 * counts as seen. */
const call *calls_next(call_list *l);
const void *call_payload(const call *c);
/* The open call `id`, or NULL. */
call *calls_find(const call_list *l, uint32_t id);

/* BRU_EINVAL: no such call. BRU_ELIMIT, BRU_ENOMEM: the call is still open. */
bru_status calls_reply(call_list *l, uint32_t id, bool ok, const void *data, size_t len,
                       bru_error *err);

#endif
