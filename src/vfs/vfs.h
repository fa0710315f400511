/* The files that a guest sees: a namespace of its own, put together from file systems that share
 * one small interface. Nothing of the host is in it unless it was mounted.
 *
 *   vfs       a namespace: "/" and what is mounted in it; resolves paths, links and `..`
 *   vfs_fs    a file system behind vfs_ops: memtree, archive, hostfs, devices, or the embedder's
 *   vfs_file  an open file or folder of a namespace
 *   sink      where standard output and error go;  source: where standard input comes from
 *
 * A file system may be in many namespaces, on many threads. A namespace, its open files, a sink
 * and a source belong to one session: one call at a time. */
#ifndef BRU_VFS_VFS_H
#define BRU_VFS_VFS_H

#include "base/base.h"

/* ---- Errors, kinds, attributes ---------------------------------------------------------- */

/* Numbered as WASI preview 1 numbers them, so that wasi hands them on without a table. */
typedef enum vfs_err {
    VFS_OK = 0,
    VFS_EACCES = 2,
    VFS_EAGAIN = 6,
    VFS_EBADF = 8,
    VFS_EBUSY = 10,
    VFS_EEXIST = 20,
    VFS_EFBIG = 22,
    VFS_EILSEQ = 25,
    VFS_EINVAL = 28,
    VFS_EIO = 29,
    VFS_EISDIR = 31,
    VFS_ELOOP = 32,
    VFS_EMFILE = 33,
    VFS_EMLINK = 34,
    VFS_ENAMETOOLONG = 37,
    VFS_ENFILE = 41,
    VFS_ENODEV = 43,
    VFS_ENOENT = 44,
    VFS_ENOMEM = 48,
    VFS_ENOSPC = 51,
    VFS_ENOTDIR = 54,
    VFS_ENOTEMPTY = 55,
    VFS_ENOTSUP = 58,
    VFS_ENXIO = 60,
    VFS_EOVERFLOW = 61,
    VFS_EPERM = 63,
    VFS_EPIPE = 64,
    VFS_EROFS = 69,
    VFS_ESPIPE = 70,
    VFS_ESTALE = 72,
    VFS_EXDEV = 75,
    VFS_ENOTCAPABLE = 76,
    /* No errno: the guest must wait, and the whole call is made again later, from its first step,
     * with the same arguments. */
    VFS_WAIT = 1000,
    /* No errno: the guest must end, its output limit is reached. */
    VFS_STOP = 1001
} vfs_err;

/* Numbered as WASI's filetype. */
typedef enum vfs_kind {
    VFS_UNKNOWN = 0,
    VFS_CHAR = 2,
    VFS_DIR = 3,
    VFS_REGULAR = 4,
    VFS_LINK = 7
} vfs_kind;

typedef struct vfs_stat {
    uint64_t dev; /* of the mount; file systems leave it 0 */
    uint64_t ino, size;
    uint64_t links;
    uint64_t atime, mtime, ctime; /* ns since 1970 */
    vfs_kind kind;
} vfs_stat;

/* What to set: a time given, the time now, or neither. */
typedef struct vfs_times {
    uint64_t atime, mtime; /* ns since 1970 */
    bool set_atime, set_mtime, atime_now, mtime_now;
} vfs_times;

#define VFS_NAME_MAX   255u  /* bytes of one name */
#define VFS_PATH_MAX   4096u /* bytes of a path, and of a link's target */
#define VFS_LINKS_MAX  40u   /* symbolic links followed in one path */
#define VFS_DEPTH_MAX  512u  /* folders within folders in a memtree */
#define VFS_MOUNTS_MAX 64u

/* One entry of a folder. `next` is the cookie that continues after it; len 0 means the end. */
typedef struct vfs_dirent {
    uint64_t next, ino;
    vfs_kind kind;
    uint32_t len;
    char name[VFS_NAME_MAX + 1];
} vfs_dirent;

/* A status and a sentence for the embedder: "what: No such file". VFS_OK answers BRU_OK. */
bru_status vfs_error(bru_error *err, vfs_err e, const char *what);
/* The text of an error, "unknown error" if there is none. Static. */
const char *vfs_err_text(vfs_err e);

/* ---- The interface of a file system ----------------------------------------------------- */

typedef struct vfs_fs vfs_fs;

