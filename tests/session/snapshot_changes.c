/* Snapshots that hold only changes, and signed ones. */
#include "asleep.h"

#include "base/fault.h"
#include "image/snapshot.h"

#include <unistd.h>

static bru_snapshot *changes_since(bru_session *s, const bru_snapshot *base) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *out = NULL;
    bru_error err = { .message = "" };
    o.base = base;
    if (bru_session_snapshot(s, &o, &out, &err)) fprintf(stderr, "%s\n", err.message);
    return out;
}

static bru_snapshot *joined(const bru_snapshot *base, const bru_snapshot *changes) {
    bru_snapshot *out = NULL;
    bru_error err = { .message = "" };
    if (bru_snapshot_join(base, changes, NULL, &out, &err)) fprintf(stderr, "%s\n", err.message);
    return out;
}

static size_t size_of(const bru_snapshot *snapshot) {
    size_t len;
    bru_snapshot_bytes(snapshot, &len);
    return len;
}

/* ---- Changes --------------------------------------------------------------------------------- */

/* What may become of pages between two snapshots. */
static const struct {
    const char *before, *between, *look, *want;
} steps[] = {
    { "x = 1", "x += 1", "print(x)", "2\n" },
    { "x = 1", "pass", "print(x)", "1\n" },
    { "x = bytearray(b'ab' * 500000)", "x[12345:12350] = b'QQQQQ'", "print(x[12344:12351], len(x))",
      "bytearray(b'aQQQQQa') 1000000\n" },
    { "x = bytearray(b'ab' * 500000)", "x[:] = bytes(1000000)", "print(x == bytes(1000000))",
      "True\n" },
    { "x = bytearray(1000000)", "x[:] = b'y' * 1000000", "print(x == b'y' * 1000000)", "True\n" },
    { "x = 1", "x = b'z' * 30000000", "print(len(x), x.count(b'z'))", "30000000 30000000\n" },
    { "x = b'z' * 30000000", "del x; y = 1", "print(y, 'x' in globals())", "1 False\n" },
    { "open('/data/f', 'w').write('one')", "x = 5", "print(open('/data/f').read(), x)", "one 5\n" },
    { "open('/data/f', 'w').write('one')", "import os; os.remove('/data/f')",
      "print(os.listdir('/data'))", "[]\n" },
    { "pass", "open('/data/f', 'w').write('new' * 100000)",
      "print(open('/data/f').read() == 'new' * 100000)", "True\n" },
    { "open('/data/f', 'w').write('one')", "open('/data/f', 'a').write('two')",
      "print(open('/data/f').read())", "onetwo\n" },
};

TEST(a_base_and_the_changes_since_make_the_whole) {
    EACH(row, steps) {
        bru_session *s = session_with(NULL);
        bru_result_free(run(s, row->before));
        bru_snapshot *base = snapshot_of(s);
        bru_result_free(run(s, row->between));
        bru_snapshot *changes = changes_since(s, base), *whole = NULL;
        REQUIRE(base && changes);
        whole = joined(base, changes);
        REQUIRE(whole);
        bru_session *other = resumed(whole);
        REQUIRE(other);
        CHECK_RUN(other, row->look, row->want);
        bru_session_free(other);
        bru_session_free(s);
        bru_snapshot_free(base);
        bru_snapshot_free(changes);
        bru_snapshot_free(whole);
    }
}

