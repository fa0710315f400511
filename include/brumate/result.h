/* Results: how an execution ended, and what it left. */
#ifndef BRUMATE_RESULT_H
#define BRUMATE_RESULT_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_result bru_result;

/* Why it ended: name, text, and the exit code the command answers with (-1: the guest's own). */
#define BRU_REASON_MAP(X)                                                                          \
    X(COMPLETED, "completed", -1)                                                                  \
    X(EXCEPTION, "uncaught exception", -1)                                                         \
    X(EXITED, "exited", -1)                                                                        \
    X(TIMEOUT, "time limit reached", 124)                                                          \
    X(CPU_LIMIT, "CPU time limit reached", 124)                                                    \
    X(MEMORY_LIMIT, "memory limit reached", 125)                                                   \
    X(OUTPUT_LIMIT, "output limit reached", 126)                                                   \
    X(STACK_LIMIT, "stack limit reached", 123)                                                     \
    X(INTERRUPTED, "interrupted", 130)                                                             \
    X(CRASHED, "the interpreter crashed", 122)

typedef enum bru_reason {
#define BRU_REASON_ENUM(name, text, code) BRU_REASON_##name,
    BRU_REASON_MAP(BRU_REASON_ENUM)
#undef BRU_REASON_ENUM
} bru_reason;

/* The text of a reason. Static. Any thread. */
BRU_API const char *bru_reason_text(bru_reason reason);

typedef struct bru_usage {
    uint64_t duration_ns; /* wall time, the embedder's own pauses between events included */
    uint64_t cpu_ns;      /* of the threads that ran the guest */
    uint64_t peak_memory; /* bytes: the largest linear memory */
    uint64_t stdout_bytes, stderr_bytes; /* written by the guest, cut or not */
    uint64_t cut_bytes;                  /* of both, thrown away at the output limit */
    uint64_t file_bytes;                 /* in the session's in-memory files, at the end */
} bru_usage;

typedef enum bru_text {
    BRU_TEXT_STDOUT, /* bytes as written, not checked for UTF-8 */
    BRU_TEXT_STDERR,
    BRU_TEXT_OUTPUT,    /* both, in the order written */
    BRU_TEXT_TYPE,      /* the exception's type: "ValueError", "mod.Error"; "" if none */
    BRU_TEXT_MESSAGE,   /* str() of it */
    BRU_TEXT_TRACEBACK, /* as Python prints it */
    BRU_TEXT_DETAIL,    /* for a limit or a crash: one line of what happened */
    BRU_TEXT_VALUE,     /* JSON of the captured variable; "" if it was not set, or is no JSON */
    BRU_TEXT_VALUE_ERROR /* why the captured variable could not be told as JSON; "" if it was */
} bru_text;

BRU_API bru_reason bru_result_reason(const bru_result *result);
/* 0 completed, 1 an exception, the guest's own for EXITED, else that of BRU_REASON_MAP. */
BRU_API int bru_result_exit_code(const bru_result *result);
/* Borrowed until bru_result_free(); NUL-terminated; `len` may be NULL. Never NULL. With streamed
 * output the first three are empty. */
BRU_API const char *bru_result_text(const bru_result *result, bru_text which, size_t *len);
BRU_API const bru_usage *bru_result_usage(const bru_result *result);
/* What the guest handed out by `brumate.show()`, in that order. */
BRU_API size_t bru_result_artifact_count(const bru_result *result);
/* The bytes of artifact `index` and its type ("image/png"); NULL if there is none. Borrowed until
 * bru_result_free(). */
BRU_API const void *bru_result_artifact(const bru_result *result, size_t index, const char **type,
                                        size_t *len);

/* Whether the session goes on as it was; if not, it only takes bru_session_reset(). */
BRU_API int bru_result_session_alive(const bru_result *result);
BRU_API void bru_result_free(bru_result *result);

#ifdef __cplusplus
}
#endif
#endif
