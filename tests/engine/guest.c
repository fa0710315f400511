/* A guest written by hand: what wasm2c and the shim would make, as far as the engine can tell. Its
 * exports do one evil or useful thing each. With BROKEN defined it is a wrong one, see below. */
#include <stdint.h>
#include <string.h>

#include "engine/guest_abi.h"

typedef struct self {
    uint64_t counter; /* a mutable global */
    uint32_t level;   /* another */
    uint32_t pages;
    const void *table;
} self;

static const guest_host *host;

static volatile uint8_t *memory(void *i) {
    return (volatile uint8_t *)i + GUEST_INSTANCE_SPAN;
}

static volatile uint32_t *cell(void *i, uint32_t at) {
    return (volatile uint32_t *)(void *)((uint8_t *)i + GUEST_INSTANCE_SPAN + at);
}

/* ---- Imports --------------------------------------------------------------------------------- */

static const guest_import imports[] = {
    { "test", "echo", "i:i" },
    { "test", "wait", ":i" },
    { "test", "exit", "i:" },
    { "more", "add", "Ii:I" },
};

static uint64_t import(void *i, uint32_t index, uint64_t a, uint64_t b) {
    uint64_t args[2] = { a, b };
    return host->import(i, index, args);
}

/* ---- Exports --------------------------------------------------------------------------------- */

static uint64_t add(void *i, const uint64_t *a) {
    (void)i;
    return (uint32_t)(a[0] + a[1]);
}

static uint64_t nothing(void *i, const uint64_t *a) {
    (void)i;
    (void)a;
    return 0;
}

static uint64_t count(void *i, const uint64_t *a) {
    (void)a;
    return ++((self *)i)->counter;
}

static uint64_t load(void *i, const uint64_t *a) {
    return memory(i)[(uint64_t)(uint32_t)a[0] + (uint32_t)a[1]];
}

static uint64_t store(void *i, const uint64_t *a) {
    *cell(i, (uint32_t)a[0]) = (uint32_t)a[1];
    return 0;
}

static uint64_t grow(void *i, const uint64_t *a) {
    return host->grow(i, a[0]);
}

static uint64_t trap(void *i, const uint64_t *a) {
    (void)i;
    host->trap((guest_trap)a[0]);
    return 0;
}

static uint64_t divide(void *i, const uint64_t *a) {
    (void)i;
    volatile uint32_t zero = (uint32_t)a[1], value = (uint32_t)a[0];
#if defined(__x86_64__)
    uint32_t result, rest;
    __asm__ volatile("divl %4" : "=a"(result), "=d"(rest) : "0"(value), "1"(0), "r"(zero));
    return result;
#else
    if (zero == 0) host->trap(GUEST_TRAP_DIV_BY_ZERO);
    return value / zero;
#endif
}

static uint64_t illegal(void *i, const uint64_t *a) {
    (void)i;
    if (a) __builtin_trap();
    return 0;
}

static uint64_t wild(void *i, const uint64_t *a) {
    (void)i;
    return *(volatile uint8_t *)(uintptr_t)a[0];
}

static uint64_t deep(void *i, const uint64_t *a) {
    volatile uint8_t frame[256];
    frame[a[0] % 256] = 1;
    uint64_t next = a[0] - 1;
    return a[0] == 0 ? 0 : deep(i, &next) + frame[0];
}

/* Calls a door at each level: the stack ends anywhere, also inside the engine. */
static uint64_t deep_import(void *i, const uint64_t *a) {
    volatile uint8_t frame[64];
    frame[a[0] % 64] = 1;
    uint64_t next = a[0] - 1;
    import(i, 0, a[0], 0);
    return a[0] == 0 ? 0 : deep_import(i, &next) + frame[0];
}

static uint64_t spin(void *i, const uint64_t *a) {
    (void)i;
    (void)a;
    for (;;) __asm__ volatile("");
    return 0;
}

/* Until the cell at offset 64 becomes non-zero, as an interpreter looks at its eval breaker. */
static uint64_t spin_until_told(void *i, const uint64_t *a) {
    (void)a;
    while (*cell(i, 64) == 0) continue;
    return *cell(i, 68);
}

static uint64_t spin_in_doors(void *i, const uint64_t *a) {
    for (uint32_t n = 0;; n++)
        if (import(i, 0, a[0], 0) == 99) return n;
}

/* Nearly all of the time in a library function. */
static uint64_t spin_in_memmove(void *i, const uint64_t *a) {
    uint8_t *m = (uint8_t *)i + GUEST_INSTANCE_SPAN;
    for (;;) memmove(m, m + 1, (size_t)a[0]);
    return 0;
}

