/* A folder, or one file, of the host. A node is the path below the root, put together by our own
 * walk from single names, so it holds neither ".." nor a link; and each time it is used the host
 * resolves it afresh beneath the root's descriptor, following nothing (os_fs.h). What others do
 * to the folder meanwhile can make a call fail; it cannot make it reach anything outside. */
#include "base/os_fs.h"
#include "vfs_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define DEFAULT_OPEN  256u
#define DEFAULT_WRITE (1u << 30)
#define LISTING_MAX   (16u << 20) /* bytes of names of one folder */

typedef struct hostnode {
    _Atomic uint32_t refs;
    size_t len;
    char path[];
} hostnode;

typedef struct hostfs {
    vfs_fs fs;
    os_root root;
    hostnode *root_node;
    bool writable;
    uint32_t max_open;
    uint64_t max_write, max_total;
    _Atomic uint32_t open;
    _Atomic uint64_t total; /* bytes written through it so far */
} hostfs;

/* An open file. The names of a folder are read at once, when its reading begins, so that cookies
 * stay good while entries come and go. */
typedef struct hostfile {
    int fd;
    hostnode *node; /* where it was opened */
    vfs_kind kind;
    bool listed;
    buf names;   /* u64 ino, u8 kind, u8 length, the name */
    buf offsets; /* u32 into names */
} hostfile;

static hostfs *hostfs_of(vfs_fs *fs) {
    return (hostfs *)fs;
}

static hostnode *node_of(const vfs_node *n) {
    return (hostnode *)(uintptr_t)n;
}

static const char *path_of(const vfs_node *n) {
    return node_of(n)->path;
}

static vfs_err err_of(int64_t errnum) {
    if (errnum >= 0) return VFS_OK;
    switch (-errnum) {
    case EACCES: return VFS_EACCES;
    case EBUSY: return VFS_EBUSY;
    case EDQUOT:
    case ENOSPC: return VFS_ENOSPC;
    case EEXIST: return VFS_EEXIST;
    case EFBIG: return VFS_EFBIG;
    case EILSEQ: return VFS_EILSEQ;
    case EINVAL: return VFS_EINVAL;
    case EISDIR: return VFS_EISDIR;
    case ELOOP: return VFS_ELOOP;
    case EMFILE: return VFS_EMFILE;
    case EMLINK: return VFS_EMLINK;
    case ENAMETOOLONG: return VFS_ENAMETOOLONG;
    case ENFILE: return VFS_ENFILE;
    case ENODEV: return VFS_ENODEV;
    case ENOENT: return VFS_ENOENT;
    case ENOMEM: return VFS_ENOMEM;
    case ENOTDIR: return VFS_ENOTDIR;
    case ENOTEMPTY: return VFS_ENOTEMPTY;
    case EOPNOTSUPP: return VFS_ENOTSUP;
    case ENXIO: return VFS_ENXIO;
    case EOVERFLOW: return VFS_EOVERFLOW;
    case EPERM: return VFS_EPERM;
    case EROFS: return VFS_EROFS;
    case ESTALE: return VFS_ESTALE;
    case EXDEV: return VFS_ENOTCAPABLE; /* the path would have left the root */
    default: return VFS_EIO;
    }
}

static vfs_kind kind_of(os_kind kind) {
    static const vfs_kind kinds[] = { [OS_SPECIAL] = VFS_UNKNOWN,
                                      [OS_FOLDER] = VFS_DIR,
                                      [OS_FILE] = VFS_REGULAR,
                                      [OS_LINK] = VFS_LINK };
    return kinds[kind];
}

/* ---- Nodes ---- */

static vfs_err node_new(const char *dir, size_t dir_len, const char *name, size_t len,
                        hostnode **out) {
    size_t total = dir_len + (dir_len > 0) + len;
    if (total >= VFS_PATH_MAX) return VFS_ENAMETOOLONG;
    hostnode *n = mem_zero(1, sizeof *n + total + 1);
    if (!n) return VFS_ENOMEM;
    atomic_init(&n->refs, 1);
    n->len = total;
    memcpy(n->path, dir, dir_len);
    if (dir_len > 0) n->path[dir_len] = '/';
    memcpy(n->path + total - len, name, len);
    *out = n;
    return VFS_OK;
}

