#include "world.h"

static bru_snapshot *snapshot_of(bru_session *s) {
    bru_snapshot *snapshot = NULL;
    bru_error err;
    if (bru_session_snapshot(s, NULL, &snapshot, &err) != BRU_OK)
        fprintf(stderr, "%s\n", err.message);
    return snapshot;
}

static bru_session *resumed(const bru_snapshot *snapshot) {
    bru_session *s = NULL;
    bru_error err;
    if (bru_session_resume(the_image(), NULL, snapshot, &s, &err) != BRU_OK)
        fprintf(stderr, "%s\n", err.message);
    return s;
}

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

TEST_MAIN
