/* Files in memory, through a namespace: names, links, data, limits. */
#include "world.h"

/* ---- Names: what each call answers ---- */

typedef struct named {
    vfs_err (*call)(world *w, const char *path);
    const char *path;
    vfs_err want;
} named;

static vfs_err create(world *w, const char *p) {
    return try_open(w, p, VFS_WRITE | VFS_CREATE);
}
static vfs_err create_new(world *w, const char *p) {
    return try_open(w, p, VFS_WRITE | VFS_CREATE | VFS_EXCL);
}
static vfs_err reading(world *w, const char *p) {
    return try_open(w, p, VFS_READ);
}
static vfs_err writing(world *w, const char *p) {
    return try_open(w, p, VFS_WRITE);
}
static vfs_err folder(world *w, const char *p) {
    return try_open(w, p, VFS_READ | VFS_FOLDER);
}
static vfs_err nofollow(world *w, const char *p) {
    return try_open(w, p, VFS_READ | VFS_NOFOLLOW);
}
static vfs_err linking(world *w, const char *p) {
    return make_link(w, "x", p);
}
static vfs_err hard(world *w, const char *p) {
    return hard_link(w, "/data/file", p);
}
static vfs_err hard_from(world *w, const char *p) {
    return hard_link(w, p, "/data/fresh");
}
static vfs_err move_file(world *w, const char *p) {
    return move(w, "/data/file", p);
}
static vfs_err move_dir(world *w, const char *p) {
    return move(w, "/data/dir", p);
}
static vfs_err move_from(world *w, const char *p) {
    return move(w, p, "/data/fresh");
}
static vfs_err reading_link(world *w, const char *p) {
    char out[VFS_PATH_MAX];
    size_t len;
    return vfs_readlink(w->v, NULL, p, strlen(p), out, &len);
}

