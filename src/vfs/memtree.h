/* The inside of memtree, shared by its files: nodes, folders as ordered tables, data in blocks.
 * Every function here expects the tree's lock to be held. */
#ifndef BRU_VFS_MEMTREE_H
#define BRU_VFS_MEMTREE_H

#include <pthread.h>

#include "vfs.h"

#define BLOCK_SIZE 4096u

/* Data of a file. Shared between forks, and then not written: `refs` says by how many. */
typedef struct memblock {
    _Atomic uint32_t refs;
    uint8_t data[BLOCK_SIZE];
} memblock;

typedef struct memnode memnode;

typedef struct mementry {
    memnode *node; /* counted in node->links */
    uint32_t hash;
    uint16_t len;
    char name[];
} mementry;

/* A place in a folder, in order of arrival: `seq` grows, so it serves as a cookie that outlives
 * removals. An empty place (entry NULL) keeps its seq. */
typedef struct memslot {
    mementry *entry;
    uint64_t seq;
} memslot;

typedef struct memdir {
    memnode *parent; /* NULL: the root, or removed */
    memslot *slots;
    uint32_t *index; /* open addressing over slots: 0 free, 1 deleted, else position + 2 */
    uint32_t count, cap, live; /* places used, allocated, not empty; the index has 2 * cap */
    uint32_t walk;             /* where a traversal of the whole tree stands */
    uint64_t next_seq;
} memdir;

typedef struct memdata {
    memblock **blocks; /* NULL: a hole. Bytes of the last block beyond size are zero */
    size_t cap;
    uint64_t size;
} memdata;

struct memnode {
    uint32_t refs;  /* open files and walkers */
    uint32_t links; /* names; 1 for the root. Freed when both are 0 */
    vfs_kind kind;
    bool fixed;
    uint64_t ino, atime, mtime, ctime;
    memnode *twin;   /* its copy, while a fork is under way */
    uint32_t number; /* from 1, while a save is under way */
    union {
        memdir dir;
        memdata file;
        struct {
            char *target;
            size_t len;
        } link;
    };
};

typedef struct memtree {
    vfs_fs fs;
    pthread_mutex_t lock;
    clock_source clock;
    uint64_t max_bytes, max_entries, max_file;
    bool file_follows;       /* max_file is max_bytes */
    uint64_t bytes, entries; /* in use */
    uint64_t next_ino;
    uint32_t seed; /* of the hash of names */
    bool dirty;    /* something was made since the last clear */
    memnode *root;
} memtree;

extern const vfs_ops memtree_ops;

static inline memtree *memtree_of(vfs_fs *fs) {
    return (memtree *)fs;
}
static inline memnode *memnode_of(vfs_node *n) {
    return (memnode *)(void *)n;
}

/* memtree.c: charging. `size` bytes as the host's allocator will take them; false: no room. */
uint64_t mem_cost(size_t size);
bool tree_charge(memtree *t, uint64_t cost);
void tree_credit(memtree *t, uint64_t cost);
/* Zeroed memory, charged. `*e` says why it is NULL. */
void *tree_alloc(memtree *t, size_t size, vfs_err *e);
void tree_free(memtree *t, void *p, size_t size);
uint64_t tree_now(memtree *t);

memnode *node_new(memtree *t, vfs_kind kind, vfs_err *e); /* no links, no refs */
void node_release(memtree *t, memnode *n);                /* frees it if nothing holds it */
bool node_is_dir(const memnode *n);
/* Gives `n` a name. On failure nothing changed, but an `n` without names and refs is gone. */
vfs_err tree_name(memtree *t, memnode *d, const char *name, size_t len, memnode *n);

/* memdir.c */
vfs_err dir_make_entry(memtree *t, memnode *n, const char *name, size_t len, mementry **out);
void dir_free_entry(memtree *t, mementry *e);
mementry *dir_find(memtree *t, const memdir *d, const char *name, size_t len, uint32_t *pos);
vfs_err dir_reserve(memtree *t, memdir *d);           /* room for one more */
void dir_insert(memdir *d, mementry *e);              /* after dir_reserve */
void dir_remove(memtree *t, memdir *d, uint32_t pos); /* the entry is the caller's */
void dir_tidy(memtree *t, memdir *d);                 /* closes gaps, gives back room */
void dir_at(const memdir *d, uint64_t cookie, vfs_dirent *out);
void dir_free(memtree *t, memdir *d); /* of an empty folder: its tables */
/* The next node of the whole tree, parents before children; `*dir` is where it lies, `*e` its
 * entry. Start with `*dir` NULL. False at the end. */
bool tree_walk(memtree *t, memnode **dir, mementry **e);
void tree_clear(memtree *t, bool fixed_too);
unsigned dir_depth(const memnode *n); /* folders above */
unsigned dir_height(memnode *n);      /* folders below, the longest way */

/* memdata.c */
vfs_err data_read(const memdata *d, uint64_t at, void *out, size_t len, size_t *n);
vfs_err data_write(memtree *t, memdata *d, uint64_t at, const void *bytes, size_t len, size_t *n);
vfs_err data_resize(memtree *t, memdata *d, uint64_t size);
vfs_err data_allocate(memtree *t, memdata *d, uint64_t at, uint64_t len);
vfs_err data_share(memtree *to, const memdata *from, memdata *out); /* copy on write */
void data_free(memtree *t, memdata *d);

#endif
