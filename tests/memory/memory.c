/* Slots against their naive twin: a plain copy of the image, compared byte by byte. */
#define _GNU_SOURCE
#include "test.h"
#include "base/os_memory.h"
#include "memory/slot.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define IMAGE_LEN (40u * SLOT_PAGE)

static bru_error err;
static uint32_t random_state = 12345;

static uint32_t random_next(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Pages of noise, with some of zeros between them, as in a real memory. */
static uint8_t *noise(void) {
    uint8_t *bytes = calloc(1, IMAGE_LEN);
    for (size_t at = 0; bytes && at < IMAGE_LEN; at++)
        if (at / 4096 % 5 != 3) bytes[at] = (uint8_t)random_next();
    return bytes;
}

static mem_image *noise_image(uint8_t *bytes) {
    mem_image *im = NULL;
    CHECK_EQ(mem_image_copy(bytes, IMAGE_LEN, &im, &err), BRU_OK);
    return im;
}

/* With SLOT_TRACK it has been reset so often that its pages are tracked, where the kernel can. */
static slot *mapped(mem_image *im, slot_mode mode) {
    slot *s = NULL;
    CHECK_EQ(slot_new(NULL, &s, &err), BRU_OK);
    if (!s) return NULL;
    slot_mode_force(s, mode);
    CHECK_EQ(slot_map(s, im, &err), BRU_OK);
    for (int i = 0; mode == SLOT_TRACK && i < 20; i++) {
        slot_where(s).memory[0] ^= 1;
        CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    }
    return s;
}

static unsigned mappings(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned lines = 0;
    for (int c = getc(f); c != EOF; c = getc(f)) lines += c == '\n';
    fclose(f);
    return lines;
}

static unsigned descriptors(void) {
    DIR *d = opendir("/proc/self/fd");
    unsigned n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void scribble(slot *s, unsigned writes) {
    uint8_t *memory = slot_where(s).memory;
    for (unsigned i = 0; i < writes; i++) memory[random_next() % slot_size(s)] ^= 0x5A;
}

TEST(a_slot_shows_its_image_and_keeps_writes_to_itself) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *a = mapped(im, SLOT_SCAN), *b = mapped(im, SLOT_SCAN);
    REQUIRE(a && b);
    CHECK_EQ(slot_size(a), IMAGE_LEN);
    CHECK(memcmp(slot_where(a).memory, bytes, IMAGE_LEN) == 0);
    scribble(a, 1000);
    CHECK(memcmp(slot_where(a).memory, bytes, IMAGE_LEN) != 0);
    CHECK(memcmp(slot_where(b).memory, bytes, IMAGE_LEN) == 0);
    CHECK(memcmp(mem_image_bytes(im), bytes, IMAGE_LEN) == 0);
    slot_free(a);
    slot_free(b);
    mem_image_unref(im);
    free(bytes);
}

static const struct {
    slot_mode mode;
    unsigned writes;
} resets[] = {
    { SLOT_TRACK, 0 },   { SLOT_TRACK, 1 },     { SLOT_TRACK, 300 },    { SLOT_TRACK, 5000 },
    { SLOT_SCAN, 0 },    { SLOT_SCAN, 1 },      { SLOT_SCAN, 300 },     { SLOT_SCAN, 5000 },
    { SLOT_PAGEMAP, 0 }, { SLOT_PAGEMAP, 300 }, { SLOT_PAGEMAP, 5000 }, { SLOT_DISCARD, 300 },
};

TEST(a_reset_restores_every_byte_in_every_mode) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    EACH(r, resets) {
        slot *s = mapped(im, r->mode);
        REQUIRE(s);
        for (int round = 0; round < 5; round++) {
            CHECK_EQ(slot_grow(s, IMAGE_LEN + (1 + random_next() % 9) * SLOT_PAGE, &err), BRU_OK);
            scribble(s, r->writes);
            memset(slot_where(s).stack_top - 300000, 7, 300000);
            CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
            CHECK_EQ(slot_size(s), IMAGE_LEN);
            CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0);
            CHECK_EQ(slot_grow(s, IMAGE_LEN + SLOT_PAGE, &err), BRU_OK);
            CHECK_EQ(slot_where(s).memory[IMAGE_LEN + 77], 0);
        }
        slot_free(s);
    }
    mem_image_unref(im);
    free(bytes);
}

TEST(the_comparison_with_the_twin_can_fail) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_SCAN);
    REQUIRE(s);
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    slot_where(s).memory[IMAGE_LEN - 1] ^= 1;
    CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) != 0);
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

