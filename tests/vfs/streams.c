/* Where output goes and input comes from. */
#include "world.h"

static vfs_err say(sink *s, unsigned stream, const char *text, size_t *n) {
    return sink_write(s, stream, text, strlen(text), n);
}

/* What is kept, in order: "o:abc e:d ". */
static const char *transcript(const sink *s) {
    static char text[256];
    sink_cursor c = { 0 };
    sink_piece p;
    size_t at = 0;
    text[0] = '\0';
    while (at < sizeof text && sink_next(s, &c, &p))
        at += (size_t)snprintf(text + at, sizeof text - at, "%c:%.*s ", p.stream ? 'e' : 'o',
                               (int)p.len, (const char *)p.bytes);
    return text;
}

TEST(both_streams_are_kept_in_the_order_of_writing) {
    sink *s = NULL;
    size_t n;
    buf b;
    buf_init(&b, 100);
    REQUIRE(!sink_new(NULL, &s, NULL));
    CHECK_STR(transcript(s), "");
    CHECK_EQ(say(s, SINK_ERR, "e1", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_OUT, "o1", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_OUT, "o2", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_OUT, "", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_ERR, "e2", &n), VFS_OK);
    CHECK_STR(transcript(s), "e:e1 o:o1o2 e:e2 ");
    CHECK_EQ(sink_copy(s, SINK_OUT, &b), BRU_OK);
    CHECK_EQ(b.len, 4);
    sink_counts counts;
    sink_get_counts(s, &counts);
    CHECK_EQ(counts.kept[SINK_ERR], 4);
    CHECK(sink_pending(s));
    sink_clear(s);
    CHECK_STR(transcript(s), "");
    CHECK(!sink_pending(s));
    buf_free(&b);
    sink_free(s);
}

TEST(pieces_of_any_length_are_told_apart) {
    sink *s = NULL;
    size_t n;
    static char bytes[70000];
    sink_options opt = { .limit = 1 << 20 };
    static const size_t lens[] = { 1, 127, 128, 129, 16383, 16384, 65000, 2, 1 };
    REQUIRE(!sink_new(&opt, &s, NULL));
    for (unsigned i = 0; i < 9; i++) CHECK_EQ(sink_write(s, i % 2, bytes, lens[i], &n), VFS_OK);
    sink_cursor c = { 0 };
    sink_piece p;
    for (unsigned i = 0; i < 9; i++) {
        CHECK(sink_next(s, &c, &p));
        CHECK_EQ(p.len, lens[i]);
        CHECK_EQ(p.stream, i % 2);
    }
    CHECK(!sink_next(s, &c, &p));
    sink_free(s);
}

TEST(beyond_the_limit_output_is_cut_or_the_guest_ends) {
    for (int stop = 0; stop < 2; stop++) {
        sink *s = NULL;
        size_t n;
        sink_options opt = { .limit = 10, .stop = stop };
        sink_counts counts;
        REQUIRE(!sink_new(&opt, &s, NULL));
        CHECK_EQ(say(s, SINK_OUT, "12345678", &n), VFS_OK);
        CHECK_EQ(say(s, SINK_ERR, "abcd", &n), stop ? VFS_STOP : VFS_OK);
        CHECK_EQ(n, stop ? 2 : 4);
        CHECK_EQ(say(s, SINK_OUT, "more", &n), stop ? VFS_STOP : VFS_OK);
        CHECK_STR(transcript(s), "o:12345678 e:ab ");
        sink_get_counts(s, &counts);
        CHECK_EQ(counts.kept[SINK_OUT], 8);
        CHECK_EQ(counts.cut[SINK_OUT], 4);
        CHECK_EQ(counts.cut[SINK_ERR], 2);
        sink_clear(s);
        CHECK_EQ(say(s, SINK_OUT, "next run", &n), VFS_OK);
        CHECK_STR(transcript(s), "o:next run ");
        sink_free(s);
    }
}

TEST(what_was_kept_can_be_taken_over_without_a_copy) {
    static const size_t lengths[] = { 0, 1, 255, 256, 300000 };
    sink_options o = { .limit = 300000 };
    sink *s = NULL;
    size_t n;
    REQUIRE(!sink_new(&o, &s, NULL));
    EACH(len, lengths) {
        char *text = calloc(*len + 1, 1);
        memset(text, 'x', *len);
        CHECK_EQ(sink_write(s, SINK_OUT, text, *len, &n), VFS_OK);
        char *taken = sink_release(s);
        CHECK_STR(taken, text);
        CHECK_STR(transcript(s), "");
        mem_free(taken);
        free(text);
        sink_clear(s);
    }
    CHECK_EQ(say(s, SINK_ERR, "again", &n), VFS_OK);
    CHECK_STR(transcript(s), "e:again ");
    sink_free(s);
}

