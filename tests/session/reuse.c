/* A closed session's instance serves the next one: fresh, within bounds, on any thread and in
 * forked children. */
#include "world.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cases/host.h"
#include "engine/guest_abi.h"
#include "session/session.h"

/* ---- Nothing is left ------------------------------------------------------------------------- */

enum { SECRET = 32 };

static void make_secret(char out[SECRET + 1]) {
    static unsigned number;
    snprintf(out, SECRET + 1, "secret-%08x-%08x-%06u", (unsigned)getpid() * 2654435761u,
             (unsigned)time(NULL) * 40503u, number++);
}

/* How often `secret` is in all that the guest's code can write to, its native stack included. */
static unsigned found_in(const bru_session *s, const char *secret) {
    gmem memory = instance_memory(s->guest);
    const uint8_t *p = memory.base - GUEST_INSTANCE_SPAN - SLOT_STACK_DEFAULT;
    const uint8_t *end = memory.base + memory.size;
    unsigned found = 0;
    while ((p = memmem(p, (size_t)(end - p), secret, strlen(secret)))) found++, p++;
    return found;
}

/* Each leaves secrets in its own places, and comes to its own end. %s is the secret. */
static const char *const tenants[] = {
    "secret = '%s'",
    "import builtins, os, sys\n"
    "builtins.s = '%s'; os.environ['S'] = builtins.s; sys.path.append(builtins.s)\n"
    "sys.modules[builtins.s] = sys; open('/tmp/' + builtins.s, 'w').write(builtins.s * 1000)",
    "x = [b'%s' * 1000 for _ in range(2000)]",
    "def f(s, n): return s if n == 0 else f(s + 'x', n - 1)\n"
    "f('%s', 500)\nimport json; json.dumps([[['%s']] * 3] * 100)",
    "import re, hashlib\nre.compile('(%s)|x'); hashlib.sha256(b'%s' * 10).digest()",
    "print('%s'); raise ValueError('%s')",
    "import time; s = '%s'; time.sleep(1000)",
    "s = '%s'\nwhile True: s = s.upper().lower()",
    "import asyncio; s = '%s'; await asyncio.sleep(1000)",
    "import os; s = '%s'; os._exit(3)",
    "s = ['%s']\nwhile True: s += ['%s' + str(len(s)) for _ in range(10000)]",
};

/* Runs a tenant to whatever end, and closes it; answers its instance. */
static const instance *live(const char *tenant, const char *secret) {
    char program[1000];
    char variable[SECRET + 10];
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_result *r;
    snprintf(program, sizeof program, tenant, secret, secret);
    snprintf(variable, sizeof variable, "V=%s", secret);
    o.env = (const char *const[]){ variable };
    o.env_count = 1;
    o.limits.timeout_ns = 20000000;
    o.limits.memory_bytes = 48 << 20;
    bru_session *s = session_with(&o);
    const instance *i = s->guest;
    CHECK_EQ(bru_session_run(s, program, strlen(program), NULL, &r, NULL), BRU_OK);
    CHECK(found_in(s, secret) > 0);
    bru_result_free(r);
    bru_session_free(s);
    return i;
}

/* So many small runs that the pages of the instance that is kept are tracked, where they can be. */
static void run_often(void) {
    for (int i = 0; i < 40; i++) {
        bru_session *s = session_with(NULL);
        bru_result_free(run(s, "1"));
        bru_session_free(s);
    }
}

TEST(nothing_of_a_closed_session_is_in_the_memory_of_the_next) {
    EACH(tenant, tenants) {
        char secret[SECRET + 1];
        make_secret(secret);
        run_often();
        const instance *i = live(*tenant, secret);
        bru_session *s = session_with(NULL);
        CHECK(s->guest == i);
        CHECK_EQ(found_in(s, secret), 0);
        CHECK(memcmp(instance_memory(s->guest).base, mem_image_bytes(instance_image(s->guest)),
                     mem_image_size(instance_image(s->guest))) == 0);
        CHECK_RUN(s,
                  "import builtins, os, sys\n"
                  "print([n for n in (*globals(), *dir(builtins)) if n in ('s', 'x', 'secret')],\n"
                  "      os.environ.get('V'), os.environ.get('S'), os.listdir('/tmp'))",
                  "[] None None []\n");
        CHECK_EQ(found_in(s, secret), 0);
        bru_session_free(s);
    }
}

