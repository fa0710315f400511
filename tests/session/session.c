#include "world.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static const uint64_t ms = 1000000;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

TEST(what_is_defined_stays_from_run_to_run) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = 41", "");
    CHECK_RUN(s, "print(x + 1)", "42\n");
    bru_session_free(s);
}

TEST(output_is_kept_by_stream_and_in_order) {
    bru_session *s = session_with(NULL);
    bru_result *r = run(s, "import sys\nfor i in 1, 2:\n"
                           "    print('o', i); print('e', i, file=sys.stderr)\n");
    REQUIRE(r);
    size_t len;
    CHECK_STR(bru_result_text(r, BRU_TEXT_STDOUT, &len), "o 1\no 2\n");
    CHECK_EQ(len, 8);
    CHECK_STR(bru_result_text(r, BRU_TEXT_STDERR, NULL), "e 1\ne 2\n");
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "o 1\ne 1\no 2\ne 2\n");
    CHECK_EQ(bru_result_usage(r)->stdout_bytes, 8);
    CHECK_EQ(bru_result_usage(r)->stderr_bytes, 8);
    bru_result_free(r);
    bru_session_free(s);
}

/* How runs end: reason, exit code, whether the session lives on, type of the exception. */
static const struct {
    const char *src;
    bru_reason reason;
    int code;
    bool alive;
    const char *type;
} ends[] = {
    { "pass", BRU_REASON_COMPLETED, 0, true, "" },
    { "1/0", BRU_REASON_EXCEPTION, 1, true, "ZeroDivisionError" },
    { "f(", BRU_REASON_EXCEPTION, 1, true, "SyntaxError" },
    { "raise SystemExit(7)", BRU_REASON_EXITED, 7, true, "SystemExit" },
    { "raise SystemExit", BRU_REASON_EXITED, 0, true, "SystemExit" },
    { "import sys; sys.exit('bye')", BRU_REASON_EXITED, 1, true, "SystemExit" },
    { "import sys; sys.exit(256 + 3)", BRU_REASON_EXITED, 3, true, "SystemExit" },
    { "import os; os._exit(9)", BRU_REASON_EXITED, 9, false, "" },
    { "import os; os.abort()", BRU_REASON_CRASHED, 122, false, "" },
    { "raise KeyboardInterrupt", BRU_REASON_EXCEPTION, 1, true, "KeyboardInterrupt" },
    { "x = []\nwhile 1: x.append(bytes(10**6))", BRU_REASON_MEMORY_LIMIT, 125, true,
      "MemoryError" },
    { "raise MemoryError", BRU_REASON_EXCEPTION, 1, true, "MemoryError" },
};

TEST(each_end_has_its_reason_and_exit_code) {
    EACH(row, ends) {
        bru_session *s = session_with(NULL);
        bru_result *r = run(s, row->src);
        REQUIRE(r);
        if (bru_result_reason(r) != row->reason) fprintf(stderr, "in: %s\n", row->src);
        CHECK_EQ(bru_result_reason(r), row->reason);
        CHECK_EQ(bru_result_exit_code(r), row->code);
        CHECK_EQ(bru_result_session_alive(r), row->alive);
        CHECK_STR(bru_result_text(r, BRU_TEXT_TYPE, NULL), row->type);
        bru_result_free(r);
        bru_session_free(s);
    }
}

TEST(a_session_that_ended_takes_nothing_but_a_reset) {
    bru_session *s = session_with(NULL);
    bru_result_free(run(s, "x = 1; import os; os._exit(0)"));
    bru_result *r = NULL;
    bru_error err;
    CHECK_EQ(bru_session_run(s, "1", 1, NULL, &r, &err), BRU_ESTATE);
    CHECK(r == NULL && strstr(err.message, "reset"));
    CHECK_EQ(bru_session_reset(s, 0, &err), BRU_OK);
    CHECK_RUN(s, "print('x' in globals())", "False\n");
    bru_session_free(s);
}

