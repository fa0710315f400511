/* A guest that is no wasm: some memory, and calls of the doors by name. */
#ifndef BRU_TESTS_WASI_GUEST_H
#define BRU_TESTS_WASI_GUEST_H

#include "test.h"
#include "wasi/wasi.h"

#define MEMORY 262144u

/* Where things lie in the guest's memory. */
enum {
    PATH = 0x1000,
    PATH2 = 0x3000,
    IOVS = 0x5000,
    DATA = 0x6000,
    RESULT = 0x8000,
    BIG = 0x10000
};

enum {
    OK = 0,
    EACCES_ = 2,
    EAGAIN_ = 6,
    EBADF_ = 8,
    EEXIST_ = 20,
    EFAULT_ = 21,
    EINTR_ = 27,
    EINVAL_ = 28,
    EISDIR_ = 31,
    ELOOP_ = 32,
    EMFILE_ = 33,
    ENAMETOOLONG_ = 37,
    ENOENT_ = 44,
    ENOSPC_ = 51,
    ENOTDIR_ = 54,
    ENOTEMPTY_ = 55,
    ENOTSOCK_ = 57,
    ENOTSUP_ = 58,
    EROFS_ = 69,
    ESPIPE_ = 70,
    ENOTCAPABLE_ = 76,
    PARKED = 1000,
    STOPPED = 1001
};

typedef struct guest {
    vfs_fs *tree;
    sink *out;
    source *in;
    vfs *files;
    wasi *w;
    uint8_t *memory;
    uint64_t wall, mono; /* its clocks */
} guest;

static inline uint64_t guest_wall(void *ctx) {
    return ((guest *)ctx)->wall;
}
static inline uint64_t guest_mono(void *ctx) {
    return ((guest *)ctx)->mono;
}

static inline bru_status guest_open(guest *g, const sink_options *streams, bool ask) {
    *g = (guest){ .wall = 1000000, .mono = 5000 };
    g->memory = calloc(1, MEMORY);
    clock_source clock = { guest_wall, guest_mono, g };
    memtree_options tree = { .clock = clock };
    bru_status st = memtree_new(&tree, &g->tree, NULL);
    if (!st) st = sink_new(streams, &g->out, NULL);
    if (!st) st = source_new(ask, &g->in, NULL);
    if (!st) st = vfs_new(g->tree, g->out, g->in, NULL, &g->files, NULL);
    wasi_options opt = { .files = g->files, .clock = clock, .max_fds = 32 };
    if (!st) st = wasi_new(&opt, &g->w, NULL);
    return st;
}

static inline void guest_close(guest *g) {
    wasi_free(g->w);
    vfs_free(g->files);
    sink_free(g->out);
    source_free(g->in);
    fs_unref(g->tree);
    free(g->memory);
}

static inline const door *door_named(const char *name) {
    for (size_t i = 0; i < wasi_door_count; i++)
        if (strcmp(wasi_doors[i].name, name) == 0) return &wasi_doors[i];
    fprintf(stderr, "no door %s\n", name);
    abort();
}

/* The errno that a call answers, or PARKED, or STOPPED. */
static inline int call_with(guest *g, const char *name, const uint64_t *args) {
    uint64_t result = 0;
    gmem m = { g->memory, MEMORY };
    door_next next = door_named(name)->fn(g->w, m, args, &result);
    return next == DOOR_PARK ? PARKED : next == DOOR_STOP ? STOPPED : (int)result;
}
#define call(g, name, ...) call_with(g, name, (const uint64_t[]){ __VA_ARGS__ })

static inline uint64_t put_str(guest *g, uint32_t at, const char *text) {
    memcpy(g->memory + at, text, strlen(text));
    return strlen(text);
}
static inline uint32_t get32(guest *g, uint32_t at) {
    uint32_t v;
    memcpy(&v, g->memory + at, 4);
    return v;
}
static inline uint64_t get64(guest *g, uint32_t at) {
    uint64_t v;
    memcpy(&v, g->memory + at, 8);
    return v;
}
static inline void set32(guest *g, uint32_t at, uint32_t v) {
    memcpy(g->memory + at, &v, 4);
}
static inline void set64(guest *g, uint32_t at, uint64_t v) {
    memcpy(g->memory + at, &v, 8);
}
static inline void set_iov(guest *g, unsigned i, uint32_t base, uint32_t len) {
    set32(g, IOVS + i * 8, base);
    set32(g, IOVS + i * 8 + 4, len);
}

#define ALL_RIGHTS  ((1ull << 30) - 1)
#define READ_RIGHTS (ALL_RIGHTS & ~(1ull << 0 | 1ull << 6 | 1ull << 8 | 1ull << 22))
enum { CREAT = 1, DIRECTORY = 2, EXCL = 4, TRUNC = 8 };

/* path_open from fd 3; answers the errno, the descriptor in `*fd`. */
static inline int open_path(guest *g, const char *path, unsigned oflags, uint64_t rights,
                            uint32_t *fd) {
    uint64_t len = put_str(g, PATH, path);
    int e = call(g, "path_open", 3, 1, PATH, len, oflags, rights, ALL_RIGHTS, 0, RESULT);
    if (e == OK) *fd = get32(g, RESULT);
    return e;
}
static inline int write_text(guest *g, uint32_t fd, const char *text) {
    set_iov(g, 0, DATA, (uint32_t)put_str(g, DATA, text));
    return call(g, "fd_write", fd, IOVS, 1, RESULT);
}
/* What a read of up to `len` bytes gives; NULL if it fails. */
static inline const char *read_text(guest *g, uint32_t fd, uint32_t len) {
    set_iov(g, 0, BIG, len);
    if (call(g, "fd_read", fd, IOVS, 1, RESULT)) return NULL;
    g->memory[BIG + get32(g, RESULT)] = 0;
    return (const char *)g->memory + BIG;
}
static inline const char *output_of(guest *g, unsigned stream) {
    static char text[4096];
    buf b;
    buf_init(&b, sizeof text - 1);
    sink_copy(g->out, stream, &b);
    if (b.len) memcpy(text, b.data, b.len);
    text[b.len] = '\0';
    buf_free(&b);
    return text;
}

#endif
