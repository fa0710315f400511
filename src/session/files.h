/* Files from the embedder's side, for sessions and storages alike: what brumate/session.h and
 * brumate/storage.h say of a path, over a namespace. Arguments are checked. */
#ifndef BRU_SESSION_FILES_H
#define BRU_SESSION_FILES_H

#include "brumate/session.h"
#include "vfs/vfs.h"

BRU_MUST_CHECK bru_status files_stat(vfs *v, const char *path, bru_file_info *out, bru_error *err);
BRU_MUST_CHECK bru_status files_list(vfs *v, const char *path,
                                     int (*each)(void *ctx, const bru_file_info *file), void *ctx,
                                     bru_error *err);

/* The namespace to use for one call on a session or on a storage.
 * BRU_EBUSY  the session runs, on whatever thread. */
BRU_MUST_CHECK bru_status session_files(bru_session *s, vfs **out, bru_error *err);
/* Each call has its own, so that any number of threads may call: freed by vfs_free(). */
BRU_MUST_CHECK bru_status storage_files(bru_storage *storage, vfs **out, bru_error *err);

#endif
