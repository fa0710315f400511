/* A read-only tree of files that lies in one piece of memory and is used as it lies there: a node
 * is the address of its entry, an open file likewise. Everything is checked when it is opened, so
 * that afterwards every number in it can be believed. */
#include "archive.h"
#include "vfs_internal.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

typedef struct archive {
    vfs_fs fs;
    const uint8_t *bytes, *entries, *names;
    size_t len;
    uint32_t count;
    void (*release)(void *ctx);
    void *ctx;
} archive;

static archive *archive_of(vfs_fs *fs) {
    return (archive *)fs;
}

uint32_t archive_entries(vfs_fs *fs) {
    return archive_of(fs)->count;
}

static const uint8_t *entry_at(const archive *a, uint32_t i) {
    return a->entries + (size_t)i * ARCHIVE_ENTRY;
}

static uint32_t get32(const uint8_t *e, unsigned field) {
    return (uint32_t)le_get(e + field, 4);
}

static uint64_t get64(const uint8_t *e, unsigned field) {
    return le_get(e + field, 8);
}

static size_t name_len(const uint8_t *e) {
    return (size_t)le_get(e + ENT_NAME_LEN, 2);
}

static const char *name_of(const archive *a, const uint8_t *e) {
    return (const char *)a->names + get32(e, ENT_NAME);
}

static const uint8_t *entry_of(const void *node) {
    return node;
}

static vfs_node *node_of(const uint8_t *e) {
    return (vfs_node *)(uintptr_t)e;
}

static uint64_t ino_of(const archive *a, const uint8_t *e) {
    return (uint64_t)(e - a->entries) / ARCHIVE_ENTRY + 1;
}

