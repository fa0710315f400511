/* A folder of a memtree: its entries in order of arrival, and an index by name once there are
 * more than a few. Names come and go without moving the others past a reader's cookie. Also the
 * traversals of a whole tree, which need no stack: a folder remembers where one stands. */
#include "memtree.h"

#include <string.h>

#define INDEX_FROM 16u /* places; fewer are searched one by one */

static uint32_t name_hash(const memtree *t, const char *name, size_t len) {
    uint32_t h = 2166136261u ^ t->seed;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
    return h ^ h >> 15;
}

static size_t entry_size(size_t len) {
    return sizeof(mementry) + len;
}

vfs_err dir_make_entry(memtree *t, memnode *n, const char *name, size_t len, mementry **out) {
    if (t->entries >= t->max_entries) return VFS_ENOSPC;
    vfs_err err = VFS_OK;
    mementry *e = tree_alloc(t, entry_size(len), &err);
    if (!e) return err;
    *e = (mementry){ .node = n, .hash = name_hash(t, name, len), .len = (uint16_t)len };
    memcpy(e->name, name, len);
    t->entries++;
    *out = e;
    return VFS_OK;
}

void dir_free_entry(memtree *t, mementry *e) {
    if (!e) return;
    t->entries--;
    tree_free(t, e, entry_size(e->len));
}

static bool entry_is(const mementry *e, uint32_t hash, const char *name, size_t len) {
    return e && e->hash == hash && e->len == len && memcmp(e->name, name, len) == 0;
}

mementry *dir_find(memtree *t, const memdir *d, const char *name, size_t len, uint32_t *pos) {
    if (d->live == 0) return NULL;
    uint32_t hash = name_hash(t, name, len), at = 0;
    if (!d->index) {
        for (at = 0; at < d->count && !entry_is(d->slots[at].entry, hash, name, len);) at++;
        if (at == d->count) return NULL;
    } else {
        uint32_t mask = d->cap * 2 - 1, i = hash & mask;
        for (; d->index[i] != 0; i = (i + 1) & mask) {
            if (d->index[i] == 1) continue;
            at = d->index[i] - 2;
            if (entry_is(d->slots[at].entry, hash, name, len)) break;
        }
        if (d->index[i] == 0) return NULL;
    }
    if (pos) *pos = at;
    return d->slots[at].entry;
}

static void index_add(memdir *d, uint32_t pos) {
    if (!d->index) return;
    uint32_t mask = d->cap * 2 - 1, i = d->slots[pos].entry->hash & mask;
    while (d->index[i] > 1) i = (i + 1) & mask;
    d->index[i] = pos + 2;
}

static size_t index_size(uint32_t cap) {
    return (size_t)cap * 2 * sizeof(uint32_t);
}

/* Closes the gaps between entries, in place, and builds the index anew. */
static void dir_compact(memdir *d) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->slots[i].entry) d->slots[to++] = d->slots[i];
    d->count = to;
    if (!d->index) return;
    memset(d->index, 0, index_size(d->cap));
    for (uint32_t i = 0; i < d->count; i++) index_add(d, i);
}

/* Moves the tables to ones of `cap` places, a power of two no less than live. */
static vfs_err dir_resize(memtree *t, memdir *d, uint32_t cap) {
    vfs_err err = VFS_OK;
    memslot *slots = tree_alloc(t, cap * sizeof *slots, &err);
    if (!slots) return err;
    uint32_t *index = NULL;
    if (cap > INDEX_FROM) {
        index = tree_alloc(t, index_size(cap), &err);
        if (!index) {
            tree_free(t, slots, cap * sizeof *slots);
            return err;
        }
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < d->count; i++)
        if (d->slots[i].entry) slots[count++] = d->slots[i];
    dir_free(t, d);
    d->slots = slots;
    d->index = index;
    d->cap = cap;
    d->count = count;
    for (uint32_t i = 0; index && i < count; i++) index_add(d, i);
    return VFS_OK;
}

vfs_err dir_reserve(memtree *t, memdir *d) {
    if (d->count < d->cap) return VFS_OK;
    if (d->live < d->count - d->count / 4) {
        dir_compact(d);
        return VFS_OK;
    }
    if (d->cap > UINT32_MAX / 16) return VFS_ENOSPC;
    return dir_resize(t, d, d->cap ? d->cap * 2 : 4);
}

void dir_insert(memdir *d, mementry *e) {
    uint32_t pos = d->count++;
    d->slots[pos] = (memslot){ .entry = e, .seq = ++d->next_seq };
    d->live++;
    index_add(d, pos);
}

