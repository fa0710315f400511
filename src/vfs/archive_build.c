/* Makes an archive of a host folder: the names first, folder by folder and sorted, then the data
 * in one pass. The folder is read through hostfs, so no link leads out of it here either. */
#include "archive.h"
#include "vfs_internal.h"

#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define FILE_MAX ((uint64_t)4 << 30)

typedef struct item {
    vfs_node *node; /* held */
    char *path;     /* below the folder */
    size_t name;    /* where its last part begins */
    vfs_kind kind;
    uint32_t parent, first, children;
    uint64_t offset, size;
} item;

typedef struct builder {
    vfs_fs *fs;
    item *items;
    uint32_t count, cap;
    bool (*keep)(void *ctx, const char *path, vfs_kind kind);
    void *keep_ctx;
    uint64_t mtime;
    archive_write write;
    void *write_ctx;
    bru_error *err;
    XXH3_state_t *sum;
    uint8_t part[65536];
} builder;

/* Takes over `node` and `path`, whether it succeeds or not. */
static bru_status item_add(builder *b, vfs_node *node, char *path, vfs_kind kind, uint32_t parent) {
    bru_status st = BRU_OK;
    if (b->count == ARCHIVE_ENTRIES_MAX)
        st = error_set(b->err, BRU_ELIMIT, "%s: more than %u entries", path, ARCHIVE_ENTRIES_MAX);
    if (!st && b->count == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 256;
        item *items = mem_grow(b->items, cap * sizeof *items);
        if (items) {
            b->items = items;
            b->cap = cap;
        } else {
            st = error_set(b->err, BRU_ENOMEM, "%s: no memory", path);
        }
    }
    if (st) {
        b->fs->ops->drop(b->fs, node);
        mem_free(path);
        return st;
    }
    const char *slash = strrchr(path, '/');
    b->items[b->count++] = (item){ .node = node,
                                   .path = path,
                                   .kind = kind,
                                   .parent = parent,
                                   .name = slash ? (size_t)(slash - path) + 1 : 0 };
    return BRU_OK;
}

static bru_status child_add(builder *b, uint32_t dir, const char *name, size_t len) {
    const item *d = &b->items[dir];
    size_t base = strlen(d->path);
    char *path = mem_zero(1, base + 1 + len + 1);
    if (!path) return error_set(b->err, BRU_ENOMEM, "%s: no memory", name);
    memcpy(path, d->path, base);
    if (base > 0) path[base++] = '/';
    memcpy(path + base, name, len);
    vfs_node *n = NULL;
    vfs_kind kind = VFS_UNKNOWN;
    bru_status st =
        vfs_error(b->err, b->fs->ops->lookup(b->fs, d->node, name, len, &n, &kind), path);
    if (!st && (!b->keep || b->keep(b->keep_ctx, path, kind))) {
        if (kind != VFS_UNKNOWN) return item_add(b, n, path, kind, dir);
        st = error_set(b->err, BRU_EINVAL, "%s: neither a file, a folder nor a link", path);
    }
    if (n) b->fs->ops->drop(b->fs, n);
    mem_free(path);
    return st;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names in a folder, NUL-terminated in `text`, pointed to by `*list`, sorted. */
static bru_status names_read(builder *b, const item *d, buf *text, char ***list, size_t *count) {
    void *f = NULL;
    vfs_dirent entry = { 0 };
    size_t n = 0;
    vfs_err e = b->fs->ops->open(b->fs, d->node, VFS_READ, &f);
    if (e) return vfs_error(b->err, e, d->path);
    bru_status st = BRU_OK;
    for (;;) {
        e = b->fs->ops->readdir(b->fs, f, entry.next, &entry);
        if (e || entry.len == 0) break;
        st = buf_append(text, entry.name, entry.len + 1);
        if (st) break;
        n++;
    }
    b->fs->ops->close(b->fs, f);
    if (e) return vfs_error(b->err, e, d->path);
    *list = mem_zero(n + 1, sizeof **list);
    if (st || !*list) return error_set(b->err, BRU_ENOMEM, "%s: no memory for its names", d->path);
    char *p = (char *)text->data;
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1) (*list)[i] = p;
    qsort(*list, n, sizeof **list, by_name);
    *count = n;
    return BRU_OK;
}

static bru_status folder_read(builder *b, uint32_t dir) {
    buf text;
    buf_init(&text, SIZE_MAX);
    char **list = NULL;
    size_t count = 0;
    item d = b->items[dir];
    bru_status st = names_read(b, &d, &text, &list, &count);
    b->items[dir].first = b->count;
    for (size_t i = 0; !st && i < count; i++) st = child_add(b, dir, list[i], strlen(list[i]));
    b->items[dir].children = b->count - b->items[dir].first;
    mem_free(list);
    buf_free(&text);
    return st;
}

