/* See os_fs.h. On Linux a path is resolved by one openat2 that may neither leave the root nor meet
 * a link; elsewhere by opening its parts one after the other, none of which may be a link. Names
 * are then made, moved and removed in the folder so opened, by a single part that the system does
 * not follow. */
#define _GNU_SOURCE
#include "os_fs.h"
#include "fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/openat2.h>
#endif
#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

static int result(int r) {
    return r < 0 ? -errno : r;
}

/* ---- Resolving ---- */

static int open_whole(int root, const char *path, int flags) {
#if defined(__linux__) && defined(SYS_openat2)
    struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
                            .resolve =
                                RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
    for (int tries = 0;; tries++) {
        long fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof how);
        if (fd >= 0) return (int)fd;
        if (errno != EINTR && (errno != EAGAIN || tries > 32)) return -errno;
    }
#else
    (void)root;
    (void)path;
    (void)flags;
    return -ENOSYS;
#endif
}

static int open_part(int at, const char *name, int flags) {
    for (;;) {
        int fd = openat(at, name, flags | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 || errno != EINTR) return result(fd);
    }
}

static int open_parts(int root, const char *path, int flags) {
    int at = root;
    for (;;) {
        char name[NAME_MAX + 1];
        size_t len = strcspn(path, "/");
        int fd = -ENAMETOOLONG;
        bool last = path[len] == '\0';
        if (len <= NAME_MAX) {
            memcpy(name, path, len);
            name[len] = '\0';
            fd = open_part(at, len ? name : ".", last ? flags : O_PATH | O_DIRECTORY);
        }
        if (at != root) close(at);
        if (last || fd < 0) return fd;
        at = fd;
        path += len + 1;
    }
}

static int open_beneath(const os_root *root, const char *path, int flags) {
    if (fault_hit()) return -EMFILE;
    return root->by_parts ? open_parts(root->fd, path, flags) : open_whole(root->fd, path, flags);
}

/* The folder that a name lies in, and the name; the root's is "." in itself. The root's descriptor
 * is answered as it is, so close_folder must end it. */
static int open_folder(const os_root *root, const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    size_t len = slash ? (size_t)(slash - path) : 0;
    *name = slash ? slash + 1 : *path ? path : ".";
    if (len >= sizeof folder) return -ENAMETOOLONG;
    if (len == 0) return fault_hit() ? -EMFILE : root->fd;
    memcpy(folder, path, len);
    folder[len] = '\0';
    return open_beneath(root, folder, O_PATH | O_DIRECTORY);
}

static void close_folder(const os_root *root, int fd) {
    if (fd != root->fd) close(fd);
}

bool os_has_openat2(void) {
    int fd = open_whole(AT_FDCWD, "", O_PATH | O_DIRECTORY);
    if (fd >= 0) close(fd);
    return fd >= 0 || (fd != -ENOSYS && fd != -EPERM && fd != -EINVAL && fd != -E2BIG);
}

int os_root_open(const char *path, os_root *root, char leaf[256]) {
    *root = (os_root){ .fd = -1 };
    *leaf = '\0';
    if (fault_hit()) return -EMFILE;
    char *real = realpath(path, NULL);
    if (!real) return -errno;
    struct stat st;
    int e = result(lstat(real, &st));
    if (!e && S_ISREG(st.st_mode)) {
        char *slash = strrchr(real, '/');
        size_t len = strlen(slash + 1);
        if (len > 255)
            e = -ENAMETOOLONG;
        else
            memcpy(leaf, slash + 1, len + 1);
        slash[slash == real] = '\0';
    } else if (!e && !S_ISDIR(st.st_mode)) {
        e = -ENXIO;
    }
    if (!e) e = open_part(AT_FDCWD, real, O_PATH | O_DIRECTORY);
    free(real);
    if (e < 0) return e;
    root->fd = e;
    root->by_parts = !os_has_openat2();
    return 0;
}

