/* Files of sessions and of storages from the embedder's side: arguments are checked, and then it is
 * one room's work. A storage is used by many threads: each call has a namespace of its own. */
#include "brumate.h"
#include "session/files.h"
#include "session/storage.h"

#include <string.h>

static bru_status check_path(const char *path, bru_error *err) {
    if (path && path[0] == '/') return BRU_OK;
    return error_set(err, BRU_EINVAL, "%s: a path starts with /", path ? path : "NULL");
}

static bru_status check_write(const char *path, const void *data, size_t len, unsigned flags,
                              bru_error *err) {
    bru_status st = check_path(path, err);
    if (st) return st;
    if (flags & ~(unsigned)BRU_FILE_REPLACE)
        return error_set(err, BRU_EINVAL, "flags 0x%x of a file mean nothing to this library",
                         flags & ~(unsigned)BRU_FILE_REPLACE);
    return data || !len ? BRU_OK : error_set(err, BRU_EINVAL, "%s: nothing to write", path);
}

static bru_status check_read(const char *path, const void *data, size_t len, size_t *got,
                             bru_error *err) {
    bru_status st = check_path(path, err);
    if (!st && (!got || (!data && len)))
        st = error_set(err, BRU_EINVAL, "%s: no place to read to", path);
    if (got) *got = 0;
    return st;
}

static bru_status check_out(const char *path, const void *out, const char *what, bru_error *err) {
    bru_status st = check_path(path, err);
    return st || out ? st : error_set(err, BRU_EINVAL, "%s: no %s", path, what);
}

/* ---- Sessions ---------------------------------------------------------------------------------
 */

bru_status bru_session_write_file(bru_session *session, const char *path, uint64_t offset,
                                  const void *data, size_t len, unsigned flags, bru_error *err) {
    vfs *v;
    bru_status st = check_write(path, data, len, flags, err);
    if (!st) st = session_files(session, &v, err);
    return st ? st
              : vfs_write_file(v, path, offset, data, len, (flags & BRU_FILE_REPLACE) != 0, err);
}

bru_status bru_session_read_file(bru_session *session, const char *path, uint64_t offset,
                                 void *data, size_t len, size_t *got, bru_error *err) {
    vfs *v;
    bru_status st = check_read(path, data, len, got, err);
    if (!st) st = session_files(session, &v, err);
    return st ? st : vfs_read_file(v, path, offset, data, len, got, err);
}

bru_status bru_session_stat_file(bru_session *session, const char *path, bru_file_info *out,
                                 bru_error *err) {
    vfs *v;
    bru_status st = check_out(path, out, "place to put what it is", err);
    if (!st) st = session_files(session, &v, err);
    return st ? st : files_stat(v, path, out, err);
}

bru_status bru_session_list_files(bru_session *session, const char *path,
                                  int (*each)(void *ctx, const bru_file_info *file), void *ctx,
                                  bru_error *err) {
    vfs *v;
    bru_status st = check_out(path, (const void *)(uintptr_t)each, "function to tell", err);
    if (!st) st = session_files(session, &v, err);
    return st ? st : files_list(v, path, each, ctx, err);
}

bru_status bru_session_remove_file(bru_session *session, const char *path, bru_error *err) {
    vfs *v;
    bru_status st = check_path(path, err);
    if (!st) st = session_files(session, &v, err);
    return st ? st : vfs_remove(v, path, err);
}

bru_status bru_session_make_folder(bru_session *session, const char *path, bru_error *err) {
    vfs *v;
    bru_status st = check_path(path, err);
    if (!st) st = session_files(session, &v, err);
    return st ? st : vfs_make_folder(v, path, err);
}

/* ---- Storages ---------------------------------------------------------------------------------
 */

bru_status bru_storage_new(uint64_t max_bytes, bru_storage **out, bru_error *err) {
    if (!out) return error_set(err, BRU_EINVAL, "no place to put the storage");
    return storage_new(max_bytes, out, err);
}

bru_status bru_storage_write_file(bru_storage *storage, const char *path, uint64_t offset,
                                  const void *data, size_t len, unsigned flags, bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_write(path, data, len, flags, err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = vfs_write_file(v, path, offset, data, len, (flags & BRU_FILE_REPLACE) != 0, err);
    vfs_free(v);
    return st;
}

bru_status bru_storage_read_file(bru_storage *storage, const char *path, uint64_t offset,
                                 void *data, size_t len, size_t *got, bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_read(path, data, len, got, err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = vfs_read_file(v, path, offset, data, len, got, err);
    vfs_free(v);
    return st;
}

bru_status bru_storage_stat_file(bru_storage *storage, const char *path, bru_file_info *out,
                                 bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_out(path, out, "place to put what it is", err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = files_stat(v, path, out, err);
    vfs_free(v);
    return st;
}

bru_status bru_storage_list_files(bru_storage *storage, const char *path,
                                  int (*each)(void *ctx, const bru_file_info *file), void *ctx,
                                  bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_out(path, (const void *)(uintptr_t)each, "function to tell", err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = files_list(v, path, each, ctx, err);
    vfs_free(v);
    return st;
}

bru_status bru_storage_remove_file(bru_storage *storage, const char *path, bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_path(path, err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = vfs_remove(v, path, err);
    vfs_free(v);
    return st;
}

bru_status bru_storage_make_folder(bru_storage *storage, const char *path, bru_error *err) {
    vfs *v = NULL;
    bru_status st = check_path(path, err);
    if (!st) st = storage_files(storage, &v, err);
    if (!st) st = vfs_make_folder(v, path, err);
    vfs_free(v);
    return st;
}
