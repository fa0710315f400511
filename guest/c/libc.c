/* What wasi-libc gets wrong: the linker takes these instead of its own.
 *
 * - clock_nanosleep() answers ENOTSUP whatever went wrong; CPython needs to see EINTR to look for
 *   the soft stop that cut its sleep.
 * - clock() and times() read the monotonic clock, though WASI has one of CPU time. And times()
 *   counts in ns, where _SC_CLK_TCK says hundredths of a second.
 * - memchr() goes by words of 4 bytes, and each line printed is searched twice. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/times.h>
#include <time.h>
#include <wasi/api.h>

/* --- time that was used --- */

/* ns; UINT64_MAX if the host has no such clock. */
static uint64_t clock_read(__wasi_clockid_t id) {
    __wasi_timestamp_t now;
    return __wasi_clock_time_get(id, 0, &now) ? UINT64_MAX : now;
}

_Static_assert(CLOCKS_PER_SEC == 1000000000, "clock() is in ns");

clock_t clock(void) {
    return (clock_t)clock_read(__WASI_CLOCKID_PROCESS_CPUTIME_ID);
}

clock_t times(struct tms *used) {
    enum { NS_PER_TICK = 10000000 }; /* a second has sysconf(_SC_CLK_TCK) == 100 */
    uint64_t cpu = clock_read(__WASI_CLOCKID_PROCESS_CPUTIME_ID);
    *used = (struct tms){ .tms_utime = (clock_t)(cpu / NS_PER_TICK) };
    return (clock_t)(clock_read(__WASI_CLOCKID_MONOTONIC) / NS_PER_TICK);
}

/* --- searching --- */

/* Whether one of the 8 bytes of `word` is 0. */
static int has_zero(uint64_t word) {
    return ((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080)) != 0;
}

void *memchr(const void *bytes, int wanted, size_t len) {
    const unsigned char *at = bytes, *end = at + len;
    unsigned char c = (unsigned char)wanted;
    uint64_t all = c * UINT64_C(0x0101010101010101), word[2];
    for (; (size_t)(end - at) >= sizeof word; at += sizeof word) {
        __builtin_memcpy(word, at, sizeof word);
        if (has_zero(word[0] ^ all) || has_zero(word[1] ^ all)) break;
    }
    for (; at < end; at++)
        if (*at == c) return (void *)at;
    return NULL;
}

/* --- sleeping --- */

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                    struct timespec *left);

/* The name by which wasi-libc's nanosleep() calls it. */
int __clock_nanosleep(clockid_t, int, const struct timespec *, struct timespec *)
    __attribute__((alias("clock_nanosleep")));

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted,
                    struct timespec *left) {
    (void)left; /* nobody in the guest asks for it: CPython counts by the clock */
    if (flags & ~TIMER_ABSTIME || wanted->tv_sec < 0 || wanted->tv_nsec < 0 ||
        wanted->tv_nsec >= 1000000000)
        return EINVAL;
    uint64_t ns = UINT64_MAX;
    if ((uint64_t)wanted->tv_sec < UINT64_MAX / 1000000000u - 1)
        ns = (uint64_t)wanted->tv_sec * 1000000000u + (uint64_t)wanted->tv_nsec;
    __wasi_subscription_t asked = {
        .u.tag = __WASI_EVENTTYPE_CLOCK,
        .u.u.clock = {
            .id = clock == CLOCK_REALTIME ? __WASI_CLOCKID_REALTIME : __WASI_CLOCKID_MONOTONIC,
            .timeout = ns,
            .flags = flags & TIMER_ABSTIME ? __WASI_SUBCLOCKFLAGS_SUBSCRIPTION_CLOCK_ABSTIME : 0,
        },
    };
    __wasi_event_t event;
    __wasi_size_t count;
    __wasi_errno_t error = __wasi_poll_oneoff(&asked, &event, 1, &count);
    return error ? error : count ? event.error : EINTR;
}
