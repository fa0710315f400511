/* Statuses and errors of every brumate call. */
#ifndef BRUMATE_STATUS_H
#define BRUMATE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(BRU_BUILDING)
#define BRU_API __attribute__((visibility("default")))
#else
#define BRU_API
#endif
#if defined(__GNUC__) || defined(__clang__)
#define BRU_MUST_CHECK __attribute__((warn_unused_result))
#else
#define BRU_MUST_CHECK
#endif

#define BRU_VERSION_MAJOR 0
#define BRU_VERSION_MINOR 1
#define BRU_VERSION_PATCH 0

/* Every status: name, text. A Python program that raises is not an error but a result. */
#define BRU_STATUS_MAP(X)                                                                          \
    X(OK, "success")                                                                               \
    X(EINVAL, "invalid argument")                                                                  \
    X(ENOMEM, "out of memory")                                                                     \
    X(EBUSY, "in use by another call")                                                             \
    X(ESTATE, "not possible in this state")                                                        \
    X(ENOENT, "not found")                                                                         \
    X(EPERM, "permission denied")                                                                  \
    X(EIO, "input or output failed")                                                               \
    X(EFORMAT, "not a valid file of this kind")                                                    \
    X(EMISMATCH, "made for another guest build")                                                   \
    X(ELIMIT, "a limit of this machine was reached")                                               \
    X(ENOTSUP, "not supported here")                                                               \
    X(EGUEST, "the guest broke its contract")

typedef enum bru_status {
#define BRU_STATUS_ENUM(name, text) BRU_##name,
    BRU_STATUS_MAP(BRU_STATUS_ENUM)
#undef BRU_STATUS_ENUM
} bru_status;

/* The caller's; where a function takes one, NULL is allowed. `message` is one line of UTF-8 that
 * says what happened and what to do; it is set whenever a status other than BRU_OK is returned. */
typedef struct bru_error {
    bru_status status;
    char message[500];
} bru_error;

/* The text of a status, "unknown status" if there is none. Static. Any thread. */
BRU_API const char *bru_status_text(bru_status status);

/* The library's version, "0.1.0". Static. Any thread. */
BRU_API const char *bru_version(void);

#ifdef __cplusplus
}
#endif
#endif
