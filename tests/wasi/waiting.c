/* Calls that wait: they park, say what for, and go on when they are made again. */
#include "guest.h"

#define SUB 48u

static void sub_clock(guest *g, unsigned i, uint64_t user, uint32_t clock, uint64_t timeout,
                      bool absolute) {
    uint32_t at = DATA + i * SUB;
    memset(g->memory + at, 0, SUB);
    set64(g, at, user);
    set32(g, at + 16, clock);
    set64(g, at + 24, timeout);
    g->memory[at + 40] = absolute;
}

static void sub_fd(guest *g, unsigned i, uint64_t user, uint8_t tag, uint32_t fd) {
    uint32_t at = DATA + i * SUB;
    memset(g->memory + at, 0, SUB);
    set64(g, at, user);
    g->memory[at + 8] = tag;
    set32(g, at + 16, fd);
}

static int poll_all(guest *g, unsigned count) {
    return call(g, "poll_oneoff", DATA, BIG, count, RESULT);
}

/* Event number i: "user error type". */
static bool event_is(guest *g, unsigned i, uint64_t user, int error, int type) {
    uint32_t at = BIG + i * 32;
    return get64(g, at) == user && (get32(g, at + 8) & 0xFFFF) == (uint32_t)error &&
           g->memory[at + 10] == type;
}

TEST(a_sleep_keeps_its_deadline_however_often_it_is_woken) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    sub_clock(&g, 0, 7, 1, 1000, false);
    CHECK_EQ(poll_all(&g, 1), PARKED);
    CHECK_EQ(wasi_wait(g.w).reasons, WASI_WAIT_TIME);
    CHECK_EQ(wasi_wait(g.w).deadline, 6000);
    g.mono = 5999;
    CHECK_EQ(poll_all(&g, 1), PARKED);
    CHECK_EQ(wasi_wait(g.w).deadline, 6000);
    g.mono = 6000;
    CHECK_EQ(poll_all(&g, 1), OK);
    CHECK_EQ(get32(&g, RESULT), 1);
    CHECK(event_is(&g, 0, 7, 0, 0));
    CHECK_EQ(wasi_wait(g.w).reasons, 0);
    CHECK_EQ(poll_all(&g, 1), PARKED); /* a new call, a new deadline */
    CHECK_EQ(wasi_wait(g.w).deadline, 7000);
    guest_close(&g);
}

TEST(deadlines_of_every_clock_are_reckoned_on_the_monotonic_one) {
    static const struct {
        uint32_t clock;
        uint64_t timeout;
        bool absolute;
        int want;
        uint64_t deadline;
    } rows[] = {
        { 0, 100, false, PARKED, 5100 },
        { 0, 1000100, true, PARKED, 5100 },
        { 0, 999999, true, OK, 0 },
        { 0, 1000000, true, OK, 0 },
        { 1, 5500, true, PARKED, 5500 },
        { 1, 5000, true, OK, 0 },
        { 1, 0, false, OK, 0 },
        { 1, UINT64_MAX, false, PARKED, UINT64_MAX },
        { 1, UINT64_MAX - 5000, false, PARKED, UINT64_MAX },
        { 0, UINT64_MAX, true, PARKED, UINT64_MAX - 1000000 + 5000 },
    };
    EACH(r, rows) {
        guest g;
        REQUIRE(!guest_open(&g, NULL, false));
        sub_clock(&g, 0, 1, r->clock, r->timeout, r->absolute);
        CHECK_EQ(poll_all(&g, 1), r->want);
        if (r->want == PARKED) CHECK_EQ(wasi_wait(g.w).deadline, r->deadline);
        guest_close(&g);
    }
}

