/* A session belongs to no thread: each of its calls may come from another one, in whatever place
 * the guest waits; only interrupts may come beside a call. */
#include "world.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

/* One call of a session, made on a thread of its own. */
typedef struct errand {
    bru_session *s;
    bru_event *event;
    bru_status (*call)(bru_session *s, bru_event *event);
    bru_status status;
} errand;

static void *do_errand(void *ctx) {
    errand *e = ctx;
    e->status = e->call(e->s, e->event);
    return NULL;
}

static bru_status elsewhere(bru_session *s, bru_event *event,
                            bru_status (*call)(bru_session *s, bru_event *event)) {
    errand e = { s, event, call, BRU_OK };
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_errand, &e)) return BRU_ELIMIT;
    pthread_join(thread, NULL);
    return e.status;
}

static bru_status next(bru_session *s, bru_event *event) {
    return bru_session_next(s, event, NULL);
}

static bru_status answer(bru_session *s, bru_event *event) {
    if (event->kind == BRU_EVENT_INPUT) return bru_session_input(s, "line\n", 5, NULL);
    if (event->kind == BRU_EVENT_CALL)
        return bru_session_reply(s, event->id, 0, "ValueError: no", 14, NULL);
    return BRU_OK;
}

static bru_status reset(bru_session *s, bru_event *event) {
    (void)event;
    return bru_session_reset(s, BRU_RESET_FILES, NULL);
}

static void start(bru_session *s, const char *program, uint64_t timeout_ms) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    o.timeout_ns = timeout_ms * 1000000;
    CHECK_EQ(bru_session_start(s, program, strlen(program), &o, NULL), BRU_OK);
}

/* Runs on, every call on a new thread; answers what the guest wrote, 999 bytes at most. */
static bru_reason finish_elsewhere(bru_session *s, char *out, unsigned *events) {
    bru_event event;
    bru_reason reason = BRU_REASON_CRASHED;
    size_t n = 0;
    *events = 0;
    for (bool done = false; !done; ++*events) {
        if (elsewhere(s, &event, next)) break;
        if (event.kind == BRU_EVENT_OUTPUT && n + event.len < 1000) {
            memcpy(out + n, event.data, event.len);
            n += event.len;
        }
        done = event.kind == BRU_EVENT_DONE;
        if (done) {
            reason = bru_result_reason(event.result);
            bru_result_free(event.result);
        }
        CHECK_EQ(elsewhere(s, &event, answer), BRU_OK);
    }
    out[n] = '\0';
    return reason;
}

static bru_session *eventful(void) {
    static const bru_function functions[] = { { .name = "ask" } };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.flags = BRU_STREAM_OUTPUT | BRU_PULL_INPUT;
    o.functions = functions;
    o.function_count = 1;
    return session_with(&o);
}

TEST(each_event_may_be_met_on_another_thread_wherever_the_guest_waits) {
    static const char program[] =
        "import asyncio, sys, time\n"
        "for i in range(3):\n"
        "    print(i, flush=True)\n"
        "    print(input(), file=sys.stderr)\n"
        "    time.sleep(0.002)\n"
        "    await asyncio.sleep(0.002)\n"
        "    try: await ask(i)\n"
        "    except ValueError as e: print(e)\n"
        "    asyncio.run(asyncio.sleep(0.001))\n"
        "    def deep(n): return time.sleep(0.001) if n == 0 else deep(n - 1)\n"
        "    deep(100)\n";
    bru_session *s = eventful();
    char out[1000];
    unsigned events;
    for (int i = 0; i < 3; i++) {
        start(s, program, 20000);
        CHECK_EQ(finish_elsewhere(s, out, &events), BRU_REASON_COMPLETED);
        CHECK_STR(out, "0\nline\nno\n1\nline\nno\n2\nline\nno\n");
        CHECK(events > 15);
        CHECK_EQ(elsewhere(s, NULL, reset), BRU_OK);
    }
    bru_session_free(s);
}