TEST(reset_keeps_files_unless_told_otherwise) {
    bru_session *s = session_with(NULL);
    static const char look[] = "import os; print(os.path.exists('/data/k'), 'y' in globals())";
    CHECK_RUN(s, "y = 1; open('/data/k', 'w').write('v')", "");
    CHECK_EQ(bru_session_reset(s, 0, NULL), BRU_OK);
    CHECK_RUN(s, look, "True False\n");
    CHECK_EQ(bru_session_reset(s, BRU_RESET_FILES, NULL), BRU_OK);
    CHECK_RUN(s, look, "False False\n");
    bru_session_free(s);
}

/* Code that runs for ever, and whether Python can be told at its deadline, so that the session
 * survives. */
static const struct {
    const char *src;
    bool alive;
} endless[] = {
    { "while True: pass", true },
    { "import time\ntime.sleep(3600)", true },
    { "import asyncio\nawait asyncio.sleep(3600)", true },
    { "import asyncio\nasyncio.run(asyncio.sleep(3600))", true },
    { "sum(range(10**12))", false },
    { "while True:\n  try:\n    while True: pass\n  except BaseException: pass", false },
};

TEST(a_deadline_ends_whatever_runs_or_waits) {
    EACH(row, endless) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        o.limits.timeout_ns = 100 * ms;
        o.limits.grace_ns = 20 * ms;
        bru_session *s = session_with(&o);
        uint64_t start = now_ns();
        bru_result *r = run(s, row->src);
        REQUIRE(r);
        if (bru_result_reason(r) != BRU_REASON_TIMEOUT) fprintf(stderr, "in: %s\n", row->src);
        CHECK_EQ(bru_result_reason(r), BRU_REASON_TIMEOUT);
        CHECK_EQ(bru_result_exit_code(r), 124);
        CHECK_EQ(bru_result_session_alive(r), row->alive);
        CHECK(now_ns() - start >= 100 * ms);
        CHECK(now_ns() - start < 30000 * ms); /* a hang, not a measurement */
        bru_result_free(r);
        if (!row->alive) CHECK_EQ(bru_session_reset(s, 0, NULL), BRU_OK);
        CHECK_RUN(s, "print('on')", "on\n");
        bru_session_free(s);
    }
}

TEST(a_soft_stop_shows_where_the_code_was_and_keeps_what_it_did) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.timeout_ns = 100 * ms;
    o.limits.grace_ns = 50 * ms;
    bru_session *s = session_with(&o);
    bru_result *r = run(s, "n = 5\ndef spin():\n    while True: pass\nspin()\n");
    REQUIRE(r);
    CHECK(strstr(bru_result_text(r, BRU_TEXT_TRACEBACK, NULL), "line 3, in spin") != NULL);
    bru_result_free(r);
    CHECK_RUN(s, "print(n)", "5\n");
    bru_session_free(s);
}

TEST(cpu_time_is_a_limit_of_its_own) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.cpu_ns = 50 * ms;
    bru_session *s = session_with(&o);
    CHECK_RUN(s, "import time; time.sleep(0.2); print('slept')", "slept\n");
    bru_result *r = run(s, "while True: pass");
    REQUIRE(r);
    CHECK_EQ(bru_result_reason(r), BRU_REASON_CPU_LIMIT);
    CHECK(bru_result_usage(r)->cpu_ns >= 40 * ms);
    bru_result_free(r);
    bru_session_free(s);
}

