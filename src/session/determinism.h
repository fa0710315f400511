/* The time and the chance of a deterministic session: functions of its seed and of what its guest
 * did so far, so that the same code is the same to the bit wherever and whenever it runs.
 *
 *   clocks   each reading steps them by a fixed time; a wait moves them to its end. The clock of
 *            CPU time counts readings alone.
 *   chance   request number n is ChaCha20's key stream of the seed with the nonce n. */
#ifndef BRU_SESSION_DETERMINISM_H
#define BRU_SESSION_DETERMINISM_H

#include "base/base.h"
#include "brumate/session.h"

typedef struct determinism {
    bool on;
    uint8_t seed[32];
    uint64_t wall_offset;      /* from the monotonic clock to the wall clock, modulo 2^64 */
    uint64_t readings, waited; /* of clocks, and ns waited */
    uint64_t draws;            /* requests for chance */
} determinism;

/* `options` NULL: off. BRU_ENOTSUP: the library of ciphers does not work here. */
BRU_MUST_CHECK bru_status determinism_init(determinism *d, const bru_deterministic *options,
                                           bru_error *err);

uint64_t determinism_monotonic(const determinism *d);
uint64_t determinism_wall(const determinism *d);
uint64_t determinism_cpu(const determinism *d);
void determinism_step(determinism *d); /* a clock was read */
/* Lets time pass, up to `until` on the monotonic clock. False: that is too far away to come. */
bool determinism_wait(determinism *d, uint64_t until);
/* The clocks go on from readings of others. */
void determinism_continue(determinism *d, uint64_t monotonic, uint64_t cpu);
/* A random_source. */
bool determinism_draw(void *d, void *out, size_t len);

/* Whether the numbers, which came from a snapshot, can be those of a session. */
bool determinism_sound(const determinism *d);

#endif
