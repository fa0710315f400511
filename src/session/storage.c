/* Storages: a counted tree of files in memory. The tree has a lock of its own, so sessions on
 * different threads need none here. */
#include "session/storage.h"

#include "session/files.h"
#include "session/session.h"

struct bru_storage {
    atomic_uint refs;
    vfs_fs *tree;
    uint64_t empty; /* what the tree counts when nothing is in it */
};

bru_status storage_new(uint64_t max_bytes, bru_storage **out, bru_error *err) {
    memtree_usage usage;
    *out = NULL;
    if (!max_bytes) max_bytes = 64ull << 20;
    memtree_options options = { .max_file =
                                    max_bytes < SESSION_FILE_MAX ? max_bytes : SESSION_FILE_MAX };
    bru_storage *storage = mem_zero(1, sizeof *storage);
    if (!storage) return error_set(err, BRU_ENOMEM, "no memory for a storage");
    atomic_init(&storage->refs, 1);
    bru_status st = memtree_new(&options, &storage->tree, err);
    if (st) {
        mem_free(storage);
        return st;
    }
    memtree_get_usage(storage->tree, &usage);
    storage->empty = usage.bytes;
    bool bounded = max_bytes < UINT64_MAX - usage.bytes;
    memtree_set_limits(storage->tree, bounded ? max_bytes + usage.bytes : UINT64_MAX, 0);
    *out = storage;
    return BRU_OK;
}

bru_storage *bru_storage_ref(bru_storage *storage) {
    if (storage) atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
    return storage;
}

void bru_storage_unref(bru_storage *storage) {
    if (!storage || atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) return;
    fs_unref(storage->tree);
    mem_free(storage);
}

uint64_t bru_storage_bytes(bru_storage *storage, uint64_t *max_bytes) {
    memtree_usage usage;
    memtree_get_usage(storage->tree, &usage);
    bool bounded = usage.max_bytes != UINT64_MAX;
    if (max_bytes) *max_bytes = bounded ? usage.max_bytes - storage->empty : UINT64_MAX;
    return usage.bytes - storage->empty;
}

vfs_fs *storage_tree(bru_storage *storage) {
    return storage->tree;
}

bru_status storage_files(bru_storage *storage, vfs **out, bru_error *err) {
    return vfs_new_plain(storage->tree, out, err);
}
