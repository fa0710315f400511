/* Host functions, inputs, the captured variable and artifacts: the host's side against the guest.
 * Values are CBOR; those here are small enough to be written by hand. */
#include "world.h"

#include <time.h>
#include <unistd.h>

static const uint64_t ms = 1000000;

static const bru_function functions[] = {
    { "echo", "Answers what it is given.", "{\"type\": \"object\"}" },
    { "db.query", NULL, NULL },
    { "db.admin.drop", "Drops.", NULL },
};

static bru_session *session_with_functions(void) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.functions = functions;
    o.function_count = sizeof functions / sizeof *functions;
    return session_with(&o);
}

static void start(bru_session *s, const char *src) {
    CHECK_EQ(bru_session_start(s, src, strlen(src), NULL, NULL), BRU_OK);
}

static bru_event next(bru_session *s) {
    bru_event e = { 0 };
    CHECK_EQ(bru_session_next(s, &e, NULL), BRU_OK);
    return e;
}

static bru_status reply(bru_session *s, uint32_t id, const char *value) {
    return bru_session_reply(s, id, 1, value, strlen(value), NULL);
}

/* Runs with calls answered at once by `value`, or by the error `value` if not `ok`. */
static bru_result *run_answered(bru_session *s, const char *src, int ok, const char *value) {
    start(s, src);
    for (;;) {
        bru_event e = next(s);
        if (e.kind == BRU_EVENT_DONE) return e.result;
        if (e.kind == BRU_EVENT_CALL)
            CHECK_EQ(bru_session_reply(s, e.id, ok, value, strlen(value), NULL), BRU_OK);
        if (e.kind == BRU_EVENT_WAIT) usleep(2000);
    }
}

#define CHECK_ANSWERED(s, src, ok, value, text)                                                    \
    do {                                                                                           \
        bru_result *r_ = run_answered(s, src, ok, value);                                          \
        CHECK_STR(bru_result_text(r_, BRU_TEXT_OUTPUT, NULL), text);                               \
        bru_result_free(r_);                                                                       \
    } while (0)

/* ---- Calls -------------------------------------------------------------------------------------
 */

