/* Paths: a walk of our own, name by name, over mounts and links. No path text ever reaches a file
 * system, only single names; so no file system has a say in where a path may lead. */
#include "vfs_internal.h"

#include <string.h>

place place_hold(place p) {
    const vfs_ops *ops = p.mount->fs->ops;
    if (ops->hold) ops->hold(p.mount->fs, p.node);
    return p;
}

void place_drop(place *p) {
    if (p->node) {
        const vfs_ops *ops = p->mount->fs->ops;
        if (ops->drop) ops->drop(p->mount->fs, p->node);
    }
    *p = (place){ 0 };
}

place place_of_mount(vfs_mountpoint *m) {
    return place_hold((place){ m, m->fs->ops->root(m->fs), m->kind });
}

static bool node_same(const vfs_mountpoint *m, const vfs_node *a, const vfs_node *b) {
    return m->fs->ops->same ? m->fs->ops->same(m->fs, a, b) : a == b;
}

bool place_is_mount_root(const place *p) {
    return node_same(p->mount, p->node, p->mount->fs->ops->root(p->mount->fs));
}

vfs_mountpoint *mount_at(vfs *v, const place *dir, const char *name, size_t len) {
    for (size_t i = 1; i < v->mount_count; i++) {
        vfs_mountpoint *m = &v->mounts[i];
        if (m->len == len && m->up == dir->mount && memcmp(m->name, name, len) == 0 &&
            node_same(m->up, m->dir, dir->node))
            return m;
    }
    return NULL;
}

vfs_err place_up(place *p) {
    if (p->kind != VFS_DIR) return VFS_ENOTDIR;
    place up = { p->mount, NULL, VFS_DIR };
    if (place_is_mount_root(p)) {
        if (!p->mount->up) return VFS_OK;
        up = place_hold((place){ p->mount->up, p->mount->dir, VFS_DIR });
    } else {
        vfs_err e = p->mount->fs->ops->parent(p->mount->fs, p->node, &up.node);
        if (e) return e;
    }
    place_drop(p);
    *p = up;
    return VFS_OK;
}

/* A walk under way. */
typedef struct walker {
    vfs *v;
    place at;
    const char *rest; /* what is still to be walked, */
    size_t left;      /* in v->text once a link was followed */
    unsigned links;
    /* Set while the rest begins with the text of a link that may not lead above its mount; what
     * comes after that text is `outer` bytes long. */
    bool confined;
    size_t outer;
} walker;

/* Puts the target of a link in front of the rest. */
static vfs_err follow(walker *w, const place *link) {
    vfs_fs *fs = link->mount->fs;
    if (++w->links > VFS_LINKS_MAX) return VFS_ELOOP;
    if (!fs->ops->readlink) return VFS_ENOTSUP;
    if (!w->v->text) w->v->text = mem_zero(2, VFS_PATH_MAX);
    if (!w->v->text) return VFS_ENOMEM;
    char *text = w->v->text, *target = text + VFS_PATH_MAX;
    size_t len = 0;
    vfs_err e = fs->ops->readlink(fs, link->node, target, &len);
    if (e) return e;
    if (len == 0 || len > VFS_PATH_MAX) return VFS_ENOENT;
    if (len + w->left > VFS_PATH_MAX) return VFS_ENAMETOOLONG;
    if (memchr(target, '\0', len)) return VFS_EINVAL;
    if (target[0] == '/' && fs->ops->links_stay) return VFS_ENOTCAPABLE;
    if (fs->ops->links_stay && !w->confined) {
        w->confined = true;
        w->outer = w->left;
    }
    memmove(text + len, w->rest, w->left);
    memcpy(text, target, len);
    w->rest = text;
    w->left += len;
    if (text[0] == '/') {
        place_drop(&w->at);
        w->at = place_of_mount(&w->v->mounts[0]);
    }
    return VFS_OK;
}

/* The entry `name` of the folder where the walk is. */
static vfs_err look(walker *w, const char *name, size_t len, place *out) {
    if (w->at.kind != VFS_DIR) return VFS_ENOTDIR;
    if (len > VFS_NAME_MAX) return VFS_ENAMETOOLONG;
    vfs_mountpoint *m = mount_at(w->v, &w->at, name, len);
    if (m) {
        *out = place_of_mount(m);
        return VFS_OK;
    }
    place p = { .mount = w->at.mount };
    vfs_err e = p.mount->fs->ops->lookup(p.mount->fs, w->at.node, name, len, &p.node, &p.kind);
    if (!e) *out = p;
    return e;
}

