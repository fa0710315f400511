/* Reading and writing. A list of buffers is checked as a whole before anything happens, and each
 * buffer again when its turn comes: the call itself may have changed the list meanwhile. */
#include "wasi_internal.h"

#include <string.h>

#define IOVS_MAX 1024u
/* A file gives and takes no more bytes in one call: a guest's deadline waits for it. */
#define FILE_IO_MAX (4u << 20)

/* Checks a list of `count` buffers at `at`, 8 bytes each. */
static wasi_err iovs_check(gmem m, uint32_t at, uint64_t count) {
    if (count > IOVS_MAX) return VFS_EINVAL;
    if (!gmem_at(m, at, count * 8)) return W_EFAULT;
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t base, len;
        if (!gmem_get32(m, at + i * 8, &base) || !gmem_get32(m, at + i * 8 + 4, &len) ||
            !gmem_at(m, base, len))
            return W_EFAULT;
        total += len;
    }
    return total > UINT32_MAX ? VFS_EINVAL : VFS_OK;
}

/* The buffer number `i` of a list that was checked; NULL if it is no good any more. */
static uint8_t *iov_get(gmem m, uint32_t at, uint32_t i, uint32_t *len) {
    uint32_t base;
    if (!gmem_get32(m, at + i * 8, &base) || !gmem_get32(m, at + i * 8 + 4, len)) return NULL;
    return gmem_at(m, base, *len);
}

/* A call of this file: its descriptor and its arguments, checked. */
typedef struct io {
    wasi_fd *f;
    uint32_t iovs, count, result;
    uint64_t at; /* offset in the file */
} io;

/* `a` begins with fd, iovs, count. */
static wasi_err io_begin(wasi *w, gmem m, const uint64_t *a, uint64_t rights, uint32_t result,
                         io *out) {
    *out = (io){ .iovs = (uint32_t)a[1], .count = (uint32_t)a[2], .result = result };
    wasi_err e = fd_get(w, a[0], rights, &out->f);
    if (!e) e = iovs_check(m, out->iovs, a[2]);
    if (!e && !gmem_at(m, result, 4)) e = W_EFAULT;
    if (!e) out->at = out->f->offset;
    return e;
}

/* For the calls that bring their offset. */
static wasi_err io_at(io *c, uint64_t at) {
    if (vfs_file_is_stream(c->f->file)) return VFS_ESPIPE;
    if (at > INT64_MAX) return VFS_EINVAL;
    c->at = at;
    return VFS_OK;
}

/* ---- Reading ---- */

static wasi_err read_all(wasi *w, gmem m, io *c, uint32_t *done) {
    vfs_err e = VFS_OK;
    *done = 0;
    for (uint32_t i = 0; i == 0 || i < c->count; i++) {
        uint32_t len = 0;
        uint8_t nothing, *p = c->count ? iov_get(m, c->iovs, i, &len) : &nothing;
        if (!p) break;
        size_t n = 0, part = len < FILE_IO_MAX - *done ? len : FILE_IO_MAX - *done;
        e = vfs_read(c->f->file, c->at, p, part, &n);
        if (e) break;
        *done += (uint32_t)n;
        c->at += n;
        if (n < len || (n > 0 && vfs_file_is_stream(c->f->file))) break;
    }
    if (*done > 0 || !e) return VFS_OK;
    if (e != VFS_WAIT) return (wasi_err)e;
    if (!vfs_file_is_stream(c->f->file)) return wait_for(w, WASI_WAIT_FILES, UINT64_MAX);
    if (c->f->flags & FDFLAG_NONBLOCK) return VFS_EAGAIN;
    return wait_for(w, WASI_WAIT_INPUT, UINT64_MAX);
}

