/* Slots. What they cost the machine and why they are laid out so: docs/design/memory.md. */
#include "slot.h"

#include <string.h>

#include "base/os_memory.h"
#include "image.h"
#include "written.h"

/* Below the stack. Guest code probes every page of its frames, so one page would do for it; the
 * rest is for the library functions that it calls, which do not. */
#define STACK_GUARD   ((size_t)256 << 10)
#define INSTANCE_SPAN ((size_t)64 << 10)
/* Address plus offset reaches just under 8 GiB; an access of 16 bytes there reaches past it. */
#define MEMORY_SPAN (((size_t)8 << 30) + SLOT_PAGE)

/* Bytes of touched native stack that an idle slot keeps. */
#define STACK_KEEP ((size_t)32 << 10)

/* Tracking takes as long to set up as it saves in some fifteen resets. So it begins after as many
 * that kept all that was written: a slot that is used once, or by programs that write a lot, does
 * without. */
#define TRACK_AFTER 16u

struct slot {
    slot_place at;
    uint64_t size; /* of linear memory that can be touched */
    mem_image *im; /* mapped at its start, or NULL */
    slot_mode mode;
    bool tracked;  /* the image's mapping: written_since() knows its written pages */
    unsigned fits; /* resets in a row that kept all that was written */
    uint8_t
        *kept; /* a bit per page of the image: written, copied back and kept at the last reset */
    size_t kept_len;
    unsigned kept_count;
};

/* ---- Life ---------------------------------------------------------------------------------- */

static bru_status place(size_t stack, slot_place *at, bru_error *err) {
    size_t span = STACK_GUARD + stack + INSTANCE_SPAN + MEMORY_SPAN;
    bru_status st = os_reserve(span, &at->low, err);
    if (st) return st;
    at->stack_low = at->low + STACK_GUARD;
    at->stack_top = at->instance = at->stack_low + stack;
    at->memory = at->instance + INSTANCE_SPAN;
    at->high = at->low + span;
    /* Stack and instance are one mapping. */
    return os_allow(at->stack_low, stack + INSTANCE_SPAN, err);
}

bru_status slot_new(const slot_options *opt, slot **out, bru_error *err) {
    *out = NULL;
    size_t stack = opt && opt->stack_size ? opt->stack_size : SLOT_STACK_DEFAULT;
    if (stack < (size_t)256 << 10 || stack > (size_t)1 << 30)
        return error_set(err, BRU_EINVAL, "a native stack of %zu bytes: not 256 KiB to 1 GiB",
                         stack);
    stack = (stack + SLOT_PAGE - 1) / SLOT_PAGE * SLOT_PAGE;
    slot *s = mem_zero(1, sizeof *s);
    if (!s) return error_set(err, BRU_ENOMEM, "no memory for a slot");
    bru_status st = place(stack, &s->at, err);
    s->mode = slot_mode_found();
    if (st)
        slot_free(s);
    else
        *out = s;
    return st;
}

void slot_free(slot *s) {
    if (!s) return;
    os_release(s->at.low, (size_t)(s->at.high - s->at.low));
    mem_image_unref(s->im);
    mem_free(s->kept);
    mem_free(s);
}

slot_place slot_where(const slot *s) {
    return s->at;
}

uint64_t slot_size(const slot *s) {
    return s->size;
}

void slot_mode_force(slot *s, slot_mode mode) {
    if (mode > slot_mode_found())
        s->mode = mode;
    else
        s->mode = slot_mode_found();
}

/* ---- Mapping and growing ------------------------------------------------------------------- */

/* No image and no linear memory. */
static bru_status slot_empty(slot *s, bru_error *err) {
    bru_status st = os_unmap(s->at.memory, (size_t)s->size, err);
    if (st) return st;
    mem_image_unref(s->im);
    s->im = NULL;
    s->size = 0;
    s->tracked = false; /* that ended with the mapping */
    s->fits = 0;
    mem_free(s->kept);
    s->kept = NULL;
    s->kept_len = s->kept_count = 0;
    return BRU_OK;
}

