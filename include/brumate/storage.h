/* Storages: files in memory that several sessions can show, and that outlive them. */
#ifndef BRUMATE_STORAGE_H
#define BRUMATE_STORAGE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_storage bru_storage;

enum bru_file_flag { BRU_FILE_REPLACE = 1u /* a write empties the file first */ };

typedef enum bru_file_kind { BRU_FILE, BRU_FOLDER, BRU_LINK, BRU_DEVICE } bru_file_kind;

/* A file of a storage or a session. `name` is borrowed for the call that hands it out. */
typedef struct bru_file_info {
    const char *name; /* without the folder */
    bru_file_kind kind;
    uint64_t size;     /* bytes */
    uint64_t mtime_ns; /* since 1970 */
} bru_file_info;

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

/* Files, links followed inside: as their namesakes for sessions, with paths from the storage's
 * root. Any thread, also while sessions use the storage. A child of fork() must not use a storage
 * that another thread was using at that moment. */
BRU_API BRU_MUST_CHECK bru_status bru_storage_write_file(bru_storage *storage, const char *path,
                                                         uint64_t offset, const void *data,
                                                         size_t len, unsigned flags,
                                                         bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_storage_read_file(bru_storage *storage, const char *path,
                                                        uint64_t offset, void *data, size_t len,
                                                        size_t *got, bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_storage_stat_file(bru_storage *storage, const char *path,
                                                        bru_file_info *out, bru_error *err);
/* `each` is called outside of any lock, and may use the storage. */
BRU_API BRU_MUST_CHECK bru_status bru_storage_list_files(bru_storage *storage, const char *path,
                                                         int (*each)(void *ctx,
                                                                     const bru_file_info *file),
                                                         void *ctx, bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_storage_remove_file(bru_storage *storage, const char *path,
                                                          bru_error *err);
BRU_API BRU_MUST_CHECK bru_status bru_storage_make_folder(bru_storage *storage, const char *path,
                                                          bru_error *err);

#ifdef __cplusplus
}
#endif
#endif
