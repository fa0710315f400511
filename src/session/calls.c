#include "session/calls.h"
#include "brumate/session.h"
#include "protocol.h"

#include <string.h>

enum { SLOTS_FIRST = 64 };

void calls_init(call_list *l) {
    *l = (call_list){ 0 };
    buf_init(&l->replies, CALLS_BYTES_MAX);
}

/* ---- The index: open addressing, at most half full ------------------------------------------- */

/* Where the search for `id` begins. Spreads ids that count up, and those that count in steps. */
static uint32_t home_of(const call_list *l, uint32_t id) {
    return (uint32_t)((id * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (l->slot_count - 1);
}

/* The slot that holds `id`, or the free one that it would go to; NULL without slots. */
static call **slot_of(const call_list *l, uint32_t id) {
    if (!l->slots) return NULL;
    uint32_t at = home_of(l, id);
    while (l->slots[at] && l->slots[at]->id != id) at = (at + 1) & (l->slot_count - 1);
    return &l->slots[at];
}

call *calls_find(const call_list *l, uint32_t id) {
    call **slot = slot_of(l, id);
    return slot ? *slot : NULL;
}

static bool make_room(call_list *l) {
    if (l->slots && l->open < l->slot_count / 2) return true;
    call_list larger = { .slot_count = l->slots ? 2 * l->slot_count : SLOTS_FIRST };
    larger.slots = mem_zero(larger.slot_count, sizeof(call *));
    if (!larger.slots) return false;
    for (uint32_t i = 0; l->slots && i < l->slot_count; i++)
        if (l->slots[i]) *slot_of(&larger, l->slots[i]->id) = l->slots[i];
    mem_free(l->slots);
    l->slots = larger.slots;
    l->slot_count = larger.slot_count;
    return true;
}

/* Empties a slot, and moves up those behind it that were kept from where they belong. */
static void vacate(call_list *l, call **slot) {
    uint32_t mask = l->slot_count - 1, hole = (uint32_t)(slot - l->slots);
    l->slots[hole] = NULL;
    for (uint32_t at = (hole + 1) & mask; l->slots[at]; at = (at + 1) & mask) {
        uint32_t home = home_of(l, l->slots[at]->id);
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        l->slots[hole] = l->slots[at];
        l->slots[at] = NULL;
        hole = at;
    }
}

/* ---- News ---------------------------------------------------------------------------------------
 */

static void news_add(call_list *l, call *c) {
    c->news = true;
    c->next = NULL;
    c->prev = l->last;
    *(l->last ? &l->last->next : &l->first) = c;
    l->last = c;
}

static void news_take(call_list *l, call *c) {
    if (!c->news) return;
    c->news = false;
    *(c->prev ? &c->prev->next : &l->first) = c->next;
    *(c->next ? &c->next->prev : &l->last) = c->prev;
}

const call *calls_next(call_list *l) {
    call *c = l->first;
    if (!c) return NULL;
    news_take(l, c);
    c->handed = true;
    return c;
}

/* ---- Calls --------------------------------------------------------------------------------------
 */

const void *call_payload(const call *c) {
    return c->name ? c->name + strlen(c->name) + 1 : "";
}

static void call_empty(call_list *l, call *c) {
    l->bytes -= c->charge;
    mem_free(c->name);
    c->name = NULL;
    c->len = c->charge = 0;
}

static void call_free(call_list *l, call *c) {
    news_take(l, c);
    call_empty(l, c);
    l->dropped -= c->dropped;
    mem_free(c);
    l->open--;
}

void calls_clear(call_list *l) {
    for (uint32_t i = 0; l->slots && l->open > 0 && i < l->slot_count; i++) {
        if (l->slots[i]) call_free(l, l->slots[i]);
        l->slots[i] = NULL;
    }
    buf_clear(&l->replies);
}

void calls_free(call_list *l) {
    calls_clear(l);
    mem_free(l->slots);
    l->slots = NULL;
    buf_free(&l->replies);
}

bru_status calls_post(call_list *l, uint32_t id, const void *name, size_t name_len,
                      const void *payload, size_t len) {
    if (len > BRU_VALUE_MAX || l->open >= CALLS_OPEN_MAX ||
        name_len + len > CALLS_BYTES_MAX - l->bytes || memchr(name, '\0', name_len) ||
        calls_find(l, id))
        return BRU_ELIMIT;
    if (!make_room(l)) return BRU_ENOMEM;
    call *c = mem_zero(1, sizeof *c);
    char *bytes = c ? mem_grow(NULL, name_len + 1 + len) : NULL;
    if (!bytes) {
        mem_free(c);
        return BRU_ENOMEM;
    }
    if (name_len) memcpy(bytes, name, name_len);
    bytes[name_len] = '\0';
    if (len) memcpy(bytes + name_len + 1, payload, len);
    c->id = id;
    c->name = bytes;
    c->len = len;
    c->charge = name_len + len;
    l->bytes += c->charge;
    c->order = l->posted++;
    l->open++;
    *slot_of(l, id) = c;
    news_add(l, c);
    return BRU_OK;
}

static void call_remove(call_list *l, call *c) {
    vacate(l, slot_of(l, c->id));
    call_free(l, c);
}

void calls_drop(call_list *l, uint32_t id) {
    call *c = calls_find(l, id);
    if (!c || c->dropped) return;
    if (!c->handed) {
        call_remove(l, c); /* nobody has seen it, nobody need know */
        return;
    }
    c->dropped = true;
    l->dropped++;
    call_empty(l, c);
    news_add(l, c);
}

static bru_status append_reply(buf *replies, const agent_reply *head, const void *data) {
    size_t before = replies->len;
    bru_status st = buf_append(replies, head, sizeof *head);
    if (!st) st = buf_append(replies, data, head->len);
    if (st) replies->len = before;
    return st;
}

bru_status calls_reply(call_list *l, uint32_t id, bool ok, const void *data, size_t len,
                       bru_error *err) {
    call *c = calls_find(l, id);
    if (!c || !(c->handed || c->known))
        return error_set(err, BRU_EINVAL, "no call %u is open: it was replied to, or never made",
                         id);
    if (len > BRU_VALUE_MAX)
        return error_set(err, BRU_ELIMIT, "a reply of %zu bytes is larger than %u bytes", len,
                         BRU_VALUE_MAX);
    agent_reply head = { .id = id, .ok = ok, .len = (uint32_t)len };
    bru_status st = c->dropped ? BRU_OK : append_reply(&l->replies, &head, data);
    if (st) return error_set(err, st, "too many replies wait for the guest: %zu bytes more", len);
    call_remove(l, c);
    return BRU_OK;
}
