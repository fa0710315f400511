/* Folders of the host: what works in them, and that nothing leads out. Each test makes a folder
 *   <tmp>/out/secret     must never be read or written
 *   <tmp>/in/            is mounted at /mnt
 */
#define _GNU_SOURCE
#include "world.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char top[64], in[96];
static bool by_parts; /* each test runs with openat2 and without */

static void host_put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    if (!f) return;
    fputs(text, f);
    fclose(f);
}

static const char *host_text(const char *path) {
    static char text[64];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = '\0';
    if (f) fclose(f);
    return f ? text : NULL;
}

static bool host_setup(void) {
    snprintf(top, sizeof top, "/tmp/bru-host-XXXXXX");
    if (!mkdtemp(top)) return false;
    snprintf(in, sizeof in, "%s/in", top);
    if (mkdir(in, 0755) || chdir(top) || mkdir("out", 0755) || mkdir("in/dir", 0755)) return false;
    host_put("out/secret", "SECRET");
    host_put("in/file", "inside");
    host_put("in/dir/deep", "deep");
    return true;
}

static void host_teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(system(command), 0);
}

static bool mount_in(world *w, bool writable, uint64_t max_write) {
    hostfs_options opt = {
        .writable = writable, .max_open = 8, .max_write = max_write, .by_parts = by_parts
    };
    vfs_fs *fs = NULL;
    bru_status st = world_open(w, NULL);
    if (!st) st = hostfs_open(in, &opt, &fs, NULL);
    if (!st) st = vfs_mount(w->v, "/mnt", fs, NULL);
    fs_unref(fs);
    return st == BRU_OK;
}

static int open_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 256; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#define TEST_BOTH(name)                                                                            \
    static void both_##name(void);                                                                 \
    TEST(name) {                                                                                   \
        by_parts = false;                                                                          \
        both_##name();                                                                             \
    }                                                                                              \
    TEST(name##_without_openat2) {                                                                 \
        by_parts = true;                                                                           \
        both_##name();                                                                             \
    }                                                                                              \
    static void both_##name(void)