static vfs_err node_below(const vfs_node *dir, const char *name, size_t len, hostnode **out) {
    return node_new(node_of(dir)->path, node_of(dir)->len, name, len, out);
}

static void node_unref(hostnode *n) {
    if (n && atomic_fetch_sub(&n->refs, 1) == 1) mem_free(n);
}

static void op_hold(vfs_fs *fs, vfs_node *n) {
    (void)fs;
    atomic_fetch_add(&node_of(n)->refs, 1);
}

static void op_drop(vfs_fs *fs, vfs_node *n) {
    (void)fs;
    node_unref(node_of(n));
}

static vfs_node *op_root(vfs_fs *fs) {
    return (vfs_node *)(void *)hostfs_of(fs)->root_node;
}

static bool op_same(vfs_fs *fs, const vfs_node *a, const vfs_node *b) {
    (void)fs;
    return strcmp(path_of(a), path_of(b)) == 0;
}

static vfs_err op_lookup(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out,
                         vfs_kind *kind) {
    hostnode *n = NULL;
    vfs_err e = node_below(dir, name, len, &n);
    if (e) return e;
    os_stat st;
    e = err_of(os_lstat(&hostfs_of(fs)->root, n->path, &st));
    if (e) {
        node_unref(n);
        return e;
    }
    *out = (vfs_node *)(void *)n;
    *kind = kind_of(st.kind);
    return VFS_OK;
}

static vfs_err op_parent(vfs_fs *fs, vfs_node *dir, vfs_node **out) {
    (void)fs;
    hostnode *n = NULL;
    const char *path = path_of(dir), *slash = strrchr(path, '/');
    vfs_err e = node_new("", 0, path, slash ? (size_t)(slash - path) : 0, &n);
    if (!e) *out = (vfs_node *)(void *)n;
    return e;
}

static void stat_fill(const os_stat *st, vfs_stat *out) {
    *out = (vfs_stat){ .ino = st->ino,
                       .size = st->size,
                       .links = st->links,
                       .atime = st->atime,
                       .mtime = st->mtime,
                       .ctime = st->ctime,
                       .kind = kind_of(st->kind) };
}

static vfs_err op_stat(vfs_fs *fs, vfs_node *n, vfs_stat *out) {
    os_stat st;
    vfs_err e = err_of(os_lstat(&hostfs_of(fs)->root, path_of(n), &st));
    if (!e) stat_fill(&st, out);
    return e;
}

static void times_of(const vfs_times *t, uint64_t *atime, uint64_t *mtime) {
    uint64_t now = t->atime_now || t->mtime_now ? clock_system.wall(NULL) : 0;
    *atime = t->atime_now ? now : t->set_atime ? t->atime : OS_TIME_OMIT;
    *mtime = t->mtime_now ? now : t->set_mtime ? t->mtime : OS_TIME_OMIT;
}

static vfs_err op_set_times(vfs_fs *fs, vfs_node *n, const vfs_times *t) {
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    uint64_t atime, mtime;
    times_of(t, &atime, &mtime);
    return err_of(os_set_times(&hostfs_of(fs)->root, path_of(n), atime, mtime));
}

static vfs_err op_readlink(vfs_fs *fs, vfs_node *n, char *out, size_t *len) {
    int64_t got = os_readlink(&hostfs_of(fs)->root, path_of(n), out, VFS_PATH_MAX);
    if (got >= 0) *len = (size_t)got;
    return err_of(got);
}

/* ---- Names ---- */

/* Runs one of the calls that take a path only. */
static vfs_err with_name(vfs_fs *fs, vfs_node *dir, const char *name, size_t len,
                         int (*call)(const os_root *root, const char *path)) {
    hostnode *n = NULL;
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    vfs_err e = node_below(dir, name, len, &n);
    if (!e) e = err_of(call(&hostfs_of(fs)->root, n->path));
    node_unref(n);
    return e;
}

