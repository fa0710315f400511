/* A namespace is made and mounts are put into it. */
#include "memtree.h"
#include "vfs_internal.h"

#include <string.h>

static bru_status mount_root(vfs *v, vfs_fs *fs, bru_error *err) {
    vfs_mountpoint *m = &v->mounts[0];
    vfs_stat st;
    vfs_err e = fs->ops->stat(fs, fs->ops->root(fs), &st);
    if (e) return vfs_error(err, e, "/");
    if (st.kind != VFS_DIR) return error_set(err, BRU_EINVAL, "/: must be a folder");
    *m = (vfs_mountpoint){ .fs = fs_ref(fs), .kind = VFS_DIR };
    v->mount_count = 1;
    return BRU_OK;
}

bru_status vfs_new_plain(vfs_fs *root, vfs **out, bru_error *err) {
    *out = NULL;
    vfs *v = mem_zero(1, sizeof *v);
    if (!v) return error_set(err, BRU_ENOMEM, "no memory for a namespace of files");
    bru_status st = mount_root(v, root, err);
    if (st)
        vfs_free(v);
    else
        *out = v;
    return st;
}

bru_status vfs_new(vfs_fs *root, sink *output, source *input, const random_source *random,
                   vfs **out, bru_error *err) {
    vfs *v;
    vfs_fs *devices = NULL;
    *out = NULL;
    bru_status st = vfs_new_plain(root, &v, err);
    if (!st && root->ops == &memtree_ops) st = memtree_fix(root, "/data", err);
    if (!st && root->ops == &memtree_ops) st = memtree_fix(root, "/tmp", err);
    if (!st) st = devices_new(output, input, random, &devices, err);
    if (!st) st = vfs_mount(v, "/dev", devices, err);
    fs_unref(devices);
    if (st)
        vfs_free(v);
    else
        *out = v;
    return st;
}

void vfs_free(vfs *v) {
    if (!v) return;
    while (v->mount_count > 0) {
        vfs_mountpoint *m = &v->mounts[--v->mount_count];
        place dir = { m->up, m->dir, VFS_DIR };
        place_drop(&dir);
        mem_free(m->name);
        mem_free(m->path);
        fs_unref(m->fs);
    }
    mem_free(v->text);
    mem_free(v);
}

/* Finds the folder that a mount will lie in: `path` up to `len`. In the memory at "/" it is made,
 * and kept from being removed. */
static bru_status mount_folder(vfs *v, const char *path, size_t len, walked *w, bru_error *err) {
    vfs_fs *root = v->mounts[0].fs;
    char *folder = mem_copy(path, len);
    if (!folder) return error_set(err, BRU_ENOMEM, "%s: no memory", path);
    bru_status fixed = BRU_OK;
    vfs_err e = walk(v, NULL, folder, len, WALK_FOLLOW, w);
    bool ours = !e && w->node.mount == &v->mounts[0];
    if (root->ops == &memtree_ops && (e == VFS_ENOENT || ours)) {
        fixed = memtree_fix(root, folder, err);
        if (!fixed && e) e = walk(v, NULL, folder, len, WALK_FOLLOW, w);
    }
    mem_free(folder);
    if (fixed == BRU_ENOMEM || fixed == BRU_ELIMIT) {
        if (!e) walk_end(w);
        return fixed;
    }
    if (e == VFS_ENOENT || e == VFS_ENOTDIR)
        return error_set(err, BRU_EINVAL, "%s: there is no folder to mount it in", path);
    if (e) return vfs_error(err, e, path);
    if (w->node.kind == VFS_DIR) return BRU_OK;
    walk_end(w);
    return error_set(err, BRU_EINVAL, "%s: what it lies in is no folder", path);
}

bru_status vfs_mount(vfs *v, const char *path, vfs_fs *fs, bru_error *err) {
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    size_t start = len;
    while (start > 0 && path[start - 1] != '/') start--;
    if (path[0] != '/' || !name_valid(path + start, len - start))
        return error_set(err, BRU_EINVAL, "%s: cannot be mounted on: the path must start with / and end in a name", path);
    if (v->mount_count == VFS_MOUNTS_MAX)
        return error_set(err, BRU_ELIMIT, "no more than %u mounts", VFS_MOUNTS_MAX - 1);
    vfs_stat st;
    vfs_err e = fs->ops->stat(fs, fs->ops->root(fs), &st);
    if (e) return vfs_error(err, e, path);
    walked w;
    bru_status status = mount_folder(v, path, start, &w, err);
    if (status) return status;
    char *name = mem_copy(path + start, len - start), *whole = mem_copy(path, len);
    if (mount_at(v, &w.node, path + start, len - start)) {
        status = error_set(err, BRU_EINVAL, "%s: something is mounted there already", path);
    } else if (!name || !whole) {
        status = error_set(err, BRU_ENOMEM, "%s: no memory", path);
    } else {
        v->mounts[v->mount_count++] = (vfs_mountpoint){ .fs = fs_ref(fs),
                                                        .up = w.node.mount,
                                                        .dir = place_hold(w.node).node,
                                                        .path = whole,
                                                        .name = name,
                                                        .len = len - start,
                                                        .kind = st.kind };
        name = whole = NULL;
    }
    mem_free(name);
    mem_free(whole);
    walk_end(&w);
    return status;
}

bru_status vfs_mount_alike(vfs *to, const vfs *from, bru_error *err) {
    bru_status st = BRU_OK;
    for (size_t i = to->mount_count; !st && i < from->mount_count; i++)
        st = vfs_mount(to, from->mounts[i].path, from->mounts[i].fs, err);
    return st;
}
