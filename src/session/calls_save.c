#include "session/calls_save.h"

#include <stdlib.h>
#include <string.h>

typedef struct head {
    uint32_t id, name_len;
    uint64_t len;
} head;

static int by_order(const void *a, const void *b) {
    const call *const *x = a, *const *y = b;
    return ((*x)->order > (*y)->order) - ((*x)->order < (*y)->order);
}

static bru_status save_one(const call *c, buf *out) {
    size_t name = strlen(c->name);
    head h = { c->id, (uint32_t)name, c->len };
    bru_status st = buf_append(out, &h, sizeof h);
    if (!st) st = buf_append(out, c->name, name);
    return st ? st : buf_append(out, call_payload(c), c->len);
}

bru_status calls_save(const call_list *l, buf *out, uint32_t *count) {
    const call **open = mem_zero((size_t)l->open + 1, sizeof *open);
    bru_status st = open ? BRU_OK : BRU_ENOMEM;
    *count = 0;
    for (uint32_t i = 0; !st && i < l->slot_count; i++)
        if (l->slots[i] && !l->slots[i]->dropped) open[(*count)++] = l->slots[i];
    if (!st) qsort(open, *count, sizeof *open, by_order);
    for (uint32_t i = 0; !st && i < *count; i++) st = save_one(open[i], out);
    mem_free(open);
    return st;
}

const uint8_t *calls_saved_next(const uint8_t *at, saved_call *out) {
    head h;
    memcpy(&h, at, sizeof h);
    at += sizeof h;
    *out = (saved_call){ h.id, h.name_len, (size_t)h.len, (const char *)at, at + h.name_len };
    return at + h.name_len + h.len;
}

bool calls_saved(const uint8_t *bytes, size_t len, uint32_t count) {
    if (count > CALLS_OPEN_MAX) return false;
    for (uint32_t i = 0; i < count; i++) {
        head h;
        if (len < sizeof h) return false;
        memcpy(&h, bytes, sizeof h);
        len -= sizeof h;
        if (h.name_len > len || h.len > len - h.name_len) return false;
        if (memchr(bytes + sizeof h, '\0', h.name_len)) return false;
        len -= h.name_len + (size_t)h.len;
        bytes += sizeof h + h.name_len + h.len;
    }
    return len == 0;
}

bru_status calls_load(call_list *l, const uint8_t *bytes, uint32_t count) {
    bru_status st = BRU_OK;
    for (uint32_t i = 0; !st && i < count; i++) {
        saved_call c;
        bytes = calls_saved_next(bytes, &c);
        st = calls_post(l, c.id, c.name, c.name_len, c.payload, c.len);
        if (!st) calls_find(l, c.id)->known = true;
    }
    return st;
}
