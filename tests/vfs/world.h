/* A namespace to test with, and the calls of vfs with paths as C strings. */
#ifndef BRU_TESTS_VFS_WORLD_H
#define BRU_TESTS_VFS_WORLD_H

#include "test.h"
#include "vfs/vfs.h"

typedef struct world {
    vfs_fs *tree;
    sink *out;
    source *in;
    vfs *v;
} world;

static inline bru_status world_open(world *w, const memtree_options *opt) {
    *w = (world){ 0 };
    bru_status st = memtree_new(opt, &w->tree, NULL);
    if (!st) st = sink_new(NULL, &w->out, NULL);
    if (!st) st = source_new(false, &w->in, NULL);
    if (!st) st = vfs_new(w->tree, w->out, w->in, NULL, &w->v, NULL);
    return st;
}

static inline void world_close(world *w) {
    vfs_free(w->v);
    sink_free(w->out);
    source_free(w->in);
    fs_unref(w->tree);
    *w = (world){ 0 };
}

static inline vfs_err open_file(world *w, const char *path, unsigned flags, vfs_file **f) {
    return vfs_open(w->v, NULL, path, strlen(path), flags, f);
}
/* Opens and closes. */
static inline vfs_err try_open(world *w, const char *path, unsigned flags) {
    vfs_file *f = NULL;
    vfs_err e = open_file(w, path, flags, &f);
    vfs_close(f);
    return e;
}
static inline vfs_err make_dir(world *w, const char *path) {
    return vfs_mkdir(w->v, NULL, path, strlen(path));
}
static inline vfs_err remove_dir(world *w, const char *path) {
    return vfs_rmdir(w->v, NULL, path, strlen(path));
}
static inline vfs_err remove_file(world *w, const char *path) {
    return vfs_unlink(w->v, NULL, path, strlen(path));
}
static inline vfs_err make_link(world *w, const char *target, const char *path) {
    return vfs_symlink(w->v, target, strlen(target), NULL, path, strlen(path));
}
static inline vfs_err hard_link(world *w, const char *from, const char *to) {
    return vfs_link(w->v, NULL, from, strlen(from), false, NULL, to, strlen(to));
}
static inline vfs_err move(world *w, const char *from, const char *to) {
    return vfs_rename(w->v, NULL, from, strlen(from), NULL, to, strlen(to));
}
static inline vfs_err stat_of(world *w, const char *path, vfs_stat *st) {
    return vfs_get_stat(w->v, NULL, path, strlen(path), true, st);
}
static inline vfs_kind kind_at(world *w, const char *path) {
    vfs_stat st;
    return vfs_get_stat(w->v, NULL, path, strlen(path), false, &st) ? VFS_UNKNOWN : st.kind;
}
static inline bru_status put_text(world *w, const char *path, const char *text) {
    return vfs_put(w->v, path, text, strlen(text), NULL);
}
/* The content of a file, in a buffer that the next call overwrites; NULL if it cannot be read. */
static inline const char *text_of(world *w, const char *path) {
    static char text[4096];
    buf b;
    buf_init(&b, sizeof text - 1);
    bru_status st = vfs_get(w->v, path, &b, NULL);
    if (!st && b.len) memcpy(text, b.data, b.len);
    text[b.len] = '\0';
    buf_free(&b);
    return st ? NULL : text;
}
/* The names in a folder, joined by spaces, "." and ".." left out. */
static inline const char *names_in(world *w, const char *path) {
    static char names[8192];
    vfs_file *f = NULL;
    vfs_dirent d = { .next = 2 };
    size_t len = 0;
    names[0] = '\0';
    if (open_file(w, path, VFS_READ | VFS_FOLDER, &f)) return NULL;
    while (!vfs_readdir(f, d.next, &d) && d.len && len + d.len + 2 < sizeof names) {
        if (len) names[len++] = ' ';
        memcpy(names + len, d.name, d.len + 1);
        len += d.len;
    }
    vfs_close(f);
    return names;
}

#endif