TEST(memory_of_the_whole_is_that_of_the_session_to_the_bit) {
    static const bru_deterministic fixed = { { 1 }, 0 };
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.deterministic = &fixed;
    bru_session *s = session_with(&o);
    CHECK_RUN(s, "x = bytearray(b'ab' * 100000); y = {i: str(i) for i in range(9999)}", "");
    bru_snapshot *base = snapshot_of(s);
    CHECK_RUN(s, "x[5000:9000] = bytes(4000); del y; z = [object() for i in range(999)]", "");
    bru_snapshot *direct = snapshot_of(s), *changes = changes_since(s, base);
    REQUIRE(base && direct && changes);
    bru_snapshot *whole = joined(base, changes);
    REQUIRE(whole);
    bru_session *other = resumed(whole);
    REQUIRE(other);
    bru_snapshot *again = snapshot_of(other);
    REQUIRE(again);
    bru_snapshot_info a, b;
    bru_snapshot_get_info(direct, &a);
    bru_snapshot_get_info(again, &b);
    CHECK_STR(a.id, b.id);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot *all[] = { base, direct, changes, whole, again };
    EACH(one, all) bru_snapshot_free(*one);
}

TEST(a_small_change_is_some_kilobytes) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = 1; y = list(range(100000)); open('/data/f', 'w').write('much' * 99999)", "");
    bru_snapshot *base = snapshot_of(s);
    CHECK_RUN(s, "x += 1", "");
    bru_snapshot *changes = changes_since(s, base);
    REQUIRE(base && changes);
    CHECK(size_of(changes) < 16384);
    CHECK(size_of(changes) < size_of(base) / 4);
    bru_snapshot_free(base);
    bru_snapshot_free(changes);
    bru_session_free(s);
}

TEST(a_small_change_among_much_data_in_files_is_some_kilobytes) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s,
              "import os\nfor i in range(10): open(f'/data/{i}', 'wb').write(os.urandom(2000000))",
              "");
    bru_snapshot *base = snapshot_of(s);
    CHECK_RUN(
        s,
        "open('/data/new', 'w').write('n'); f = open('/data/3', 'r+b'); f.seek(999999)\n"
        "f.write(b'xyz'); f.close(); open('/data/9', 'ab').write(b'more'); os.remove('/data/0')",
        "");
    bru_snapshot *changes = changes_since(s, base);
    REQUIRE(base && changes);
    CHECK(size_of(base) > 20000000 && size_of(changes) < 100000);
    bru_snapshot *whole = joined(base, changes);
    REQUIRE(whole);
    bru_session *other = resumed(whole);
    REQUIRE(other);
    bru_result *r = run(s, "import zlib; print([(n, zlib.crc32(open('/data/' + n, 'rb').read()))"
                           " for n in sorted(os.listdir('/data'))])");
    CHECK_RUN(other,
              "import zlib; print([(n, zlib.crc32(open('/data/' + n, 'rb').read()))"
              " for n in sorted(os.listdir('/data'))])",
              bru_result_text(r, BRU_TEXT_OUTPUT, NULL));
    bru_result_free(r);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot *all[] = { base, changes, whole };
    EACH(one, all) bru_snapshot_free(*one);
}

TEST(changes_follow_upon_changes) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = [0]", "");
    bru_snapshot *whole = snapshot_of(s);
    for (int i = 1; i <= 5 && whole; i++) {
        CHECK_RUN(s, "x.append(len(x)); open(f'/data/{len(x)}', 'w').write('f' * len(x))", "");
        bru_snapshot *changes = changes_since(s, whole);
        REQUIRE(changes);
        bru_snapshot_info info;
        bru_snapshot_get_info(changes, &info);
        char id[40];
        strcpy(id, info.id);
        /* The other side has the bytes of the changes only. */
        size_t len;
        const void *bytes = bru_snapshot_bytes(changes, &len);
        bru_snapshot *opened = NULL, *next = NULL;
        CHECK_EQ(bru_snapshot_open(bytes, len, &opened, NULL), BRU_OK);
        next = joined(whole, opened);
        REQUIRE(next);
        bru_snapshot_get_info(next, &info);
        CHECK_STR(info.id, id);
        CHECK_STR(info.base_id, "");
        bru_snapshot_free(opened);
        bru_snapshot_free(changes);
        bru_snapshot_free(whole);
        whole = next;
    }
    bru_session *other = resumed(whole);
    REQUIRE(other);
    CHECK_RUN(other, "import os; print(x, sorted(os.listdir('/data')))",
              "[0, 1, 2, 3, 4, 5] ['2', '3', '4', '5', '6']\n");
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(whole);
}

