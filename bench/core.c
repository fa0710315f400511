/* What takes microseconds, measured in-process over the public API; run.py calls it and makes the
 * table.
 *
 *   turns IMAGE BATCHES RUNS       starts, runs and resets: medians of RUNS, a line a batch
 *   memory IMAGE SESSIONS LIMIT    idle sessions: memory each; stops at LIMIT MB in all
 *   overshoot IMAGE SAMPLES MS     how late a deadline of MS is met: a line a sample
 *   sleep IMAGE RUNS PARTS         twins and snapshots; big is a session with PARTS times 15 MB
 *   park IMAGE FOLDER SESSIONS WAKES   sessions as files, some of them woken at random
 *   build GUEST ROOT FILE          one image build
 *
 * Each line is a JSON object. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#include "brumate.h"

static bru_image *image;

static void die(const char *what, const char *text) {
    fprintf(stderr, "bench-core: %s: %s\n", what, text);
    exit(1);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static bru_session *open_session(const bru_session_options *options) {
    bru_session *s;
    bru_error err;
    if (bru_session_new(image, options, &s, &err)) die("session", err.message);
    return s;
}

/* Runs `source` to a good end in `s`; answers the time it took, its result included. */
static double run_us(bru_session *s, const char *source) {
    bru_result *r;
    bru_error err;
    double begin = now_us();
    if (bru_session_run(s, source, strlen(source), NULL, &r, &err)) die("run", err.message);
    double took = now_us() - begin;
    if (bru_result_reason(r) != BRU_REASON_COMPLETED)
        die(source, bru_result_text(r, BRU_TEXT_TRACEBACK, NULL));
    bru_result_free(r);
    return took;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, by_size);
    return n ? v[n / 2] : 0;
}

static const char hello[] = "print('hi')";

/* ------------------------------------------------------------------ turns */

static double fresh_hello(double *v, size_t n) {
    bru_sandbox *box;
    bru_error err;
    if (bru_sandbox_new(image, NULL, &box, &err)) die("sandbox", err.message);
    for (size_t i = 0; i < n; i++) {
        bru_result *r;
        double begin = now_us();
        if (bru_sandbox_run(box, hello, sizeof hello - 1, NULL, &r, &err)) die("run", err.message);
        v[i] = now_us() - begin;
        if (strcmp(bru_result_text(r, BRU_TEXT_STDOUT, NULL), "hi\n")) die("run", "wrong output");
        bru_result_free(r);
    }
    bru_sandbox_free(box);
    return median(v, n);
}

static double live_hello(double *v, size_t n) {
    bru_session *s = open_session(NULL);
    for (size_t i = 0; i < n; i++) v[i] = run_us(s, hello);
    bru_session_free(s);
    return median(v, n);
}

static double reset(double *v, size_t n) {
    bru_session *s = open_session(NULL);
    bru_error err;
    for (size_t i = 0; i < n; i++) {
        run_us(s, hello);
        double begin = now_us();
        if (bru_session_reset(s, BRU_RESET_FILES, &err)) die("reset", err.message);
        v[i] = now_us() - begin;
    }
    bru_session_free(s);
    return median(v, n);
}

/* All of them live at once, so that none gets the slot of one before. */
static double slot_create(double *v, size_t n) {
    enum { AT_ONCE = 64 };
    bru_session *s[AT_ONCE];
    n = n < AT_ONCE ? n : AT_ONCE;
    for (size_t i = 0; i < n; i++) {
        double begin = now_us();
        s[i] = open_session(NULL);
        v[i] = now_us() - begin;
    }
    for (size_t i = 0; i < n; i++) bru_session_free(s[i]);
    return median(v, n);
}

static double new_run_free(double *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double begin = now_us();
        bru_session *s = open_session(NULL);
        run_us(s, hello);
        bru_session_free(s);
        v[i] = now_us() - begin;
    }
    return median(v, n);
}