TEST(an_idle_slot_keeps_a_bounded_amount_of_memory) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_SCAN);
    REQUIRE(s);
    CHECK_EQ(slot_grow(s, IMAGE_LEN + 100 * SLOT_PAGE, &err), BRU_OK);
    memset(slot_where(s).memory, 1, slot_size(s));
    memset(slot_where(s).stack_top - (8 << 20), 1, 8 << 20);
    if (slot_mode_found() != SLOT_DISCARD) CHECK_EQ(slot_measure(s).written, slot_size(s));
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    CHECK(slot_measure(s).written <= 2u << 20);
    CHECK(slot_measure(s).stack <= 64u << 10);
    CHECK_EQ(slot_measure(s).grown, 0);
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

/* ---- Written pages ------------------------------------------------------------------------- */

typedef struct seen {
    uint8_t page[IMAGE_LEN / 4096 + 64];
    uint64_t last;
    unsigned visits, most;
} seen;

static bool see(void *ctx, uint64_t at, uint64_t len) {
    seen *n = ctx;
    CHECK(at >= n->last && len > 0 && at % 4096 == 0 && len % 4096 == 0);
    n->last = at + len;
    for (uint64_t p = at / 4096; p < (at + len) / 4096 && p < sizeof n->page; p++) n->page[p] = 1;
    return ++n->visits < n->most;
}

TEST(written_pages_are_exactly_those_that_differ) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    for (slot_mode mode = SLOT_TRACK; mode <= SLOT_DISCARD; mode++) {
        slot *s = mapped(im, mode);
        REQUIRE(s);
        scribble(s, 60);
        CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK); /* private pages, but equal ones */
        CHECK_EQ(slot_grow(s, IMAGE_LEN + 2 * SLOT_PAGE, &err), BRU_OK);
        scribble(s, 40);
        seen n = { .most = UINT32_MAX };
        CHECK_EQ(slot_written(s, see, &n, &err), BRU_OK);
        uint8_t *memory = slot_where(s).memory;
        static const uint8_t zeros[4096];
        for (size_t p = 0; p < slot_size(s) / 4096; p++) {
            const uint8_t *was = p < IMAGE_LEN / 4096 ? bytes + p * 4096 : zeros;
            CHECK_EQ(n.page[p], memcmp(memory + p * 4096, was, 4096) != 0);
        }
        seen one = { .most = 1 };
        CHECK_EQ(slot_written(s, see, &one, &err), BRU_OK);
        CHECK_EQ(one.visits, 1);
        slot_free(s);
    }
    mem_image_unref(im);
    free(bytes);
}

/* Changes one byte in each of `count` pages of the image from page `first` on. */
static void touch_pages(slot *s, unsigned first, unsigned count) {
    for (unsigned i = 0; i < count; i++) slot_where(s).memory[(first + i) * os_page()] ^= 1;
}

TEST(of_a_large_run_those_pages_are_kept_that_small_runs_write) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    enum { KEEP = 20, SMALL = 15, FIRST = 300 };
    for (slot_mode mode = slot_mode_found(); mode < SLOT_DISCARD; mode++) {
        slot *s = mapped(im, mode);
        REQUIRE(s);
        for (int round = 0; round < 3; round++) {
            touch_pages(s, FIRST, SMALL);
            CHECK_EQ(slot_reset(s, KEEP, &err), BRU_OK);
            touch_pages(s, FIRST, SMALL);
            touch_pages(s, 0, 200);
            CHECK_EQ(slot_reset(s, KEEP, &err), BRU_OK);
            CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0);
            uint64_t kept = slot_measure(s).written;
            CHECK(kept <= KEEP * os_page());
            touch_pages(s, FIRST, SMALL);
            CHECK_EQ(slot_measure(s).written, kept);
            CHECK_EQ(slot_reset(s, KEEP, &err), BRU_OK);
        }
        slot_free(s);
    }
    mem_image_unref(im);
    free(bytes);
}

/* Few writes and many, reads, growth, in any order: tracking begins, ends and begins again. */
TEST(a_tracked_slot_is_never_wrong) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_TRACK);
    REQUIRE(s);
    for (int round = 0; round < 600; round++) {
        unsigned writes = round % 40 == 39 ? 3000 : random_next() % 60;
        for (int i = 0; i < 30; i++)
            (void)*(volatile uint8_t *)(slot_where(s).memory + random_next() % IMAGE_LEN);
        if (random_next() % 4 == 0) CHECK_EQ(slot_grow(s, IMAGE_LEN + SLOT_PAGE, &err), BRU_OK);
        scribble(s, writes);
        CHECK_EQ(slot_reset(s, round % 3 ? 64 : SLOT_KEEP_MAX, &err), BRU_OK);
        CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0);
    }
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