/* Finds sizes and gives every file its place. Answers where the data ends. */
static bru_status layout(builder *b, uint64_t data, uint64_t *end) {
    uint64_t at = data;
    for (uint32_t i = 0; i < b->count; i++) {
        item *it = &b->items[i];
        if (it->kind == VFS_DIR) continue;
        vfs_stat st;
        vfs_err e = b->fs->ops->stat(b->fs, it->node, &st);
        if (e) return vfs_error(b->err, e, it->path);
        if (st.size > FILE_MAX) return error_set(b->err, BRU_ELIMIT, "%s: above 4 GiB", it->path);
        it->offset = at;
        it->size = st.size;
        at += (st.size + ARCHIVE_ALIGN - 1) / ARCHIVE_ALIGN * ARCHIVE_ALIGN;
    }
    *end = at;
    return BRU_OK;
}

static void entry_fill(const builder *b, uint32_t i, uint32_t name, uint8_t *e) {
    const item *it = &b->items[i];
    memset(e, 0, ARCHIVE_ENTRY);
    le_put(e + ENT_NAME, name, 4);
    le_put(e + ENT_NAME_LEN, strlen(it->path + it->name), 2);
    e[ENT_KIND] = (uint8_t)it->kind;
    le_put(e + ENT_PARENT, it->parent, 4);
    if (it->kind == VFS_DIR) le_put(e + ENT_FIRST, it->first, 4);
    le_put(e + ENT_CHILDREN, it->children, 4);
    le_put(e + ENT_OFFSET, it->offset, 8);
    le_put(e + ENT_SIZE, it->size, 8);
    le_put(e + ENT_MTIME, b->mtime, 8);
}

static bru_status tables_fill(const builder *b, buf *tables) {
    uint32_t name = 0;
    bru_status st = BRU_OK;
    for (uint32_t i = 0; !st && i < b->count; i++) {
        uint8_t e[ARCHIVE_ENTRY];
        entry_fill(b, i, name, e);
        name += (uint32_t)strlen(b->items[i].path + b->items[i].name);
        st = buf_append(tables, e, sizeof e);
    }
    for (uint32_t i = 0; !st && i < b->count; i++) {
        const char *text = b->items[i].path + b->items[i].name;
        st = buf_append(tables, text, strlen(text));
    }
    return st;
}

static bru_status put(builder *b, const void *bytes, size_t len) {
    return len ? b->write(b->write_ctx, bytes, len, b->err) : BRU_OK;
}

static bru_status put_data(builder *b, const void *bytes, size_t len) {
    XXH3_64bits_update(b->sum, bytes, len);
    return put(b, bytes, len);
}

static bru_status put_file(builder *b, const item *it) {
    void *f = NULL;
    vfs_err e = b->fs->ops->open(b->fs, it->node, VFS_READ, &f);
    if (e) return vfs_error(b->err, e, it->path);
    bru_status st = BRU_OK;
    uint64_t at = 0;
    while (!st) {
        size_t n = 0;
        e = b->fs->ops->read(b->fs, f, at, b->part, sizeof b->part, &n);
        if (e) st = vfs_error(b->err, e, it->path);
        if (st || n == 0) break;
        at += n;
        if (at <= it->size)
            st = put_data(b, b->part, n);
        else
            break;
    }
    b->fs->ops->close(b->fs, f);
    if (!st && at != it->size)
        st = error_set(b->err, BRU_EIO, "%s: changed while it was read", it->path);
    return st;
}

static bru_status put_link(builder *b, const item *it) {
    size_t len = 0;
    char *text = (char *)b->part;
    vfs_err e = b->fs->ops->readlink(b->fs, it->node, text, &len);
    if (e) return vfs_error(b->err, e, it->path);
    if (!target_valid(text, len) || text[0] == '/')
        return error_set(b->err, BRU_EINVAL, "%s: a link that is not relative", it->path);
    if (len != it->size)
        return error_set(b->err, BRU_EIO, "%s: changed while it was read", it->path);
    return put_data(b, text, len);
}

static bru_status put_all_data(builder *b) {
    static const uint8_t zeroes[ARCHIVE_ALIGN];
    bru_status st = BRU_OK;
    for (uint32_t i = 0; !st && i < b->count; i++) {
        const item *it = &b->items[i];
        if (it->kind == VFS_DIR) continue;
        st = it->kind == VFS_LINK ? put_link(b, it) : put_file(b, it);
        size_t odd = (size_t)(it->size % ARCHIVE_ALIGN);
        if (!st && odd) st = put_data(b, zeroes, ARCHIVE_ALIGN - odd);
    }
    return st;
}