/* A path that is put together from its end. */
typedef struct vfs_path {
    char text[VFS_PATH_MAX];
    size_t at; /* where it begins, so far */
} vfs_path;
/* Puts "/name" before it: ENAMETOOLONG. */
vfs_err path_add(vfs_path *p, const char *name, size_t len);

typedef struct vfs_node vfs_node; /* a file system's own; only it knows what is behind */

/* How to open. */
enum {
    VFS_READ = 1u << 0,
    VFS_WRITE = 1u << 1,
    VFS_CREATE = 1u << 2,
    VFS_EXCL = 1u << 3,
    VFS_TRUNC = 1u << 4,
    VFS_FOLDER = 1u << 5,   /* must be a folder */
    VFS_NOFOLLOW = 1u << 6, /* a link in the last place: ELOOP */
};

/* A function that is NULL answers EROFS if it would change something, else ENOTSUP. Names are
 * `len` bytes, 1 to VFS_NAME_MAX, without '/' and NUL, never "." or "..", and not terminated.
 * Results are written on VFS_OK only. Any function may answer VFS_WAIT (embedder-served systems);
 * it is then called again, and so are the functions that came before it in the same guest call:
 * one that has had its effect must remember that. Threads: any, at once, on the same system. */
typedef struct vfs_ops {
    const char *name;
    bool links_stay; /* a link may not lead above this system's root, nor be absolute */
    void (*destroy)(vfs_fs *fs);

    /* Nodes. lookup and parent answer a counted reference; root one that lives as long as `fs`.
     * parent(root) is never asked. hold and drop may be NULL if nodes live as long as `fs`. */
    vfs_node *(*root)(vfs_fs *fs);
    void (*hold)(vfs_fs *fs, vfs_node *n);
    void (*drop)(vfs_fs *fs, vfs_node *n);
    bool (*same)(vfs_fs *fs, const vfs_node *a, const vfs_node *b); /* NULL: same address */
    vfs_err (*lookup)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out,
                      vfs_kind *kind);
    vfs_err (*parent)(vfs_fs *fs, vfs_node *dir, vfs_node **out);
    vfs_err (*stat)(vfs_fs *fs, vfs_node *n, vfs_stat *out);
    vfs_err (*set_times)(vfs_fs *fs, vfs_node *n, const vfs_times *t);
    /* The target of a link, at most VFS_PATH_MAX bytes into `out`. */
    vfs_err (*readlink)(vfs_fs *fs, vfs_node *n, char *out, size_t *len);

    /* Names. create makes a regular file (EEXIST if the name is taken) and answers its node. */
    vfs_err (*create)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out);
    vfs_err (*mkdir)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len);
    vfs_err (*rmdir)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len);
    vfs_err (*unlink)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len);
    vfs_err (*symlink)(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, const char *target,
                       size_t target_len);
    vfs_err (*link)(vfs_fs *fs, vfs_node *n, vfs_node *dir, const char *name, size_t len);
    vfs_err (*rename)(vfs_fs *fs, vfs_node *from_dir, const char *from, size_t from_len,
                      vfs_node *to_dir, const char *to, size_t to_len);

    /* Open files. `flags` has VFS_READ, VFS_WRITE, VFS_TRUNC; `n` is a file, folder or device.
     * The file must not need `n` to be held. Offsets are ignored by streams (see ready). */
    vfs_err (*open)(vfs_fs *fs, vfs_node *n, unsigned flags, void **file);
    void (*close)(vfs_fs *fs, void *file);
    vfs_err (*read)(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n);
    /* Writes at `*at`, or at the end if `append`, and moves `*at` behind what was written. With
     * VFS_WAIT `*n` bytes were taken nevertheless: the call goes on behind them. */
    vfs_err (*write)(vfs_fs *fs, void *file, uint64_t *at, bool append, const void *bytes,
                     size_t len, size_t *n);
    vfs_err (*file_stat)(vfs_fs *fs, void *file, vfs_stat *out);
    /* Where an open file is now, "/json/decoder.py" below this system's root and "" for that
     * itself: path_add() for each part, the last one first. ENOENT: it has no name any more. NULL:
     * it cannot be told. */
    vfs_err (*path)(vfs_fs *fs, void *file, vfs_path *out);
    vfs_err (*file_set_times)(vfs_fs *fs, void *file, const vfs_times *t);
    vfs_err (*resize)(vfs_fs *fs, void *file, uint64_t size);
    vfs_err (*allocate)(vfs_fs *fs, void *file, uint64_t at, uint64_t len);
    vfs_err (*sync)(vfs_fs *fs, void *file);
    /* The entry at a cookie; 0 is the first. A cookie stays good while entries come and go: what
     * was there all the time is answered exactly once. */
    vfs_err (*readdir)(vfs_fs *fs, void *file, uint64_t cookie, vfs_dirent *out);
    /* Streams only, NULL for files: VFS_OK if a read (write) would not wait now and how many
     * bytes there are, `*eof` if there will be no more; VFS_WAIT. */
    vfs_err (*ready)(vfs_fs *fs, void *file, bool write, uint64_t *bytes, bool *eof);
} vfs_ops;

