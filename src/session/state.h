/* A session's state but for its memory and its files, as bytes: what snapshots hold, and what a
 * twin is given. Whoever reads it trusts nothing in it. */
#ifndef BRU_SESSION_STATE_H
#define BRU_SESSION_STATE_H

#include "session/session.h"

/* A clock further from 0 than this is no guest's. */
#define STATE_CLOCK_MAX (1ull << 62)

/* Numbers, then as many bytes as they say, in this order. */
typedef struct state_head {
    uint64_t clock;      /* the guest's monotonic clock, ns */
    uint64_t wall;       /* at that moment, ns since 1970 */
    uint64_t cpu_before; /* of the session */
    uint64_t used, left; /* ns of the execution's time; left BRU_NO_LIMIT: no deadline */
    uint64_t cpu_used;   /* ns, of the execution */
    uint32_t waiting;    /* an execution waits at rest */
    uint32_t input_ended;
    uint32_t streams; /* its output is handed out, not kept */
    uint32_t call_count;
    uint32_t globals_len;
    uint32_t deterministic; /* the five behind it hold */
    uint8_t seed[32];
    uint64_t wall_offset, readings, waited, draws;
    uint64_t fds_len;
    uint64_t calls_len;   /* calls_save() */
    uint64_t replies_len; /* agent_reply records */
    uint64_t output_len;  /* u32 stream, u32 length, bytes */
    uint64_t input_len;   /* not read yet */
    uint64_t shown_len;   /* artifacts: u32 length of the type, u32 of the data, both */
} state_head;

/* The same, checked for shape; pointers into the bytes. */
typedef struct state_view {
    state_head head;
    const uint8_t *globals, *fds, *calls, *replies, *output, *input, *shown;
} state_view;

/* Whether the session is at rest. BRU_ESTATE: the message says why not. */
BRU_MUST_CHECK bru_status state_ready(const bru_session *s, bru_error *err);
/* Appends the state of a session at rest. */
BRU_MUST_CHECK bru_status state_save(bru_session *s, buf *out, bru_error *err);
BRU_MUST_CHECK bru_status state_parse(const uint8_t *bytes, size_t len, state_view *out,
                                      bru_error *err);
/* Puts it into a session that was just reset, whose memory and files are there already. On failure
 * the session is to be reset again. */
BRU_MUST_CHECK bru_status state_load(bru_session *s, const state_view *state, bru_error *err);
/* The part of it that needs no guest: clock, descriptors, calls, output and input. */
BRU_MUST_CHECK bru_status state_load_world(bru_session *s, const state_view *state, bru_error *err);

#endif