static vfs_err op_create(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out) {
    hostnode *n = NULL;
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    vfs_err e = node_below(dir, name, len, &n);
    if (e) return e;
    e = err_of(os_create(&hostfs_of(fs)->root, n->path));
    if (e)
        node_unref(n);
    else
        *out = (vfs_node *)(void *)n;
    return e;
}

static vfs_err op_mkdir(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    return with_name(fs, dir, name, len, os_mkdir);
}

static vfs_err op_rmdir(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    return with_name(fs, dir, name, len, os_rmdir);
}

static vfs_err op_unlink(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    return with_name(fs, dir, name, len, os_unlink);
}

/* Whether a link with this target leads beneath the folder that it lies in. Others may follow it
 * later, so one that does not is not even made; and wherever it, or a folder around it, is moved
 * within the mount, it cannot come to lead out. */
static bool target_stays(const char *target) {
    if (*target == '/') return false;
    for (const char *p = target; *p;) {
        size_t len = strcspn(p, "/");
        if (len == 2 && p[0] == '.' && p[1] == '.') return false;
        p += len + (p[len] == '/');
    }
    return true;
}

static vfs_err op_symlink(vfs_fs *fs, vfs_node *dir, const char *name, size_t len,
                          const char *target, size_t target_len) {
    hostnode *n = NULL;
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    vfs_err e = node_below(dir, name, len, &n);
    char *text = e ? NULL : mem_copy(target, target_len);
    if (!e && !text) e = VFS_ENOMEM;
    if (!e && !target_stays(text)) e = VFS_ENOTCAPABLE;
    if (!e) e = err_of(os_symlink(&hostfs_of(fs)->root, text, n->path));
    mem_free(text);
    node_unref(n);
    return e;
}

static vfs_err op_link(vfs_fs *fs, vfs_node *from, vfs_node *dir, const char *name, size_t len) {
    hostnode *n = NULL;
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    vfs_err e = node_below(dir, name, len, &n);
    if (!e) e = err_of(os_link(&hostfs_of(fs)->root, path_of(from), n->path));
    node_unref(n);
    return e;
}

static vfs_err op_rename(vfs_fs *fs, vfs_node *from_dir, const char *from, size_t from_len,
                         vfs_node *to_dir, const char *to, size_t to_len) {
    hostnode *a = NULL, *b = NULL;
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    vfs_err e = node_below(from_dir, from, from_len, &a);
    if (!e) e = node_below(to_dir, to, to_len, &b);
    if (!e) e = err_of(os_rename(&hostfs_of(fs)->root, a->path, b->path));
    node_unref(a);
    node_unref(b);
    return e;
}

/* ---- Open files ---- */

static void op_close(vfs_fs *fs, void *file) {
    hostfile *f = file;
    if (f->fd >= 0) os_fd_close(f->fd);
    buf_free(&f->names);
    buf_free(&f->offsets);
    node_unref(f->node);
    mem_free(f);
    atomic_fetch_sub(&hostfs_of(fs)->open, 1);
}

static vfs_err op_open(vfs_fs *fs, vfs_node *n, unsigned flags, void **file) {
    hostfs *h = hostfs_of(fs);
    if (flags & (VFS_WRITE | VFS_TRUNC) && !h->writable) return VFS_EROFS;
    hostfile *f = mem_zero(1, sizeof *f);
    if (!f) return VFS_ENOMEM;
    f->fd = -1;
    op_hold(fs, n);
    f->node = node_of(n);
    buf_init(&f->names, LISTING_MAX);
    buf_init(&f->offsets, LISTING_MAX);
    vfs_err e = VFS_OK;
    os_kind kind = OS_SPECIAL;
    unsigned how = (flags & VFS_READ ? OS_READ : 0u) | (flags & VFS_WRITE ? OS_WRITE : 0u);
    if (atomic_fetch_add(&h->open, 1) >= h->max_open) e = VFS_EMFILE;
    if (!e) f->fd = os_open(&h->root, path_of(n), how, &kind);
    if (!e) e = err_of(f->fd);
    if (!e && flags & VFS_TRUNC) e = err_of(os_resize(f->fd, 0));
    f->kind = kind_of(kind);
    if (e)
        op_close(fs, f);
    else
        *file = f;
    return e;
}