/* In /data: file, dir/, full/in, to_file, to_dir, dangling -> nowhere, loop <-> pool, up -> .. */
static const named calls[] = {
    { reading, "/data/file", VFS_OK },
    { reading, "data/file", VFS_OK },
    { reading, "//data///file", VFS_OK },
    { reading, "/data/./dir/../file", VFS_OK },
    { reading, "/data/file/", VFS_ENOTDIR },
    { reading, "/data/file/.", VFS_ENOTDIR },
    { reading, "/data/file/..", VFS_ENOTDIR },
    { reading, "/data/file/x", VFS_ENOTDIR },
    { reading, "/data/none", VFS_ENOENT },
    { reading, "/none/file", VFS_ENOENT },
    { reading, "/data/none/..", VFS_ENOENT },
    { reading, "", VFS_ENOENT },
    { reading, "/", VFS_OK },
    { reading, ".", VFS_OK },
    { reading, "/../../..", VFS_OK },
    { reading, "/../data/file", VFS_OK },
    { reading, "/data/to_file", VFS_OK },
    { reading, "/data/to_file/", VFS_ENOTDIR },
    { reading, "/data/to_dir/", VFS_OK },
    { reading, "/data/dangling", VFS_ENOENT },
    { reading, "/data/loop", VFS_ELOOP },
    { reading, "/data/loop/", VFS_ELOOP },
    { reading, "/data/loop/x", VFS_ELOOP },
    { reading, "/data/up/up/data/file", VFS_ENOENT },
    { reading, "/data/up/data/file", VFS_OK },
    { reading, "/data/\xFF", VFS_EILSEQ },
    { reading, "/data/\xC0\x80", VFS_EILSEQ },
    { writing, "/data/file", VFS_OK },
    { writing, "/data/dir", VFS_EISDIR },
    { writing, "/data", VFS_EISDIR },
    { writing, "/data/none", VFS_ENOENT },
    { folder, "/data/dir", VFS_OK },
    { folder, "/data/to_dir", VFS_OK },
    { folder, "/data/file", VFS_ENOTDIR },
    { folder, "/dev/null", VFS_ENOTDIR },
    { nofollow, "/data/to_file", VFS_ELOOP },
    { nofollow, "/data/to_dir/", VFS_OK },
    { create, "/data/file", VFS_OK },
    { create, "/data/dir", VFS_EISDIR },
    { create, "/data/fresh/", VFS_EISDIR },
    { create, "/data/none/fresh", VFS_ENOENT },
    { create, "/data/file/fresh", VFS_ENOTDIR },
    { create, "/data/loop", VFS_ELOOP },
    { create_new, "/data/file", VFS_EEXIST },
    { create_new, "/data/dir", VFS_EEXIST },
    { create_new, "/data/dangling", VFS_EEXIST },
    { create_new, "/data/loop", VFS_EEXIST },
    { create_new, "/", VFS_EEXIST },
    { make_dir, "/data/dir", VFS_EEXIST },
    { make_dir, "/data/file", VFS_EEXIST },
    { make_dir, "/data/dangling", VFS_EEXIST },
    { make_dir, "/", VFS_EEXIST },
    { make_dir, "/data/dir/..", VFS_EEXIST },
    { make_dir, "/none/x", VFS_ENOENT },
    { make_dir, "/data/file/x", VFS_ENOTDIR },
    { make_dir, "/dev/x", VFS_EROFS },
    { remove_dir, "/data/full", VFS_ENOTEMPTY },
    { remove_dir, "/data/file", VFS_ENOTDIR },
    { remove_dir, "/data/to_dir", VFS_ENOTDIR },
    { remove_dir, "/data/to_dir/", VFS_ENOTDIR },
    { remove_dir, "/data/none", VFS_ENOENT },
    { remove_dir, "/data/dir/.", VFS_EINVAL },
    { remove_dir, "/data/dir/..", VFS_EINVAL },
    { remove_dir, "/", VFS_EBUSY },
    { remove_dir, "/dev", VFS_EBUSY },
    { remove_dir, "/tmp", VFS_EBUSY },
    { remove_file, "/data/dir", VFS_EISDIR },
    { remove_file, "/data/dir/", VFS_EISDIR },
    { remove_file, "/data/file/", VFS_ENOTDIR },
    { remove_file, "/data/to_file/", VFS_ENOTDIR },
    { remove_file, "/data/none", VFS_ENOENT },
    { remove_file, "/dev/null", VFS_EROFS },
    { remove_file, "/", VFS_EISDIR },
    { linking, "/data/file", VFS_EEXIST },
    { linking, "/data/dangling", VFS_EEXIST },
    { linking, "/data/fresh/", VFS_ENOENT },
    { linking, "/data/none/x", VFS_ENOENT },
    { hard, "/data/file", VFS_EEXIST },
    { hard, "/data/fresh/", VFS_ENOENT },
    { hard, "/dev/fresh", VFS_EXDEV },
    { hard_from, "/data/dir", VFS_EPERM },
    { hard_from, "/data/none", VFS_ENOENT },
    { hard_from, "/dev/null", VFS_EXDEV },
    { move_file, "/data/dir", VFS_EISDIR },
    { move_file, "/data/fresh/", VFS_ENOTDIR },
    { move_file, "/data/file", VFS_OK },
    { move_file, "/dev/x", VFS_EXDEV },
    { move_file, "/dev", VFS_EBUSY },
    { move_file, "/data/none/x", VFS_ENOENT },
    { move_dir, "/data/file", VFS_ENOTDIR },
    { move_dir, "/data/full", VFS_ENOTEMPTY },
    { move_dir, "/data/dir/in", VFS_EINVAL },
    { move_dir, "/data/dir", VFS_OK },
    { move_dir, "/data/.", VFS_EBUSY },
    { move_from, "/data/none", VFS_ENOENT },
    { move_from, "/data/file/", VFS_ENOTDIR },
    { move_from, "/data/to_dir/", VFS_ENOTDIR },
    { move_from, "/tmp", VFS_EBUSY },
    { move_from, "/data", VFS_EBUSY },
    { move_from, "/", VFS_EBUSY },
    { move_from, "/data/..", VFS_EBUSY },
    { reading_link, "/data/file", VFS_EINVAL },
    { reading_link, "/data/to_file", VFS_OK },
    { reading_link, "/data/to_dir/", VFS_EINVAL },
    { reading_link, "/data/none", VFS_ENOENT },
};

