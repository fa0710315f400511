/* Any bytes as saved files: refused, or a tree whose books are right and that is saved alike. */
#include "recount.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    vfs_fs *tree = NULL, *again = NULL;
    vfs *v = NULL;
    bru_error err = { 0 };
    buf a, b;
    buf_init(&a, 4 << 20);
    buf_init(&b, 4 << 20);
    memtree_options opt = { .max_bytes = 1 << 20, .max_entries = 500 };
    MUST(!memtree_new(&opt, &tree, NULL) && !memtree_new(&opt, &again, NULL));
    MUST(!vfs_new(tree, NULL, NULL, NULL, &v, NULL));
    MUST(!memtree_fix(again, "/data", NULL) && !memtree_fix(again, "/tmp", NULL));
    /* The magic may be left out: it would only be in the way. */
    uint8_t *bytes = malloc(size + 8);
    MUST(bytes != NULL);
    memcpy(bytes, "BRUTREE2", 8);
    if (size) memcpy(bytes + 8, data, size);
    bru_status st = memtree_load(tree, bytes, size + 8, &err);
    MUST(st == BRU_OK || st == BRU_EFORMAT || st == BRU_ELIMIT);
    recount_check(tree);
    if (!st) {
        MUST(!memtree_save(tree, &a, NULL));
        MUST(!memtree_load(again, a.data, a.len, &err));
        recount_check(again);
        MUST(!memtree_save(again, &b, NULL));
        MUST(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    }
    memtree_clear(tree);
    recount_check(tree);
    free(bytes);
    buf_free(&a);
    buf_free(&b);
    vfs_free(v);
    fs_unref(tree);
    fs_unref(again);
    return 0;
}