TEST(output_beyond_the_limit_is_cut_and_counted_or_stops_the_run) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    static const char src[] = "for i in range(100): print('x' * 99)\nprint('end')";
    o.limits.output_bytes = 1000;
    bru_session *s = session_with(&o);
    bru_result *r = run(s, src);
    REQUIRE(r);
    size_t len;
    bru_result_text(r, BRU_TEXT_STDOUT, &len);
    CHECK_EQ(bru_result_reason(r), BRU_REASON_COMPLETED);
    CHECK_EQ(len, 1000);
    CHECK_EQ(bru_result_usage(r)->stdout_bytes, 10004);
    CHECK_EQ(bru_result_usage(r)->cut_bytes, 9004);
    bru_result_free(r);
    bru_session_free(s);
    o.limits.flags = BRU_OUTPUT_STOPS;
    s = session_with(&o);
    r = run(s, src);
    REQUIRE(r);
    bru_result_text(r, BRU_TEXT_STDOUT, &len);
    CHECK_EQ(bru_result_reason(r), BRU_REASON_OUTPUT_LIMIT);
    CHECK_EQ(bru_result_exit_code(r), 126);
    CHECK_EQ(len, 1000);
    bru_result_free(r);
    bru_session_free(s);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void start(bru_session *s, const char *src) {
    CHECK_EQ(bru_session_start(s, src, strlen(src), NULL, NULL), BRU_OK);
}

static bru_event next(bru_session *s) {
    bru_event e = { 0 };
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    return e;
}

TEST(streamed_output_comes_as_events_in_order) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.flags = BRU_STREAM_OUTPUT;
    bru_session *s = session_with(&o);
    static const struct {
        int stream;
        const char *text;
    } want[] = { { 1, "a\n" }, { 2, "b\n" }, { 1, "c\n" } };
    start(s, "import sys\nprint('a'); print('b', file=sys.stderr); print('c')");
    EACH(w, want) {
        bru_event e = next(s);
        REQUIRE(e.kind == BRU_EVENT_OUTPUT);
        CHECK_EQ(e.stream, w->stream);
        CHECK(e.len == 2 && memcmp(e.data, w->text, 2) == 0);
    }
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_EQ(bru_result_reason(e.result), BRU_REASON_COMPLETED);
    bru_result_free(e.result);
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_ESTATE);
    bru_session_free(s);
}

TEST(input_is_asked_for_when_it_is_wanted) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.flags = BRU_PULL_INPUT;
    bru_session *s = session_with(&o);
    start(s, "print(input()); print(input())\ntry: input()\nexcept EOFError: print('eof')");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_INPUT);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_INPUT); /* still */
    CHECK_EQ(bru_session_input(s, "one\ntw", 6, NULL), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_INPUT);
    CHECK_EQ(bru_session_input(s, "o\n", 2, NULL), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_INPUT);
    CHECK_EQ(bru_session_input(s, NULL, 0, NULL), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_STDOUT, NULL), "one\ntwo\neof\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(waiting_for_input_ends_when_the_guest_has_waited_long_enough) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.flags = BRU_PULL_INPUT;
    bru_session *s = session_with(&o);
    start(s, "import select, sys\nprint(select.select([sys.stdin], [], [], 0.05)[0])");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_INPUT);
    CHECK(e.wake_ns < now_ns() + 60 * ms);
    while (e.kind == BRU_EVENT_INPUT) {
        usleep(5000);
        e = next(s);
    }
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_STDOUT, NULL), "[]\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(input_given_with_the_run_is_read_to_its_end) {
    bru_session *s = session_with(NULL);
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    static const char src[] = "import sys; print(sys.stdin.read().upper())";
    o.input = "abc";
    o.input_len = 3;
    bru_result *r = NULL;
    REQUIRE(bru_session_run(s, src, sizeof src - 1, &o, &r, NULL) == BRU_OK);
    CHECK_STR(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "ABC\n");
    bru_result_free(r);
    CHECK_RUN(s, "import sys; print(repr(sys.stdin.read()))", "''\n");
    bru_session_free(s);
}

typedef struct job {
    bru_session *s;
    bru_event *out;
} job;

static void *next_on_thread(void *arg) {
    job *j = arg;
    *j->out = next(j->s);
    return NULL;
}

