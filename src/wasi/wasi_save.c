/* Descriptors as data, and back. */
#include "wasi_internal.h"

#include <stdio.h>
#include <string.h>

/* What one descriptor is; the path, then the data of a file without one, follow. */
typedef struct record {
    uint32_t fd;
    uint16_t flags;   /* FDFLAG_* */
    uint8_t standard; /* which of the four that every context has, or OTHER */
    uint8_t preopen;
    uint32_t how; /* VFS_READ, VFS_WRITE, VFS_FOLDER */
    uint32_t path_len;
    uint64_t offset, rights, inheriting;
    uint64_t data_len;
} record;

enum { OTHER = 255 };
enum { HOW = VFS_READ | VFS_WRITE | VFS_FOLDER };
/* The largest file without a name that goes along. */
#define NAMELESS_MAX (64ull << 20)

/* ---- Saving ---- */

static uint8_t standard_of(const wasi *w, const vfs_file *file) {
    for (uint8_t i = 0; i < STD_COUNT; i++)
        if (w->std[i] == file) return i;
    return OTHER;
}

static bru_status save_data(vfs_file *file, uint64_t size, buf *out) {
    uint8_t chunk[4096];
    bru_status st = BRU_OK;
    for (uint64_t at = 0; !st && at < size;) {
        size_t n = 0, want = size - at < sizeof chunk ? (size_t)(size - at) : sizeof chunk;
        if (vfs_peek(file, at, chunk, want, &n) || n == 0) return BRU_EIO;
        st = buf_append(out, chunk, n);
        at += n;
    }
    return st;
}

/* Size of a file that was opened and then removed; 0 also for what is not such a file. */
static uint64_t nameless_size(vfs_file *file) {
    vfs_stat st;
    bool regular = vfs_file_kind(file) == VFS_REGULAR && vfs_file_stat(file, &st) == VFS_OK;
    return regular ? st.size : 0;
}

static bru_status save_fd(const wasi *w, uint32_t fd, buf *out, bru_error *err) {
    const wasi_fd *f = &w->fds[fd];
    vfs_path path = { .at = VFS_PATH_MAX };
    record r = { .fd = fd,
                 .flags = f->flags,
                 .standard = standard_of(w, f->file),
                 .preopen = f->preopen,
                 .how = vfs_file_flags(f->file) & HOW,
                 .offset = f->offset,
                 .rights = f->rights,
                 .inheriting = f->inheriting };
    if (vfs_file_kind(f->file) == VFS_DIR) r.how |= VFS_FOLDER;
    vfs_err e = r.standard == OTHER ? vfs_file_path(f->file, &path) : VFS_OK;
    if (e && e != VFS_ENOENT) return BRU_OK; /* it will be closed */
    if (e) {
        path.at = VFS_PATH_MAX;
        r.data_len = nameless_size(f->file);
    }
    r.path_len = (uint32_t)(VFS_PATH_MAX - path.at);
    if (r.data_len > NAMELESS_MAX)
        return error_set(err, BRU_ELIMIT,
                         "a file that was removed while open has %llu MiB: close it first",
                         (unsigned long long)r.data_len >> 20);
    bru_status st = buf_append(out, &r, sizeof r);
    if (!st) st = buf_append(out, path.text + path.at, r.path_len);
    if (!st && r.data_len) st = save_data(f->file, r.data_len, out);
    return st ? error_set(err, st, "no room for the open files") : BRU_OK;
}

bru_status wasi_fds_save(const wasi *w, buf *out, bru_error *err) {
    bru_status st = BRU_OK;
    for (uint32_t fd = 0; !st && w->touched && fd < w->fd_count; fd++)
        if (w->fds[fd].file) st = save_fd(w, fd, out, err);
    return st;
}

/* ---- Reading back ---- */

