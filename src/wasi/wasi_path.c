/* Functions by path. Paths are used where they lie in the guest's memory: the guest does not run
 * meanwhile, and nothing is written before the path has been walked. */
#include "wasi_internal.h"

#include <string.h>

enum { LOOKUP_FOLLOW = 1 };
enum { O_CREAT = 1, O_DIRECTORY = 2, O_EXCL = 4, O_TRUNC = 8, O_ALL = 15 };

/* A folder and a path below it, checked. */
typedef struct target {
    wasi_fd *f;
    const char *path;
    size_t len;
} target;

static wasi_err target_get(wasi *w, gmem m, uint64_t fd, uint64_t rights, uint64_t path,
                           uint64_t len, target *out) {
    wasi_err e = fd_folder(w, fd, rights, &out->f);
    if (e) return e;
    out->path = gmem_at(m, (uint32_t)path, len);
    out->len = (size_t)len;
    return out->path ? VFS_OK : W_EFAULT;
}

static wasi_err on_path(wasi *w, vfs_err e) {
    return e == VFS_WAIT ? wait_for(w, WASI_WAIT_FILES, UINT64_MAX) : (wasi_err)e;
}

static wasi_err follow_get(uint64_t flags, bool *out) {
    if (flags & ~(uint64_t)LOOKUP_FOLLOW) return VFS_EINVAL;
    *out = flags != 0;
    return VFS_OK;
}

wasi_err wasi_path_create_directory(wasi *w, gmem m, const uint64_t *a) {
    target t;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_CREATE_DIRECTORY, a[1], a[2], &t);
    return e ? e : on_path(w, vfs_mkdir(w->files, t.f->file, t.path, t.len));
}

wasi_err wasi_path_remove_directory(wasi *w, gmem m, const uint64_t *a) {
    target t;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_REMOVE_DIRECTORY, a[1], a[2], &t);
    return e ? e : on_path(w, vfs_rmdir(w->files, t.f->file, t.path, t.len));
}

wasi_err wasi_path_unlink_file(wasi *w, gmem m, const uint64_t *a) {
    target t;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_UNLINK_FILE, a[1], a[2], &t);
    return e ? e : on_path(w, vfs_unlink(w->files, t.f->file, t.path, t.len));
}

wasi_err wasi_path_filestat_get(wasi *w, gmem m, const uint64_t *a) {
    target t;
    bool follow;
    vfs_stat st;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_FILESTAT_GET, a[2], a[3], &t);
    if (!e) e = follow_get(a[1], &follow);
    if (e) return e;
    uint8_t *p = gmem_at(m, (uint32_t)a[4], 64);
    if (!p) return W_EFAULT;
    e = on_path(w, vfs_get_stat(w->files, t.f->file, t.path, t.len, follow, &st));
    if (!e) filestat_put(p, &st);
    return e;
}

wasi_err wasi_path_filestat_set_times(wasi *w, gmem m, const uint64_t *a) {
    target t;
    bool follow;
    vfs_times times;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_FILESTAT_SET_TIMES, a[2], a[3], &t);
    if (!e) e = follow_get(a[1], &follow);
    if (!e) e = times_get(a[4], a[5], (uint32_t)a[6], &times);
    return e ? e : on_path(w, vfs_set_times(w->files, t.f->file, t.path, t.len, follow, &times));
}

wasi_err wasi_path_link(wasi *w, gmem m, const uint64_t *a) {
    target from, to;
    bool follow;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_LINK_SOURCE, a[2], a[3], &from);
    if (!e) e = target_get(w, m, a[4], RIGHT_PATH_LINK_TARGET, a[5], a[6], &to);
    if (!e) e = follow_get(a[1], &follow);
    return e ? e
             : on_path(w, vfs_link(w->files, from.f->file, from.path, from.len, follow, to.f->file,
                                   to.path, to.len));
}

wasi_err wasi_path_rename(wasi *w, gmem m, const uint64_t *a) {
    target from, to;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_RENAME_SOURCE, a[1], a[2], &from);
    if (!e) e = target_get(w, m, a[3], RIGHT_PATH_RENAME_TARGET, a[4], a[5], &to);
    return e ? e
             : on_path(w, vfs_rename(w->files, from.f->file, from.path, from.len, to.f->file,
                                     to.path, to.len));
}