wasi_err wasi_fd_read(wasi *w, gmem m, const uint64_t *a) {
    io c;
    uint32_t done;
    wasi_err e = io_begin(w, m, a, RIGHT_FD_READ, (uint32_t)a[3], &c);
    if (!e) e = read_all(w, m, &c, &done);
    if (e) return e;
    if (!vfs_file_is_stream(c.f->file)) c.f->offset = c.at;
    gmem_put32(m, c.result, done);
    return VFS_OK;
}

wasi_err wasi_fd_pread(wasi *w, gmem m, const uint64_t *a) {
    io c;
    uint32_t done;
    wasi_err e = io_begin(w, m, a, RIGHT_FD_READ, (uint32_t)a[4], &c);
    if (!e) e = io_at(&c, a[3]);
    if (!e) e = read_all(w, m, &c, &done);
    if (!e) gmem_put32(m, c.result, done);
    return e;
}

/* ---- Writing ---- */

/* Writes what is behind the first `w->op.done` bytes, which an earlier pass of the same call
 * wrote. Counts what is done in all passes. */
static vfs_err write_rest(wasi *w, gmem m, io *c, bool append, uint64_t *done) {
    uint64_t skip = w->op.done;
    bool again = skip > 0;
    vfs_err e = VFS_OK;
    size_t n = 0, left = vfs_file_is_stream(c->f->file) ? SIZE_MAX : FILE_IO_MAX;
    *done = skip;
    for (uint32_t i = 0; i < c->count; i++) {
        uint32_t len = 0;
        const uint8_t *p = iov_get(m, c->iovs, i, &len);
        if (!p) break;
        uint64_t over = skip < len ? skip : len;
        skip -= over;
        if (over == len && len > 0) continue;
        size_t rest = len - (size_t)over;
        e = vfs_write(c->f->file, &c->at, append, p + over, rest < left ? rest : left, &n);
        *done += n;
        left -= n;
        again = false;
        if (e || n < rest) break;
    }
    /* With nothing left, or nothing to begin with: has it been taken, may it be written at all? */
    if (again || c->count == 0) e = vfs_write(c->f->file, &c->at, append, "", 0, &n);
    return e;
}

static wasi_err write_all(wasi *w, gmem m, io *c, bool append, uint32_t *out) {
    uint64_t done = 0;
    vfs_err e = write_rest(w, m, c, append, &done);
    bool stream = vfs_file_is_stream(c->f->file);
    if (e == VFS_WAIT && done == 0 && stream && c->f->flags & FDFLAG_NONBLOCK) return VFS_EAGAIN;
    if (e == VFS_WAIT && !(w->interrupted && done > 0)) {
        w->op.done = done;
        return wait_for(w, stream ? WASI_WAIT_OUTPUT : WASI_WAIT_FILES, UINT64_MAX);
    }
    if (e == VFS_STOP) return VFS_STOP;
    if (e && done == 0) return (wasi_err)e;
    if (c->f->flags & (FDFLAG_SYNC | FDFLAG_DSYNC)) vfs_file_sync(c->f->file);
    *out = (uint32_t)done;
    return VFS_OK;
}

wasi_err wasi_fd_write(wasi *w, gmem m, const uint64_t *a) {
    io c;
    uint32_t done = 0;
    wasi_err e = io_begin(w, m, a, RIGHT_FD_WRITE, (uint32_t)a[3], &c);
    if (e) return e;
    e = write_all(w, m, &c, (c.f->flags & FDFLAG_APPEND) != 0, &done);
    c.f->offset = vfs_file_is_stream(c.f->file) ? 0 : c.at;
    if (!e) gmem_put32(m, c.result, done);
    return e;
}

wasi_err wasi_fd_pwrite(wasi *w, gmem m, const uint64_t *a) {
    io c;
    uint32_t done = 0;
    wasi_err e = io_begin(w, m, a, RIGHT_FD_WRITE, (uint32_t)a[4], &c);
    if (!e) e = io_at(&c, a[3]);
    if (e) return e;
    c.at += w->op.done;
    e = write_all(w, m, &c, false, &done);
    if (!e) gmem_put32(m, c.result, done);
    return e;
}