static void turns(size_t batches, size_t n) {
    static const struct {
        const char *name;
        double (*measure)(double *v, size_t n);
    } rows[] = { { "fresh_hello_us", fresh_hello },
                 { "live_hello_us", live_hello },
                 { "reset_us", reset },
                 { "slot_create_us", slot_create },
                 { "new_run_free_us", new_run_free } };
    enum { ROWS = sizeof rows / sizeof *rows };
    double *v = malloc(n * sizeof *v);
    if (!v) die("malloc", "no memory");
    for (int i = 0; i < ROWS; i++) rows[i].measure(v, n < 50 ? n : 50);
    for (size_t b = 0; b < batches; b++) {
        for (int i = 0; i < ROWS; i++)
            printf("%s\"%s\": %.3f", i ? ", " : "{", rows[i].name, rows[i].measure(v, n));
        puts("}");
        fflush(stdout);
    }
    free(v);
}

/* ----------------------------------------------------------------- memory */

typedef struct memory {
    double resident, shared_out, private; /* kB: Rss, Pss, Private_* */
    double tables;                        /* kB of page tables */
    unsigned mappings;
} memory;

static void add_line(const char *line, const char *name, double *to) {
    size_t len = strlen(name);
    if (!strncmp(line, name, len)) *to += strtod(line + len, NULL);
}

static memory look(int mappings) {
    memory m = { 0 };
    char line[512];
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) {
        add_line(line, "Rss:", &m.resident);
        add_line(line, "Pss:", &m.shared_out);
        add_line(line, "Private_Clean:", &m.private);
        add_line(line, "Private_Dirty:", &m.private);
    }
    if (f) fclose(f);
    f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) add_line(line, "VmPTE:", &m.tables);
    if (f) fclose(f);
    f = mappings ? fopen("/proc/self/maps", "r") : NULL;
    while (f && fgets(line, sizeof line, f)) m.mappings += strchr(line, '\n') != NULL;
    if (f) fclose(f);
    return m;
}

/* Opens up to `count` sessions, runs a line in each, and keeps them all. */
static void memory_of(size_t count, double limit_mb) {
    bru_session **s = calloc(count + 1, sizeof *s);
    bru_error err;
    size_t n = 0;
    if (!s) die("malloc", "no memory");
    s[count] = open_session(NULL);
    run_us(s[count], "x = 1");
    memory before = look(1);
    double begin = now_us();
    err.message[0] = '\0';
    for (; n < count && !bru_session_new(image, NULL, &s[n], &err); n++) {
        run_us(s[n], "x = 1");
        if (n % 500 != 499) continue;
        memory now = look(0);
        if ((now.private + now.tables) / 1024 > limit_mb && ++n) break;
    }
    double took = now_us() - begin;
    memory after = look(1);
    double each = n ? (double)n : 1;
    printf(
        "{\"sessions\": %zu, \"private_kb\": %.1f, \"resident_kb\": %.1f, \"pss_kb\": %.1f, "
        "\"page_table_kb\": %.1f, \"total_mb\": %.0f, \"mappings\": %u, \"open_and_run_us\": %.1f, "
        "\"stopped_by\": \"%.200s\"}\n",
        n, (after.private - before.private) / each, (after.resident - before.resident) / each,
        (after.shared_out - before.shared_out) / each, (after.tables - before.tables) / each,
        (after.private + after.tables) / 1024, after.mappings, took / each, err.message);
    for (size_t i = 0; i <= count; i++) bru_session_free(s[i]);
    free(s);
}

/* -------------------------------------------------------------- overshoot */

static const struct {
    const char *name, *setup, *source;
} endless[] = {
    { "while True: pass", "", "while True: pass" },
    { "a loop that swallows exceptions", "",
      "while True:\n    try:\n        while True: pass\n    except BaseException: pass" },
    { "calls and objects", "class A: pass\ndef f(n): return A()", "while True: f(f(1))" },
    { "3 ** 10**7", "", "3 ** 10**7" },
    { "evil regex", "import re", "re.match(r'(a+)+$', 'a' * 40 + 'b')" },
    { "sort", "import random\nx = [random.random() for _ in range(10**6)]",
      "while True: sorted(x)" },
    { "sum(range)", "", "sum(range(10**12))" },
    { "sha256 of much", "import hashlib\nx = bytes(2**25)", "while True: hashlib.sha256(x)" },
    { "deque eats a counter", "import itertools, collections",
      "collections.deque(itertools.count(), maxlen=0)" },
    { "time.sleep", "import time", "time.sleep(100)" },
};
enum { ENDLESS = sizeof endless / sizeof *endless };

