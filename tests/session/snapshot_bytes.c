/* Snapshots as bytes: in files and other processes, damaged, made up, too large. */
#include "asleep.h"

#include "base/fault.h"
#include "image/snapshot.h"
#include "session/state.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Other processes ------------------------------------------------------------------------- */

/* What the child does: wakes what is in the file, answers its calls, says how it went. */
static int wake(const char *path) {
    bru_session_options o = with_functions();
    bru_snapshot *snapshot = NULL;
    bru_session *s = NULL;
    bru_snapshot_info info;
    if (bru_snapshot_load(path, &snapshot, NULL) != BRU_OK) return 2;
    if (bru_session_resume(the_image(), &o, snapshot, &s, NULL) != BRU_OK) return 3;
    bru_snapshot_get_info(snapshot, &info);
    for (uint32_t i = info.call_count; i-- > 0;) {
        bru_snapshot_call c;
        if (bru_snapshot_get_call(snapshot, i, &c, NULL) != BRU_OK) return 4;
        if (reply_number(s, c.id, 500 + i) != BRU_OK) return 5;
    }
    bru_result *r = finish(s);
    if (!r) return 6;
    int code = bru_result_exit_code(r);
    fprintf(stderr, "%s", bru_result_text(r, BRU_TEXT_STDERR, NULL));
    bru_result_free(r);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
    return code;
}

static int in_another_process(const char *path) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test-snapshot-bytes", "--wake", path, (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(another_process_goes_on_in_the_middle_of_an_await) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o);
    char path[] = "/tmp/asleep.XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    REQUIRE(start(s, "import asyncio, sys\n"
                     "kept = iter('abc'); next(kept); h = open('/data/h', 'w'); h.write('open ')\n"
                     "got = await asyncio.gather(*(f(i) for i in range(100)))\n"
                     "h.write('still'); h.close()\n"
                     "assert got == [500 + i for i in range(100)], got\n"
                     "assert next(kept) == 'b' and open('/data/h').read() == 'open still'\n"
                     "sys.exit(42)"));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_snapshot_save(snapshot, path, NULL), BRU_OK);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
    CHECK_EQ(in_another_process(path), 42);
    unlink(path);
}

/* Saves one after the other at `path`, until it is killed. */
static void save_for_ever(bru_snapshot *const two[2], const char *path) {
    for (unsigned i = 0; bru_snapshot_save(two[i % 2], path, NULL) == BRU_OK; i++) {
    }
    _exit(1);
}

TEST(a_save_that_is_killed_leaves_a_whole_snapshot) {
    bru_session *s = session_with(NULL);
    bru_snapshot *two[2], *loaded = NULL;
    char path[] = "/tmp/asleep.XXXXXX";
    close(mkstemp(path));
    two[0] = snapshot_of(s);
    CHECK_RUN(s, "import os; x = os.urandom(1 << 20)", "");
    two[1] = snapshot_of(s);
    REQUIRE(two[0] && two[1]);
    REQUIRE(bru_snapshot_save(two[0], path, NULL) == BRU_OK);
    for (long i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) save_for_ever(two, path);
        nanosleep(&(struct timespec){ 0, 1000000 + i * 777000 }, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK_EQ(bru_snapshot_load(path, &loaded, NULL), BRU_OK);
        bru_snapshot_free(loaded);
    }
    for (int i = 0; i < 2; i++) bru_snapshot_free(two[i]);
    bru_session_free(s);
    unlink(path);
}

TEST(a_file_that_cannot_be_written_or_read_is_an_error) {
    bru_session *s = session_with(NULL);
    bru_snapshot *snapshot = snapshot_of(s), *loaded = NULL;
    bru_error err;
    REQUIRE(snapshot);
    CHECK_EQ(bru_snapshot_save(snapshot, "/tmp/no such folder/s", &err), BRU_ENOENT);
    CHECK_EQ(bru_snapshot_load("/tmp/no such folder/s", &loaded, &err), BRU_ENOENT);
    CHECK_EQ(bru_snapshot_load("/dev/null", &loaded, &err), BRU_EFORMAT);
    CHECK(loaded == NULL && strstr(err.message, "not a file"));
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

/* ---- Damage ------------------------------------------------------------------------------------
 */

/* The bytes of a session with a bit of everything, and a copy to be spoilt. */
typedef struct specimen {
    uint8_t *bytes;
    size_t len;
} specimen;

static specimen specimen_take(void) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = 'kept'; f = open('/data/f', 'w'); f.write('f')", "");
    bru_snapshot *snapshot = snapshot_of(s);
    specimen out = { NULL, 0 };
    const void *bytes = bru_snapshot_bytes(snapshot, &out.len);
    out.bytes = malloc(out.len);
    memcpy(out.bytes, bytes, out.len);
    bru_snapshot_free(snapshot);
    bru_session_free(s);
    return out;
}