TEST(a_limit_counts_on_whatever_thread_the_guest_runs) {
    static const struct {
        const char *program;
        bru_reason reason;
    } rows[] = {
        { "print(1)\nwhile True: pass", BRU_REASON_TIMEOUT },
        { "print(1)\nimport time; time.sleep(100)", BRU_REASON_TIMEOUT },
        { "print(1)\ntry:\n    while True: pass\nexcept BaseException: pass\nwhile True: pass",
          BRU_REASON_TIMEOUT },
        { "print(1)\nx = bytes(10**9)", BRU_REASON_MEMORY_LIMIT },
        { "print(1)\nimport os; os.abort()", BRU_REASON_CRASHED },
    };
    bru_session *s = eventful();
    EACH(row, rows) {
        char out[1000];
        unsigned events;
        start(s, row->program, row->reason == BRU_REASON_TIMEOUT ? 50 : 20000);
        bru_reason reason = finish_elsewhere(s, out, &events);
        if (reason != row->reason) fprintf(stderr, "%s\n", row->program);
        CHECK_EQ(reason, row->reason);
        CHECK(strncmp(out, "1\n", 2) == 0);
        CHECK_EQ(elsewhere(s, NULL, reset), BRU_OK);
    }
    bru_session_free(s);
}

/* ---- Interrupts beside calls ----------------------------------------------------------------- */

typedef struct nagging {
    bru_session *s;
    atomic_bool over;
} nagging;

static void *nag(void *ctx) {
    nagging *n = ctx;
    while (!atomic_load(&n->over)) {
        bru_session_interrupt(n->s, BRU_INTERRUPT_SOFT);
        usleep(300);
    }
    return NULL;
}

TEST(interrupts_meet_a_session_that_goes_from_thread_to_thread) {
    static const char program[] = "import time\n"
                                  "while True:\n"
                                  "    try:\n"
                                  "        while True: print('.', end=''); time.sleep(0.0001)\n"
                                  "    except KeyboardInterrupt: break\n";
    nagging n = { eventful(), false };
    pthread_t thread;
    char out[1000];
    unsigned events;
    REQUIRE(pthread_create(&thread, NULL, nag, &n) == 0);
    for (int i = 0; i < 30; i++) {
        start(n.s, program, 20000);
        bru_reason reason = finish_elsewhere(n.s, out, &events);
        CHECK(reason == BRU_REASON_INTERRUPTED || reason == BRU_REASON_COMPLETED);
        CHECK_EQ(elsewhere(n.s, NULL, reset), BRU_OK);
    }
    atomic_store(&n.over, true);
    pthread_join(thread, NULL);
    CHECK_RUN(n.s, "1", "");
    bru_session_free(n.s);
}

static bru_session *signalled;

static void on_alarm(int number) {
    (void)number;
    bru_session_interrupt(signalled, BRU_INTERRUPT_SOFT);
}

TEST(a_signal_handler_may_interrupt_the_run_it_struck) {
    struct sigaction action = { .sa_handler = on_alarm }, before;
    signalled = session_with(NULL);
    REQUIRE(sigaction(SIGALRM, &action, &before) == 0);
    static const char *const programs[] = { "while True: pass", "import time; time.sleep(100)",
                                            "sum(range(10**12))" };
    EACH(program, programs) {
        bru_result *r;
        ualarm(20000, 0);
        CHECK_EQ(bru_session_run(signalled, *program, strlen(*program), NULL, &r, NULL), BRU_OK);
        CHECK_EQ(bru_result_reason(r), BRU_REASON_INTERRUPTED);
        bru_result_free(r);
        CHECK_EQ(bru_session_reset(signalled, 0, NULL), BRU_OK);
    }
    sigaction(SIGALRM, &before, NULL);
    bru_session_free(signalled);
}

TEST_MAIN
