/* What a tree may take, by every route, and its life as a whole: clearing, forking, saving. */
#include "world.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* ---- The quota, by every route ---- */

static vfs_err fill_by_writing(world *w) {
    vfs_file *f = NULL;
    vfs_err e = open_file(w, "/data/big", VFS_WRITE | VFS_CREATE, &f);
    static char part[65536];
    uint64_t at = 0;
    size_t n;
    while (!e) e = vfs_write(f, &at, false, part, sizeof part, &n);
    vfs_close(f);
    return e;
}
static vfs_err fill_by_appending_bytes(world *w) {
    vfs_file *f = NULL;
    vfs_err e = open_file(w, "/data/big", VFS_WRITE | VFS_CREATE, &f);
    uint64_t at = 0;
    size_t n;
    while (!e) e = vfs_write(f, &at, true, "0123456789", 10, &n);
    vfs_close(f);
    return e;
}
static vfs_err fill_by_allocating(world *w) {
    vfs_file *f = NULL;
    vfs_err e = open_file(w, "/data/big", VFS_WRITE | VFS_CREATE, &f);
    for (uint64_t size = 4096; !e; size += 4096) e = vfs_file_allocate(f, 0, size);
    vfs_close(f);
    return e;
}
static vfs_err fill_by_many(world *w, vfs_err (*make)(world *w, const char *path), size_t pad) {
    vfs_err e = VFS_OK;
    char path[300];
    for (int i = 0; !e; i++) {
        snprintf(path, sizeof path, "/data/%0*d", (int)pad, i);
        e = make(w, path);
    }
    return e;
}
static vfs_err make_empty(world *w, const char *p) {
    return try_open(w, p, VFS_WRITE | VFS_CREATE);
}
static vfs_err make_long_link(world *w, const char *p) {
    static char target[VFS_PATH_MAX + 1];
    memset(target, 't', VFS_PATH_MAX);
    return make_link(w, target, p);
}
static vfs_err make_small(world *w, const char *p) {
    bru_error err;
    bru_status st = vfs_put(w->v, p, "x", 1, &err);
    return st == BRU_ELIMIT ? VFS_ENOSPC : st ? VFS_EIO : VFS_OK;
}
static vfs_err make_sparse(world *w, const char *p) {
    vfs_file *f = NULL;
    size_t n;
    uint64_t at = (8 << 20) - 1; /* a table as long as can be, and one block */
    vfs_err e = open_file(w, p, VFS_WRITE | VFS_CREATE, &f);
    if (!e) e = vfs_write(f, &at, false, "x", 1, &n);
    vfs_close(f);
    return e;
}
static vfs_err make_hard(world *w, const char *p) {
    if (kind_at(w, "/tmp/one") == VFS_UNKNOWN) make_empty(w, "/tmp/one");
    return hard_link(w, "/tmp/one", p);
}
static vfs_err fill_by_empty_files(world *w) {
    return fill_by_many(w, make_empty, 1);
}
static vfs_err fill_by_long_names(world *w) {
    return fill_by_many(w, make_empty, 250);
}
static vfs_err fill_by_folders(world *w) {
    return fill_by_many(w, make_dir, 1);
}
static vfs_err fill_by_links(world *w) {
    return fill_by_many(w, make_long_link, 1);
}
static vfs_err fill_by_small_files(world *w) {
    return fill_by_many(w, make_small, 1);
}
static vfs_err fill_by_sparse_files(world *w) {
    return fill_by_many(w, make_sparse, 1);
}
static vfs_err fill_by_hard_links(world *w) {
    return fill_by_many(w, make_hard, 1);
}
static vfs_err fill_by_depth(world *w) {
    vfs_file *at = NULL, *next = NULL;
    vfs_err e = VFS_OK;
    while (!e) { /* path by path it would end at the longest path */
        e = vfs_mkdir(w->v, at, "data", 4);
        if (e == VFS_EEXIST) e = VFS_OK;
        if (!e) e = vfs_open(w->v, at, "data", 4, VFS_READ | VFS_FOLDER, &next);
        if (e) break;
        vfs_close(at);
        at = next;
    }
    vfs_close(at);
    return e;
}
static vfs_err fill_by_unlinked_files(world *w) {
    static vfs_file *held[100000];
    size_t count = 0;
    vfs_err e = VFS_OK;
    while (!e && count < 100000) {
        e = open_file(w, "/data/f", VFS_WRITE | VFS_CREATE, &held[count]);
        if (e) break;
        remove_file(w, "/data/f");
        uint64_t at = 0;
        size_t n;
        e = vfs_write(held[count++], &at, false, "x", 1, &n);
    }
    while (count) vfs_close(held[--count]);
    return e;
}

