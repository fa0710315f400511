/* Finding written pages: by PAGEMAP_SCAN, or by reading /proc/self/pagemap. Which of them works is
 * not concluded from a version number but tried on pages whose state is known. */
#define _GNU_SOURCE
#include "written.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
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
#define SCAN_FILE    (1u << 2)
#define SCAN_PRESENT (1u << 3)
#define SCAN_SWAPPED (1u << 4)

/* An entry of /proc/self/pagemap. */
#define ENTRY_FILE    ((uint64_t)1 << 61)
#define ENTRY_SWAPPED ((uint64_t)1 << 62)
#define ENTRY_PRESENT ((uint64_t)1 << 63)

/* ---- The descriptor ------------------------------------------------------------------------ */

/* /proc/self/pagemap, opened once; it belongs to the memory of the process that opened it, so a
 * child of fork() must open its own. Process state, like what it describes. */
static atomic_int pagemap_fd = -1;

static void forked(void) {
    int fd = atomic_exchange(&pagemap_fd, -1);
    if (fd >= 0) close(fd);
}

static void watch_forks(void) {
    pthread_atfork(NULL, NULL, forked);
}

static int pagemap(void) {
    int fd = atomic_load_explicit(&pagemap_fd, memory_order_acquire);
    if (fd >= 0) return fd;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    int none = -1;
    if (fd >= 0 && !atomic_compare_exchange_strong(&pagemap_fd, &none, fd)) {
        close(fd);
        fd = none;
    }
    return fd;
}

/* Somebody closed the descriptor, and its number may be another file's now: forget it. */
static void pagemap_lost(int fd) {
    atomic_compare_exchange_strong(&pagemap_fd, &fd, -1);
}

/* ---- Walks --------------------------------------------------------------------------------- */

static int scan_once(struct scan_request *request) {
    for (int tries = 0; tries < 2; tries++) {
        int fd = pagemap();
        if (fd < 0) return -1;
        int n = ioctl(fd, SCAN_REQUEST, request);
        if (n >= 0) return n;
        pagemap_lost(fd);
    }
    return -1;
}

static bru_status walk_scan(uint8_t *start, uint8_t *end, written_visit visit, void *ctx) {
    struct scan_region regions[128];
    while (start < end) {
        struct scan_request request = {
            .size = sizeof request,
            .start = (uintptr_t)start,
            .end = (uintptr_t)end,
            .vec = (uintptr_t)regions,
            .vec_len = sizeof regions / sizeof *regions,
            .category_inverted = SCAN_FILE,
            .category_mask = SCAN_FILE,
            .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
            .return_mask = SCAN_FILE,
        };
        int n = scan_once(&request);
        if (n < 0) return BRU_ENOTSUP;
        for (int i = 0; i < n; i++) {
            uint8_t *from = start + (regions[i].start - (uintptr_t)start);
            uint8_t *to = start + (regions[i].end - (uintptr_t)start);
            if (!visit(ctx, from, to)) return BRU_OK;
        }
        if (request.walk_end <= (uintptr_t)start) return BRU_ENOTSUP;
        start += request.walk_end - (uintptr_t)start;
    }
    return BRU_OK;
}

static bool read_entries(uint8_t *at, uint64_t *entries, size_t count) {
    size_t len = count * sizeof *entries;
    off_t offset = (off_t)((uintptr_t)at / os_page() * sizeof *entries);
    for (int tries = 0; tries < 2; tries++) {
        int fd = pagemap();
        if (fd < 0) return false;
        if (pread(fd, entries, len, offset) == (ssize_t)len) return true;
        pagemap_lost(fd);
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
    case SLOT_SCAN: return walk_scan(start, end, visit, ctx);
    case SLOT_PAGEMAP: return walk_entries(start, end, visit, ctx);
    default: return BRU_ENOTSUP;
    }
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
 * the three. False: there was nothing to try it on. */
static bool mode_probe(slot_mode *out) {
    size_t len = PROBE_PAGES * os_page();
    probe p = { NULL, 0 };
    int fd = -1;
    slot_mode found = SLOT_DISCARD;
    *out = SLOT_DISCARD;
    bru_status st = os_memory_file(len, &fd, NULL);
    if (!st) st = os_reserve(len, &p.base, NULL);
    if (!st) st = os_map_file(p.base, len, fd, 0, NULL);
    if (!st) {
        volatile uint8_t *pages = p.base;
        (void)pages[0];
        (void)pages[3 * os_page()];
        unsigned want = 1u << 2 | 1u << 4 | 1u << 6;
        for (unsigned i = 2; i < PROBE_PAGES; i += 2) pages[i * os_page()] = 1;
        for (slot_mode m = SLOT_SCAN; m < SLOT_DISCARD && found == SLOT_DISCARD; m++) {
            p.seen = 0;
            if (!written_walk(m, p.base, p.base + len, probe_visit, &p) && p.seen == want)
                found = m;
        }
    }
    os_release(p.base, len);
    os_close(fd);
    *out = found;
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