TEST(a_waiting_session_goes_on_on_another_thread) {
    static const bru_function f = { .name = "f" };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.functions = &f;
    o.function_count = 1;
    bru_session *s = session_with(&o);
    start(s, "x = await f()\nprint(x)");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    uint32_t id = e.id;
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_WAIT);
    CHECK_EQ(bru_session_reply(s, id, 1, "\x65there", 6, NULL), BRU_OK);
    pthread_t thread;
    bru_event done = { 0 };
    job work = { s, &done };
    REQUIRE(pthread_create(&thread, NULL, next_on_thread, &work) == 0);
    pthread_join(thread, NULL);
    REQUIRE(done.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(done.result, BRU_TEXT_STDOUT, NULL), "there\n");
    bru_result_free(done.result);
    bru_session_free(s);
}

/* ---- Interrupts ------------------------------------------------------------------------------ */

static void *interrupt_soon(void *arg) {
    usleep(50000);
    bru_session_interrupt(arg, BRU_INTERRUPT_SOFT);
    return NULL;
}

static const char *const interruptible[] = {
    "while True: pass",
    "import time\ntime.sleep(3600)",
    "import asyncio\nawait asyncio.sleep(3600)",
    "import asyncio\nawait asyncio.gather(asyncio.sleep(3600), asyncio.sleep(3600))",
};

TEST(a_soft_interrupt_from_another_thread_raises_keyboard_interrupt) {
    EACH(src, interruptible) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        pthread_t thread;
        o.limits.grace_ns = 500 * ms;
        bru_session *s = session_with(&o);
        REQUIRE(pthread_create(&thread, NULL, interrupt_soon, s) == 0);
        bru_result *r = run(s, *src);
        pthread_join(thread, NULL);
        REQUIRE(r);
        CHECK_EQ(bru_result_reason(r), BRU_REASON_INTERRUPTED);
        CHECK_EQ(bru_result_session_alive(r), true);
        CHECK(strstr(bru_result_text(r, BRU_TEXT_TRACEBACK, NULL), "KeyboardInterrupt") != NULL);
        bru_result_free(r);
        CHECK_RUN(s, "print('on')", "on\n");
        bru_session_free(s);
    }
}

TEST(a_soft_interrupt_does_not_take_a_hard_one_back) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.grace_ns = 1000 * ms;
    bru_session *s = session_with(&o);
    start(s, "import time\ntry: time.sleep(10)\nexcept BaseException: print('caught')\n");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_WAIT);
    bru_session_interrupt(s, BRU_INTERRUPT_HARD);
    bru_session_interrupt(s, BRU_INTERRUPT_SOFT);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_EQ(bru_result_reason(e.result), BRU_REASON_INTERRUPTED);
    CHECK_EQ(bru_result_session_alive(e.result), false);
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(flags_that_mean_nothing_are_refused) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_exec_options x = BRU_EXEC_OPTIONS_INIT;
    bru_session *s = NULL;
    bru_result *r = NULL;
    o.flags = 4;
    CHECK_EQ(bru_session_new(the_image(), &o, &s, NULL), BRU_EINVAL);
    s = session_with(NULL);
    x.flags = 1u << 30;
    CHECK_EQ(bru_session_run(s, "1", 1, &x, &r, NULL), BRU_EINVAL);
    CHECK_EQ(bru_session_reset(s, 2, NULL), BRU_EINVAL);
    bru_session_free(s);
}

TEST(an_interrupt_while_nothing_runs_is_no_interrupt) {
    bru_session *s = session_with(NULL);
    bru_session_interrupt(s, BRU_INTERRUPT_HARD);
    CHECK_RUN(s, "print('on')", "on\n");
    bru_session_free(s);
}

/* ---- Arguments and failures ------------------------------------------------------------------ */