TEST(bad_subscriptions_are_events_with_errors_or_refused) {
    guest g;
    REQUIRE(!guest_open(&g, NULL, false));
    sub_clock(&g, 0, 1, 9, 100, false);
    sub_clock(&g, 1, 2, 2, 100, false);
    sub_fd(&g, 2, 3, 1, 99);
    sub_clock(&g, 3, 4, 1, 1000, false);
    CHECK_EQ(poll_all(&g, 4), OK);
    CHECK_EQ(get32(&g, RESULT), 3);
    CHECK(event_is(&g, 0, 1, EINVAL_, 0));
    CHECK(event_is(&g, 1, 2, ENOTSUP_, 0));
    CHECK(event_is(&g, 2, 3, EBADF_, 1));
    sub_fd(&g, 0, 1, 3, 1);
    CHECK_EQ(poll_all(&g, 1), EINVAL_);
    CHECK_EQ(poll_all(&g, 0), EINVAL_);
    g.memory[DATA + 8] = 0;
    g.memory[DATA + 40] = 2;
    CHECK_EQ(poll_all(&g, 1), OK);
    CHECK(event_is(&g, 0, 1, EINVAL_, 0));
    guest_close(&g);
}

TEST(readiness_of_files_and_streams_is_told) {
    guest g;
    uint32_t fd = 0;
    REQUIRE(!guest_open(&g, NULL, true));
    CHECK_EQ(vfs_put(g.files, "/data/f", "12345", 5, NULL), BRU_OK);
    CHECK_EQ(open_path(&g, "data/f", 0, ALL_RIGHTS, &fd), OK);
    CHECK_STR(read_text(&g, fd, 2), "12");
    sub_fd(&g, 0, 1, 1, fd);
    sub_fd(&g, 1, 2, 2, fd);
    sub_fd(&g, 2, 3, 1, 0);
    sub_fd(&g, 3, 4, 2, 1);
    CHECK_EQ(poll_all(&g, 4), OK);
    CHECK_EQ(get32(&g, RESULT), 3);
    CHECK(event_is(&g, 0, 1, 0, 1) && get64(&g, BIG + 16) == 3);
    CHECK(event_is(&g, 1, 2, 0, 2));
    CHECK(event_is(&g, 2, 4, 0, 2));
    sub_fd(&g, 0, 9, 1, 0);
    sub_clock(&g, 1, 8, 1, 500, false);
    CHECK_EQ(poll_all(&g, 2), PARKED);
    CHECK_EQ(wasi_wait(g.w).reasons, WASI_WAIT_INPUT | WASI_WAIT_TIME);
    CHECK(source_wanted(g.in, NULL));
    CHECK_EQ(source_give(g.in, "abc", 3, NULL), BRU_OK);
    CHECK_EQ(poll_all(&g, 2), OK);
    CHECK(event_is(&g, 0, 9, 0, 1) && get64(&g, BIG + 16) == 3);
    CHECK_STR(read_text(&g, 0, 9), "abc");
    source_end(g.in);
    CHECK_EQ(poll_all(&g, 2), OK);
    CHECK_EQ(get32(&g, BIG + 24), 1); /* hung up */
    guest_close(&g);
}

TEST(a_read_waits_for_input_and_gets_it) {
    guest g;
    size_t wanted = 0;
    REQUIRE(!guest_open(&g, NULL, true));
    set_iov(&g, 0, BIG, 10);
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), PARKED);
    CHECK_EQ(wasi_wait(g.w).reasons, WASI_WAIT_INPUT);
    CHECK_EQ(wasi_wait(g.w).deadline, UINT64_MAX);
    CHECK(source_wanted(g.in, &wanted) && wanted == 10);
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), PARKED); /* nothing came */
    CHECK_EQ(source_give(g.in, "line\n", 5, NULL), BRU_OK);
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 5);
    CHECK_EQ(call(&g, "fd_fdstat_set_flags", 0, 4), OK); /* nonblock */
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), EAGAIN_);
    CHECK_EQ(wasi_wait(g.w).reasons, 0);
    guest_close(&g);
}