bru_status slot_map(slot *s, mem_image *im, bru_error *err) {
    bru_status st = slot_empty(s, err);
    if (st || !im) return st;
    st = mem_image_intact(im, err);
    if (st) return st;
    s->kept_len = (size_t)(mem_image_size(im) / os_page() + 7) / 8;
    s->kept = mem_zero(s->kept_len, 1);
    if (!s->kept) return error_set(err, BRU_ENOMEM, "no memory for a slot");
    st = mem_image_map(im, s->at.memory, err);
    if (st) return st;
    s->im = mem_image_ref(im);
    s->size = mem_image_size(im);
    return BRU_OK;
}

bru_status slot_grow(slot *s, uint64_t bytes, bru_error *err) {
    if (bytes < s->size || bytes > SLOT_MEMORY_MAX || bytes % SLOT_PAGE != 0)
        return error_set(err, BRU_EINVAL, "linear memory of %llu bytes cannot become %llu",
                         (unsigned long long)s->size, (unsigned long long)bytes);
    bru_status st = os_allow(s->at.memory + s->size, (size_t)(bytes - s->size), err);
    if (!st) s->size = bytes;
    return st;
}

static uint64_t image_size(const slot *s) {
    return s->im ? mem_image_size(s->im) : 0;
}

/* ---- Written pages -------------------------------------------------------------------------- */

static bool look(void *ctx, uint8_t *start, uint8_t *end) {
    (void)ctx, (void)start, (void)end;
    return false;
}

/* Whether tracking knows the image's written pages. It may have ended behind our back (in a forked
 * child, or when somebody closed the descriptor): then no mark is left, and they are found as if
 * there had been none. */
static bool tracks(slot *s) {
    if (s->tracked) s->tracked = !written_since(s->at.memory, s->at.memory + os_page(), look, NULL);
    return s->tracked;
}

static void track(slot *s) {
    s->tracked = written_track(s->at.memory, s->at.memory + s->size);
    if (!s->tracked) s->mode = SLOT_SCAN;
}

static void untrack(slot *s) {
    if (s->tracked) written_untrack(s->at.memory, s->at.memory + image_size(s));
    s->tracked = false;
    s->fits = 0;
}

/* Those of linear memory. */
static bru_status walk_memory(slot *s, written_visit visit, void *ctx) {
    uint8_t *from = s->at.memory, *end = from + s->size;
    if (tracks(s)) {
        uint8_t *grown = from + image_size(s);
        bru_status st = written_since(from, grown, visit, ctx);
        if (st) return st;
        from = grown;
    }
    return written_walk(s->mode, from, end, visit, ctx);
}

/* ---- Resetting ----------------------------------------------------------------------------- */

/* What was written, as long as it is no more than may be kept. */
typedef struct survey {
    const slot_place *at;
    size_t page, pages, most;
    uint8_t *deep; /* the lowest touched byte of the stack, or NULL */
    unsigned count;
    struct {
        uint8_t *start, *end;
    } ranges[SLOT_KEEP_MAX];
} survey;

static bool survey_range(void *ctx, uint8_t *start, uint8_t *end) {
    survey *v = ctx;
    if (!v->deep && start < v->at->stack_top) v->deep = start;
    if (start < v->at->memory) start = v->at->memory;
    if (start >= end) return true;
    v->pages += (size_t)(end - start) / v->page;
    if (v->pages > v->most) return false;
    v->ranges[v->count].start = start;
    v->ranges[v->count++].end = end;
    return true;
}

static void kept_clear(slot *s) {
    if (s->kept) memset(s->kept, 0, s->kept_len);
    s->kept_count = 0;
}

static void kept_add(slot *s, size_t page) {
    s->kept[page / 8] |= (uint8_t)(1u << page % 8);
    s->kept_count++;
}