static void furnish(world *w) {
    CHECK_EQ(put_text(w, "/data/file", "text"), BRU_OK);
    CHECK_EQ(make_dir(w, "/data/dir"), VFS_OK);
    CHECK_EQ(put_text(w, "/data/full/in", "x"), BRU_OK);
    CHECK_EQ(make_link(w, "file", "/data/to_file"), VFS_OK);
    CHECK_EQ(make_link(w, "/data/dir", "/data/to_dir"), VFS_OK);
    CHECK_EQ(make_link(w, "nowhere", "/data/dangling"), VFS_OK);
    CHECK_EQ(make_link(w, "pool", "/data/loop"), VFS_OK);
    CHECK_EQ(make_link(w, "loop", "/data/pool"), VFS_OK);
    CHECK_EQ(make_link(w, "..", "/data/up"), VFS_OK);
}

TEST(every_call_by_path_answers_as_posix_has_it) {
    world w;
    REQUIRE(!world_open(&w, NULL));
    furnish(&w);
    EACH(c, calls) {
        vfs_err have = c->call(&w, c->path);
        if (have != c->want)
            fprintf(stderr, "row %d, \"%s\": %s, not %s\n", (int)(c - calls), c->path,
                    vfs_err_text(have), vfs_err_text(c->want));
        CHECK_EQ(have, c->want);
    }
    CHECK_STR(text_of(&w, "/data/file"), "text");
    CHECK(kind_at(&w, "/data/fresh") == VFS_UNKNOWN);
    world_close(&w);
}

TEST(names_and_paths_have_a_longest_length) {
    world w;
    REQUIRE(!world_open(&w, NULL));
    char name[VFS_NAME_MAX + 3] = "/";
    memset(name + 1, 'n', VFS_NAME_MAX);
    CHECK_EQ(make_dir(&w, name), VFS_OK);
    name[VFS_NAME_MAX + 1] = 'n';
    CHECK_EQ(make_dir(&w, name), VFS_ENAMETOOLONG);
    static char path[VFS_PATH_MAX + 2];
    memset(path, '/', VFS_PATH_MAX);
    CHECK_EQ(try_open(&w, path, VFS_READ), VFS_OK);
    path[VFS_PATH_MAX] = '/';
    CHECK_EQ(try_open(&w, path, VFS_READ), VFS_ENAMETOOLONG);
    CHECK_EQ(vfs_symlink(w.v, path, VFS_PATH_MAX + 1, NULL, "l", 1), VFS_ENAMETOOLONG);
    CHECK_EQ(vfs_symlink(w.v, "", 0, NULL, "l", 1), VFS_ENOENT);
    CHECK_EQ(vfs_symlink(w.v, "a\0b", 3, NULL, "l", 1), VFS_EINVAL);
    CHECK_EQ(vfs_mkdir(w.v, NULL, "a\0b", 3), VFS_EINVAL);
    CHECK_EQ(vfs_symlink(w.v, "\xFF", 1, NULL, "l", 1), VFS_EILSEQ);
    world_close(&w);
}

