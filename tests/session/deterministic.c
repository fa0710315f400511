#include "asleep.h"

#include <sys/wait.h>
#include <unistd.h>

/* The seed of every one; the wall clock begins in 2033. */
static const bru_deterministic fixed = { { 7, 8, 9 }, 2000000000ull * 1000000000 };

static bru_session *fixed_session(const bru_deterministic *d) {
    bru_session_options o = with_functions();
    o.deterministic = d;
    return session_with(&o);
}

/* Whatever tells one run from another elsewhere. */
static const char *const varied[] = {
    "import random, os, secrets, uuid\nprint(random.random(), os.urandom(9), secrets.token_hex(), "
    "uuid.uuid4(), uuid.uuid1(), open('/dev/urandom', 'rb').read(8))",
    "import time, datetime\nprint(time.time_ns(), time.monotonic_ns(), time.perf_counter_ns(), "
    "time.process_time_ns(), datetime.datetime.now())",
    "import time\ntime.sleep(3600)\nprint(time.time())",
    "import asyncio\nawait asyncio.sleep(86400)\nasync def tick(n):\n    await asyncio.sleep(n)\n"
    "    print(n, asyncio.get_running_loop().time())\n"
    "await asyncio.gather(tick(3), tick(1), tick(2))",
    "import asyncio\nasync def main():\n    await asyncio.sleep(5); print(time.time())\n"
    "asyncio.run(main())",
    "print({f'{i}' for i in range(50)}, {object() for i in range(3)}, id(object()))",
    "import os, tempfile\nwith tempfile.NamedTemporaryFile(delete=False) as f: print(f.name)\n"
    "print(os.stat(f.name), os.stat('/data'), os.listdir('/tmp'))",
};

TEST(the_same_code_is_the_same_to_the_bit) {
    bru_session *a = fixed_session(&fixed), *b = fixed_session(&fixed);
    EACH(src, varied) {
        bru_result *x = run(a, *src), *y = run(b, *src);
        CHECK_STR(bru_result_text(x, BRU_TEXT_TRACEBACK, NULL), "");
        CHECK_STR(bru_result_text(x, BRU_TEXT_OUTPUT, NULL),
                  bru_result_text(y, BRU_TEXT_OUTPUT, NULL));
        bru_result_free(x);
        bru_result_free(y);
        bru_snapshot *of_a = snapshot_of(a), *of_b = snapshot_of(b);
        REQUIRE(of_a && of_b);
        size_t m, n;
        const void *p = bru_snapshot_bytes(of_a, &m), *q = bru_snapshot_bytes(of_b, &n);
        CHECK(m == n && memcmp(p, q, m) == 0);
        bru_snapshot_free(of_a);
        bru_snapshot_free(of_b);
    }
    bru_session_free(a);
    bru_session_free(b);
}

static const char draw[] = "import random, os, time; print(random.random(), os.urandom(4), "
                           "time.time_ns(), time.monotonic_ns())";

/* Runs everything and says what came of it, memory and files included. */
static void run_all(char id[40]) {
    bru_session *s = fixed_session(&fixed);
    EACH(src, varied) bru_result_free(run(s, *src));
    bru_snapshot *snapshot = snapshot_of(s);
    bru_snapshot_info info;
    bru_snapshot_get_info(snapshot, &info);
    strcpy(id, info.id);
    bru_snapshot_free(snapshot);
    bru_session_free(s);
}