static bru_status open_status(const uint8_t *bytes, size_t len) {
    bru_snapshot *snapshot = NULL;
    bru_error err = { .message = "" };
    bru_status st = bru_snapshot_open(bytes, len, &snapshot, &err);
    if ((st == BRU_OK) != (snapshot != NULL) || (st && !err.message[0])) st = (bru_status)-1;
    bru_snapshot_free(snapshot);
    return st;
}

TEST(whatever_is_cut_off_or_flipped_is_noticed) {
    specimen s = specimen_take();
    CHECK_EQ(open_status(s.bytes, s.len), BRU_OK);
    size_t header = sizeof(snapshot_header), wrong = 0;
    for (size_t len = 0; len < s.len; len += len < header ? 1 : 997)
        wrong += open_status(s.bytes, len) != BRU_EFORMAT;
    CHECK_EQ(wrong, 0);
    for (size_t at = 0; at < s.len; at += at < header ? 1 : 997) {
        s.bytes[at] ^= (uint8_t)(1u << at % 8);
        wrong += open_status(s.bytes, s.len) != BRU_EFORMAT;
        s.bytes[at] ^= (uint8_t)(1u << at % 8);
    }
    CHECK_EQ(wrong, 0);
    free(s.bytes);
}

/* Headers that contradict themselves though their sums are right: where a number lies, and what it
 * becomes. */
static const struct {
    size_t at, size;
    uint64_t value;
} headers[] = {
    { offsetof(snapshot_header, version), 4, 3 },
    { offsetof(snapshot_header, flags), 4, 64 },
    { offsetof(snapshot_header, flags), 4, SNAPSHOT_HAS_FILES | SNAPSHOT_FILES_OVER },
    { offsetof(snapshot_header, flags), 4, SNAPSHOT_HAS_FILES | SNAPSHOT_BASED },
    { offsetof(snapshot_header, flags), 4, SNAPSHOT_BASE_FILES },
    { offsetof(snapshot_header, base), 1, 1 },
    { offsetof(snapshot_header, flags), 4, SNAPSHOT_HAS_FILES | SNAPSHOT_WAITING },
    { offsetof(snapshot_header, flags), 4, 0 }, /* files that it does not have */
    { offsetof(snapshot_header, memory), 8, 0 },
    { offsetof(snapshot_header, memory), 8, 65537 },
    { offsetof(snapshot_header, memory), 8, UINT64_MAX - 65535 },
    { offsetof(snapshot_header, memory), 8, 65536 },
    { offsetof(snapshot_header, image_id), 1, 'A' },
    { offsetof(snapshot_header, wasm_sha256), 1, 0 },
    { offsetof(snapshot_header, parts[SNAPSHOT_STATE].stored), 8, UINT64_MAX },
    { offsetof(snapshot_header, parts[SNAPSHOT_STATE].stored), 8, 0 },
    { offsetof(snapshot_header, parts[SNAPSHOT_STATE].raw), 8, UINT64_MAX },
    { offsetof(snapshot_header, parts[SNAPSHOT_STATE].raw), 8, 0 },
    { offsetof(snapshot_header, parts[SNAPSHOT_STATE].raw), 8, SNAPSHOT_STATE_MAX },
    { offsetof(snapshot_header, parts[SNAPSHOT_MAP].raw), 8, 8 },
    { offsetof(snapshot_header, parts[SNAPSHOT_MAP].raw), 8, 7 },
    { offsetof(snapshot_header, parts[SNAPSHOT_MAP].raw), 8, UINT64_MAX - 7 },
    { offsetof(snapshot_header, parts[SNAPSHOT_PAGES].raw), 8, 4096 },
    { offsetof(snapshot_header, parts[SNAPSHOT_PAGES].raw), 8, 4095 },
    { offsetof(snapshot_header, parts[SNAPSHOT_PAGES].raw), 8, UINT64_MAX - 4095 },
    { offsetof(snapshot_header, parts[SNAPSHOT_FILES].raw), 8, UINT64_MAX },
};

TEST(a_header_that_contradicts_itself_is_refused) {
    specimen s = specimen_take();
    uint8_t *copy = malloc(s.len);
    EACH(row, headers) {
        memcpy(copy, s.bytes, s.len);
        memcpy(copy + row->at, &row->value, row->size);
        snapshot_seal(copy, s.len);
        bru_status st = open_status(copy, s.len);
        if (st != BRU_EFORMAT) fprintf(stderr, "row %zu\n", (size_t)(row - headers));
        CHECK_EQ(st, BRU_EFORMAT);
    }
    free(copy);
    free(s.bytes);
}