static int name_compare(const char *a, size_t a_len, const char *b, size_t b_len) {
    size_t len = a_len < b_len ? a_len : b_len;
    int order = memcmp(a, b, len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

/* ---- Operations ---- */

static void op_destroy(vfs_fs *fs) {
    archive *a = archive_of(fs);
    if (a->release) a->release(a->ctx);
    mem_free(a);
}

static vfs_node *op_root(vfs_fs *fs) {
    return node_of(archive_of(fs)->entries);
}

static vfs_err op_lookup(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out,
                         vfs_kind *kind) {
    const archive *a = archive_of(fs);
    const uint8_t *d = entry_of(dir);
    if (d[ENT_KIND] != VFS_DIR) return VFS_ENOTDIR;
    uint32_t low = get32(d, ENT_FIRST), high = low + get32(d, ENT_CHILDREN);
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const uint8_t *e = entry_at(a, mid);
        int order = name_compare(name, len, name_of(a, e), name_len(e));
        if (order == 0) {
            *out = node_of(e);
            *kind = (vfs_kind)e[ENT_KIND];
            return VFS_OK;
        }
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return VFS_ENOENT;
}

static vfs_err op_parent(vfs_fs *fs, vfs_node *dir, vfs_node **out) {
    *out = node_of(entry_at(archive_of(fs), get32(entry_of(dir), ENT_PARENT)));
    return VFS_OK;
}

static vfs_err op_file_stat(vfs_fs *fs, void *file, vfs_stat *out) {
    const uint8_t *e = file;
    uint64_t mtime = get64(e, ENT_MTIME);
    *out = (vfs_stat){ .ino = ino_of(archive_of(fs), e),
                       .links = 1,
                       .size = get64(e, ENT_SIZE),
                       .kind = (vfs_kind)e[ENT_KIND],
                       .atime = mtime,
                       .mtime = mtime,
                       .ctime = mtime };
    return VFS_OK;
}

static vfs_err op_stat(vfs_fs *fs, vfs_node *n, vfs_stat *out) {
    return op_file_stat(fs, n, out);
}

static vfs_err op_readlink(vfs_fs *fs, vfs_node *n, char *out, size_t *len) {
    const uint8_t *e = entry_of(n);
    if (e[ENT_KIND] != VFS_LINK) return VFS_EINVAL;
    *len = (size_t)get64(e, ENT_SIZE);
    memcpy(out, archive_of(fs)->bytes + get64(e, ENT_OFFSET), *len);
    return VFS_OK;
}

static vfs_err op_open(vfs_fs *fs, vfs_node *n, unsigned flags, void **file) {
    (void)fs;
    if (flags & (VFS_WRITE | VFS_TRUNC)) return VFS_EROFS;
    if (entry_of(n)[ENT_KIND] == VFS_LINK) return VFS_ELOOP;
    *file = n;
    return VFS_OK;
}

static void op_close(vfs_fs *fs, void *file) {
    (void)fs;
    (void)file;
}

static vfs_err op_read(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n) {
    const uint8_t *e = file;
    uint64_t size = get64(e, ENT_SIZE);
    *n = 0;
    if (e[ENT_KIND] != VFS_REGULAR) return VFS_EISDIR;
    if (at >= size) return VFS_OK;
    if (len > size - at) len = (size_t)(size - at);
    memcpy(out, archive_of(fs)->bytes + get64(e, ENT_OFFSET) + at, len);
    *n = len;
    return VFS_OK;
}

static vfs_err op_path(vfs_fs *fs, void *file, vfs_path *out) {
    const archive *a = archive_of(fs);
    const uint8_t *e = file;
    vfs_err err = VFS_OK;
    for (; !err && e != a->entries; e = entry_at(a, get32(e, ENT_PARENT)))
        err = path_add(out, name_of(a, e), name_len(e));
    return err;
}

static vfs_err op_readdir(vfs_fs *fs, void *file, uint64_t cookie, vfs_dirent *out) {
    const archive *a = archive_of(fs);
    const uint8_t *d = file;
    if (d[ENT_KIND] != VFS_DIR) return VFS_ENOTDIR;
    out->len = 0;
    if (cookie >= get32(d, ENT_CHILDREN)) return VFS_OK;
    const uint8_t *e = entry_at(a, get32(d, ENT_FIRST) + (uint32_t)cookie);
    out->next = cookie + 1;
    out->ino = ino_of(a, e);
    out->kind = (vfs_kind)e[ENT_KIND];
    out->len = (uint32_t)name_len(e);
    memcpy(out->name, name_of(a, e), out->len);
    out->name[out->len] = '\0';
    return VFS_OK;
}

static const vfs_ops archive_ops = {
    .name = "archive",
    .destroy = op_destroy,
    .root = op_root,
    .lookup = op_lookup,
    .parent = op_parent,
    .stat = op_stat,
    .readlink = op_readlink,
    .open = op_open,
    .close = op_close,
    .read = op_read,
    .file_stat = op_file_stat,
    .path = op_path,
    .readdir = op_readdir,
};

/* ---- Opening ---- */

static bru_status broken(bru_error *err, const char *what) {
    return error_set(err, BRU_EFORMAT, "archive: %s", what);
}

static bru_status check_header(archive *a, bru_error *err) {
    const uint8_t *h = a->bytes;
    if (a->len < ARCHIVE_HEADER + ARCHIVE_ENTRY + ARCHIVE_TRAILER)
        return broken(err, "too short to be one");
    if (memcmp(h, ARCHIVE_MAGIC, 8) != 0) return broken(err, "it does not begin like one");
    if (get64(h, HEAD_SUM) != XXH3_64bits(h, HEAD_SUM)) return broken(err, "damaged header");
    if (get32(h, HEAD_VERSION) != ARCHIVE_VERSION)
        return error_set(err, BRU_EFORMAT, "archive: version %u, but this library reads %u",
                         get32(h, HEAD_VERSION), ARCHIVE_VERSION);
    if (get64(h, HEAD_TOTAL) != a->len)
        return error_set(err, BRU_EFORMAT, "archive: %zu bytes, but it was made with %llu", a->len,
                         (unsigned long long)get64(h, HEAD_TOTAL));
    uint64_t names = get64(h, HEAD_NAMES), data = get64(h, HEAD_DATA);
    a->count = get32(h, HEAD_COUNT);
    if (a->count == 0 || a->count > ARCHIVE_ENTRIES_MAX)
        return broken(err, "bad number of entries");
    uint64_t tables = ARCHIVE_HEADER + (uint64_t)a->count * ARCHIVE_ENTRY;
    if (tables > a->len || names > a->len - tables || data < tables + names ||
        data > a->len - ARCHIVE_TRAILER || get64(h, HEAD_RESERVED) != 0)
        return broken(err, "its tables do not fit into it");
    a->entries = h + ARCHIVE_HEADER;
    a->names = h + tables;
    if (get64(h, HEAD_TABLES_SUM) != XXH3_64bits(a->entries, tables - ARCHIVE_HEADER + names))
        return broken(err, "damaged tables");
    if (memcmp(h + a->len - ARCHIVE_TRAILER + TAIL_MAGIC, ARCHIVE_MAGIC, 8) != 0)
        return broken(err, "its end is missing");
    return BRU_OK;
}

/* Checks an entry; `*next` is the first entry that is no folder's child yet. */
static const char *check_entry(const archive *a, uint32_t i, uint32_t *next) {
    const uint8_t *e = entry_at(a, i);
    uint64_t names = get64(a->bytes, HEAD_NAMES), data = get64(a->bytes, HEAD_DATA);
    uint64_t offset = get64(e, ENT_OFFSET), size = get64(e, ENT_SIZE);
    uint32_t first = get32(e, ENT_FIRST), children = get32(e, ENT_CHILDREN);
    if (e[ENT_KIND + 1] != 0 || get32(e, ENT_CHILDREN + 4) != 0) return "reserved field in use";
    if (get32(e, ENT_NAME) > names || name_len(e) > names - get32(e, ENT_NAME))
        return "a name outside the names";
    if (i > 0 ? !name_valid(name_of(a, e), name_len(e)) : name_len(e) != 0) return "a bad name";
    if (e[ENT_KIND] == VFS_DIR) {
        if (first != *next || children > a->count - *next || size != 0) return "a bad folder";
        for (uint32_t c = first; c < first + children; c++)
            if (get32(entry_at(a, c), ENT_PARENT) != i) return "an entry in the wrong folder";
        *next += children;
        return NULL;
    }
    if (i == 0 || first != 0 || children != 0) return "a file with children";
    if (e[ENT_KIND] != VFS_REGULAR && e[ENT_KIND] != VFS_LINK) return "an unknown kind of entry";
    uint64_t end = a->len - ARCHIVE_TRAILER;
    if (offset < data || offset > end || size > end - offset) return "data outside the archive";
    if (e[ENT_KIND] == VFS_LINK &&
        (size > VFS_PATH_MAX || !target_valid((const char *)a->bytes + offset, (size_t)size)))
        return "a bad link";
    return NULL;
}

static bru_status check_entries(const archive *a, bru_error *err) {
    uint32_t next = 1;
    for (uint32_t i = 0; i < a->count; i++) {
        if (i >= next) return error_set(err, BRU_EFORMAT, "archive: entry %u in no folder", i);
        const char *wrong = check_entry(a, i, &next);
        if (wrong) return error_set(err, BRU_EFORMAT, "archive: entry %u: %s", i, wrong);
        const uint8_t *e = entry_at(a, i), *before = i > 0 ? entry_at(a, i - 1) : NULL;
        if (before && i > 1 && get32(before, ENT_PARENT) == get32(e, ENT_PARENT) &&
            name_compare(name_of(a, before), name_len(before), name_of(a, e), name_len(e)) >= 0)
            return error_set(err, BRU_EFORMAT, "archive: entry %u: names out of order", i);
    }
    return BRU_OK;
}

bru_status archive_open(const void *bytes, size_t len, bool verify, void (*release)(void *ctx),
                        void *ctx, vfs_fs **out, bru_error *err) {
    *out = NULL;
    archive *a = mem_zero(1, sizeof *a);
    if (!a) {
        if (release) release(ctx);
        return error_set(err, BRU_ENOMEM, "no memory for an archive");
    }
    fs_init(&a->fs, &archive_ops);
    a->bytes = bytes;
    a->len = len;
    a->release = release;
    a->ctx = ctx;
    bru_status st = check_header(a, err);
    if (!st) st = check_entries(a, err);
    if (!st && verify) {
        size_t data = (size_t)get64(a->bytes, HEAD_DATA), end = len - ARCHIVE_TRAILER;
        if (XXH3_64bits(a->bytes + data, end - data) != get64(a->bytes + end, TAIL_DATA_SUM))
            st = broken(err, "damaged data");
    }
    if (st)
        fs_unref(&a->fs);
    else
        *out = &a->fs;
    return st;
}
