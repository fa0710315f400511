/* The engine: loads a guest's shared object, keeps instances of it, and runs them on stacks of
 * their own, with nothing of the host at risk: a trap, a runaway loop or a native stack overflow
 * ends the call and not the process. The header that other rooms include.
 *
 *     guest      the loaded code                       one per file, shared, counted
 *     link       a guest whose imports have doors      one per kind of host, shared, counted
 *     instance   a slot, its state and its stack       one per sandbox
 *
 * States of an instance, and what leads from one to another:
 *
 *     REST     engine_call                         -> RUNNING
 *     RUNNING  the export returns                  -> REST      ENGINE_RETURNED
 *     RUNNING  a door answers DOOR_PARK            -> PARKED    ENGINE_PARKED
 *     RUNNING  stop, trap, limit, interrupt        -> DEAD      every other outcome
 *     PARKED   engine_resume                       -> RUNNING
 *     any but RUNNING   instance_reset             -> REST
 *
 * Threads: guests and links may be used from any thread. An instance is used by one thread at a
 * time, any thread each time, also between a park and its resume; only engine_interrupt() may be
 * called beside a running call. Doors run on the caller's stack, not on the guest's, and may run
 * other instances: calls on one thread end in the reverse order in which they began.
 *
 * Signals: the first call of a process installs handlers (docs/design/engine.md); the first call
 * of a thread unblocks them there. The stop signal may arrive at any later time on such a thread,
 * so that system calls there may answer EINTR. The library stays loaded from then on. */
#ifndef BRU_ENGINE_ENGINE_H
#define BRU_ENGINE_ENGINE_H

#include "base/base.h"
#include "base/door.h"
#include "memory/slot.h"

#include <stdatomic.h>

/* ---- Guests ------------------------------------------------------------------------------- */

typedef struct guest guest;

/* Loads the shared object at `path`, or answers the one already loaded from the same file. One
 * reference is the caller's.
 * BRU_ENOENT    no such file.
 * BRU_EFORMAT   not a guest: not loadable, no descriptor, or a damaged one; the message says which.
 * BRU_EMISMATCH a guest of another ABI version.
 * BRU_ENOMEM    `*out` is NULL. */
BRU_MUST_CHECK bru_status guest_open(const char *path, guest **out, bru_error *err);

guest *guest_ref(guest *g);
void guest_unref(guest *g); /* NULL allowed */

/* The guest's, as long as it lives. */
const char *guest_name(const guest *g);
const char *guest_wasm_sha256(const guest *g); /* 64 hex digits: what images are bound to */
const char *guest_build_line(const guest *g);
uint32_t guest_flags(const guest *g);      /* guest_descriptor.flags */
uint64_t guest_memory_max(const guest *g); /* declared maximum, bytes */

/* The number of the export `name` of `type` ("ii:i"), for engine_call().
 * BRU_ENOENT     there is none of that name; `*out` is UINT32_MAX.
 * BRU_EMISMATCH  it has another type, which the message names. */
BRU_MUST_CHECK bru_status guest_export_find(const guest *g, const char *name, const char *type,
                                            uint32_t *out, bru_error *err);

/* ---- Links -------------------------------------------------------------------------------- */

/* Doors that share one context pointer, given per instance. */
typedef struct door_table {
    const door *doors;
    size_t count;
} door_table;

typedef struct guest_link guest_link;

/* Finds a door for every import of `g` by module, name and type: the first table that has it wins.
 * The doors must outlive the link, the tables need not. One reference is the caller's.
 * BRU_EMISMATCH  an import is missing or of another type; the message names it.
 * BRU_EINVAL     more than LINK_TABLES tables.
 * BRU_ENOMEM     `*out` is NULL. */
#define LINK_TABLES 8
BRU_MUST_CHECK bru_status guest_link_new(guest *g, const door_table *tables, size_t count,
                                         guest_link **out, bru_error *err);

guest_link *guest_link_ref(guest_link *l);
void guest_link_unref(guest_link *l); /* NULL allowed */

/* ---- Instances ---------------------------------------------------------------------------- */

typedef struct instance instance;

/* Zero means the default. */
typedef struct instance_options {
    size_t size;            /* of this structure */
    size_t stack_size;      /* bytes of native stack, as slot_options */
    uint64_t memory_limit;  /* bytes of linear memory; 0 = the guest's declared maximum */
    void *ctx[LINK_TABLES]; /* what the doors of each table are called with */
} instance_options;