static void write_memory(bru_session *s) {
    memcpy(instance_memory(s->guest).base + 5000, "of-the-last", 12);
}

static void grow_memory(bru_session *s) {
    CHECK_EQ(instance_grow(s->guest, instance_usage_of(s->guest).memory + SLOT_PAGE, NULL), BRU_OK);
}

static void run_again(bru_session *s) {
    bru_result_free(run(s, "s = 'of-the' + '-last'"));
}

static void only_reset(bru_session *s) {
    run_again(s);
    CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
}

TEST(an_instance_that_was_reset_is_cleaned_again_if_anything_happened_since) {
    static void (*const happened[])(bru_session *) = { write_memory, grow_memory, run_again,
                                                       only_reset };
    EACH(happen, happened) {
        bru_session *s = session_with(NULL);
        instance *i = s->guest;
        run_again(s);
        CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
        (*happen)(s);
        bru_session_free(s);
        s = session_with(NULL);
        CHECK(s->guest == i);
        CHECK_EQ(found_in(s, "of-the-last"), 0);
        CHECK_EQ(instance_usage_of(i).memory, mem_image_size(instance_image(i)));
        bru_session_free(s);
    }
}

TEST(the_search_for_secrets_can_fail) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "s = 'some' + 'thing' + '-to-be-found'", "");
    CHECK(found_in(s, "something-to-be-found") > 0);
    char *stack = (char *)instance_memory(s->guest).base - GUEST_INSTANCE_SPAN - 5000;
    memcpy(stack, "on-the-stack", 12);
    CHECK_EQ(found_in(s, "on-the-stack"), 1);
    bru_session_free(s);
}

TEST(an_interrupt_of_a_closed_session_is_not_the_next_ones) {
    bru_session *s = session_with(NULL);
    instance *i = s->guest;
    bru_session_interrupt(s, BRU_INTERRUPT_HARD);
    engine_interrupt(i, 0);
    bru_session_free(s);
    s = session_with(NULL);
    CHECK(s->guest == i);
    CHECK_RUN(s, "print(1)", "1\n");
    bru_session_free(s);
}

/* ---- Limits are the new session's ------------------------------------------------------------ */

TEST(each_session_has_its_own_memory_limit) {
    static const struct {
        unsigned mib;
        const char *says;
    } rows[] = { { 40, "no\n" }, { 200, "yes\n" }, { 40, "no\n" }, { 0, "yes\n" } };
    EACH(row, rows) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        o.limits.memory_bytes = row->mib ? (uint64_t)row->mib << 20 : BRU_NO_LIMIT;
        bru_session *s = session_with(&o);
        CHECK_RUN(s,
                  "try: x = bytes(80 << 20); print('yes')\n"
                  "except MemoryError: print('no')",
                  row->says);
        bru_session_free(s);
    }
}

/* ---- What is kept is bounded ----------------------------------------------------------------- */

enum { MANY = 50 };

static void open_many(const char *program) {
    bru_session *s[MANY];
    for (int i = 0; i < MANY; i++) {
        s[i] = session_with(NULL);
        bru_result_free(run(s[i], program));
    }
    for (int i = 0; i < MANY; i++) bru_session_free(s[i]);
}