TEST(a_link_is_followed_up_to_forty_times) {
    world w;
    char from[32], to[32];
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(put_text(&w, "/data/l0", "end"), BRU_OK);
    for (int i = 1; i <= 41; i++) {
        snprintf(from, sizeof from, "l%d", i - 1);
        snprintf(to, sizeof to, "/data/l%d", i);
        CHECK_EQ(make_link(&w, from, to), VFS_OK);
    }
    CHECK_STR(text_of(&w, "/data/l40"), "end");
    CHECK_EQ(try_open(&w, "/data/l41", VFS_READ), VFS_ELOOP);
    CHECK_EQ(make_link(&w, "/data/made", "/data/maker"), VFS_OK);
    CHECK_EQ(try_open(&w, "/data/maker", VFS_WRITE | VFS_CREATE), VFS_OK); /* through the link */
    CHECK(kind_at(&w, "/data/made") == VFS_REGULAR);
    world_close(&w);
}

TEST(paths_relative_to_an_open_folder_start_there) {
    world w;
    vfs_file *dir = NULL, *f = NULL;
    vfs_stat st;
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(put_text(&w, "/data/a/b/c", "deep"), BRU_OK);
    REQUIRE(!open_file(&w, "/data/a", VFS_READ | VFS_FOLDER, &dir));
    CHECK_EQ(vfs_get_stat(w.v, dir, "b/c", 3, true, &st), VFS_OK);
    CHECK_EQ(vfs_get_stat(w.v, dir, "../a/b/c", 8, true, &st), VFS_OK);
    CHECK_EQ(vfs_get_stat(w.v, dir, "/data/a/b/c", 11, true, &st), VFS_OK);
    CHECK_EQ(move(&w, "/data/a", "/tmp/moved"), VFS_OK);
    CHECK_EQ(vfs_get_stat(w.v, dir, "b/c", 3, true, &st), VFS_OK); /* it went along */
    CHECK_EQ(vfs_get_stat(w.v, dir, "../moved", 8, true, &st), VFS_OK);
    CHECK_EQ(vfs_remove(w.v, "/tmp/moved", NULL), BRU_OK);
    CHECK_EQ(vfs_get_stat(w.v, dir, ".", 1, true, &st), VFS_OK); /* removed, but open */
    CHECK_EQ(vfs_get_stat(w.v, dir, "..", 2, true, &st), VFS_ENOENT);
    CHECK_EQ(vfs_mkdir(w.v, dir, "x", 1), VFS_ENOENT);
    CHECK_EQ(vfs_open(w.v, dir, "x", 1, VFS_WRITE | VFS_CREATE, &f), VFS_ENOENT);
    vfs_close(dir);
    world_close(&w);
}

TEST(rename_replaces_files_and_empty_folders_and_keeps_hard_links) {
    world w;
    vfs_stat st;
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(put_text(&w, "/data/a", "a"), BRU_OK);
    CHECK_EQ(put_text(&w, "/data/b", "b"), BRU_OK);
    CHECK_EQ(hard_link(&w, "/data/a", "/data/a2"), VFS_OK);
    CHECK_EQ(move(&w, "/data/a", "/data/a2"), VFS_OK); /* the same file: nothing happens */
    CHECK(kind_at(&w, "/data/a") == VFS_REGULAR);
    CHECK_EQ(move(&w, "/data/a", "/data/b"), VFS_OK);
    CHECK_STR(text_of(&w, "/data/b"), "a");
    CHECK_EQ(stat_of(&w, "/data/a2", &st), VFS_OK);
    CHECK_EQ(st.links, 2);
    CHECK_EQ(make_dir(&w, "/data/d1"), VFS_OK);
    CHECK_EQ(make_dir(&w, "/data/d2"), VFS_OK);
    CHECK_EQ(put_text(&w, "/data/d1/in", "in"), BRU_OK);
    CHECK_EQ(move(&w, "/data/d1", "/data/d2"), VFS_OK);
    CHECK_STR(text_of(&w, "/data/d2/in"), "in");
    CHECK_STR(names_in(&w, "/data"), "b a2 d2");
    world_close(&w);
}

/* ---- Data ---- */

