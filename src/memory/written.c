/* Finding written pages: by PAGEMAP_SCAN, or by reading /proc/self/pagemap; faster, in mappings
 * that are worth it, by a mark that the kernel sets when a page is written (userfaultfd). Which of
 * them works is not concluded from a version number but tried on pages whose state is known. */
#define _GNU_SOURCE
#include "written.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os_memory.h"

/* ---- The kernel's interface; younger than the headers of many machines ---------------------- */

struct scan_region {
    uint64_t start, end, categories;
};

struct scan_request {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN_REQUEST _IOWR('f', 16, struct scan_request)
#define SCAN_TRACKED (1u << 1) /* a flag: refuse mappings that are not tracked */
#define SCAN_WRITTEN (1u << 1)
#define SCAN_FILE    (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

/* An entry of /proc/self/pagemap. */
#define ENTRY_FILE    ((uint64_t)1 << 61)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_PRESENT ((uint64_t)1 << 63)

/* Of userfaultfd: memory that is protected from writing, and opened again by the kernel itself. */
struct fault_api {
    uint64_t api, features, ioctls;
};

struct fault_range {
    uint64_t start, len;
};

struct fault_register {
    struct fault_range range;
    uint64_t mode, ioctls;
};

struct fault_protect {
    struct fault_range range;
    uint64_t mode;
};

#define FAULT_API         _IOWR(0xAA, 0x3F, struct fault_api)
#define FAULT_REGISTER    _IOWR(0xAA, 0x00, struct fault_register)
#define FAULT_UNREGISTER  _IOR(0xAA, 0x01, struct fault_range)
#define FAULT_PROTECT     _IOWR(0xAA, 0x06, struct fault_protect)
#define FAULT_API_VERSION 0xAAu
#define FAULT_WP_ASYNC    (1u << 15)
#define FAULT_USER_ONLY   1u /* what needs no privilege; of no matter, since nobody reads faults */
#define FAULT_REGISTER_WP (1u << 1)
#define FAULT_PROTECT_WRITE (1u << 0)

/* ---- The descriptors ----------------------------------------------------------------------- */

/* /proc/self/pagemap, opened once; it belongs to the memory of the process that opened it, so a
 * child of fork() must open its own. Process state, like what it describes. */
static atomic_int pagemap_fd = -1;

/* A userfaultfd, likewise. */
static atomic_int fault_fd = -1;

static void forked(void) {
    int fd = atomic_exchange(&pagemap_fd, -1);
    if (fd >= 0) close(fd);
    fd = atomic_exchange(&fault_fd, -1);
    if (fd >= 0) close(fd);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

/* The descriptor in `*kept`, opened by `make` when there is none. */
static int opened(atomic_int *kept, int (*make)(void)) {
    int fd = atomic_load_explicit(kept, memory_order_acquire);
    if (fd >= 0) return fd;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    fd = make();
    int none = -1;
    if (fd >= 0 && !atomic_compare_exchange_strong(kept, &none, fd)) {
        close(fd);
        fd = none;
    }
    return fd;
}

static int pagemap_open(void) {
    return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
}

static int pagemap(void) {
    return opened(&pagemap_fd, pagemap_open);
}

static int fault_open(void) {
#ifdef SYS_userfaultfd
    struct fault_api api = { FAULT_API_VERSION, FAULT_WP_ASYNC, 0 };
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | FAULT_USER_ONLY);
    if (fd >= 0 && ioctl(fd, FAULT_API, &api) == 0) return fd;
    os_close(fd);
#endif
    return -1;
}

/* Somebody closed the descriptor, and its number may be another file's now: forget it. */
static void lost(atomic_int *kept, int fd) {
    atomic_compare_exchange_strong(kept, &fd, -1);
}

/* ---- Walks --------------------------------------------------------------------------------- */

static int scan_once(struct scan_request *request) {
    for (int tries = 0; tries < 2; tries++) {
        int fd = pagemap();
        if (fd < 0) return -1;
        int n = ioctl(fd, SCAN_REQUEST, request);
        if (n >= 0 || errno == EPERM) return n; /* EPERM: the mapping is not tracked */
        lost(&pagemap_fd, fd);
    }
    return -1;
}

/* All regions between `request`'s start and end. */
static bru_status scan_all(struct scan_request *request, written_visit visit, void *ctx) {
    struct scan_region regions[128];
    uint8_t *start = (uint8_t *)(uintptr_t)request->start;
    request->size = sizeof *request;
    request->vec = (uintptr_t)regions;
    request->vec_len = sizeof regions / sizeof *regions;
    while (request->start < request->end) {
        int n = scan_once(request);
        if (n < 0) return BRU_ENOTSUP;
        for (int i = 0; i < n; i++) {
            uint8_t *from = start + (regions[i].start - (uintptr_t)start);
            uint8_t *to = start + (regions[i].end - (uintptr_t)start);
            if (!visit(ctx, from, to)) return BRU_OK;
        }
        if (request->walk_end <= request->start) return BRU_ENOTSUP;
        request->start = request->walk_end;
    }
    return BRU_OK;
}

static bru_status walk_scan(uint8_t *start, uint8_t *end, written_visit visit, void *ctx) {
    struct scan_request request = {
        .start = (uintptr_t)start,
        .end = (uintptr_t)end,
        .category_inverted = SCAN_FILE,
        .category_mask = SCAN_FILE,
        .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
        .return_mask = SCAN_FILE,
    };
    return scan_all(&request, visit, ctx);
}

/* The kernel has a fast way for exactly these masks. */
bru_status written_since(uint8_t *start, uint8_t *end, written_visit visit, void *ctx) {
    struct scan_request request = {
        .flags = SCAN_TRACKED,
        .start = (uintptr_t)start,
        .end = (uintptr_t)end,
        .category_mask = SCAN_WRITTEN,
        .return_mask = SCAN_WRITTEN,
    };
    return scan_all(&request, visit, ctx);
}

static bool read_entries(uint8_t *at, uint64_t *entries, size_t count) {
    size_t len = count * sizeof *entries;
    off_t offset = (off_t)((uintptr_t)at / os_page() * sizeof *entries);
    for (int tries = 0; tries < 2; tries++) {
        int fd = pagemap();
        if (fd < 0) return false;
        if (pread(fd, entries, len, offset) == (ssize_t)len) return true;
        lost(&pagemap_fd, fd);
    }
    return false;
}

static bru_status walk_entries(uint8_t *start, uint8_t *end, written_visit visit, void *ctx) {
    uint64_t entries[512];
    size_t page = os_page(), most = sizeof entries / sizeof *entries;
    while (start < end) {
        size_t left = (size_t)(end - start) / page, count = left < most ? left : most;
        if (!read_entries(start, entries, count)) return BRU_ENOTSUP;
        for (size_t i = 0, first = 0; i <= count; i++) {
            bool ours = i < count && (entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED)) &&
                        !(entries[i] & ENTRY_FILE);
            if (ours) continue;
            if (first < i && !visit(ctx, start + first * page, start + i * page)) return BRU_OK;
            first = i + 1;
        }
        start += count * page;
    }
    return BRU_OK;
}

