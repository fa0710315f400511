/* A memtree as data, for snapshots. A record a name, parents before children; all numbers are
 * little-endian:
 *
 *   magic  "BRUTREE2"
 *   record u8 kind (VFS_DIR, VFS_REGULAR, VFS_LINK; 1: another name of a file; 0: the end)
 *          u16 length of the name, u32 number of the folder (0 is the root), the name
 *     then for a new node: u64 ino, atime, mtime, ctime; it gets the next number, from 1, and
 *          VFS_REGULAR: u64 size, u32 blocks, and for each u32 place, its bytes up to the size
 *          VFS_LINK: u32 length, the target
 *     or for another name: u32 number of the file
 */
#include "memtree.h"
#include "vfs_internal.h"

#include <string.h>

#define SAVE_MAGIC "BRUTREE2"
#define KIND_END   0u
#define INO_MAX    (1ull << 62)
#define KIND_NAME  1u

static bru_status put_number(buf *out, uint64_t v, unsigned bytes) {
    uint8_t b[8];
    for (unsigned i = 0; i < bytes; i++) b[i] = (uint8_t)(v >> 8 * i);
    return buf_append(out, b, bytes);
}

static size_t block_len(const memdata *d, size_t i) {
    uint64_t left = d->size - (uint64_t)i * BLOCK_SIZE;
    return left < BLOCK_SIZE ? (size_t)left : BLOCK_SIZE;
}

/* Blocks beyond the size are not written: posix_fallocate need not be remembered. */
static bool block_saved(const memdata *d, size_t i) {
    return d->blocks[i] && (uint64_t)i * BLOCK_SIZE < d->size;
}

static bru_status save_data(const memdata *d, buf *out) {
    uint32_t count = 0;
    for (size_t i = 0; i < d->cap; i++) count += block_saved(d, i);
    bru_status st = put_number(out, d->size, 8);
    if (!st) st = put_number(out, count, 4);
    for (size_t i = 0; !st && i < d->cap; i++) {
        if (!block_saved(d, i)) continue;
        st = put_number(out, i, 4);
        if (!st) st = buf_append(out, d->blocks[i]->data, block_len(d, i));
    }
    return st;
}

static bru_status save_node(const memnode *n, buf *out) {
    bru_status st = put_number(out, n->ino, 8);
    if (!st) st = put_number(out, n->atime, 8);
    if (!st) st = put_number(out, n->mtime, 8);
    if (!st) st = put_number(out, n->ctime, 8);
    if (!st && n->kind == VFS_REGULAR) st = save_data(&n->file, out);
    if (!st && n->kind == VFS_LINK) {
        st = put_number(out, n->link.len, 4);
        if (!st) st = buf_append(out, n->link.target, n->link.len);
    }
    return st;
}

static bru_status save_name(const memnode *dir, const mementry *e, bool again, buf *out) {
    bru_status st = put_number(out, again ? KIND_NAME : (unsigned)e->node->kind, 1);
    if (!st) st = put_number(out, e->len, 2);
    if (!st) st = put_number(out, dir->number, 4);
    if (!st) st = buf_append(out, e->name, e->len);
    return st;
}

static bru_status save_all(memtree *t, buf *out) {
    bru_status st = buf_append(out, SAVE_MAGIC, 8);
    memnode *dir = NULL;
    mementry *e = NULL;
    uint32_t number = 0;
    while (!st && tree_walk(t, &dir, &e)) {
        bool again = e->node->number != 0;
        st = save_name(dir, e, again, out);
        if (!st && again) st = put_number(out, e->node->number, 4);
        if (!st && !again) st = save_node(e->node, out);
        if (!again) e->node->number = ++number;
    }
    for (dir = NULL, e = NULL; tree_walk(t, &dir, &e);) e->node->number = 0;
    return st ? st : put_number(out, KIND_END, 1);
}

bru_status memtree_save(vfs_fs *tree, buf *out, bru_error *err) {
    memtree *t = memtree_of(tree);
    size_t before = out->len;
    pthread_mutex_lock(&t->lock);
    bru_status st = save_all(t, out);
    pthread_mutex_unlock(&t->lock);
    if (!st) return BRU_OK;
    out->len = before;
    return error_set(err, st, "the files do not fit into the snapshot (%zu bytes)", out->ceiling);
}

/* ---- Reading back ---- */

typedef struct reader {
    const uint8_t *p;
    size_t left;
    bool ok;
    memtree *tree;
    memnode **nodes; /* by number; nodes[0] is the root */
    size_t count, cap;
} reader;

static const uint8_t *take(reader *r, size_t len) {
    if (len > r->left) r->ok = false;
    if (!r->ok) return NULL;
    r->p += len;
    r->left -= len;
    return r->p - len;
}

static uint64_t take_number(reader *r, unsigned bytes) {
    const uint8_t *b = take(r, bytes);
    uint64_t v = 0;
    for (unsigned i = 0; b && i < bytes; i++) v |= (uint64_t)b[i] << 8 * i;
    return v;
}

static vfs_err remember(reader *r, memnode *n) {
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 64;
        memnode **nodes = mem_grow(r->nodes, cap * sizeof *nodes);
        if (!nodes) return VFS_ENOMEM;
        r->nodes = nodes;
        r->cap = cap;
    }
    r->nodes[r->count++] = n;
    return VFS_OK;
}