TEST(an_unlinked_file_lives_until_it_is_closed) {
    world w;
    vfs_file *f = NULL;
    memtree_usage before, during, after;
    REQUIRE(!world_open(&w, NULL));
    memtree_get_usage(w.tree, &before);
    REQUIRE(!open_file(&w, "/data/f", VFS_READ | VFS_WRITE | VFS_CREATE, &f));
    uint64_t at = 0;
    size_t n = 0;
    char text[8] = "";
    CHECK_EQ(vfs_write(f, &at, false, "hello", 5, &n), VFS_OK);
    CHECK_EQ(remove_file(&w, "/data/f"), VFS_OK);
    CHECK_EQ(vfs_read(f, 0, text, 8, &n), VFS_OK);
    CHECK_EQ(n, 5);
    CHECK_STR(text, "hello");
    memtree_get_usage(w.tree, &during);
    CHECK(during.bytes > before.bytes);
    vfs_close(f);
    memtree_get_usage(w.tree, &after);
    CHECK_EQ(after.bytes, before.bytes);
    CHECK_EQ(after.entries, before.entries);
    world_close(&w);
}

TEST(a_hole_reads_as_zeroes_and_costs_next_to_nothing) {
    world w;
    vfs_file *f = NULL;
    memtree_usage usage;
    REQUIRE(!world_open(&w, NULL));
    REQUIRE(!open_file(&w, "/data/s", VFS_READ | VFS_WRITE | VFS_CREATE, &f));
    uint64_t at = 1 << 20;
    size_t n = 0;
    static char back[(1 << 20) + 1];
    memset(back, 1, sizeof back);
    CHECK_EQ(vfs_write(f, &at, false, "x", 1, &n), VFS_OK);
    CHECK_EQ(vfs_read(f, 0, back, sizeof back, &n), VFS_OK);
    CHECK_EQ(n, sizeof back);
    for (size_t i = 0; i < sizeof back - 1; i++) n -= back[i] == 0;
    CHECK_EQ(n, 1);
    memtree_get_usage(w.tree, &usage);
    CHECK(usage.bytes < 16384);
    at = 1ull << 40;
    CHECK_EQ(vfs_write(f, &at, false, "x", 1, &n), VFS_EFBIG);
    CHECK_EQ(at, 1ull << 40);
    at = UINT64_MAX;
    CHECK_EQ(vfs_write(f, &at, false, "x", 1, &n), VFS_EFBIG);
    CHECK_EQ(vfs_file_resize(f, 1ull << 36), VFS_EFBIG);
    CHECK_EQ(vfs_file_resize(f, 60 << 20), VFS_OK); /* a hole */
    CHECK_EQ(vfs_file_allocate(f, 0, 1ull << 36), VFS_EFBIG);
    CHECK_EQ(vfs_file_allocate(f, 0, 64 << 20), VFS_ENOSPC);
    CHECK_EQ(vfs_file_allocate(f, UINT64_MAX, 2), VFS_EFBIG);
    CHECK_EQ(vfs_file_allocate(f, 0, 0), VFS_EINVAL);
    vfs_stat st;
    CHECK_EQ(vfs_file_stat(f, &st), VFS_OK);
    CHECK_EQ(st.size, 60 << 20);
    CHECK_EQ(vfs_file_resize(f, 10), VFS_OK);
    CHECK_EQ(vfs_file_resize(f, 4096), VFS_OK); /* what was cut off does not come back */
    CHECK_EQ(vfs_read(f, 0, back, 4096, &n), VFS_OK);
    for (size_t i = 0; i < 4096; i++) CHECK_EQ(back[i], 0);
    vfs_close(f);
    world_close(&w);
}

