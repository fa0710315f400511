/* Makes an archive of a file system and of files in memory that are laid over it: the names first,
 * folder by folder and sorted, then the data in one pass. A host folder is read through hostfs, so
 * no link leads out of it here either. */
#include "archive.h"
#include "vfs_internal.h"

#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define FILE_MAX  ((uint64_t)4 << 30)
#define PART_SIZE ((size_t)1 << 18)

typedef struct item {
    vfs_node *node; /* held; NULL: only added */
    char *path;     /* below the folder */
    size_t name;    /* where its last part begins */
    vfs_kind kind;
    uint32_t parent, first, children;
    size_t added, added_end; /* what is added at or below it, a range of builder.added */
    uint64_t offset, size;
} item;

typedef struct builder {
    vfs_fs *fs;
    item *items;
    uint32_t count, cap;
    const archive_file **added; /* by their paths, what is in one folder side by side */
    size_t added_count;
    bool (*keep)(void *ctx, const char *path, vfs_kind kind);
    void *keep_ctx;
    uint64_t mtime;
    archive_write write;
    void *write_ctx;
    bru_error *err;
    XXH3_state_t *sum;
    uint8_t *part; /* PART_SIZE bytes */
} builder;

static void node_hold(builder *b, vfs_node *n) {
    if (b->fs->ops->hold) b->fs->ops->hold(b->fs, n);
}

static void node_drop(builder *b, vfs_node *n) {
    if (n && b->fs->ops->drop) b->fs->ops->drop(b->fs, n);
}

/* Takes over the node and the path of `it`, whether it succeeds or not. */
static bru_status item_add(builder *b, item it) {
    bru_status st = BRU_OK;
    if (b->count == ARCHIVE_ENTRIES_MAX)
        st =
            error_set(b->err, BRU_ELIMIT, "%s: more than %u entries", it.path, ARCHIVE_ENTRIES_MAX);
    if (!st && b->count == b->cap) {
        uint32_t cap = b->cap ? b->cap * 2 : 256;
        item *items = mem_grow(b->items, cap * sizeof *items);
        if (items) {
            b->items = items;
            b->cap = cap;
        } else {
            st = error_set(b->err, BRU_ENOMEM, "%s: no memory", it.path);
        }
    }
    if (st) {
        node_drop(b, it.node);
        mem_free(it.path);
        return st;
    }
    const char *slash = strrchr(it.path, '/');
    it.name = slash ? (size_t)(slash - it.path) + 1 : 0;
    b->items[b->count++] = it;
    return BRU_OK;
}

/* ---- What is added ---- */

static int rank(char c) {
    return c == '\0' ? 0 : c == '/' ? 1 : (unsigned char)c + 1;
}

static int by_path(const void *a, const void *b) {
    const char *p = (*(const archive_file *const *)a)->path;
    const char *q = (*(const archive_file *const *)b)->path;
    for (; *p && *p == *q; p++) q++;
    return rank(*p) - rank(*q);
}

static bru_status added_check(const archive_file *f, bru_error *err) {
    size_t depth = 0;
    const char *shown = f->path && utf8_valid(f->path, strlen(f->path)) ? f->path : "a path";
    for (const char *part = f->path; part; depth++) {
        const char *slash = strchr(part, '/');
        if (!name_valid(part, slash ? (size_t)(slash - part) : strlen(part)))
            return error_set(
                err, BRU_EINVAL,
                "%.200s: not a path to add: names of 1 to %u bytes of UTF-8, parted by "
                "slashes, none of them . or ..",
                shown, VFS_NAME_MAX);
        part = slash ? slash + 1 : NULL;
    }
    if (depth == 0 || depth > ARCHIVE_DEPTH_MAX || strlen(f->path) > ARCHIVE_PATH_MAX)
        return error_set(err, BRU_ELIMIT, "%.200s: a path to add has at most %u bytes, %u folders",
                         shown, ARCHIVE_PATH_MAX, ARCHIVE_DEPTH_MAX);
    if (f->len > 0 && !f->data) return error_set(err, BRU_EINVAL, "%.200s: no data", shown);
    return BRU_OK;
}

static bru_status added_take(builder *b, const archive_file *files, size_t count) {
    b->added = mem_zero(count + 1, sizeof *b->added);
    if (!b->added) return error_set(b->err, BRU_ENOMEM, "no memory for %zu files", count);
    for (size_t i = 0; i < count; i++) {
        bru_status st = added_check(&files[i], b->err);
        if (st) return st;
        b->added[i] = &files[i];
    }
    b->added_count = count;
    qsort(b->added, count, sizeof *b->added, by_path);
    return BRU_OK;
}

