/* What the files of this room share with one another and with nobody else. */
#ifndef BRU_VFS_INTERNAL_H
#define BRU_VFS_INTERNAL_H

#include "vfs.h"

/* names.c. A name: 1 to VFS_NAME_MAX bytes of UTF-8, without '/' and NUL, not "." nor "..". */
bool name_valid(const char *name, size_t len);
/* A link's target: 1 to VFS_PATH_MAX bytes of UTF-8 without NUL. */
bool target_valid(const char *target, size_t len);
bool utf8_valid(const char *text, size_t len);

/* ---- A place in a namespace ---- */

typedef struct vfs_mountpoint {
    vfs_fs *fs;
    struct vfs_mountpoint *up; /* the mount it lies in; NULL: it is "/" */
    vfs_node *dir;             /* the folder of `up` it lies in, held */
    char *path;                /* as it was mounted; NULL: "/" */
    char *name;                /* its name there */
    size_t len;
    vfs_kind kind; /* of its root */
} vfs_mountpoint;

/* A held node. A null node is no place. */
typedef struct place {
    vfs_mountpoint *mount;
    vfs_node *node;
    vfs_kind kind;
} place;

struct vfs {
    vfs_mountpoint mounts[VFS_MOUNTS_MAX]; /* 0 is "/" */
    size_t mount_count;
    char *text;    /* what is left of a path in which a link was found; made when first needed */
    uint32_t open; /* files */
};

struct vfs_file {
    vfs *owner;
    vfs_mountpoint *mount;
    vfs_node *node; /* held for folders only: where paths relative to it begin */
    void *file;     /* the file system's */
    vfs_kind kind;
    unsigned flags;
};

/* What stat answers as the device: tells mounts apart, and is the same in each session. */
static inline uint64_t mount_number(const vfs *v, const vfs_mountpoint *m) {
    return (uint64_t)(m - v->mounts) + 1;
}

/* walk.c */

/* Where a path leads. `dir` is no place, and `len` 0, if the path ends in no name: "/", ".", "..".
 * `node` is no place if there is nothing by that name. */
typedef struct walked {
    place dir, node;
    size_t len;
    char name[VFS_NAME_MAX + 1];
    bool slash; /* a trailing one */
} walked;

enum {
    WALK_FOLLOW = 1u << 0,  /* a link in the last place is followed */
    WALK_MISSING = 1u << 1, /* that the last part is not there is no error */
    WALK_NAME = 1u << 2     /* the name itself is meant: a trailing slash follows no link */
};

/* Resolves a path. On success the caller ends with walk_end; otherwise nothing is held. */
vfs_err walk(vfs *v, vfs_file *at, const char *path, size_t len, unsigned flags, walked *out);
void walk_end(walked *w);

place place_of_mount(vfs_mountpoint *m); /* held, as is place_hold's */
place place_hold(place p);
void place_drop(place *p);  /* leaves no place */
vfs_err place_up(place *p); /* to the folder above; stays at "/" */
/* The mount that covers a name in a folder, or NULL. */
vfs_mountpoint *mount_at(vfs *v, const place *dir, const char *name, size_t len);
bool place_is_mount_root(const place *p);

/* devices.c: the file system at /dev. */
bru_status devices_new(sink *output, source *input, const random_source *random, vfs_fs **out,
                       bru_error *err);

#endif
