/* Snapshots as files: whole or not at all. */
#define _GNU_SOURCE
#include "image/replace.h"
#include "image/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bru_status write_all(int fd, const char *path, const uint8_t *bytes, size_t len,
                            bru_error *err) {
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_errno(err, errno, "cannot write the snapshot %s", path);
        bytes += n;
        len -= (size_t)n;
    }
    return BRU_OK;
}

bru_status snapshot_file_write(const char *path, const void *bytes, size_t len, bool synced,
                               bru_error *err) {
    replacement file;
    bru_status st = replacement_open(&file, path, err);
    if (!st) st = write_all(file.fd, path, bytes, len, err);
    if (!st)
        st = synced ? replacement_finish(&file, 0600, err) : replacement_place(&file, 0600, err);
    replacement_close(&file);
    return st;
}

static bru_status read_all(int fd, const char *path, uint8_t *to, size_t len, bru_error *err) {
    for (size_t at = 0; at < len;) {
        ssize_t n = read(fd, to + at, len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_errno(err, errno, "cannot read the snapshot %s", path);
        if (n == 0) return error_set(err, BRU_EFORMAT, "%s became shorter while it was read", path);
        at += (size_t)n;
    }
    return BRU_OK;
}

bru_status snapshot_file_read(const char *path, uint8_t **out, size_t *len, bru_error *err) {
    struct stat info;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return error_errno(err, errno, "cannot open the snapshot %s", path);
    bru_status st = BRU_OK;
    if (fstat(fd, &info) != 0) st = error_errno(err, errno, "cannot read the snapshot %s", path);
    if (!st && !S_ISREG(info.st_mode))
        st = error_set(err, BRU_EFORMAT, "%s is not a file, so not a snapshot", path);
    uint8_t *bytes = NULL;
    if (!st) {
        *len = (size_t)info.st_size;
        bytes = mem_grow(NULL, *len + 1);
        if (!bytes) st = error_set(err, BRU_ENOMEM, "no memory for the snapshot %s", path);
    }
    if (!st) st = read_all(fd, path, bytes, *len, err);
    close(fd);
    if (st)
        mem_free(bytes);
    else
        *out = bytes;
    return st;
}