TEST(mounts_show_host_folders_and_nothing_above_them) {
    char folder[] = "/tmp/brumate-test-XXXXXX", path[64];
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/f", folder);
    FILE *f = fopen(path, "w");
    REQUIRE(f && fputs("hello", f) >= 0 && fclose(f) == 0);
    bru_mount mount = { folder, "/mnt/in", 0 };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.mounts = &mount;
    o.mount_count = 1;
    bru_session *s = session_with(&o);
    CHECK_RUN(s, "import os; print(open('/mnt/in/f').read(), os.listdir('/mnt/in/..'))",
              "hello ['in']\n");
    CHECK_RUN(s, "try: open('/mnt/in/g', 'w')\nexcept OSError as e: print(e.strerror)",
              "Read-only file system\n");
    bru_session_free(s);
    unlink(path);
    rmdir(folder);
}

TEST(the_guest_sees_the_environment_it_was_given_and_no_other) {
    static const char *const env[] = { "A=1", "B=two words" };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.env = env;
    o.env_count = 2;
    setenv("BRUMATE_TEST_SECRET", "s", 1);
    bru_session *s = session_with(&o);
    CHECK_RUN(s,
              "import os; print(os.environ['A'], os.environ['B'], "
              "'BRUMATE_TEST_SECRET' in os.environ)",
              "1 two words False\n");
    bru_session_free(s);
}

static const struct {
    bru_mount mount;
    const char *env;
    uint64_t memory;
    bru_status want;
} wrong[] = {
    { { "/nonexistent", "/x", 0 }, NULL, 0, BRU_ENOENT },
    { { "/tmp", "x", 0 }, NULL, 0, BRU_EINVAL },
    { { NULL, "/x", 0 }, NULL, 0, BRU_EINVAL },
    { { "/dev/null", "/x", 0 }, NULL, 0, BRU_EINVAL },
    { { "/tmp", "/x", 0 }, "=1", 0, BRU_EINVAL },
    { { "/tmp", "/x", 0 }, "A", 0, BRU_EINVAL },
    { { "/tmp", "/x", 0 }, "A=1", 65536, BRU_EINVAL },
};

TEST(wrong_options_are_refused_with_a_reason) {
    EACH(row, wrong) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        bru_error err = { 0 };
        bru_session *s = NULL;
        o.mounts = &row->mount;
        o.mount_count = 1;
        o.env = &row->env;
        o.env_count = row->env != NULL;
        o.limits.memory_bytes = row->memory;
        CHECK_EQ(bru_session_new(the_image(), &o, &s, &err), row->want);
        CHECK(s == NULL && err.message[0]);
    }
}

TEST(a_source_larger_than_the_guest_is_refused_and_the_session_lives) {
    bru_session *s = session_with(NULL);
    size_t len = (size_t)200 << 20;
    char *src = malloc(len);
    bru_result *r = NULL;
    bru_error err;
    REQUIRE(src);
    memset(src, '\n', len);
    CHECK_EQ(bru_session_run(s, src, len, NULL, &r, &err), BRU_ELIMIT);
    CHECK(r == NULL && strstr(err.message, "memory"));
    free(src);
    CHECK_RUN(s, "print('on')", "on\n");
    bru_session_free(s);
}

TEST(options_of_a_newer_library_are_refused_and_of_an_older_one_taken) {
    struct {
        bru_session_options known;
        uint64_t more;
    } newer = { BRU_SESSION_OPTIONS_INIT, 1 };
    bru_session *s = NULL;
    newer.known.size = sizeof newer;
    CHECK_EQ(bru_session_new(the_image(), &newer.known, &s, NULL), BRU_EINVAL);
    newer.more = 0;
    CHECK_EQ(bru_session_new(the_image(), &newer.known, &s, NULL), BRU_OK);
    bru_session_free(s);
    newer.known.size = sizeof(size_t);
    CHECK_EQ(bru_session_new(the_image(), &newer.known, &s, NULL), BRU_OK);
    bru_session_free(s);
    newer.known.size = 1;
    CHECK_EQ(bru_session_new(the_image(), &newer.known, &s, NULL), BRU_EINVAL);
}

