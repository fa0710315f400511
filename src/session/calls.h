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
    struct call *next;
    uint32_t id;
    bool handed;      /* the embedder has seen it */
    bool dropped;     /* the guest no longer waits */
    bool drop_handed; /* and the embedder knows */
    char *name;       /* both freed once the event is over */
    uint8_t *payload;
    size_t len;
} call;

typedef struct call_list {
    call *first, **last;
    uint32_t open;
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

/* The next call that the embedder has not seen, or whose end it has not; NULL if none. */
call *calls_unseen(call_list *l);
/* Frees what the last event borrowed. */
void calls_settle(call_list *l);

/* BRU_EINVAL: no such call. BRU_ELIMIT, BRU_ENOMEM: the call is still open. */
bru_status calls_reply(call_list *l, uint32_t id, bool ok, const void *data, size_t len,
                       bru_error *err);

#endif
