/* Brumate: untrusted Python in a sandbox that starts in microseconds.
 *
 * From an image to a result:
 *
 *     bru_image *image;      bru_image_open(NULL, NULL, &image, &err);
 *     bru_session *session;  bru_session_new(image, NULL, &session, &err);
 *     bru_result *result;    bru_session_run(session, src, len, NULL, &result, &err);
 *     puts(bru_result_text(result, BRU_TEXT_STDOUT, NULL));
 *     bru_result_free(result); bru_session_free(session); bru_image_unref(image);
 *
 * Conventions. Inputs come first, then `**out`, then `bru_error *` (NULL allowed). What is handed
 * out through `**out` is the caller's, to be given back by the function named there; on failure
 * `*out` is NULL. A returned pointer is borrowed; it says from whom and until when. Options are
 * structs: BRU_x_INIT sets `size` and leaves all else zero, and zero means the default; NULL
 * options mean all defaults. Times are nanoseconds, sizes bytes. Texts are UTF-8.
 * Threads: one call at a time on a handle, on any thread, unless a function says otherwise. */
#ifndef BRUMATE_H
#define BRUMATE_H

#include "brumate/status.h"
#include "brumate/image.h"
#include "brumate/result.h"
#include "brumate/storage.h"
#include "brumate/session.h"
#include "brumate/snapshot.h"
#include "brumate/sandbox.h"

#endif