#define QUOTA (8u << 20)

static const struct {
    const char *what;
    vfs_err (*fill)(world *w);
    uint64_t entries;
    vfs_err want;
} routes[] = {
    { "writing", fill_by_writing, 1000000, VFS_ENOSPC },
    { "appending", fill_by_appending_bytes, 1000000, VFS_ENOSPC },
    { "allocating", fill_by_allocating, 1000000, VFS_ENOSPC },
    { "empty files", fill_by_empty_files, 1000000, VFS_ENOSPC },
    { "long names", fill_by_long_names, 1000000, VFS_ENOSPC },
    { "folders", fill_by_folders, 1000000, VFS_ENOSPC },
    { "links", fill_by_links, 1000000, VFS_ENOSPC },
    { "small files", fill_by_small_files, 1000000, VFS_ENOSPC },
    { "sparse files", fill_by_sparse_files, 1000000, VFS_ENOSPC },
    { "hard links", fill_by_hard_links, 1000000, VFS_EMLINK },
    { "depth", fill_by_depth, 1000000, VFS_ENAMETOOLONG },
    { "unlinked files", fill_by_unlinked_files, 1000000, VFS_ENOSPC },
    { "entries", fill_by_empty_files, 100, VFS_ENOSPC },
    { "entries as links", fill_by_hard_links, 100, VFS_ENOSPC },
};

static size_t host_bytes(void) {
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
#else
    return 0;
#endif
}

TEST(the_quota_counts_every_route_and_comes_back) {
    EACH(r, routes) {
        world w;
        memtree_options opt = { .max_bytes = QUOTA, .max_entries = r->entries };
        size_t before = host_bytes();
        REQUIRE(!world_open(&w, &opt));
        memtree_usage empty, full;
        memtree_get_usage(w.tree, &empty);
        vfs_err e = r->fill(&w);
        if (e != r->want)
            fprintf(stderr, "by %s: %s, not %s\n", r->what, vfs_err_text(e), vfs_err_text(r->want));
        CHECK_EQ(e, r->want);
        memtree_get_usage(w.tree, &full);
        CHECK(full.bytes <= QUOTA && full.entries <= r->entries);
        size_t taken = host_bytes() - before;
        if (taken > QUOTA / 10 * 11) fprintf(stderr, "by %s: %zu host bytes\n", r->what, taken);
        CHECK(taken <= QUOTA / 10 * 11);
        if (r->entries > 100 && e == VFS_ENOSPC && r->fill != fill_by_unlinked_files)
            CHECK(full.bytes > QUOTA / 2); /* and it is not far too careful */
        vfs_remove(w.v, "/data/data", NULL);
        memtree_clear(w.tree);
        memtree_get_usage(w.tree, &full);
        CHECK(full.bytes <= empty.bytes);
        CHECK_EQ(full.entries, empty.entries);
        CHECK_EQ(put_text(&w, "/data/again", "ok"), BRU_OK);
        world_close(&w);
    }
}

TEST(deleting_one_by_one_gives_all_of_the_quota_back) {
    world w;
    char path[64];
    memtree_usage before, after;
    REQUIRE(!world_open(&w, NULL));
    memtree_get_usage(w.tree, &before);
    for (int i = 0; i < 5000; i++) {
        snprintf(path, sizeof path, "/data/dir/%d", i);
        CHECK_EQ(put_text(&w, path, "x"), BRU_OK);
    }
    CHECK_EQ(vfs_remove(w.v, "/data/dir", NULL), BRU_OK);
    memtree_get_usage(w.tree, &after);
    CHECK_EQ(after.bytes, before.bytes);
    CHECK_EQ(after.entries, before.entries);
    memtree_set_limits(w.tree, 1, 1);
    CHECK_EQ(make_empty(&w, "/data/x"), VFS_ENOSPC);
    memtree_set_limits(w.tree, 1 << 20, 1000);
    CHECK_EQ(make_empty(&w, "/data/x"), VFS_OK);
    world_close(&w);
}

TEST(a_rename_needs_no_entry_to_spare) {
    world w;
    memtree_options opt = { .max_entries = 4 };
    REQUIRE(!world_open(&w, &opt)); /* data and tmp are two */
    CHECK_EQ(make_empty(&w, "/data/a"), VFS_OK);
    CHECK_EQ(make_empty(&w, "/data/b"), VFS_OK);
    CHECK_EQ(make_empty(&w, "/data/c"), VFS_ENOSPC);
    CHECK_EQ(move(&w, "/data/a", "/tmp/c"), VFS_OK);
    CHECK_EQ(move(&w, "/tmp/c", "/data/b"), VFS_OK);
    CHECK_EQ(make_empty(&w, "/data/c"), VFS_OK);
    world_close(&w);
}

