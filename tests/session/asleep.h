/* What the tests of snapshots share. */
#ifndef BRU_TESTS_SESSION_ASLEEP_H
#define BRU_TESTS_SESSION_ASLEEP_H

#include "world.h"

static inline bru_snapshot *snapshot_of(bru_session *s) {
    bru_snapshot *snapshot = NULL;
    bru_error err;
    if (bru_session_snapshot(s, NULL, &snapshot, &err) != BRU_OK)
        fprintf(stderr, "%s\n", err.message);
    return snapshot;
}

static inline bru_session *resumed(const bru_snapshot *snapshot) {
    bru_session *s = NULL;
    bru_error err;
    if (bru_session_resume(the_image(), NULL, snapshot, &s, &err) != BRU_OK)
        fprintf(stderr, "%s\n", err.message);
    return s;
}

static inline bru_session_options with_functions(void) {
    static const bru_function functions[] = { { "f", NULL, NULL }, { "g", NULL, NULL } };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.functions = functions;
    o.function_count = 2;
    return o;
}

/* Starts `src` and goes on until it waits; every call stays open. */
static inline bool start(bru_session *s, const char *src) {
    bru_event event = { .kind = BRU_EVENT_CALL };
    bru_status st = bru_session_start(s, src, strlen(src), NULL, NULL);
    while (!st && event.kind == BRU_EVENT_CALL) st = bru_session_next(s, &event, NULL);
    bool waits = !st && event.kind == BRU_EVENT_WAIT;
    if (!waits && event.kind == BRU_EVENT_DONE) {
        fprintf(stderr, "%s\n", bru_result_text(event.result, BRU_TEXT_TRACEBACK, NULL));
        bru_result_free(event.result);
    }
    return waits;
}

static inline bru_status reply_number(bru_session *s, uint32_t id, unsigned n) {
    uint8_t cbor[] = { 0x19, (uint8_t)(n >> 8), (uint8_t)n };
    return bru_session_reply(s, id, 1, cbor, sizeof cbor, NULL);
}

/* Runs what waits to its end, sleeping as told. */
static inline bru_result *finish(bru_session *s) {
    bru_event event;
    while (bru_session_next(s, &event, NULL) == BRU_OK) {
        if (event.kind == BRU_EVENT_DONE) return event.result;
        if (event.kind == BRU_EVENT_WAIT && event.wake_ns == UINT64_MAX) break;
    }
    return NULL;
}

#define CHECK_FINISH(s, text)                                                                      \
    do {                                                                                           \
        bru_result *r_ = finish(s);                                                                \
        CHECK_STR(r_ ? bru_result_text(r_, BRU_TEXT_OUTPUT, NULL) : NULL, text);                   \
        bru_result_free(r_);                                                                       \
    } while (0)

#endif