void os_root_close(os_root *root) {
    if (root->fd >= 0) close(root->fd);
    root->fd = -1;
}

/* ---- Files ---- */

static uint64_t ns_of(struct timespec t) {
    return t.tv_sec < 0 ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static os_kind kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return OS_FOLDER;
    if (S_ISREG(mode)) return OS_FILE;
    return S_ISLNK(mode) ? OS_LINK : OS_SPECIAL;
}

static void stat_fill(const struct stat *st, os_stat *out) {
    *out = (os_stat){ .kind = kind_of(st->st_mode),
                      .ino = st->st_ino,
                      .size = (uint64_t)st->st_size,
                      .links = st->st_nlink,
                      .atime = ns_of(st->st_atim),
                      .mtime = ns_of(st->st_mtim),
                      .ctime = ns_of(st->st_ctim) };
}

int os_fstat(int fd, os_stat *out) {
    struct stat st;
    if (fstat(fd, &st)) return -errno;
    stat_fill(&st, out);
    return 0;
}

int os_lstat(const os_root *root, const char *path, os_stat *out) {
    const char *name;
    struct stat st;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    int e = result(fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW));
    close_folder(root, fd);
    if (!e) stat_fill(&st, out);
    return e;
}

int os_open(const os_root *root, const char *path, unsigned how, os_kind *kind) {
    os_stat st;
    int e = os_lstat(root, path, &st); /* a device is not even opened */
    if (e) return e;
    if (st.kind == OS_SPECIAL) return -ENXIO;
    int flags = how & OS_WRITE ? how & OS_READ ? O_RDWR : O_WRONLY : O_RDONLY;
    int fd = open_beneath(root, path, flags | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return fd;
    e = os_fstat(fd, &st); /* it may be another one by now */
    if (!e && st.kind != OS_FILE && st.kind != OS_FOLDER) e = -ENXIO;
    if (e) close(fd);
    *kind = st.kind;
    return e ? e : fd;
}

void os_fd_close(int fd) {
    close(fd);
}

int64_t os_pread(int fd, void *out, size_t len, uint64_t at) {
    if (at > INT64_MAX || len > INT64_MAX - at) return -EINVAL;
    for (;;) {
        ssize_t n = pread(fd, out, len, (off_t)at);
        if (n >= 0) return n;
        if (errno != EINTR) return -errno;
    }
}

int64_t os_pwrite(int fd, const void *bytes, size_t len, uint64_t at) {
    if (at > INT64_MAX || len > INT64_MAX - at) return -EFBIG;
    for (;;) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);
        if (n >= 0) return n;
        if (errno != EINTR) return -errno;
    }
}

int os_resize(int fd, uint64_t size) {
    if (size > INT64_MAX) return -EFBIG;
    for (;;) {
        int e = result(ftruncate(fd, (off_t)size));
        if (e != -EINTR) return e;
    }
}

int os_fd_allocate(int fd, uint64_t at, uint64_t len) {
    if (at > INT64_MAX || len > INT64_MAX - at) return -EFBIG;
    int e;
    do e = posix_fallocate(fd, (off_t)at, (off_t)len);
    while (e == EINTR);
    return -e;
}

int os_sync(int fd) {
    return result(fsync(fd));
}

static struct timespec timespec_of(uint64_t ns) {
    struct timespec t = { .tv_nsec = UTIME_OMIT };
    if (ns != OS_TIME_OMIT)
        t = (struct timespec){ (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    return t;
}

int os_fset_times(int fd, uint64_t atime, uint64_t mtime) {
    struct timespec t[2] = { timespec_of(atime), timespec_of(mtime) };
    return result(futimens(fd, t));
}

/* ---- Names ---- */

int os_set_times(const os_root *root, const char *path, uint64_t atime, uint64_t mtime) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    struct timespec t[2] = { timespec_of(atime), timespec_of(mtime) };
    int e = result(utimensat(fd, name, t, AT_SYMLINK_NOFOLLOW));
    close_folder(root, fd);
    return e;
}

int os_create(const os_root *root, const char *path) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    int made = fault_hit() ? -EMFILE : result(openat(fd, name, flags, 0666));
    close_folder(root, fd);
    if (made >= 0) close(made);
    return made < 0 ? made : 0;
}

