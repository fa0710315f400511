/* Counts a memtree anew, naively, to compare with its own books. */
#ifndef BRU_TESTS_FUZZ_RECOUNT_H
#define BRU_TESTS_FUZZ_RECOUNT_H

#include "fuzz.h"
#include "vfs/memtree.h"

typedef struct recount {
    uint64_t bytes, entries;
} recount;

static inline void recount_node(recount *r, memnode *n, unsigned depth) {
    MUST(depth < VFS_DEPTH_MAX);
    if (n->number) return; /* another name of it was counted */
    n->number = 1;
    r->bytes += mem_cost(sizeof *n);
    if (n->kind == VFS_LINK) r->bytes += mem_cost(n->link.len + 1);
    if (n->kind == VFS_REGULAR) {
        const memdata *d = &n->file;
        if (d->cap) r->bytes += mem_cost(d->cap * sizeof *d->blocks);
        for (size_t i = 0; i < d->cap; i++) {
            if (!d->blocks[i]) continue;
            r->bytes += mem_cost(sizeof(memblock));
            for (size_t k = 0; k < BLOCK_SIZE; k++) /* nothing lies beyond the end */
                MUST(i * BLOCK_SIZE + k < d->size || d->blocks[i]->data[k] == 0);
        }
    }
    if (n->kind != VFS_DIR) return;
    uint32_t live = 0;
    uint64_t seq = 0;
    const memdir *d = &n->dir;
    if (d->slots) r->bytes += mem_cost(d->cap * sizeof *d->slots);
    if (d->index) r->bytes += mem_cost((size_t)d->cap * 2 * sizeof *d->index);
    for (uint32_t i = 0; i < d->count; i++) {
        MUST(d->slots[i].seq > seq);
        seq = d->slots[i].seq;
        mementry *e = d->slots[i].entry;
        if (!e) continue;
        live++;
        r->entries++;
        r->bytes += mem_cost(sizeof *e + e->len);
        MUST(e->node->links > 0);
        if (e->node->kind == VFS_DIR) MUST(e->node->dir.parent == n && e->node->links == 1);
        recount_node(r, e->node, depth + 1);
    }
    MUST(live == d->live);
}

static inline void recount_forget(memnode *n) {
    n->number = 0;
    if (n->kind != VFS_DIR) return;
    for (uint32_t i = 0; i < n->dir.count; i++)
        if (n->dir.slots[i].entry) recount_forget(n->dir.slots[i].entry->node);
}

/* No file of the tree may be open that has no name. */
static inline void recount_check(vfs_fs *fs) {
    memtree *t = memtree_of(fs);
    recount r = { 0 };
    recount_node(&r, t->root, 0);
    recount_forget(t->root);
    if (r.bytes != t->bytes)
        fprintf(stderr, "%llu bytes, but %llu counted\n", (unsigned long long)t->bytes,
                (unsigned long long)r.bytes);
    MUST(r.bytes == t->bytes);
    MUST(r.entries == t->entries);
}

#endif