/* Where it was, that is: others may have moved it. */
static vfs_err op_path(vfs_fs *fs, void *file, vfs_path *out) {
    const hostnode *root = hostfs_of(fs)->root_node, *n = ((hostfile *)file)->node;
    const char *below = n->path + root->len + (root->len > 0 && n->len > root->len);
    return *below ? path_add(out, below, strlen(below)) : VFS_OK;
}

static vfs_err op_read(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n) {
    (void)fs;
    int64_t got = os_pread(((hostfile *)file)->fd, out, len, at);
    if (got >= 0) *n = (size_t)got;
    return err_of(got);
}

/* Counts bytes to be written against the mount's total; false beyond it. */
static bool total_take(hostfs *h, uint64_t len) {
    uint64_t before = atomic_fetch_add(&h->total, len);
    if (before <= h->max_total && len <= h->max_total - before) return true;
    atomic_fetch_sub(&h->total, len);
    return false;
}

static vfs_err op_write(vfs_fs *fs, void *file, uint64_t *at, bool append, const void *bytes,
                        size_t len, size_t *n) {
    hostfs *h = hostfs_of(fs);
    const hostfile *f = file;
    uint64_t where = *at;
    *n = 0;
    if (len == 0) return VFS_OK;
    if (append) {
        os_stat st;
        vfs_err e = err_of(os_fstat(f->fd, &st));
        if (e) return e;
        where = st.size;
    }
    if (where >= h->max_write) return VFS_EFBIG;
    if (len > h->max_write - where) len = (size_t)(h->max_write - where);
    if (!total_take(h, len)) return VFS_ENOSPC;
    int64_t put = os_pwrite(f->fd, bytes, len, where);
    if (put < 0) return err_of(put);
    *n = (size_t)put;
    *at = where + (uint64_t)put;
    return VFS_OK;
}

static vfs_err op_file_stat(vfs_fs *fs, void *file, vfs_stat *out) {
    (void)fs;
    os_stat st;
    vfs_err e = err_of(os_fstat(((hostfile *)file)->fd, &st));
    if (!e) stat_fill(&st, out);
    return e;
}

static vfs_err op_file_set_times(vfs_fs *fs, void *file, const vfs_times *t) {
    if (!hostfs_of(fs)->writable) return VFS_EROFS;
    uint64_t atime, mtime;
    times_of(t, &atime, &mtime);
    return err_of(os_fset_times(((hostfile *)file)->fd, atime, mtime));
}

static vfs_err op_resize(vfs_fs *fs, void *file, uint64_t size) {
    if (size > hostfs_of(fs)->max_write) return VFS_EFBIG;
    return err_of(os_resize(((hostfile *)file)->fd, size));
}

static vfs_err op_allocate(vfs_fs *fs, void *file, uint64_t at, uint64_t len) {
    if (at + len > hostfs_of(fs)->max_write) return VFS_EFBIG;
    if (!total_take(hostfs_of(fs), len)) return VFS_ENOSPC;
    return err_of(os_fd_allocate(((hostfile *)file)->fd, at, len));
}

static vfs_err op_sync(vfs_fs *fs, void *file) {
    (void)fs;
    return err_of(os_sync(((hostfile *)file)->fd));
}