TEST(a_call_carries_its_name_and_arguments_and_gives_the_answer) {
    bru_session *s = session_with_functions();
    start(s, "r = await echo(1, 'b', x=None)\nprint(r)");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    CHECK_STR(e.name, "echo");
    CHECK(e.len == 9 && memcmp(e.data, "\x82\x82\x01\x61\x62\xa1\x61x\xf6", 9) == 0);
    CHECK_EQ(reply(s, e.id, "\x82\x01\x61z"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), "[1, 'z']\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(a_call_is_answered_at_once_or_later_and_by_its_id) {
    bru_session *s = session_with_functions();
    start(s, "import asyncio\nprint(await echo())\n"
             "print(await asyncio.gather(echo('a'), db.query('b')))");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    CHECK_EQ(reply(s, e.id, "\x01"), BRU_OK);
    CHECK_EQ(reply(s, e.id, "\x01"), BRU_EINVAL);
    bru_event a = next(s);
    REQUIRE(a.kind == BRU_EVENT_CALL);
    uint32_t first = a.id;
    bru_event b = next(s);
    REQUIRE(b.kind == BRU_EVENT_CALL);
    CHECK_STR(b.name, "db.query");
    CHECK(b.id != first);
    CHECK_EQ(reply(s, b.id, "\x03"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_WAIT);
    CHECK_EQ(reply(s, first, "\x02"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), "1\n[2, 3]\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

/* Two tasks wait when a third call is answered at once together with theirs. */
TEST(replies_of_others_that_come_with_an_answer_at_once_are_delivered) {
    bru_session *s = session_with_functions();
    start(s, "import asyncio\n"
             "async def one(n): return n, await echo(n)\n"
             "print(await asyncio.gather(one(1), one(2), one(3)))");
    uint32_t ids[3];
    for (int i = 0; i < 3; i++) {
        bru_event e = next(s);
        REQUIRE(e.kind == BRU_EVENT_CALL);
        ids[i] = e.id;
    }
    for (int i = 0; i < 3; i++) CHECK_EQ(reply(s, ids[i], i ? "\x05" : "\x04"), BRU_OK);
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), "[(1, 4), (2, 5), (3, 5)]\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

static const struct {
    const char *src, *out;
} ways_to_await[] = {
    { "print(await echo())", "7\n" },
    { "import asyncio\nprint(await asyncio.create_task(echo()))", "7\n" },
    { "import asyncio\nprint(await asyncio.ensure_future(echo()))", "7\n" },
    { "import asyncio\nprint(await asyncio.gather(echo(), echo()))", "[7, 7]\n" },
    { "import asyncio\nprint(await asyncio.wait_for(echo(), 5))", "7\n" },
    { "import asyncio\nprint(await asyncio.shield(echo()))", "7\n" },
    { "import asyncio\nasync with asyncio.TaskGroup() as g: t = g.create_task(echo())\n"
      "print(t.result())",
      "7\n" },
    { "import asyncio\nprint(asyncio.run(echo()))", "7\n" },
    { "import asyncio\nasync def f(): return await echo()\nprint(asyncio.run(f()))", "7\n" },
    { "import asyncio\nasync def f(): return await echo()\n"
      "async def g(): return asyncio.run(f())\nprint(await g())",
      "7\n" },
    { "async def f():\n  for i in range(2): yield await echo()\n"
      "print([x async for x in f()])",
      "[7, 7]\n" },
    { "def f():\n  for i in range(2): yield echo()\nprint([await c for c in f()])", "[7, 7]\n" },
    { "class A:\n  def __await__(self): return (yield from echo().__await__())\n"
      "print(await A())",
      "7\n" },
    { "try: echo().send(None)\nexcept StopIteration as e: print(e.value)", "7\n" },
    { "f = echo\ndef run(g): return g(1, 2)\nprint(await run(f))", "7\n" },
    { "print(await db.admin.drop())", "7\n" },
    { "import inspect, asyncio\nc = echo()\n"
      "print(inspect.isawaitable(c), asyncio.iscoroutine(c), await c)",
      "True True 7\n" },
};

TEST(a_call_is_awaited_in_whatever_way_a_coroutine_is) {
    bru_session *s = session_with_functions();
    EACH(row, ways_to_await) {
        bru_result *r = run_answered(s, row->src, 1, "\x07");
        if (strcmp(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), row->out))
            fprintf(stderr, "in: %s\n", row->src);
        CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), row->out);
        bru_result_free(r);
    }
    bru_session_free(s);
}

/* The same without an answer at once: every call is replied to only when the guest waits. */
TEST(a_call_that_has_to_wait_gives_the_same) {
    bru_session *s = session_with_functions();
    EACH(row, ways_to_await) {
        if (strstr(row->src, "send(None)")) continue; /* has no loop to wait on */
        start(s, row->src);
        uint32_t open[8];
        int count = 0;
        bru_event e = next(s);
        for (; e.kind != BRU_EVENT_DONE; e = next(s)) {
            if (e.kind == BRU_EVENT_CALL) open[count++] = e.id;
            while (e.kind == BRU_EVENT_WAIT && count > 0)
                CHECK_EQ(reply(s, open[--count], "\x07"), BRU_OK);
        }
        if (strcmp(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), row->out))
            fprintf(stderr, "in: %s\n", row->src);
        CHECK_STR(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), row->out);
        bru_result_free(e.result);
    }
    bru_session_free(s);
}

TEST(a_call_that_is_not_awaited_does_nothing_and_says_so) {
    bru_session *s = session_with_functions();
    start(s, "echo(v=1)\nprint('on')");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_STDOUT, NULL), "on\n");
    CHECK(strstr(bru_result_text(e.result, BRU_TEXT_STDERR, NULL),
                 "RuntimeWarning: coroutine 'echo' was never awaited"));
    bru_result_free(e.result);
    bru_session_free(s);
}

