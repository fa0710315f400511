/* Ctrl-C. A session may be interrupted from any thread but from no signal handler, so SIGINT is
 * blocked everywhere and a small thread waits for it. It wakes whoever sleeps in io_wait() through
 * a descriptor that is readable from a press until that one was woken. */
#include "cli.h"
#include "wake.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct ctrl_c {
    pthread_mutex_t lock; /* over all below but wake */
    bru_session *target;
    unsigned presses;
    bool prompt;
    int wake; /* an eventfd, or -1 */
};

static void pressed(ctrl_c *c) {
    static const uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    c->presses++;
    if ((!c->target && !c->prompt) || c->presses > 2) _exit(EXIT_INTERRUPTED);
    if (c->target)
        bru_session_interrupt(c->target, c->presses == 1 ? BRU_INTERRUPT_SOFT : BRU_INTERRUPT_HARD);
    ssize_t n = write(c->wake, &one, sizeof one);
    (void)n; /* it cannot block: two presses are no overflow */
    pthread_mutex_unlock(&c->lock);
}

static void *wait_for_presses(void *arg) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    for (;;) {
        int signal_number;
        if (sigwait(&set, &signal_number) == 0) pressed(arg);
    }
    return NULL;
}

/* All signals are blocked in the new thread: the library directs its own at the guest's. */
static bool start(ctrl_c *c) {
    sigset_t all, old;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &old) != 0) return false;
    pthread_attr_t attr;
    pthread_t thread;
    bool ok = pthread_attr_init(&attr) == 0;
    if (ok) {
        (void)pthread_attr_setstacksize(&attr, 256 << 10);
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        ok = pthread_create(&thread, &attr, wait_for_presses, c) == 0;
        pthread_attr_destroy(&attr);
    }
    if (ok) sigaddset(&old, SIGINT);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

ctrl_c *ctrl_c_new(void) {
    static ctrl_c the_one = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1 };
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_IGN) return &the_one;
    the_one.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    /* Without descriptors or threads to spare Ctrl-C just ends us, as is its default. */
    if (the_one.wake >= 0 && !start(&the_one)) {
        close(the_one.wake);
        the_one.wake = -1;
    }
    return &the_one;
}

int ctrl_c_wake(const ctrl_c *c) {
    return c->wake;
}

void ctrl_c_woken(ctrl_c *c) {
    uint64_t count;
    ssize_t n = c->wake >= 0 ? read(c->wake, &count, sizeof count) : 0;
    (void)n; /* nothing there is as good */
}

static void set(ctrl_c *c, bru_session *target, bool prompt) {
    pthread_mutex_lock(&c->lock);
    c->target = target;
    c->prompt = prompt;
    c->presses = 0;
    ctrl_c_woken(c);
    pthread_mutex_unlock(&c->lock);
}

void ctrl_c_target(ctrl_c *c, bru_session *session) {
    set(c, session, false);
}

void ctrl_c_prompt(ctrl_c *c, bool at_prompt) {
    set(c, NULL, at_prompt);
}
