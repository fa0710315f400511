/* The doors of module "brumate" in any order, with any arguments, over a memory full of anything;
 * and an embedder who answers now and then. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "session/session.h"

enum { MEMORY = 4096, STEP = 14 };

static void embedder(bru_session *s, uint8_t what) {
    const call *c = what & 1 ? calls_next(&s->calls) : s->calls.first;
    if (c && what & 2) (void)!calls_reply(&s->calls, c->id, what & 4, "reply", what >> 6, NULL);
    if (what == 16) calls_clear(&s->calls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t memory[MEMORY];
    door_table tables[SESSION_TABLES];
    session_tables(tables);
    const door_table *own = &tables[SESSION_TABLE_OWN];
    bru_session s = { .phase = PHASE_IDLE };
    calls_init(&s.calls);
    buf_init(&s.run.posted, 1 << 16);
    buf_init(&s.reply, 1 << 16);
    buf_init(&s.failure, 1 << 16);
    memset(memory, 0, sizeof memory);
    for (; size >= STEP; data += STEP, size -= STEP) {
        uint32_t a, b, c;
        memcpy(&a, data + 2, 4);
        memcpy(&b, data + 6, 4);
        memcpy(&c, data + 10, 4);
        /* Small numbers most of the time, so that calls fit; the last bit says. */
        if (data[1] & 1) a %= 8, b %= MEMORY, c %= MEMORY;
        uint64_t args[] = { a, b, c }, result = 0;
        unsigned which = data[0] % 4;
        if (which == 3)
            embedder(&s, data[1]); /* not soft_ack: there is no instance */
        else
            own->doors[which].fn(&s, (gmem){ memory, MEMORY }, args, &result);
        memcpy(memory + b % (MEMORY - 12), data + 2, 12);
        if (s.calls.open > CALLS_OPEN_MAX || s.calls.bytes > CALLS_BYTES_MAX) abort();
    }
    calls_free(&s.calls);
    buf_free(&s.run.posted);
    buf_free(&s.reply);
    buf_free(&s.failure);
    return 0;
}