static const struct {
    const char *src, *out;
} misuses[] = {
    { "c = echo()\nawait c\ntry: await c\nexcept RuntimeError as e: print(e)",
      "cannot reuse the awaited call of a host function\n" },
    { "c = echo()\nc.close()\ntry: await c\nexcept RuntimeError as e: print(e)",
      "cannot reuse the awaited call of a host function\n" },
    { "c = echo()\ntry: c.throw(KeyError('k'))\nexcept KeyError as e: print(repr(e))",
      "KeyError('k')\n" },
    { "c = echo()\ntry: c.throw(KeyError)\nexcept KeyError as e: print(repr(e))", "KeyError()\n" },
    { "c = echo()\ntry: c.throw(3)\nexcept TypeError as e: print(e)",
      "exceptions must be classes or instances of exceptions\n" },
    { "c = echo()\ntry: c.send(3)\nexcept TypeError as e: print(e)\nc.close()",
      "can't send non-None value to a call just made\n" },
    { "try: db.query = 3\nexcept AttributeError as e: print(e)",
      "the host functions of 'db' are read-only\n" },
    { "try: del db.query\nexcept AttributeError as e: print(e)",
      "the host functions of 'db' are read-only\n" },
    { "try: db.other\nexcept AttributeError as e: print(type(e).__name__)", "AttributeError\n" },
    { "try: type(echo)()\nexcept TypeError as e: print('no')", "no\n" },
    { "print(echo, db, dir(db))",
      "<host function 'echo'> <host functions of 'db': query, admin> ['admin', 'query']\n" },
    { "print(echo.__name__, echo.__doc__)", "echo Answers what it is given.\n" },
    { "c = echo()\nprint(repr(c)[:28])\nc.close()", "<call of host function 'echo\n" },
    { "try: await echo(1, [open])\nexcept TypeError as e: print(e)",
      "echo(): argument 2[0]: a 'builtin_function_or_method' cannot cross between guest and "
      "host\n" },
    { "try: await echo(x=open)\nexcept TypeError as e: print(e)",
      "echo(): argument 'x': a 'builtin_function_or_method' cannot cross between guest and "
      "host\n" },
    { "x = []\nx.append(x)\ntry: await echo(x)\nexcept ValueError as e: print('ValueError')",
      "ValueError\n" },
    { "try: await echo(bytes(17 << 20))\n"
      "except ValueError as e: print('larger than 16777216 bytes' in str(e))",
      "True\n" },
    { "import asyncio\nc = echo()\ntry: await asyncio.gather(c, c)\n"
      "except BaseException as e: print(e)\nelse: print('once')",
      "once\n" },
};

TEST(what_is_done_wrong_with_a_call_says_so) {
    bru_session *s = session_with_functions();
    EACH(row, misuses) {
        bru_result *r = run_answered(s, row->src, 1, "\x07");
        if (strcmp(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), row->out))
            fprintf(stderr, "in: %s\n", row->src);
        CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), row->out);
        bru_result_free(r);
    }
    bru_session_free(s);
}

TEST(an_error_is_raised_as_what_it_names_at_the_line_that_awaits) {
    bru_session *s = session_with_functions();
    bru_result *r = run_answered(s, "def g(): pass\nawait echo()\n", 0, "ValueError: no such city");
    CHECK_STR(bru_result_text(r, BRU_TEXT_TYPE, NULL), "ValueError");
    CHECK_STR(bru_result_text(r, BRU_TEXT_TRACEBACK, NULL),
              "Traceback (most recent call last):\n"
              "  File \"<brumate>\", line 2, in <module>\n"
              "    await echo()\n"
              "ValueError: no such city\n");
    bru_result_free(r);
    static const struct {
        const char *text, *type;
    } rows[] = {
        { "KeyError: k", "KeyError" },
        { "FileNotFoundError: x", "FileNotFoundError" },
        { "SystemExit: 3", "brumate.CallError" },
        { "StopIteration: 3", "brumate.CallError" },
        { "app.Broken: no", "brumate.CallError" },
        { "\xff", "brumate.CallError" },
        { "", "brumate.CallError" },
    };
    EACH(row, rows) {
        r = run_answered(s, "await echo()", 0, row->text);
        CHECK_STR(bru_result_text(r, BRU_TEXT_TYPE, NULL), row->type);
        bru_result_free(r);
    }
    bru_session_free(s);
}

TEST(a_reply_that_is_no_value_raises_value_error) {
    bru_session *s = session_with_functions();
    static const char src[] = "try: await echo()\nexcept ValueError: print('no value')";
    CHECK_ANSWERED(s, src, 1, "\x82\x01", "no value\n");
    CHECK_ANSWERED(s, src, 1, "", "no value\n");
    bru_session_free(s);
}