/* A new instance at rest. With `im`, it starts from that memory and from `globals`, `globals_len`
 * bytes that instance_globals() gave; without, from the wasm file's own data segments (none of
 * its start code has run then). `opt` may be NULL.
 * BRU_EMISMATCH  the globals are not those of this guest.
 * BRU_EGUEST     its data segments do not fit its memory.
 * BRU_ELIMIT     address space, mappings, or an image beyond the memory limit.
 * BRU_ENOMEM     `*out` is NULL. */
BRU_MUST_CHECK bru_status instance_new(guest_link *l, mem_image *im, const void *globals,
                                       size_t globals_len, const instance_options *opt,
                                       instance **out, bru_error *err);

/* Not while it runs. NULL allowed. */
void instance_free(instance *i);

/* As instance_new left it, whatever happened since, limits and contexts included as they are now.
 * BRU_EBUSY  it runs: nothing was done.
 * BRU_EIO    its image's file is gone or cut short: free it. */
BRU_MUST_CHECK bru_status instance_reset(instance *i, bru_error *err);

/* Fresh instances that nobody uses at present, all of one link, image and globals. Making one costs
 * some 20 us, and the faults of its first run 200 more; taking one costs nothing. No lock: a forked
 * child finds it whole, and has its own copies. Zeroed at first. Any thread. */
#define INSTANCE_POOL 8
typedef struct instance_pool {
    _Atomic(instance *) kept[INSTANCE_POOL];
} instance_pool;

/* As instance_new(), with no stack size in `opt`, that must be given. */
BRU_MUST_CHECK bru_status instance_take(instance_pool *pool, guest_link *l, mem_image *im,
                                        const void *globals, size_t globals_len,
                                        const instance_options *opt, instance **out,
                                        bru_error *err);
/* As instance_free(); but resets the instance and keeps it, if the pool is not full. */
void instance_give(instance_pool *pool, instance *i);
void instance_pool_clear(instance_pool *pool); /* frees all that are in it */

typedef enum instance_state {
    INSTANCE_REST,
    INSTANCE_RUNNING,
    INSTANCE_PARKED,
    INSTANCE_DEAD
} instance_state;

instance_state instance_state_of(const instance *i);

/* Its linear memory now, to read or write. Good until the guest runs again or the instance is
 * reset. */
gmem instance_memory(instance *i);

/* The linear memory that it started from, borrowed; NULL if it started from the wasm file. */
mem_image *instance_image(const instance *i);

/* For snapshots, at rest: see slot_written(). */
BRU_MUST_CHECK bru_status instance_written(instance *i, slot_visit visit, void *ctx,
                                           bru_error *err);

/* Grows linear memory to `bytes` from outside, at rest: a snapshot is being put back.
 * BRU_ELIMIT beyond the memory limit; BRU_ESTATE not at rest. */
BRU_MUST_CHECK bru_status instance_grow(instance *i, uint64_t bytes, bru_error *err);

/* Appends the values of the guest's mutable globals to `out`, names included: the same bytes for
 * every native build of the same wasm file. At rest. */
BRU_MUST_CHECK bru_status instance_globals(const instance *i, buf *out, bru_error *err);

/* Sets them from such bytes, which may be hostile; at rest, until the next reset.
 * BRU_EMISMATCH  they do not fit this guest: nothing was changed. */
BRU_MUST_CHECK bru_status instance_globals_set(instance *i, const void *globals, size_t len,
                                               bru_error *err);

/* What the doors of table number `table` are called with from now on. Not while it runs. */
void instance_ctx_set(instance *i, size_t table, void *ctx);

/* How far linear memory may grow from now on, bytes; 0 = the guest's declared maximum. What was
 * grown stays. Not while it runs, except from one of its own doors. */
void instance_memory_limit(instance *i, uint64_t bytes);

typedef struct instance_usage {
    uint64_t memory;      /* linear memory, bytes */
    uint64_t memory_peak; /* the most since the last reset */
    bool grow_refused;    /* a memory.grow was refused since the flag was last cleared */
} instance_usage;

instance_usage instance_usage_of(const instance *i);
void instance_usage_clear(instance *i);   /* clears the flag; the peak starts at the present size */
slot_stats instance_measure(instance *i); /* asks the kernel; not while it runs */

/* ---- Running ------------------------------------------------------------------------------ */

/* What a soft stop writes into linear memory, on the guest's own thread, between two of its
 * instructions: aligned 32-bit stores, in order, so that an interpreter notices at its next check.
 * One that leaves the memory is skipped. */
typedef struct engine_store {
    uint32_t at, value;
    bool set_bits; /* memory |= value instead of memory = value */
} engine_store;