static void sample(bru_session *s, size_t kind, uint64_t ms) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    bru_result *r;
    bru_error err;
    o.timeout_ns = ms * 1000000;
    double begin = now_us();
    if (bru_session_run(s, endless[kind].source, strlen(endless[kind].source), &o, &r, &err))
        die("run", err.message);
    double late = now_us() - begin - (double)ms * 1e3;
    int alive = bru_result_session_alive(r);
    printf("{\"kind\": \"%s\", \"late_us\": %.1f, \"reason\": \"%s\", \"alive\": %s}\n",
           endless[kind].name, late, bru_reason_text(bru_result_reason(r)),
           alive ? "true" : "false");
    fflush(stdout);
    bru_result_free(r);
    if (alive) return;
    if (bru_session_reset(s, 0, &err)) die("reset", err.message);
    run_us(s, endless[kind].setup);
}

static void overshoot(size_t samples, uint64_t ms) {
    bru_session *s[ENDLESS];
    for (size_t k = 0; k < ENDLESS; k++) {
        s[k] = open_session(NULL);
        run_us(s[k], endless[k].setup);
    }
    for (size_t i = 0; i < samples; i++) sample(s[i % ENDLESS], i % ENDLESS, ms);
    for (size_t k = 0; k < ENDLESS; k++) bru_session_free(s[k]);
}

/* ------------------------------------------------------------------ sleep */

static bru_snapshot *snapshot_of(bru_session *s) {
    bru_snapshot *snapshot;
    bru_error err;
    if (bru_session_snapshot(s, NULL, &snapshot, &err)) die("snapshot", err.message);
    return snapshot;
}

static bru_session *resume(const bru_snapshot *snapshot, const bru_session_options *o) {
    bru_session *s;
    bru_error err;
    if (bru_session_resume(image, o, snapshot, &s, &err)) die("resume", err.message);
    return s;
}

static bru_session *twin_of(bru_session *s) {
    bru_session *twin;
    bru_error err;
    if (bru_session_fork(s, &twin, &err)) die("fork", err.message);
    return twin;
}

/* Twins of which one lives at a time, then twins side by side, each on pages that nobody had
 * before: time and memory of each. */
static void twins(bru_session *s, size_t count, double *v) {
    bru_session **all = calloc(count, sizeof *all);
    uint64_t private = 0;
    for (size_t i = 0; i < count; i++) {
        double begin = now_us();
        bru_session *twin = twin_of(s);
        v[i] = now_us() - begin;
        bru_session_free(twin);
    }
    printf("{\"fork_us\": %.1f, ", median(v, count));
    for (size_t i = 0; i < count; i++) {
        double begin = now_us();
        all[i] = twin_of(s);
        v[i] = now_us() - begin;
        private += bru_session_private_bytes(all[i]);
    }
    printf("\"fork_many_us\": %.1f, \"fork_private_kb\": %.1f, ", median(v, count),
           (double)private / (double)count / 1024);
    for (size_t i = 0; i < count; i++) bru_session_free(all[i]);
    free(all);
}

static void small_sleep(bru_session *s, size_t count, double *v) {
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        double begin = now_us();
        bru_snapshot *snapshot = snapshot_of(s);
        v[i] = now_us() - begin;
        bru_snapshot_bytes(snapshot, &len);
        bru_snapshot_free(snapshot);
    }
    printf("\"suspend_ms\": %.4f, \"suspend_kb\": %.1f, ", median(v, count) / 1e3,
           (double)len / 1024);
    bru_snapshot *snapshot = snapshot_of(s);
    for (size_t i = 0; i < count; i++) {
        double begin = now_us();
        bru_session *other = resume(snapshot, NULL);
        v[i] = now_us() - begin;
        bru_session_free(other);
    }
    bru_snapshot_free(snapshot);
    printf("\"resume_ms\": %.4f, ", median(v, count) / 1e3);
}

