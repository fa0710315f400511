/* What the files of this room share: the context, its descriptors, and the list of functions. */
#ifndef BRU_WASI_INTERNAL_H
#define BRU_WASI_INTERNAL_H

#include "wasi.h"

/* A function answers an errno of WASI: those of vfs_err, these, or VFS_WAIT and VFS_STOP. */
typedef int wasi_err;
enum { W_EFAULT = 21, W_EINTR = 27, W_ENOTSOCK = 57 };

/* Every function of the standard, in its order, with the types of its parameters and results. */
#define WASI_FUNCTIONS(X)                                                                          \
    X(args_get, "ii:i")                                                                            \
    X(args_sizes_get, "ii:i")                                                                      \
    X(environ_get, "ii:i")                                                                         \
    X(environ_sizes_get, "ii:i")                                                                   \
    X(clock_res_get, "ii:i")                                                                       \
    X(clock_time_get, "iIi:i")                                                                     \
    X(fd_advise, "iIIi:i")                                                                         \
    X(fd_allocate, "iII:i")                                                                        \
    X(fd_close, "i:i")                                                                             \
    X(fd_datasync, "i:i")                                                                          \
    X(fd_fdstat_get, "ii:i")                                                                       \
    X(fd_fdstat_set_flags, "ii:i")                                                                 \
    X(fd_fdstat_set_rights, "iII:i")                                                               \
    X(fd_filestat_get, "ii:i")                                                                     \
    X(fd_filestat_set_size, "iI:i")                                                                \
    X(fd_filestat_set_times, "iIIi:i")                                                             \
    X(fd_pread, "iiiIi:i")                                                                         \
    X(fd_prestat_get, "ii:i")                                                                      \
    X(fd_prestat_dir_name, "iii:i")                                                                \
    X(fd_pwrite, "iiiIi:i")                                                                        \
    X(fd_read, "iiii:i")                                                                           \
    X(fd_readdir, "iiiIi:i")                                                                       \
    X(fd_renumber, "ii:i")                                                                         \
    X(fd_seek, "iIii:i")                                                                           \
    X(fd_sync, "i:i")                                                                              \
    X(fd_tell, "ii:i")                                                                             \
    X(fd_write, "iiii:i")                                                                          \
    X(path_create_directory, "iii:i")                                                              \
    X(path_filestat_get, "iiiii:i")                                                                \
    X(path_filestat_set_times, "iiiiIIi:i")                                                        \
    X(path_link, "iiiiiii:i")                                                                      \
    X(path_open, "iiiiiIIii:i")                                                                    \
    X(path_readlink, "iiiiii:i")                                                                   \
    X(path_remove_directory, "iii:i")                                                              \
    X(path_rename, "iiiiii:i")                                                                     \
    X(path_symlink, "iiiii:i")                                                                     \
    X(path_unlink_file, "iii:i")                                                                   \
    X(poll_oneoff, "iiii:i")                                                                       \
    X(proc_exit, "i:")                                                                             \
    X(proc_raise, "i:i")                                                                           \
    X(sched_yield, ":i")                                                                           \
    X(random_get, "ii:i")                                                                          \
    X(sock_accept, "iii:i")                                                                        \
    X(sock_recv, "iiiiii:i")                                                                       \
    X(sock_send, "iiiii:i")                                                                        \
    X(sock_shutdown, "ii:i")

/* Each is wasi_<name>; `a` are the arguments, an i32 zero-extended. */
#define WASI_DECLARE(name, type) wasi_err wasi_##name(wasi *w, gmem m, const uint64_t *a);
WASI_FUNCTIONS(WASI_DECLARE)
#undef WASI_DECLARE

#define WASI_NUMBER(name, type) WASI_FN_##name,
enum { WASI_FUNCTIONS(WASI_NUMBER) WASI_FN_COUNT, WASI_FN_NONE = WASI_FN_COUNT };
#undef WASI_NUMBER

/* ---- Rights ---- */

#define RIGHT_FD_DATASYNC             (1ull << 0)
#define RIGHT_FD_READ                 (1ull << 1)
#define RIGHT_FD_SEEK                 (1ull << 2)
#define RIGHT_FD_SET_FLAGS            (1ull << 3)
#define RIGHT_FD_SYNC                 (1ull << 4)
#define RIGHT_FD_TELL                 (1ull << 5)
#define RIGHT_FD_WRITE                (1ull << 6)
#define RIGHT_FD_ADVISE               (1ull << 7)
#define RIGHT_FD_ALLOCATE             (1ull << 8)
#define RIGHT_PATH_CREATE_DIRECTORY   (1ull << 9)
#define RIGHT_PATH_CREATE_FILE        (1ull << 10)
#define RIGHT_PATH_LINK_SOURCE        (1ull << 11)
#define RIGHT_PATH_LINK_TARGET        (1ull << 12)
#define RIGHT_PATH_OPEN               (1ull << 13)
#define RIGHT_FD_READDIR              (1ull << 14)
#define RIGHT_PATH_READLINK           (1ull << 15)
#define RIGHT_PATH_RENAME_SOURCE      (1ull << 16)
#define RIGHT_PATH_RENAME_TARGET      (1ull << 17)
#define RIGHT_PATH_FILESTAT_GET       (1ull << 18)
#define RIGHT_PATH_FILESTAT_SET_SIZE  (1ull << 19)
#define RIGHT_PATH_FILESTAT_SET_TIMES (1ull << 20)
#define RIGHT_FD_FILESTAT_GET         (1ull << 21)
#define RIGHT_FD_FILESTAT_SET_SIZE    (1ull << 22)
#define RIGHT_FD_FILESTAT_SET_TIMES   (1ull << 23)
#define RIGHT_PATH_SYMLINK            (1ull << 24)
#define RIGHT_PATH_REMOVE_DIRECTORY   (1ull << 25)
#define RIGHT_PATH_UNLINK_FILE        (1ull << 26)
#define RIGHT_POLL_FD_READWRITE       (1ull << 27)
#define RIGHT_SOCK_SHUTDOWN           (1ull << 28)
#define RIGHT_SOCK_ACCEPT             (1ull << 29)
#define RIGHTS_ALL                    ((1ull << 30) - 1)