/* Takes all output; the bytes are appended to `text`. */
static void take(guest *g, char *text) {
    sink_cursor c = { 0 };
    sink_piece p;
    while (sink_next(g->out, &c, &p)) strncat(text, (const char *)p.bytes, p.len);
    sink_take(g->out);
}

TEST(a_streamed_write_parks_until_taken_and_is_not_made_twice) {
    guest g;
    sink_options opt = { .mode = SINK_STREAM };
    static char text[300000];
    REQUIRE(!guest_open(&g, &opt, false));
    CHECK_EQ(write_text(&g, 1, "hello"), PARKED);
    CHECK_EQ(wasi_wait(g.w).reasons, WASI_WAIT_OUTPUT);
    CHECK_EQ(call(&g, "fd_write", 1, IOVS, 1, RESULT), PARKED);
    take(&g, text);
    CHECK_EQ(call(&g, "fd_write", 1, IOVS, 1, RESULT), OK);
    CHECK_EQ(get32(&g, RESULT), 5);
    CHECK_STR(text, "hello");
    CHECK(!sink_pending(g.out));
    text[0] = '\0';
    /* Three buffers, 150,000 bytes: more than the host lets wait at a time. */
    memset(g.memory + BIG, 'a', 150000);
    set_iov(&g, 0, BIG, 70000);
    set_iov(&g, 1, BIG, 0);
    set_iov(&g, 2, BIG + 70000, 80000);
    int e = PARKED, times = 0;
    while (e == PARKED && times++ < 10) {
        e = call(&g, "fd_write", 2, IOVS, 3, RESULT);
        take(&g, text);
    }
    CHECK_EQ(e, OK);
    CHECK_EQ(get32(&g, RESULT), 150000);
    CHECK_EQ(strlen(text), 150000);
    CHECK_EQ(times, 5);
    guest_close(&g);
}

TEST(an_interrupted_wait_ends_once) {
    guest g;
    sink_options opt = { .mode = SINK_STREAM };
    REQUIRE(!guest_open(&g, &opt, true));
    wasi_interrupt(g.w); /* nothing waits: without effect */
    sub_clock(&g, 0, 1, 1, 1000, false);
    CHECK_EQ(poll_all(&g, 1), PARKED);
    wasi_interrupt(g.w);
    CHECK_EQ(poll_all(&g, 1), OK); /* as if its time had come */
    CHECK(event_is(&g, 0, 1, OK, 0));
    sub_fd(&g, 0, 1, 1, 0);
    CHECK_EQ(poll_all(&g, 1), PARKED);
    wasi_interrupt(g.w);
    CHECK_EQ(poll_all(&g, 1), EINTR_);
    CHECK_EQ(poll_all(&g, 1), PARKED);
    wasi_forget_wait(g.w);
    CHECK_EQ(wasi_wait(g.w).reasons, 0);
    set_iov(&g, 0, BIG, 10);
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), PARKED);
    wasi_interrupt(g.w);
    CHECK_EQ(call(&g, "fd_read", 0, IOVS, 1, RESULT), EINTR_);
    CHECK_EQ(write_text(&g, 1, "kept"), PARKED);
    wasi_interrupt(g.w);
    CHECK_EQ(call(&g, "fd_write", 1, IOVS, 1, RESULT), OK); /* it was written, after all */
    CHECK_EQ(get32(&g, RESULT), 4);
    /* Another call than the parked one: the wait is over, nothing of it is left. */
    sink_take(g.out);
    CHECK_EQ(write_text(&g, 1, "one"), PARKED);
    CHECK_EQ(call(&g, "sched_yield", 0), OK);
    CHECK_EQ(wasi_wait(g.w).reasons, 0);
    sink_take(g.out);
    CHECK_EQ(write_text(&g, 1, "three"), PARKED);
    CHECK_EQ(sink_pending(g.out), true);
    guest_close(&g);
}

