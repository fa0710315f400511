/* Instances share nothing: not with each other, on one thread or on two, not with the process that
 * runs them, and they leave nothing behind. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "brumate.h"
#include "../cases/host.h"
#include "test.h"

enum { INSTANCES = 1000, WORD = 64 };

static bru_image *image;

static bool run_in(bru_session *s, const char *source, char *out, size_t room) {
    bru_error err;
    bru_result *r;
    if (bru_session_run(s, source, strlen(source), NULL, &r, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return false;
    }
    bool good = bru_result_reason(r) == BRU_REASON_COMPLETED;
    if (!good) fprintf(stderr, "%s\n", bru_result_text(r, BRU_TEXT_TRACEBACK, NULL));
    snprintf(out, room, "%s", bru_result_text(r, BRU_TEXT_STDOUT, NULL));
    bru_result_free(r);
    return good;
}

static bool run_fresh(const char *source, char *out, size_t room) {
    bru_session *s;
    if (bru_session_new(image, NULL, &s, NULL)) return false;
    bool good = run_in(s, source, out, room);
    bru_session_free(s);
    return good;
}

/* Says what it finds of an earlier instance, then leaves a mark wherever one could stick. */
static const char tenant[] =
    "import asyncio, builtins, decimal, json, locale, os, random, sys, warnings\n"
    "found = []\n"
    "if 'mark' in globals(): found.append('global')\n"
    "if hasattr(builtins, 'mark'): found.append('builtin')\n"
    "if json.__doc__ == 'mark': found.append('module')\n"
    "if 'MARK' in os.environ: found.append('environment')\n"
    "if os.path.exists('/tmp/mark'): found.append('file')\n"
    "if '/mark' in sys.path: found.append('path')\n"
    "if 'mark' in sys.modules: found.append('modules')\n"
    "if decimal.getcontext().prec == 7: found.append('context')\n"
    "if sys.getrecursionlimit() == 777: found.append('limit')\n"
    "if os.getcwd() == '/tmp/dir': found.append('folder')\n"
    "if sys.intern('m' + 'ark') is None or list.__name__ != 'list': found.append('type')\n"
    "if any(f[0] == 'mark' for f in warnings.filters): found.append('filter')\n"
    "mark = builtins.mark = 1; json.__doc__ = 'mark'; os.environ['MARK'] = '1'\n"
    "open('/tmp/mark', 'w').write('x'); sys.path.append('/mark'); sys.modules['mark'] = sys\n"
    "decimal.getcontext().prec = 7; sys.setrecursionlimit(777)\n"
    "os.makedirs('/tmp/dir'); os.chdir('/tmp/dir'); warnings.filters.insert(0, ('mark',) * 5)\n"
    "print(','.join(found) or 'nothing', random.random(), os.urandom(8).hex(), flush=True)\n"
    "random.seed(5)\n";

typedef struct lot {
    char (*words)[WORD]; /* what each instance printed */
    unsigned first, step, bad;
} lot;