int os_mkdir(const os_root *root, const char *path) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    int e = result(mkdirat(fd, name, 0777));
    close_folder(root, fd);
    return e;
}

static int remove_name(const os_root *root, const char *path, int flags) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    int e = result(unlinkat(fd, name, flags));
    close_folder(root, fd);
    return e;
}

int os_rmdir(const os_root *root, const char *path) {
    return remove_name(root, path, AT_REMOVEDIR);
}

int os_unlink(const os_root *root, const char *path) {
    return remove_name(root, path, 0);
}

int os_symlink(const os_root *root, const char *target, const char *path) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    int e = result(symlinkat(target, fd, name));
    close_folder(root, fd);
    return e;
}

int64_t os_readlink(const os_root *root, const char *path, char *out, size_t cap) {
    const char *name;
    int fd = open_folder(root, path, &name);
    if (fd < 0) return fd;
    ssize_t n = readlinkat(fd, name, out, cap);
    int64_t answer = n < 0 ? -errno : n;
    close_folder(root, fd);
    return answer;
}

/* Both folders of a call with two names. */
static int open_two(const os_root *root, const char *a, const char *b, int fd[2],
                    const char *name[2]) {
    fd[0] = open_folder(root, a, &name[0]);
    if (fd[0] < 0) return fd[0];
    fd[1] = open_folder(root, b, &name[1]);
    if (fd[1] < 0) close_folder(root, fd[0]);
    return fd[1] < 0 ? fd[1] : 0;
}

int os_link(const os_root *root, const char *from, const char *to) {
    int fd[2];
    const char *name[2];
    struct stat st;
    int e = open_two(root, from, to, fd, name);
    if (e) return e;
    e = result(fstatat(fd[0], name[0], &st, AT_SYMLINK_NOFOLLOW));
    if (!e && !S_ISREG(st.st_mode)) e = -EPERM;
    if (!e) e = result(linkat(fd[0], name[0], fd[1], name[1], 0));
    close_folder(root, fd[0]);
    close_folder(root, fd[1]);
    return e;
}

int os_rename(const os_root *root, const char *from, const char *to) {
    int fd[2];
    const char *name[2];
    int e = open_two(root, from, to, fd, name);
    if (e) return e;
    e = result(renameat(fd[0], name[0], fd[1], name[1]));
    close_folder(root, fd[0]);
    close_folder(root, fd[1]);
    return e;
}

static os_kind entry_kind(int fd, const struct dirent *d) {
    struct stat st;
    switch (d->d_type) {
    case DT_DIR: return OS_FOLDER;
    case DT_REG: return OS_FILE;
    case DT_LNK: return OS_LINK;
    case DT_UNKNOWN:
        return fstatat(fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) ? OS_SPECIAL : kind_of(st.st_mode);
    default: return OS_SPECIAL;
    }
}

int os_list(int fd, int (*each)(void *ctx, const char *name, uint64_t ino, os_kind kind),
            void *ctx) {
    int own = fault_hit() ? -EMFILE : open_part(fd, ".", O_RDONLY | O_DIRECTORY);
    if (own < 0) return own;
    DIR *dir = fdopendir(own);
    if (!dir) {
        int e = -errno;
        close(own);
        return e;
    }
    int e = 0;
    while (!e) {
        errno = 0;
        struct dirent *d = readdir(dir);
        if (!d) {
            e = -errno;
            break;
        }
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0) continue;
        e = each(ctx, d->d_name, d->d_ino, entry_kind(own, d));
    }
    closedir(dir);
    return e;
}