static vfs_err step_up(walker *w) {
    if (w->confined && w->at.mount->fs->ops->links_stay && place_is_mount_root(&w->at))
        return VFS_ENOTCAPABLE;
    return place_up(&w->at);
}

/* One part of a path: a name, perhaps empty, and the slashes behind it. */
typedef struct part {
    const char *name;
    size_t len, slashes;
    bool last;
} part;

/* The part that comes next. The walk then stands behind its name, before its slashes. */
static part next_part(walker *w) {
    part p = { .name = w->rest };
    if (w->confined && w->left <= w->outer) w->confined = false;
    while (p.len < w->left && w->rest[p.len] != '/') p.len++;
    w->rest += p.len;
    w->left -= p.len;
    while (p.slashes < w->left && w->rest[p.slashes] == '/') p.slashes++;
    p.last = p.slashes == w->left;
    return p;
}

static void skip_slashes(walker *w, const part *p) {
    w->rest += p->slashes;
    w->left -= p->slashes;
}

static bool is_dot(const part *p) {
    return p->len == 1 && p->name[0] == '.';
}

static bool is_dots(const part *p) {
    return p->len == 2 && p->name[0] == '.' && p->name[1] == '.';
}

/* The last part of the path is what `found` says, or nothing. */
static vfs_err arrive(walker *w, unsigned flags, const part *p, place found, walked *out) {
    memcpy(out->name, p->name, p->len);
    out->name[p->len] = '\0';
    out->len = p->len;
    out->dir = w->at;
    out->node = found;
    w->at = (place){ 0 };
    bool folder = !found.node || found.kind == VFS_DIR;
    return out->slash && !folder && !(flags & WALK_NAME) ? VFS_ENOTDIR : VFS_OK;
}

/* Walks one part of the path. `*done` if it was the last; `out` is then filled, but for node and
 * dir of a path that ends without a name. */
static vfs_err step(walker *w, unsigned flags, walked *out, bool *done) {
    part p = next_part(w);
    vfs_err e = VFS_OK;
    *done = p.last;
    out->slash = p.slashes > 0;
    if (p.len == 0 || is_dot(&p) || is_dots(&p)) {
        if (is_dots(&p))
            e = step_up(w);
        else if (p.len && w->at.kind != VFS_DIR)
            e = VFS_ENOTDIR;
        skip_slashes(w, &p);
        return e;
    }
    place found = { 0 };
    e = look(w, p.name, p.len, &found);
    if (e == VFS_ENOENT && p.last && flags & WALK_MISSING) e = VFS_OK;
    if (e) return e;
    bool through = !p.last || flags & WALK_FOLLOW || (out->slash && !(flags & WALK_NAME));
    if (found.node && found.kind == VFS_LINK && through) {
        *done = false;
        e = follow(w, &found);
        place_drop(&found);
        return e;
    }
    skip_slashes(w, &p);
    if (p.last) return arrive(w, flags, &p, found, out);
    place_drop(&w->at);
    w->at = found;
    return VFS_OK;
}

vfs_err walk(vfs *v, vfs_file *at, const char *path, size_t len, unsigned flags, walked *out) {
    if (len == 0) return VFS_ENOENT;
    if (len > VFS_PATH_MAX) return VFS_ENAMETOOLONG;
    if (memchr(path, '\0', len)) return VFS_EINVAL;
    if (!utf8_valid(path, len)) return VFS_EILSEQ;
    if (at && at->kind != VFS_DIR) return VFS_ENOTDIR;
    walker w = { .v = v, .rest = path, .left = len };
    if (at && path[0] != '/')
        w.at = place_hold((place){ at->mount, at->node, VFS_DIR });
    else
        w.at = place_of_mount(&v->mounts[0]);
    *out = (walked){ 0 };
    bool done = false;
    vfs_err e = VFS_OK;
    while (!e && !done) e = step(&w, flags, out, &done);
    if (e) {
        place_drop(&w.at);
        walk_end(out);
    } else if (w.at.node) {
        out->node = w.at;
    }
    return e;
}

void walk_end(walked *w) {
    place_drop(&w->dir);
    place_drop(&w->node);
}