/* The first member of every file system. Counted; fs_init sets the count to 1. */
struct vfs_fs {
    const vfs_ops *ops;
    _Atomic uint32_t refs;
};
void fs_init(vfs_fs *fs, const vfs_ops *ops);
vfs_fs *fs_ref(vfs_fs *fs);
void fs_unref(vfs_fs *fs); /* NULL allowed; the last one destroys */

/* ---- memtree: files in memory ----------------------------------------------------------- */

/* Everything that is kept is counted in bytes, names and tables too, so `max_bytes` bounds what
 * the tree takes from the host. No file is longer than `max_file`. 0 means the default. */
typedef struct memtree_options {
    uint64_t max_bytes;   /* 64 MiB */
    uint64_t max_entries; /* names, 100,000 */
    uint64_t max_file;    /* bytes, holes included: max_bytes */
    clock_source clock;   /* zeroed: clock_system */
} memtree_options;

typedef struct memtree_usage {
    uint64_t bytes, entries; /* in use, as counted against the limits */
    uint64_t max_bytes, max_entries;
} memtree_usage;

/* An empty tree, released with fs_unref. `opt` may be NULL. BRU_ENOMEM: `*out` is NULL. */
bru_status memtree_new(const memtree_options *opt, vfs_fs **out, bru_error *err);

/* Makes a folder, and those above it, that can be neither removed nor renamed and that outlives
 * memtree_clear: "/data". BRU_EINVAL if a name on the way is no folder. */
bru_status memtree_fix(vfs_fs *tree, const char *path, bru_error *err);

/* Removes everything but fixed folders, in time proportional to what is there. Open files stay
 * readable until they are closed. Cannot fail; does nothing at once if nothing was written. */
void memtree_clear(vfs_fs *tree);

/* A copy that shares the data of files until either side writes; names and nodes are copied. It
 * has the same limits and is charged for its data in full. Unlinked open files are not copied.
 * BRU_ENOMEM: `*out` is NULL, the original is as before. */
bru_status memtree_fork(vfs_fs *tree, vfs_fs **out, bru_error *err);

void memtree_get_usage(vfs_fs *tree, memtree_usage *out);
/* Changes the limits; 0 leaves one as it is. A tree over its limit can only shrink. */
void memtree_set_limits(vfs_fs *tree, uint64_t max_bytes, uint64_t max_entries);
/* What stamps files from now on; a copy of a tree has its original's at first. */
void memtree_set_clock(vfs_fs *tree, const clock_source *clock);

/* The tree as data, for snapshots: appended to `out`. BRU_ELIMIT if `out` is full, BRU_ENOMEM. */
bru_status memtree_save(vfs_fs *tree, buf *out, bru_error *err);
/* Replaces the content of `tree` by what memtree_save wrote. The bytes are not trusted: anything
 * malformed is BRU_EFORMAT, more than the tree's limits allow BRU_ELIMIT; the tree is then
 * cleared. */
bru_status memtree_load(vfs_fs *tree, const void *bytes, size_t len, bru_error *err);

/* ---- archive: a read-only tree in one piece of memory ------------------------------------ */

/* The `len` bytes must stay as they are until `release` (NULL allowed) is called with `ctx`, when
 * the last reference goes; also if opening fails. Tables are always checked; with `verify` so is
 * the data, which reads all of it. BRU_EFORMAT names what is wrong; `*out` is NULL. */
bru_status archive_open(const void *bytes, size_t len, bool verify, void (*release)(void *ctx),
                        void *ctx, vfs_fs **out, bru_error *err);

