/* Calls by path: what each means for links, trailing slashes and mount points is decided here,
 * once, for all file systems. */
#include "vfs_internal.h"

#include <string.h>

static const vfs_ops *ops_of(const place *p) {
    return p->mount->fs->ops;
}

/* ---- Opening ---- */

/* Whether what the walk found may be opened so. */
static vfs_err open_allowed(const walked *w, unsigned flags) {
    if (flags & VFS_CREATE && flags & VFS_EXCL) return VFS_EEXIST;
    if (w->node.kind == VFS_LINK) return VFS_ELOOP;
    if (flags & VFS_FOLDER && w->node.kind != VFS_DIR) return VFS_ENOTDIR;
    if (w->node.kind == VFS_DIR && flags & (VFS_WRITE | VFS_TRUNC | VFS_CREATE)) return VFS_EISDIR;
    if (flags & (VFS_WRITE | VFS_TRUNC) && !ops_of(&w->node)->write) return VFS_EROFS;
    return VFS_OK;
}

static vfs_err open_create(walked *w) {
    if (w->slash) return VFS_EISDIR;
    vfs_fs *fs = w->dir.mount->fs;
    if (!fs->ops->create) return VFS_EROFS;
    place made = { .mount = w->dir.mount, .kind = VFS_REGULAR };
    vfs_err e = fs->ops->create(fs, w->dir.node, w->name, w->len, &made.node);
    if (!e) w->node = made;
    return e;
}

/* Wraps what was found into a file of the namespace. */
static vfs_err open_node(vfs *v, const place *p, unsigned flags, vfs_file **out) {
    vfs_fs *fs = p->mount->fs;
    unsigned how = flags & (VFS_READ | VFS_WRITE | VFS_TRUNC);
    if (how & VFS_TRUNC) how |= VFS_WRITE;
    if (!fs->ops->open) return VFS_ENOTSUP;
    vfs_file *f = mem_zero(1, sizeof *f);
    if (!f) return VFS_ENOMEM;
    vfs_err e = fs->ops->open(fs, p->node, how, &f->file);
    if (e) {
        mem_free(f);
        return e;
    }
    f->owner = v;
    f->mount = p->mount;
    f->kind = p->kind;
    f->flags = flags;
    if (p->kind == VFS_DIR) f->node = place_hold(*p).node;
    v->open++;
    *out = f;
    return VFS_OK;
}

vfs_err vfs_open(vfs *v, vfs_file *at, const char *path, size_t len, unsigned flags,
                 vfs_file **out) {
    if (flags & VFS_CREATE && flags & VFS_FOLDER) return VFS_EINVAL;
    bool exclusive = flags & VFS_CREATE && flags & VFS_EXCL;
    unsigned how = flags & VFS_NOFOLLOW || exclusive ? 0 : WALK_FOLLOW;
    if (exclusive) how |= WALK_NAME;
    if (flags & VFS_CREATE) how |= WALK_MISSING;
    vfs_err e = VFS_OK;
    /* Where others write too, a name may come up between looking and creating: look again. */
    for (unsigned tries = 0; tries < 8; tries++) {
        walked w;
        e = walk(v, at, path, len, how, &w);
        if (e) return e;
        bool made = !w.node.node;
        if (made)
            e = open_create(&w);
        else
            e = open_allowed(&w, flags);
        if (!e) e = open_node(v, &w.node, made ? flags & ~(unsigned)VFS_TRUNC : flags, out);
        walk_end(&w);
        if (e != VFS_EEXIST || exclusive) return e;
    }
    return e;
}

void vfs_close(vfs_file *f) {
    if (!f) return;
    vfs_fs *fs = f->mount->fs;
    fs->ops->close(fs, f->file);
    place p = { f->mount, f->node, f->kind };
    place_drop(&p);
    f->owner->open--;
    mem_free(f);
}

/* ---- Attributes ---- */

vfs_err vfs_get_stat(vfs *v, vfs_file *at, const char *path, size_t len, bool follow_last,
                     vfs_stat *out) {
    walked w;
    vfs_err e = walk(v, at, path, len, follow_last ? WALK_FOLLOW : 0, &w);
    if (e) return e;
    e = ops_of(&w.node)->stat(w.node.mount->fs, w.node.node, out);
    if (!e) out->dev = mount_number(v, w.node.mount);
    walk_end(&w);
    return e;
}

vfs_err vfs_set_times(vfs *v, vfs_file *at, const char *path, size_t len, bool follow_last,
                      const vfs_times *t) {
    walked w;
    vfs_err e = walk(v, at, path, len, follow_last ? WALK_FOLLOW : 0, &w);
    if (e) return e;
    const vfs_ops *ops = ops_of(&w.node);
    e = ops->set_times ? ops->set_times(w.node.mount->fs, w.node.node, t) : VFS_EROFS;
    walk_end(&w);
    return e;
}

vfs_err vfs_readlink(vfs *v, vfs_file *at, const char *path, size_t len, char out[VFS_PATH_MAX],
                     size_t *out_len) {
    walked w;
    vfs_err e = walk(v, at, path, len, 0, &w);
    if (e) return e;
    if (w.node.kind != VFS_LINK)
        e = VFS_EINVAL;
    else
        e = ops_of(&w.node)->readlink(w.node.mount->fs, w.node.node, out, out_len);
    walk_end(&w);
    return e;
}

