/* Functions on open descriptors but for reading and writing. */
#include "wasi_internal.h"

#include <string.h>

enum { WHENCE_SET = 0, WHENCE_CUR = 1, WHENCE_END = 2 };
enum { FST_ATIM = 1, FST_ATIM_NOW = 2, FST_MTIM = 4, FST_MTIM_NOW = 8, FST_ALL = 15 };

void filestat_put(uint8_t *p, const vfs_stat *st) {
    memset(p, 0, 64);
    put64(p, st->dev);
    put64(p + 8, st->ino);
    p[16] = (uint8_t)st->kind;
    put64(p + 24, st->links);
    put64(p + 32, st->size);
    put64(p + 40, st->atime);
    put64(p + 48, st->mtime);
    put64(p + 56, st->ctime);
}

wasi_err times_get(uint64_t atime, uint64_t mtime, uint32_t flags, vfs_times *out) {
    if (flags & ~(uint32_t)FST_ALL) return VFS_EINVAL;
    if ((flags & FST_ATIM && flags & FST_ATIM_NOW) || (flags & FST_MTIM && flags & FST_MTIM_NOW))
        return VFS_EINVAL;
    *out = (vfs_times){ .atime = atime,
                        .mtime = mtime,
                        .set_atime = (flags & FST_ATIM) != 0,
                        .set_mtime = (flags & FST_MTIM) != 0,
                        .atime_now = (flags & FST_ATIM_NOW) != 0,
                        .mtime_now = (flags & FST_MTIM_NOW) != 0 };
    return VFS_OK;
}

/* A call on a file that only a file system served by the embedder lets wait. */
static wasi_err on_file(wasi *w, vfs_err e) {
    return e == VFS_WAIT ? wait_for(w, WASI_WAIT_FILES, UINT64_MAX) : (wasi_err)e;
}

wasi_err wasi_fd_advise(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_ADVISE, &f);
    if (e) return e;
    if (a[3] > 5) return VFS_EINVAL;
    return vfs_file_is_stream(f->file) ? VFS_ESPIPE : VFS_OK; /* nothing to be done about it */
}

wasi_err wasi_fd_allocate(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_ALLOCATE, &f);
    return e ? e : on_file(w, vfs_file_allocate(f->file, a[1], a[2]));
}

wasi_err wasi_fd_close(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], 0, &f);
    if (!e) fd_shut(w, f);
    return e;
}

wasi_err wasi_fd_datasync(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_DATASYNC, &f);
    return e ? e : on_file(w, vfs_file_sync(f->file));
}

wasi_err wasi_fd_sync(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_SYNC, &f);
    return e ? e : on_file(w, vfs_file_sync(f->file));
}

wasi_err wasi_fd_fdstat_get(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], 0, &f);
    if (e) return e;
    uint8_t *p = gmem_at(m, (uint32_t)a[1], 24);
    if (!p) return W_EFAULT;
    memset(p, 0, 24);
    p[0] = (uint8_t)vfs_file_kind(f->file);
    put16(p + 2, f->flags);
    put64(p + 8, f->rights);
    put64(p + 16, f->inheriting);
    return VFS_OK;
}

wasi_err wasi_fd_fdstat_set_flags(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_SET_FLAGS, &f);
    if (e) return e;
    if (a[1] & ~(uint64_t)FDFLAGS_ALL) return VFS_EINVAL;
    f->flags = (uint16_t)a[1];
    w->touched = true;
    return VFS_OK;
}

wasi_err wasi_fd_fdstat_set_rights(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], 0, &f);
    if (e) return e;
    if (a[1] & ~f->rights || a[2] & ~f->inheriting) return VFS_ENOTCAPABLE; /* only fewer */
    f->rights = a[1];
    f->inheriting = a[2];
    w->touched = true;
    return VFS_OK;
}

wasi_err wasi_fd_filestat_get(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_FILESTAT_GET, &f);
    if (e) return e;
    uint8_t *p = gmem_at(m, (uint32_t)a[1], 64);
    if (!p) return W_EFAULT;
    vfs_stat st;
    e = on_file(w, vfs_file_stat(f->file, &st));
    if (!e) filestat_put(p, &st);
    return e;
}

wasi_err wasi_fd_filestat_set_size(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_FILESTAT_SET_SIZE, &f);
    return e ? e : on_file(w, vfs_file_resize(f->file, a[1]));
}

wasi_err wasi_fd_filestat_set_times(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *f;
    vfs_times t;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_FILESTAT_SET_TIMES, &f);
    if (!e) e = times_get(a[1], a[2], (uint32_t)a[3], &t);
    return e ? e : on_file(w, vfs_file_set_times(f->file, &t));
}