/* How many files, folders and links are in an archive, its root included. */
uint32_t archive_entries(vfs_fs *archive);

/* Takes the next bytes of an archive in the making; anything but BRU_OK ends the building. */
typedef bru_status (*archive_write)(void *ctx, const void *bytes, size_t len, bru_error *err);

/* Makes an archive of a host folder: all regular files, folders and relative links beneath it, in
 * the order of their names, every time set to `mtime` (ns): the same folder gives the same bytes.
 * `keep` (NULL: all) is asked for every path below the folder, "json/decoder.py"; a folder
 * that is not kept is not entered. Files above 4 GiB and more than 2^24 entries are BRU_ELIMIT. */
bru_status archive_build(const char *folder, uint64_t mtime,
                         bool (*keep)(void *ctx, const char *path, vfs_kind kind), void *keep_ctx,
                         archive_write write, void *write_ctx, bru_error *err);

/* A file in memory, borrowed. */
typedef struct archive_file {
    const char *path; /* "json/decoder.py"; the folders above it need not exist */
    const void *data;
    size_t len;
} archive_file;

/* The same of all that is in `fs`, and of `count` files more. BRU_EINVAL names a file whose path is
 * none, is there already or twice, or leads through a file; BRU_ELIMIT one too long or deep. */
bru_status archive_extend(vfs_fs *fs, const archive_file *files, size_t count, uint64_t mtime,
                          archive_write write, void *write_ctx, bru_error *err);

/* ---- hostfs: a folder, or one file, of the host ------------------------------------------ */

typedef struct hostfs_options {
    bool writable;
    uint32_t max_open;  /* open files at a time, each a descriptor of this process; 0: 256 */
    uint64_t max_write; /* a file cannot be written or grown beyond this; 0: 1 GiB */
    uint64_t max_total; /* bytes written through it in its life; 0: no limit */
    bool by_parts;      /* as on a kernel without openat2: for tests */
} hostfs_options;

/* `path` is followed as usual once, now; afterwards nothing outside it is reachable, whatever is
 * renamed or linked on either side. BRU_ENOENT, BRU_EPERM, BRU_EINVAL (neither folder nor regular
 * file): `*out` is NULL. */
bru_status hostfs_open(const char *path, const hostfs_options *opt, vfs_fs **out, bru_error *err);

/* ---- sink: standard output and error ---------------------------------------------------- */

enum { SINK_OUT = 0, SINK_ERR = 1 };

typedef enum sink_mode {
    SINK_COLLECT, /* everything is kept until the end of the run */
    SINK_STREAM   /* the guest waits until the embedder took what was written */
} sink_mode;

typedef struct sink_options {
    sink_mode mode;
    uint64_t limit; /* bytes of both streams in one run; 0: 1 MiB */
    bool stop;      /* at the limit: end the guest (true) or discard the rest */
    uint32_t merge; /* stream: writes join, and do not wait, while no more than these bytes are
                     * pending; 0: every write waits */
} sink_options;

#define SINK_PENDING_MAX 65536u /* bytes that wait for the embedder in stream mode */

typedef struct sink sink;

typedef struct sink_counts {
    uint64_t kept[2], cut[2]; /* bytes per stream since sink_clear */
} sink_counts;

bru_status sink_new(const sink_options *opt, sink **out, bru_error *err); /* NULL: defaults */
void sink_free(sink *s);                                                  /* NULL allowed */
void sink_set(sink *s, const sink_options *opt); /* for the next run; keeps what is there */
void sink_clear(sink *s);                        /* before a run: nothing kept, nothing counted */

/* A write of the guest. VFS_OK, VFS_WAIT (see vfs_ops.write), VFS_STOP, VFS_ENOMEM. A write of no
 * bytes answers whether all that was written has been taken. */
vfs_err sink_write(sink *s, unsigned stream, const void *bytes, size_t len, size_t *n);

/* A stretch of one stream, in the order of writing. Borrowed until the next call with `s`. */
typedef struct sink_piece {
    unsigned stream;
    const uint8_t *bytes;
    size_t len;
} sink_piece;