static bool was_kept(const slot *s, size_t page) {
    return s->kept[page / 8] >> page % 8 & 1;
}

static void copy_back(slot *s, const survey *v) {
    kept_clear(s);
    for (unsigned i = 0; i < v->count; i++) {
        uint8_t *start = v->ranges[i].start, *end = v->ranges[i].end;
        size_t from = (size_t)(start - s->at.memory), to = (size_t)(end - s->at.memory);
        memcpy(start, mem_image_bytes(s->im) + from, to - from);
        for (size_t at = from; at < to; at += v->page) kept_add(s, at / v->page);
    }
}

/* Too much was written to keep it all. What this run changed stays, if the last reset kept it too
 * (every run writes those pages); what others it changed, as far as there is room. So one large run
 * does not cost the small ones after it their pages. All between goes, pages that were only read as
 * well: a scan takes its time for each page that is mapped. */
typedef struct selection {
    slot *s;
    size_t page, room[2]; /* for pages that were not kept before, and that were */
    uint8_t *from;        /* nothing is kept from here on, so far */
    unsigned count;
    uint32_t pages[SLOT_KEEP_MAX]; /* kept */
} selection;

static bool select_range(void *ctx, uint8_t *start, uint8_t *end) {
    selection *c = ctx;
    const slot *s = c->s;
    for (uint8_t *p = start; p < end; p += c->page) {
        size_t at = (size_t)(p - s->at.memory);
        const uint8_t *was = mem_image_bytes(s->im) + at;
        size_t *room = &c->room[was_kept(s, at / c->page)];
        if (*room == 0 || memcmp(p, was, c->page) == 0) continue;
        memcpy(p, was, c->page);
        os_discard(c->from, (size_t)(p - c->from));
        c->from = p + c->page;
        c->pages[c->count++] = (uint32_t)(at / c->page);
        --*room;
    }
    return true;
}

static void select_pages(slot *s, size_t most) {
    size_t before = s->kept_count < most ? s->kept_count : most;
    uint8_t *memory = s->at.memory, *end = memory + s->size;
    selection c = { .s = s, .page = os_page(), .room = { most - before, before }, .from = memory };
    untrack(s);
    bool walked = !written_walk(s->mode, memory, end, select_range, &c);
    if (!walked) {
        c.from = memory;
        c.count = 0;
    }
    os_discard(c.from, (size_t)(end - c.from));
    kept_clear(s);
    for (unsigned i = 0; i < c.count; i++) kept_add(s, c.pages[i]);
}

size_t slot_kept(const slot *s) {
    return s->kept_count;
}

/* Contents first: forbidding alone would keep the pages. */
static bru_status drop_grown(slot *s, bru_error *err) {
    uint64_t from = image_size(s);
    uint8_t *grown = s->at.memory + from;
    if (s->size == from) return BRU_OK;
    os_discard(grown, (size_t)(s->size - from));
    bru_status st = os_forbid(grown, (size_t)(s->size - from), err);
    if (!st) s->size = from;
    return st;
}

/* What stays of the touched stack, from `deep` on, is wiped. */
static void clean_stack(slot *s, uint8_t *deep) {
    uint8_t *keep = s->at.stack_top - STACK_KEEP;
    if (deep < keep) os_discard(s->at.stack_low, (size_t)(keep - s->at.stack_low));
    if (deep < keep) deep = keep;
    memset(deep, 0, (size_t)(s->at.stack_top - deep));
}

/* A scan passes the untouched part of the stack in no time, so it is looked at too, in the same
 * call if possible; entries would have to be read one by one. */
static bool look_around(slot *s, survey *v, bool scan) {
    uint8_t *memory = s->at.memory, *end = memory + s->size;
    if (tracks(s))
        return !written_walk(s->mode, s->at.stack_low, s->at.stack_top, survey_range, v) &&
               !written_since(memory, end, survey_range, v);
    return !written_walk(s->mode, scan ? s->at.stack_low : memory, end, survey_range, v);
}

