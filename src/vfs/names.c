/* Texts: which names are good ones, and what errors are called. */
#include "vfs_internal.h"

#include <stdatomic.h>
#include <string.h>

/* The length of the UTF-8 sequence at `s`, 0 if it is none. */
static size_t sequence(const uint8_t *s, size_t left) {
    if (s[0] < 0x80) return 1;
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4 || len > left) return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (s[0] == 0xE0 && s[1] < 0xA0) return 0; /* longer than need be */
    if (s[0] == 0xED && s[1] > 0x9F) return 0; /* a surrogate */
    if (s[0] == 0xF0 && s[1] < 0x90) return 0;
    if (s[0] == 0xF4 && s[1] > 0x8F) return 0; /* beyond U+10FFFF */
    return len;
}

bool utf8_valid(const char *text, size_t len) {
    const uint8_t *s = (const uint8_t *)text;
    for (size_t i = 0; i < len;) {
        size_t n = sequence(s + i, len - i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}

bool name_valid(const char *name, size_t len) {
    if (len == 0 || len > VFS_NAME_MAX) return false;
    if (memchr(name, '/', len) || memchr(name, '\0', len)) return false;
    if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.'))) return false;
    return utf8_valid(name, len);
}

bool target_valid(const char *target, size_t len) {
    return len > 0 && len <= VFS_PATH_MAX && !memchr(target, '\0', len) && utf8_valid(target, len);
}

vfs_err path_add(vfs_path *p, const char *name, size_t len) {
    if (len >= p->at) return VFS_ENAMETOOLONG;
    p->at -= len + 1;
    p->text[p->at] = '/';
    memcpy(p->text + p->at + 1, name, len);
    return VFS_OK;
}

static const struct {
    vfs_err err;
    bru_status status;
    const char *text;
} texts[] = {
    { VFS_OK, BRU_OK, "success" },
    { VFS_EACCES, BRU_EPERM, "permission denied" },
    { VFS_EAGAIN, BRU_EBUSY, "nothing there at present" },
    { VFS_EBADF, BRU_EINVAL, "not opened for that" },
    { VFS_EBUSY, BRU_EBUSY, "it is a mount point or fixed" },
    { VFS_EEXIST, BRU_EINVAL, "it exists already" },
    { VFS_EFBIG, BRU_ELIMIT, "the file would be too large" },
    { VFS_EILSEQ, BRU_EINVAL, "the name is not UTF-8" },
    { VFS_EINVAL, BRU_EINVAL, "invalid argument" },
    { VFS_EIO, BRU_EIO, "input or output failed" },
    { VFS_EISDIR, BRU_EINVAL, "it is a folder" },
    { VFS_ELOOP, BRU_EINVAL, "too many symbolic links" },
    { VFS_EMFILE, BRU_ELIMIT, "too many open files" },
    { VFS_EMLINK, BRU_ELIMIT, "too many links" },
    { VFS_ENAMETOOLONG, BRU_EINVAL, "the name is too long" },
    { VFS_ENFILE, BRU_ELIMIT, "too many open files on this machine" },
    { VFS_ENODEV, BRU_EINVAL, "no such device" },
    { VFS_ENOENT, BRU_ENOENT, "no such file or folder" },
    { VFS_ENOMEM, BRU_ENOMEM, "out of memory" },
    { VFS_ENOSPC, BRU_ELIMIT, "no space left: raise the limit of files or delete some" },
    { VFS_ENOTDIR, BRU_EINVAL, "it is not a folder" },
    { VFS_ENOTEMPTY, BRU_EINVAL, "the folder is not empty" },
    { VFS_ENOTSUP, BRU_ENOTSUP, "not supported" },
    { VFS_ENXIO, BRU_EINVAL, "not a file or folder" },
    { VFS_EOVERFLOW, BRU_ELIMIT, "too large to be answered" },
    { VFS_EPERM, BRU_EPERM, "not permitted" },
    { VFS_EPIPE, BRU_EIO, "nobody reads" },
    { VFS_EROFS, BRU_EPERM, "it is read-only" },
    { VFS_ESPIPE, BRU_EINVAL, "a stream has no offsets" },
    { VFS_ESTALE, BRU_EIO, "it went away" },
    { VFS_EXDEV, BRU_EINVAL, "it lies in another mount" },
    { VFS_ENOTCAPABLE, BRU_EPERM, "it leads out of what is mounted" },
    { VFS_WAIT, BRU_EBUSY, "it must be waited for" },
    { VFS_STOP, BRU_ELIMIT, "the output limit is reached" },
};

const char *vfs_err_text(vfs_err e) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].err == e) return texts[i].text;
    return "unknown error";
}

bru_status vfs_error(bru_error *err, vfs_err e, const char *what) {
    if (e == VFS_OK) return BRU_OK;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].err == e)
            return error_set(err, texts[i].status, "%s: %s", what, texts[i].text);
    return error_set(err, BRU_EIO, "%s: error %d", what, (int)e);
}

void fs_init(vfs_fs *fs, const vfs_ops *ops) {
    fs->ops = ops;
    atomic_init(&fs->refs, 1);
}

vfs_fs *fs_ref(vfs_fs *fs) {
    atomic_fetch_add(&fs->refs, 1);
    return fs;
}

void fs_unref(vfs_fs *fs) {
    if (fs && atomic_fetch_sub(&fs->refs, 1) == 1) fs->ops->destroy(fs);
}