/* What applies to a file or stream, and to a folder. A stream keeps SEEK and TELL although seeking
 * fails: a character device without them is a terminal to wasi-libc. */
#define RIGHTS_FILE                                                                                \
    (RIGHT_FD_DATASYNC | RIGHT_FD_READ | RIGHT_FD_SEEK | RIGHT_FD_SET_FLAGS | RIGHT_FD_SYNC |      \
     RIGHT_FD_TELL | RIGHT_FD_WRITE | RIGHT_FD_ADVISE | RIGHT_FD_ALLOCATE |                        \
     RIGHT_FD_FILESTAT_GET | RIGHT_FD_FILESTAT_SET_SIZE | RIGHT_FD_FILESTAT_SET_TIMES |            \
     RIGHT_POLL_FD_READWRITE)
#define RIGHTS_FOLDER                                                                              \
    (RIGHTS_ALL & ~(RIGHT_FD_READ | RIGHT_FD_SEEK | RIGHT_FD_TELL | RIGHT_FD_WRITE |               \
                    RIGHT_FD_ADVISE | RIGHT_FD_ALLOCATE | RIGHT_FD_FILESTAT_SET_SIZE |             \
                    RIGHT_POLL_FD_READWRITE | RIGHT_SOCK_SHUTDOWN | RIGHT_SOCK_ACCEPT))

/* ---- The context ---- */

enum {
    FDFLAG_APPEND = 1,
    FDFLAG_DSYNC = 2,
    FDFLAG_NONBLOCK = 4,
    FDFLAG_RSYNC = 8,
    FDFLAG_SYNC = 16,
    FDFLAGS_ALL = 31
};

#define STD_COUNT 4u /* stdin, stdout, stderr, "/" */

typedef struct wasi_fd {
    vfs_file *file; /* NULL: not open. Owned unless it is one of wasi.std */
    uint64_t offset;
    uint64_t rights, inheriting;
    uint16_t flags; /* FDFLAG_* */
    bool preopen;
} wasi_fd;

typedef struct wasi_strings {
    char *bytes; /* NUL after each */
    uint32_t len, count;
} wasi_strings;

struct wasi {
    vfs *files;
    clock_source clock;
    random_source random;
    uint64_t (*cpu_time)(void *ctx);
    void *cpu_time_ctx;
    wasi_fd *fds;
    uint32_t fd_count, max_fds; /* places in the table, and what it may grow to */
    vfs_file *std[STD_COUNT];   /* open from birth to death, so that reset allocates nothing */
    bool touched;               /* a descriptor changed since reset */
    wasi_strings args, env;
    unsigned parked;  /* WASI_FN_* of the call that waits, or WASI_FN_NONE */
    bool interrupted; /* it shall not wait on */
    wasi_wait_info wait;
    struct {                      /* what a parked call has to remember */
        uint64_t done;            /* bytes written */
        bool timed;               /* the two below are set */
        uint64_t monotonic, wall; /* when it began */
    } op;
    wasi_stop_info stop;
};

/* wasi.c. The descriptor, if it is open and has all of `rights`; else EBADF, ENOTCAPABLE. */
wasi_err fd_get(wasi *w, uint64_t fd, uint64_t rights, wasi_fd **out);
/* The same for a call by path: ENOTDIR if it is no folder. */
wasi_err fd_folder(wasi *w, uint64_t fd, uint64_t rights, wasi_fd **out);
/* A free number above the first four; makes room. EMFILE, ENOMEM. */
wasi_err fd_free_number(wasi *w, uint32_t *out);
wasi_err fd_room(wasi *w, uint32_t fd); /* makes the table hold `fd`: EBADF beyond the ceiling */
void fd_shut(wasi *w, wasi_fd *f);
/* Notes what the running call waits for, and answers VFS_WAIT. */
wasi_err wait_for(wasi *w, unsigned reasons, uint64_t deadline);

/* wasi_fd.c: a filestat of 64 bytes, and what to set from guest flags. */
void filestat_put(uint8_t *p, const vfs_stat *st);
wasi_err times_get(uint64_t atime, uint64_t mtime, uint32_t flags, vfs_times *out);

static inline void put16(uint8_t *p, uint16_t v) {
    memcpy(p, &v, sizeof v);
}
static inline void put32(uint8_t *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}
static inline void put64(uint8_t *p, uint64_t v) {
    memcpy(p, &v, sizeof v);
}

#endif