static uint64_t call_echo(void *i, const uint64_t *a) {
    return import(i, 0, a[0], 0);
}

static uint64_t call_add(void *i, const uint64_t *a) {
    return import(i, 3, a[0], a[1]);
}

/* Parks a few times, and must find its registers and its stack as they were. */
static uint64_t call_wait(void *i, const uint64_t *a) {
    uint64_t sum = 0, times = a[0]; /* the caller's array is gone when it has parked */
    volatile double share = 0.5;
    for (uint64_t n = 0; n < times; n++) sum += import(i, 1, 0, 0) + (uint64_t)(share * 2);
    return sum;
}

static uint64_t call_exit(void *i, const uint64_t *a) {
    import(i, 2, a[0], 0);
    *cell(i, 0) = 0xDEAD;
    return 1;
}

static uint64_t third(void *i, const uint64_t *a) {
    (void)i;
    volatile double x = 1.0, y = (double)a[0];
    double z = x / y;
    uint64_t bits;
    memcpy(&bits, &z, sizeof bits);
    return bits;
}

static uint64_t table_byte(void *i, const uint64_t *a) {
    return ((const uint8_t *)((self *)i)->table)[a[0]];
}

static uint64_t table_write(void *i, const uint64_t *a) {
    ((volatile uint8_t *)(uintptr_t)((self *)i)->table)[a[0]] = 1;
    return 0;
}

static const guest_export exports[] = {
    { "add", "ii:i", add },
    { "nothing", ":", nothing },
    { "count", ":I", count },
    { "load", "ii:i", load },
    { "store", "ii:", store },
    { "grow", "i:i", grow },
    { "trap", "i:", trap },
    { "divide", "ii:i", divide },
    { "illegal", ":", illegal },
    { "wild", "I:i", wild },
    { "deep", "i:i", deep },
    { "deep_import", "i:i", deep_import },
    { "spin", ":", spin },
    { "spin_until_told", ":i", spin_until_told },
    { "spin_in_doors", "i:i", spin_in_doors },
    { "spin_in_memmove", "i:", spin_in_memmove },
    { "call_echo", "i:i", call_echo },
    { "call_add", "Ii:I", call_add },
    { "call_wait", "i:i", call_wait },
    { "call_exit", "i:i", call_exit },
    { "third", "i:F", third },
    { "table_byte", "i:i", table_byte },
    { "table_write", "i:", table_write },
};

/* ---- The descriptor -------------------------------------------------------------------------- */

static const guest_global globals[] = {
    { "counter", offsetof(self, counter), 8 },
    { "level", offsetof(self, level), 4 },
};

static void bind(const guest_host *h) {
    host = h;
}

static void table_build(void *table) {
    for (unsigned n = 0; n < 5000; n++) ((uint8_t *)table)[n] = (uint8_t)(n * 7);
}

static void resize(void *i, uint32_t pages) {
    ((self *)i)->pages = pages;
}

static void attach(void *i, const void *table, uint32_t pages) {
    ((self *)i)->table = table;
    resize(i, pages);
}

static void instantiate(void *i) {
    ((self *)i)->counter = 1000;
    ((self *)i)->level = 5;
#if BROKEN == 4
    memory(i)[2 * GUEST_PAGE] = 1;
#endif
    for (unsigned n = 0; n < 10; n++) memory(i)[16 + n] = (uint8_t)("data here!"[n]);
}

#if BROKEN == 1 /* another version of the contract */
#define ABI (GUEST_ABI_VERSION + 1)
#else
#define ABI GUEST_ABI_VERSION
#endif
#if BROKEN == 2 /* a descriptor that makes no sense */
#define SIZE (GUEST_INSTANCE_SPAN + 1)
#else
#define SIZE sizeof(self)
#endif
#if BROKEN == 3 /* no descriptor */
#define NAME other_symbol
#else
#define NAME brumate_guest
#endif

extern const guest_descriptor NAME;
__attribute__((visibility("default"))) const guest_descriptor NAME = {
    .abi_version = ABI,
    .name = "test",
    .wasm_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    .build = "written by hand",
    .instance_size = SIZE,
    .initial_pages = 2,
    .max_pages = 1000,
    .import_count = sizeof imports / sizeof *imports,
    .export_count = sizeof exports / sizeof *exports,
    .global_count = sizeof globals / sizeof *globals,
    .imports = imports,
    .exports = exports,
    .globals = globals,
    .table_size = 5000,
    .bind = bind,
    .table_build = table_build,
    .attach = attach,
    .instantiate = instantiate,
    .resize = resize,
};
