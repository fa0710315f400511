#include "asleep.h"

/* State of every awkward kind: what makes it, and what must then be printed. */
static const struct {
    const char *make, *look, *want;
} states[] = {
    { "x = {'a': [1, 2]}", "print(x)", "{'a': [1, 2]}\n" },
    { "def f(n): return n + 1", "print(f(1))", "2\n" },
    { "class C:\n    def m(self): return 'm'\nc = C()", "print(c.m(), type(c) is C)", "m True\n" },
    { "f = lambda n, k=3: n * k", "print(f(2))", "6\n" },
    { "def gen():\n    for i in range(5): yield i\ng = gen(); next(g); next(g)", "print(list(g))",
      "[2, 3, 4]\n" },
    { "def outer():\n    n = 0\n    def inner():\n        nonlocal n\n        n += 1\n        "
      "return n\n"
      "    return inner\nk = outer(); k()",
      "print(k())", "2\n" },
    { "import itertools\ni = itertools.count(5); next(i)", "print(next(i))", "6\n" },
    { "try: 1/0\nexcept ZeroDivisionError as e: kept = e",
      "import traceback; print(len(traceback.extract_tb(kept.__traceback__)))", "1\n" },
    { "big = bytearray(range(256)) * 40000", "print(len(big), sum(big[:256]))",
      "10240000 32640\n" },
    { "import weakref\nclass W: pass\nw = W(); r = weakref.ref(w)", "print(r() is w)", "True\n" },
};

TEST(state_of_every_kind_is_there_in_another_session) {
    EACH(row, states) {
        bru_session *s = session_with(NULL);
        bru_result_free(run(s, row->make));
        bru_snapshot *snapshot = snapshot_of(s);
        REQUIRE(snapshot);
        bru_session *other = resumed(snapshot);
        REQUIRE(other);
        CHECK_RUN(other, row->look, row->want);
        CHECK_RUN(s, row->look, row->want);
        bru_session_free(other);
        bru_session_free(s);
        bru_snapshot_free(snapshot);
    }
}

TEST(a_restore_undoes_what_came_after) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = 1; open('/data/f', 'w').write('before')", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_RUN(s, "x = 2; y = 3; open('/data/f', 'w').write('after'); open('/data/g', 'w')", "");
    CHECK_EQ(bru_session_restore(s, snapshot, NULL), BRU_OK);
    CHECK_RUN(s,
              "import os; print(x, 'y' in globals(), open('/data/f').read(), os.listdir('/data'))",
              "1 False before ['f']\n");
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

enum { CALLS = 100 };
static const char gather[] = "import asyncio\n"
                             "print('before')\n"
                             "got = await asyncio.gather(*(f(i) for i in range(100)))\n"
                             "print(got == [1000 + i for i in range(100)])\n";

/* Replies to all calls of the snapshot, in another order than they were made. */
static void reply_to_all(bru_session *s, const bru_snapshot *snapshot) {
    for (unsigned i = 0; i < CALLS; i++) {
        bru_snapshot_call c;
        unsigned k = i * 37 % CALLS;
        CHECK_EQ(bru_snapshot_get_call(snapshot, k, &c, NULL), BRU_OK);
        CHECK_STR(c.name, "f");
        CHECK_EQ(reply_number(s, c.id, 1000 + k), BRU_OK);
    }
}

TEST(calls_that_wait_are_answered_in_another_session) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o), *other = NULL;
    bru_snapshot_info info;
    REQUIRE(start(s, gather));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    bru_snapshot_get_info(snapshot, &info);
    CHECK_EQ(info.call_count, CALLS);
    CHECK_EQ(info.waiting, 1);
    CHECK(info.left_ns > 0 && info.left_ns <= 30 * 1000000000ull);
    CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &other, NULL), BRU_OK);
    REQUIRE(other);
    reply_to_all(other, snapshot);
    CHECK_FINISH(other, "before\nTrue\n");
    CHECK_RUN(other, "print(got[7])", "1007\n");
    /* The first one waits on as if nothing had been. */
    reply_to_all(s, snapshot);
    CHECK_FINISH(s, "before\nTrue\n");
    bru_snapshot_free(snapshot);
    bru_session_free(other);
    bru_session_free(s);
}

