/* Files in memory, under one lock, with everything counted: what a guest can make the host keep
 * is what `max_bytes` says, whichever way it tries. Names are in memdir.c, data in memdata.c. */
#include "memtree.h"

#include <stdatomic.h>
#include <string.h>

#define LINKS_MAX 65000u /* names of one file */

/* ---- Charging ---- */

uint64_t mem_cost(size_t size) {
    uint64_t cost = ((uint64_t)size + 8 + 15) / 16 * 16;
    if (cost >= 131072) cost = (cost + 4095) / 4096 * 4096; /* has pages of its own */
    return cost < 32 ? 32 : cost;
}

bool tree_charge(memtree *t, uint64_t cost) {
    if (t->bytes > t->max_bytes || cost > t->max_bytes - t->bytes) return false;
    t->bytes += cost;
    return true;
}

void tree_credit(memtree *t, uint64_t cost) {
    t->bytes -= cost;
}

void *tree_alloc(memtree *t, size_t size, vfs_err *e) {
    if (!tree_charge(t, mem_cost(size))) {
        *e = VFS_ENOSPC;
        return NULL;
    }
    void *p = mem_zero(1, size);
    if (!p) {
        tree_credit(t, mem_cost(size));
        *e = VFS_ENOMEM;
    }
    return p;
}

void tree_free(memtree *t, void *p, size_t size) {
    mem_free(p);
    tree_credit(t, mem_cost(size));
}

uint64_t tree_now(memtree *t) {
    return t->clock.wall(t->clock.ctx);
}

/* ---- Nodes ---- */

bool node_is_dir(const memnode *n) {
    return n->kind == VFS_DIR;
}

memnode *node_new(memtree *t, vfs_kind kind, vfs_err *e) {
    memnode *n = tree_alloc(t, sizeof *n, e);
    if (!n) return NULL;
    n->kind = kind;
    n->ino = t->next_ino++;
    n->atime = n->mtime = n->ctime = tree_now(t);
    return n;
}

void node_release(memtree *t, memnode *n) {
    if (!n || n->links > 0 || n->refs > 0) return;
    if (n->kind == VFS_DIR) dir_free(t, &n->dir);
    if (n->kind == VFS_REGULAR) data_free(t, &n->file);
    if (n->kind == VFS_LINK && n->link.target) tree_free(t, n->link.target, n->link.len + 1);
    tree_free(t, n, sizeof *n);
}

static void lock(memtree *t) {
    pthread_mutex_lock(&t->lock);
}

static vfs_err unlock(memtree *t, vfs_err e) {
    pthread_mutex_unlock(&t->lock);
    return e;
}

static vfs_node *op_root(vfs_fs *fs) {
    return (vfs_node *)(void *)memtree_of(fs)->root;
}

static void op_hold(vfs_fs *fs, vfs_node *n) {
    memtree *t = memtree_of(fs);
    lock(t);
    memnode_of(n)->refs++;
    unlock(t, VFS_OK);
}

static void op_drop(vfs_fs *fs, vfs_node *n) {
    memtree *t = memtree_of(fs);
    lock(t);
    memnode_of(n)->refs--;
    node_release(t, memnode_of(n));
    unlock(t, VFS_OK);
}

static vfs_err op_lookup(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out,
                         vfs_kind *kind) {
    memtree *t = memtree_of(fs);
    memnode *d = memnode_of(dir);
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    mementry *e = dir_find(t, &d->dir, name, len, NULL);
    if (e) {
        e->node->refs++;
        *kind = e->node->kind;
        *out = (vfs_node *)(void *)e->node;
    }
    return unlock(t, e ? VFS_OK : VFS_ENOENT);
}

static vfs_err op_parent(vfs_fs *fs, vfs_node *dir, vfs_node **out) {
    memtree *t = memtree_of(fs);
    memnode *d = memnode_of(dir);
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    memnode *p = d->dir.parent;
    if (p) {
        p->refs++;
        *out = (vfs_node *)(void *)p;
    }
    return unlock(t, p ? VFS_OK : VFS_ENOENT);
}

static vfs_err node_stat(vfs_fs *fs, memnode *n, vfs_stat *out) {
    memtree *t = memtree_of(fs);
    lock(t);
    *out = (vfs_stat){ .ino = n->ino,
                       .links = n->links,
                       .kind = n->kind,
                       .atime = n->atime,
                       .mtime = n->mtime,
                       .ctime = n->ctime };
    if (n->kind == VFS_REGULAR) out->size = n->file.size;
    if (n->kind == VFS_LINK) out->size = n->link.len;
    return unlock(t, VFS_OK);
}

static vfs_err op_stat(vfs_fs *fs, vfs_node *n, vfs_stat *out) {
    return node_stat(fs, memnode_of(n), out);
}