wasi_err wasi_fd_prestat_get(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], 0, &f);
    if (e) return e;
    if (!f->preopen) return VFS_EBADF;
    uint8_t *p = gmem_at(m, (uint32_t)a[1], 8);
    if (!p) return W_EFAULT;
    put32(p, 0);     /* a folder */
    put32(p + 4, 1); /* the length of "/" */
    return VFS_OK;
}

wasi_err wasi_fd_prestat_dir_name(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], 0, &f);
    if (e) return e;
    if (!f->preopen) return VFS_EBADF;
    if (a[2] < 1) return VFS_ENAMETOOLONG;
    uint8_t *p = gmem_at(m, (uint32_t)a[1], a[2]);
    if (!p) return W_EFAULT;
    p[0] = '/';
    return VFS_OK;
}

/* Writes an entry, or as much of it as there is room for. Answers how much that was. */
static uint32_t dirent_put(uint8_t *p, uint32_t room, const vfs_dirent *d) {
    uint8_t head[24] = { 0 };
    put64(head, d->next);
    put64(head + 8, d->ino);
    put32(head + 16, d->len);
    head[20] = (uint8_t)d->kind;
    uint32_t n = room < sizeof head ? room : (uint32_t)sizeof head;
    memcpy(p, head, n);
    uint32_t name = room - n < d->len ? room - n : d->len;
    memcpy(p + n, d->name, name);
    return n + name;
}

wasi_err wasi_fd_readdir(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_folder(w, a[0], RIGHT_FD_READDIR, &f);
    if (e) return e;
    uint32_t len = (uint32_t)a[2], used = 0;
    uint8_t *p = gmem_at(m, (uint32_t)a[1], len);
    if (!p || !gmem_at(m, (uint32_t)a[4], 4)) return W_EFAULT;
    vfs_dirent d;
    for (uint64_t cookie = a[3]; used < len; cookie = d.next) {
        e = on_file(w, vfs_readdir(f->file, cookie, &d));
        if (e == VFS_WAIT && used > 0) break;
        if (e) return e;
        if (d.len == 0) break;
        used += dirent_put(p + used, len - used, &d);
    }
    gmem_put32(m, (uint32_t)a[4], used);
    return VFS_OK;
}

wasi_err wasi_fd_renumber(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    wasi_fd *from, *to;
    wasi_err e = fd_get(w, a[0], 0, &from);
    if (e || a[0] == a[1]) return e;
    e = a[1] < w->max_fds ? fd_room(w, (uint32_t)a[1]) : VFS_EBADF;
    if (e) return e;
    from = &w->fds[a[0]]; /* the table may have moved */
    to = &w->fds[a[1]];
    if (to->file) fd_shut(w, to);
    *to = *from;
    *from = (wasi_fd){ 0 };
    w->touched = true;
    return VFS_OK;
}

/* Where a seek leads, or EINVAL for a place before the beginning or beyond what a file can have. */
static wasi_err seek_to(uint64_t base, int64_t delta, uint64_t *out) {
    uint64_t at = base + (uint64_t)delta; /* base is no more than INT64_MAX: wraps if negative */
    if (at > INT64_MAX) return VFS_EINVAL;
    *out = at;
    return VFS_OK;
}

wasi_err wasi_fd_seek(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    int64_t delta = (int64_t)a[1];
    bool tell = delta == 0 && a[2] == WHENCE_CUR;
    wasi_err e = fd_get(w, a[0], tell ? RIGHT_FD_TELL : RIGHT_FD_SEEK, &f);
    if (e) return e;
    if (vfs_file_is_stream(f->file)) return VFS_ESPIPE;
    if (a[2] > WHENCE_END) return VFS_EINVAL;
    if (!gmem_at(m, (uint32_t)a[3], 8)) return W_EFAULT;
    uint64_t base = a[2] == WHENCE_CUR ? f->offset : 0, at = 0;
    if (a[2] == WHENCE_END) {
        vfs_stat st;
        e = on_file(w, vfs_file_stat(f->file, &st));
        if (e) return e;
        base = st.size < INT64_MAX ? st.size : INT64_MAX;
    }
    e = seek_to(base, delta, &at);
    if (e) return e;
    f->offset = at;
    w->touched = true;
    gmem_put64(m, (uint32_t)a[3], at);
    return VFS_OK;
}

wasi_err wasi_fd_tell(wasi *w, gmem m, const uint64_t *a) {
    wasi_fd *f;
    wasi_err e = fd_get(w, a[0], RIGHT_FD_TELL, &f);
    if (e) return e;
    if (vfs_file_is_stream(f->file)) return VFS_ESPIPE;
    return gmem_put64(m, (uint32_t)a[1], f->offset) ? VFS_OK : W_EFAULT;
}
