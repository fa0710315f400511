/* Running guests: onto the instance's stack and back, and what guest code may ask of us.
 *
 * Guest code runs on the instance's stack; everything that it calls here runs on the stack of
 * whoever called engine_call(), since host code, and the embedder's behind it, may need more stack
 * than the guest has left, and may look at where its stack lies. */
#include "internal.h"
#include "switch.h"

#include <stdlib.h>

/* ---- Guest's side and host's side ------------------------------------------------------------ */

/* Reads below the stack pointer: what we need of the guest's stack must be there before the
 * thread counts as being in host code, where a fault on the guard would be taken for the host's. */
#if defined(FIBER_ASAN) || defined(FIBER_TSAN)
#define STACK_NEEDED 65536
#else
#define STACK_NEEDED 8192
#endif

/* Leaves the guest's side, for as long as a call of the host takes. */
static inline void host_side(instance *i, uintptr_t stack) {
    (void)*(volatile const char *)(stack - STACK_NEEDED);
    SIGNAL_FENCE();
    i->run.in_guest = 0;
    SIGNAL_FENCE();
    if (i->run.mark) switch_drop(i->host_sp, SWITCH_MARKED);
}

/* Back to the guest's side, unless the call has to end. Marked as guest first: a stop that comes
 * later finds it so and ends it. */
static inline void guest_side(instance *i) {
    i->run.in_guest = 1;
    SIGNAL_FENCE();
    if (!i->run.mark) return;
    i->run.in_guest = 0;
    switch_drop(i->host_sp, SWITCH_MARKED);
}

#define HERE() ((uintptr_t)__builtin_frame_address(0))

static inline void on_host_stack(instance *i, void (*fn)(void *), void *arg) {
    fiber_to_host(&i->fiber);
    switch_call(i->host_sp, fn, arg);
    fiber_in_guest(&i->fiber);
}

/* ---- What the guest calls -------------------------------------------------------------------- */

typedef struct door_call {
    instance *i;
    const bound_door *door;
    const uint64_t *args;
    uint64_t result;
    door_next next;
} door_call;

static NOT_CHECKED void door_main(void *arg) {
    door_call *c = arg;
    fiber_in_host(&c->i->fiber);
    gmem memory = { c->i->at.memory, c->i->memory_size };
    c->next = c->door->fn(c->i->ctx[c->door->table], memory, c->args, &c->result);
    fiber_to_guest(&c->i->fiber);
}

/* Returns on resuming, maybe on another thread: nothing that belongs to a thread may be kept in a
 * variable across it. */
static NOT_CHECKED void park(instance *i) {
    fiber_to_host(&i->fiber);
    switch_park(&i->guest_sp, i->host_sp, SWITCH_PARKED);
    fiber_in_guest(&i->fiber);
    if (i->run.mark) switch_drop(i->host_sp, SWITCH_MARKED);
}

static NOT_CHECKED uint64_t host_import(void *structure, uint32_t index, const uint64_t *args) {
    instance *i = *instance_slot(structure);
    host_side(i, HERE());
    door_call c = { i, &i->link->doors[index], args, 0, DOOR_RETURN };
    for (;;) {
        on_host_stack(i, door_main, &c);
        if (c.next != DOOR_PARK) break;
        if (i->run.mark) switch_drop(i->host_sp, SWITCH_MARKED);
        park(i);
    }
    if (c.next == DOOR_STOP) switch_drop(i->host_sp, SWITCH_STOPPED);
    guest_side(i);
    return c.result;
}

typedef struct grow_call {
    instance *i;
    uint64_t pages, before;
} grow_call;

static NOT_CHECKED void grow_main(void *arg) {
    grow_call *c = arg;
    instance *i = c->i;
    fiber_in_host(&i->fiber);
    uint64_t now = i->memory_size / GUEST_PAGE;
    uint64_t left = i->limit > i->memory_size ? (i->limit - i->memory_size) / GUEST_PAGE : 0;
    c->before = UINT64_MAX;
    if (c->pages == 0)
        c->before = now;
    else if (c->pages <= left && !instance_resize(i, (now + c->pages) * GUEST_PAGE, NULL))
        c->before = now;
    if (c->before == UINT64_MAX) i->grow_refused = true;
    fiber_to_guest(&i->fiber);
}

static NOT_CHECKED uint64_t host_grow(void *structure, uint64_t pages) {
    instance *i = *instance_slot(structure);
    host_side(i, HERE());
    grow_call c = { i, pages, 0 };
    on_host_stack(i, grow_main, &c);
    guest_side(i);
    return c.before;
}

static NOT_CHECKED void host_trap(guest_trap why) {
    thread_state *t = thread_now();
    instance *i = t ? t->top : NULL;
    if (!i || !i->run.in_guest) abort(); /* the guest's C broke the contract outside of a call */
    host_side(i, HERE());
    i->trap = why >= GUEST_TRAP_OOB && why <= GUEST_TRAP_OTHER ? (int)why : ENGINE_TRAP_OTHER;
    switch_drop(i->host_sp, SWITCH_TRAPPED);
}

const guest_host engine_host = { GUEST_ABI_VERSION, host_trap, host_grow, host_import };

_Static_assert((int)GUEST_TRAP_OOB == (int)ENGINE_TRAP_OOB &&
                   (int)GUEST_TRAP_OTHER == (int)ENGINE_TRAP_OTHER,
               "the guest's traps are the first of ours");

/* ---- Entering -------------------------------------------------------------------------------- */