static vfs_err node_set_times(vfs_fs *fs, memnode *n, const vfs_times *s) {
    memtree *t = memtree_of(fs);
    lock(t);
    uint64_t now = tree_now(t);
    if (s->atime_now)
        n->atime = now;
    else if (s->set_atime)
        n->atime = s->atime;
    if (s->mtime_now)
        n->mtime = now;
    else if (s->set_mtime)
        n->mtime = s->mtime;
    n->ctime = now;
    return unlock(t, VFS_OK);
}

static vfs_err op_set_times(vfs_fs *fs, vfs_node *n, const vfs_times *s) {
    return node_set_times(fs, memnode_of(n), s);
}

static vfs_err op_readlink(vfs_fs *fs, vfs_node *n, char *out, size_t *len) {
    (void)fs; /* a target never changes, and the caller holds the node */
    memnode *l = memnode_of(n);
    if (l->kind != VFS_LINK) return VFS_EINVAL;
    memcpy(out, l->link.target, l->link.len);
    *len = l->link.len;
    return VFS_OK;
}

/* ---- Names ---- */

static void dir_touched(memtree *t, memnode *d) {
    d->mtime = d->ctime = tree_now(t);
    t->dirty = true;
}

vfs_err tree_name(memtree *t, memnode *d, const char *name, size_t len, memnode *n) {
    vfs_err err = VFS_OK;
    mementry *e = NULL;
    if (d->kind != VFS_DIR)
        err = VFS_ENOTDIR;
    else if (d->links == 0)
        err = VFS_ENOENT; /* it was removed */
    else if (dir_find(t, &d->dir, name, len, NULL))
        err = VFS_EEXIST;
    if (!err) err = dir_reserve(t, &d->dir);
    if (!err) err = dir_make_entry(t, n, name, len, &e);
    if (err) {
        node_release(t, n);
        return err;
    }
    n->links++;
    if (node_is_dir(n)) n->dir.parent = d;
    dir_insert(&d->dir, e);
    dir_touched(t, d);
    return VFS_OK;
}

static void name_remove(memtree *t, memnode *d, mementry *e, uint32_t pos) {
    memnode *n = e->node;
    dir_remove(t, &d->dir, pos);
    dir_free_entry(t, e);
    n->links--;
    n->ctime = tree_now(t);
    if (node_is_dir(n)) n->dir.parent = NULL;
    node_release(t, n);
    dir_touched(t, d);
}

static vfs_err op_create(vfs_fs *fs, vfs_node *dir, const char *name, size_t len, vfs_node **out) {
    memtree *t = memtree_of(fs);
    lock(t);
    vfs_err err = VFS_OK;
    memnode *n = node_new(t, VFS_REGULAR, &err);
    if (n) err = tree_name(t, memnode_of(dir), name, len, n);
    if (!err) {
        n->refs++;
        *out = (vfs_node *)(void *)n;
    }
    return unlock(t, err);
}

static vfs_err op_mkdir(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    memtree *t = memtree_of(fs);
    memnode *d = memnode_of(dir);
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    if (dir_depth(d) + 1 >= VFS_DEPTH_MAX) return unlock(t, VFS_ENAMETOOLONG);
    vfs_err err = VFS_OK;
    memnode *n = node_new(t, VFS_DIR, &err);
    if (n) err = tree_name(t, d, name, len, n);
    return unlock(t, err);
}

static vfs_err op_symlink(vfs_fs *fs, vfs_node *dir, const char *name, size_t len,
                          const char *target, size_t target_len) {
    memtree *t = memtree_of(fs);
    lock(t);
    vfs_err err = VFS_OK;
    memnode *n = node_new(t, VFS_LINK, &err);
    if (n) {
        n->link.target = tree_alloc(t, target_len + 1, &err);
        n->link.len = target_len;
        if (n->link.target) {
            memcpy(n->link.target, target, target_len);
            err = tree_name(t, memnode_of(dir), name, len, n);
        } else {
            node_release(t, n);
        }
    }
    return unlock(t, err);
}

static vfs_err op_link(vfs_fs *fs, vfs_node *node, vfs_node *dir, const char *name, size_t len) {
    memtree *t = memtree_of(fs);
    memnode *n = memnode_of(node);
    if (n->kind == VFS_DIR) return VFS_EPERM;
    lock(t);
    vfs_err err = VFS_OK;
    if (n->links == 0)
        err = VFS_ENOENT;
    else if (n->links >= LINKS_MAX)
        err = VFS_EMLINK;
    if (!err) err = tree_name(t, memnode_of(dir), name, len, n);
    if (!err) n->ctime = tree_now(t);
    return unlock(t, err);
}