TEST(a_call_given_up_is_dropped_once_and_its_late_reply_is_swallowed) {
    bru_session *s = session_with_functions();
    start(s, "import asyncio\n"
             "try:\n    async with asyncio.timeout(0.02): await echo()\n"
             "except TimeoutError: print('gave up')\n"
             "await db.query()");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    uint32_t slow = e.id;
    while ((e = next(s)).kind == BRU_EVENT_WAIT) usleep(5000);
    REQUIRE(e.kind == BRU_EVENT_DROP);
    CHECK_EQ(e.id, slow);
    CHECK_STR(e.name ? e.name : "", "");
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    uint32_t more = e.id;
    CHECK_EQ(reply(s, slow, "\x01"), BRU_OK);
    CHECK_EQ(reply(s, more, "\x01"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_STDOUT, NULL), "gave up\n");
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(a_soft_stop_ends_a_call_that_waits_and_the_session_lives) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.functions = functions;
    o.function_count = 1;
    o.limits.timeout_ns = 100 * ms;
    o.limits.grace_ns = 1000 * ms;
    bru_session *s = session_with(&o);
    start(s, "await echo()");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    while ((e = next(s)).kind != BRU_EVENT_DONE) usleep(5000);
    CHECK_EQ(bru_result_reason(e.result), BRU_REASON_TIMEOUT);
    CHECK(bru_result_session_alive(e.result));
    CHECK(strstr(bru_result_text(e.result, BRU_TEXT_TRACEBACK, NULL), "await echo()"));
    bru_result_free(e.result);
    CHECK_ANSWERED(s, "print(await echo())", 1, "\x07", "7\n");
    bru_session_free(s);
}