/* The first function on the instance's stack. */
static NOT_CHECKED void guest_main(void *arg) {
    instance *i = arg;
    fiber_in_guest(&i->fiber);
    guest_side(i);
    if (i->export)
        i->value = i->export->call(i->at.instance, i->args);
    else
        i->d->instantiate(i->at.instance);
    SIGNAL_FENCE();
    i->run.in_guest = 0;
    SIGNAL_FENCE();
    fiber_end(&i->fiber);
}

static NOT_CHECKED switch_code enter(instance *i) {
    void *parked = i->guest_sp;
    i->guest_sp = NULL;
    fiber_to_guest(&i->fiber);
    int code = parked ? switch_resume(&i->host_sp, parked)
                      : switch_start(&i->host_sp, i->at.instance - INSTANCE_HEADER, guest_main, i);
    if (code == SWITCH_RETURNED || code == SWITCH_PARKED)
        fiber_in_host(&i->fiber);
    else
        fiber_jumped(&i->fiber);
    return (switch_code)code;
}

static engine_outcome outcome_of(const instance *i, switch_code code) {
    static const engine_outcome ends[CAUSES] = { ENGINE_HARD_STOP, ENGINE_CPU_STOP,
                                                 ENGINE_INTERRUPTED };
    switch (code) {
    case SWITCH_RETURNED: return ENGINE_RETURNED;
    case SWITCH_PARKED: return ENGINE_PARKED;
    case SWITCH_STOPPED: return ENGINE_STOPPED;
    case SWITCH_TRAPPED: return ENGINE_TRAPPED;
    default: return ends[i->run.mark - 1];
    }
}

static instance_state state_after(engine_outcome outcome) {
    if (outcome == ENGINE_RETURNED) return INSTANCE_REST;
    return outcome == ENGINE_PARKED ? INSTANCE_PARKED : INSTANCE_DEAD;
}

/* The instance is claimed: its state says RUNNING. */
static bru_status run_claimed(instance *i, const engine_limits *limits, engine_report *report,
                              bru_error *err) {
    thread_state *t;
    bru_status st = thread_enter(&t, err);
    if (!st) st = stop_begin(t, i, limits, err);
    if (st) return st;
    i->trap = ENGINE_TRAP_NONE;
    i->value = 0;
    switch_code code = i->run.mark ? SWITCH_MARKED : enter(i);
    stop_end(t, i);
    uint64_t cpu = i->run.cpu_start;
    *report = (engine_report){ .outcome = outcome_of(i, code),
                               .trap = (engine_trap)i->trap,
                               .value = code == SWITCH_RETURNED ? i->value : 0,
                               .cpu_used = cpu ? clock_thread_cpu() - cpu : 0,
                               .soft_fired = i->run.soft };
    atomic_store_explicit(&i->state, state_after(report->outcome), memory_order_release);
    return BRU_OK;
}

/* Claims the instance, which must be in state `from`, and runs it: `export` with `args` from its
 * beginning, or where it was parked. */
static bru_status run_from(instance *i, instance_state from, const guest_export *export,
                           const uint64_t *args, const engine_limits *limits, engine_report *report,
                           bru_error *err) {
    int was = from;
    if (!atomic_compare_exchange_strong(&i->state, &was, INSTANCE_RUNNING)) {
        static const char *const names[] = { "at rest", "running", "parked", "dead" };
        instance_state now = instance_state_of(i);
        return error_set(err, now == INSTANCE_RUNNING ? BRU_EBUSY : BRU_ESTATE,
                         "the instance is %s", names[now]);
    }
    i->fresh = false;
    i->export = export;
    i->args = args;
    bru_status st = run_claimed(i, limits, report, err);
    if (st) atomic_store(&i->state, from);
    return st;
}

bru_status engine_call(instance *i, uint32_t export, const uint64_t *args,
                       const engine_limits *limits, engine_report *report, bru_error *err) {
    if (export >= i->d->export_count)
        return error_set(err, BRU_EINVAL, "guest %s has no export number %u", i->d->name, export);
    return run_from(i, INSTANCE_REST, &i->d->exports[export], args, limits, report, err);
}

bru_status engine_resume(instance *i, const engine_limits *limits, engine_report *report,
                         bru_error *err) {
    return run_from(i, INSTANCE_PARKED, NULL, NULL, limits, report, err);
}

bru_status run_instantiate(instance *i, engine_report *report, bru_error *err) {
    return run_from(i, INSTANCE_REST, NULL, NULL, NULL, report, err);
}

const char *engine_trap_text(engine_trap trap) {
    static const char *const texts[] = {
        [ENGINE_TRAP_NONE] = "no trap",
        [ENGINE_TRAP_OOB] = "memory access out of bounds",
        [ENGINE_TRAP_INT_OVERFLOW] = "integer overflow",
        [ENGINE_TRAP_DIV_BY_ZERO] = "integer division by zero",
        [ENGINE_TRAP_INVALID_CONVERSION] = "invalid conversion to integer",
        [ENGINE_TRAP_UNREACHABLE] = "unreachable code",
        [ENGINE_TRAP_CALL_INDIRECT] = "indirect call of a missing function or of another type",
        [ENGINE_TRAP_OTHER] = "trap",
        [ENGINE_TRAP_STACK] = "native stack exhausted",
        [ENGINE_TRAP_IMAGE] = "the image file was cut short or cannot be read",
        [ENGINE_TRAP_FAULT] = "fault in guest code",
    };
    return (size_t)trap < sizeof texts / sizeof *texts ? texts[trap] : "unknown trap";
}
