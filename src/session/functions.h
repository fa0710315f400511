/* The host functions of a session, as the guest is told of them. */
#ifndef BRU_SESSION_FUNCTIONS_H
#define BRU_SESSION_FUNCTIONS_H

#include "base/base.h"
#include "brumate/session.h"

enum {
    FUNCTIONS_MAX = 4096,          /* of a session */
    FUNCTIONS_BYTES_MAX = 8 << 20, /* of names, descriptions and schemas together */
    NAME_BYTES_MAX = 255
};

/* Whether `name` is an identifier that guest code may use: ASCII letters, digits and "_", or any
 * character beyond ASCII, and no name of Python's own ("__name__"). */
bool name_is_identifier(const char *name, size_t len);

/* Checks `count` functions and copies them to `out`, as agent_exec has them.
 * BRU_EINVAL  a name that is none, or twice, or that of another's object; BRU_ELIMIT; BRU_ENOMEM.
 */
BRU_MUST_CHECK bru_status functions_copy(const bru_function *functions, size_t count, buf *out,
                                         bru_error *err);

#endif
