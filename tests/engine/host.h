/* The host's side of the engine's tests: doors, an instance at hand, one call in one line. */
#ifndef BRU_TESTS_ENGINE_HOST_H
#define BRU_TESTS_ENGINE_HOST_H

#include "test.h"
#include "engine/engine.h"

#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1 /* which holds asynchronous signals back: stops cannot be tested */
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#endif

static bru_error err;

/* What the doors know: the context of table 0. */
typedef struct world {
    instance *i;
    int waits; /* how often the wait door parks before it answers 7 */
    int exit_code;
    unsigned echoes;
    uint64_t (*on_echo)(struct world *w, gmem mem, uint64_t value); /* or NULL */
} world;

static door_next door_echo(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    world *w = ctx;
    w->echoes++;
    *result = w->on_echo ? w->on_echo(w, mem, args[0]) : args[0];
    return DOOR_RETURN;
}

static door_next door_wait(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    world *w = ctx;
    (void)mem;
    (void)args;
    *result = 7;
    return w->waits-- > 0 ? DOOR_PARK : DOOR_RETURN;
}

static door_next door_exit(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    (void)mem;
    (void)result;
    ((world *)ctx)->exit_code = (int)args[0];
    return DOOR_STOP;
}

/* Of table 1: its context is a number. */
static door_next door_add(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    (void)mem;
    *result = args[0] + args[1] + *(uint64_t *)ctx;
    return DOOR_RETURN;
}

static const door test_doors[] = {
    { "test", "echo", "i:i", door_echo },
    { "test", "wait", ":i", door_wait },
    { "test", "exit", "i:", door_exit },
};
static const door more_doors[] = { { "more", "add", "Ii:I", door_add } };
static const door_table all_doors[] = { { test_doors, 3 }, { more_doors, 1 } };

static const char *guest_path(int number) {
    static _Thread_local char path[4096];
    const char *folder = getenv("TEST_GUESTS"); /* absolute; by default, where this program is */
    if (folder) {
        snprintf(path, sizeof path, "%s/test-guest-%d.so", folder, number);
    } else {
        ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
        while (len > 0 && path[len - 1] != '/') len--;
        snprintf(path + (len > 0 ? len : 0), 32, "test-guest-%d.so", number);
    }
    return path;
}

static inline guest_link *test_link(void) {
    guest *g = NULL;
    guest_link *l = NULL;
    if (guest_open(guest_path(0), &g, &err) == BRU_OK &&
        guest_link_new(g, all_doors, 2, &l, &err) != BRU_OK)
        l = NULL;
    guest_unref(g);
    if (!l) fprintf(stderr, "%s\n", err.message);
    return l;
}

static uint64_t more_context = 100;

/* A new instance from the wasm file, at rest; `w` becomes its world. Ends the program if not. */
static inline instance *test_instance(world *w, size_t stack) {
    guest_link *l = test_link();
    instance_options opt = { .size = sizeof opt, .stack_size = stack, .ctx = { w, &more_context } };
    instance *i = NULL;
    if (!l || instance_new(l, NULL, NULL, 0, &opt, &i, &err) != BRU_OK) {
        fprintf(stderr, "no instance: %s\n", err.message);
        exit(2);
    }
    guest_link_unref(l);
    w->i = i;
    return i;
}

static inline uint32_t export_number(const char *name, const char *type) {
    guest *g = NULL;
    uint32_t number = UINT32_MAX;
    CHECK_EQ(guest_open(guest_path(0), &g, &err), BRU_OK);
    if (g) CHECK_EQ(guest_export_find(g, name, type, &number, &err), BRU_OK);
    guest_unref(g);
    return number;
}

/* Calls an export by name; its report. A call that was refused answers outcome -1. */
static inline engine_report call(instance *i, const char *name, const char *type, uint64_t a,
                                 uint64_t b, const engine_limits *limits) {
    engine_report report = { .outcome = (engine_outcome)-1 };
    uint64_t args[2] = { a, b };
    bru_status st = engine_call(i, export_number(name, type), args, limits, &report, &err);
    if (st) fprintf(stderr, "%s: %s\n", name, err.message);
    return report;
}

#endif
