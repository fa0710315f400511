/* Instances: made, reset, looked into; not run. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Linear memory --------------------------------------------------------------------------- */

/* Grows to `bytes`, which the caller has checked against the limit. */
bru_status instance_resize(instance *i, uint64_t bytes, bru_error *err) {
    i->fresh = false;
    bru_status st = slot_grow(i->slot, bytes, err);
    if (st) return st;
    i->memory_size = bytes;
    if (bytes > i->peak) i->peak = bytes;
    i->d->resize(i->at.instance, (uint32_t)(bytes / GUEST_PAGE));
    return BRU_OK;
}

/* ---- Globals --------------------------------------------------------------------------------- */

/* A format byte, then each global in the order of the wasm file: size (1), length of the name (2,
 * little-endian), name, value. */
#define GLOBALS_FORMAT 1u

bru_status instance_globals(const instance *i, buf *out, bru_error *err) {
    uint8_t format = GLOBALS_FORMAT;
    bru_status st = buf_append(out, &format, 1);
    for (uint32_t n = 0; !st && n < i->d->global_count; n++) {
        const guest_global *g = &i->d->globals[n];
        size_t name = strlen(g->name);
        uint8_t head[3] = { (uint8_t)g->size, (uint8_t)name, (uint8_t)(name >> 8) };
        st = buf_append(out, head, sizeof head);
        if (!st) st = buf_append(out, g->name, name);
        if (!st) st = buf_append(out, i->at.instance + g->offset, g->size);
    }
    return st ? error_set(err, st, "no room for the guest's globals") : BRU_OK;
}

/* Reads one global's head and answers where its value lies, or NULL. */
static const uint8_t *global_match(const guest_global *g, const uint8_t *at, const uint8_t *end) {
    size_t name = strlen(g->name);
    if ((size_t)(end - at) < 3 + name + g->size) return NULL;
    if (at[0] != g->size || (size_t)(at[1] | at[2] << 8) != name) return NULL;
    return memcmp(at + 3, g->name, name) == 0 ? at + 3 + name : NULL;
}

/* Copies the values to where they lie in an instance structure, `into`; all or none. */
static bru_status globals_read(const guest_descriptor *d, const uint8_t *bytes, size_t len,
                               uint8_t *into, bru_error *err) {
    for (int pass = 0; pass < 2; pass++) {
        const uint8_t *at = bytes, *end = bytes + len;
        bool fits = len > 0 && *at++ == GLOBALS_FORMAT;
        for (uint32_t n = 0; fits && n < d->global_count; n++) {
            const guest_global *g = &d->globals[n];
            at = global_match(g, at, end);
            fits = at != NULL;
            if (fits && pass == 1) memcpy(into + g->offset, at, g->size);
            if (fits) at += g->size;
        }
        if (!fits || at != end)
            return error_set(err, BRU_EMISMATCH, "the globals were saved by another guest than %s",
                             d->name);
    }
    return BRU_OK;
}

static bool not_at_rest(const instance *i, bru_error *err, bru_status *st) {
    if (instance_state_of(i) == INSTANCE_REST) return false;
    *st = error_set(err, BRU_ESTATE, "the instance is not at rest");
    return true;
}