TEST(too_many_open_calls_are_refused_in_the_guest) {
    bru_session *s = session_with_functions();
    start(s, "import asyncio\n"
             "async def one():\n"
             "    try: await echo()\n"
             "    except Exception as e: return str(e)\n"
             "got = set(await asyncio.gather(*[one() for i in range(16385)]))\n"
             "print(got)");
    static uint32_t ids[16384];
    int count = 0;
    bru_event e = next(s);
    for (; e.kind == BRU_EVENT_CALL && count < 16384; e = next(s)) ids[count++] = e.id;
    CHECK_EQ(count, 16384);
    CHECK_EQ(e.kind, BRU_EVENT_WAIT);
    for (int i = 0; i < count; i++) CHECK_EQ(reply(s, ids[i], "\xf6"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK(strstr(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), "too many are under way"));
    bru_result_free(e.result);
    bru_session_free(s);
}

TEST(a_reply_larger_than_a_value_is_refused_and_the_call_stays_open) {
    bru_session *s = session_with_functions();
    bru_error err;
    char *large = calloc(BRU_VALUE_MAX + 1, 1);
    REQUIRE(large);
    start(s, "print(await echo())");
    bru_event e = next(s);
    REQUIRE(e.kind == BRU_EVENT_CALL);
    uint32_t id = e.id;
    CHECK_EQ(bru_session_reply(s, id, 1, large, BRU_VALUE_MAX + 1, &err), BRU_ELIMIT);
    CHECK_EQ(reply(s, id, "\x07"), BRU_OK);
    e = next(s);
    REQUIRE(e.kind == BRU_EVENT_DONE);
    CHECK_STR(bru_result_text(e.result, BRU_TEXT_OUTPUT, NULL), "7\n");
    bru_result_free(e.result);
    free(large);
    bru_session_free(s);
}

TEST(a_plain_run_answers_calls_with_an_error) {
    bru_session *s = session_with_functions();
    CHECK_RUN(s, "try: await echo()\nexcept Exception as e: print(e)",
              "there is no host function here\n");
    bru_session_free(s);
}

TEST(broken_builtins_do_not_break_calls) {
    bru_session *s = session_with_functions();
    CHECK_ANSWERED(s,
                   "import builtins\nout = print\n"
                   "for n in 'isinstance', 'len', 'type', 'list', 'dict', 'Exception', 'super':\n"
                   "    setattr(builtins, n, None)\n"
                   "try: await echo()\nexcept builtins.KeyError as e: out(e)",
                   0, "KeyError: k", "'k'\n");
    bru_session_free(s);
}

/* ---- Making them known -------------------------------------------------------------------------
 */

TEST(functions_are_known_in_every_run_and_after_a_reset) {
    bru_session *s = session_with_functions();
    CHECK_ANSWERED(s, "print(await echo())", 1, "\x07", "7\n");
    CHECK_ANSWERED(s, "print(await echo())", 1, "\x07", "7\n");
    CHECK_EQ(bru_session_reset(s, 0, NULL), BRU_OK);
    CHECK_ANSWERED(s, "print(await echo())", 1, "\x07", "7\n");
    bru_session_free(s);
}

TEST(a_variable_of_a_functions_name_wins_until_variables_are_cleared) {
    bru_session *s = session_with_functions();
    CHECK_RUN(s, "echo = 5", "");
    CHECK_RUN(s, "print(echo)", "5\n");
    CHECK_EQ(bru_session_clear(s, NULL), BRU_OK);
    CHECK_RUN(s, "print(echo)", "<host function 'echo'>\n");
    bru_session_free(s);
}

TEST(clearing_drops_variables_and_keeps_modules) {
    bru_session *s = session_with_functions();
    CHECK_RUN(s, "import sys, types\nx = 1\nsys.modules['mine'] = types.ModuleType('mine')", "");
    CHECK_EQ(bru_session_clear(s, NULL), BRU_OK);
    CHECK_RUN(s, "import mine\nprint('x' in globals(), __name__, mine.__name__)",
              "False __main__ mine\n");
    bru_session_free(s);
}

TEST(callbacks_lists_what_there_is) {
    bru_session *s = session_with_functions();
    CHECK_RUN(s, "import _callbacks\nfor c in _callbacks.list(): print(c)",
              "{'name': 'echo', 'description': 'Answers what it is given.', 'schema': "
              "{'type': 'object'}}\n"
              "{'name': 'db.query', 'description': ''}\n"
              "{'name': 'db.admin.drop', 'description': 'Drops.'}\n");
    CHECK_RUN(s,
              "import sys\nsys.modules.clear()\nimport _callbacks, brumate\n"
              "print(len(_callbacks.list()), brumate.__all__)",
              "3 ['CallError', 'show']\n");
    bru_session_free(s);
}

static const struct {
    const char *one, *two;
    const char *why;
} wrong_functions[] = {
    { "", "b", "function 0" }, { "a", NULL, "function 1" },  { "a", "1b", "'1b'" },
    { "a", "b c", "'b c'" },   { "a", ".b", "'.b'" },        { "a", "b.", "'b.'" },
    { "a", "b..c", "'b..c'" }, { "a", "__b__", "'__b__'" },  { "a", "b.__class__", "__class__" },
    { "a", "a", "two host" },  { "a", "a.b", "'a' cannot" }, { "a.b.c", "a.b", "'a.b' cannot" },
};

TEST(functions_with_wrong_names_are_refused_with_the_reason) {
    EACH(row, wrong_functions) {
        bru_function two[] = { { row->one, NULL, NULL }, { row->two, NULL, NULL } };
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        o.functions = two;
        o.function_count = 2;
        bru_session *s = NULL;
        bru_error err = { 0 };
        CHECK_EQ(bru_session_new(the_image(), &o, &s, &err), BRU_EINVAL);
        if (!strstr(err.message, row->why)) fprintf(stderr, "%s\n", err.message);
        CHECK(strstr(err.message, row->why));
        bru_session_free(s);
    }
}

TEST(a_sandbox_knows_its_functions_in_every_run) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.functions = functions;
    o.function_count = 1;
    bru_sandbox *box = NULL;
    REQUIRE(bru_sandbox_new(the_image(), &o, &box, NULL) == BRU_OK);
    for (int i = 0; i < 2; i++) {
        bru_result *r = NULL;
        REQUIRE(bru_sandbox_run(box, "print(echo)", 11, NULL, &r, NULL) == BRU_OK);
        CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "<host function 'echo'>\n");
        bru_result_free(r);
    }
    bru_sandbox_free(box);
}

/* ---- Inputs ------------------------------------------------------------------------------------
 */

static bru_result *run_with(bru_session *s, const char *src, const char *inputs, size_t len,
                            const char *capture) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    bru_result *r = NULL;
    o.inputs = inputs;
    o.inputs_len = len;
    o.capture = capture;
    CHECK_EQ(bru_session_run(s, src, strlen(src), &o, &r, NULL), BRU_OK);
    return r;
}

TEST(inputs_are_variables_before_the_code_runs) {
    bru_session *s = session_with(NULL);
    static const char inputs[] = "\xa2\x61x\x82\x01\x02\x61y\x61z";
    bru_result *r = run_with(s, "print(x, y)", inputs, sizeof inputs - 1, NULL);
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "[1, 2] z\n");
    bru_result_free(r);
    CHECK_RUN(s, "print(x)", "[1, 2]\n");
    bru_session_free(s);
}

