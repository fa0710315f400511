#define _GNU_SOURCE
#include "image/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Opens the folder that `path`, writable for a moment, lies in. */
static int open_folder(char *path, int flags) {
    char *slash = strrchr(path, '/');
    if (slash) *slash = '\0';
    int fd = open(!slash ? "." : slash == path ? "/" : path, flags | O_CLOEXEC, 0600);
    if (slash) *slash = '/';
    return fd;
}

bru_status replacement_open(replacement *r, const char *path, bru_error *err) {
    size_t len = strlen(path) + sizeof ".XXXXXX";
    *r = (replacement){ .fd = -1, .path = mem_string(path), .temporary = mem_zero(len, 1) };
    if (!r->path || !r->temporary) return error_set(err, BRU_ENOMEM, "no memory to write %s", path);
    snprintf(r->temporary, len, "%s.XXXXXX", path);
    r->fd = open_folder(r->temporary, O_TMPFILE | O_RDWR);
    r->nameless = r->fd >= 0;
    if (r->nameless) return BRU_OK;
    r->fd = mkostemp(r->temporary, O_CLOEXEC);
    if (r->fd >= 0) return BRU_OK;
    r->temporary[0] = '\0';
    return error_errno(err, errno, "cannot write beside %s", path);
}

/* Gives a nameless file a name of its own beside the other, for rename() to replace that by. */
static bru_status give_name(replacement *r, bru_error *err) {
    char from[40];
    uint8_t random[3];
    if (!r->nameless) return BRU_OK;
    snprintf(from, sizeof from, "/proc/self/fd/%d", r->fd);
    for (int tries = 0; tries < 100; tries++) {
        if (!random_system.fill(NULL, random, sizeof random)) break;
        snprintf(r->temporary + strlen(r->path), 8, ".%02x%02x%02x", random[0], random[1],
                 random[2]);
        if (linkat(AT_FDCWD, from, AT_FDCWD, r->temporary, AT_SYMLINK_FOLLOW) == 0) {
            r->nameless = false;
            return BRU_OK;
        }
        if (errno != EEXIST) break;
    }
    return error_errno(err, errno, "cannot put the file at %s", r->path);
}

/* Not every file system can; then there is no more to be done. */
static bru_status sync_folder(replacement *r, bru_error *err) {
    int fd = open_folder(r->path, O_RDONLY | O_DIRECTORY);
    bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    bru_status st =
        synced ? BRU_OK
               : error_errno(err, errno, "%s is in place, but its name may not last", r->path);
    if (fd >= 0) close(fd);
    return st;
}

static bru_status cannot_write(replacement *r, bru_error *err) {
    return error_errno(err, errno, "cannot write %s", r->path);
}

static bru_status put_in_place(replacement *r, bru_error *err) {
    bru_status st = give_name(r, err);
    if (st) return st;
    if (rename(r->temporary, r->path) != 0)
        return error_errno(err, errno, "cannot put the file at %s", r->path);
    r->temporary[0] = '\0';
    return BRU_OK;
}

bru_status replacement_place(replacement *r, unsigned mode, bru_error *err) {
    return fchmod(r->fd, (mode_t)mode) ? cannot_write(r, err) : put_in_place(r, err);
}

bru_status replacement_finish(replacement *r, unsigned mode, bru_error *err) {
    if (fchmod(r->fd, (mode_t)mode) != 0 || fsync(r->fd) != 0) return cannot_write(r, err);
    bru_status st = put_in_place(r, err);
    return st ? st : sync_folder(r, err);
}

void replacement_close(replacement *r) {
    if (r->fd >= 0) close(r->fd);
    if (!r->nameless && r->temporary && r->temporary[0]) unlink(r->temporary);
    mem_free(r->temporary);
    mem_free(r->path);
}
