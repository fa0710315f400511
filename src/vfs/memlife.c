/* A memtree as a whole: made, cleared, copied for a fork, written out for a snapshot and read
 * back. What is read back is not trusted more than the guest whose files it holds. */
#include "memtree.h"
#include "vfs_internal.h"

#include <string.h>

#define DEFAULT_BYTES   (64u << 20)
#define DEFAULT_ENTRIES 100000u

bru_status memtree_new(const memtree_options *opt, vfs_fs **out, bru_error *err) {
    static const memtree_options none;
    if (!opt) opt = &none;
    *out = NULL;
    memtree *t = mem_zero(1, sizeof *t);
    if (!t) return error_set(err, BRU_ENOMEM, "no memory for a file tree");
    fs_init(&t->fs, &memtree_ops);
    pthread_mutex_init(&t->lock, NULL);
    t->clock = opt->clock.wall ? opt->clock : clock_system;
    t->max_bytes = opt->max_bytes ? opt->max_bytes : DEFAULT_BYTES;
    t->max_entries = opt->max_entries ? opt->max_entries : DEFAULT_ENTRIES;
    t->file_follows = opt->max_file == 0;
    t->max_file = opt->max_file ? opt->max_file : t->max_bytes;
    t->next_ino = 1;
    t->seed = (uint32_t)(clock_monotonic() ^ (uintptr_t)t >> 4);
    vfs_err e = VFS_OK;
    t->root = node_new(t, VFS_DIR, &e);
    if (!t->root) {
        fs_unref(&t->fs);
        return vfs_error(err, e, "a file tree");
    }
    t->root->links = 1;
    t->root->fixed = true;
    *out = &t->fs;
    return BRU_OK;
}

void memtree_set_clock(vfs_fs *tree, const clock_source *clock) {
    memtree *t = memtree_of(tree);
    pthread_mutex_lock(&t->lock);
    t->clock = *clock;
    pthread_mutex_unlock(&t->lock);
}

/* One step of memtree_fix: the folder of that name, made if need be. */
static vfs_err fix_one(memtree *t, memnode *d, const char *name, size_t len, memnode **out) {
    mementry *e = dir_find(t, &d->dir, name, len, NULL);
    if (e && !node_is_dir(e->node)) return VFS_ENOTDIR;
    vfs_err err = VFS_OK;
    memnode *n = e ? e->node : node_new(t, VFS_DIR, &err);
    if (!n) return err;
    if (!e) {
        bool dirty = t->dirty;
        err = tree_name(t, d, name, len, n);
        t->dirty = dirty;
    }
    if (err) return err;
    n->fixed = true;
    *out = n;
    return VFS_OK;
}

bru_status memtree_fix(vfs_fs *tree, const char *path, bru_error *err) {
    memtree *t = memtree_of(tree);
    pthread_mutex_lock(&t->lock);
    memnode *n = t->root;
    vfs_err e = VFS_OK;
    unsigned depth = 0;
    for (const char *p = path; !e && *p;) {
        size_t len = strcspn(p, "/");
        if (len > 0) {
            if (!name_valid(p, len) || ++depth >= VFS_DEPTH_MAX)
                e = VFS_EINVAL;
            else
                e = fix_one(t, n, p, len, &n);
        }
        p += len + (p[len] == '/');
    }
    pthread_mutex_unlock(&t->lock);
    if (e == VFS_ENOTDIR) e = VFS_EINVAL;
    return vfs_error(err, e, path);
}

void memtree_clear(vfs_fs *tree) {
    memtree *t = memtree_of(tree);
    pthread_mutex_lock(&t->lock);
    if (t->dirty) tree_clear(t, false);
    t->dirty = false;
    pthread_mutex_unlock(&t->lock);
}

void memtree_get_usage(vfs_fs *tree, memtree_usage *out) {
    memtree *t = memtree_of(tree);
    pthread_mutex_lock(&t->lock);
    *out = (memtree_usage){ t->bytes, t->entries, t->max_bytes, t->max_entries };
    pthread_mutex_unlock(&t->lock);
}

void memtree_set_limits(vfs_fs *tree, uint64_t max_bytes, uint64_t max_entries) {
    memtree *t = memtree_of(tree);
    pthread_mutex_lock(&t->lock);
    if (max_bytes) t->max_bytes = max_bytes;
    if (max_bytes && t->file_follows) t->max_file = max_bytes;
    if (max_entries) t->max_entries = max_entries;
    pthread_mutex_unlock(&t->lock);
}

/* ---- Fork ---- */

/* A copy of one node, without its names. */
static memnode *node_copy(memtree *to, const memnode *n, vfs_err *e) {
    memnode *copy = node_new(to, n->kind, e);
    if (!copy) return NULL;
    copy->fixed = n->fixed;
    copy->ino = n->ino;
    copy->atime = n->atime;
    copy->mtime = n->mtime;
    copy->ctime = n->ctime;
    if (n->kind == VFS_REGULAR) *e = data_share(to, &n->file, &copy->file);
    if (n->kind == VFS_LINK) {
        copy->link.target = tree_alloc(to, n->link.len + 1, e);
        copy->link.len = n->link.len;
        if (copy->link.target) memcpy(copy->link.target, n->link.target, n->link.len);
    }
    if (!*e) return copy;
    node_release(to, copy);
    return NULL;
}

static vfs_err tree_copy(memtree *from, memtree *to) {
    vfs_err e = VFS_OK;
    memnode *dir = NULL;
    mementry *entry = NULL;
    from->root->twin = to->root;
    while (!e && tree_walk(from, &dir, &entry)) {
        memnode *n = entry->node;
        if (!n->twin) n->twin = node_copy(to, n, &e);
        if (!e) {
            memnode *d = dir->twin;
            uint64_t mtime = d->mtime, node_ctime = n->ctime, ctime = d->ctime;
            e = tree_name(to, d, entry->name, entry->len, n->twin);
            if (e) break;
            n->twin->ctime = node_ctime;
            d->mtime = mtime;
            d->ctime = ctime;
        }
    }
    for (dir = NULL, entry = NULL; tree_walk(from, &dir, &entry);) entry->node->twin = NULL;
    from->root->twin = NULL;
    return e;
}

bru_status memtree_fork(vfs_fs *tree, vfs_fs **out, bru_error *err) {
    memtree *t = memtree_of(tree);
    memtree_options opt = { .max_bytes = UINT64_MAX,
                            .max_entries = UINT64_MAX,
                            .max_file = t->max_file,
                            .clock = t->clock };
    *out = NULL;
    vfs_fs *fs = NULL;
    bru_status st = memtree_new(&opt, &fs, err);
    if (st) return st;
    memtree *copy = memtree_of(fs);
    pthread_mutex_lock(&t->lock);
    copy->seed = t->seed;
    vfs_err e = tree_copy(t, copy);
    copy->root->atime = t->root->atime;
    copy->root->mtime = t->root->mtime;
    copy->root->ctime = t->root->ctime;
    copy->root->ino = t->root->ino;
    copy->next_ino = t->next_ino;
    copy->max_bytes = t->max_bytes;
    copy->max_entries = t->max_entries;
    copy->file_follows = t->file_follows;
    copy->dirty = t->dirty;
    pthread_mutex_unlock(&t->lock);
    if (e)
        fs_unref(fs);
    else
        *out = fs;
    return vfs_error(err, e, "a copy of a file tree");
}
