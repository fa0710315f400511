/* Ctrl-C while a guest has the main thread, and waits that end with it. */
#define _GNU_SOURCE
#include "native.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t native_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Waits ------------------------------------------------------------------------------ */

void native_sleep(atomic_uint *word, unsigned seen, uint64_t wake) {
    struct timespec at = { (time_t)(wake / 1000000000u), (long)(wake % 1000000000u) };
    while (atomic_load(word) == seen && native_clock() < wake) {
        long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
                         wake == UINT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
        if (r < 0 && errno == EINTR) return;
    }
}

void native_wake(atomic_uint *word) {
    int saved = errno;
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/* ---- SIGINT ----------------------------------------------------------------------------- */

static _Atomic(session_object *) hooked; /* whose guest has the main thread */
static struct sigaction before;          /* what SIGINT did; set before `hooked` */

static void on_sigint(int number, siginfo_t *info, void *context) {
    session_object *self = atomic_load(&hooked);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    if (!self) return;
    bru_session_interrupt(self->session, BRU_INTERRUPT_SOFT);
    native_wake(&self->wake);
}

/* Signals are Python's business on the main thread alone, which in Linux has the process's id. */
static bool on_main_thread(void) {
    return syscall(SYS_gettid) == getpid();
}

session_object *signals_begin(session_object *self) {
    struct sigaction ours = { .sa_sigaction = on_sigint, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    if (!on_main_thread() || atomic_load(&hooked)) return NULL;
    sigemptyset(&ours.sa_mask);
    atomic_store(&hooked, self);
    if (sigaction(SIGINT, NULL, &before) == 0 &&
        ((before.sa_flags & SA_SIGINFO) ||
         (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) &&
        sigaction(SIGINT, &ours, NULL) == 0)
        return self;
    atomic_store(&hooked, NULL);
    return NULL;
}

void signals_end(session_object *self) {
    if (!self) return;
    sigaction(SIGINT, &before, NULL);
    atomic_store(&hooked, NULL);
}
