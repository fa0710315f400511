/* When calls have to end: deadlines, CPU time, interrupts; soft first, then hard.
 *
 * A thread has one timer per clock, made when first needed. It stays armed after the call that
 * wanted it: a later call whose limit lies further off finds it armed early enough, and the handler
 * arms it again for whatever is due then. So short calls with a distant deadline, one after the
 * other, cost no system call. `armed` is written before the timer is set: the handler may run in
 * between, and must have the last word. */
#define _GNU_SOURCE
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"

#if !defined(sigev_notify_thread_id)
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* How soon a guest that could not be stopped where it was is tried again. ns */
#define RETRY_AFTER 200000u

/* Signal handlers read this: it must lie in memory that exists from the thread's start. glibc
 * allocates other models on first use, other libcs have them all from the start. */
#if defined(__GLIBC__)
static _Thread_local thread_state *self __attribute__((tls_model("initial-exec")));
#else
static _Thread_local thread_state *self;
#endif

/* ---- Threads --------------------------------------------------------------------------------- */

static pthread_key_t thread_key; /* frees what threads leave behind */
static pthread_once_t thread_key_once = PTHREAD_ONCE_INIT;
static bool thread_key_made;

/* The system's own timers: the C library's allocate, and so cannot be made in a forked child's
 * handler or be deleted there. */
static bool timer_make(thread_state *t, int clock) {
    if (fault_hit()) return false;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signals_stop_number();
    event.sigev_notify_thread_id = t->tid;
    event.sigev_value.sival_int = clock;
    clockid_t id = clock == CLOCK_CPU ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    return syscall(SYS_timer_create, id, &event, &t->timer[clock]) == 0;
}

static void thread_free(void *ctx) {
    thread_state *t = ctx;
    self = NULL;
    for (int c = 0; c < CLOCKS; c++)
        if (t->timer[c] >= 0) syscall(SYS_timer_delete, t->timer[c]);
    signals_thread_end(t);
    mem_free(t);
}

static void thread_key_make(void) {
    thread_key_made = pthread_key_create(&thread_key, thread_free) == 0;
}

static bru_status thread_make(thread_state **out, bru_error *err) {
    bru_status st = signals_install(err);
    if (st) return st;
    pthread_once(&thread_key_once, thread_key_make);
    if (!thread_key_made) return error_set(err, BRU_ELIMIT, "no thread-specific key is left");
    thread_state *t = mem_zero(1, sizeof *t);
    if (!t) return error_set(err, BRU_ENOMEM, "no memory for a thread");
    t->tid = (pid_t)syscall(SYS_gettid);
    for (int c = 0; c < CLOCKS; c++) {
        t->timer[c] = -1;
        t->armed[c] = NEVER;
    }
    st = signals_thread(t, err);
    if (!st && pthread_setspecific(thread_key, t) != 0)
        st = error_set(err, BRU_ENOMEM, "no memory for a thread");
    if (st)
        thread_free(t);
    else
        *out = self = t;
    return st;
}

bru_status thread_enter(thread_state **out, bru_error *err) {
    *out = self;
    return *out ? BRU_OK : thread_make(out, err);
}

thread_state *thread_now(void) {
    return self;
}

/* ---- What is due ----------------------------------------------------------------------------- */

static uint64_t later(uint64_t now, uint64_t by) {
    return by < NEVER - now ? now + by : NEVER - 1;
}

static int clock_of(cause c) {
    return c == CAUSE_CPU ? CLOCK_CPU : CLOCK_WALL;
}

static const engine_soft *soft_of(const run *r, cause c) {
    if (!r->limits) return NULL;
    const engine_soft *all[CAUSES] = { &r->limits->soft_deadline, &r->limits->soft_cpu,
                                       &r->limits->soft_interrupt };
    return all[c]->count ? all[c] : NULL;
}

/* On the guest's own thread, between two of its instructions: nothing races. */
static void do_stores(instance *i, const engine_soft *soft) {
    for (uint32_t n = 0; n < soft->count && n < ENGINE_STORES; n++) {
        const engine_store *s = &soft->stores[n];
        if (s->at % 4 != 0 || i->memory_size < 4 || s->at > i->memory_size - 4) continue;
        volatile uint32_t *cell = (volatile uint32_t *)(void *)(i->at.memory + s->at);
        *cell = s->set_bits ? *cell | s->value : s->value;
    }
    i->run.soft = 1;
}

