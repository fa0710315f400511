/* Sleeping that can be cut short. wasi-libc's clock_nanosleep() answers ENOTSUP whatever went
 * wrong; CPython needs to see EINTR to look for the soft stop that cut its sleep. */
#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <wasi/api.h>

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
