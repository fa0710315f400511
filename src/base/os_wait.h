/* Waiting for a word in memory to change, and waking who waits: no lock is held, so nothing is left
 * locked in a forked child, and signal handlers may wake. */
#ifndef BRU_BASE_OS_WAIT_H
#define BRU_BASE_OS_WAIT_H

#include <stdatomic.h>
#include <stdint.h>

/* Returns when *word is not `value` any more, when the monotonic clock reads `until` (ns;
 * UINT64_MAX: never), or for no reason. */
void os_wait(atomic_uint *word, unsigned value, uint64_t until);

/* Wakes every thread that waits for `word`. */
void os_wake(atomic_uint *word);

#endif