/* Not only the guest's own instructions write: its reads from files are the kernel's writes. */
TEST(a_tracked_slot_notices_what_the_kernel_writes) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_TRACK);
    int zero = open("/dev/zero", O_RDONLY), self = open("/proc/self/mem", O_WRONLY);
    REQUIRE(s && zero >= 0 && self >= 0);
    uint8_t *memory = slot_where(s).memory;
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(read(zero, memory + 100 * 4096 + 5, 3 * 4096), 3 * 4096);
        CHECK_EQ(pwrite(self, bytes + 9, 5000, (off_t)(uintptr_t)(memory + 200 * 4096)), 5000);
        CHECK(memcmp(memory, bytes, IMAGE_LEN) != 0);
        CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
        CHECK(memcmp(memory, bytes, IMAGE_LEN) == 0);
    }
    close(self);
    close(zero);
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

TEST(a_reset_wipes_the_native_stack) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    static const size_t depths[] = { 1, 5000, 300000 };
    for (slot_mode mode = slot_mode_found(); mode <= SLOT_DISCARD; mode++) {
        slot *s = mapped(im, mode);
        REQUIRE(s);
        EACH(depth, depths) {
            uint8_t *low = slot_where(s).stack_top - *depth, any = 0;
            memset(low, 7, *depth);
            CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
            for (size_t i = 0; i < *depth; i++) any |= low[i];
            CHECK_EQ(any, 0);
        }
        slot_free(s);
    }
    mem_image_unref(im);
    free(bytes);
}

/* ---- Processes, files, limits ---------------------------------------------------------------- */

TEST(a_reset_is_right_in_the_child_of_a_fork_and_in_the_parent) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_TRACK);
    REQUIRE(s);
    scribble(s, 100);
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    scribble(s, 100);
    pid_t child = fork();
    if (child == 0) {
        unsigned open = descriptors();
        scribble(s, 333);
        bool fine = slot_reset(s, SLOT_KEEP_MAX, &err) == BRU_OK &&
                    memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0;
        scribble(s, 10);
        fine = fine && slot_measure(s).written > 0 &&
               slot_reset(s, SLOT_KEEP_MAX, &err) == BRU_OK &&
               memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0;
        fine = fine && descriptors() <= open + 2; /* a pagemap and a userfaultfd of its own */
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0);
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

TEST(a_reset_survives_that_somebody_closed_all_descriptors) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot *s = mapped(im, SLOT_TRACK);
    REQUIRE(s);
    pid_t child = fork();
    if (child == 0) {
        scribble(s, 10);
        bool fine = true;
        for (int i = 0; i < 20; i++) fine = fine && slot_reset(s, SLOT_KEEP_MAX, &err) == BRU_OK;
        for (int fd = 3; fd < 100; fd++) close(fd);
        for (int i = 0; i < 5; i++) (void)!open("/dev/null", O_RDONLY);
        scribble(s, 10);
        fine = fine && slot_reset(s, SLOT_KEEP_MAX, &err) == BRU_OK &&
               memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0;
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    slot_free(s);
    mem_image_unref(im);
    free(bytes);
}

TEST(an_image_file_that_was_cut_short_is_an_error_and_no_crash) {
    char path[] = "/tmp/brumate-test-XXXXXX";
    int fd = mkstemp(path);
    uint8_t *bytes = noise();
    REQUIRE(fd >= 0 && write(fd, bytes, IMAGE_LEN) == (ssize_t)IMAGE_LEN);
    mem_image *im = NULL;
    CHECK_EQ(mem_image_open(fd, 4096, IMAGE_LEN, &im, &err), BRU_EFORMAT);
    CHECK(!im);
    CHECK_EQ(mem_image_open(fd, 0, IMAGE_LEN, &im, &err), BRU_OK);
    slot *s = mapped(im, SLOT_SCAN);
    REQUIRE(s);
    CHECK(memcmp(slot_where(s).memory, bytes, IMAGE_LEN) == 0);
    scribble(s, 100);
    CHECK_EQ(ftruncate(fd, 4096), 0);
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_EIO);
    CHECK_EQ(slot_size(s), 0);
    CHECK_EQ(slot_map(s, im, &err), BRU_EFORMAT);
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    slot_free(s);
    mem_image_unref(im);
    close(fd);
    unlink(path);
    free(bytes);
}