TEST(making_and_running_a_session_survives_each_failed_allocation) {
    the_image();
    FAULT_SWEEP {
        bru_session *s = NULL;
        bru_result *r = NULL;
        bru_status st = bru_session_new(the_image(), NULL, &s, NULL);
        if (!st) st = bru_session_run(s, "print('hi')", 11, NULL, &r, NULL);
        CHECK(st == BRU_OK || st == BRU_ENOMEM || st == BRU_ELIMIT || st == BRU_EIO);
        CHECK(st == BRU_OK || !r);
        bru_result_free(r);
        bru_session_free(s);
    }
}

/* ---- A prompt
 * ------------------------------------------------------------------------------------ */

static const struct {
    const char *src;
    bru_completeness want;
} statements[] = {
    { "1 + 1", BRU_COMPLETE },     { "if x:", BRU_INCOMPLETE }, { "if x:\n  1\n", BRU_COMPLETE },
    { "f(", BRU_INCOMPLETE },      { "'''a", BRU_INCOMPLETE },  { "1 +", BRU_SYNTAX_ERROR },
    { "await f()", BRU_COMPLETE }, { "", BRU_COMPLETE },
};

TEST(a_prompt_learns_whether_a_statement_is_whole) {
    bru_session *s = session_with(NULL);
    EACH(row, statements) {
        bru_completeness got;
        CHECK_EQ(bru_session_check(s, row->src, strlen(row->src), &got, NULL), BRU_OK);
        if (got != row->want) fprintf(stderr, "in: %s\n", row->src);
        CHECK_EQ(got, row->want);
    }
    bru_session_free(s);
}

TEST(a_prompt_completes_names_and_attributes) {
    bru_session *s = session_with(NULL);
    const char *out = NULL;
    CHECK_RUN(s, "import math\nmy_name = 1", "");
    CHECK_EQ(bru_session_complete(s, "x = my_na", 9, &out, NULL), BRU_OK);
    CHECK(out && strstr(out, "my_name"));
    CHECK_EQ(bru_session_complete(s, "math.sq", 7, &out, NULL), BRU_OK);
    CHECK(out && strstr(out, "math.sqrt"));
    bru_session_free(s);
}

/* What a completed object's __dir__ may do, without harm to the session. */
static const char *const side_effects[] = {
    "print('hi')",
    "import time; time.sleep(3600)",
    "input()",
    "import asyncio; asyncio.run(asyncio.sleep(3600))",
};

TEST(completing_runs_the_guests_own_code_and_keeps_the_session) {
    EACH(effect, side_effects) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        o.flags = BRU_STREAM_OUTPUT | BRU_PULL_INPUT;
        bru_session *s = session_with(&o);
        char src[300];
        const char *out = NULL;
        snprintf(src, sizeof src,
                 "kept = 1\nclass X:\n    def __dir__(self):\n        %s\n"
                 "        return ['abc']\nx = X()",
                 *effect);
        CHECK_RUN(s, src, "");
        bru_status st = bru_session_complete(s, "x.", 2, &out, NULL);
        if (st) fprintf(stderr, "in: %s\n", *effect);
        CHECK_EQ(st, BRU_OK);
        CHECK_RUN(s, "print(kept)", "1\n");
        bru_session_free(s);
    }
}

TEST(an_expression_is_displayed_when_asked) {
    bru_session *s = session_with(NULL);
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    bru_result *r = NULL;
    o.flags = BRU_EXEC_DISPLAY;
    REQUIRE(bru_session_run(s, "'a' * 3", 7, &o, &r, NULL) == BRU_OK);
    CHECK_STR(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "'aaa'\n");
    bru_result_free(r);
    CHECK_RUN(s, "'a' * 3", "");
    bru_session_free(s);
}

TEST_MAIN
