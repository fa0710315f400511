/* The data of a file in memory: a table of blocks, in which a hole is NULL and costs its place in
 * the table alone. Blocks are counted, so that a fork of a tree copies tables and no data. */
#include "memtree.h"

#include <stdatomic.h>
#include <string.h>

static const uint8_t zeroes[BLOCK_SIZE];

static void block_drop(memtree *t, memblock *b) {
    if (!b) return;
    if (atomic_fetch_sub(&b->refs, 1) == 1) mem_free(b);
    tree_credit(t, mem_cost(sizeof *b));
}

static size_t blocks_for(uint64_t size) {
    return (size_t)((size + BLOCK_SIZE - 1) / BLOCK_SIZE);
}

/* Makes the table hold `need` places, twice what it had if that is more and there is room. */
static vfs_err table_grow(memtree *t, memdata *d, size_t need) {
    if (need <= d->cap) return VFS_OK;
    size_t most = blocks_for(t->max_file);
    size_t cap = d->cap * 2 > need ? d->cap * 2 : need;
    if (cap > most) cap = need > most ? need : most;
    uint64_t old_cost = d->cap ? mem_cost(d->cap * sizeof *d->blocks) : 0;
    uint64_t cost = mem_cost(cap * sizeof *d->blocks);
    uint64_t room = t->max_bytes > t->bytes ? t->max_bytes - t->bytes : 0;
    if (cap > need && cost - old_cost > room) {
        cap = need;
        cost = mem_cost(cap * sizeof *d->blocks);
    }
    if (!tree_charge(t, cost - old_cost)) return VFS_ENOSPC;
    memblock **blocks = mem_grow(d->blocks, cap * sizeof *blocks);
    if (!blocks) {
        tree_credit(t, cost - old_cost);
        return VFS_ENOMEM;
    }
    memset(blocks + d->cap, 0, (cap - d->cap) * sizeof *blocks);
    d->blocks = blocks;
    d->cap = cap;
    return VFS_OK;
}

/* Gives room in the table back when most of it is idle. That it may fail does not matter. */
static void table_shrink(memtree *t, memdata *d, size_t need) {
    if (d->cap == 0 || need > d->cap / 4) return;
    uint64_t old_cost = mem_cost(d->cap * sizeof *d->blocks);
    if (need == 0) {
        mem_free(d->blocks);
        d->blocks = NULL;
        d->cap = 0;
        tree_credit(t, old_cost);
        return;
    }
    memblock **blocks = mem_grow(d->blocks, need * sizeof *blocks);
    if (!blocks) return;
    d->blocks = blocks;
    d->cap = need;
    tree_credit(t, old_cost - mem_cost(need * sizeof *blocks));
}

/* The block at a place of the table, made or copied so that it may be written. */
static vfs_err block_own(memtree *t, memdata *d, size_t i, memblock **out) {
    memblock *b = d->blocks[i];
    if (b && atomic_load(&b->refs) == 1) {
        *out = b;
        return VFS_OK;
    }
    if (b) { /* shared with a fork; this tree was charged for it already */
        memblock *copy = mem_zero(1, sizeof *copy);
        if (!copy) return VFS_ENOMEM;
        memcpy(copy->data, b->data, BLOCK_SIZE);
        atomic_store(&copy->refs, 1);
        if (atomic_fetch_sub(&b->refs, 1) == 1) mem_free(b);
        *out = d->blocks[i] = copy;
        return VFS_OK;
    }
    vfs_err e = VFS_OK;
    b = tree_alloc(t, sizeof *b, &e);
    if (!b) return e;
    atomic_store(&b->refs, 1);
    *out = d->blocks[i] = b;
    return VFS_OK;
}

vfs_err data_read(const memdata *d, uint64_t at, void *out, size_t len, size_t *n) {
    *n = 0;
    if (at >= d->size) return VFS_OK;
    if (len > d->size - at) len = (size_t)(d->size - at);
    uint8_t *to = out;
    for (size_t done = 0; done < len;) {
        size_t i = (size_t)((at + done) / BLOCK_SIZE), off = (size_t)((at + done) % BLOCK_SIZE);
        size_t part = BLOCK_SIZE - off < len - done ? BLOCK_SIZE - off : len - done;
        const memblock *b = i < d->cap ? d->blocks[i] : NULL;
        memcpy(to + done, b ? b->data + off : zeroes, part);
        done += part;
    }
    *n = len;
    return VFS_OK;
}

