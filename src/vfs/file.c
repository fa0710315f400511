/* Open files: checks that hold for every file system, then its own function. */
#include "vfs_internal.h"

#include <string.h>

/* Cookies of a folder: ".", "..", then a place for every mount, then the file system's own. */
#define COOKIE_MOUNTS 2u
#define COOKIE_OWN    (COOKIE_MOUNTS + VFS_MOUNTS_MAX)

static vfs_fs *fs_of(const vfs_file *f) {
    return f->mount->fs;
}

vfs_kind vfs_file_kind(const vfs_file *f) {
    return f->kind;
}

unsigned vfs_file_flags(const vfs_file *f) {
    return f->flags;
}

bool vfs_file_is_stream(const vfs_file *f) {
    return f->kind == VFS_CHAR;
}

vfs_err vfs_read(vfs_file *f, uint64_t at, void *out, size_t len, size_t *n) {
    const vfs_ops *ops = fs_of(f)->ops;
    *n = 0;
    if (f->kind == VFS_DIR) return VFS_EISDIR;
    if (!(f->flags & VFS_READ)) return VFS_EBADF;
    return ops->read ? ops->read(fs_of(f), f->file, at, out, len, n) : VFS_ENOTSUP;
}

vfs_err vfs_peek(vfs_file *f, uint64_t at, void *out, size_t len, size_t *n) {
    const vfs_ops *ops = fs_of(f)->ops;
    *n = 0;
    return ops->read ? ops->read(fs_of(f), f->file, at, out, len, n) : VFS_ENOTSUP;
}

vfs_err vfs_file_path(vfs_file *f, vfs_path *out) {
    const vfs_ops *ops = fs_of(f)->ops;
    const char *mounted = f->mount->path;
    *out = (vfs_path){ .at = VFS_PATH_MAX };
    vfs_err e = ops->path ? ops->path(fs_of(f), f->file, out) : VFS_ENOTSUP;
    if (!e && mounted) e = path_add(out, mounted + 1, strlen(mounted + 1));
    if (!e && out->at == VFS_PATH_MAX) e = path_add(out, "", 0);
    return e;
}

vfs_err vfs_write(vfs_file *f, uint64_t *at, bool append, const void *bytes, size_t len,
                  size_t *n) {
    const vfs_ops *ops = fs_of(f)->ops;
    *n = 0;
    if (f->kind == VFS_DIR) return VFS_EISDIR;
    if (!(f->flags & VFS_WRITE)) return VFS_EBADF;
    return ops->write ? ops->write(fs_of(f), f->file, at, append, bytes, len, n) : VFS_EROFS;
}

vfs_err vfs_file_stat(vfs_file *f, vfs_stat *out) {
    vfs_err e = fs_of(f)->ops->file_stat(fs_of(f), f->file, out);
    if (!e) out->dev = mount_number(f->owner, f->mount);
    return e;
}

vfs_err vfs_file_set_times(vfs_file *f, const vfs_times *t) {
    const vfs_ops *ops = fs_of(f)->ops;
    return ops->file_set_times ? ops->file_set_times(fs_of(f), f->file, t) : VFS_EROFS;
}

vfs_err vfs_file_resize(vfs_file *f, uint64_t size) {
    const vfs_ops *ops = fs_of(f)->ops;
    if (f->kind == VFS_DIR) return VFS_EISDIR;
    if (f->kind != VFS_REGULAR || !(f->flags & VFS_WRITE)) return VFS_EINVAL;
    return ops->resize ? ops->resize(fs_of(f), f->file, size) : VFS_EROFS;
}

vfs_err vfs_file_allocate(vfs_file *f, uint64_t at, uint64_t len) {
    const vfs_ops *ops = fs_of(f)->ops;
    if (f->kind == VFS_CHAR) return VFS_ESPIPE;
    if (f->kind != VFS_REGULAR) return VFS_ENODEV;
    if (!(f->flags & VFS_WRITE)) return VFS_EBADF;
    if (len == 0) return VFS_EINVAL;
    if (at > UINT64_MAX - len) return VFS_EFBIG;
    return ops->allocate ? ops->allocate(fs_of(f), f->file, at, len) : VFS_EROFS;
}

