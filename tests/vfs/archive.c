/* Archives: made of a folder, read where they lie, refused when they are not what they say. */
#define _GNU_SOURCE
#include "world.h"

#include <sys/stat.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "vfs/archive.h"

static char top[64];

static void host_put(const char *path, const char *text, size_t len) {
    FILE *f = fopen(path, "w");
    CHECK(f && fwrite(text, 1, len, f) == len);
    if (f) fclose(f);
}

static bool host_setup(void) {
    snprintf(top, sizeof top, "/tmp/bru-arch-XXXXXX");
    if (!mkdtemp(top) || chdir(top)) return false;
    static char big[100000];
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i % 251);
    CHECK_EQ(mkdir("json", 0755), 0);
    CHECK_EQ(mkdir("empty", 0755), 0);
    CHECK_EQ(mkdir("json/sub", 0755), 0);
    host_put("os.py", "import sys\n", 11);
    host_put("json/__init__.py", "", 0);
    host_put("json/decoder.py", "class JSONDecoder: pass\n", 24);
    host_put("json/sub/x", "x", 1);
    host_put("big", big, sizeof big);
    CHECK_EQ(symlink("json/decoder.py", "link"), 0);
    return true;
}

static void host_teardown(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", top);
    CHECK_EQ(chdir("/"), 0);
    CHECK_EQ(system(command), 0);
}

static bru_status to_buf(void *ctx, const void *bytes, size_t len, bru_error *err) {
    bru_status st = buf_append(ctx, bytes, len);
    return st ? error_set(err, st, "buffer") : BRU_OK;
}

static bru_status build(buf *b, bru_error *err) {
    buf_init(b, 1 << 20);
    return archive_build(top, 42, NULL, NULL, to_buf, b, err);
}

static int released;

static void release(void *ctx) {
    (void)ctx;
    released++;
}

TEST(an_archive_shows_the_folder_it_was_made_of) {
    world w;
    buf b;
    bru_error err;
    vfs_fs *fs = NULL;
    vfs_stat st;
    vfs_file *f = NULL;
    REQUIRE(host_setup());
    REQUIRE(!build(&b, &err));
    REQUIRE(!archive_open(b.data, b.len, true, release, NULL, &fs, &err));
    REQUIRE(!world_open(&w, NULL));
    CHECK_EQ(vfs_mount(w.v, "/lib", fs, NULL), BRU_OK);
    fs_unref(fs);
    CHECK_STR(names_in(&w, "/lib"), "big empty json link os.py");
    CHECK_STR(names_in(&w, "/lib/empty"), "");
    CHECK_STR(names_in(&w, "/lib/json"), "__init__.py decoder.py sub");
    CHECK_STR(text_of(&w, "/lib/os.py"), "import sys\n");
    CHECK_STR(text_of(&w, "/lib/link"), "class JSONDecoder: pass\n");
    CHECK_STR(text_of(&w, "/lib/json/sub/../../json/sub/x"), "x");
    CHECK_STR(text_of(&w, "/lib/json/__init__.py"), "");
    CHECK_EQ(stat_of(&w, "/lib/big", &st), VFS_OK);
    CHECK_EQ(st.size, 100000);
    CHECK_EQ(st.mtime, 42);
    REQUIRE(!open_file(&w, "/lib/big", VFS_READ, &f));
    uint8_t part[10];
    size_t n;
    CHECK_EQ(vfs_read(f, 99995, part, 10, &n), VFS_OK);
    CHECK_EQ(n, 5);
    CHECK_EQ(part[0], 99995 % 251);
    CHECK_EQ(vfs_read(f, UINT64_MAX, part, 10, &n), VFS_OK);
    CHECK_EQ(n, 0);
    vfs_close(f);
    static const char *const changes[] = { "/lib/new", "/lib/json/new" };
    EACH(c, changes) {
        CHECK_EQ(try_open(&w, *c, VFS_WRITE | VFS_CREATE), VFS_EROFS);
        CHECK_EQ(make_dir(&w, *c), VFS_EROFS);
        CHECK_EQ(make_link(&w, "x", *c), VFS_EROFS);
        CHECK_EQ(hard_link(&w, "/lib/os.py", *c), VFS_EROFS);
        CHECK_EQ(move(&w, "/lib/os.py", *c), VFS_EROFS);
    }
    CHECK_EQ(try_open(&w, "/lib/os.py", VFS_WRITE), VFS_EROFS);
    CHECK_EQ(try_open(&w, "/lib/os.py", VFS_READ | VFS_TRUNC), VFS_EROFS);
    CHECK_EQ(remove_file(&w, "/lib/os.py"), VFS_EROFS);
    CHECK_EQ(remove_dir(&w, "/lib/empty"), VFS_EROFS);
    released = 0;
    world_close(&w);
    CHECK_EQ(released, 1);
    buf_free(&b);
    host_teardown();
}

