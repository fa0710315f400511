#include "session/calls_save.h"

#include <string.h>

typedef struct head {
    uint32_t id, name_len;
    uint64_t len;
} head;

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
    }
    return st;
}