/* ---- Clear, fork, save ---- */

static void build(world *w) {
    CHECK_EQ(put_text(w, "/data/a/b/text", "some text"), BRU_OK);
    CHECK_EQ(put_text(w, "/data/empty", ""), BRU_OK);
    CHECK_EQ(hard_link(w, "/data/a/b/text", "/data/other"), VFS_OK);
    CHECK_EQ(make_link(w, "a/b/text", "/data/link"), VFS_OK);
    vfs_file *f = NULL;
    uint64_t at = 100000;
    size_t n;
    CHECK_EQ(open_file(w, "/data/sparse", VFS_WRITE | VFS_CREATE, &f), VFS_OK);
    CHECK_EQ(vfs_write(f, &at, false, "end", 3, &n), VFS_OK);
    CHECK_EQ(vfs_file_resize(f, 300000), VFS_OK);
    vfs_close(f);
}

static void check_built(world *w) {
    vfs_stat a, b;
    CHECK_STR(text_of(w, "/data/a/b/text"), "some text");
    CHECK_STR(text_of(w, "/data/link"), "some text");
    CHECK_EQ(stat_of(w, "/data/other", &a), VFS_OK);
    CHECK_EQ(stat_of(w, "/data/a/b/text", &b), VFS_OK);
    CHECK_EQ(a.ino, b.ino);
    CHECK_EQ(a.links, 2);
    CHECK_EQ(stat_of(w, "/data/sparse", &a), VFS_OK);
    CHECK_EQ(a.size, 300000);
    vfs_file *f = NULL;
    char text[5] = "";
    size_t n;
    CHECK_EQ(open_file(w, "/data/sparse", VFS_READ, &f), VFS_OK);
    if (!f) return;
    CHECK_EQ(vfs_read(f, 99999, text, 5, &n), VFS_OK);
    CHECK(memcmp(text, "\0end", 5) == 0);
    vfs_close(f);
    CHECK_STR(names_in(w, "/data"), "a empty other link sparse");
}

TEST(clearing_leaves_fixed_folders_and_open_files) {
    world w;
    vfs_file *f = NULL, *dir = NULL;
    char text[16] = "";
    size_t n;
    vfs_dirent d;
    REQUIRE(!world_open(&w, NULL));
    build(&w);
    CHECK_EQ(memtree_fix(w.tree, "/keep/this", NULL), BRU_OK);
    CHECK_EQ(memtree_fix(w.tree, "/data/empty/x", NULL), BRU_EINVAL);
    CHECK_EQ(memtree_fix(w.tree, "/data/../x", NULL), BRU_EINVAL);
    CHECK_EQ(put_text(&w, "/keep/this/not", "x"), BRU_OK);
    REQUIRE(!open_file(&w, "/data/link", VFS_READ, &f));
    REQUIRE(!open_file(&w, "/data/a/b", VFS_READ | VFS_FOLDER, &dir));
    memtree_clear(w.tree);
    CHECK_STR(names_in(&w, "/"), "dev data tmp keep");
    CHECK_STR(names_in(&w, "/keep"), "this");
    CHECK_STR(names_in(&w, "/keep/this"), "");
    CHECK_STR(names_in(&w, "/data"), "");
    CHECK_EQ(vfs_read(f, 0, text, 15, &n), VFS_OK);
    CHECK_STR(text, "some text");
    CHECK_EQ(vfs_readdir(dir, 2, &d), VFS_OK);
    CHECK_EQ(d.len, 0);
    vfs_close(f);
    vfs_close(dir);
    build(&w);
    check_built(&w);
    world_close(&w);
}