static bool no_json(void *ctx, const char *path, vfs_kind kind) {
    (void)ctx;
    return !(kind == VFS_DIR && strcmp(path, "json") == 0) && kind != VFS_LINK;
}

static bru_status fail_late(void *ctx, const void *bytes, size_t len, bru_error *err) {
    (void)bytes;
    size_t *left = ctx;
    if (*left < len) return error_set(err, BRU_EIO, "full");
    *left -= len;
    return BRU_OK;
}

TEST(building_is_repeatable_and_says_what_it_cannot_take) {
    buf a, b;
    bru_error err;
    vfs_fs *fs = NULL;
    REQUIRE(host_setup());
    REQUIRE(!build(&a, &err));
    host_put("zz", "", 0);
    CHECK_EQ(unlink("zz"), 0);
    REQUIRE(!build(&b, &err));
    CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    buf_free(&b);
    buf_init(&b, 1 << 20);
    CHECK_EQ(archive_build(top, 0, no_json, NULL, to_buf, &b, &err), BRU_OK);
    CHECK(b.len < a.len);
    CHECK_EQ(archive_open(b.data, b.len, true, NULL, NULL, &fs, &err), BRU_OK);
    fs_unref(fs);
    for (size_t room = 0; room < a.len; room += a.len / 37) {
        size_t left = room;
        CHECK_EQ(archive_build(top, 0, NULL, NULL, fail_late, &left, &err), BRU_EIO);
    }
    CHECK_EQ(archive_build("/none/such", 0, NULL, NULL, to_buf, &b, &err), BRU_ENOENT);
    CHECK_EQ(archive_build("os.py", 0, NULL, NULL, to_buf, &b, &err), BRU_EINVAL);
    CHECK_EQ(mkfifo("json/fifo", 0644), 0);
    CHECK_EQ(archive_build(top, 0, NULL, NULL, to_buf, &b, &err), BRU_EINVAL);
    CHECK(strstr(err.message, "json/fifo") != NULL);
    CHECK_EQ(unlink("json/fifo"), 0);
    CHECK_EQ(symlink("/etc/passwd", "json/abs"), 0);
    CHECK_EQ(archive_build(top, 0, NULL, NULL, to_buf, &b, &err), BRU_EINVAL);
    CHECK(strstr(err.message, "json/abs") != NULL);
    buf_free(&a);
    buf_free(&b);
    host_teardown();
}

/* Makes the sums of a changed archive right again, so that the checks behind them are reached. */
static void resum(uint8_t *p) {
    uint64_t count = le_get(p + HEAD_COUNT, 4), names = le_get(p + HEAD_NAMES, 8);
    le_put(p + HEAD_TABLES_SUM, XXH3_64bits(p + ARCHIVE_HEADER, count * ARCHIVE_ENTRY + names), 8);
    le_put(p + HEAD_SUM, XXH3_64bits(p, HEAD_SUM), 8);
}