TEST(calls_that_wait_are_shown_again_after_a_restore) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o);
    bru_event event;
    REQUIRE(start(s, "x = await f(5)\nprint(x, await g())"));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(bru_session_restore(s, snapshot, NULL), BRU_OK);
        CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
        REQUIRE(event.kind == BRU_EVENT_CALL);
        CHECK_STR(event.name, "f");
        CHECK_EQ(reply_number(s, event.id, 70), BRU_OK);
        CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
        REQUIRE(event.kind == BRU_EVENT_CALL);
        CHECK_STR(event.name, "g");
        CHECK_EQ(reply_number(s, event.id, 71), BRU_OK);
        CHECK_FINISH(s, "70 71\n");
    }
    bru_snapshot_free(snapshot);
    bru_session_free(s);
}

TEST(host_functions_of_the_session_are_told_anew) {
    static const bru_function others[] = { { "g", NULL, NULL }, { "h.i", NULL, NULL } };
    bru_session_options o = with_functions(), with_others = with_functions();
    with_others.functions = others;
    bru_session *s = session_with(&o), *other = NULL;
    bru_event event;
    CHECK_RUN(s, "print(callable(f))", "True\n");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_resume(the_image(), &with_others, snapshot, &other, NULL), BRU_OK);
    REQUIRE(other);
    static const char src[] = "print(await g(), await h.i())";
    CHECK_EQ(bru_session_start(other, src, sizeof src - 1, NULL, NULL), BRU_OK);
    for (unsigned i = 0; i < 2; i++) {
        CHECK_EQ(bru_session_next(other, &event, NULL), BRU_OK);
        REQUIRE(event.kind == BRU_EVENT_CALL);
        CHECK_STR(event.name, i ? "h.i" : "g");
        CHECK_EQ(reply_number(other, event.id, i), BRU_OK);
    }
    CHECK_FINISH(other, "0 1\n");
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(replies_that_wait_for_the_guest_go_along) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o), *twin = NULL;
    bru_event event;
    REQUIRE(bru_session_start(s, "print(await f())", 16, NULL, NULL) == BRU_OK);
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    REQUIRE(event.kind == BRU_EVENT_CALL);
    uint32_t id = event.id;
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    CHECK_EQ(reply_number(s, id, 300), BRU_OK);
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    REQUIRE(twin);
    CHECK_FINISH(twin, "300\n");
    CHECK_FINISH(s, "300\n");
    bru_session_free(twin);
    bru_session_free(s);
}

/* Everything that a coroutine may hold while it waits. */
static const char holding[] =
    "import asyncio, contextvars, itertools, threading, weakref\n"
    "class Held: pass\n"
    "async def numbers():\n"
    "    for i in range(3):\n"
    "        yield i + await f(i)\n"
    "var = contextvars.ContextVar('var', default='unset')\n"
    "async def worker(name, lock, log):\n"
    "    var.set(name)\n"
    "    async with lock:\n"
    "        got = await f(name)\n"
    "        log.append((var.get(), got))\n"
    "async def main():\n"
    "    held = Held(); ref = weakref.ref(held); pairs = itertools.pairwise('abc'); next(pairs)\n"
    "    gen = (i * i for i in itertools.count()); next(gen); next(gen)\n"
    "    lock, log, plain = asyncio.Lock(), [], threading.Lock()\n"
    "    agen = numbers(); first = await anext(agen)\n"
    "    with plain:\n"
    "        await asyncio.gather(*(worker(n, lock, log) for n in 'xyz'))\n"
    "        assert plain.locked()\n"
    "    try:\n"
    "        raise KeyError('inner')\n"
    "    except KeyError as e:\n"
    "        await f('handling'); kept = e\n"
    "        try: raise\n"
    "        except KeyError as again: assert again is kept\n"
    "    assert ref() is held and next(pairs) == ('b', 'c') and next(gen) == 4\n"
    "    rest = [n async for n in agen]\n"
    "    return first, rest, log, kept.args, var.get()\n"
    "print(await main())\n";