bru_status instance_globals_set(instance *i, const void *globals, size_t len, bru_error *err) {
    bru_status st;
    if (not_at_rest(i, err, &st)) return st;
    i->fresh = false;
    return globals_read(i->d, globals, len, i->at.instance, err);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* A new instance structure; linear memory is there already. */
static void attach(instance *i) {
    memset(i->at.instance, 0, i->d->instance_size);
    *instance_slot(i->at.instance) = i;
    i->d->attach(i->at.instance, i->link->g->table, (uint32_t)(i->memory_size / GUEST_PAGE));
    for (uint32_t n = 0; i->globals && n < i->d->global_count; n++) {
        const guest_global *g = &i->d->globals[n];
        memcpy(i->at.instance + g->offset, i->globals + g->offset, g->size);
    }
}

static bru_status instantiate(instance *i, bru_error *err) {
    engine_report report;
    bru_status st = run_instantiate(i, &report, err);
    if (st || report.outcome == ENGINE_RETURNED) return st;
    return error_set(err, BRU_EGUEST, "guest %s cannot be instantiated: %s", i->d->name,
                     engine_trap_text(report.trap));
}

/* The slot is as slot_map left it: makes of it an instance at rest. */
static bru_status begin(instance *i, bru_error *err) {
    bru_status st = BRU_OK;
    if (!i->im) st = slot_grow(i->slot, (uint64_t)i->d->initial_pages * GUEST_PAGE, err);
    if (st) return st;
    i->memory_size = i->peak = slot_size(i->slot);
    i->guest_sp = NULL;
    i->grow_refused = false;
    attach(i);
    atomic_store(&i->state, INSTANCE_REST);
    i->fresh = true;
    return i->im ? BRU_OK : instantiate(i, err);
}

static uint64_t limit_of(const guest_descriptor *d, uint64_t asked) {
    uint64_t most = (uint64_t)d->max_pages * GUEST_PAGE;
    return asked == 0 || asked > most ? most : asked;
}

static bru_status memory_check(const instance *i, bru_error *err) {
    uint64_t need = i->im ? mem_image_size(i->im) : (uint64_t)i->d->initial_pages * GUEST_PAGE;
    if (need <= i->limit) return BRU_OK;
    return error_set(
        err, BRU_ELIMIT, "guest %s starts with %llu KiB of memory, more than its limit of %llu KiB",
        i->d->name, (unsigned long long)need >> 10, (unsigned long long)i->limit >> 10);
}

static bru_status build(instance *i, const void *globals, size_t globals_len, size_t stack_size,
                        bru_error *err) {
    bru_status st = memory_check(i, err);
    if (!st && i->im) {
        i->globals = mem_zero(1, i->d->instance_size);
        if (!i->globals) st = error_set(err, BRU_ENOMEM, "no memory for a guest's globals");
        if (!st) st = globals_read(i->d, globals, globals_len, i->globals, err);
    }
    slot_options opt = { .size = sizeof opt, .stack_size = stack_size };
    if (!st) st = slot_new(&opt, &i->slot, err);
    if (!st) st = slot_map(i->slot, i->im, err);
    if (st) return st;
    i->at = slot_where(i->slot);
    i->fiber.low = i->at.stack_low;
    i->fiber.len = (size_t)(i->at.stack_top - i->at.stack_low);
    return begin(i, err);
}

bru_status instance_new(guest_link *l, mem_image *im, const void *globals, size_t globals_len,
                        const instance_options *opt, instance **out, bru_error *err) {
    *out = NULL;
    instance *i = mem_zero(1, sizeof *i);
    if (!i) return error_set(err, BRU_ENOMEM, "no memory for an instance");
    i->link = guest_link_ref(l);
    i->d = l->g->d;
    i->im = im ? mem_image_ref(im) : NULL;
    i->limit = limit_of(i->d, opt ? opt->memory_limit : 0);
    if (opt) memcpy(i->ctx, opt->ctx, sizeof i->ctx);
    bru_status st = build(i, globals, globals_len, opt ? opt->stack_size : 0, err);
    if (st)
        instance_free(i);
    else
        *out = i;
    return st;
}

void instance_free(instance *i) {
    if (!i || instance_state_of(i) == INSTANCE_RUNNING) return;
    fiber_free(&i->fiber);
    slot_free(i->slot);
    mem_image_unref(i->im);
    guest_link_unref(i->link);
    mem_free(i->globals);
    mem_free(i);
}

static bru_status reset(instance *i, size_t keep, bru_error *err) {
    if (instance_state_of(i) == INSTANCE_RUNNING)
        return error_set(err, BRU_EBUSY, "the instance is running");
    atomic_store(&i->state, INSTANCE_DEAD);
    i->fresh = false;
    if (!stop_unguard(i))
        return error_set(err, BRU_ELIMIT, "the instance's memory cannot be opened again");
    fiber_forget(&i->fiber);
    bru_status st = slot_reset(i->slot, keep, err);
    return st ? st : begin(i, err);
}

bru_status instance_reset(instance *i, bru_error *err) {
    return reset(i, SLOT_KEEP_MAX, err);
}

/* ---- Keeping what is not used at present ----------------------------------------------------- */

/* Written pages that each kept instance holds on to; a line of Python writes some 60. */
#define POOL_PAGES 68u

bru_status instance_take(instance_pool *pool, guest_link *l, mem_image *im, const void *globals,
                         size_t globals_len, const instance_options *opt, instance **out,
                         bru_error *err) {
    *out = NULL;
    for (size_t n = 0; n < INSTANCE_POOL && !*out; n++)
        if (atomic_load_explicit(&pool->kept[n], memory_order_relaxed))
            *out = atomic_exchange(&pool->kept[n], NULL);
    if (!*out) return instance_new(l, im, globals, globals_len, opt, out, err);
    memcpy((*out)->ctx, opt->ctx, sizeof opt->ctx);
    instance_memory_limit(*out, opt->memory_limit);
    return BRU_OK;
}

static bool pool_has_room(instance_pool *pool) {
    for (size_t n = 0; n < INSTANCE_POOL; n++)
        if (!atomic_load_explicit(&pool->kept[n], memory_order_relaxed)) return true;
    return false;
}

/* A session that did not run, or was reset behind its last run, has left nothing to clean. */
static bool make_fresh(instance *i) {
    if (i->fresh && slot_kept(i->slot) <= POOL_PAGES) return true;
    return reset(i, POOL_PAGES, NULL) == BRU_OK;
}

void instance_give(instance_pool *pool, instance *i) {
    bool fresh = i && pool_has_room(pool) && make_fresh(i);
    if (fresh) {
        memset(i->ctx, 0, sizeof i->ctx);
        engine_interrupt_clear(i);
    }
    for (size_t n = 0; fresh && n < INSTANCE_POOL; n++) {
        instance *none = NULL;
        if (atomic_compare_exchange_strong(&pool->kept[n], &none, i)) return;
    }
    instance_free(i);
}

void instance_pool_clear(instance_pool *pool) {
    for (size_t n = 0; n < INSTANCE_POOL; n++) instance_free(atomic_exchange(&pool->kept[n], NULL));
}

/* ---- Looking and setting --------------------------------------------------------------------- */

instance_state instance_state_of(const instance *i) {
    instance_state state = (instance_state)atomic_load_explicit(&i->state, memory_order_acquire);
    /* A thread that did not come along into this process will not finish its call. */
    if (state == INSTANCE_RUNNING && i->epoch != process_epoch()) return INSTANCE_DEAD;
    return state;
}

gmem instance_memory(instance *i) {
    i->fresh = false; /* who asks for it may write */
    return (gmem){ i->at.memory, i->run.guarded ? 0 : i->memory_size };
}

mem_image *instance_image(const instance *i) {
    return i->im;
}

bru_status instance_written(instance *i, slot_visit visit, void *ctx, bru_error *err) {
    bru_status st;
    if (not_at_rest(i, err, &st)) return st;
    return slot_written(i->slot, visit, ctx, err);
}

bru_status instance_grow(instance *i, uint64_t bytes, bru_error *err) {
    bru_status st;
    if (not_at_rest(i, err, &st)) return st;
    if (bytes > i->limit)
        return error_set(err, BRU_ELIMIT, "%llu KiB are more than the memory limit of %llu KiB",
                         (unsigned long long)bytes >> 10, (unsigned long long)i->limit >> 10);
    return instance_resize(i, bytes, err);
}

void instance_ctx_set(instance *i, size_t table, void *ctx) {
    if (table < LINK_TABLES) i->ctx[table] = ctx;
}

void instance_memory_limit(instance *i, uint64_t bytes) {
    i->limit = limit_of(i->d, bytes);
}

instance_usage instance_usage_of(const instance *i) {
    return (instance_usage){ i->memory_size, i->peak, i->grow_refused };
}

void instance_usage_clear(instance *i) {
    i->grow_refused = false;
    i->peak = i->memory_size;
}

slot_stats instance_measure(instance *i) {
    return slot_measure(i->slot);
}
