/* The contract between a guest's shared object and the engine that loads it.
 *
 * A guest is a WebAssembly module that wasm2c turned into C, compiled together with a generated
 * shim (guest/build) that fills in one guest_descriptor. Everything the engine must know about a
 * guest is in that descriptor, so the engine knows no guest by name. This header is included by
 * the shim and by the engine alone; it includes no header of wasm2c. */
#ifndef BRU_ENGINE_GUEST_ABI_H
#define BRU_ENGINE_GUEST_ABI_H

#include <stddef.h>
#include <stdint.h>

#define GUEST_ABI_VERSION 1u

/* The symbol, a `const guest_descriptor`, that the shared object exports: its only one. */
#define GUEST_SYMBOL "brumate_guest"

/* The instance structure lies this far below its linear memory, always, so that generated code
 * finds the memory by adding a constant. The engine rejects a guest whose instance is larger. */
#define GUEST_INSTANCE_SPAN 65536u

/* A wasm page, in bytes. */
#define GUEST_PAGE 65536u

/* Why guest code stopped itself. */
typedef enum guest_trap {
    GUEST_TRAP_OOB = 1, /* memory or table access out of bounds */
    GUEST_TRAP_INT_OVERFLOW,
    GUEST_TRAP_DIV_BY_ZERO,
    GUEST_TRAP_INVALID_CONVERSION,
    GUEST_TRAP_UNREACHABLE,
    GUEST_TRAP_CALL_INDIRECT, /* missing table entry, or one of another type */
    GUEST_TRAP_OTHER
} guest_trap;

/* What the engine lends to a loaded guest; bound once, right after loading. None may be called
 * but from guest code that the engine entered. */
typedef struct guest_host {
    uint32_t version; /* GUEST_ABI_VERSION */
    /* Ends the running call; does not return. */
    void (*trap)(guest_trap why);
    /* memory.grow: answers the size before in wasm pages, or UINT64_MAX if refused. On success
     * the engine has already called guest_descriptor.resize(). */
    uint64_t (*grow)(void *instance, uint64_t pages);
    /* Calls import number `index`. Arguments and result are the wasm values: i32 zero-extended,
     * f32 and f64 as their bits. A function without a result answers 0. */
    uint64_t (*import)(void *instance, uint32_t index, const uint64_t *args);
} guest_host;

/* Types are written as "ii:i": parameters, a colon, results; i = i32, I = i64, f = f32, F = f64. */
typedef struct guest_import {
    const char *module, *name, *type;
} guest_import;

typedef struct guest_export {
    const char *name, *type;
    /* Reads `args` before it runs any guest code: a parked call outlives them. */
    uint64_t (*call)(void *instance, const uint64_t *args);
} guest_export;

/* A mutable global: part of an instance's state, kept inside the instance structure. */
typedef struct guest_global {
    const char *name;
    uint32_t offset, size; /* within the instance structure, bytes */
} guest_global;

typedef struct guest_descriptor {
    uint32_t abi_version;
    uint32_t flags;          /* 0; bit 0 is kept for "counts fuel" */
    const char *name;        /* for messages: "core" */
    const char *wasm_sha256; /* 64 hex digits of the wasm file: what images are bound to */
    const char *build;       /* one line for people: versions of guest, wasm2c, compiler */
    uint32_t instance_size;  /* bytes, <= GUEST_INSTANCE_SPAN */
    uint32_t initial_pages;  /* of memory, when instantiated from the wasm file */
    uint32_t max_pages;      /* declared maximum, <= 65536 */
    uint32_t import_count, export_count, global_count;
    const guest_import *imports;
    const guest_export *exports;
    const guest_global *globals;
    size_t table_size; /* bytes of the function table, 0 if there is none */
    void (*bind)(const guest_host *host);
    /* Fills `table` (table_size bytes, zeroed) with the guest's function table. The table holds no
     * address of an instance and no imported function, so one read-only copy serves them all. */
    void (*table_build)(void *table);
    /* Prepares a zeroed instance structure whose memory of `pages` wasm pages lies at
     * instance + GUEST_INSTANCE_SPAN: memory fields, table, import environments. Touches no
     * linear memory. */
    void (*attach)(void *instance, const void *table, uint32_t pages);
    /* After attach(), for an instance that starts from the wasm file and not from an image:
     * copies the data segments into memory and sets the globals. Runs no guest code. */
    void (*instantiate)(void *instance);
    /* Sets the memory's size, after it grew or was reset. */
    void (*resize)(void *instance, uint32_t pages);
} guest_descriptor;

#endif