/* Goes through what is kept: start with `*cursor` zeroed. False at the end. */
typedef struct sink_cursor {
    size_t piece, byte;
    unsigned stream;
} sink_cursor;
bool sink_next(const sink *s, sink_cursor *cursor, sink_piece *out);
/* Appends all that is kept of one stream. BRU_ELIMIT, BRU_ENOMEM: some of it may be there. */
bru_status sink_copy(const sink *s, unsigned stream, buf *out);
/* Forgets what is kept, as taken: what a parked write waits for. Counts go on. */
void sink_take(sink *s);
/* The bytes of both streams themselves, NUL-terminated, the caller's to mem_free(): nothing is kept
 * then. NULL without memory: all is as before. */
char *sink_release(sink *s);
bool sink_pending(const sink *s); /* whether anything is kept */
void sink_get_counts(const sink *s, sink_counts *out);

/* ---- source: standard input -------------------------------------------------------------- */

typedef struct source source;

/* With nothing given: the end of the file, or, if `ask`, the guest waits for source_give. */
bru_status source_new(bool ask, source **out, bru_error *err);
void source_free(source *s);
void source_set(source *s, bool ask);
void source_clear(source *s); /* before a run: forgets bytes and end */
/* Adds bytes (copied) to be read. BRU_ELIMIT beyond 16 MiB unread, BRU_ENOMEM: none added. */
bru_status source_give(source *s, const void *bytes, size_t len, bru_error *err);
void source_end(source *s); /* after what was given comes the end of the file */
/* Whether a read waits for bytes, and how many it asked for. */
bool source_wanted(const source *s, size_t *len);
vfs_err source_read(source *s, void *out, size_t len, size_t *n);
vfs_err source_ready(source *s, uint64_t *bytes, bool *eof);
/* What was given and not read yet, borrowed, and whether the end comes behind it. */
void source_unread(const source *s, const void **bytes, size_t *len, bool *ended);

/* ---- vfs: a namespace --------------------------------------------------------------------- */

typedef struct vfs vfs;
typedef struct vfs_file vfs_file;

/* A namespace whose "/" is `root` (a reference is taken), with /dev mounted: null, zero, full,
 * random, urandom, stdin, stdout, stderr. `output` and `input` are borrowed for the life of the
 * namespace; NULL: output vanishes, input is at its end. If `root` is a memtree, /data and /tmp
 * are fixed in it. `random` is copied; NULL means random_system. BRU_ENOMEM: `*out` is NULL. */
bru_status vfs_new(vfs_fs *root, sink *output, source *input, const random_source *random,
                   vfs **out, bru_error *err);
/* A namespace of `root` alone: no devices, and nothing is made in it. */
bru_status vfs_new_plain(vfs_fs *root, vfs **out, bru_error *err);
/* Mounts in `to`, a namespace made alike, whatever else is mounted in `from`: the same systems. */
bru_status vfs_mount_alike(vfs *to, const vfs *from, bru_error *err);
void vfs_free(vfs *v); /* NULL allowed; all files must be closed */

/* Shows the root of `fs` (a reference is taken) at an absolute path, over what may be there.
 * Missing folders above are fixed in a memtree. `fs` may have one file as its root.
 * BRU_EINVAL: not an absolute path, already a mount point, or the folder above is missing where
 * none can be made. BRU_ELIMIT: VFS_MOUNTS_MAX. */
bru_status vfs_mount(vfs *v, const char *path, vfs_fs *fs, bru_error *err);

/* Paths below are `len` bytes, not terminated, relative to `at` (an open folder; NULL: "/"); an
 * absolute one begins at "/". `..` of "/" is "/". Empty: ENOENT; a NUL in it: EINVAL; not UTF-8:
 * EILSEQ; too long: ENAMETOOLONG. A trailing slash means: must be a folder, follow links.
 * Calls that change something in a file system that cannot: EROFS. */

/* Opens; VFS_* flags. ENOENT, EEXIST (VFS_EXCL), ENOTDIR, EISDIR (a folder for VFS_WRITE or with
 * VFS_CREATE), ELOOP, EMFILE, ENOSPC ... as POSIX has them. The file is the caller's until
 * vfs_close. */
vfs_err vfs_open(vfs *v, vfs_file *at, const char *path, size_t len, unsigned flags,
                 vfs_file **out);
void vfs_close(vfs_file *f); /* NULL allowed */
vfs_err vfs_get_stat(vfs *v, vfs_file *at, const char *path, size_t len, bool follow,
                     vfs_stat *out);