vfs_err data_write(memtree *t, memdata *d, uint64_t at, const void *bytes, size_t len, size_t *n) {
    *n = 0;
    if (len == 0) return VFS_OK;
    if (at >= t->max_file) return VFS_EFBIG;
    if (len > t->max_file - at) len = (size_t)(t->max_file - at);
    vfs_err e = table_grow(t, d, blocks_for(at + len));
    if (e == VFS_ENOSPC && blocks_for(at + 1) <= d->cap) {
        len = (size_t)((uint64_t)d->cap * BLOCK_SIZE - at); /* as much as the table holds */
        e = VFS_OK;
    }
    const uint8_t *from = bytes;
    size_t done = 0;
    while (!e && done < len) {
        size_t i = (size_t)((at + done) / BLOCK_SIZE), off = (size_t)((at + done) % BLOCK_SIZE);
        size_t part = BLOCK_SIZE - off < len - done ? BLOCK_SIZE - off : len - done;
        memblock *b = NULL;
        e = block_own(t, d, i, &b);
        if (e) break;
        memcpy(b->data + off, from + done, part);
        done += part;
    }
    if (done == 0) return e;
    if (at + done > d->size) d->size = at + done;
    *n = done;
    return VFS_OK;
}

vfs_err data_resize(memtree *t, memdata *d, uint64_t size) {
    if (size > t->max_file) return VFS_EFBIG;
    if (size >= d->size) {
        d->size = size;
        return VFS_OK;
    }
    size_t need = blocks_for(size), off = (size_t)(size % BLOCK_SIZE);
    if (off && need <= d->cap && d->blocks[need - 1]) {
        memblock *b = NULL;
        vfs_err e = block_own(t, d, need - 1, &b);
        if (e) return e;
        memset(b->data + off, 0, BLOCK_SIZE - off);
    }
    for (size_t i = need; i < d->cap; i++) {
        block_drop(t, d->blocks[i]);
        d->blocks[i] = NULL;
    }
    d->size = size;
    table_shrink(t, d, need);
    return VFS_OK;
}

vfs_err data_allocate(memtree *t, memdata *d, uint64_t at, uint64_t len) {
    if (at > t->max_file || len > t->max_file - at) return VFS_EFBIG;
    size_t first = (size_t)(at / BLOCK_SIZE), end = blocks_for(at + len);
    uint64_t missing = 0;
    for (size_t i = first; i < end; i++) missing += i >= d->cap || !d->blocks[i];
    if (t->bytes > t->max_bytes || missing > (t->max_bytes - t->bytes) / mem_cost(sizeof(memblock)))
        return VFS_ENOSPC;
    vfs_err e = table_grow(t, d, end);
    for (size_t i = first; !e && i < end; i++) {
        memblock *b = NULL;
        if (!d->blocks[i]) e = block_own(t, d, i, &b);
    }
    if (!e && at + len > d->size) d->size = at + len;
    return e;
}

vfs_err data_share(memtree *to, const memdata *from, memdata *out) {
    *out = (memdata){ 0 };
    vfs_err e = table_grow(to, out, from->cap);
    if (e) return e;
    for (size_t i = 0; i < from->cap; i++) {
        memblock *b = from->blocks[i];
        if (!b) continue;
        if (!tree_charge(to, mem_cost(sizeof *b))) {
            data_free(to, out);
            return VFS_ENOSPC;
        }
        atomic_fetch_add(&b->refs, 1);
        out->blocks[i] = b;
    }
    out->size = from->size;
    return VFS_OK;
}

void data_free(memtree *t, memdata *d) {
    for (size_t i = 0; i < d->cap; i++) block_drop(t, d->blocks[i]);
    if (d->cap) tree_credit(t, mem_cost(d->cap * sizeof *d->blocks));
    mem_free(d->blocks);
    *d = (memdata){ 0 };
}