TEST(calls_that_wait_go_along_with_changes) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o), *other = NULL;
    CHECK_RUN(s, "x = 5", "");
    bru_snapshot *base = snapshot_of(s);
    REQUIRE(start(s, "print(x, await f(1))"));
    bru_snapshot *changes = changes_since(s, base), *whole = joined(base, changes);
    bru_snapshot_call c;
    REQUIRE(whole);
    CHECK_EQ(bru_session_resume(the_image(), &o, whole, &other, NULL), BRU_OK);
    REQUIRE(other);
    CHECK_EQ(bru_snapshot_get_call(changes, 0, &c, NULL), BRU_OK);
    CHECK_EQ(reply_number(other, c.id, 300), BRU_OK);
    CHECK_FINISH(other, "5 300\n");
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot *all[] = { base, changes, whole };
    EACH(one, all) bru_snapshot_free(*one);
}

TEST(what_does_not_belong_together_is_refused) {
    bru_session *s = session_with(NULL);
    bru_snapshot *base = snapshot_of(s), *out = NULL;
    CHECK_RUN(s, "x = 1", "");
    bru_snapshot *later = snapshot_of(s), *changes = changes_since(s, base);
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_error err;
    REQUIRE(base && later && changes);
    CHECK_EQ(bru_snapshot_join(later, changes, NULL, &out, &err), BRU_EMISMATCH);
    CHECK(out == NULL && strstr(err.message, "since"));
    CHECK_EQ(bru_snapshot_join(base, later, NULL, &out, &err), BRU_EINVAL);
    CHECK_EQ(bru_snapshot_join(changes, changes, NULL, &out, &err), BRU_ESTATE);
    CHECK_EQ(bru_session_restore(s, changes, &err), BRU_ESTATE);
    CHECK(strstr(err.message, "join"));
    o.base = changes;
    CHECK_EQ(bru_session_snapshot(s, &o, &out, &err), BRU_ESTATE);
    CHECK_RUN(s, "print(x)", "1\n");
    bru_session_free(s);
    bru_snapshot *all[] = { base, later, changes };
    EACH(one, all) bru_snapshot_free(*one);
}

/* Puts `changes` together again with one entry of its map made up, its sums right. */
static bru_snapshot *with_entry(const bru_snapshot *changes, size_t at, snapshot_page entry) {
    snapshot_header h;
    size_t len;
    const uint8_t *bytes = bru_snapshot_bytes(changes, &len);
    snapshot_writer w;
    bru_snapshot *out = NULL;
    CHECK_EQ(snapshot_check(bytes, len, &h, NULL), BRU_OK);
    CHECK_EQ(snapshot_begin(&w, 1, NULL), BRU_OK);
    snapshot_header made = h;
    for (int i = 0; i < SNAPSHOT_FILES; i++) {
        uint8_t *part;
        CHECK_EQ(snapshot_unpack(bytes, &h, (enum snapshot_part)i, &part, NULL), BRU_OK);
        if (i == SNAPSHOT_MAP) memcpy(part + at * sizeof entry, &entry, sizeof entry);
        CHECK_EQ(snapshot_part_begin(&w, (enum snapshot_part)i, h.parts[i].raw, NULL), BRU_OK);
        CHECK_EQ(snapshot_put(&w, part, (size_t)h.parts[i].raw, NULL), BRU_OK);
        mem_free(part);
    }
    memcpy(made.parts, w.header.parts, sizeof made.parts);
    w.header = made;
    CHECK_EQ(snapshot_finish(&w, (snapshot_key){ 0 }, NULL), BRU_OK);
    (void)!bru_snapshot_open(w.out.data, w.out.len, &out, NULL);
    snapshot_writer_free(&w);
    return out;
}