vfs_err vfs_file_sync(vfs_file *f) {
    const vfs_ops *ops = fs_of(f)->ops;
    return ops->sync ? ops->sync(fs_of(f), f->file) : VFS_OK;
}

static void dirent_set(vfs_dirent *out, const char *name, size_t len, uint64_t ino, vfs_kind kind,
                       uint64_t next) {
    out->next = next;
    out->ino = ino;
    out->kind = kind;
    out->len = (uint32_t)len;
    memcpy(out->name, name, len);
    out->name[len] = '\0';
}

static vfs_err dots(vfs_file *f, uint64_t cookie, vfs_dirent *out) {
    place p = place_hold((place){ f->mount, f->node, VFS_DIR });
    vfs_err e = cookie ? place_up(&p) : VFS_OK;
    if (e == VFS_ENOENT) e = VFS_OK; /* of a removed folder: itself */
    vfs_stat st = { 0 };
    if (!e) e = p.mount->fs->ops->stat(p.mount->fs, p.node, &st);
    if (!e) dirent_set(out, "..", cookie ? 2 : 1, st.ino, VFS_DIR, cookie + 1);
    place_drop(&p);
    return e;
}

/* The first mount in the folder from a cookie on; false if there is none. */
static bool mounts(vfs_file *f, uint64_t cookie, vfs_dirent *out, vfs_err *e) {
    const vfs *v = f->owner;
    place here = { f->mount, f->node, VFS_DIR };
    for (size_t i = (size_t)(cookie - COOKIE_MOUNTS); i < v->mount_count; i++) {
        const vfs_mountpoint *m = &v->mounts[i];
        if (m->up != f->mount || mount_at(f->owner, &here, m->name, m->len) != m) continue;
        vfs_stat st = { 0 };
        *e = m->fs->ops->stat(m->fs, m->fs->ops->root(m->fs), &st);
        if (!*e) dirent_set(out, m->name, m->len, st.ino, m->kind, COOKIE_MOUNTS + i + 1);
        return true;
    }
    return false;
}

vfs_err vfs_readdir(vfs_file *f, uint64_t cookie, vfs_dirent *out) {
    vfs_fs *fs = fs_of(f);
    vfs_err e = VFS_OK;
    if (f->kind != VFS_DIR) return VFS_ENOTDIR;
    if (cookie < COOKIE_MOUNTS) return dots(f, cookie, out);
    if (cookie < COOKIE_OWN) {
        if (mounts(f, cookie, out, &e)) return e;
        cookie = COOKIE_OWN;
    }
    if (!fs->ops->readdir) return VFS_ENOTSUP;
    place here = { f->mount, f->node, VFS_DIR };
    uint64_t own = cookie - COOKIE_OWN;
    do { /* what a mount covers was answered before */
        e = fs->ops->readdir(fs, f->file, own, out);
        if (e || out->len == 0) return e;
        own = out->next;
    } while (mount_at(f->owner, &here, out->name, out->len));
    out->next = own + COOKIE_OWN;
    return VFS_OK;
}

vfs_err vfs_ready(vfs_file *f, bool write, uint64_t at, uint64_t *bytes, bool *eof) {
    const vfs_ops *ops = fs_of(f)->ops;
    *bytes = 0;
    *eof = false;
    if (f->kind == VFS_CHAR && ops->ready) return ops->ready(fs_of(f), f->file, write, bytes, eof);
    if (write || f->kind != VFS_REGULAR) return VFS_OK;
    vfs_stat st;
    vfs_err e = vfs_file_stat(f, &st);
    if (!e && st.size > at) *bytes = st.size - at;
    return e;
}