TEST(closed_sessions_keep_little_of_their_memory) {
    static const char *const programs[] = { "print('hi')", "x = [str(i) for i in range(100000)]" };
    open_many("1"); /* what the process needs anyway */
    uint64_t before = host_private();
    EACH(program, programs) {
        open_many(*program);
        CHECK(host_private() <= before + (5 << 20));
    }
    bru_session *s = session_with(NULL);
    slot_stats kept = instance_measure(s->guest);
    if (slot_mode_found() != SLOT_DISCARD) CHECK(kept.written + kept.stack <= 320u << 10);
    bru_session_free(s);
}

TEST(a_large_run_does_not_cost_the_small_ones_after_it_their_pages) {
    if (slot_mode_found() == SLOT_DISCARD) return;
    uint64_t written[2] = { 0, 1 };
    for (int round = 0; round < 8; round++) {
        bru_session *s = session_with(NULL);
        bru_result_free(run(s, round % 4 == 3 ? "x = [str(i) for i in range(50000)]" : "1"));
        bru_session_free(s);
        s = session_with(NULL);
        if (round % 4 == 2) written[0] = bru_session_private_bytes(s);
        bru_result_free(run(s, "1"));
        if (round % 4 == 2) written[1] = bru_session_private_bytes(s);
        bru_session_free(s);
    }
    CHECK_EQ(written[1], written[0]);
}

/* ---- Threads, forks, failures -----------------------------------------------------------------
 */

static void *open_and_close(void *ctx) {
    for (int i = 0; i < 100; i++) {
        bru_session *s = session_with(NULL);
        CHECK_RUN(s, "try: print(x)\nexcept NameError: x = 1; print('fresh')", "fresh\n");
        bru_session_free(s);
    }
    return ctx;
}

TEST(threads_open_and_close_at_once) {
    pthread_t threads[4];
    (void)the_image();
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, open_and_close, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}

static int in_child(bru_session *waiting) {
    bru_session *s[3];
    bru_result *r;
    alarm(20); /* a hang */
    for (int i = 0; i < 3; i++) {
        if (bru_session_new(the_image(), NULL, &s[i], NULL)) return 1;
        if (!(r = run(s[i], "x = 'child'; print('hi')"))) return 2;
        if (strcmp(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "hi\n")) return 3;
        bru_result_free(r);
    }
    for (int i = 0; i < 3; i++) bru_session_free(s[i]);
    bru_event e;
    do {
        if (bru_session_next(waiting, &e, NULL)) return 4;
    } while (e.kind != BRU_EVENT_DONE);
    if (strcmp(bru_result_text(e.result, BRU_TEXT_STDOUT, NULL), "7\n")) return 5;
    bru_result_free(e.result);
    bru_session_free(waiting);
    return 0;
}

TEST(a_child_forked_while_threads_open_and_close_has_fresh_sessions) {
    static const char program[] = "import time\nx = 7\ntime.sleep(0.01)\nprint(x)";
    pthread_t thread;
    bru_event e;
    bru_session *s = session_with(NULL);
    CHECK_EQ(bru_session_start(s, program, sizeof program - 1, NULL, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    CHECK_EQ(e.kind, BRU_EVENT_WAIT);
    REQUIRE(pthread_create(&thread, NULL, open_and_close, NULL) == 0);
    fflush(NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) _exit(in_child(s));
        int status = -1;
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    }
    pthread_join(thread, NULL);
    bru_session_free(s);
    (void)open_and_close(NULL); /* what children did stayed there */
}

TEST(making_a_session_fails_whole_with_and_without_kept_instances) {
    bru_session *s[2 * INSTANCE_POOL];
    for (int kept = 0; kept < 2; kept++) {
        unsigned held = 0;
        while (!kept && held < INSTANCE_POOL) s[held++] = session_with(NULL);
        FAULT_SWEEP {
            bru_session *made;
            if (bru_session_new(the_image(), NULL, &made, NULL) == BRU_OK) bru_session_free(made);
        }
        while (held > 0) bru_session_free(s[--held]);
    }
    (void)open_and_close(NULL);
}

TEST_MAIN