void dir_tidy(memtree *t, memdir *d) {
    if (d->live == 0) {
        dir_free(t, d);
    } else if (d->cap > INDEX_FROM && d->live < d->cap / 4) {
        /* If it fails that is no matter: the tables only stay larger. */
        if (dir_resize(t, d, d->cap / 2) && d->count / 2 > d->live) dir_compact(d);
    }
}

void dir_remove(memtree *t, memdir *d, uint32_t pos) {
    if (d->index) {
        uint32_t mask = d->cap * 2 - 1, i = d->slots[pos].entry->hash & mask;
        while (d->index[i] != pos + 2) i = (i + 1) & mask;
        d->index[i] = 1;
    }
    d->slots[pos].entry = NULL;
    d->live--;
    dir_tidy(t, d);
}

void dir_at(const memdir *d, uint64_t cookie, vfs_dirent *out) {
    uint32_t low = 0, high = d->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (d->slots[mid].seq > cookie)
            high = mid;
        else
            low = mid + 1;
    }
    while (low < d->count && !d->slots[low].entry) low++;
    out->len = 0;
    if (low == d->count) return;
    const mementry *e = d->slots[low].entry;
    out->next = d->slots[low].seq;
    out->ino = e->node->ino;
    out->kind = e->node->kind;
    out->len = e->len;
    memcpy(out->name, e->name, e->len);
    out->name[e->len] = '\0';
}

void dir_free(memtree *t, memdir *d) {
    if (d->slots) tree_free(t, d->slots, d->cap * sizeof *d->slots);
    if (d->index) tree_free(t, d->index, index_size(d->cap));
    d->slots = NULL;
    d->index = NULL;
    d->cap = d->count = 0;
}

bool tree_walk(memtree *t, memnode **dir, mementry **e) {
    memnode *cur = *dir;
    if (!cur) {
        cur = t->root;
        cur->dir.walk = 0;
    } else if (node_is_dir((*e)->node)) {
        cur = (*e)->node;
        cur->dir.walk = 0;
    }
    for (;;) {
        memdir *d = &cur->dir;
        while (d->walk < d->count && !d->slots[d->walk].entry) d->walk++;
        if (d->walk < d->count) break;
        if (cur == t->root) return false;
        cur = d->parent;
    }
    *dir = cur;
    *e = cur->dir.slots[cur->dir.walk++].entry;
    return true;
}

/* The last step of clearing a folder: what stayed in it is fixed. */
static void dir_settle(memtree *t, memdir *d) {
    if (d->live > 0) dir_compact(d);
    dir_tidy(t, d);
}

/* Takes the entry out of a place and lets its node go, without minding the index. */
static void slot_drop(memtree *t, memdir *d, uint32_t pos) {
    mementry *e = d->slots[pos].entry;
    memnode *n = e->node;
    d->slots[pos].entry = NULL;
    d->live--;
    if (node_is_dir(n)) n->dir.parent = NULL;
    n->links--;
    node_release(t, n);
    dir_free_entry(t, e);
}

void tree_clear(memtree *t, bool fixed_too) {
    memnode *cur = t->root;
    cur->dir.walk = 0;
    for (;;) {
        memdir *d = &cur->dir;
        if (d->walk < d->count) {
            mementry *e = d->slots[d->walk].entry;
            if (e && node_is_dir(e->node)) {
                cur = e->node;
                cur->dir.walk = 0;
                continue;
            }
            if (e) slot_drop(t, d, d->walk);
            d->walk++;
            continue;
        }
        dir_settle(t, d);
        if (cur == t->root) break;
        memdir *up = &d->parent->dir;
        memnode *parent = d->parent;
        if (!cur->fixed || fixed_too) slot_drop(t, up, up->walk);
        up->walk++;
        cur = parent;
    }
}

unsigned dir_depth(const memnode *n) {
    unsigned depth = 0;
    for (const memnode *p = n->dir.parent; p; p = p->dir.parent) depth++;
    return depth;
}

unsigned dir_height(memnode *n) {
    unsigned height = 0, most = 0;
    memnode *cur = n;
    cur->dir.walk = 0;
    for (;;) {
        memdir *d = &cur->dir;
        if (d->walk < d->count) {
            mementry *e = d->slots[d->walk++].entry;
            if (!e || !node_is_dir(e->node)) continue;
            cur = e->node;
            cur->dir.walk = 0;
            height++;
            if (height > most) most = height;
        } else {
            if (cur == n) return most;
            cur = d->parent;
            height--;
        }
    }
}
