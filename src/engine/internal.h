/* What the files of the engine share; no other room includes this. */
#ifndef BRU_ENGINE_INTERNAL_H
#define BRU_ENGINE_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "engine.h"
#include "fiber.h"
#include "guest_abi.h"

/* ---- guest.c, guest_file.c ----------------------------------------------------------------- */

struct guest {
    unsigned refs; /* under the registry's lock */
    struct guest *next;
    dev_t dev; /* the file, to share what is loaded already */
    ino_t ino;
    void *handle; /* of dlopen */
    const guest_descriptor *d;
    uint8_t *table; /* read-only, serves all instances; NULL if the guest has none */
    size_t table_len;
    uintptr_t text_low, text_high; /* its machine code */
};

/* Held around fork(), so that a child finds the registry of guests whole. */
void guest_registry_lock(void);
void guest_registry_unlock(void);

/* Checks that `path` is a whole shared object for this machine: loading one that was cut short
 * would be a bus error. */
bru_status guest_file_check(const char *path, int fd, bru_error *err);
/* Checks everything in a descriptor that the engine relies on. */
bru_status guest_descriptor_check(const char *path, const guest_descriptor *d, bru_error *err);

typedef struct bound_door {
    door_fn fn;
    uint32_t table;
} bound_door;

struct guest_link {
    atomic_uint refs;
    guest *g;
    bound_door *doors; /* by import number */
};

/* ---- instance.c ----------------------------------------------------------------------------- */

/* The three reasons for which a call ends against its will. */
typedef enum cause { CAUSE_DEADLINE, CAUSE_CPU, CAUSE_INTERRUPT, CAUSES } cause;

#define NEVER UINT64_MAX

/* What a running call has to keep, apart from the instance's own: reset at each entry. Written by
 * the thread that runs it and by its signal handlers; the handlers see what program order says,
 * since they run on the same thread: volatile is for them. */
typedef struct run {
    struct instance *parent;        /* the instance from one of whose doors this call was made */
    const engine_limits *limits;    /* NULL: none */
    volatile uint64_t due[CAUSES];  /* when something is to happen; deadline and interrupt:
                                     * monotonic; CPU: this thread's CPU clock */
    volatile bool hard[CAUSES];     /* the next thing is the end */
    volatile sig_atomic_t in_guest; /* guest code runs, or is about to; else host code */
    volatile sig_atomic_t mark;     /* cause + 1 of an end that has to come, 0 = none */
    volatile sig_atomic_t guarded;  /* linear memory was closed to bring the guest to a halt */
    volatile sig_atomic_t soft;     /* a soft stop was done */
    volatile uint64_t wish_seen;    /* the value of instance.wish that was acted upon */
    uint64_t soft_wall, soft_cpu;   /* the clocks at the last soft stop */
    uint64_t cpu_start;             /* this thread's CPU clock at entry, 0 if not limited */
    bool acked;
} run;

struct instance {
    guest_link *link;
    const guest_descriptor *d;
    slot *slot;
    slot_place at;
    mem_image *im;
    uint8_t *globals; /* the values to start from, as in the instance structure, or NULL */

    volatile uint64_t memory_size;
    uint64_t limit, peak;
    bool grow_refused;
    bool fresh; /* nothing can have written to it since it was made or reset */
    void *ctx[LINK_TABLES];

    atomic_int state;   /* instance_state */
    unsigned epoch;     /* process_epoch() at entry: a call does not survive into a forked child
                         * unless its thread does */
    atomic_int runner;  /* thread id that runs it, 0 = none */
    atomic_ullong wish; /* engine_interrupt(): grace + 1; 0 = none */

    void *host_sp, *guest_sp;   /* of the side that does not run: switch.h */
    const guest_export *export; /* being run; NULL: instantiate */
    const uint64_t *args;
    uint64_t value;
    volatile sig_atomic_t trap; /* engine_trap */
    fiber fiber;
    run run;
};

/* The instance is known by a pointer below its structure, out of reach of linear memory. */
#define INSTANCE_HEADER 64u
static inline struct instance **instance_slot(uint8_t *structure) {
    return (struct instance **)(void *)(structure - INSTANCE_HEADER / 4);
}

/* Grows linear memory to `bytes`, which the caller has checked against the limit. */
bru_status instance_resize(instance *i, uint64_t bytes, bru_error *err);

/* ---- run.c ---------------------------------------------------------------------------------- */

extern const guest_host engine_host; /* what every guest is bound to */

/* Runs the guest's own instantiate() the way an export is run. */
bru_status run_instantiate(instance *i, engine_report *report, bru_error *err);

/* ---- stop.c --------------------------------------------------------------------------------- */

enum { CLOCK_WALL, CLOCK_CPU, CLOCKS };

/* What a thread needs to run guests; made at its first call, freed when it ends. */
typedef struct thread_state {
    instance *volatile top; /* the innermost running instance */
    pid_t tid;
    int timer[CLOCKS];               /* kernel timer ids, -1 = none yet */
    volatile uint64_t armed[CLOCKS]; /* when they fire, NEVER = not */
    uint8_t *altstack;               /* ours, or NULL: the embedder had one */
    size_t altstack_len;
} thread_state;

/* The calling thread's, made if need be. */
bru_status thread_enter(thread_state **out, bru_error *err);
/* The calling thread's, or NULL; for signal handlers. */
thread_state *thread_now(void);

/* Makes `i` the innermost running instance of `t` and lets its limits count. */
bru_status stop_begin(thread_state *t, instance *i, const engine_limits *limits, bru_error *err);
/* The call of `i` has ended: nothing of it counts any more. */
void stop_end(thread_state *t, instance *i);
/* Acts on everything that is due in the calls of `t`; ends in marks and stores, never jumps. */
void stop_check(thread_state *t);
/* Has the timers fire for the earliest thing due in the calls of `t`. Async-signal-safe. */
bool stop_arm(thread_state *t);
/* Closes linear memory so that guest code cannot go on, and opens it again. */
void stop_guard(instance *i);
bool stop_unguard(instance *i);

/* Keeps what stop_begin() began right in a forked child, where timers are gone. */
void stop_forked(thread_state *t);

/* ---- signals.c ------------------------------------------------------------------------------ */

bru_status signals_install(bru_error *err); /* once per process; then answers the same */
int signals_stop_number(void);              /* the stop signal, after signals_install() */
unsigned process_epoch(void);               /* how many forks lie between us and the first use */
/* Gives the calling thread an alternate stack and lets it receive our signals. */
bru_status signals_thread(thread_state *t, bru_error *err);
void signals_thread_end(thread_state *t);
/* Keeps the compiler from moving what the signal handlers of this thread look at. */
#define SIGNAL_FENCE() atomic_signal_fence(memory_order_seq_cst)

#endif