/* Goes through `src`, answering each call with 7; with `sleeps` every wait is slept through, and
 * the execution goes on in a session of its own. */
static bru_result *run_through(const char *src, bool sleeps) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o);
    bru_event event = { .kind = BRU_EVENT_WAIT };
    bru_status st = bru_session_start(s, src, strlen(src), NULL, NULL);
    uint32_t open[16], count = 0;
    while (!st && (st = bru_session_next(s, &event, NULL)) == BRU_OK) {
        if (event.kind == BRU_EVENT_DONE) break;
        if (event.kind == BRU_EVENT_CALL && count < 16) open[count++] = event.id;
        if (event.kind != BRU_EVENT_WAIT) continue;
        if (sleeps) {
            bru_session *next = NULL;
            bru_snapshot *snapshot = snapshot_of(s);
            st = snapshot ? bru_session_resume(the_image(), &o, snapshot, &next, NULL) : BRU_EGUEST;
            bru_snapshot_free(snapshot);
            bru_session_free(s);
            s = next;
        }
        for (; !st && count > 0; count--) st = reply_number(s, open[count - 1], 7);
    }
    bru_session_free(s);
    return event.kind == BRU_EVENT_DONE ? event.result : NULL;
}

TEST(whatever_a_coroutine_holds_is_there_when_it_wakes) {
    bru_result *r = run_through(holding, true);
    REQUIRE(r);
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL),
              "(7, [8, 9], [('x', 7), ('y', 7), ('z', 7)], ('inner',), 'unset')\n");
    bru_result_free(r);
}

TEST(a_run_that_slept_hundreds_of_times_ends_like_one_that_never_did) {
    static const char steps[] = "import hashlib\n"
                                "h, log = hashlib.sha256(), open('/data/log', 'w')\n"
                                "for i in range(300):\n"
                                "    n = await f(i)\n"
                                "    h.update(b'%d' % (i * n)); log.write(f'{i} {n}\\n')\n"
                                "log.close(); h.update(open('/data/log', 'rb').read())\n"
                                "print(h.hexdigest())\n";
    bru_result *slept = run_through(steps, true), *awake = run_through(steps, false);
    REQUIRE(slept && awake);
    CHECK_EQ(bru_result_reason(slept), BRU_REASON_COMPLETED);
    CHECK_STR(bru_result_text(slept, BRU_TEXT_OUTPUT, NULL),
              bru_result_text(awake, BRU_TEXT_OUTPUT, NULL));
    bru_result_free(slept);
    bru_result_free(awake);
}