TEST(another_process_has_the_same_memory_and_so_has_a_used_instance) {
    char first[40], again[40], other[40] = "";
    int pipe_fds[2];
    run_all(first);
    run_all(again); /* in the instance that the first one left */
    CHECK_STR(again, first);
    REQUIRE(pipe(pipe_fds) == 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe_fds[1], 1);
        execl("/proc/self/exe", "test-deterministic", "--say", (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    (void)!read(pipe_fds[0], other, sizeof other - 1);
    close(pipe_fds[0]);
    waitpid(child, NULL, 0);
    CHECK_STR(other, first);
}

TEST(another_seed_is_another_chance) {
    bru_deterministic other = fixed;
    other.seed[31] = 1;
    static const char chance[] = "import random; print(random.random())";
    bru_session *a = fixed_session(&fixed), *b = fixed_session(&other);
    bru_result *x = run(a, chance), *y = run(b, chance);
    CHECK(strcmp(bru_result_text(x, BRU_TEXT_OUTPUT, NULL),
                 bru_result_text(y, BRU_TEXT_OUTPUT, NULL)) != 0);
    bru_result_free(x);
    bru_result_free(y);
    bru_session_free(a);
    bru_session_free(b);
}

TEST(the_wall_clock_begins_where_it_is_told_and_sleeps_move_it) {
    bru_session *s = fixed_session(&fixed);
    CHECK_RUN(s, "import time; print(int(time.time())); time.sleep(1000); print(int(time.time()))",
              "2000000000\n2000001000\n");
    bru_session_free(s);
}

TEST(a_reset_begins_anew) {
    bru_session *s = fixed_session(&fixed);
    bru_result *first = run(s, draw);
    bru_result_free(run(s, draw));
    CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
    CHECK_RUN(s, draw, bru_result_text(first, BRU_TEXT_OUTPUT, NULL));
    bru_result_free(first);
    bru_session_free(s);
}

TEST(twins_and_woken_ones_stay_equal) {
    bru_session *s = fixed_session(&fixed), *twin = NULL;
    bru_result_free(run(s, draw));
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot && twin);
    bru_session *other = resumed(snapshot); /* made without: the snapshot brings its own */
    REQUIRE(other);
    for (int i = 0; i < 3; i++) {
        bru_result *r = run(s, draw);
        CHECK_RUN(twin, draw, bru_result_text(r, BRU_TEXT_OUTPUT, NULL));
        CHECK_RUN(other, draw, bru_result_text(r, BRU_TEXT_OUTPUT, NULL));
        bru_result_free(r);
    }
    bru_session_free(twin);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(two_sessions_may_become_deterministic_with_a_snapshot_of_one_that_was_not) {
    bru_session *s = session_with(NULL), *two[2] = { NULL, NULL };
    CHECK_RUN(s, "import random, time; before = time.monotonic_ns()", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.deterministic = &fixed;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &two[i], NULL), BRU_OK);
    REQUIRE(two[0] && two[1]);
    bru_result *r = run(two[0], draw);
    CHECK_RUN(two[1], draw, bru_result_text(r, BRU_TEXT_OUTPUT, NULL));
    CHECK_RUN(two[1], "print(time.monotonic_ns() > before, int(time.time()))", "True 2000000000\n");
    bru_result_free(r);
    for (int i = 0; i < 2; i++) bru_session_free(two[i]);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(time_stands_still_while_the_embedder_is_asked) {
    bru_session *s = fixed_session(&fixed);
    bru_event event = { .kind = BRU_EVENT_WAIT };
    static const char src[] = "import asyncio\nprint(await asyncio.wait_for(f(), 5))\n"
                              "await asyncio.sleep(3600)\nprint('on')";
    CHECK_EQ(bru_session_start(s, src, sizeof src - 1, NULL, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    REQUIRE(event.kind == BRU_EVENT_CALL);
    uint32_t id = event.id;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
        CHECK_EQ(event.kind, BRU_EVENT_WAIT);
    }
    CHECK_EQ(reply_number(s, id, 500), BRU_OK);
    CHECK_FINISH(s, "500\non\n");
    bru_session_free(s);
}

TEST(the_deadline_of_a_deterministic_session_is_real) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.deterministic = &fixed;
    o.limits.timeout_ns = 50000000;
    bru_session *s = session_with(&o);
    bru_result *r = run(s, "import asyncio\nwhile True: await asyncio.sleep(1)");
    CHECK_EQ(bru_result_reason(r), BRU_REASON_TIMEOUT);
    bru_result_free(r);
    bru_session_free(s);
}

TEST(a_sandbox_of_the_kind_makes_each_run_the_same) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_deterministic gone = fixed;
    bru_sandbox *box = NULL;
    bru_result *a = NULL, *b = NULL;
    o.deterministic = &gone;
    REQUIRE(bru_sandbox_new(the_image(), &o, &box, NULL) == BRU_OK);
    memset(&gone, 0, sizeof gone);
    CHECK_EQ(bru_sandbox_run(box, draw, sizeof draw - 1, NULL, &a, NULL), BRU_OK);
    CHECK_EQ(bru_sandbox_run(box, draw, sizeof draw - 1, NULL, &b, NULL), BRU_OK);
    REQUIRE(a && b);
    CHECK_STR(bru_result_text(a, BRU_TEXT_OUTPUT, NULL), bru_result_text(b, BRU_TEXT_OUTPUT, NULL));
    bru_session *s = fixed_session(&fixed);
    CHECK_RUN(s, draw, bru_result_text(a, BRU_TEXT_OUTPUT, NULL));
    bru_result_free(a);
    bru_result_free(b);
    bru_session_free(s);
    bru_sandbox_free(box);
}

int main(int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "--say") != 0) return test_main(argc, argv);
    char id[40];
    run_all(id);
    printf("%s", id);
    return 0;
}