bru_status written_walk(slot_mode mode, uint8_t *start, uint8_t *end, written_visit visit,
                        void *ctx) {
    switch (mode) {
    case SLOT_TRACK:
    case SLOT_SCAN: return walk_scan(start, end, visit, ctx);
    case SLOT_PAGEMAP: return walk_entries(start, end, visit, ctx);
    default: return BRU_ENOTSUP;
    }
}

/* ---- Tracking ------------------------------------------------------------------------------ */

/* A mapping that the kernel cannot track is left as it was: with a descriptor that is not ours any
 * more, writes would wait for somebody to allow them. */
bool written_track(uint8_t *start, uint8_t *end) {
    int fd = opened(&fault_fd, fault_open);
    struct fault_range range = { (uintptr_t)start, (uintptr_t)end - (uintptr_t)start };
    struct fault_register on = { range, FAULT_REGISTER_WP, 0 };
    struct fault_protect protect = { range, FAULT_PROTECT_WRITE };
    struct scan_request none = { .size = sizeof none,
                                 .flags = SCAN_TRACKED,
                                 .start = range.start,
                                 .end = range.start + os_page(),
                                 .category_mask = SCAN_WRITTEN,
                                 .return_mask = SCAN_WRITTEN };
    if (fd < 0) return false;
    if (ioctl(fd, FAULT_REGISTER, &on) != 0) {
        if (errno == EBADF || errno == ENOTTY) lost(&fault_fd, fd);
        return false;
    }
    if (scan_once(&none) >= 0 && ioctl(fd, FAULT_PROTECT, &protect) == 0) return true;
    ioctl(fd, FAULT_UNREGISTER, &range);
    return false;
}