/* On a busy machine a grace may pass while the thread waits for a core, and the guest never sees
 * it. So it is also a time that the thread must have run, but for so long at most. ns */
#define GRACE_STRETCH 200000000u

/* How much of a grace that is over by the clock the guest has not had. */
static uint64_t grace_left(const run *r, uint64_t grace, uint64_t now) {
    if (now >= later(r->soft_wall, later(grace, GRACE_STRETCH))) return 0;
    uint64_t ran = clock_thread_cpu() - r->soft_cpu;
    return ran < grace ? grace - ran : 0;
}

/* A limit is reached: the soft stop if there is one to be done, else the end. */
static void expire(instance *i, cause c, uint64_t grace, uint64_t now) {
    run *r = &i->run;
    const engine_soft *soft = soft_of(r, c);
    r->due[c] = NEVER;
    if (r->mark) return;
    if (r->hard[c] || grace == 0 || !soft) {
        bool stretch = r->hard[c] && c == CAUSE_DEADLINE;
        uint64_t left = stretch ? grace_left(r, grace, now) : 0;
        if (left)
            r->due[c] = later(now, left);
        else
            r->mark = (int)c + 1;
        return;
    }
    r->hard[c] = true;
    r->due[c] = later(now, grace);
    r->soft_wall = clock_monotonic();
    r->soft_cpu = clock_thread_cpu();
    do_stores(i, soft);
}

/* A wish that came while another one's grace runs can only shorten it. */
static void check_wish(instance *i, uint64_t now) {
    run *r = &i->run;
    uint64_t wish = atomic_load(&i->wish);
    if (wish == 0 || wish == r->wish_seen) return;
    r->wish_seen = wish;
    uint64_t end = later(now, wish - 1);
    if (!r->hard[CAUSE_INTERRUPT] || end <= now)
        expire(i, CAUSE_INTERRUPT, wish - 1, now);
    else if (end < r->due[CAUSE_INTERRUPT])
        r->due[CAUSE_INTERRUPT] = end;
}

void stop_check(thread_state *t) {
    uint64_t wall = clock_monotonic();
    for (instance *i = t->top; i; i = i->run.parent) {
        run *r = &i->run;
        check_wish(i, wall);
        for (cause c = 0; c < CAUSES; c++) {
            if (r->due[c] == NEVER) continue;
            uint64_t now = clock_of(c) == CLOCK_CPU ? clock_thread_cpu() : wall;
            if (now >= r->due[c]) expire(i, c, r->limits ? r->limits->grace : 0, now);
        }
    }
}

/* ---- Timers ---------------------------------------------------------------------------------- */

static uint64_t earliest(const thread_state *t, int clock) {
    uint64_t first = NEVER;
    for (const instance *i = t->top; i; i = i->run.parent)
        for (cause c = 0; c < CAUSES; c++)
            if (clock_of(c) == clock && i->run.due[c] < first) first = i->run.due[c];
    const instance *top = t->top;
    bool retry = top && top->run.mark && top->run.in_guest && clock == CLOCK_WALL;
    return retry ? clock_monotonic() + RETRY_AFTER : first;
}

static bool timer_arm(thread_state *t, int clock, uint64_t when) {
    if (t->timer[clock] < 0 && !timer_make(t, clock)) return false;
    struct itimerspec at = { .it_value = { .tv_sec = (time_t)(when / 1000000000u),
                                           .tv_nsec = (long)(when % 1000000000u) } };
    t->armed[clock] = when;
    SIGNAL_FENCE();
    if (syscall(SYS_timer_settime, t->timer[clock], TIMER_ABSTIME, &at, NULL) == 0) return true;
    t->armed[clock] = NEVER;
    return false;
}