static vfs_err load_data(reader *r, memnode *n) {
    uint64_t size = take_number(r, 8), next = 0;
    uint32_t count = (uint32_t)take_number(r, 4);
    vfs_err e = r->ok ? data_resize(r->tree, &n->file, size) : VFS_EINVAL;
    for (uint32_t i = 0; !e && i < count; i++) {
        uint64_t where = take_number(r, 4);
        if (!r->ok || where < next || where * BLOCK_SIZE >= size) return VFS_EINVAL;
        size_t len = block_len(&n->file, where), done = 0;
        const uint8_t *bytes = take(r, len);
        if (!bytes) return VFS_EINVAL;
        e = data_write(r->tree, &n->file, where * BLOCK_SIZE, bytes, len, &done);
        if (!e && done < len) e = VFS_ENOSPC;
        next = where + 1;
    }
    return e;
}

static vfs_err load_target(reader *r, memnode *n) {
    size_t len = (size_t)take_number(r, 4);
    const uint8_t *target = len <= VFS_PATH_MAX ? take(r, len) : NULL;
    if (!target || !target_valid((const char *)target, len)) return VFS_EINVAL;
    vfs_err e = VFS_OK;
    n->link.target = tree_alloc(r->tree, len + 1, &e);
    n->link.len = len;
    if (n->link.target) memcpy(n->link.target, target, len);
    return e;
}

/* A new node and its name. A folder that is there already, fixed, is that folder; which folders
 * are fixed is the tree's matter, not the data's. */
static vfs_err load_node(reader *r, vfs_kind kind, memnode *dir, const char *name, size_t len) {
    uint64_t ino = take_number(r, 8), atime = take_number(r, 8), mtime = take_number(r, 8);
    uint64_t ctime = take_number(r, 8);
    if (ino >= INO_MAX) return VFS_EINVAL;
    mementry *there = dir_find(r->tree, &dir->dir, name, len, NULL);
    vfs_err e = VFS_OK;
    memnode *n = there ? there->node : NULL;
    if (n && !(kind == VFS_DIR && node_is_dir(n) && n->fixed)) return VFS_EINVAL;
    if (!n) {
        n = node_new(r->tree, kind, &e);
        if (!n) return e;
        if (kind == VFS_REGULAR) e = load_data(r, n);
        if (kind == VFS_LINK) e = load_target(r, n);
        if (!e && !r->ok) e = VFS_EINVAL;
        if (e) {
            node_release(r->tree, n);
            return e;
        }
        e = tree_name(r->tree, dir, name, len, n);
        if (e) return e;
    }
    n->ino = ino; /* programs that watch a file for being another one know it by that */
    if (ino >= r->tree->next_ino) r->tree->next_ino = ino + 1;
    n->atime = atime;
    n->mtime = mtime;
    n->ctime = ctime;
    return remember(r, n);
}

static vfs_err load_entry(reader *r, unsigned kind, memnode *dir, const char *name, size_t len) {
    if (kind == KIND_NAME) {
        size_t number = (size_t)take_number(r, 4);
        if (!r->ok || number >= r->count || r->nodes[number]->kind == VFS_DIR) return VFS_EINVAL;
        return tree_name(r->tree, dir, name, len, r->nodes[number]);
    }
    if (kind != VFS_DIR && kind != VFS_REGULAR && kind != VFS_LINK) return VFS_EINVAL;
    if (kind == VFS_DIR && dir_depth(dir) + 1 >= VFS_DEPTH_MAX) return VFS_EINVAL;
    return load_node(r, (vfs_kind)kind, dir, name, len);
}

static vfs_err load_record(reader *r, unsigned kind) {
    size_t len = (size_t)take_number(r, 2);
    size_t parent = (size_t)take_number(r, 4);
    const char *name = (const char *)take(r, len);
    if (!name || !name_valid(name, len) || parent >= r->count) return VFS_EINVAL;
    memnode *dir = r->nodes[parent];
    if (!node_is_dir(dir)) return VFS_EINVAL;
    uint64_t mtime = dir->mtime, ctime = dir->ctime;
    vfs_err e = load_entry(r, kind, dir, name, len);
    dir->mtime = mtime; /* which its new entry changed */
    dir->ctime = ctime;
    return e;
}

static vfs_err load_all(reader *r) {
    const uint8_t *magic = take(r, 8);
    if (!magic || memcmp(magic, SAVE_MAGIC, 8) != 0) return VFS_EINVAL;
    vfs_err e = remember(r, r->tree->root);
    while (!e) {
        unsigned kind = (unsigned)take_number(r, 1);
        if (!r->ok) return VFS_EINVAL;
        if (kind == KIND_END) return r->left ? VFS_EINVAL : VFS_OK;
        e = load_record(r, kind);
    }
    return e;
}

bru_status memtree_load(vfs_fs *tree, const void *bytes, size_t len, bru_error *err) {
    memtree *t = memtree_of(tree);
    reader r = { .p = bytes, .left = len, .ok = true, .tree = t };
    pthread_mutex_lock(&t->lock);
    tree_clear(t, false);
    vfs_err e = load_all(&r);
    t->dirty = true;
    if (e) tree_clear(t, false);
    pthread_mutex_unlock(&t->lock);
    mem_free(r.nodes);
    if (e == VFS_EINVAL || e == VFS_EEXIST)
        return error_set(err, BRU_EFORMAT, "saved files: malformed at byte %zu of %zu",
                         len - r.left, len);
    return vfs_error(err, e, "saved files");
}