TEST(changes_that_were_made_up_are_refused) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = bytearray(300000)", "");
    bru_snapshot *base = snapshot_of(s), *out = NULL;
    CHECK_RUN(s, "x[:] = b'x' * 300000", "");
    bru_snapshot *changes = changes_since(s, base);
    REQUIRE(base && changes);
    snapshot_header h;
    size_t len;
    const uint8_t *bytes = bru_snapshot_bytes(changes, &len);
    CHECK_EQ(snapshot_check(bytes, len, &h, NULL), BRU_OK);
    uint8_t *part;
    REQUIRE(snapshot_unpack(bytes, &h, SNAPSHOT_MAP, &part, NULL) == BRU_OK);
    snapshot_page first;
    memcpy(&first, part, sizeof first);
    mem_free(part);
    /* A page over one that the base has not: page 0 is never written. */
    bru_snapshot *made = with_entry(changes, 0, (snapshot_page){ 0, SNAPSHOT_OVER });
    REQUIRE(made);
    CHECK_EQ(bru_snapshot_join(base, made, NULL, &out, NULL), BRU_EFORMAT);
    CHECK(out == NULL);
    bru_snapshot_free(made);
    /* Both forms at once, and a stored page that is not there. */
    const uint32_t wrong[] = { SNAPSHOT_OVER | SNAPSHOT_DELTA, SNAPSHOT_OVER | 99999, 99999 };
    EACH(source, wrong) {
        made = with_entry(changes, 0, (snapshot_page){ first.page, *source });
        CHECK(made == NULL);
        bru_snapshot_free(made);
    }
    bru_session_free(s);
    bru_snapshot_free(base);
    bru_snapshot_free(changes);
}

TEST(changes_survive_each_failed_allocation) {
    bru_session *s = session_with(NULL);
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *base = snapshot_of(s);
    CHECK_RUN(s, "x = 1; open('/data/f', 'w').write('f')", "");
    REQUIRE(base);
    o.base = base;
    o.key = "a key of 16 bytes";
    o.key_len = 17;
    FAULT_SWEEP {
        bru_snapshot *changes = NULL, *whole = NULL;
        bru_status st = bru_session_snapshot(s, &o, &changes, NULL);
        CHECK((st == BRU_OK) == (changes != NULL));
        if (!st) st = bru_snapshot_join(base, changes, NULL, &whole, NULL);
        CHECK((st == BRU_OK) == (whole != NULL));
        CHECK(fault_came() || !st);
        bru_snapshot_free(changes);
        bru_snapshot_free(whole);
    }
    bru_snapshot_free(base);
    bru_session_free(s);
}

/* ---- Signed ---------------------------------------------------------------------------------- */

static const char key[] = "sixteen bytes and some", other_key[] = "another key of some bytes";

static bru_snapshot *signed_with(bru_session *s, const void *bytes, size_t len) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *out = NULL;
    o.key = bytes;
    o.key_len = len;
    CHECK_EQ(bru_session_snapshot(s, &o, &out, NULL), BRU_OK);
    return out;
}

static bru_status open_with(const bru_snapshot *snapshot, const void *k, size_t k_len,
                            bru_error *err) {
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    bru_snapshot *out = NULL;
    size_t len;
    const void *bytes = bru_snapshot_bytes(snapshot, &len);
    o.key = k;
    o.key_len = k_len;
    bru_status st = bru_snapshot_open_with(bytes, len, &o, &out, err);
    CHECK((st == BRU_OK) == (out != NULL));
    bru_snapshot_free(out);
    return st;
}

