#define _GNU_SOURCE
#include "os_wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void os_wait(atomic_uint *word, unsigned value, uint64_t until) {
    struct timespec at = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until == UINT64_MAX ? NULL : &at,
            NULL, FUTEX_BITSET_MATCH_ANY);
}

void os_wake(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}