#define PART ((size_t)15 << 20)

/* {"v<n>": bytes} as values cross, the bytes like text: words that come again. */
static unsigned char *part_make(unsigned n, size_t *len) {
    static const unsigned char head[] = { 0xA1, 0x62, 'v', '0', 0x5A };
    unsigned char *bytes = malloc(sizeof head + 4 + PART), *at = bytes + sizeof head + 4;
    uint32_t word = n + 1;
    if (!bytes) die("sleep", "no memory");
    memcpy(bytes, head, sizeof head);
    bytes[3] = (unsigned char)('0' + n);
    for (int i = 0; i < 4; i++)
        bytes[sizeof head + (size_t)i] = (unsigned char)(PART >> (24 - 8 * i));
    for (size_t i = 0; i < PART; i++) {
        if (i % 5 == 0) word = word * 1664525u + 1013904223u;
        at[i] = i % 5 == 4 ? ' ' : (unsigned char)('a' + (word >> (16 + i % 5) & 15));
    }
    *len = sizeof head + 4 + PART;
    return bytes;
}

static double zstd_us(const unsigned char *bytes, size_t len) {
    size_t room = ZSTD_compressBound(len);
    void *out = malloc(room);
    double begin = now_us();
    if (!out || ZSTD_isError(ZSTD_compress(out, room, bytes, len, 1))) die("zstd", "failed");
    double took = now_us() - begin;
    free(out);
    return took;
}

/* A session full of data, against the compressor alone on such data, as much as there are pages:
 * copies that the guest has freed are pages too. */
static void big_sleep(size_t parts) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    bru_exec_options run = BRU_EXEC_OPTIONS_INIT;
    bru_result *r;
    bru_error err;
    bru_snapshot_info info;
    double alone = 0, v[5];
    o.limits.memory_bytes = (uint64_t)1 << 30;
    bru_session *s = open_session(&o);
    for (unsigned n = 0; n < parts; n++) {
        size_t len;
        unsigned char *bytes = part_make(n, &len);
        run.inputs = bytes;
        run.inputs_len = len;
        if (bru_session_run(s, "1", 1, &run, &r, &err)) die("inputs", err.message);
        bru_result_free(r);
        for (int i = 0; i < 5; i++) v[i] = zstd_us(bytes, len);
        alone += median(v, 5);
        free(bytes);
    }
    for (int i = 0; i < 5; i++) {
        double begin = now_us();
        bru_snapshot *snapshot = snapshot_of(s);
        v[i] = now_us() - begin;
        bru_snapshot_get_info(snapshot, &info);
        bru_snapshot_free(snapshot);
    }
    double suspend = median(v, 5);
    alone *= (double)info.stored_bytes / (double)(parts * PART);
    printf("\"big_mb\": %zu, \"big_suspend_ms\": %.2f, \"big_state_vs_zstd_x\": %.3f}\n",
           (size_t)(info.stored_bytes >> 20), suspend / 1e3, suspend / alone);
    bru_session_free(s);
}

static void sleeping(size_t count, size_t parts) {
    double *v = calloc(count, sizeof *v);
    bru_session *s = open_session(NULL);
    run_us(s, "x = {'a': [1, 2, 3]}\ndef f(n): return n + 1\nprint(f(1))");
    twins(s, count, v);
    small_sleep(s, count, v);
    big_sleep(parts < 9 ? parts : 9);
    bru_session_free(s);
    free(v);
}

/* ------------------------------------------------------------------- park */

static void park_path(char out[4200], const char *folder, size_t i) {
    snprintf(out, 4200, "%s/%zu", folder, i);
}

