/* Any bytes as an archive: refused, or one that can be walked from end to end. With the first byte
 * odd the sums are made right before, so that the checks behind them are reached. */
#include "fuzz.h"
#include "vfs/archive.h"
#include "vfs/vfs.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

static void resum(uint8_t *p, size_t len) {
    if (len < ARCHIVE_HEADER + ARCHIVE_TRAILER) return;
    memcpy(p, ARCHIVE_MAGIC, 8);
    memcpy(p + len - 8, ARCHIVE_MAGIC, 8);
    le_put(p + HEAD_TOTAL, len, 8);
    le_put(p + HEAD_VERSION, ARCHIVE_VERSION, 4);
    uint64_t tables = le_get(p + HEAD_COUNT, 4) * ARCHIVE_ENTRY;
    uint64_t names = le_get(p + HEAD_NAMES, 8);
    if (tables <= len - ARCHIVE_HEADER && names <= len - ARCHIVE_HEADER - tables)
        le_put(p + HEAD_TABLES_SUM, XXH3_64bits(p + ARCHIVE_HEADER, (size_t)(tables + names)), 8);
    le_put(p + HEAD_SUM, XXH3_64bits(p, HEAD_SUM), 8);
}

static size_t walked;

static void walk_folder(vfs_fs *fs, vfs_node *dir, unsigned depth) {
    void *f = NULL;
    vfs_dirent d = { 0 };
    if (depth > 200) return;
    MUST(fs->ops->open(fs, dir, VFS_READ, &f) == VFS_OK);
    for (;;) {
        MUST(fs->ops->readdir(fs, f, d.next, &d) == VFS_OK);
        if (d.len == 0) break;
        vfs_node *n = NULL, *up = NULL;
        vfs_kind kind;
        MUST(fs->ops->lookup(fs, dir, d.name, d.len, &n, &kind) == VFS_OK); /* by its name, too */
        MUST(kind == d.kind && ++walked < (1 << 20));
        vfs_stat st;
        MUST(fs->ops->stat(fs, n, &st) == VFS_OK);
        if (kind == VFS_DIR) {
            MUST(fs->ops->parent(fs, n, &up) == VFS_OK && up == dir);
            walk_folder(fs, n, depth + 1);
        } else if (kind == VFS_LINK) {
            char text[VFS_PATH_MAX];
            size_t len;
            MUST(fs->ops->readlink(fs, n, text, &len) == VFS_OK && len == st.size);
        } else {
            void *file = NULL;
            static uint8_t part[4096];
            size_t got = 1;
            MUST(fs->ops->open(fs, n, VFS_READ, &file) == VFS_OK);
            for (uint64_t at = 0; got > 0; at += got)
                MUST(fs->ops->read(fs, file, at, part, sizeof part, &got) == VFS_OK);
            fs->ops->close(fs, file);
        }
    }
    fs->ops->close(fs, f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    bool right = data[0] & 1;
    size_t len = size - 1;
    uint8_t *copy = malloc(len ? len : 1);
    MUST(copy != NULL);
    memcpy(copy, data + 1, len);
    if (right) resum(copy, len);
    vfs_fs *fs = NULL;
    bru_error err = { 0 };
    bru_status st = archive_open(copy, len, data[0] & 2, NULL, NULL, &fs, &err);
    MUST(st == BRU_OK || (st == BRU_EFORMAT && strncmp(err.message, "archive: ", 9) == 0));
    walked = 0;
    if (!st) walk_folder(fs, fs->ops->root(fs), 0);
    fs_unref(fs);
    free(copy);
    return 0;
}