vfs_err vfs_set_times(vfs *v, vfs_file *at, const char *path, size_t len, bool follow,
                      const vfs_times *t);
vfs_err vfs_mkdir(vfs *v, vfs_file *at, const char *path, size_t len);
vfs_err vfs_rmdir(vfs *v, vfs_file *at, const char *path, size_t len);
vfs_err vfs_unlink(vfs *v, vfs_file *at, const char *path, size_t len);
vfs_err vfs_symlink(vfs *v, const char *target, size_t target_len, vfs_file *at, const char *path,
                    size_t len);
vfs_err vfs_readlink(vfs *v, vfs_file *at, const char *path, size_t len, char out[VFS_PATH_MAX],
                     size_t *out_len);
vfs_err vfs_link(vfs *v, vfs_file *from_at, const char *from, size_t from_len, bool follow,
                 vfs_file *to_at, const char *to, size_t to_len);
vfs_err vfs_rename(vfs *v, vfs_file *from_at, const char *from, size_t from_len, vfs_file *to_at,
                   const char *to, size_t to_len);

/* Open files. Reading and writing what was not opened for it: EBADF; a folder: EISDIR. */
vfs_kind vfs_file_kind(const vfs_file *f);
unsigned vfs_file_flags(const vfs_file *f); /* as opened */
bool vfs_file_is_stream(const vfs_file *f); /* no offsets: seeking is ESPIPE */
vfs_err vfs_read(vfs_file *f, uint64_t at, void *out, size_t len, size_t *n);
/* See vfs_ops.write. */
vfs_err vfs_write(vfs_file *f, uint64_t *at, bool append, const void *bytes, size_t len, size_t *n);
vfs_err vfs_file_stat(vfs_file *f, vfs_stat *out);
/* Its absolute path now, not terminated: ENOENT if it has none any more, ENOTSUP. */
vfs_err vfs_file_path(vfs_file *f, vfs_path *out);
/* Reads, though it may not have been opened for that: for the host's own ends. */
vfs_err vfs_peek(vfs_file *f, uint64_t at, void *out, size_t len, size_t *n);
vfs_err vfs_file_set_times(vfs_file *f, const vfs_times *t);
vfs_err vfs_file_resize(vfs_file *f, uint64_t size);
vfs_err vfs_file_allocate(vfs_file *f, uint64_t at, uint64_t len);
vfs_err vfs_file_sync(vfs_file *f);
/* One entry, "." and ".." and mount points included; cookie 0 is the first. ENOTDIR. */
vfs_err vfs_readdir(vfs_file *f, uint64_t cookie, vfs_dirent *out);
/* Whether a read (write) would go on at once; files and folders: always. `at` is the offset. */
vfs_err vfs_ready(vfs_file *f, bool write, uint64_t at, uint64_t *bytes, bool *eof);

/* For the embedder: whole files and folders by absolute path, links followed inside the namespace
 * as the guest would. BRU_ENOENT, BRU_EPERM, BRU_ELIMIT (full), BRU_EINVAL, BRU_ENOMEM.
 * put replaces a file, and makes the folders above it; what was there is lost if it fails halfway.
 * get appends to `out`, whose ceiling bounds it. remove takes a folder with all that is in it. */
bru_status vfs_put(vfs *v, const char *path, const void *bytes, size_t len, bru_error *err);
/* A part of a file: writes `len` bytes at `at`, or answers up to `len` in `*got`, 0 at the end.
 * Writing makes a missing file with the folders above it; `replace` empties it first. */
bru_status vfs_write_file(vfs *v, const char *path, uint64_t at, const void *bytes, size_t len,
                          bool replace, bru_error *err);
bru_status vfs_read_file(vfs *v, const char *path, uint64_t at, void *out, size_t len, size_t *got,
                         bru_error *err);
bru_status vfs_get(vfs *v, const char *path, buf *out, bru_error *err);
bru_status vfs_make_folder(vfs *v, const char *path, bru_error *err); /* and those above it */
bru_status vfs_remove(vfs *v, const char *path, bru_error *err);
/* Calls `each` for every entry but "." and "..", until it answers false. BRU_EINVAL: no folder. */
bru_status vfs_list(vfs *v, const char *path,
                    bool (*each)(void *ctx, const vfs_dirent *entry, const vfs_stat *stat),
                    void *ctx, bru_error *err);

#endif