/* Where, from `at` on, what is added at or below `path` ends. */
static size_t added_end(const builder *b, const char *path, size_t at, size_t end) {
    size_t len = strlen(path);
    while (at < end && strncmp(b->added[at]->path, path, len) == 0 &&
           (b->added[at]->path[len] == '/' || b->added[at]->path[len] == '\0'))
        at++;
    return at;
}

/* ---- Folders ---- */

/* Completes `it`, which is what its file system has at its path, by what is added there. */
static bru_status child_merge(const builder *b, item *it) {
    if (it->added == it->added_end) return BRU_OK;
    bool file = strcmp(b->added[it->added]->path, it->path) == 0;
    if (file && it->added_end - it->added > 1)
        return error_set(b->err, BRU_EINVAL, "%s: added twice, or as a file and a folder",
                         it->path);
    if (it->node && (file || it->kind != VFS_DIR))
        return error_set(b->err, BRU_EINVAL, "%s: cannot be added, it is there already", it->path);
    it->kind = file ? VFS_REGULAR : VFS_DIR;
    return BRU_OK;
}

/* `*at` is where in builder.added what belongs to the names from here on begins. */
static bru_status child_add(builder *b, uint32_t dir, const char *name, size_t len, size_t *at) {
    const item *d = &b->items[dir];
    size_t base = strlen(d->path);
    item it = { .parent = dir, .path = mem_zero(1, base + 1 + len + 1) };
    if (!it.path) return error_set(b->err, BRU_ENOMEM, "%s: no memory", name);
    memcpy(it.path, d->path, base);
    if (base > 0) it.path[base++] = '/';
    memcpy(it.path + base, name, len);
    it.added = *at;
    it.added_end = *at = added_end(b, it.path, *at, d->added_end);
    vfs_err e =
        d->node ? b->fs->ops->lookup(b->fs, d->node, name, len, &it.node, &it.kind) : VFS_ENOENT;
    if (e == VFS_ENOENT && it.added < it.added_end) e = VFS_OK;
    bru_status st = vfs_error(b->err, e, it.path);
    bool kept = !it.node || !b->keep || b->keep(b->keep_ctx, it.path, it.kind);
    if (!st && kept) st = child_merge(b, &it);
    if (!st && kept && it.kind == VFS_UNKNOWN)
        st = error_set(b->err, BRU_EINVAL, "%s: neither a file, a folder nor a link", it.path);
    if (!st && kept) return item_add(b, it);
    node_drop(b, it.node);
    mem_free(it.path);
    return st;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Appends the names in a folder of the file system, each with its NUL. */
static bru_status names_read(builder *b, const item *d, buf *text) {
    void *f = NULL;
    vfs_dirent entry = { 0 };
    bru_status st = BRU_OK;
    if (!d->node) return BRU_OK;
    vfs_err e = b->fs->ops->open(b->fs, d->node, VFS_READ, &f);
    if (e) return vfs_error(b->err, e, d->path);
    while (!st) {
        e = b->fs->ops->readdir(b->fs, f, entry.next, &entry);
        if (e || entry.len == 0) break;
        st = buf_append(text, entry.name, entry.len + 1);
    }
    b->fs->ops->close(b->fs, f);
    if (st) return error_set(b->err, BRU_ENOMEM, "%s: no memory for its names", d->path);
    return vfs_error(b->err, e, d->path);
}

/* The same for the names that are added. */
static bru_status names_added(builder *b, const item *d, buf *text) {
    size_t skip = strlen(d->path), before_len = 0;
    const char *before = NULL;
    if (skip > 0) skip++;
    for (size_t i = d->added; i < d->added_end; i++) {
        const char *name = b->added[i]->path + skip;
        size_t len = strcspn(name, "/");
        if (before && len == before_len && memcmp(name, before, len) == 0) continue;
        if (buf_append(text, name, len) || buf_append(text, "", 1))
            return error_set(b->err, BRU_ENOMEM, "%s: no memory for its names", d->path);
        before = name;
        before_len = len;
    }
    return BRU_OK;
}

/* All names in a folder, NUL-terminated in `text`, pointed to by `*list`, sorted, each once. */
static bru_status names_list(builder *b, const item *d, buf *text, char ***list, size_t *count) {
    bru_status st = names_read(b, d, text);
    if (!st) st = names_added(b, d, text);
    if (st) return st;
    size_t n = 0, once = 0;
    for (size_t i = 0; i < text->len; i++) n += text->data[i] == '\0';
    char **all = *list = mem_zero(n + 1, sizeof **list);
    if (!all) return error_set(b->err, BRU_ENOMEM, "%s: no memory for its names", d->path);
    char *p = (char *)text->data;
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1) all[i] = p;
    qsort(all, n, sizeof *all, by_name);
    for (size_t i = 0; i < n; i++)
        if (once == 0 || strcmp(all[once - 1], all[i]) != 0) all[once++] = all[i];
    *count = once;
    return BRU_OK;
}