/* Each one another: what it knows is its number. */
static void park(const char *folder, size_t i, const bru_snapshot *like,
                 const bru_session_options *o) {
    char path[4200], line[40];
    bru_error err;
    bru_session *s = resume(like, o);
    snprintf(line, sizeof line, "n = %zu", i);
    run_us(s, line);
    bru_snapshot *snapshot = snapshot_of(s);
    park_path(path, folder, i);
    if (bru_snapshot_save_with(snapshot, path, BRU_SAVE_UNSYNCED, &err)) die("save", err.message);
    bru_snapshot_free(snapshot);
    bru_session_free(s);
}

/* From the file to the end of its next statement. */
static double wake_us(const char *folder, size_t i, const bru_session_options *o) {
    char path[4200], line[80];
    bru_snapshot *snapshot;
    bru_error err;
    park_path(path, folder, i);
    snprintf(line, sizeof line, "assert f(n) == %zu + 1 and len(x['a']) == 3", i);
    double begin = now_us();
    if (bru_snapshot_load(path, &snapshot, &err)) die("load", err.message);
    bru_session *s = resume(snapshot, o);
    run_us(s, line);
    double took = now_us() - begin;
    bru_snapshot_free(snapshot);
    bru_session_free(s);
    return took;
}

static void parking(const char *folder, size_t count, size_t wakes) {
    char path[4200];
    uint32_t word = 1;
    double *v = calloc(wakes + 1, sizeof *v);
    bru_session *s = open_session(NULL);
    run_us(s, "x = {'a': [1, 2, 3]}\ndef f(n): return n + 1");
    bru_snapshot *like = snapshot_of(s);
    if (!v || !count || !wakes) die("park", "nothing to do");
    double begin = now_us();
    for (size_t i = 0; i < count; i++) park(folder, i, like, NULL);
    double each = (now_us() - begin) / (double)count;
    for (size_t i = 0; i < wakes; i++) {
        word = word * 1664525u + 1013904223u;
        v[i] = wake_us(folder, (size_t)(word >> 8) % count, NULL);
    }
    qsort(v, wakes, sizeof *v, by_size);
    printf("{\"parked\": %zu, \"park_ms\": %.4f, \"wake_ms\": %.4f, \"wake_p99_ms\": %.4f}\n",
           count, each / 1e3, v[wakes / 2] / 1e3, v[wakes * 99 / 100] / 1e3);
    for (size_t i = 0; i < count; i++) {
        park_path(path, folder, i);
        remove(path);
    }
    bru_snapshot_free(like);
    bru_session_free(s);
    free(v);
}

/* ------------------------------------------------------------------ build */

static void build(const char *guest, const char *root, const char *path) {
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    bru_error err;
    o.guest_path = guest;
    o.root_path = root;
    double begin = now_us();
    if (bru_image_build(&o, path, &err)) die("build", err.message);
    printf("{\"boot_ms\": %.1f}\n", (now_us() - begin) / 1e3);
}

int main(int argc, char **argv) {
    bru_error err;
    if (argc < 5)
        die("usage", "bench-core turns|memory|overshoot|sleep IMAGE COUNT N | "
                     "park IMAGE FOLDER SESSIONS WAKES | build GUEST ROOT FILE");
    if (!strcmp(argv[1], "build")) {
        build(argv[2], argv[3], argv[4]);
        return 0;
    }
    if (bru_image_open(argv[2], NULL, &image, &err)) die("image", err.message);
    if (!strcmp(argv[1], "park")) {
        parking(argv[3], strtoul(argv[4], NULL, 10), argc > 5 ? strtoul(argv[5], NULL, 10) : 1);
        bru_image_unref(image);
        return 0;
    }
    size_t a = strtoul(argv[3], NULL, 10), b = strtoul(argv[4], NULL, 10);
    if (!strcmp(argv[1], "turns"))
        turns(a, b);
    else if (!strcmp(argv[1], "memory"))
        memory_of(a, (double)b);
    else if (!strcmp(argv[1], "overshoot"))
        overshoot(a, b);
    else if (!strcmp(argv[1], "sleep"))
        sleeping(a, b);
    else
        die("no such measure", argv[1]);
    bru_image_unref(image);
    return 0;
}