/* ---- Names ---- */

/* Finds the place for a new name. On success the caller ends with walk_end. */
static vfs_err walk_new(vfs *v, vfs_file *at, const char *path, size_t len, bool folder,
                        walked *w) {
    vfs_err e = walk(v, at, path, len, WALK_NAME | WALK_MISSING, w);
    if (e) return e;
    if (w->node.node)
        e = VFS_EEXIST;
    else if (w->slash && !folder)
        e = VFS_ENOENT;
    if (e) walk_end(w);
    return e;
}

vfs_err vfs_mkdir(vfs *v, vfs_file *at, const char *path, size_t len) {
    walked w;
    vfs_err e = walk_new(v, at, path, len, true, &w);
    if (e) return e;
    const vfs_ops *ops = ops_of(&w.dir);
    e = ops->mkdir ? ops->mkdir(w.dir.mount->fs, w.dir.node, w.name, w.len) : VFS_EROFS;
    walk_end(&w);
    return e;
}

vfs_err vfs_symlink(vfs *v, const char *target, size_t target_len, vfs_file *at, const char *path,
                    size_t len) {
    if (target_len == 0) return VFS_ENOENT;
    if (target_len > VFS_PATH_MAX) return VFS_ENAMETOOLONG;
    if (memchr(target, '\0', target_len)) return VFS_EINVAL;
    if (!utf8_valid(target, target_len)) return VFS_EILSEQ;
    walked w;
    vfs_err e = walk_new(v, at, path, len, false, &w);
    if (e) return e;
    const vfs_ops *ops = ops_of(&w.dir);
    e = ops->symlink ? ops->symlink(w.dir.mount->fs, w.dir.node, w.name, w.len, target, target_len)
                     : VFS_EROFS;
    walk_end(&w);
    return e;
}

vfs_err vfs_rmdir(vfs *v, vfs_file *at, const char *path, size_t len) {
    walked w;
    vfs_err e = walk(v, at, path, len, WALK_NAME, &w);
    if (e) return e;
    const vfs_ops *ops = ops_of(&w.node);
    if (place_is_mount_root(&w.node))
        e = VFS_EBUSY;
    else if (w.len == 0)
        e = VFS_EINVAL; /* "." or ".." */
    else if (!ops->rmdir)
        e = VFS_EROFS;
    else
        e = ops->rmdir(w.dir.mount->fs, w.dir.node, w.name, w.len);
    walk_end(&w);
    return e;
}

vfs_err vfs_unlink(vfs *v, vfs_file *at, const char *path, size_t len) {
    walked w;
    vfs_err e = walk(v, at, path, len, WALK_NAME, &w);
    if (e) return e;
    const vfs_ops *ops = ops_of(&w.node);
    if (w.node.kind == VFS_DIR)
        e = VFS_EISDIR;
    else if (place_is_mount_root(&w.node))
        e = VFS_EBUSY;
    else if (w.slash)
        e = VFS_ENOTDIR;
    else if (!ops->unlink)
        e = VFS_EROFS;
    else
        e = ops->unlink(w.dir.mount->fs, w.dir.node, w.name, w.len);
    walk_end(&w);
    return e;
}

vfs_err vfs_link(vfs *v, vfs_file *from_at, const char *from, size_t from_len, bool follow_last,
                 vfs_file *to_at, const char *to, size_t to_len) {
    walked a, b;
    vfs_err e = walk(v, from_at, from, from_len, follow_last ? WALK_FOLLOW : 0, &a);
    if (e) return e;
    e = a.node.kind == VFS_DIR ? VFS_EPERM : walk_new(v, to_at, to, to_len, false, &b);
    if (!e) {
        const vfs_ops *ops = ops_of(&b.dir);
        if (a.node.mount != b.dir.mount)
            e = VFS_EXDEV;
        else if (!ops->link)
            e = VFS_EROFS;
        else
            e = ops->link(b.dir.mount->fs, a.node.node, b.dir.node, b.name, b.len);
        walk_end(&b);
    }
    walk_end(&a);
    return e;
}

static vfs_err rename_walked(const walked *a, const walked *b) {
    if (place_is_mount_root(&a->node) || a->len == 0 || b->len == 0) return VFS_EBUSY;
    if (b->node.node && place_is_mount_root(&b->node)) return VFS_EBUSY;
    if (a->dir.mount != b->dir.mount) return VFS_EXDEV;
    if ((a->slash || b->slash) && a->node.kind != VFS_DIR) return VFS_ENOTDIR;
    const vfs_ops *ops = ops_of(&a->dir);
    if (!ops->rename) return VFS_EROFS;
    return ops->rename(a->dir.mount->fs, a->dir.node, a->name, a->len, b->dir.node, b->name,
                       b->len);
}

vfs_err vfs_rename(vfs *v, vfs_file *from_at, const char *from, size_t from_len, vfs_file *to_at,
                   const char *to, size_t to_len) {
    walked a, b;
    vfs_err e = walk(v, from_at, from, from_len, WALK_NAME, &a);
    if (e) return e;
    e = walk(v, to_at, to, to_len, WALK_NAME | WALK_MISSING, &b);
    if (!e) {
        e = rename_walked(&a, &b);
        walk_end(&b);
    }
    walk_end(&a);
    return e;
}