TEST_BOTH(nothing_leads_out_of_a_host_folder) {
    static const struct {
        const char *target, *path;
    } planted[] = {
        { "/etc/passwd", "in/abs" },
        { "../out/secret", "in/rel" },
        { "../../..", "in/up" },
        { "..", "in/dotdot" },
        { "../out", "in/dir/../outdir" },
        { "dir/../../out/secret", "in/sly" },
        { "loop", "in/loop" },
        { "rel", "in/chain" },
        { "/proc/self/root", "in/magic" },
        { "/proc/self/cwd/out", "in/cwd" },
        { "dir/deep", "in/good" },
        { "../file", "in/dir/back" },
        { "dir", "in/gooddir" },
        { "./dir/./../file", "in/winding" },
    };
    static const struct {
        const char *path;
        vfs_err want;
    } opens[] = {
        { "/mnt/abs", VFS_ENOTCAPABLE },
        { "/mnt/abs/", VFS_ENOTCAPABLE },
        { "/mnt/rel", VFS_ENOTCAPABLE },
        { "/mnt/rel/", VFS_ENOTCAPABLE },
        { "/mnt/up", VFS_ENOTCAPABLE },
        { "/mnt/up/etc/passwd", VFS_ENOTCAPABLE },
        { "/mnt/dotdot/out/secret", VFS_ENOTCAPABLE },
        { "/mnt/outdir/secret", VFS_ENOTCAPABLE },
        { "/mnt/sly", VFS_ENOTCAPABLE },
        { "/mnt/loop", VFS_ELOOP },
        { "/mnt/chain", VFS_ENOTCAPABLE },
        { "/mnt/magic", VFS_ENOTCAPABLE },
        { "/mnt/magic/etc/passwd", VFS_ENOTCAPABLE },
        { "/mnt/cwd/secret", VFS_ENOTCAPABLE },
        { "/mnt/../out/secret", VFS_ENOENT },
        { "/mnt/dir/../../out/secret", VFS_ENOENT },
        { "/mnt/..", VFS_OK },
        { "/mnt/good", VFS_OK },
        { "/mnt/good/", VFS_ENOTDIR },
        { "/mnt/dir/back", VFS_OK },
        { "/mnt/gooddir/deep", VFS_OK },
        { "/mnt/gooddir/back", VFS_OK },
        { "/mnt/winding", VFS_OK },
        { "/mnt/dir/..", VFS_OK },
        { "/mnt/none", VFS_ENOENT },
        { "/data/to_mnt/file", VFS_OK },
        { "/data/to_mnt/rel", VFS_ENOTCAPABLE },
        { "/data/past/tmp", VFS_OK },
    };
    world w;
    REQUIRE(host_setup());
    int descriptors = open_descriptors();
    REQUIRE(mount_in(&w, true, 0));
    EACH(p, planted) CHECK_EQ(symlink(p->target, p->path), 0);
    CHECK_EQ(make_link(&w, "/mnt", "/data/to_mnt"), VFS_OK); /* the guest's own links may */
    CHECK_EQ(make_link(&w, "../mnt/..", "/data/past"), VFS_OK);
    EACH(o, opens) {
        vfs_err have = try_open(&w, o->path, VFS_READ);
        if (have != o->want)
            fprintf(stderr, "%s: %s, not %s\n", o->path, vfs_err_text(have), vfs_err_text(o->want));
        CHECK_EQ(have, o->want);
        vfs_stat st;
        CHECK_EQ(stat_of(&w, o->path, &st), o->want);
    }
    static const char *const bad[] = { "rel", "abs", "outdir/new", "up/new", "sly", "magic/new" };
    EACH(b, bad) {
        char path[64];
        snprintf(path, sizeof path, "/mnt/%s", *b);
        CHECK_EQ(try_open(&w, path, VFS_WRITE | VFS_CREATE | VFS_TRUNC), VFS_ENOTCAPABLE);
        CHECK_EQ(make_dir(&w, path), strchr(*b, '/') ? VFS_ENOTCAPABLE : VFS_EEXIST);
        CHECK(hard_link(&w, path, "/mnt/hard") != VFS_OK);
    }
    static const char *const targets[] = { "/etc/passwd", "..", "../x", "dir/../../x", "/mnt/f" };
    EACH(t, targets) CHECK_EQ(make_link(&w, *t, "/mnt/planted"), VFS_ENOTCAPABLE);
    CHECK_EQ(make_link(&w, "../file", "/mnt/dir/l"), VFS_ENOTCAPABLE); /* could be moved up */
    CHECK_EQ(make_link(&w, "../../file", "/mnt/dir/m"), VFS_ENOTCAPABLE);
    CHECK_STR(host_text("out/secret"), "SECRET");
    world_close(&w);
    CHECK_EQ(open_descriptors(), descriptors);
    host_teardown();
}

TEST_BOTH(special_files_are_refused_without_waiting) {
    world w;
    REQUIRE(host_setup());
    REQUIRE(mount_in(&w, true, 0));
    CHECK_EQ(mkfifo("in/fifo", 0644), 0);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "in/socket" };
    CHECK_EQ(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    alarm(10); /* a fifo would wait for ever */
    static const char *const paths[] = { "/mnt/fifo", "/mnt/socket" };
    EACH(p, paths) {
        CHECK_EQ(try_open(&w, *p, VFS_READ), VFS_ENXIO);
        CHECK_EQ(try_open(&w, *p, VFS_WRITE), VFS_ENXIO);
        CHECK_EQ(try_open(&w, *p, VFS_READ | VFS_WRITE | VFS_TRUNC | VFS_CREATE), VFS_ENXIO);
        CHECK_EQ(hard_link(&w, *p, "/mnt/other"), VFS_EPERM);
    }
    alarm(0);
    vfs_fs *fs = NULL;
    bru_error err;
    CHECK_EQ(hostfs_open("in/fifo", NULL, &fs, &err), BRU_EINVAL);
    CHECK_EQ(hostfs_open("/dev/zero", NULL, &fs, &err), BRU_EINVAL);
    CHECK_EQ(hostfs_open("in/none", NULL, &fs, &err), BRU_ENOENT);
    CHECK(strstr(err.message, "in/none") != NULL);
    close(s);
    world_close(&w);
    host_teardown();
}

