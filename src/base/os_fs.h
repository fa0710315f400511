/* The host's files, beneath a folder and nowhere else. Every path here is relative to a root,
 * without ".", ".." and empty parts; "" is the root itself. No symbolic link is followed, in no
 * part of it: one that is met is an error, whoever planted it and whenever. All functions answer
 * a negative errno when they fail. Threads: any. */
#ifndef BRU_BASE_OS_FS_H
#define BRU_BASE_OS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct os_root {
    int fd;
    bool by_parts; /* the kernel cannot confine a whole path: names are opened one by one */
} os_root;

typedef enum os_kind { OS_SPECIAL, OS_FOLDER, OS_FILE, OS_LINK } os_kind;

typedef struct os_stat {
    os_kind kind;
    uint64_t ino, size, links;
    uint64_t atime, mtime, ctime; /* ns since 1970 */
} os_stat;

/* Opens the root that a path of the host leads to, links followed this once. If it leads to a
 * file, the root is its folder and `leaf` its name, else `leaf` is empty. */
int os_root_open(const char *path, os_root *root, char leaf[256]);
void os_root_close(os_root *root);

enum { OS_READ = 1, OS_WRITE = 2 };

/* A descriptor of a regular file or folder; never waits, not for a fifo either: special files are
 * -ENXIO. The kind is put into `*kind`. */
int os_open(const os_root *root, const char *path, unsigned how, os_kind *kind);
void os_fd_close(int fd);
int os_lstat(const os_root *root, const char *path, os_stat *out);
int os_fstat(int fd, os_stat *out);
int64_t os_pread(int fd, void *out, size_t len, uint64_t at);
int64_t os_pwrite(int fd, const void *bytes, size_t len, uint64_t at);
int os_resize(int fd, uint64_t size);
int os_fd_allocate(int fd, uint64_t at, uint64_t len);
int os_sync(int fd);

/* Times in ns since 1970; OS_TIME_OMIT leaves one as it is. */
#define OS_TIME_OMIT UINT64_MAX
int os_fset_times(int fd, uint64_t atime, uint64_t mtime);
int os_set_times(const os_root *root, const char *path, uint64_t atime, uint64_t mtime);

int os_create(const os_root *root, const char *path); /* a new, empty file */
int os_mkdir(const os_root *root, const char *path);
int os_rmdir(const os_root *root, const char *path);
int os_unlink(const os_root *root, const char *path);
int os_symlink(const os_root *root, const char *target, const char *path);
int64_t os_readlink(const os_root *root, const char *path, char *out, size_t cap);
int os_link(const os_root *root, const char *from, const char *to); /* of regular files */
int os_rename(const os_root *root, const char *from, const char *to);

/* Calls `each` for every name in an open folder but "." and "..", from the beginning. Another
 * answer than 0 ends it and is answered. */
int os_list(int fd, int (*each)(void *ctx, const char *name, uint64_t ino, os_kind kind),
            void *ctx);

/* Whether this kernel confines whole paths (openat2). */
bool os_has_openat2(void);

#endif