static bru_status put_head(builder *b, const buf *tables, uint64_t names, uint64_t data,
                           uint64_t end) {
    static const uint8_t pad[ARCHIVE_ALIGN];
    uint8_t head[ARCHIVE_HEADER] = ARCHIVE_MAGIC;
    le_put(head + HEAD_VERSION, ARCHIVE_VERSION, 4);
    le_put(head + HEAD_COUNT, b->count, 4);
    le_put(head + HEAD_TOTAL, end + ARCHIVE_TRAILER, 8);
    le_put(head + HEAD_NAMES, names, 8);
    le_put(head + HEAD_DATA, data, 8);
    le_put(head + HEAD_TABLES_SUM, XXH3_64bits(tables->data, tables->len), 8);
    le_put(head + HEAD_SUM, XXH3_64bits(head, HEAD_SUM), 8);
    bru_status st = put(b, head, sizeof head);
    if (!st) st = put(b, tables->data, tables->len);
    return st ? st : put(b, pad, (size_t)(data - ARCHIVE_HEADER - tables->len));
}

static bru_status put_tail(builder *b) {
    uint8_t tail[ARCHIVE_TRAILER];
    le_put(tail + TAIL_DATA_SUM, XXH3_64bits_digest(b->sum), 8);
    memcpy(tail + TAIL_MAGIC, ARCHIVE_MAGIC, 8);
    return put(b, tail, sizeof tail);
}

static bru_status put_archive(builder *b) {
    uint64_t names = 0, end = 0;
    for (uint32_t i = 0; i < b->count; i++) names += strlen(b->items[i].path + b->items[i].name);
    if (names > UINT32_MAX) return error_set(b->err, BRU_ELIMIT, "above 4 GiB of names");
    uint64_t data = ARCHIVE_HEADER + (uint64_t)b->count * ARCHIVE_ENTRY + names;
    data = (data + ARCHIVE_ALIGN - 1) / ARCHIVE_ALIGN * ARCHIVE_ALIGN;
    buf tables;
    buf_init(&tables, SIZE_MAX);
    bru_status st = layout(b, data, &end);
    if (!st && tables_fill(b, &tables)) st = error_set(b->err, BRU_ENOMEM, "no memory for tables");
    if (!st) st = put_head(b, &tables, names, data, end);
    buf_free(&tables);
    if (!st) st = put_all_data(b);
    return st ? st : put_tail(b);
}

static bru_status root_add(builder *b, const char *folder) {
    vfs_node *root = b->fs->ops->root(b->fs);
    vfs_stat s;
    vfs_err e = b->fs->ops->stat(b->fs, root, &s);
    if (e) return vfs_error(b->err, e, folder);
    if (s.kind != VFS_DIR) return error_set(b->err, BRU_EINVAL, "%s: not a folder", folder);
    char *path = mem_string("");
    if (!path) return error_set(b->err, BRU_ENOMEM, "%s: no memory", folder);
    b->fs->ops->hold(b->fs, root);
    return item_add(b, root, path, VFS_DIR, 0);
}

static void builder_free(builder *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        b->fs->ops->drop(b->fs, b->items[i].node);
        mem_free(b->items[i].path);
    }
    mem_free(b->items);
    XXH3_freeState(b->sum);
    mem_free(b);
}

bru_status archive_build(const char *folder, uint64_t mtime,
                         bool (*keep)(void *ctx, const char *path, vfs_kind kind), void *keep_ctx,
                         archive_write write, void *write_ctx, bru_error *err) {
    vfs_fs *fs = NULL;
    bru_status st = hostfs_open(folder, NULL, &fs, err);
    if (st) return st;
    builder *b = mem_zero(1, sizeof *b);
    if (b) {
        *b = (builder){ .fs = fs,
                        .keep = keep,
                        .keep_ctx = keep_ctx,
                        .mtime = mtime,
                        .write = write,
                        .write_ctx = write_ctx,
                        .err = err,
                        .sum = XXH3_createState() };
        if (b->sum) XXH3_64bits_reset(b->sum);
        st = b->sum ? root_add(b, folder) : error_set(err, BRU_ENOMEM, "%s: no memory", folder);
        for (uint32_t i = 0; !st && i < b->count; i++) /* which grows as they are read */
            if (b->items[i].kind == VFS_DIR) st = folder_read(b, i);
        if (!st) st = put_archive(b);
        builder_free(b);
    } else {
        st = error_set(err, BRU_ENOMEM, "%s: no memory", folder);
    }
    fs_unref(fs);
    return st;
}