TEST(a_foreign_or_damaged_archive_is_an_error_that_says_why) {
    buf b;
    bru_error err;
    vfs_fs *fs = NULL;
    REQUIRE(host_setup());
    REQUIRE(!build(&b, &err));
    released = 0;
    CHECK_EQ(archive_open("PK\3\4", 4, false, release, NULL, &fs, &err), BRU_EFORMAT);
    CHECK_EQ(released, 1); /* also when it fails */
    for (size_t len = 0; len < b.len; len += 1 + len / 50) {
        CHECK_EQ(archive_open(b.data, len, false, NULL, NULL, &fs, &err), BRU_EFORMAT);
        CHECK(fs == NULL && strncmp(err.message, "archive: ", 9) == 0);
    }
    size_t data = (size_t)le_get(b.data + HEAD_DATA, 8);
    for (size_t i = 0; i < b.len; i += 1 + i / 3000) {
        b.data[i] ^= 1;
        bru_status st = archive_open(b.data, b.len, true, NULL, NULL, &fs, &err);
        size_t names_end = ARCHIVE_HEADER + le_get(b.data + HEAD_COUNT, 4) * ARCHIVE_ENTRY +
                           le_get(b.data + HEAD_NAMES, 8);
        bool gap = i >= names_end && i < data; /* padding belongs to nothing */
        CHECK(gap || st == BRU_EFORMAT);
        if (!st) fs_unref(fs);
        b.data[i] ^= 1;
    }
    /* With the sums right: every number in the tables, changed in every way that one byte can be,
     * gives an error or an archive that can be walked. */
    uint32_t count = (uint32_t)le_get(b.data + HEAD_COUNT, 4);
    size_t accepted = 0;
    for (size_t i = HEAD_VERSION; i < ARCHIVE_HEADER + count * ARCHIVE_ENTRY; i++) {
        static const uint8_t flips[] = { 0x01, 0x80, 0xFF, 0x04 };
        if (i >= HEAD_TABLES_SUM && i < HEAD_RESERVED) continue;
        if (i >= HEAD_SUM && i < ARCHIVE_HEADER) continue;
        for (size_t k = 0; k < sizeof flips; k++) {
            uint8_t *copy = mem_copy(b.data, b.len);
            copy[i] ^= flips[k];
            if (le_get(copy + HEAD_COUNT, 4) == count &&
                le_get(copy + HEAD_NAMES, 8) == le_get(b.data + HEAD_NAMES, 8))
                resum(copy);
            if (!archive_open(copy, b.len, false, NULL, NULL, &fs, &err)) {
                world w;
                if (!world_open(&w, NULL) && !vfs_mount(w.v, "/lib", fs, NULL)) {
                    names_in(&w, "/lib");
                    names_in(&w, "/lib/json");
                    text_of(&w, "/lib/json/sub/x");
                    text_of(&w, "/lib/link");
                }
                world_close(&w);
                fs_unref(fs);
                accepted++;
            }
            mem_free(copy);
        }
    }
    CHECK(accepted > 0);
    buf_free(&b);
    host_teardown();
}

TEST(an_extended_archive_is_as_one_of_a_folder_with_all_of_it) {
    const archive_file files[] = {
        { "json/sub/y", "more", 4 }, { "a!", "", 0 },     { "zoo/keeper/x", "1", 1 },
        { "json-c", "x", 1 },        { "zoo/b", "2", 1 }, { "json/sub/a/b", "3", 1 },
    };
    buf base, whole, extended;
    bru_error err;
    vfs_fs *fs = NULL;
    REQUIRE(host_setup());
    REQUIRE(!build(&base, &err));
    REQUIRE(!archive_open(base.data, base.len, true, NULL, NULL, &fs, &err));
    buf_init(&extended, 1 << 20);
    CHECK_EQ(archive_extend(fs, files, 6, 42, to_buf, &extended, &err), BRU_OK);
    CHECK_EQ(mkdir("zoo", 0755) | mkdir("zoo/keeper", 0755) | mkdir("json/sub/a", 0755), 0);
    EACH(f, files) host_put(f->path, f->data, f->len);
    REQUIRE(!build(&whole, &err));
    CHECK(whole.len == extended.len && memcmp(whole.data, extended.data, whole.len) == 0);
    FAULT_SWEEP {
        bru_error e;
        buf_clear(&extended);
        bru_status st = archive_extend(fs, files, 6, 42, to_buf, &extended, &e);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
    }
    fs_unref(fs);
    buf_free(&base);
    buf_free(&whole);
    buf_free(&extended);
    host_teardown();
}

TEST(archives_survive_each_failed_allocation) {
    REQUIRE(host_setup());
    FAULT_SWEEP {
        buf b;
        vfs_fs *fs = NULL;
        bru_error err;
        bru_status st = build(&b, &err);
        if (!st) st = archive_open(b.data, b.len, true, NULL, NULL, &fs, &err);
        CHECK(st == BRU_OK || fs == NULL);
        fs_unref(fs);
        buf_free(&b);
    }
    host_teardown();
}

TEST_MAIN
