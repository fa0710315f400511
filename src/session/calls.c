#include "session/calls.h"
#include "protocol.h"

#include <string.h>

void calls_init(call_list *l) {
    *l = (call_list){ 0 };
    l->last = &l->first;
    buf_init(&l->replies, CALLS_BYTES_MAX);
}

static void call_empty(call_list *l, call *c) {
    if (c->name) l->bytes -= strlen(c->name) + c->len;
    mem_free(c->name);
    mem_free(c->payload);
    c->name = NULL;
    c->payload = NULL;
    c->len = 0;
}

static void call_remove(call_list *l, call **at) {
    call *c = *at;
    *at = c->next;
    if (!*at) l->last = at;
    call_empty(l, c);
    mem_free(c);
    l->open--;
}

void calls_clear(call_list *l) {
    while (l->first) call_remove(l, &l->first);
    buf_clear(&l->replies);
}

void calls_free(call_list *l) {
    calls_clear(l);
    buf_free(&l->replies);
}

static call **call_find(call_list *l, uint32_t id) {
    call **at = &l->first;
    while (*at && (*at)->id != id) at = &(*at)->next;
    return at;
}

bru_status calls_post(call_list *l, uint32_t id, const void *name, size_t name_len,
                      const void *payload, size_t len) {
    if (l->open >= CALLS_OPEN_MAX || name_len + len > CALLS_BYTES_MAX - l->bytes ||
        memchr(name, '\0', name_len) || *call_find(l, id))
        return BRU_ELIMIT;
    call *c = mem_zero(1, sizeof *c);
    if (!c) return BRU_ENOMEM;
    c->id = id;
    c->name = mem_copy(name, name_len);
    c->payload = mem_copy(payload, len);
    if (!c->name || !c->payload) {
        mem_free(c->name);
        mem_free(c->payload);
        mem_free(c);
        return BRU_ENOMEM;
    }
    c->len = len;
    l->bytes += name_len + len;
    l->open++;
    *l->last = c;
    l->last = &c->next;
    return BRU_OK;
}

void calls_drop(call_list *l, uint32_t id) {
    call **at = call_find(l, id);
    if (*at && !(*at)->handed)
        call_remove(l, at); /* nobody has seen it, nobody need know */
    else if (*at)
        (*at)->dropped = true;
}

call *calls_unseen(call_list *l) {
    call *c = l->first;
    while (c && c->handed && !(c->dropped && !c->drop_handed)) c = c->next;
    return c;
}

void calls_settle(call_list *l) {
    for (call *c = l->first; c && c->handed; c = c->next) call_empty(l, c);
}

bru_status calls_reply(call_list *l, uint32_t id, bool ok, const void *data, size_t len,
                       bru_error *err) {
    call **at = call_find(l, id);
    if (!*at || !(*at)->handed)
        return error_set(err, BRU_EINVAL, "no call %u is open: it was replied to, or never made",
                         id);
    bool dropped = (*at)->dropped;
    agent_reply head = { .id = id, .ok = ok, .len = (uint32_t)len };
    if (!dropped) {
        size_t before = l->replies.len;
        bru_status st = len > UINT32_MAX ? BRU_ELIMIT : buf_append(&l->replies, &head, sizeof head);
        if (!st) st = buf_append(&l->replies, data, len);
        if (st) {
            l->replies.len = before;
            return error_set(err, st, "a reply of %zu bytes to call %u is too large", len, id);
        }
    }
    call_remove(l, at);
    return BRU_OK;
}