/* ---- Made up -----------------------------------------------------------------------------------
 */

/* The parts of a sound snapshot, uncompressed, to be spoilt one by one and put together again. */
typedef struct parts {
    snapshot_header header;
    uint8_t *part[SNAPSHOT_PARTS];
} parts;

static parts parts_of(const specimen *s) {
    parts p;
    CHECK_EQ(snapshot_check(s->bytes, s->len, &p.header, NULL), BRU_OK);
    for (int i = 0; i < SNAPSHOT_PARTS; i++)
        CHECK_EQ(snapshot_unpack(s->bytes, &p.header, (enum snapshot_part)i, &p.part[i], NULL),
                 BRU_OK);
    return p;
}

static void parts_free(parts *p) {
    for (int i = 0; i < SNAPSHOT_PARTS; i++) mem_free(p->part[i]);
}

static bru_status parts_open(const parts *p, bru_snapshot **out, bru_error *err) {
    snapshot_writer w;
    bru_status st = snapshot_begin(&w, 1, NULL);
    snapshot_header h = p->header;
    for (int i = 0; !st && i < SNAPSHOT_PARTS; i++) {
        st = snapshot_part_begin(&w, (enum snapshot_part)i, p->header.parts[i].raw, NULL);
        if (!st) st = snapshot_put(&w, p->part[i], (size_t)p->header.parts[i].raw, NULL);
    }
    memcpy(h.parts, w.header.parts, sizeof h.parts);
    w.header = h;
    if (!st) st = snapshot_finish(&w, (snapshot_key){ 0 }, NULL);
    if (!st) st = bru_snapshot_open(w.out.data, w.out.len, out, err);
    snapshot_writer_free(&w);
    return st;
}

#define HEAD(field) offsetof(state_head, field), sizeof((state_head *)0)->field

/* Numbers in a sound snapshot's parts that are made wrong: refused when it is opened, or when it is
 * put into a session. */
static const struct {
    enum snapshot_part part;
    size_t at, size;
    uint64_t value;
    bool opens;
} spoilt[] = {
    { SNAPSHOT_STATE, HEAD(clock), UINT64_MAX, false },
    { SNAPSHOT_STATE, HEAD(wall), UINT64_MAX, false },
    { SNAPSHOT_STATE, HEAD(waiting), 1, false },
    { SNAPSHOT_STATE, HEAD(waiting), 7, false },
    { SNAPSHOT_STATE, HEAD(globals_len), UINT32_MAX, false },
    { SNAPSHOT_STATE, HEAD(fds_len), UINT64_MAX, false },
    { SNAPSHOT_STATE, HEAD(calls_len), 1, false },
    { SNAPSHOT_STATE, HEAD(call_count), 1, false },
    { SNAPSHOT_STATE, HEAD(call_count), UINT32_MAX, false },
    { SNAPSHOT_STATE, HEAD(replies_len), UINT64_MAX, false },
    { SNAPSHOT_STATE, HEAD(output_len), 3, false },
    { SNAPSHOT_STATE, HEAD(input_len), UINT64_MAX - 8, false },
    { SNAPSHOT_STATE, HEAD(shown_len), 1, false },
    { SNAPSHOT_STATE, HEAD(deterministic), 2, false },
    { SNAPSHOT_STATE, sizeof(state_head), 1, 99, true }, /* the globals' format */
    { SNAPSHOT_MAP, 0, 4, UINT32_MAX, false },
    { SNAPSHOT_MAP, 8, 4, 0, false },          /* not ascending */
    { SNAPSHOT_MAP, 4, 4, 5, false },          /* a page that was not stored yet */
    { SNAPSHOT_MAP, 4, 4, UINT32_MAX, false }, /* one is stored and never used */
    { SNAPSHOT_FILES, 0, 1, 'X', true },
    { SNAPSHOT_FILES, 8, 1, 99, true },
};

TEST(numbers_that_are_made_up_are_refused_and_the_session_is_whole) {
    specimen sound = specimen_take();
    EACH(row, spoilt) {
        parts p = parts_of(&sound);
        memcpy(p.part[row->part] + row->at, &row->value, row->size);
        bru_session *s = session_with(NULL);
        bru_snapshot *snapshot = NULL;
        bru_error err = { .message = "" };
        CHECK_RUN(s, "x = 'before'", "");
        bru_status st = parts_open(&p, &snapshot, &err);
        if ((st == BRU_OK) != row->opens) fprintf(stderr, "row %zu\n", (size_t)(row - spoilt));
        CHECK_EQ(st == BRU_OK, row->opens);
        if (!st) {
            st = bru_session_restore(s, snapshot, &err);
            CHECK(st == BRU_EFORMAT || st == BRU_EMISMATCH);
            CHECK(strstr(err.message, "the session was reset"));
        }
        CHECK_RUN(s, "print(globals().get('x'))", row->opens ? "None\n" : "before\n");
        bru_session_free(s);
        bru_snapshot_free(snapshot);
        parts_free(&p);
    }
    free(sound.bytes);
}