TEST(output_input_and_artifacts_of_what_waits_go_along) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o), *other = NULL;
    bru_exec_options run = BRU_EXEC_OPTIONS_INIT;
    bru_event event = { .kind = BRU_EVENT_CALL };
    static const char src[] = "import os, sys, brumate\n"
                              "print('out', os.read(0, 3)); print('err', file=sys.stderr)\n"
                              "brumate.show(b'\\x00\\x01', 'a/b'); x = await f()\n"
                              "brumate.show('two'); print(x, os.read(0, 9), os.read(0, 9))\n";
    run.input = "in, rest";
    run.input_len = 8;
    run.capture = "x";
    CHECK_EQ(bru_session_start(s, src, sizeof src - 1, &run, NULL), BRU_OK);
    while (event.kind == BRU_EVENT_CALL) CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    REQUIRE(event.kind == BRU_EVENT_WAIT);
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &other, NULL), BRU_OK);
    REQUIRE(other);
    CHECK_EQ(bru_session_next(other, &event, NULL), BRU_OK);
    CHECK_EQ(event.kind, BRU_EVENT_CALL);
    CHECK_EQ(reply_number(other, event.id, 9), BRU_OK);
    bru_result *r = finish(other);
    REQUIRE(r);
    const char *type;
    size_t len;
    CHECK_STR(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "out b'in,'\n9 b' rest' b''\n");
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "out b'in,'\nerr\n9 b' rest' b''\n");
    CHECK_STR(bru_result_text(r, BRU_TEXT_VALUE, NULL), "9");
    CHECK_EQ(bru_result_artifact_count(r), 2);
    const void *first = bru_result_artifact(r, 0, &type, &len);
    CHECK(first && len == 2 && memcmp(first, "\0\1", 2) == 0);
    CHECK_STR(type, "a/b");
    bru_result_free(r);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(a_sleep_ends_after_a_restore_and_time_does_not_go_back) {
    bru_session *s = session_with(NULL);
    REQUIRE(start(s, "import asyncio, time\nt = time.monotonic()\nawait asyncio.sleep(0.05)\n"
                     "print(time.monotonic() - t >= 0.05)"));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    bru_session *other = resumed(snapshot);
    REQUIRE(other);
    CHECK_FINISH(other, "True\n");
    CHECK_RUN(other, "print(time.monotonic() >= t)", "True\n");
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

/* What cannot sleep, and a word of why. */
static const struct {
    const char *src, *why;
} restless[] = {
    { "import time; time.sleep(60)", "time.sleep" },
    { "import asyncio; asyncio.run(asyncio.sleep(60))", "asyncio.run" },
};

TEST(what_is_not_at_rest_is_refused_with_the_reason) {
    bru_snapshot *snapshot;
    bru_session *twin;
    bru_error err;
    EACH(row, restless) {
        bru_session *s = session_with(NULL);
        REQUIRE(start(s, row->src));
        CHECK_EQ(bru_session_snapshot(s, NULL, &snapshot, &err), BRU_ESTATE);
        CHECK(snapshot == NULL && strstr(err.message, row->why));
        CHECK_EQ(bru_session_fork(s, &twin, &err), BRU_ESTATE);
        CHECK(twin == NULL);
        bru_session_free(s);
    }
    bru_session *s = session_with(NULL);
    bru_result_free(run(s, "import os; os._exit(0)"));
    CHECK_EQ(bru_session_snapshot(s, NULL, &snapshot, &err), BRU_ESTATE);
    CHECK(strstr(err.message, "ended"));
    CHECK_EQ(bru_session_reset(s, 0, NULL), BRU_OK);
    CHECK_EQ(bru_session_start(s, "1", 1, NULL, NULL), BRU_OK);
    CHECK_EQ(bru_session_snapshot(s, NULL, &snapshot, &err), BRU_ESTATE);
    CHECK(strstr(err.message, "not begun"));
    bru_session_free(s);
}

TEST(twins_do_not_touch_each_other) {
    bru_session *s = session_with(NULL), *twins[3] = { NULL };
    CHECK_RUN(s, "x = list(range(5)); open('/data/f', 'w').write('of both')", "");
    for (int i = 0; i < 3; i++) CHECK_EQ(bru_session_fork(s, &twins[i], NULL), BRU_OK);
    REQUIRE(twins[0] && twins[1] && twins[2]);
    CHECK_RUN(twins[0], "x.append('first'); open('/data/f', 'a').write(', first'); print(x)",
              "[0, 1, 2, 3, 4, 'first']\n");
    CHECK_RUN(s, "x.append('origin'); open('/data/f', 'a').write(', origin')", "");
    static const char look[] = "print(x[5:], open('/data/f').read())";
    CHECK_RUN(twins[0], look, "['first'] of both, first\n");
    CHECK_RUN(twins[1], look, "[] of both\n");
    CHECK_RUN(s, look, "['origin'] of both, origin\n");
    bru_session_free(s);
    CHECK_RUN(twins[2], look, "[] of both\n");
    for (int i = 0; i < 3; i++) bru_session_free(twins[i]);
}

TEST(a_twin_has_the_deadline_of_the_execution_not_that_of_the_session) {
    bru_session_options o = with_functions();
    bru_exec_options run = BRU_EXEC_OPTIONS_INIT;
    o.limits.timeout_ns = 50000000;
    run.timeout_ns = 30 * 1000000000ull;
    bru_session *s = session_with(&o), *twin = NULL;
    bru_event event = { .kind = BRU_EVENT_CALL };
    static const char src[] = "import asyncio\nawait f()\nawait asyncio.sleep(0.2)\nprint('on')";
    CHECK_EQ(bru_session_start(s, src, sizeof src - 1, &run, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    uint32_t id = event.id;
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    REQUIRE(event.kind == BRU_EVENT_WAIT);
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    REQUIRE(twin);
    CHECK_EQ(reply_number(twin, id, 1), BRU_OK);
    CHECK_FINISH(twin, "on\n");
    bru_session_free(twin);
    bru_session_free(s);
}

TEST(an_execution_that_waits_can_be_given_more_time) {
    bru_session_options o = with_functions();
    bru_event event;
    o.limits.timeout_ns = 50000000;
    bru_session *s = session_with(&o);
    CHECK_EQ(bru_session_extend(s, 1, NULL), BRU_ESTATE);
    REQUIRE(start(s, "import asyncio\nawait asyncio.sleep(0.1)\nprint('on')"));
    CHECK_EQ(bru_session_extend(s, 30 * 1000000000ull, NULL), BRU_OK);
    CHECK_FINISH(s, "on\n");
    REQUIRE(start(s, "await f()"));
    CHECK_EQ(bru_session_extend(s, UINT64_MAX, NULL), BRU_OK);
    CHECK_EQ(bru_session_next(s, &event, NULL), BRU_OK);
    CHECK_EQ(event.kind, BRU_EVENT_WAIT);
    CHECK(event.wake_ns == UINT64_MAX);
    bru_session_free(s);
}

TEST(a_woken_execution_has_the_time_that_was_left_and_no_more_than_the_session_gives) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o), *other = NULL;
    REQUIRE(start(s, "await f()"));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    o.limits.timeout_ns = 50000000;
    CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &other, NULL), BRU_OK);
    REQUIRE(other);
    bru_event event = { .kind = BRU_EVENT_CALL };
    while (event.kind != BRU_EVENT_DONE) REQUIRE(bru_session_next(other, &event, NULL) == BRU_OK);
    CHECK_EQ(bru_result_reason(event.result), BRU_REASON_TIMEOUT);
    bru_result_free(event.result);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(a_twin_and_a_woken_session_have_entropy_of_their_own) {
    bru_session *s = session_with(NULL), *twin = NULL;
    CHECK_RUN(s, "import random; random.seed(1)", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_fork(s, &twin, NULL), BRU_OK);
    bru_session *other = resumed(snapshot);
    REQUIRE(twin && other);
    static const char draw[] = "print(random.getrandbits(64))";
    bru_result *r[] = { run(s, draw), run(twin, draw), run(other, draw) };
    REQUIRE(r[0] && r[1] && r[2]);
    const char *a = bru_result_text(r[0], BRU_TEXT_STDOUT, NULL);
    const char *b = bru_result_text(r[1], BRU_TEXT_STDOUT, NULL);
    const char *c = bru_result_text(r[2], BRU_TEXT_STDOUT, NULL);
    CHECK(strcmp(a, b) != 0 && strcmp(b, c) != 0 && strcmp(a, c) != 0);
    for (int i = 0; i < 3; i++) bru_result_free(r[i]);
    bru_session_free(twin);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST(the_environment_is_that_of_the_session_and_what_the_program_set) {
    static const char *const before[] = { "A=1", "B=2" }, *const after[] = { "A=9", "C=3" };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.env = before;
    o.env_count = 2;
    bru_session *s = session_with(&o), *other = NULL;
    CHECK_RUN(s, "import os; os.environ['OWN'] = 'x'", "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    o.env = after;
    CHECK_EQ(bru_session_resume(the_image(), &o, snapshot, &other, NULL), BRU_OK);
    REQUIRE(other);
    CHECK_RUN(other, "print([os.environ.get(k) for k in ('A', 'B', 'C', 'OWN')])",
              "['9', None, '3', 'x']\n");
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

TEST_MAIN