TEST(a_fork_has_the_same_files_and_neither_side_sees_the_other_write) {
    world w, copy = { 0 };
    REQUIRE(!world_open(&w, NULL));
    build(&w);
    memtree_usage a, b;
    vfs_file *f = NULL;
    uint64_t at = 5;
    size_t n;
    REQUIRE(!open_file(&w, "/data/other", VFS_WRITE, &f));
    REQUIRE(!memtree_fork(w.tree, &copy.tree, NULL));
    REQUIRE(!vfs_new(copy.tree, NULL, NULL, NULL, &copy.v, NULL));
    check_built(&copy);
    memtree_get_usage(w.tree, &a);
    memtree_get_usage(copy.tree, &b);
    CHECK_EQ(a.entries, b.entries);
    CHECK(b.bytes <= a.bytes && b.max_bytes == a.max_bytes);
    CHECK_EQ(vfs_write(f, &at, false, "TEXT", 4, &n), VFS_OK);
    CHECK_STR(text_of(&w, "/data/a/b/text"), "some TEXT");
    CHECK_STR(text_of(&copy, "/data/a/b/text"), "some text");
    CHECK_EQ(put_text(&copy, "/data/link", "short"), BRU_OK);
    CHECK_STR(text_of(&w, "/data/link"), "some TEXT");
    CHECK_EQ(remove_dir(&copy, "/tmp"), VFS_EBUSY);
    vfs_close(f);
    world_close(&w); /* the blocks that are still shared outlive it */
    CHECK_STR(text_of(&copy, "/data/other"), "short");
    CHECK_EQ(kind_at(&copy, "/data/sparse"), VFS_REGULAR);
    memtree_clear(copy.tree);
    world_close(&copy);
}

TEST(a_saved_tree_comes_back_and_a_damaged_one_is_an_error) {
    world w, back;
    buf b;
    buf_init(&b, 1 << 20);
    REQUIRE(!world_open(&w, NULL));
    build(&w);
    REQUIRE(!memtree_save(w.tree, &b, NULL));
    CHECK(b.len < 20000); /* holes are not written */
    REQUIRE(!world_open(&back, NULL));
    CHECK_EQ(put_text(&back, "/data/gone", "x"), BRU_OK);
    CHECK_EQ(memtree_load(back.tree, b.data, b.len, NULL), BRU_OK);
    check_built(&back);
    vfs_stat x, y;
    CHECK_EQ(stat_of(&w, "/data/other", &x), VFS_OK);
    CHECK_EQ(stat_of(&back, "/data/other", &y), VFS_OK);
    CHECK_EQ(x.mtime, y.mtime);
    CHECK_EQ(stat_of(&w, "/data/a", &x), VFS_OK); /* of folders too, though filled later */
    CHECK_EQ(stat_of(&back, "/data/a", &y), VFS_OK);
    CHECK_EQ(x.mtime, y.mtime);
    bru_error err;
    for (size_t len = 0; len < b.len; len += len < 600 ? 1 : 1000) {
        CHECK_EQ(memtree_load(back.tree, b.data, len, &err), BRU_EFORMAT);
        CHECK_STR(names_in(&back, "/data"), "");
    }
    for (size_t i = 0; i < b.len && i < 600; i++) { /* whatever comes of it, it is bounded */
        uint8_t was = b.data[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            b.data[i] = (uint8_t)(was ^ 1u << bit);
            bru_status st = memtree_load(back.tree, b.data, b.len, &err);
            CHECK(st == BRU_OK || st == BRU_EFORMAT || st == BRU_ELIMIT);
        }
        b.data[i] = was;
    }
    memtree_set_limits(back.tree, 6000, 0);
    CHECK_EQ(memtree_load(back.tree, b.data, b.len, &err), BRU_ELIMIT);
    buf small;
    buf_init(&small, 100);
    CHECK_EQ(memtree_save(w.tree, &small, &err), BRU_ELIMIT);
    CHECK_EQ(small.len, 0);
    buf_free(&small);
    buf_free(&b);
    world_close(&w);
    world_close(&back);
}

/* ---- Failures ---- */

TEST(every_step_of_a_tree_survives_each_failed_allocation) {
    FAULT_SWEEP {
        world w;
        vfs_fs *fork = NULL;
        buf b;
        buf_init(&b, 1 << 20);
        bru_status st = world_open(&w, NULL);
        if (!st) st = put_text(&w, "/data/a/b", "text");
        if (!st) make_link(&w, "a/b", "/data/l");
        if (!st) hard_link(&w, "/data/a/b", "/data/h");
        if (!st) move(&w, "/data/h", "/tmp/h");
        for (int i = 0; !st && i < 40; i++) {
            char path[32];
            snprintf(path, sizeof path, "/data/a/%d", i);
            st = put_text(&w, path, "x");
            if (i % 3 && !st) remove_file(&w, path);
        }
        if (!st) st = vfs_mount(w.v, "/mnt/x", w.tree, NULL);
        if (!st) st = memtree_fork(w.tree, &fork, NULL);
        if (!st) st = memtree_save(w.tree, &b, NULL);
        if (!st) st = memtree_load(w.tree, b.data, b.len, NULL);
        if (!st) st = vfs_remove(w.v, "/data/a", NULL);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
        if (w.tree) memtree_clear(w.tree);
        fs_unref(fork);
        buf_free(&b);
        world_close(&w);
    }
}

TEST_MAIN