/* The next record of `*left` bytes, if it is whole and can be one of this context. */
static bool next(const uint8_t **at, size_t *left, uint32_t first, uint32_t max_fds, record *r,
                 const char **path, const uint8_t **data) {
    if (*left < sizeof *r) return false;
    memcpy(r, *at, sizeof *r);
    size_t room = *left - sizeof *r;
    if (r->path_len > room || r->path_len > VFS_PATH_MAX || r->data_len > room - r->path_len)
        return false;
    if (r->fd < first || r->fd >= max_fds || r->flags & ~(unsigned)FDFLAGS_ALL || r->preopen > 1)
        return false;
    if ((r->standard >= STD_COUNT && r->standard != OTHER) || r->how & ~(uint32_t)HOW) return false;
    if (r->offset > INT64_MAX || (r->rights | r->inheriting) & ~RIGHTS_ALL) return false;
    *path = (const char *)*at + sizeof *r;
    *data = *at + sizeof *r + r->path_len;
    size_t len = sizeof *r + r->path_len + (size_t)r->data_len;
    *at += len;
    *left -= len;
    return true;
}

uint32_t wasi_fds_count(const void *bytes, size_t len) {
    const uint8_t *at = bytes, *data;
    const char *path;
    uint32_t count = 0, first = 0;
    record r;
    while (next(&at, &len, first, UINT32_MAX, &r, &path, &data)) {
        count += r.standard == OTHER;
        first = r.fd + 1;
    }
    return count;
}

static vfs_err fill(vfs_file *file, const uint8_t *data, uint64_t len) {
    vfs_err e = VFS_OK;
    for (uint64_t at = 0; !e && at < len;) {
        size_t n = 0;
        uint64_t to = at;
        e = vfs_write(file, &to, false, data + at, (size_t)(len - at), &n);
        if (!e && n == 0) e = VFS_ENOSPC;
        at += n;
    }
    return e;
}

/* Makes a file for a moment's name, and opens it as it was. */
static vfs_err open_nameless(wasi *w, const record *r, const uint8_t *data, vfs_file **out) {
    vfs_file *file = NULL;
    char name[40];
    size_t len = 0;
    vfs_err e = VFS_EEXIST;
    for (unsigned i = 0; e == VFS_EEXIST && i < 1000; i++) {
        len = (size_t)snprintf(name, sizeof name, "/.brumate-%u-%u", r->fd, i);
        e = vfs_open(w->files, NULL, name, len, VFS_WRITE | VFS_CREATE | VFS_EXCL, &file);
    }
    if (e) return e;
    e = fill(file, data, r->data_len);
    vfs_close(file);
    if (!e) e = vfs_open(w->files, NULL, name, len, r->how, out);
    (void)vfs_unlink(w->files, NULL, name, len);
    return e;
}

/* VFS_ENOMEM is the host's matter; whatever else fails leaves the descriptor closed. */
static vfs_err load_fd(wasi *w, const record *r, const char *path, const uint8_t *data) {
    vfs_file *file = NULL;
    vfs_err e = fd_room(w, r->fd);
    if (e) return e;
    wasi_fd *f = &w->fds[r->fd];
    *f = (wasi_fd){ .offset = r->offset,
                    .rights = r->rights,
                    .inheriting = r->inheriting,
                    .flags = r->flags,
                    .preopen = r->preopen };
    if (r->standard != OTHER)
        f->file = w->std[r->standard];
    else if (r->path_len)
        e = vfs_open(w->files, NULL, path, r->path_len, r->how, &file);
    else
        e = open_nameless(w, r, data, &file);
    if (file && ((r->how & VFS_FOLDER) != 0) != (vfs_file_kind(file) == VFS_DIR)) {
        vfs_close(file);
        file = NULL;
    }
    if (file) f->file = file;
    if (!f->file) *f = (wasi_fd){ 0 };
    return e == VFS_ENOMEM ? e : VFS_OK;
}

bru_status wasi_fds_load(wasi *w, const void *bytes, size_t len, bru_error *err) {
    const uint8_t *at = bytes, *data;
    const char *path;
    record r;
    vfs_err e = VFS_OK;
    if (len == 0) return BRU_OK;
    w->touched = true;
    for (uint32_t i = 0; i < STD_COUNT; i++) w->fds[i] = (wasi_fd){ 0 };
    for (uint32_t first = 0; !e && len > 0; first = r.fd + 1) {
        if (!next(&at, &len, first, w->max_fds, &r, &path, &data))
            return error_set(err, BRU_EFORMAT, "the snapshot's descriptors are malformed");
        e = load_fd(w, &r, path, data);
    }
    return vfs_error(err, e, "the snapshot's descriptors");
}