void written_untrack(uint8_t *start, uint8_t *end) {
    int fd = opened(&fault_fd, fault_open);
    struct fault_range range = { (uintptr_t)start, (uintptr_t)end - (uintptr_t)start };
    if (fd >= 0) ioctl(fd, FAULT_UNREGISTER, &range);
}

/* ---- Trying -------------------------------------------------------------------------------- */

#define PROBE_PAGES 8u

typedef struct probe {
    uint8_t *base;
    unsigned seen; /* a bit per page that was visited */
} probe;

static bool probe_visit(void *ctx, uint8_t *start, uint8_t *end) {
    probe *p = ctx;
    for (; start < end; start += os_page()) p->seen |= 1u << (size_t)(start - p->base) / os_page();
    return true;
}

/* Of eight pages of a file, mapped privately, two are read and three written; a walk must find
 * the three. Tracking begins before, so that kernels are found out that mark only what is there. */
static bool mode_works(slot_mode m, int fd, uint8_t *base, size_t len, bru_status *st) {
    probe p = { base, 0 };
    *st = os_map_file(base, len, fd, 0, NULL);
    if (*st || (m == SLOT_TRACK && !written_track(base, base + len))) return false;
    volatile uint8_t *pages = base;
    (void)pages[0];
    (void)pages[3 * os_page()];
    unsigned want = 1u << 2 | 1u << 4 | 1u << 6;
    for (unsigned i = 2; i < PROBE_PAGES; i += 2) pages[i * os_page()] = 1;
    bru_status walked = m == SLOT_TRACK ? written_since(base, base + len, probe_visit, &p)
                                        : written_walk(m, base, base + len, probe_visit, &p);
    return walked == BRU_OK && p.seen == want;
}

/* False: there was nothing to try it on. */
static bool mode_probe(slot_mode *out) {
    size_t len = PROBE_PAGES * os_page();
    uint8_t *base = NULL;
    int fd = -1;
    slot_mode m = SLOT_TRACK;
    *out = SLOT_DISCARD;
    bru_status st = os_memory_file(len, &fd, NULL);
    if (!st) st = os_reserve(len, &base, NULL);
    while (!st && m < SLOT_DISCARD && !mode_works(m, fd, base, len, &st)) m++;
    /* Beyond what is tracked, pages are found by a scan. */
    if (!st && m == SLOT_TRACK && !mode_works(SLOT_SCAN, fd, base, len, &st)) m = SLOT_PAGEMAP;
    os_release(base, len);
    os_close(fd);
    if (!st) *out = m;
    return !st;
}

slot_mode slot_mode_found(void) {
    static atomic_int known = -1; /* what this kernel can do does not change */
    int mode = atomic_load_explicit(&known, memory_order_relaxed);
    if (mode >= 0) return (slot_mode)mode;
    slot_mode found;
    if (mode_probe(&found)) atomic_store_explicit(&known, (int)found, memory_order_relaxed);
    return found;
}
