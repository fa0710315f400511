/* What the functions of brumate/storage.h are once their arguments were checked. */
#ifndef BRU_SESSION_STORAGE_H
#define BRU_SESSION_STORAGE_H

#include "brumate/storage.h"
#include "vfs/vfs.h"

BRU_MUST_CHECK bru_status storage_new(uint64_t max_bytes, bru_storage **out, bru_error *err);

/* Its files, borrowed. */
vfs_fs *storage_tree(bru_storage *storage);

#endif
