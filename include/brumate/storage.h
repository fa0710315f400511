/* Storages: files in memory that several sessions can show, and that outlive them. */
#ifndef BRUMATE_STORAGE_H
#define BRUMATE_STORAGE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_storage bru_storage;

/* Makes an empty storage for at most `max_bytes` of files, their names and folders; 0: 64 MiB.
 * Sessions keep theirs alive. `*out` goes back by bru_storage_unref().
 * Threads  sessions on any number of threads may use one storage at a time. */
BRU_API BRU_MUST_CHECK bru_status bru_storage_new(uint64_t max_bytes, bru_storage **out,
                                                  bru_error *err);
/* Any thread; NULL is allowed. */
BRU_API bru_storage *bru_storage_ref(bru_storage *storage);
BRU_API void bru_storage_unref(bru_storage *storage);

/* Bytes in use, and the most that may be. Any thread. */
BRU_API uint64_t bru_storage_bytes(bru_storage *storage, uint64_t *max_bytes);

#ifdef __cplusplus
}
#endif
#endif
