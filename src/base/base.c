#define _GNU_SOURCE
#include "base.h"
#include "fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static const char *const status_texts[] = {
#define STATUS_TEXT(name, text) [BRU_##name] = text,
    BRU_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

const char *bru_status_text(bru_status status) {
    size_t i = (size_t)status;
    return i < sizeof status_texts / sizeof *status_texts ? status_texts[i] : "unknown status";
}

/* A message is one line of UTF-8, whatever names and texts went into it. */
static void message_tidy(char *text, size_t cap) {
    size_t len = strlen(text);
    if (len + 1 >= cap) {
        while (len > 0 && ((unsigned char)text[len - 1] & 0xC0) == 0x80) len--;
        if (len > 0 && ((unsigned char)text[len - 1] & 0x80)) len--;
        text[len] = '\0';
    }
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
}

static void message_set(bru_error *err, bru_status status, const char *format, va_list args) {
    err->status = status;
    vsnprintf(err->message, sizeof err->message, format, args);
    message_tidy(err->message, sizeof err->message);
}

bru_status error_set(bru_error *err, bru_status status, const char *format, ...) {
    if (!err) return status;
    va_list args;
    va_start(args, format);
    message_set(err, status, format, args);
    va_end(args);
    return status;
}

static bru_status status_of_errno(int errnum) {
    switch (errnum) {
    case ENOMEM: return BRU_ENOMEM;
    case ENOENT:
    case ENOTDIR: return BRU_ENOENT;
    case EACCES:
    case EPERM:
    case EROFS: return BRU_EPERM;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR: return BRU_EINVAL;
    case EMFILE:
    case ENFILE:
    case EAGAIN: return BRU_ELIMIT;
    case ENOSYS:
    case EOPNOTSUPP: return BRU_ENOTSUP;
    default: return BRU_EIO;
    }
}

bru_status error_errno(bru_error *err, int errnum, const char *format, ...) {
    bru_status status = status_of_errno(errnum);
    if (!err) return status;
    va_list args;
    va_start(args, format);
    message_set(err, status, format, args);
    va_end(args);
    size_t len = strlen(err->message);
    char text[80];
    snprintf(err->message + len, sizeof err->message - len, ": %s",
             strerror_r(errnum, text, sizeof text));
    message_tidy(err->message, sizeof err->message);
    return status;
}

void *mem_zero(size_t count, size_t size) {
    return fault_hit() ? NULL : calloc(count, size);
}

void *mem_grow(void *block, size_t size) {
    return fault_hit() ? NULL : realloc(block, size);
}

void *mem_copy(const void *bytes, size_t len) {
    if (len == SIZE_MAX) return NULL;
    char *copy = mem_zero(len + 1, 1);
    if (copy && len > 0) memcpy(copy, bytes, len);
    return copy;
}

char *mem_string(const char *text) {
    return mem_copy(text, strlen(text));
}

void mem_free(void *block) {
    free(block);
}

void buf_init(buf *b, size_t ceiling) {
    *b = (buf){ .ceiling = ceiling };
}

bru_status buf_append(buf *b, const void *bytes, size_t len) {
    if (len > b->ceiling - b->len) return BRU_ELIMIT;
    if (len == 0) return BRU_OK;
    size_t need = b->len + len;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap < need) cap = cap > b->ceiling / 2 ? b->ceiling : cap * 2;
        uint8_t *data = mem_grow(b->data, cap);
        if (!data) return BRU_ENOMEM;
        b->data = data;
        b->cap = cap;
    }
    memcpy(b->data + b->len, bytes, len);
    b->len = need;
    return BRU_OK;
}

void buf_clear(buf *b) {
    b->len = 0;
}

void buf_free(buf *b) {
    mem_free(b->data);
    *b = (buf){ .ceiling = b->ceiling };
}

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t system_wall(void *ctx) {
    (void)ctx;
    return clock_ns(CLOCK_REALTIME);
}

static uint64_t system_monotonic(void *ctx) {
    (void)ctx;
    return clock_ns(CLOCK_MONOTONIC);
}

const clock_source clock_system = { system_wall, system_monotonic, NULL };

uint64_t clock_monotonic(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_thread_cpu(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static bool system_random(void *ctx, void *out, size_t len) {
    (void)ctx;
    uint8_t *p = out;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

const random_source random_system = { system_random, NULL };