/* Tracking begins before pages are copied back: they stay, and are to be copied back next time. */
static void restore_pages(slot *s, size_t most) {
    bool scan = s->mode <= SLOT_SCAN;
    survey v = { .at = &s->at, .page = os_page(), .most = most };
    bool walked = look_around(s, &v, scan);
    if (walked && v.pages <= most) {
        if (s->mode == SLOT_TRACK && s->im && !s->tracked && ++s->fits >= TRACK_AFTER) track(s);
        copy_back(s, &v);
    } else {
        select_pages(s, most);
    }
    if (!walked || !scan)
        os_discard(s->at.stack_low, (size_t)(s->at.stack_top - s->at.stack_low));
    else if (v.deep)
        clean_stack(s, v.deep);
}

bru_status slot_reset(slot *s, size_t keep, bru_error *err) {
    bru_status st = drop_grown(s, err);
    if (!st && s->im && mem_image_intact(s->im, NULL)) {
        st = slot_empty(s, err);
        if (!st) st = error_set(err, BRU_EIO, "the image's file was cut short while in use");
    }
    if (!st) restore_pages(s, keep < SLOT_KEEP_MAX ? keep : SLOT_KEEP_MAX);
    return st;
}

/* ---- Looking ------------------------------------------------------------------------------- */

/* Page by page, private ones are compared with what they started as; equal neighbours in
 * difference become one visit. */
typedef struct compare {
    const slot *s;
    slot_visit visit;
    void *ctx;
    uint64_t from, to; /* differing range not yet visited; empty if equal */
    bool stopped;
} compare;

static bool page_changed(const slot *s, uint64_t at, size_t page) {
    const uint8_t *now = s->at.memory + at;
    if (at < image_size(s)) return memcmp(now, mem_image_bytes(s->im) + at, page) != 0;
    return now[0] != 0 || memcmp(now, now + 1, page - 1) != 0;
}

static void compare_flush(compare *c) {
    if (c->from < c->to && !c->stopped) c->stopped = !c->visit(c->ctx, c->from, c->to - c->from);
    c->from = c->to;
}

static bool compare_range(void *ctx, uint8_t *start, uint8_t *end) {
    compare *c = ctx;
    size_t page = os_page();
    for (uint8_t *p = start; p < end && !c->stopped; p += page) {
        uint64_t at = (uint64_t)(p - c->s->at.memory);
        if (!page_changed(c->s, at, page)) continue;
        if (c->to != at) {
            compare_flush(c);
            c->from = at;
        }
        c->to = at + page;
    }
    return !c->stopped;
}

bru_status slot_written(slot *s, slot_visit visit, void *ctx, bru_error *err) {
    bru_status st = s->im ? mem_image_intact(s->im, err) : BRU_OK;
    if (st) return st;
    compare c = { s, visit, ctx, 0, 0, false };
    uint8_t *end = s->at.memory + s->size;
    if (s->mode != SLOT_DISCARD)
        st = walk_memory(s, compare_range, &c);
    else
        compare_range(&c, s->at.memory, end);
    if (st) return error_set(err, st, "written pages cannot be found any more on this machine");
    compare_flush(&c);
    return BRU_OK;
}

static bool measure_range(void *ctx, uint8_t *start, uint8_t *end) {
    *(uint64_t *)ctx += (uint64_t)(end - start);
    return true;
}

slot_stats slot_measure(slot *s) {
    slot_stats stats = { 0, s->size - image_size(s), 0 };
    bool known =
        !walk_memory(s, measure_range, &stats.written) &&
        !written_walk(s->mode, s->at.stack_low, s->at.stack_top, measure_range, &stats.stack);
    if (!known) stats.written = stats.stack = 0;
    return stats;
}