TEST_BOTH(a_read_only_folder_is_read_only_for_every_call) {
    world w;
    vfs_file *f = NULL;
    vfs_times t = { .mtime_now = true };
    uint64_t at = 0;
    size_t n;
    REQUIRE(host_setup());
    REQUIRE(mount_in(&w, false, 0));
    CHECK_STR(text_of(&w, "/mnt/file"), "inside");
    CHECK_EQ(try_open(&w, "/mnt/file", VFS_WRITE), VFS_EROFS);
    CHECK_EQ(try_open(&w, "/mnt/file", VFS_READ | VFS_TRUNC), VFS_EROFS);
    CHECK_EQ(try_open(&w, "/mnt/file", VFS_READ | VFS_CREATE), VFS_OK);
    CHECK_EQ(try_open(&w, "/mnt/new", VFS_WRITE | VFS_CREATE), VFS_EROFS);
    CHECK_EQ(make_dir(&w, "/mnt/new"), VFS_EROFS);
    CHECK_EQ(remove_dir(&w, "/mnt/dir"), VFS_EROFS);
    CHECK_EQ(remove_file(&w, "/mnt/file"), VFS_EROFS);
    CHECK_EQ(make_link(&w, "file", "/mnt/new"), VFS_EROFS);
    CHECK_EQ(hard_link(&w, "/mnt/file", "/mnt/new"), VFS_EROFS);
    CHECK_EQ(move(&w, "/mnt/file", "/mnt/new"), VFS_EROFS);
    CHECK_EQ(vfs_set_times(w.v, NULL, "/mnt/file", 9, true, &t), VFS_EROFS);
    REQUIRE(!open_file(&w, "/mnt/file", VFS_READ, &f));
    CHECK_EQ(vfs_write(f, &at, false, "x", 1, &n), VFS_EBADF);
    CHECK_EQ(vfs_file_resize(f, 0), VFS_EINVAL);
    CHECK_EQ(vfs_file_allocate(f, 0, 10), VFS_EBADF);
    CHECK_EQ(vfs_file_set_times(f, &t), VFS_EROFS);
    vfs_close(f);
    CHECK_STR(host_text("in/file"), "inside");
    world_close(&w);
    host_teardown();
}

TEST_BOTH(a_writable_folder_takes_all_calls_within_its_bounds) {
    world w;
    vfs_file *f = NULL, *more[9] = { NULL };
    vfs_stat st;
    vfs_times t = { .set_mtime = true, .mtime = 1234567890000000000ull };
    uint64_t at = 0;
    size_t n;
    REQUIRE(host_setup());
    REQUIRE(mount_in(&w, true, 100));
    CHECK_EQ(put_text(&w, "/mnt/new/file", "text"), BRU_OK);
    CHECK_STR(host_text("in/new/file"), "text");
    CHECK_EQ(make_link(&w, "file", "/mnt/new/link"), VFS_OK);
    CHECK_STR(text_of(&w, "/mnt/new/link"), "text");
    CHECK_EQ(hard_link(&w, "/mnt/new/file", "/mnt/hard"), VFS_OK);
    CHECK_EQ(move(&w, "/mnt/hard", "/mnt/dir/moved"), VFS_OK);
    CHECK_STR(host_text("in/dir/moved"), "text");
    CHECK_EQ(move(&w, "/mnt/dir", "/mnt/dir/in"), VFS_EINVAL);
    CHECK_EQ(move(&w, "/mnt/dir/moved", "/data/x"), VFS_EXDEV);
    CHECK_EQ(vfs_set_times(w.v, NULL, "/mnt/file", 9, true, &t), VFS_OK);
    CHECK_EQ(stat_of(&w, "/mnt/file", &st), VFS_OK);
    CHECK_EQ(st.mtime, t.mtime);
    CHECK_EQ(vfs_set_times(w.v, NULL, "/mnt/", 5, true, &t), VFS_OK);
    CHECK_EQ(stat_of(&w, "/mnt", &st), VFS_OK);
    CHECK_EQ(st.mtime, t.mtime);
    REQUIRE(!open_file(&w, "/mnt/file", VFS_READ | VFS_WRITE, &f));
    CHECK_EQ(vfs_write(f, &at, true, " and", 4, &n), VFS_OK);
    CHECK_STR(host_text("in/file"), "inside and");
    at = 98;
    CHECK_EQ(vfs_write(f, &at, false, "12345", 5, &n), VFS_OK);
    CHECK_EQ(n, 2);
    CHECK_EQ(vfs_write(f, &at, false, "345", 3, &n), VFS_EFBIG);
    at = UINT64_MAX;
    CHECK_EQ(vfs_write(f, &at, false, "345", 3, &n), VFS_EFBIG);
    CHECK_EQ(vfs_file_resize(f, 101), VFS_EFBIG);
    CHECK_EQ(vfs_file_allocate(f, 50, 51), VFS_EFBIG);
    CHECK_EQ(vfs_file_allocate(f, 50, 50), VFS_OK);
    CHECK_EQ(vfs_file_resize(f, 3), VFS_OK);
    CHECK_EQ(vfs_file_sync(f), VFS_OK);
    CHECK_EQ(vfs_file_stat(f, &st), VFS_OK);
    CHECK_EQ(st.size, 3);
    for (int i = 0; i < 7; i++) CHECK_EQ(open_file(&w, "/mnt/file", VFS_READ, &more[i]), VFS_OK);
    CHECK_EQ(open_file(&w, "/mnt/file", VFS_READ, &more[7]), VFS_EMFILE);
    for (int i = 0; i < 8; i++) vfs_close(more[i]);
    vfs_close(f);
    CHECK_EQ(try_open(&w, "/mnt/file", VFS_WRITE | VFS_TRUNC), VFS_OK);
    CHECK_STR(host_text("in/file"), "");
    CHECK_EQ(remove_dir(&w, "/mnt/dir"), VFS_ENOTEMPTY);
    CHECK_EQ(vfs_remove(w.v, "/mnt/dir", NULL), BRU_OK);
    CHECK_EQ(vfs_remove(w.v, "/mnt/new", NULL), BRU_OK);
    CHECK_STR(names_in(&w, "/mnt"), "file");
    world_close(&w);
    host_teardown();
}

