/* The file system at /dev: a fixed table of devices, without state of its own. */
#include "vfs_internal.h"

#include <string.h>

typedef enum device {
    DEV_ROOT,
    DEV_FULL,
    DEV_NULL,
    DEV_RANDOM,
    DEV_STDERR,
    DEV_STDIN,
    DEV_STDOUT,
    DEV_URANDOM,
    DEV_ZERO,
    DEV_COUNT
} device;

static const char *const names[DEV_COUNT] = { "",      "full",   "null",    "random", "stderr",
                                              "stdin", "stdout", "urandom", "zero" };

typedef struct devices {
    vfs_fs fs;
    sink *output;
    source *input;
    random_source random;
    uint8_t nodes[DEV_COUNT]; /* a node, and an open file, is the address of one of these */
} devices;

static devices *devices_of(vfs_fs *fs) {
    return (devices *)fs;
}

static device device_of(const devices *d, const void *node) {
    return (device)((const uint8_t *)node - d->nodes);
}

static vfs_node *node_at(devices *d, device which) {
    return (vfs_node *)(void *)&d->nodes[which];
}

static void op_destroy(vfs_fs *fs) {
    mem_free(devices_of(fs));
}

static vfs_node *op_root(vfs_fs *fs) {
    return node_at(devices_of(fs), DEV_ROOT);
}

static vfs_err op_lookup(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out,
                         vfs_kind *kind) {
    devices *d = devices_of(fs);
    if (device_of(d, dir) != DEV_ROOT) return VFS_ENOTDIR;
    for (int i = DEV_ROOT + 1; i < DEV_COUNT; i++) {
        if (strlen(names[i]) != len || memcmp(names[i], name, len) != 0) continue;
        *out = node_at(d, (device)i);
        *kind = VFS_CHAR;
        return VFS_OK;
    }
    return VFS_ENOENT;
}

static vfs_err op_parent(vfs_fs *fs, vfs_node *dir, vfs_node **out) {
    (void)dir;
    *out = op_root(fs);
    return VFS_OK;
}

static vfs_err op_file_stat(vfs_fs *fs, void *file, vfs_stat *out) {
    device which = device_of(devices_of(fs), file);
    *out = (vfs_stat){ .ino = (uint64_t)which + 1,
                       .links = 1,
                       .kind = which == DEV_ROOT ? VFS_DIR : VFS_CHAR };
    return VFS_OK;
}

static vfs_err op_stat(vfs_fs *fs, vfs_node *n, vfs_stat *out) {
    return op_file_stat(fs, n, out);
}

static vfs_err op_set_times(vfs_fs *fs, vfs_node *n, const vfs_times *t) {
    (void)fs;
    (void)n;
    (void)t;
    return VFS_EPERM;
}

static vfs_err op_open(vfs_fs *fs, vfs_node *n, unsigned flags, void **file) {
    device which = device_of(devices_of(fs), n);
    if (which == DEV_ROOT && flags & (VFS_WRITE | VFS_TRUNC)) return VFS_EISDIR;
    if (which == DEV_STDIN && flags & VFS_WRITE) return VFS_EACCES;
    if ((which == DEV_STDOUT || which == DEV_STDERR) && flags & VFS_READ) return VFS_EACCES;
    *file = n;
    return VFS_OK;
}

static void op_close(vfs_fs *fs, void *file) {
    (void)fs;
    (void)file;
}

/* One read of endless bytes gives no more: a guest's deadline waits for it. Below 1 ms. */
#define ENDLESS_READ_MAX ((size_t)256 << 10)

static vfs_err op_read(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n) {
    devices *d = devices_of(fs);
    size_t part = len < ENDLESS_READ_MAX ? len : ENDLESS_READ_MAX;
    (void)at;
    *n = 0;
    switch (device_of(d, file)) {
    case DEV_STDIN: return d->input ? source_read(d->input, out, len, n) : VFS_OK;
    case DEV_NULL: return VFS_OK;
    case DEV_FULL:
    case DEV_ZERO: memset(out, 0, part); break;
    case DEV_RANDOM:
    case DEV_URANDOM:
        if (!d->random.fill(d->random.ctx, out, part)) return VFS_EIO;
        break;
    default: return VFS_EBADF;
    }
    *n = part;
    return VFS_OK;
}

static vfs_err op_write(vfs_fs *fs, void *file, uint64_t *at, bool append, const void *bytes,
                        size_t len, size_t *n) {
    devices *d = devices_of(fs);
    (void)at;
    (void)append;
    *n = 0;
    switch (device_of(d, file)) {
    case DEV_STDOUT:
        if (d->output) return sink_write(d->output, SINK_OUT, bytes, len, n);
        break;
    case DEV_STDERR:
        if (d->output) return sink_write(d->output, SINK_ERR, bytes, len, n);
        break;
    case DEV_FULL: return VFS_ENOSPC;
    case DEV_STDIN: return VFS_EBADF;
    default: break;
    }
    *n = len;
    return VFS_OK;
}

static vfs_err op_readdir(vfs_fs *fs, void *file, uint64_t cookie, vfs_dirent *out) {
    devices *d = devices_of(fs);
    if (device_of(d, file) != DEV_ROOT) return VFS_ENOTDIR;
    out->len = 0;
    if (cookie >= DEV_COUNT - 1) return VFS_OK;
    size_t which = (size_t)cookie + 1;
    *out = (vfs_dirent){ .next = cookie + 1,
                         .ino = which + 1,
                         .kind = VFS_CHAR,
                         .len = (uint32_t)strlen(names[which]) };
    memcpy(out->name, names[which], out->len + 1);
    return VFS_OK;
}

static vfs_err op_path(vfs_fs *fs, void *file, vfs_path *out) {
    const char *name = names[device_of(devices_of(fs), file)];
    return *name ? path_add(out, name, strlen(name)) : VFS_OK;
}

static vfs_err op_ready(vfs_fs *fs, void *file, bool write, uint64_t *bytes, bool *eof) {
    devices *d = devices_of(fs);
    device which = device_of(d, file);
    size_t n = 0;
    *bytes = 0;
    *eof = false;
    if (write && d->output && (which == DEV_STDOUT || which == DEV_STDERR))
        return sink_write(d->output, which == DEV_STDERR, "", 0, &n);
    if (!write && which == DEV_STDIN && d->input) return source_ready(d->input, bytes, eof);
    if (!write) *eof = which == DEV_NULL || which == DEV_STDIN;
    return VFS_OK;
}

static const vfs_ops devices_ops = {
    .name = "devices",
    .destroy = op_destroy,
    .root = op_root,
    .lookup = op_lookup,
    .parent = op_parent,
    .stat = op_stat,
    .set_times = op_set_times,
    .open = op_open,
    .close = op_close,
    .read = op_read,
    .write = op_write,
    .file_stat = op_file_stat,
    .path = op_path,
    .readdir = op_readdir,
    .ready = op_ready,
};

bru_status devices_new(sink *output, source *input, const random_source *random, vfs_fs **out,
                       bru_error *err) {
    *out = NULL;
    devices *d = mem_zero(1, sizeof *d);
    if (!d) return error_set(err, BRU_ENOMEM, "no memory for /dev");
    fs_init(&d->fs, &devices_ops);
    d->output = output;
    d->input = input;
    d->random = random && random->fill ? *random : random_system;
    *out = &d->fs;
    return BRU_OK;
}