TEST(output_beyond_its_limit_ends_the_guest_if_so_wished) {
    guest g;
    sink_options opt = { .limit = 5, .stop = true };
    REQUIRE(!guest_open(&g, &opt, false));
    CHECK_EQ(write_text(&g, 1, "12345"), OK);
    CHECK_EQ(write_text(&g, 2, "6"), STOPPED);
    CHECK_EQ(wasi_stop(g.w).cause, WASI_STOP_OUTPUT);
    CHECK_STR(output_of(&g, SINK_OUT), "12345");
    guest_close(&g);
}

/* ---- A file system served by the embedder: every call may have to wait ---- */

typedef struct served {
    vfs_fs fs;
    bool ready; /* the next call is answered, the ones after it wait again */
    unsigned asked;
} served;

static vfs_err served_ask(vfs_fs *fs) {
    served *s = (served *)fs;
    s->asked++;
    if (!s->ready) return VFS_WAIT;
    s->ready = false;
    return VFS_OK;
}
static void served_destroy(vfs_fs *fs) {
    (void)fs;
}
static vfs_node *served_root(vfs_fs *fs) {
    return (vfs_node *)fs;
}
static vfs_err served_lookup(vfs_fs *fs, vfs_node *dir, const char *name, size_t len,
                             vfs_node **out, vfs_kind *kind) {
    (void)dir;
    (void)name;
    vfs_err e = len == 1 ? VFS_OK : VFS_ENOENT;
    if (!e) *out = (vfs_node *)((char *)fs + 1);
    if (!e) *kind = VFS_REGULAR;
    return e;
}
static vfs_err served_stat(vfs_fs *fs, vfs_node *n, vfs_stat *out) {
    *out = (vfs_stat){ .kind = (vfs_node *)fs == n ? VFS_DIR : VFS_REGULAR };
    return VFS_OK;
}
static vfs_err served_open(vfs_fs *fs, vfs_node *n, unsigned flags, void **file) {
    (void)n;
    (void)flags;
    vfs_err e = served_ask(fs);
    if (!e) *file = fs;
    return e;
}
static void served_close(vfs_fs *fs, void *file) {
    (void)fs;
    (void)file;
}
static vfs_err served_read(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n) {
    (void)file;
    (void)at;
    vfs_err e = served_ask(fs);
    if (!e && len) memset(out, 's', 1);
    if (!e) *n = len ? 1 : 0;
    return e;
}

TEST(a_file_system_of_the_embedder_may_let_the_guest_wait) {
    static const vfs_ops ops = { .name = "served",
                                 .destroy = served_destroy,
                                 .root = served_root,
                                 .lookup = served_lookup,
                                 .stat = served_stat,
                                 .open = served_open,
                                 .close = served_close,
                                 .read = served_read };
    guest g;
    served s = { .ready = false };
    uint32_t fd = 0;
    fs_init(&s.fs, &ops);
    REQUIRE(!guest_open(&g, NULL, false));
    CHECK_EQ(vfs_mount(g.files, "/served", &s.fs, NULL), BRU_OK);
    CHECK_EQ(open_path(&g, "served/f", 0, 2, &fd), PARKED);
    CHECK_EQ(wasi_wait(g.w).reasons, WASI_WAIT_FILES);
    s.ready = true;
    CHECK_EQ(open_path(&g, "served/f", 0, 2, &fd), OK);
    set_iov(&g, 0, BIG, 10);
    CHECK_EQ(call(&g, "fd_read", fd, IOVS, 1, RESULT), PARKED);
    s.ready = true;
    CHECK_STR(read_text(&g, fd, 10), "s");
    CHECK_EQ(open_path(&g, "served/f", 0, ALL_RIGHTS, &fd), EROFS_);
    CHECK_EQ(open_path(&g, "served/none", 0, 2, &fd), ENOENT_);
    CHECK_EQ(open_path(&g, "served/f", 0, 2, &fd), PARKED);
    wasi_interrupt(g.w);
    CHECK_EQ(open_path(&g, "served/f", 0, 2, &fd), EINTR_);
    guest_close(&g);
}

TEST_MAIN