/* ---- The wrong session -------------------------------------------------------------------------
 */

TEST(a_snapshot_of_another_image_is_a_mismatch) {
    char path[] = "/tmp/asleep.XXXXXX";
    int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    close(fd);
    bru_build_options build = BRU_BUILD_OPTIONS_INIT;
    bru_image_options options = BRU_IMAGE_OPTIONS_INIT;
    const char *code = getenv("BRUMATE_GUEST");
    bru_image *image = NULL;
    bru_error err = { .message = "" };
    build.base = the_image();
    CHECK_EQ(bru_image_build(&build, path, &err), BRU_OK);
    options.guest_path = code ? code : "build/core.so";
    CHECK_EQ(bru_image_open(path, &options, &image, &err), BRU_OK);
    if (!image) fprintf(stderr, "%s\n", err.message);
    REQUIRE(image);
    bru_session *s = session_with(NULL), *other = NULL;
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    CHECK_EQ(bru_session_resume(image, NULL, snapshot, &other, &err), BRU_EMISMATCH);
    CHECK(other == NULL && strstr(err.message, "another image"));
    bru_session_free(s);
    bru_snapshot_free(snapshot);
    bru_image_unref(image);
    unlink(path);
}

TEST(a_session_with_smaller_limits_stays_as_it_was) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "import os; x = bytes(60 << 20); open('/data/f', 'wb').write(os.urandom(1 << 20))",
              "");
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    bru_limits limits[] = { { .memory_bytes = 64 << 20 }, { .file_bytes = 512 << 10 } };
    EACH(row, limits) {
        bru_session_options o = BRU_SESSION_OPTIONS_INIT;
        bru_error err;
        o.limits = *row;
        bru_session *small = session_with(&o);
        CHECK_RUN(small, "x = 'small'", "");
        CHECK_EQ(bru_session_restore(small, snapshot, &err), BRU_ELIMIT);
        CHECK(strstr(err.message, "limit"));
        CHECK_RUN(small, "print(x)", "small\n");
        bru_session_free(small);
    }
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

/* ---- Without memory ----------------------------------------------------------------------------
 */

TEST(sleep_and_fork_survive_each_failed_allocation) {
    bru_session *s = session_with(NULL);
    CHECK_RUN(s, "x = 1; f = open('/data/f', 'w'); f.write('f')", "");
    FAULT_SWEEP {
        bru_snapshot *snapshot = NULL;
        bru_session *twin = NULL;
        bru_status st = bru_session_snapshot(s, NULL, &snapshot, NULL);
        bru_status forked = bru_session_fork(s, &twin, NULL);
        CHECK(fault_came() || (!st && !forked));
        CHECK((st == BRU_OK) == (snapshot != NULL) && (forked == BRU_OK) == (twin != NULL));
        bru_snapshot_free(snapshot);
        bru_session_free(twin);
    }
    CHECK_RUN(s, "print(x, f.write('on'))", "1 2\n");
    bru_session_free(s);
}

TEST(a_restore_without_memory_leaves_the_session_as_before_or_fresh) {
    bru_session_options o = with_functions();
    bru_session *s = session_with(&o);
    REQUIRE(start(s, "x = 'asleep'; f_ = open('/data/f', 'w'); await f(1)"));
    bru_snapshot *snapshot = snapshot_of(s);
    REQUIRE(snapshot);
    bool whole = true;
    FAULT_SWEEP {
        bru_session *other = NULL;
        bru_status st = bru_session_new(the_image(), &o, &other, NULL);
        if (!st) st = bru_session_restore(other, snapshot, NULL);
        whole = whole && (fault_came() || !st);
        if (other && st) {
            bru_result *r = run(other, "print(globals().get('x'))");
            whole = whole && r && strcmp(bru_result_text(r, BRU_TEXT_OUTPUT, NULL), "None\n") == 0;
            bru_result_free(r);
        }
        bru_session_free(other);
    }
    CHECK(whole);
    bru_session_free(s);
    bru_snapshot_free(snapshot);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--wake") == 0) return wake(argv[2]);
    return test_main(argc, argv);
}