#define ENGINE_STORES 6
typedef struct engine_soft {
    uint32_t count;
    engine_store stores[ENGINE_STORES];
} engine_soft;

/* When a call ends against its will. Zero everywhere: never. Must stay as it is during the call.
 * At a limit the stores of `soft` are done, and `grace` later the call ends; with grace 0 or no
 * stores it ends at once. The grace after a deadline counts time that the thread ran, up to 200 ms
 * more than by the clock: a busy machine must not cost a guest its chance. */
typedef struct engine_limits {
    uint64_t deadline; /* CLOCK_MONOTONIC, ns */
    uint64_t cpu;      /* ns of CPU time that this call may still use; costs two clock reads */
    uint64_t grace;    /* ns, of the clock that ran out */
    engine_soft soft_deadline, soft_cpu, soft_interrupt;
} engine_limits;

typedef enum engine_outcome {
    ENGINE_RETURNED,   /* `value` is the export's result */
    ENGINE_PARKED,     /* a door parked it: engine_resume() when there is an answer */
    ENGINE_STOPPED,    /* a door answered DOOR_STOP */
    ENGINE_TRAPPED,    /* the guest did what it must not: `trap` */
    ENGINE_HARD_STOP,  /* the deadline passed, and the grace */
    ENGINE_CPU_STOP,   /* the CPU time was used up, and the grace */
    ENGINE_INTERRUPTED /* engine_interrupt(), and the grace */
} engine_outcome;

typedef enum engine_trap {
    ENGINE_TRAP_NONE,
    ENGINE_TRAP_OOB,
    ENGINE_TRAP_INT_OVERFLOW,
    ENGINE_TRAP_DIV_BY_ZERO,
    ENGINE_TRAP_INVALID_CONVERSION,
    ENGINE_TRAP_UNREACHABLE,
    ENGINE_TRAP_CALL_INDIRECT,
    ENGINE_TRAP_OTHER,
    ENGINE_TRAP_STACK, /* the native stack is exhausted */
    ENGINE_TRAP_IMAGE, /* the image's file was cut short or cannot be read */
    ENGINE_TRAP_FAULT  /* a fault in guest code at an address that is not the guest's */
} engine_trap;

/* "memory access out of bounds". Static. */
const char *engine_trap_text(engine_trap trap);

typedef struct engine_report {
    engine_outcome outcome;
    engine_trap trap;
    uint64_t value;
    uint64_t cpu_used; /* ns; 0 unless engine_limits.cpu was given */
    bool soft_fired;   /* a soft stop was done during this call, whatever the outcome */
} engine_report;

/* Runs export number `export` with as many arguments as its type has, until it returns or
 * something else ends it. `limits` may be NULL.
 * BRU_OK      it ran: `report` says how it went and the table above what state it is in now.
 * BRU_EBUSY   it runs already, on whatever thread.
 * BRU_ESTATE  it is parked or dead.
 * BRU_EINVAL  no such export.
 * BRU_ELIMIT  this thread can be given no timer: nothing ran. BRU_ENOMEM likewise. */
BRU_MUST_CHECK bru_status engine_call(instance *i, uint32_t export, const uint64_t *args,
                                      const engine_limits *limits, engine_report *report,
                                      bru_error *err);

/* Goes on where a door parked: calls that door again. Statuses as engine_call; BRU_ESTATE if it
 * is not parked. */
BRU_MUST_CHECK bru_status engine_resume(instance *i, const engine_limits *limits,
                                        engine_report *report, bru_error *err);

/* From any thread, while the instance lives: does the stores of `soft_interrupt` in the running
 * call, and ends it `grace` ns later; with grace 0 or no stores at once. If none runs, the next
 * call meets the wish; a call that met it takes it along, however it ends. */
void engine_interrupt(instance *i, uint64_t grace);

/* Forgets such a wish. Not while it runs, except from one of its own doors. */
void engine_interrupt_clear(instance *i);

/* From a door of the running instance: a soft stop has reached it, and the guest asks for time to
 * clean up. Once per call, the end is put off to `extension` ns from now; answers whether so. */
bool engine_soft_ack(instance *i, uint64_t extension);

/* The real-time signal that stops runaway calls; 0 = the first one from SIGRTMAX - 2 down that
 * nobody handles. Once, before the first call of the process.
 * BRU_ESTATE  a signal is in use already. BRU_EINVAL  not a real-time signal. */
BRU_MUST_CHECK bru_status engine_signal_choose(int signal, bru_error *err);

#endif
