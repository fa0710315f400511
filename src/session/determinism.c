#include "session/determinism.h"

#include <sodium.h>
#include <string.h>

/* What a reading takes: so small that programs do not think themselves slow, so large that loops
 * that wait by looking at a clock end. */
enum { STEP_NS = 1000 };
/* Where the monotonic clock begins: 0 is no time for some. */
enum { BEGIN_NS = 1000000000 };
#define CLOCK_MAX (1ull << 62)

bru_status determinism_init(determinism *d, const bru_deterministic *options, bru_error *err) {
    *d = (determinism){ .on = options != NULL, .waited = BEGIN_NS };
    if (!options) return BRU_OK;
    memcpy(d->seed, options->seed, sizeof d->seed);
    d->wall_offset = options->start_ns - BEGIN_NS;
    return sodium_init() < 0 ? error_set(err, BRU_ENOTSUP, "libsodium does not start") : BRU_OK;
}

uint64_t determinism_cpu(const determinism *d) {
    return d->readings * STEP_NS;
}

uint64_t determinism_monotonic(const determinism *d) {
    return d->waited + determinism_cpu(d);
}

uint64_t determinism_wall(const determinism *d) {
    return determinism_monotonic(d) + d->wall_offset;
}

void determinism_step(determinism *d) {
    d->readings++;
}

bool determinism_wait(determinism *d, uint64_t until) {
    uint64_t now = determinism_monotonic(d);
    if (until >= CLOCK_MAX) return false;
    if (until > now) d->waited += until - now;
    return true;
}

void determinism_continue(determinism *d, uint64_t monotonic, uint64_t cpu) {
    uint64_t wall = determinism_wall(d);
    d->readings = cpu / STEP_NS;
    d->waited = monotonic > determinism_cpu(d) ? monotonic - determinism_cpu(d) : 0;
    d->wall_offset = wall - determinism_monotonic(d);
}

bool determinism_draw(void *ctx, void *out, size_t len) {
    determinism *d = ctx;
    uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    for (unsigned i = 0; i < sizeof nonce; i++) nonce[i] = (uint8_t)(d->draws >> 8 * i);
    d->draws++;
    return crypto_stream_chacha20(out, len, nonce, d->seed) == 0;
}

bool determinism_sound(const determinism *d) {
    return d->readings < CLOCK_MAX / STEP_NS && d->waited < CLOCK_MAX;
}