TEST_BOTH(what_is_written_through_a_mount_can_be_bounded_in_all) {
    world w;
    vfs_fs *fs = NULL;
    hostfs_options opt = { .writable = true, .max_total = 10, .by_parts = by_parts };
    bru_error err;
    REQUIRE(host_setup());
    REQUIRE(!world_open(&w, NULL));
    REQUIRE(!hostfs_open(in, &opt, &fs, NULL));
    CHECK_EQ(vfs_mount(w.v, "/mnt", fs, NULL), BRU_OK);
    fs_unref(fs);
    CHECK_EQ(put_text(&w, "/mnt/a", "12345"), BRU_OK);
    CHECK_EQ(vfs_put(w.v, "/mnt/b", "123456", 6, &err), BRU_ELIMIT);
    CHECK_EQ(put_text(&w, "/mnt/b", "12345"), BRU_OK);
    CHECK_EQ(vfs_put(w.v, "/mnt/a", "1", 1, &err), BRU_ELIMIT);
    world_close(&w);
    host_teardown();
}

TEST_BOTH(one_file_of_the_host_can_be_mounted) {
    world w;
    vfs_fs *fs = NULL;
    hostfs_options opt = { .writable = true, .by_parts = by_parts };
    char path[128];
    REQUIRE(host_setup());
    REQUIRE(!world_open(&w, NULL));
    snprintf(path, sizeof path, "%s/file", in);
    REQUIRE(!hostfs_open(path, &opt, &fs, NULL));
    CHECK_EQ(vfs_mount(w.v, "/etc/one", fs, NULL), BRU_OK);
    fs_unref(fs);
    CHECK_STR(text_of(&w, "/etc/one"), "inside");
    CHECK_STR(names_in(&w, "/etc"), "one");
    CHECK_EQ(try_open(&w, "/etc/one/", VFS_READ), VFS_ENOTDIR);
    CHECK_EQ(try_open(&w, "/etc/one/../one", VFS_READ), VFS_ENOTDIR);
    CHECK_EQ(try_open(&w, "/etc/one/x", VFS_READ), VFS_ENOTDIR);
    CHECK_EQ(put_text(&w, "/etc/one", "new"), BRU_OK);
    CHECK_STR(host_text("in/file"), "new");
    CHECK_EQ(remove_file(&w, "/etc/one"), VFS_EBUSY);
    CHECK_EQ(move(&w, "/etc/one", "/etc/two"), VFS_EBUSY);
    CHECK_EQ(unlink("in/file"), 0);
    CHECK_EQ(symlink("../out/secret", "in/file"), 0); /* planted later */
    CHECK(try_open(&w, "/etc/one", VFS_READ) != VFS_OK);
    world_close(&w);
    host_teardown();
}

