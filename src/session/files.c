/* Folders and files as the embedder is told of them. */
#include "session/files.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_BYTES_MAX = 256 << 20 }; /* of the names and facts of one folder */

static bru_file_kind kind_of(vfs_kind kind) {
    switch (kind) {
    case VFS_DIR: return BRU_FOLDER;
    case VFS_LINK: return BRU_LINK;
    case VFS_CHAR: return BRU_DEVICE;
    default: return BRU_FILE;
    }
}

static bru_file_info info_of(const char *name, const vfs_stat *st) {
    return (bru_file_info){
        .name = name, .kind = kind_of(st->kind), .size = st->size, .mtime_ns = st->mtime
    };
}

bru_status files_stat(vfs *v, const char *path, bru_file_info *out, bru_error *err) {
    vfs_stat st;
    bru_status status = vfs_error(err, vfs_get_stat(v, NULL, path, strlen(path), true, &st), path);
    if (!status) *out = info_of(strrchr(path, '/') + 1, &st);
    return status;
}

/* A folder is read whole before anything of it is told: in order of names, and as it was. */
typedef struct listing {
    buf names; /* NUL-terminated, one behind the other */
    buf files; /* of bru_file_info; `name` is set when all are there, `size_t` offsets till then */
    bru_status failed;
} listing;

static bool list_add(void *ctx, const vfs_dirent *entry, const vfs_stat *st) {
    listing *l = ctx;
    bru_file_info file = info_of((const char *)(uintptr_t)l->names.len, st);
    l->failed = buf_append(&l->files, &file, sizeof file);
    if (!l->failed) l->failed = buf_append(&l->names, entry->name, entry->len + 1);
    return !l->failed;
}

static int by_name(const void *a, const void *b) {
    const bru_file_info *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void list_tell(listing *l, int (*each)(void *ctx, const bru_file_info *file), void *ctx) {
    bru_file_info *files = (bru_file_info *)(void *)l->files.data;
    size_t count = l->files.len / sizeof *files;
    for (size_t i = 0; i < count; i++)
        files[i].name = (const char *)l->names.data + (uintptr_t)files[i].name;
    if (count > 1) qsort(files, count, sizeof *files, by_name);
    for (size_t i = 0; i < count && each(ctx, &files[i]); i++) continue;
}

bru_status files_list(vfs *v, const char *path, int (*each)(void *ctx, const bru_file_info *file),
                      void *ctx, bru_error *err) {
    listing l = { .failed = BRU_OK };
    buf_init(&l.names, LIST_BYTES_MAX);
    buf_init(&l.files, LIST_BYTES_MAX);
    bru_status st = vfs_list(v, path, list_add, &l, err);
    if (!st && l.failed) st = error_set(err, l.failed, "%s: too large to be listed", path);
    if (!st) list_tell(&l, each, ctx);
    buf_free(&l.names);
    buf_free(&l.files);
    return st;
}