static vfs_err op_rmdir(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    memtree *t = memtree_of(fs);
    memnode *d = memnode_of(dir);
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    uint32_t pos = 0;
    mementry *e = dir_find(t, &d->dir, name, len, &pos);
    vfs_err err = VFS_OK;
    if (!e)
        err = VFS_ENOENT;
    else if (!node_is_dir(e->node))
        err = VFS_ENOTDIR;
    else if (e->node->fixed)
        err = VFS_EBUSY;
    else if (e->node->dir.live > 0)
        err = VFS_ENOTEMPTY;
    else
        name_remove(t, d, e, pos);
    return unlock(t, err);
}

static vfs_err op_unlink(vfs_fs *fs, vfs_node *dir, const char *name, size_t len) {
    memtree *t = memtree_of(fs);
    memnode *d = memnode_of(dir);
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    uint32_t pos = 0;
    mementry *e = dir_find(t, &d->dir, name, len, &pos);
    vfs_err err = VFS_OK;
    if (!e)
        err = VFS_ENOENT;
    else if (node_is_dir(e->node))
        err = VFS_EISDIR;
    else
        name_remove(t, d, e, pos);
    return unlock(t, err);
}

/* Whether `from` may take the place of `to` (NULL: none), as rename(2) has it. */
static vfs_err rename_allowed(const memnode *from, memnode *to_dir, const memnode *to) {
    if (from->fixed || (to && to->fixed)) return VFS_EBUSY;
    if (to_dir->links == 0) return VFS_ENOENT;
    if (to && node_is_dir(from) && !node_is_dir(to)) return VFS_ENOTDIR;
    if (to && !node_is_dir(from) && node_is_dir(to)) return VFS_EISDIR;
    if (node_is_dir(from)) {
        for (const memnode *p = to_dir; p; p = p->dir.parent)
            if (p == from) return VFS_EINVAL; /* into itself */
    }
    if (to && node_is_dir(to) && to->dir.live > 0) return VFS_ENOTEMPTY;
    return VFS_OK;
}

/* Gives `n`, named by `old` in `from`, the new name. All that may fail comes first. */
static vfs_err rename_entry(memtree *t, memnode *from, memnode *to, const char *name, size_t len,
                            memnode *n, mementry *old) {
    mementry *e = NULL;
    uint32_t pos = 0;
    mementry *there = dir_find(t, &to->dir, name, len, &pos);
    if (there) { /* its place is taken over: a name goes, so none is added */
        memnode *gone = there->node;
        there->node = n;
        gone->links--;
        gone->ctime = tree_now(t);
        if (node_is_dir(gone)) gone->dir.parent = NULL;
        node_release(t, gone);
    } else {
        t->entries--; /* the old name's place serves */
        vfs_err err = dir_reserve(t, &to->dir);
        if (!err) err = dir_make_entry(t, n, name, len, &e);
        if (err) t->entries++;
        if (err) return err;
        t->entries++;
        dir_insert(&to->dir, e);
    }
    dir_find(t, &from->dir, old->name, old->len, &pos);
    dir_remove(t, &from->dir, pos);
    dir_free_entry(t, old);
    if (node_is_dir(n)) n->dir.parent = to;
    n->ctime = tree_now(t);
    dir_touched(t, from);
    dir_touched(t, to);
    return VFS_OK;
}

