/* What the functions of brumate/sandbox.h are once their arguments were checked. */
#ifndef BRU_SESSION_SANDBOX_H
#define BRU_SESSION_SANDBOX_H

#include "brumate/sandbox.h"

BRU_MUST_CHECK bru_status sandbox_new(bru_image *image, const bru_session_options *options,
                                      bru_sandbox **out, bru_error *err);
BRU_MUST_CHECK bru_status sandbox_run(bru_sandbox *sandbox, const char *src, size_t len,
                                      const bru_exec_options *options, bru_result **out,
                                      bru_error *err);

#endif