TEST(malformed_inputs_end_the_execution_with_value_error) {
    bru_session *s = session_with(NULL);
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = { { "\xa1", 1 }, { "\x01", 1 }, { "\xa1\x01\x01", 3 }, { "\xff", 1 } };
    EACH(row, rows) {
        bru_result *r = run_with(s, "print('ran')", row->bytes, row->len, NULL);
        CHECK_EQ(bru_result_reason(r), BRU_REASON_EXCEPTION);
        CHECK_STR(bru_result_text(r, BRU_TEXT_TYPE, NULL), "ValueError");
        CHECK_STR(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "");
        bru_result_free(r);
    }
    bru_session_free(s);
}

TEST(inputs_and_capture_that_cannot_be_are_refused) {
    bru_session *s = session_with(NULL);
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    bru_result *r = NULL;
    o.inputs_len = 1;
    CHECK_EQ(bru_session_run(s, "1", 1, &o, &r, NULL), BRU_EINVAL);
    o.inputs = "x";
    o.inputs_len = (size_t)BRU_VALUE_MAX + 1;
    CHECK_EQ(bru_session_run(s, "1", 1, &o, &r, NULL), BRU_ELIMIT);
    o.inputs_len = 0;
    o.capture = "a b";
    CHECK_EQ(bru_session_run(s, "1", 1, &o, &r, NULL), BRU_EINVAL);
    CHECK_RUN(s, "print('on')", "on\n");
    bru_session_free(s);
}

/* ---- The captured variable ---------------------------------------------------------------------
 */

/* One session for all: what an earlier row left is not to be told again. */
static const struct {
    const char *src, *value, *error;
} captures[] = {
    { "pass", "", "" },
    { "result = {'a': [1, 2.5, None, True, '\xc3\xa4']}",
      "{\"a\": [1, 2.5, null, true, \"\xc3\xa4\"]}", "" },
    { "pass", "", "" },
    { "def f():\n  global result\n  result = 3\nf()", "3", "" },
    { "f2 = 1", "", "" },
    { "result.real", "3", "" },
    { "result = None", "null", "" },
    { "import asyncio\nawait asyncio.sleep(0)\nresult = 4", "4", "" },
    { "import asyncio\nasyncio.get_event_loop_policy()\nresult = 5", "5", "" },
    { "result = {1}", "", "Object of type set is not JSON serializable" },
    { "result = float('nan')", "", "Out of range float values are not JSON compliant: nan" },
    { "result = []\nresult.append(result)", "", "Circular reference detected" },
    { "result = []\nfor i in range(10**5): result = [result]", "",
      "maximum recursion depth exceeded while encoding a JSON object" },
    { "result = 'x' * (17 << 20)", "", "its JSON of 17825794 bytes is larger than 16777216 bytes" },
    { "result = 6\ndel result", "", "" },
    { "class D(dict):\n  def items(self):\n    print('late')\n    return [('k', 1)]\n"
      "result = D(a=1)",
      "{\"k\": 1}", "" },
    { "class E(dict):\n  def items(self): raise SystemExit(3)\nresult = E(a=1)", "",
      "SystemExit: 3" },
    { "import json\njson.encoder.c_make_encoder = json.dumps = None\nresult = [1]", "[1]", "" },
    { "result = '\\udc80'", "\"\\udc80\"", "" },
    { "result = 7\n1/0", "", "" },
};

TEST(the_captured_variable_is_told_as_json_if_this_run_bound_it) {
    bru_session *s = session_with(NULL);
    EACH(row, captures) {
        bru_result *r = run_with(s, row->src, NULL, 0, "result");
        bool right = strcmp(bru_result_text(r, BRU_TEXT_VALUE, NULL), row->value) == 0;
        if (!right ||
            strncmp(bru_result_text(r, BRU_TEXT_VALUE_ERROR, NULL), row->error, strlen(row->error)))
            fprintf(stderr, "in: %s\n%s\n", row->src, bru_result_text(r, BRU_TEXT_STDERR, NULL));
        CHECK(right);
        CHECK(strncmp(bru_result_text(r, BRU_TEXT_VALUE_ERROR, NULL), row->error,
                      strlen(row->error)) == 0);
        CHECK(*row->error || !*bru_result_text(r, BRU_TEXT_VALUE_ERROR, NULL));
        CHECK(bru_result_session_alive(r));
        bru_result_free(r);
    }
    bru_session_free(s);
}