TEST(a_streamed_write_waits_until_it_is_taken) {
    sink *s = NULL;
    size_t n;
    sink_options opt = { .mode = SINK_STREAM };
    REQUIRE(!sink_new(&opt, &s, NULL));
    CHECK_EQ(say(s, SINK_OUT, "one", &n), VFS_WAIT);
    CHECK_EQ(n, 3); /* taken by the sink all the same */
    CHECK_EQ(say(s, SINK_OUT, "", &n), VFS_WAIT);
    CHECK_EQ(say(s, SINK_ERR, "two", &n), VFS_WAIT);
    CHECK_EQ(n, 0);
    CHECK_STR(transcript(s), "o:one ");
    sink_take(s);
    CHECK_EQ(say(s, SINK_OUT, "", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_ERR, "two", &n), VFS_WAIT);
    CHECK_STR(transcript(s), "e:two ");
    sink_take(s);
    static char big[200000];
    size_t done = 0;
    while (done < sizeof big) { /* in parts that the host can afford */
        CHECK_EQ(sink_write(s, SINK_OUT, big + done, sizeof big - done, &n), VFS_WAIT);
        CHECK(n > 0 && n <= SINK_PENDING_MAX);
        done += n;
        sink_take(s);
    }
    sink_free(s);
}

TEST(small_streamed_writes_merge_up_to_what_was_allowed) {
    sink *s = NULL;
    size_t n;
    sink_options opt = { .mode = SINK_STREAM, .merge = 10 };
    REQUIRE(!sink_new(&opt, &s, NULL));
    CHECK_EQ(say(s, SINK_OUT, "12345", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_ERR, "abcde", &n), VFS_OK);
    CHECK_EQ(say(s, SINK_OUT, "x", &n), VFS_WAIT);
    CHECK_EQ(n, 1);
    CHECK_STR(transcript(s), "o:12345 e:abcde o:x ");
    sink_take(s);
    opt.mode = SINK_COLLECT;
    CHECK_EQ(say(s, SINK_OUT, "kept", &n), VFS_OK);
    sink_set(s, &opt);
    CHECK_STR(transcript(s), "o:kept ");
    sink_free(s);
}

TEST(input_is_at_its_end_or_given_or_asked_for) {
    source *s = NULL;
    char text[8] = "";
    size_t n = 9;
    uint64_t bytes;
    bool eof;
    REQUIRE(!source_new(false, &s, NULL));
    CHECK_EQ(source_read(s, text, 8, &n), VFS_OK);
    CHECK_EQ(n, 0);
    CHECK_EQ(source_ready(s, &bytes, &eof), VFS_OK);
    CHECK(eof && bytes == 0);
    CHECK_EQ(source_give(s, "abc", 3, NULL), BRU_OK);
    CHECK_EQ(source_read(s, text, 2, &n), VFS_OK);
    CHECK_EQ(n, 2);
    CHECK_EQ(source_give(s, "def", 3, NULL), BRU_OK);
    CHECK_EQ(source_ready(s, &bytes, &eof), VFS_OK);
    CHECK_EQ(bytes, 4);
    CHECK_EQ(source_read(s, text, 8, &n), VFS_OK);
    CHECK(n == 4 && memcmp(text, "cdef", 4) == 0);
    source_set(s, true);
    CHECK_EQ(source_read(s, text, 8, &n), VFS_WAIT);
    CHECK(source_wanted(s, &n) && n == 8);
    CHECK_EQ(source_ready(s, &bytes, &eof), VFS_WAIT);
    CHECK_EQ(source_give(s, "x", 1, NULL), BRU_OK);
    CHECK(!source_wanted(s, &n));
    source_end(s);
    CHECK_EQ(source_read(s, text, 8, &n), VFS_OK);
    CHECK_EQ(n, 1);
    CHECK_EQ(source_read(s, text, 8, &n), VFS_OK);
    CHECK_EQ(n, 0);
    source_clear(s);
    CHECK_EQ(source_read(s, text, 8, &n), VFS_WAIT);
    static char much[16 << 20];
    CHECK_EQ(source_give(s, much, sizeof much, NULL), BRU_OK);
    CHECK_EQ(source_give(s, "x", 1, NULL), BRU_ELIMIT);
    source_free(s);
}

TEST(streams_survive_each_failed_allocation) {
    FAULT_SWEEP {
        sink *s = NULL;
        source *in = NULL;
        size_t n;
        if (!sink_new(NULL, &s, NULL))
            for (unsigned i = 0; i < 2000; i++) {
                vfs_err e = say(s, i % 2, "some text", &n);
                CHECK(e == VFS_OK ? n == 9 : e == VFS_ENOMEM && n == 0);
            }
        if (s) transcript(s);
        if (!source_new(true, &in, NULL)) source_give(in, "x", 1, NULL);
        sink_free(s);
        source_free(in);
    }
}

TEST_MAIN