static vfs_err op_rename(vfs_fs *fs, vfs_node *from_dir, const char *from, size_t from_len,
                         vfs_node *to_dir, const char *to, size_t to_len) {
    memtree *t = memtree_of(fs);
    memnode *fd = memnode_of(from_dir), *td = memnode_of(to_dir);
    if (fd->kind != VFS_DIR || td->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    mementry *old = dir_find(t, &fd->dir, from, from_len, NULL);
    if (!old) return unlock(t, VFS_ENOENT);
    memnode *n = old->node;
    mementry *there = dir_find(t, &td->dir, to, to_len, NULL);
    if (there && there->node == n) return unlock(t, n->fixed ? VFS_EBUSY : VFS_OK);
    vfs_err err = rename_allowed(n, td, there ? there->node : NULL);
    if (!err && node_is_dir(n) && dir_depth(td) > dir_depth(fd) &&
        dir_depth(td) + 1 + dir_height(n) >= VFS_DEPTH_MAX)
        err = VFS_ENAMETOOLONG;
    if (!err) err = rename_entry(t, fd, td, to, to_len, n, old);
    return unlock(t, err);
}

/* ---- Open files: the node itself, held ---- */

static vfs_err op_open(vfs_fs *fs, vfs_node *node, unsigned flags, void **file) {
    memtree *t = memtree_of(fs);
    memnode *n = memnode_of(node);
    if (n->kind == VFS_LINK) return VFS_ELOOP;
    if (n->kind == VFS_DIR && flags & (VFS_WRITE | VFS_TRUNC)) return VFS_EISDIR;
    lock(t);
    vfs_err err = VFS_OK;
    if (flags & VFS_TRUNC && n->file.size > 0) {
        err = data_resize(t, &n->file, 0);
        n->mtime = n->ctime = tree_now(t);
    }
    if (!err) {
        n->refs++;
        *file = n;
    }
    return unlock(t, err);
}

static void op_close(vfs_fs *fs, void *file) {
    op_drop(fs, file);
}

static vfs_err op_read(vfs_fs *fs, void *file, uint64_t at, void *out, size_t len, size_t *n) {
    memtree *t = memtree_of(fs);
    memnode *f = file;
    if (f->kind != VFS_REGULAR) return VFS_EISDIR;
    lock(t);
    return unlock(t, data_read(&f->file, at, out, len, n));
}

static vfs_err op_write(vfs_fs *fs, void *file, uint64_t *at, bool append, const void *bytes,
                        size_t len, size_t *n) {
    memtree *t = memtree_of(fs);
    memnode *f = file;
    if (f->kind != VFS_REGULAR) return VFS_EISDIR;
    lock(t);
    uint64_t where = append ? f->file.size : *at;
    vfs_err err = data_write(t, &f->file, where, bytes, len, n);
    if (!err && *n > 0) {
        *at = where + *n;
        f->mtime = f->ctime = tree_now(t);
    }
    return unlock(t, err);
}

static vfs_err op_file_stat(vfs_fs *fs, void *file, vfs_stat *out) {
    return node_stat(fs, file, out);
}

/* The entry that names `n` in the folder, or NULL. */
static const mementry *name_in(const memnode *folder, const memnode *n) {
    for (uint32_t i = 0; i < folder->dir.count; i++) {
        const mementry *e = folder->dir.slots[i].entry;
        if (e && e->node == n) return e;
    }
    return NULL;
}

/* Nodes do not know their names: those of a file are looked for in the whole tree. */
static vfs_err path_of(memtree *t, memnode *n, vfs_path *out) {
    memnode *dir = NULL;
    mementry *e = NULL;
    vfs_err err = VFS_OK;
    if (!node_is_dir(n)) {
        while (tree_walk(t, &dir, &e) && e->node != n) {
        }
        if (!e || e->node != n) return VFS_ENOENT;
        err = path_add(out, e->name, e->len);
        n = dir;
    }
    for (; !err && n != t->root; n = n->dir.parent) {
        const mementry *name = n->dir.parent ? name_in(n->dir.parent, n) : NULL;
        err = name ? path_add(out, name->name, name->len) : VFS_ENOENT;
        if (err) break;
    }
    return err;
}

static vfs_err op_path(vfs_fs *fs, void *file, vfs_path *out) {
    lock(memtree_of(fs));
    return unlock(memtree_of(fs), path_of(memtree_of(fs), file, out));
}

static vfs_err op_file_set_times(vfs_fs *fs, void *file, const vfs_times *s) {
    return node_set_times(fs, file, s);
}

static vfs_err op_resize(vfs_fs *fs, void *file, uint64_t size) {
    memtree *t = memtree_of(fs);
    memnode *f = file;
    if (f->kind != VFS_REGULAR) return VFS_EINVAL;
    lock(t);
    vfs_err err = data_resize(t, &f->file, size);
    if (!err) f->mtime = f->ctime = tree_now(t);
    return unlock(t, err);
}

static vfs_err op_allocate(vfs_fs *fs, void *file, uint64_t at, uint64_t len) {
    memtree *t = memtree_of(fs);
    memnode *f = file;
    if (f->kind != VFS_REGULAR) return VFS_ENODEV;
    lock(t);
    return unlock(t, data_allocate(t, &f->file, at, len));
}

static vfs_err op_sync(vfs_fs *fs, void *file) {
    (void)fs;
    (void)file;
    return VFS_OK;
}

static vfs_err op_readdir(vfs_fs *fs, void *file, uint64_t cookie, vfs_dirent *out) {
    memtree *t = memtree_of(fs);
    memnode *d = file;
    if (d->kind != VFS_DIR) return VFS_ENOTDIR;
    lock(t);
    dir_at(&d->dir, cookie, out);
    return unlock(t, VFS_OK);
}

static void op_destroy(vfs_fs *fs) {
    memtree *t = memtree_of(fs);
    if (t->root) {
        tree_clear(t, true);
        t->root->links = 0;
        node_release(t, t->root);
    }
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

const vfs_ops memtree_ops = {
    .name = "memory",
    .destroy = op_destroy,
    .root = op_root,
    .hold = op_hold,
    .drop = op_drop,
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
    .file_stat = op_file_stat,
    .path = op_path,
    .file_set_times = op_file_set_times,
    .resize = op_resize,
    .allocate = op_allocate,
    .sync = op_sync,
    .readdir = op_readdir,
};