bool stop_arm(thread_state *t) {
    bool done = true;
    for (int c = 0; c < CLOCKS; c++) {
        uint64_t when = earliest(t, c);
        if (when < t->armed[c]) done = timer_arm(t, c, when) && done;
    }
    return done;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void run_clear(run *r, const engine_limits *limits) {
    for (cause c = 0; c < CAUSES; c++) {
        r->due[c] = NEVER;
        r->hard[c] = false;
    }
    r->limits = limits;
    r->in_guest = r->mark = r->soft = 0;
    r->wish_seen = 0;
    r->acked = false;
    if (limits && limits->deadline) r->due[CAUSE_DEADLINE] = limits->deadline;
    r->cpu_start = limits && limits->cpu ? clock_thread_cpu() : 0;
    if (r->cpu_start) r->due[CAUSE_CPU] = later(r->cpu_start, limits->cpu);
}

bru_status stop_begin(thread_state *t, instance *i, const engine_limits *limits, bru_error *err) {
    run_clear(&i->run, limits);
    i->epoch = process_epoch();
    i->run.parent = t->top;
    SIGNAL_FENCE();
    t->top = i;
    /* engine_interrupt() writes the wish and then reads the runner; here it is the other way
     * round, so one of the two sees the other. */
    atomic_store(&i->runner, t->tid);
    if (atomic_load(&i->wish)) stop_check(t);
    SIGNAL_FENCE();
    if (stop_arm(t)) return BRU_OK;
    stop_end(t, i);
    return error_set(err, BRU_ELIMIT,
                     "this thread can be given no timer; see the limit of "
                     "pending signals (ulimit -i)");
}

void stop_end(thread_state *t, instance *i) {
    SIGNAL_FENCE();
    t->top = i->run.parent;
    i->run.parent = NULL;
    SIGNAL_FENCE();
    i->run.limits = NULL;
    atomic_store_explicit(&i->runner, 0, memory_order_release);
    unsigned long long met = i->run.wish_seen;
    if (met) atomic_compare_exchange_strong(&i->wish, &met, 0);
    if (i->run.guarded) stop_unguard(i);
}

void engine_interrupt(instance *i, uint64_t grace) {
    unsigned long long wish = later(grace, 1), was = atomic_load(&i->wish);
    /* A softer wish does not take a harder one back. */
    while (was == 0 || wish < was)
        if (atomic_compare_exchange_weak(&i->wish, &was, wish)) break;
    int runner = atomic_load(&i->runner);
    if (runner) syscall(SYS_tgkill, getpid(), runner, signals_stop_number());
}

void engine_interrupt_clear(instance *i) {
    atomic_store(&i->wish, 0);
}

bool engine_soft_ack(instance *i, uint64_t extension) {
    run *r = &i->run;
    if (!r->soft || r->acked || r->mark) return false;
    r->acked = true;
    for (cause c = 0; c < CAUSES; c++) {
        if (!r->hard[c] || r->due[c] == NEVER) continue;
        uint64_t now = clock_of(c) == CLOCK_CPU ? clock_thread_cpu() : clock_monotonic();
        uint64_t end = later(now, extension);
        if (end > r->due[c]) r->due[c] = end; /* the timer fires early, and is set again */
    }
    return true;
}

/* ---- Closing memory, forking ----------------------------------------------------------------- */

void stop_guard(instance *i) {
    if (i->run.guarded || i->memory_size == 0) return;
    i->run.guarded = mprotect(i->at.memory, (size_t)i->memory_size, PROT_NONE) == 0;
}

bool stop_unguard(instance *i) {
    if (!i->run.guarded) return true;
    bool open = mprotect(i->at.memory, (size_t)i->memory_size, PROT_READ | PROT_WRITE) == 0;
    if (open) i->run.guarded = 0;
    return open;
}

/* Only the forking thread lives on in the child, under another id and without timers. */
void stop_forked(thread_state *t) {
    t->tid = (pid_t)syscall(SYS_gettid);
    for (int c = 0; c < CLOCKS; c++) {
        t->timer[c] = -1;
        t->armed[c] = NEVER;
    }
    for (instance *i = t->top; i; i = i->run.parent) {
        i->epoch = process_epoch();
        atomic_store(&i->runner, t->tid);
    }
    stop_arm(t);
}