static bru_status folder_read(builder *b, uint32_t dir) {
    buf text;
    buf_init(&text, SIZE_MAX);
    char **list = NULL;
    size_t count = 0;
    item d = b->items[dir];
    size_t at = d.added;
    bru_status st = names_list(b, &d, &text, &list, &count);
    b->items[dir].first = b->count;
    for (size_t i = 0; !st && i < count; i++) st = child_add(b, dir, list[i], strlen(list[i]), &at);
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
        if (it->node) {
            vfs_err e = b->fs->ops->stat(b->fs, it->node, &st);
            if (e) return vfs_error(b->err, e, it->path);
            it->size = st.size;
        } else {
            it->size = b->added[it->added]->len;
        }
        if (it->size > FILE_MAX) return error_set(b->err, BRU_ELIMIT, "%s: above 4 GiB", it->path);
        it->offset = at;
        at += (it->size + ARCHIVE_ALIGN - 1) / ARCHIVE_ALIGN * ARCHIVE_ALIGN;
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
    if (!it->node) return put_data(b, b->added[it->added]->data, (size_t)it->size);
    vfs_err e = b->fs->ops->open(b->fs, it->node, VFS_READ, &f);
    if (e) return vfs_error(b->err, e, it->path);
    bru_status st = BRU_OK;
    uint64_t at = 0;
    while (!st) {
        size_t n = 0;
        e = b->fs->ops->read(b->fs, f, at, b->part, PART_SIZE, &n);
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

static bru_status root_add(builder *b) {
    item it = { .node = b->fs->ops->root(b->fs), .kind = VFS_DIR, .added_end = b->added_count };
    vfs_stat s;
    vfs_err e = b->fs->ops->stat(b->fs, it.node, &s);
    if (e) return vfs_error(b->err, e, "the folder of the archive");
    if (s.kind != VFS_DIR)
        return error_set(b->err, BRU_EINVAL, "what the archive is made of is not a folder");
    it.path = mem_string("");
    if (!it.path) return error_set(b->err, BRU_ENOMEM, "no memory for an archive");
    node_hold(b, it.node);
    return item_add(b, it);
}

static void builder_free(builder *b) {
    for (uint32_t i = 0; i < b->count; i++) {
        node_drop(b, b->items[i].node);
        mem_free(b->items[i].path);
    }
    mem_free(b->items);
    mem_free(b->added);
    mem_free(b->part);
    XXH3_freeState(b->sum);
    mem_free(b);
}

/* What `with` says is to be made into an archive; its other fields are filled here. */
static bru_status build(const builder *with, const archive_file *files, size_t count) {
    builder *b = mem_zero(1, sizeof *b);
    if (!b) return error_set(with->err, BRU_ENOMEM, "no memory for an archive");
    *b = *with;
    b->sum = XXH3_createState();
    b->part = mem_zero(1, PART_SIZE);
    if (b->sum) XXH3_64bits_reset(b->sum);
    bru_status st = b->sum && b->part ? added_take(b, files, count)
                                      : error_set(b->err, BRU_ENOMEM, "no memory for an archive");
    if (!st) st = root_add(b);
    for (uint32_t i = 0; !st && i < b->count; i++) /* which grows as they are read */
        if (b->items[i].kind == VFS_DIR) st = folder_read(b, i);
    if (!st) st = put_archive(b);
    builder_free(b);
    return st;
}

bru_status archive_extend(vfs_fs *fs, const archive_file *files, size_t count, uint64_t mtime,
                          archive_write write, void *write_ctx, bru_error *err) {
    const builder with = {
        .fs = fs, .mtime = mtime, .write = write, .write_ctx = write_ctx, .err = err
    };
    return build(&with, files, count);
}

bru_status archive_build(const char *folder, uint64_t mtime,
                         bool (*keep)(void *ctx, const char *path, vfs_kind kind), void *keep_ctx,
                         archive_write write, void *write_ctx, bru_error *err) {
    builder with = { .keep = keep,
                     .keep_ctx = keep_ctx,
                     .mtime = mtime,
                     .write = write,
                     .write_ctx = write_ctx,
                     .err = err };
    bru_status st = hostfs_open(folder, NULL, &with.fs, err);
    if (!st) st = build(&with, NULL, 0);
    fs_unref(with.fs);
    return st;
}