wasi_err wasi_path_symlink(wasi *w, gmem m, const uint64_t *a) {
    target t;
    const char *text = gmem_at(m, (uint32_t)a[0], a[1]);
    wasi_err e = target_get(w, m, a[2], RIGHT_PATH_SYMLINK, a[3], a[4], &t);
    if (e) return e;
    if (!text) return W_EFAULT;
    return on_path(w, vfs_symlink(w->files, text, (size_t)a[1], t.f->file, t.path, t.len));
}

wasi_err wasi_path_readlink(wasi *w, gmem m, const uint64_t *a) {
    target t;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_READLINK, a[1], a[2], &t);
    if (e) return e;
    uint8_t *p = gmem_at(m, (uint32_t)a[3], a[4]);
    if (!p || !gmem_at(m, (uint32_t)a[5], 4)) return W_EFAULT;
    char text[VFS_PATH_MAX];
    size_t len = 0;
    e = on_path(w, vfs_readlink(w->files, t.f->file, t.path, t.len, text, &len));
    if (e) return e;
    if (len > a[4]) len = (size_t)a[4]; /* cut, as readlink(2) does */
    memcpy(p, text, len);
    gmem_put32(m, (uint32_t)a[5], (uint32_t)len);
    return VFS_OK;
}

/* ---- Opening ---- */

#define RIGHTS_TO_READ (RIGHT_FD_READ | RIGHT_FD_READDIR)
#define RIGHTS_TO_WRITE                                                                            \
    (RIGHT_FD_DATASYNC | RIGHT_FD_WRITE | RIGHT_FD_ALLOCATE | RIGHT_FD_FILESTAT_SET_SIZE)

/* What a path_open asks for, in the terms of vfs. */
static unsigned open_flags(bool follow, uint64_t oflags, uint64_t rights) {
    unsigned flags = follow ? 0 : VFS_NOFOLLOW;
    if (oflags & O_CREAT) flags |= VFS_CREATE;
    if (oflags & O_DIRECTORY) flags |= VFS_FOLDER;
    if (oflags & O_EXCL) flags |= VFS_EXCL;
    if (oflags & O_TRUNC) flags |= VFS_TRUNC;
    if (rights & RIGHTS_TO_READ) flags |= VFS_READ;
    /* Rights to write do not apply to a folder: asking for all is asking for those that do. */
    if (rights & RIGHTS_TO_WRITE && !(oflags & O_DIRECTORY)) flags |= VFS_WRITE;
    return flags;
}

static wasi_err open_check(const wasi_fd *dir, const uint64_t *a) {
    uint64_t oflags = a[4], base = a[5] & RIGHTS_ALL, inheriting = a[6] & RIGHTS_ALL;
    if (oflags & ~(uint64_t)O_ALL || a[7] & ~(uint64_t)FDFLAGS_ALL) return VFS_EINVAL;
    if (oflags & O_CREAT && !(dir->rights & RIGHT_PATH_CREATE_FILE)) return VFS_ENOTCAPABLE;
    if (oflags & O_TRUNC && !(dir->rights & RIGHT_PATH_FILESTAT_SET_SIZE)) return VFS_ENOTCAPABLE;
    return (base | inheriting) & ~dir->inheriting ? VFS_ENOTCAPABLE : VFS_OK;
}

wasi_err wasi_path_open(wasi *w, gmem m, const uint64_t *a) {
    target t;
    bool follow;
    uint32_t number = 0;
    wasi_err e = target_get(w, m, a[0], RIGHT_PATH_OPEN, a[2], a[3], &t);
    if (!e) e = follow_get(a[1], &follow);
    if (!e) e = open_check(t.f, a);
    if (!e && !gmem_at(m, (uint32_t)a[8], 4)) e = W_EFAULT;
    if (!e) e = fd_free_number(w, &number);
    if (e) return e;
    t.f = &w->fds[a[0]]; /* the table may have moved */
    vfs_file *file = NULL;
    e = on_path(
        w, vfs_open(w->files, t.f->file, t.path, t.len, open_flags(follow, a[4], a[5]), &file));
    if (e) return e;
    bool folder = vfs_file_kind(file) == VFS_DIR;
    w->fds[number] = (wasi_fd){ .file = file,
                                .flags = (uint16_t)a[7],
                                .rights = a[5] & (folder ? RIGHTS_FOLDER : RIGHTS_FILE),
                                .inheriting = folder ? a[6] & RIGHTS_ALL : 0 };
    w->touched = true;
    gmem_put32(m, (uint32_t)a[8], number);
    return VFS_OK;
}