static const struct {
    uint64_t offset, len;
} bad_ranges[] = { { 0, 0 },
                   { 0, 4096 },
                   { 100, SLOT_PAGE },
                   { 0, SLOT_MEMORY_MAX + SLOT_PAGE },
                   { UINT64_MAX - 4095, SLOT_PAGE } };

TEST(images_of_impossible_sizes_are_refused) {
    mem_image *im = NULL;
    EACH(r, bad_ranges) CHECK_EQ(mem_image_open(0, r->offset, r->len, &im, &err), BRU_EINVAL);
    CHECK(!im);
}

TEST(growth_is_checked_and_lies_behind_the_image) {
    slot *s = mapped(NULL, SLOT_SCAN);
    REQUIRE(s);
    CHECK_EQ(slot_size(s), 0);
    CHECK_EQ(slot_grow(s, 100, &err), BRU_EINVAL);
    CHECK_EQ(slot_grow(s, SLOT_MEMORY_MAX + SLOT_PAGE, &err), BRU_EINVAL);
    CHECK_EQ(slot_grow(s, SLOT_PAGE, &err), BRU_OK);
    CHECK_EQ(slot_grow(s, 0, &err), BRU_EINVAL);
    CHECK_EQ(slot_grow(s, SLOT_MEMORY_MAX, &err), BRU_OK);
    slot_where(s).memory[SLOT_MEMORY_MAX - 1] = 1;
    CHECK_EQ(slot_reset(s, SLOT_KEEP_MAX, &err), BRU_OK);
    CHECK_EQ(slot_size(s), 0);
    slot_free(s);
}

TEST(a_slot_says_which_limit_refused_it) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = { 4ull << 30, 4ull << 30 };
        setrlimit(RLIMIT_AS, &limit);
        slot *s = NULL;
        bool fine = slot_new(NULL, &s, &err) == BRU_ELIMIT && strstr(err.message, "RLIMIT_AS");
        _exit(fine && !s ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK_EQ(status, 0);
#endif
    slot *s = NULL;
    CHECK_EQ(slot_new(&(slot_options){ sizeof(slot_options), 1000 }, &s, &err), BRU_EINVAL);
    CHECK_EQ(slot_new(&(slot_options){ sizeof(slot_options), SIZE_MAX }, &s, &err), BRU_EINVAL);
}

TEST(a_thousand_slots_come_and_go_without_a_trace) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    slot_free(mapped(im, SLOT_SCAN));
    unsigned maps = mappings(), fds = descriptors();
    (void)maps;
    for (int i = 0; i < 1000; i++) {
        slot *s = mapped(im, SLOT_SCAN);
        REQUIRE(s);
        scribble(s, 3);
        slot_free(s);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they map as they please */
    CHECK(mappings() <= maps + 2);
#endif
    CHECK_EQ(descriptors(), fds);
    mem_image_unref(im);
    free(bytes);
}

TEST(a_live_slot_costs_at_most_four_mappings) {
    uint8_t *bytes = noise();
    mem_image *im = noise_image(bytes);
    enum { MANY = 100 };
    slot *slots[MANY];
    unsigned before = mappings();
    for (int i = 0; i < MANY; i++) {
        slots[i] = mapped(im, SLOT_SCAN);
        REQUIRE(slots[i]);
        scribble(slots[i], 10);
        CHECK_EQ(slot_grow(slots[i], IMAGE_LEN + SLOT_PAGE, &err), BRU_OK);
        slot_where(slots[i]).memory[IMAGE_LEN] = 1;
        if (i % 2) CHECK_EQ(slot_reset(slots[i], SLOT_KEEP_MAX, &err), BRU_OK);
    }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(mappings() - before <= 4 * MANY + 4);
#endif
    (void)before;
    for (int i = 0; i < MANY; i++) slot_free(slots[i]);
    mem_image_unref(im);
    free(bytes);
}

TEST(constructors_survive_each_failure) {
    uint8_t *bytes = noise();
    slot_mode_found();
    FAULT_SWEEP {
        mem_image *im = NULL;
        slot *s = NULL;
        bru_status st = mem_image_copy(bytes, IMAGE_LEN, &im, &err);
        CHECK(!st == (im != NULL));
        if (!st) st = slot_new(NULL, &s, &err);
        if (!st) st = slot_map(s, im, &err);
        if (!st) st = slot_grow(s, IMAGE_LEN + SLOT_PAGE, &err);
        CHECK(st == BRU_OK || st == BRU_ENOMEM);
        if (st && s) CHECK(slot_size(s) == 0 || slot_size(s) == IMAGE_LEN);
        slot_free(s);
        mem_image_unref(im);
    }
    free(bytes);
}

TEST_MAIN