TEST(code_that_does_not_compile_ends_as_such_when_a_variable_is_captured) {
    bru_session *s = session_with(NULL);
    bru_result *r = run_with(s, "result = (", NULL, 0, "result");
    CHECK_STR(bru_result_text(r, BRU_TEXT_TYPE, NULL), "SyntaxError");
    CHECK_STR(bru_result_text(r, BRU_TEXT_VALUE, NULL), "");
    bru_result_free(r);
    bru_session_free(s);
}

TEST(what_capturing_prints_is_not_lost) {
    bru_session *s = session_with(NULL);
    bru_result *r = run_with(s,
                             "class D(dict):\n  def items(self):\n    print('late', end='')\n"
                             "    return []\nresult = D(a=1)",
                             NULL, 0, "result");
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "late");
    CHECK_STR(bru_result_text(r, BRU_TEXT_VALUE, NULL), "{}");
    bru_result_free(r);
    bru_session_free(s);
}

TEST(a_stop_while_capturing_ends_the_run) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.timeout_ns = 100 * ms;
    o.limits.grace_ns = 1000 * ms;
    bru_session *s = session_with(&o);
    static const char *const sources[] = {
        "class D(dict):\n  def items(self):\n    while True: pass\nresult = D(a=1)",
        "import asyncio\nawait asyncio.sleep(0)\n"
        "class D(dict):\n  def items(self):\n    while True: pass\nresult = D(a=1)",
    };
    EACH(source, sources) {
        bru_result *r = run_with(s, *source, NULL, 0, "result");
        CHECK_EQ(bru_result_reason(r), BRU_REASON_TIMEOUT);
        CHECK_STR(bru_result_text(r, BRU_TEXT_VALUE, NULL), "");
        CHECK(bru_result_session_alive(r));
        bru_result_free(r);
    }
    bru_session_free(s);
}

/* ---- Artifacts ---------------------------------------------------------------------------------
 */

TEST(what_is_shown_is_in_the_result) {
    bru_session *s = session_with(NULL);
    bru_result *r =
        run(s, "import brumate\nbrumate.show('a')\nbrumate.show(b'\\0\\1', 'image/png')");
    const char *type;
    size_t len;
    CHECK_EQ(bru_result_artifact_count(r), 2);
    CHECK_STR(bru_result_artifact(r, 0, &type, &len), "a");
    CHECK_STR(type, "text/plain");
    const char *png = bru_result_artifact(r, 1, &type, &len);
    CHECK(len == 2 && png && memcmp(png, "\0\1", 2) == 0);
    CHECK_STR(type, "image/png");
    bru_result_free(r);
    r = run(s, "pass");
    CHECK_EQ(bru_result_artifact_count(r), 0);
    bru_result_free(r);
    bru_session_free(s);
}

TEST(artifacts_end_at_their_limit) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.artifact_bytes = 1000;
    bru_session *s = session_with(&o);
    bru_result *r = run(s, "import brumate\nbrumate.show('a' * 900)\n"
                           "try: brumate.show('b' * 900)\n"
                           "except ValueError as e: print('max_artifact_bytes' in str(e))");
    CHECK_STR(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "True\n");
    CHECK_EQ(bru_result_artifact_count(r), 1);
    bru_result_free(r);
    bru_session_free(s);
}

TEST(calls_survive_each_failed_allocation) {
    FAULT_SWEEP {
        bru_session *s = NULL;
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        o.functions = functions;
        o.function_count = 2;
        if (bru_session_new(the_image(), &o, &s, NULL) != BRU_OK) continue;
        static const char src[] = "import brumate\n"
                                  "try: brumate.show('x'); print(await echo('x'))\n"
                                  "except Exception: print('refused')";
        bru_event e = { 0 };
        bru_status st = bru_session_start(s, src, sizeof src - 1, NULL, NULL);
        while (!st && e.kind != BRU_EVENT_DONE) {
            st = bru_session_next(s, &e, NULL);
            if (!st && e.kind == BRU_EVENT_CALL) st = reply(s, e.id, "\x01");
            if (e.kind == BRU_EVENT_WAIT) break;
        }
        if (!st && e.kind == BRU_EVENT_DONE) bru_result_free(e.result);
        bru_session_free(s);
    }
}

TEST_MAIN
