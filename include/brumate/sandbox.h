/* Sandboxes: a recipe (image, limits, mounts) that runs each piece of code in a fresh Python. */
#ifndef BRUMATE_SANDBOX_H
#define BRUMATE_SANDBOX_H

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_sandbox bru_sandbox;

/* Makes a sandbox; no session is made before the first run. Options as for a session, without
 * BRU_STREAM_OUTPUT and BRU_PULL_INPUT (BRU_EINVAL). `*out` goes back by bru_sandbox_free(). */
BRU_API BRU_MUST_CHECK bru_status bru_sandbox_new(bru_image *image,
                                                  const bru_session_options *options,
                                                  bru_sandbox **out, bru_error *err);

/* Runs `src` as bru_session_run() does, in a Python and with files that nothing ran in before.
 * Threads  any number at a time; each has a session of its own. */
BRU_API BRU_MUST_CHECK bru_status bru_sandbox_run(bru_sandbox *sandbox, const char *src, size_t len,
                                                  const bru_exec_options *options, bru_result **out,
                                                  bru_error *err);

/* Stops every run of it, hard. Any thread. */
BRU_API void bru_sandbox_interrupt(bru_sandbox *sandbox);

/* No run may be under way. NULL is allowed. */
BRU_API void bru_sandbox_free(bru_sandbox *sandbox);

#ifdef __cplusplus
}
#endif
#endif
