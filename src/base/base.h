/* What every room stands on: errors, allocation that can be made to fail, bounded buffers, time.
 * No mutable state but the fault injector, which exists for tests. */
#ifndef BRU_BASE_BASE_H
#define BRU_BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brumate/status.h"

/* Fills `err` (NULL allowed) and answers `status`, so that a failure is one line. The message says
 * what happened and what to do. */
bru_status error_set(bru_error *err, bru_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed system call: maps `errnum` to a status and appends its text. */
bru_status error_errno(bru_error *err, int errnum, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Allocation. Each call is a fault point: see fault.h. mem_zero answers zeroed memory for `count`
 * things of `size` bytes, NULL on overflow. mem_grow is realloc; the old block stays on failure. */
void *mem_zero(size_t count, size_t size);
void *mem_grow(void *block, size_t size);
void *mem_copy(const void *bytes, size_t len); /* also NUL-terminated, one byte past len */
char *mem_string(const char *text);
void mem_free(void *block);

/* A growing array of bytes with a ceiling from birth. Zeroed by buf_init; buf_free may be called
 * on an initialised one at any time. Appending beyond the ceiling answers BRU_ELIMIT, without
 * memory BRU_ENOMEM; both leave it as it was. */
typedef struct buf {
    uint8_t *data;
    size_t len, cap, ceiling;
} buf;

void buf_init(buf *b, size_t ceiling);
bru_status buf_append(buf *b, const void *bytes, size_t len);
void buf_clear(buf *b); /* forgets the bytes, keeps the memory */
void buf_free(buf *b);

/* Where time comes from, so that tests and deterministic sessions can replace it. Nanoseconds. */
typedef struct clock_source {
    uint64_t (*wall)(void *ctx);      /* since 1970 */
    uint64_t (*monotonic)(void *ctx); /* CLOCK_MONOTONIC */
    void *ctx;
} clock_source;

extern const clock_source clock_system;
uint64_t clock_monotonic(void);  /* ns */
uint64_t clock_thread_cpu(void); /* ns of CPU time of the calling thread */

/* Where randomness comes from. */
typedef struct random_source {
    bool (*fill)(void *ctx, void *out, size_t len);
    void *ctx;
} random_source;

extern const random_source random_system;

#endif