TEST(appending_ignores_the_offset_and_reading_stops_at_the_end) {
    world w;
    vfs_file *f = NULL;
    uint64_t at = 0;
    size_t n = 9;
    char text[16] = "";
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(put_text(&w, "/data/f", "one"), BRU_OK);
    REQUIRE(!open_file(&w, "/data/f", VFS_READ | VFS_WRITE, &f));
    CHECK_EQ(vfs_write(f, &at, true, "two", 3, &n), VFS_OK);
    CHECK_EQ(at, 6);
    CHECK_EQ(vfs_read(f, 4, text, 16, &n), VFS_OK);
    CHECK_EQ(n, 2);
    CHECK_EQ(vfs_read(f, UINT64_MAX, text, 16, &n), VFS_OK);
    CHECK_EQ(n, 0);
    vfs_close(f);
    CHECK_EQ(try_open(&w, "/data/f", VFS_WRITE | VFS_TRUNC), VFS_OK);
    CHECK_STR(text_of(&w, "/data/f"), "");
    REQUIRE(!open_file(&w, "/data/f", VFS_READ, &f));
    CHECK_EQ(vfs_write(f, &at, false, "x", 1, &n), VFS_EBADF);
    vfs_close(f);
    REQUIRE(!open_file(&w, "/data/f", VFS_WRITE, &f));
    CHECK_EQ(vfs_read(f, 0, text, 1, &n), VFS_EBADF);
    vfs_close(f);
    world_close(&w);
}

/* ---- Reading folders ---- */

TEST(a_cookie_stays_good_while_entries_come_and_go) {
    world w;
    vfs_file *dir = NULL;
    char name[32];
    unsigned seen[1000] = { 0 };
    REQUIRE(!world_open(&w, NULL));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "/data/%d", i);
        CHECK_EQ(put_text(&w, name, ""), BRU_OK);
    }
    REQUIRE(!open_file(&w, "/data", VFS_READ | VFS_FOLDER, &dir));
    vfs_dirent d = { .next = 0 };
    int step = 0;
    while (!vfs_readdir(dir, d.next, &d) && d.len) {
        int i = atoi(d.name);
        if (d.name[0] == '.' || d.name[0] == 'n') continue;
        seen[i]++;
        /* What was just seen goes, and something new comes, so that tables grow and shrink. */
        snprintf(name, sizeof name, "/data/%d", i);
        if (i % 2) CHECK_EQ(remove_file(&w, name), VFS_OK);
        snprintf(name, sizeof name, "/data/n%d", step++);
        if (i % 3 == 0) CHECK_EQ(put_text(&w, name, ""), BRU_OK);
    }
    for (int i = 0; i < 1000; i++) CHECK_EQ(seen[i], 1);
    vfs_close(dir);
    world_close(&w);
}

