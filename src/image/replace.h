/* A file in the making that takes the place of another when it is whole, or of none. */
#ifndef BRU_IMAGE_REPLACE_H
#define BRU_IMAGE_REPLACE_H

#include "base/base.h"

typedef struct replacement {
    int fd;          /* to be written */
    char *path;      /* to be */
    char *temporary; /* beside it; "": there is none */
    bool nameless;   /* `temporary` is not there yet */
} replacement;

/* Opens one, without a name where the file system can: then nothing is left of it whatever ends us.
 * On failure it may be closed too. */
BRU_MUST_CHECK bru_status replacement_open(replacement *r, const char *path, bru_error *err);
/* Puts the file on the disk and in its place, readable as `mode` says. The new name outlives a
 * power cut. Once. */
BRU_MUST_CHECK bru_status replacement_finish(replacement *r, unsigned mode, bru_error *err);
/* The same without waiting for the disk. */
BRU_MUST_CHECK bru_status replacement_place(replacement *r, unsigned mode, bru_error *err);
/* Removes what was not finished. A zeroed one but for `fd` -1 is allowed. */
void replacement_close(replacement *r);

#endif