TEST_BOTH(names_that_no_guest_can_say_are_not_shown) {
    world w;
    REQUIRE(host_setup());
    REQUIRE(mount_in(&w, true, 0));
    host_put("in/dir/\xFF\xFE", "x");
    CHECK_STR(names_in(&w, "/mnt/dir"), "deep");
    CHECK(vfs_remove(w.v, "/mnt/dir", NULL) != BRU_OK);
    CHECK_STR(names_in(&w, "/mnt/dir"), "");
    world_close(&w);
    host_teardown();
}

/* ---- Races: another thread swaps things on the host while paths are walked ---- */

static atomic_bool stop_swapping;

static void *swap_folder_and_link(void *ctx) {
    (void)ctx;
    while (!atomic_load(&stop_swapping)) { /* in/dir is now a folder, now a link to ../out */
        if (rename("in/dir", "away") == 0 && symlink("../out", "in/dir") == 0) unlink("in/dir");
        rename("away", "in/dir");
    }
    rename("away", "in/dir");
    return NULL;
}

static void *swap_file_and_link(void *ctx) {
    (void)ctx;
    while (!atomic_load(&stop_swapping)) {
        if (symlink("../out/secret", "link")) break;
        rename("link", "in/secret");
        host_put("plain", "inside");
        rename("plain", "in/secret");
    }
    return NULL;
}

static void *move_folder_out(void *ctx) {
    (void)ctx;
    while (!atomic_load(&stop_swapping)) {
        rename("in/dir/sub", "out/sub");
        rename("out/sub", "in/dir/sub");
    }
    return NULL;
}

static const struct {
    const char *name;
    void *(*swap)(void *ctx);
    const char *path;
} races[] = {
    { "a folder becomes a link", swap_folder_and_link, "/mnt/dir/secret" },
    { "a file becomes a link", swap_file_and_link, "/mnt/secret" },
    { "a folder moves out", move_folder_out, "/mnt/dir/sub/../../../out/secret" },
    { "a folder moves out, less far", move_folder_out, "/mnt/dir/sub/../secret" },
};

TEST_BOTH(no_race_on_the_host_lets_a_path_out) {
    EACH(r, races) {
        world w;
        pthread_t thread;
        REQUIRE(host_setup());
        REQUIRE(mount_in(&w, true, 0));
        host_put("in/secret", "inside");
        CHECK_EQ(mkdir("in/dir/sub", 0755), 0);
        atomic_store(&stop_swapping, false);
        CHECK_EQ(pthread_create(&thread, NULL, r->swap, NULL), 0);
        unsigned reached = 0;
        for (int i = 0; i < 4000; i++) {
            const char *text = text_of(&w, r->path);
            reached += text && strstr(text, "SECRET") != NULL;
            vfs_file *f = NULL;
            uint64_t at = 0;
            size_t n;
            if (!open_file(&w, r->path, VFS_WRITE | VFS_CREATE, &f))
                vfs_write(f, &at, false, "inside", 6, &n);
            vfs_close(f);
            if (i % 16 == 0) hard_link(&w, r->path, "/mnt/hard");
            if (i % 16 == 8) remove_file(&w, "/mnt/hard");
        }
        atomic_store(&stop_swapping, true);
        pthread_join(thread, NULL);
        if (reached) fprintf(stderr, "%s: %u times\n", r->name, reached);
        CHECK_EQ(reached, 0);
        CHECK_STR(host_text("out/secret"), "SECRET");
        world_close(&w);
        host_teardown();
    }
}

TEST_BOTH(a_host_folder_survives_each_failure) {
    REQUIRE(host_setup());
    int descriptors = open_descriptors();
    FAULT_SWEEP {
        world w = { 0 };
        if (mount_in(&w, true, 0)) {
            put_text(&w, "/mnt/x/y", "text");
            text_of(&w, "/mnt/x/y");
            names_in(&w, "/mnt");
            make_link(&w, "y", "/mnt/x/l");
            move(&w, "/mnt/x/y", "/mnt/x/z");
            hard_link(&w, "/mnt/x/z", "/mnt/x/h");
            vfs_remove(w.v, "/mnt/x", NULL);
        }
        world_close(&w);
    }
    CHECK_EQ(open_descriptors(), descriptors);
    host_teardown();
}

TEST_MAIN