TEST(a_folder_shows_dots_and_mounts_and_then_its_own) {
    world w;
    vfs_file *dir = NULL;
    REQUIRE(!world_open(&w, NULL));
    CHECK_STR(names_in(&w, "/"), "dev data tmp");
    CHECK_STR(names_in(&w, "/dev"), "full null random stderr stdin stdout urandom zero");
    vfs_fs *other = NULL;
    REQUIRE(!memtree_new(NULL, &other, NULL));
    CHECK_EQ(vfs_mount(w.v, "/a/b/c", other, NULL), BRU_OK);
    CHECK_EQ(vfs_mount(w.v, "/data", other, NULL), BRU_OK); /* covers what is there */
    CHECK_EQ(vfs_mount(w.v, "/data/", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "relative", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "/", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "/x/..", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "/dev/null/x", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "/dev/none/x", other, NULL), BRU_EINVAL);
    CHECK_EQ(vfs_mount(w.v, "/dev/shm", other, NULL), BRU_OK); /* in a read-only one */
    CHECK_STR(names_in(&w, "/"), "dev data tmp a");
    CHECK_STR(names_in(&w, "/dev"), "shm full null random stderr stdin stdout urandom zero");
    CHECK_STR(names_in(&w, "/a/b"), "c");
    CHECK_EQ(put_text(&w, "/data/x", "shared"), BRU_OK);
    CHECK_STR(text_of(&w, "/a/b/c/x"), "shared");
    CHECK_STR(text_of(&w, "/a/b/c/../../../dev/shm/x"), "shared");
    CHECK_EQ(move(&w, "/a/b", "/q"), VFS_EBUSY); /* what mounts lie in stays */
    CHECK_EQ(remove_dir(&w, "/a/b/c"), VFS_EBUSY);
    CHECK_EQ(move(&w, "/data/x", "/dev/shm/y"), VFS_EXDEV);
    REQUIRE(!open_file(&w, "/a/b/c", VFS_READ | VFS_FOLDER, &dir));
    vfs_stat up;
    CHECK_EQ(vfs_get_stat(w.v, dir, "../../b/c/x", 11, true, &up), VFS_OK);
    vfs_dirent d;
    vfs_stat st;
    CHECK_EQ(vfs_readdir(dir, 1, &d), VFS_OK);
    CHECK_STR(d.name, "..");
    CHECK_EQ(stat_of(&w, "/a/b", &st), VFS_OK);
    CHECK_EQ(d.ino, st.ino);
    CHECK_EQ(vfs_readdir(dir, UINT64_MAX, &d), VFS_OK);
    CHECK_EQ(d.len, 0);
    vfs_close(dir);
    fs_unref(other);
    for (unsigned i = 0; i < VFS_MOUNTS_MAX; i++) {
        char path[16];
        snprintf(path, sizeof path, "/m%u", i);
        bru_status st2 = vfs_mount(w.v, path, w.tree, NULL);
        CHECK(st2 == (i < VFS_MOUNTS_MAX - 5 ? BRU_OK : BRU_ELIMIT));
    }
    world_close(&w);
}

/* ---- Devices ---- */

TEST(devices_do_what_their_names_say) {
    static const struct {
        const char *path;
        vfs_err open_read, open_write;
        size_t read;
        vfs_err write;
    } rows[] = {
        { "/dev/null", VFS_OK, VFS_OK, 0, VFS_OK },
        { "/dev/zero", VFS_OK, VFS_OK, 8, VFS_OK },
        { "/dev/full", VFS_OK, VFS_OK, 8, VFS_ENOSPC },
        { "/dev/random", VFS_OK, VFS_OK, 8, VFS_OK },
        { "/dev/urandom", VFS_OK, VFS_OK, 8, VFS_OK },
        { "/dev/stdin", VFS_OK, VFS_EACCES, 0, 0 },
        { "/dev/stdout", VFS_EACCES, VFS_OK, 0, VFS_OK },
        { "/dev/stderr", VFS_EACCES, VFS_OK, 0, VFS_OK },
    };
    world w;
    REQUIRE(!world_open(&w, NULL));
    EACH(r, rows) {
        vfs_file *f = NULL;
        char bytes[8];
        size_t n = 99;
        uint64_t at = 0;
        CHECK_EQ(open_file(&w, r->path, VFS_READ, &f), r->open_read);
        if (f) CHECK_EQ(vfs_read(f, 0, bytes, 8, &n), VFS_OK);
        if (f) CHECK_EQ(n, r->read);
        vfs_close(f);
        f = NULL;
        CHECK_EQ(open_file(&w, r->path, VFS_WRITE | VFS_CREATE | VFS_TRUNC, &f), r->open_write);
        if (f) CHECK_EQ(vfs_write(f, &at, false, "12345678", 8, &n), r->write);
        if (f) CHECK_EQ(vfs_file_resize(f, 0), VFS_EINVAL);
        if (f) CHECK_EQ(vfs_file_allocate(f, 0, 1), VFS_ESPIPE);
        vfs_close(f);
    }
    sink_counts counts;
    sink_get_counts(w.out, &counts);
    CHECK_EQ(counts.kept[SINK_OUT], 8);
    CHECK_EQ(counts.kept[SINK_ERR], 8);
    world_close(&w);
}

TEST_MAIN