static void *run_lot(void *arg) {
    lot *l = arg;
    for (unsigned i = l->first; i < INSTANCES; i += l->step) {
        l->words[i][0] = '\0';
        l->bad += !run_fresh(tenant, l->words[i], WORD);
    }
    return NULL;
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Whether each word says that nothing was found, and no two have the same random numbers. */
static void check_words(char (*words)[WORD]) {
    unsigned marked = 0, same = 0;
    qsort(words, INSTANCES, WORD, by_text);
    for (unsigned i = 0; i < INSTANCES; i++) {
        if (strncmp(words[i], "nothing ", 8) && !marked++) fprintf(stderr, "found: %s\n", words[i]);
        same += i && !strcmp(words[i], words[i - 1]);
    }
    CHECK_EQ(marked, 0);
    CHECK_EQ(same, 0);
}

TEST(a_thousand_instances_on_two_threads_share_nothing) {
    char (*words)[WORD] = calloc(INSTANCES, WORD);
    lot lots[2] = { { words, 0, 2, 0 }, { words, 1, 2, 0 } };
    pthread_t threads[2];
    REQUIRE(words);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&threads[i], NULL, run_lot, &lots[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(lots[0].bad + lots[1].bad, 0);
    check_words(words);
    free(words);
}

typedef struct shared_lot {
    bru_sandbox *sandbox;
    lot lot;
} shared_lot;

static void *run_shared_lot(void *arg) {
    shared_lot *s = arg;
    for (unsigned i = s->lot.first; i < INSTANCES; i += s->lot.step) {
        bru_result *r;
        s->lot.words[i][0] = '\0';
        if (bru_sandbox_run(s->sandbox, tenant, sizeof tenant - 1, NULL, &r, NULL)) {
            s->lot.bad++;
            continue;
        }
        snprintf(s->lot.words[i], WORD, "%s", bru_result_text(r, BRU_TEXT_STDOUT, NULL));
        bru_result_free(r);
    }
    return NULL;
}

TEST(a_thousand_runs_of_one_sandbox_on_two_threads_share_nothing) {
    char (*words)[WORD] = calloc(INSTANCES, WORD);
    bru_sandbox *sandbox;
    REQUIRE(words);
    REQUIRE(bru_sandbox_new(image, NULL, &sandbox, NULL) == BRU_OK);
    shared_lot lots[2] = { { sandbox, { words, 0, 2, 0 } }, { sandbox, { words, 1, 2, 0 } } };
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run_shared_lot, &lots[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(lots[0].lot.bad + lots[1].lot.bad, 0);
    check_words(words);
    bru_sandbox_free(sandbox);
    free(words);
}

TEST(sessions_that_live_side_by_side_share_nothing) {
    bru_session *s[8];
    char out[WORD], number[WORD];
    for (int i = 0; i < 8; i++) REQUIRE(bru_session_new(image, NULL, &s[i], NULL) == BRU_OK);
    for (int i = 0; i < 8; i++) {
        snprintf(number, sizeof number, "x = %d; open('/tmp/n', 'w').write(str(x))", i);
        CHECK(run_in(s[i], number, out, sizeof out));
    }
    for (int i = 0; i < 8; i++) {
        CHECK(run_in(s[i], "print(x, open('/tmp/n').read())", out, sizeof out));
        snprintf(number, sizeof number, "%d %d\n", i, i);
        CHECK_STR(out, number);
    }
    for (int i = 0; i < 8; i++) bru_session_free(s[i]);
}

TEST(a_reset_session_has_nothing_of_before_but_its_files) {
    bru_session *s;
    char out[128];
    REQUIRE(bru_session_new(image, NULL, &s, NULL) == BRU_OK);
    CHECK(run_in(s, tenant, out, sizeof out));
    CHECK_EQ(bru_session_reset(s, 0, NULL), BRU_OK);
    CHECK(run_in(s, "import os; os.rmdir('/tmp/dir')", out, sizeof out));
    CHECK(run_in(s, tenant, out, sizeof out));
    CHECK(!strncmp(out, "file ", 5));
    CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
    CHECK(run_in(s, tenant, out, sizeof out));
    CHECK(!strncmp(out, "nothing ", 8));
    bru_session_free(s);
}

/* In the child: whether a guest runs. */
static int child(bru_session *kept) {
    char out[WORD];
    alarm(20);
    if (!run_fresh("print('hi')", out, sizeof out) || strcmp(out, "hi\n")) return 1;
    if (!run_in(kept, "print(x)", out, sizeof out) || strcmp(out, "5\n")) return 2;
    bru_session *s;
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.timeout_ns = 100000000;
    if (bru_session_new(image, &o, &s, NULL)) return 3;
    bru_result *r;
    if (bru_session_run(s, "while True: pass", 16, NULL, &r, NULL)) return 4;
    if (bru_result_reason(r) != BRU_REASON_TIMEOUT) return 5;
    bru_result_free(r);
    bru_session_free(s);
    return 0;
}

TEST(a_forked_child_of_the_host_runs_its_own_and_stops_its_own) {
    bru_session *s;
    char out[WORD];
    REQUIRE(bru_session_new(image, NULL, &s, NULL) == BRU_OK);
    CHECK(run_in(s, "x = 5", out, sizeof out));
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) _exit(child(s));
    int status = -1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 0);
    CHECK(run_in(s, "print(x)", out, sizeof out));
    CHECK_STR(out, "5\n");
    bru_session_free(s);
}

/* Starts something that waits and drops the session in the middle of it. */
static void abandon(void) {
    static const char source[] = "import asyncio\nawait asyncio.sleep(1000)";
    bru_session *s;
    bru_event e;
    if (bru_session_new(image, NULL, &s, NULL)) return;
    CHECK_EQ(bru_session_start(s, source, sizeof source - 1, NULL, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    CHECK_EQ(e.kind, BRU_EVENT_WAIT);
    bru_session_free(s);
}

static void *interrupt_soon(void *session) {
    nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    bru_session_interrupt(session, BRU_INTERRUPT_HARD);
    return NULL;
}

/* Started before the thread is: an interrupt that comes while nothing runs is nobody's. */
static void cancel(void) {
    bru_session *s;
    bru_event e;
    pthread_t t;
    if (bru_session_new(image, NULL, &s, NULL)) return;
    CHECK_EQ(bru_session_start(s, "while True: pass", 16, NULL, NULL), BRU_OK);
    CHECK_EQ(pthread_create(&t, NULL, interrupt_soon, s), 0);
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    pthread_join(t, NULL);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_EQ(bru_result_reason(e.result), BRU_REASON_INTERRUPTED);
    bru_result_free(e.result);
    bru_session_free(s);
}

static void live_through(unsigned sessions, unsigned others) {
    char out[WORD];
    for (unsigned i = 0; i < sessions; i++) CHECK(run_fresh("x = 1; print(x)", out, sizeof out));
    for (unsigned i = 0; i < others; i++) {
        abandon();
        cancel();
    }
}

static atomic_bool interrupting;

static void *keep_interrupting(void *session) {
    while (atomic_load(&interrupting)) bru_session_interrupt(session, BRU_INTERRUPT_SOFT);
    return NULL;
}

TEST(a_child_forked_while_another_thread_interrupts_can_use_the_session) {
    bru_session *s;
    pthread_t thread;
    char out[WORD];
    REQUIRE(bru_session_new(image, NULL, &s, NULL) == BRU_OK);
    CHECK(run_in(s, "x = 1", out, sizeof out));
    atomic_store(&interrupting, true);
    REQUIRE(pthread_create(&thread, NULL, keep_interrupting, s) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20); /* a hang */
            _exit(!run_in(s, "print(x)", out, sizeof out));
        }
        int status = -1;
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&interrupting, false);
    pthread_join(thread, NULL);
    bru_session_free(s);
}

/* What the heap keeps of freed blocks: a sanitizer keeps them all for a while, on purpose. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { HEAP_KEEPS = 1 << 30 };
#else
enum { HEAP_KEEPS = 4 << 20 };
#endif

TEST(a_thousand_lives_leave_no_descriptor_mapping_or_memory) {
    live_through(50, 20);
    unsigned descriptors = host_descriptors(), mappings = host_mappings();
    uint64_t memory = host_private();
    live_through(1000, 50);
    CHECK_EQ(host_descriptors(), descriptors);
    CHECK(host_mappings() <= mappings + 8);
    CHECK(host_private() <= memory + HEAP_KEEPS);
}

static void open_and_close(bru_session **s, unsigned count) {
    char out[WORD];
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(bru_session_new(image, NULL, &s[i], NULL) == BRU_OK);
        CHECK(run_in(s[i], "x = bytearray(10**6)", out, sizeof out));
    }
    for (unsigned i = 0; i < count; i++) bru_session_free(s[i]);
}

TEST(closing_sessions_gives_their_memory_back) {
    static bru_session *s[200];
    open_and_close(s, 5);
    uint64_t before = host_private(), room = before / 10 + 2 * (uint64_t)HEAP_KEEPS;
    open_and_close(s, 50);
    CHECK(host_private() <= before + room);
    open_and_close(s, 200);
    CHECK(host_private() <= before + room);
}

int main(int argc, char **argv) {
    const char *path = getenv("BRUMATE_IMAGE");
    bru_image_options options = BRU_IMAGE_OPTIONS_INIT;
    bru_error err;
    options.guest_path = getenv("BRUMATE_GUEST");
    if (bru_image_open(path || argc < 2 ? path : argv[1], &options, &image, &err)) {
        fprintf(stderr, "isolation: %s\n", err.message);
        return 2;
    }
    host_watch("isolation", 300);
    int status = test_main(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv);
    bru_image_unref(image);
    return status;
}
