/* Files of a namespace for the embedder: by path, whole. Nothing here is reachable by a guest. */
#include "vfs_internal.h"

#include <string.h>

bru_status vfs_make_folder(vfs *v, const char *path, bru_error *err) {
    size_t len = strlen(path);
    vfs_err e = len ? VFS_OK : VFS_ENOENT;
    for (size_t i = 1; !e && i <= len; i++) {
        if (i < len && path[i] != '/') continue;
        e = vfs_mkdir(v, NULL, path, i);
        if (e == VFS_EEXIST || e == VFS_EROFS) { /* a folder that is there is all that is wanted */
            vfs_stat st;
            vfs_err seen = vfs_get_stat(v, NULL, path, i, true, &st);
            if (!seen) e = st.kind == VFS_DIR ? VFS_OK : VFS_ENOTDIR;
        }
    }
    return vfs_error(err, e, path);
}

/* The folders above what `path` names. */
static bru_status make_above(vfs *v, const char *path, bru_error *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return BRU_OK;
    char *folder = mem_copy(path, (size_t)(slash - path));
    if (!folder) return error_set(err, BRU_ENOMEM, "%s: no memory", path);
    bru_status st = vfs_make_folder(v, folder, err);
    mem_free(folder);
    return st;
}

/* Opens a file, and nothing but a file: what is written to or read from a device is its guest's. */
static vfs_err open_regular(vfs *v, const char *path, unsigned flags, vfs_file **out) {
    vfs_err e = vfs_open(v, NULL, path, strlen(path), flags, out);
    if (e || vfs_file_kind(*out) == VFS_REGULAR) return e;
    e = vfs_file_kind(*out) == VFS_DIR ? VFS_EISDIR : VFS_ENXIO;
    vfs_close(*out);
    *out = NULL;
    return e;
}

static vfs_err write_all(vfs_file *f, uint64_t at, const uint8_t *bytes, size_t len) {
    vfs_err e = VFS_OK;
    while (!e && len > 0) {
        size_t n = 0;
        e = vfs_write(f, &at, false, bytes, len, &n);
        if (!e && n == 0) e = VFS_ENOSPC;
        bytes += n;
        len -= n;
    }
    return e;
}

bru_status vfs_write_file(vfs *v, const char *path, uint64_t at, const void *bytes, size_t len,
                          bool replace, bru_error *err) {
    vfs_file *f = NULL;
    if (at > INT64_MAX - len) return vfs_error(err, VFS_EFBIG, path);
    bru_status st = make_above(v, path, err);
    if (st) return st;
    vfs_err e = open_regular(v, path, VFS_WRITE | VFS_CREATE | (replace ? VFS_TRUNC : 0u), &f);
    if (!e) e = write_all(f, at, bytes, len);
    vfs_close(f);
    return vfs_error(err, e, path);
}

bru_status vfs_put(vfs *v, const char *path, const void *bytes, size_t len, bru_error *err) {
    return vfs_write_file(v, path, 0, bytes, len, true, err);
}

bru_status vfs_read_file(vfs *v, const char *path, uint64_t at, void *out, size_t len, size_t *got,
                         bru_error *err) {
    vfs_file *f = NULL;
    size_t n = 1;
    *got = 0;
    vfs_err e = open_regular(v, path, VFS_READ, &f);
    while (!e && n > 0 && *got < len) {
        e = vfs_read(f, at + *got, (uint8_t *)out + *got, len - *got, &n);
        if (!e) *got += n;
    }
    vfs_close(f);
    return vfs_error(err, e, path);
}

bru_status vfs_get(vfs *v, const char *path, buf *out, bru_error *err) {
    vfs_file *f = NULL;
    size_t before = out->len, n = 1;
    uint64_t at = 0;
    bru_status st = vfs_error(err, open_regular(v, path, VFS_READ, &f), path);
    while (!st && n > 0) {
        uint8_t part[4096];
        st = vfs_error(err, vfs_read(f, at, part, sizeof part, &n), path);
        if (st || n == 0) break;
        st = buf_append(out, part, n);
        if (st == BRU_ELIMIT)
            error_set(err, st, "%s: longer than %zu bytes", path, out->ceiling);
        else if (st)
            error_set(err, st, "%s: no memory", path);
        at += n;
    }
    if (st) out->len = before;
    vfs_close(f);
    return st;
}

bru_status vfs_list(vfs *v, const char *path,
                    bool (*each)(void *ctx, const vfs_dirent *entry, const vfs_stat *stat),
                    void *ctx, bru_error *err) {
    vfs_file *f = NULL;
    vfs_err e = vfs_open(v, NULL, path, strlen(path), VFS_READ | VFS_FOLDER, &f);
    vfs_dirent entry;
    uint64_t cookie = 2; /* behind "." and ".." */
    while (!e) {
        e = vfs_readdir(f, cookie, &entry);
        if (e || entry.len == 0) break;
        vfs_stat st;
        vfs_err seen = vfs_get_stat(v, f, entry.name, entry.len, false, &st);
        cookie = entry.next;
        if (seen == VFS_ENOENT) continue; /* gone meanwhile */
        e = seen;
        if (!e && !each(ctx, &entry, &st)) break;
    }
    vfs_close(f);
    return vfs_error(err, e, path);
}

/* The first entry of a folder that can be removed. */
static vfs_err first_entry(vfs *v, const char *path, size_t len, vfs_dirent *out) {
    vfs_file *f = NULL;
    vfs_err e = vfs_open(v, NULL, path, len, VFS_READ | VFS_FOLDER | VFS_NOFOLLOW, &f);
    if (!e) e = vfs_readdir(f, 2, out);
    vfs_close(f);
    return e;
}

/* Removes what `path` names, going down into folders and up again along the text itself, which
 * has room for VFS_PATH_MAX bytes. Links are removed, not followed. */
static vfs_err remove_all(vfs *v, char *path, size_t top) {
    size_t len = top;
    for (;;) {
        vfs_stat st;
        vfs_err e = vfs_get_stat(v, NULL, path, len, false, &st);
        if (!e && st.kind != VFS_DIR)
            e = vfs_unlink(v, NULL, path, len);
        else if (!e)
            e = vfs_rmdir(v, NULL, path, len);
        if (e == VFS_ENOTEMPTY) {
            vfs_dirent d;
            e = first_entry(v, path, len, &d);
            if (e) return e;
            if (len + 1 + d.len > VFS_PATH_MAX) return VFS_ENAMETOOLONG;
            if (d.len == 0) return VFS_ENOTEMPTY; /* what is in it has no name here */
            path[len++] = '/';
            memcpy(path + len, d.name, d.len);
            len += d.len;
            continue;
        }
        if (e == VFS_ENOENT && len > top) e = VFS_OK;
        if (e || len == top) return e;
        while (path[len - 1] != '/') len--;
        len--;
    }
}

bru_status vfs_remove(vfs *v, const char *path, bru_error *err) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    if (len > VFS_PATH_MAX) return vfs_error(err, VFS_ENAMETOOLONG, "path");
    char *text = mem_zero(1, VFS_PATH_MAX + 1);
    if (!text) return error_set(err, BRU_ENOMEM, "%s: no memory", path);
    memcpy(text, path, len);
    vfs_err e = remove_all(v, text, len);
    mem_free(text);
    return vfs_error(err, e, path);
}