TEST(a_snapshot_opens_with_the_key_it_was_signed_with_and_no_other) {
    static char long_key[1000] = "of a thousand bytes";
    bru_session *s = session_with(NULL);
    bru_snapshot *plain = snapshot_of(s), *mine = signed_with(s, key, sizeof key);
    bru_snapshot *with_long = signed_with(s, long_key, sizeof long_key);
    REQUIRE(plain && mine && with_long);
    const struct {
        const bru_snapshot *snapshot;
        const void *key;
        size_t len;
        bru_status want;
        const char *says;
    } rows[] = {
        { plain, NULL, 0, BRU_OK, "" },
        { plain, key, sizeof key, BRU_EPERM, "not signed" },
        { mine, NULL, 0, BRU_EPERM, "give the key" },
        { mine, key, sizeof key, BRU_OK, "" },
        { mine, key, sizeof key - 1, BRU_EPERM, "another key" },
        { mine, other_key, sizeof other_key, BRU_EPERM, "another key" },
        { mine, key, 15, BRU_EINVAL, "too short" },
        { mine, NULL, 16, BRU_EINVAL, "too short" },
        { with_long, long_key, sizeof long_key, BRU_OK, "" },
        { with_long, long_key, 64, BRU_EPERM, "another key" },
    };
    EACH(row, rows) {
        bru_error err = { .message = "" };
        CHECK_EQ(open_with(row->snapshot, row->key, row->len, &err), row->want);
        CHECK(strstr(err.message, row->says) != NULL);
    }
    bru_snapshot_info info;
    bru_snapshot_get_info(mine, &info);
    CHECK_EQ(info.is_signed, 1);
    bru_session *other = resumed(mine);
    CHECK(other != NULL);
    bru_session_free(other);
    bru_session_free(s);
    bru_snapshot_free(plain);
    bru_snapshot_free(mine);
    bru_snapshot_free(with_long);
}

TEST(a_signed_snapshot_that_was_changed_is_refused_though_its_sums_are_right) {
    bru_session *s = session_with(NULL);
    bru_snapshot *mine = signed_with(s, key, sizeof key), *out = NULL;
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    size_t len;
    const void *bytes = bru_snapshot_bytes(mine, &len);
    uint8_t *copy = malloc(len);
    o.key = key;
    o.key_len = sizeof key;
    for (size_t at = sizeof(snapshot_header); at < len; at += at + 50 < len ? 997 : 7) {
        memcpy(copy, bytes, len);
        copy[at] ^= 4;
        snapshot_seal(copy, len);
        CHECK_EQ(bru_snapshot_open_with(copy, len, &o, &out, NULL), BRU_EPERM);
    }
    for (size_t cut = 1; cut < 100; cut += 9) {
        memcpy(copy, bytes, len);
        snapshot_seal(copy, len - cut);
        CHECK_EQ(bru_snapshot_open_with(copy, len - cut, &o, &out, NULL), BRU_EPERM);
    }
    free(copy);
    bru_session_free(s);
    bru_snapshot_free(mine);
}

TEST(files_keep_signatures_and_unsynced_ones_are_whole_too) {
    bru_session *s = session_with(NULL);
    bru_snapshot *mine = signed_with(s, key, sizeof key), *out = NULL;
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    char path[] = "/tmp/asleep.XXXXXX";
    close(mkstemp(path));
    CHECK_EQ(bru_snapshot_save_with(mine, path, BRU_SAVE_UNSYNCED, NULL), BRU_OK);
    CHECK_EQ(bru_snapshot_save_with(mine, path, 2, NULL), BRU_EINVAL);
    CHECK_EQ(bru_snapshot_load(path, &out, NULL), BRU_EPERM);
    o.key = key;
    o.key_len = sizeof key;
    CHECK_EQ(bru_snapshot_load_with(path, &o, &out, NULL), BRU_OK);
    REQUIRE(out);
    CHECK_EQ(size_of(out), size_of(mine));
    unlink(path);
    bru_session_free(s);
    bru_snapshot_free(mine);
    bru_snapshot_free(out);
}

TEST_MAIN