static int list_one(void *ctx, const char *name, uint64_t ino, os_kind kind) {
    hostfile *f = ctx;
    size_t len = strlen(name);
    if (!name_valid(name, len)) return 0; /* no guest could say it */
    uint32_t offset = (uint32_t)f->names.len;
    uint8_t head[10];
    memcpy(head, &ino, 8);
    head[8] = (uint8_t)kind_of(kind);
    head[9] = (uint8_t)len;
    bru_status st = buf_append(&f->offsets, &offset, sizeof offset);
    if (!st) st = buf_append(&f->names, head, sizeof head);
    if (!st) st = buf_append(&f->names, name, len);
    return st == BRU_ELIMIT ? -EOVERFLOW : st ? -ENOMEM : 0;
}

static vfs_err op_readdir(vfs_fs *fs, void *file, uint64_t cookie, vfs_dirent *out) {
    (void)fs;
    hostfile *f = file;
    if (f->kind != VFS_DIR) return VFS_ENOTDIR;
    if (cookie == 0 || !f->listed) {
        buf_clear(&f->names);
        buf_clear(&f->offsets);
        f->listed = false;
        vfs_err e = err_of(os_list(f->fd, list_one, f));
        if (e) return e;
        f->listed = true;
    }
    out->len = 0;
    if (cookie >= f->offsets.len / sizeof(uint32_t)) return VFS_OK;
    uint32_t offset;
    memcpy(&offset, f->offsets.data + cookie * sizeof offset, sizeof offset);
    const uint8_t *head = f->names.data + offset;
    out->next = cookie + 1;
    memcpy(&out->ino, head, 8);
    out->kind = (vfs_kind)head[8];
    out->len = head[9];
    memcpy(out->name, head + 10, out->len);
    out->name[out->len] = '\0';
    return VFS_OK;
}

/* ---- Life ---- */

static void op_destroy(vfs_fs *fs) {
    hostfs *h = hostfs_of(fs);
    os_root_close(&h->root);
    node_unref(h->root_node);
    mem_free(h);
}

static const vfs_ops hostfs_ops = {
    .name = "host",
    .links_stay = true,
    .destroy = op_destroy,
    .root = op_root,
    .hold = op_hold,
    .drop = op_drop,
    .same = op_same,
    .lookup = op_lookup,
    .parent = op_parent,
    .stat = op_stat,
    .set_times = op_set_times,
    .readlink = op_readlink,
    .create = op_create,
    .mkdir = op_mkdir,
    .rmdir = op_rmdir,
    .unlink = op_unlink,
    .symlink = op_symlink,
    .link = op_link,
    .rename = op_rename,
    .open = op_open,
    .close = op_close,
    .read = op_read,
    .write = op_write,
    .path = op_path,
    .file_stat = op_file_stat,
    .file_set_times = op_file_set_times,
    .resize = op_resize,
    .allocate = op_allocate,
    .sync = op_sync,
    .readdir = op_readdir,
};

bru_status hostfs_open(const char *path, const hostfs_options *opt, vfs_fs **out, bru_error *err) {
    static const hostfs_options none;
    if (!opt) opt = &none;
    *out = NULL;
    hostfs *h = mem_zero(1, sizeof *h);
    if (!h) return error_set(err, BRU_ENOMEM, "%s: no memory", path);
    fs_init(&h->fs, &hostfs_ops);
    h->writable = opt->writable;
    h->max_open = opt->max_open ? opt->max_open : DEFAULT_OPEN;
    h->max_write = opt->max_write ? opt->max_write : DEFAULT_WRITE;
    h->max_total = opt->max_total ? opt->max_total : UINT64_MAX;
    char leaf[256];
    bru_status st = BRU_OK;
    int e = os_root_open(path, &h->root, leaf);
    if (e == -ENXIO)
        st = error_set(err, BRU_EINVAL, "%s: neither a folder nor a regular file", path);
    else if (e)
        st = error_errno(err, -e, "%s: cannot be mounted", path);
    if (opt->by_parts) h->root.by_parts = true;
    if (!st && node_new("", 0, leaf, strlen(leaf), &h->root_node))
        st = error_set(err, BRU_ENOMEM, "%s: no memory", path);
    if (st)
        fs_unref(&h->fs);
    else
        *out = &h->fs;
    return st;
}
