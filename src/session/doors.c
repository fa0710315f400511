/* The imports of module "brumate". Everything that comes in here may be made up by a hostile
 * guest: it is checked for shape and size, and what it says of itself is not believed. */
#include "session/session.h"

static const uint32_t refused = UINT32_MAX; /* -1 */

/* Keeps a message, the last of its kind. */
static uint32_t keep(buf *b, const void *bytes, size_t len) {
    buf_clear(b);
    return buf_append(b, bytes, len) ? refused : 0;
}

static bru_status post_call(bru_session *s, gmem message) {
    uint32_t id, name_len;
    if (!gmem_get32(message, 0, &id) || !gmem_get32(message, 4, &name_len) ||
        name_len > message.size - 8)
        return BRU_EGUEST;
    const uint8_t *name = message.base + 8;
    return calls_post(&s->calls, id, name, name_len, name + name_len,
                      (size_t)message.size - 8 - name_len);
}

/* Type and bytes of an artifact. */
static bru_status post_artifact(bru_session *s, gmem message) {
    uint32_t type_len;
    if (!s->run.result || !gmem_get32(message, 0, &type_len) || type_len > message.size - 4)
        return BRU_EGUEST;
    const uint8_t *type = message.base + 4;
    return result_add_artifact(s->run.result, s->limits.artifact_bytes, type, type_len,
                               type + type_len, (size_t)message.size - 4 - type_len);
}

static door_next door_post(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    bru_session *s = ctx;
    uint32_t kind = (uint32_t)args[0], len = (uint32_t)args[2], id;
    const void *bytes = gmem_at(mem, (uint32_t)args[1], len);
    *result = refused;
    if (!bytes) return DOOR_RETURN;
    gmem message = { (uint8_t *)bytes, len };
    switch (kind) {
    case AGENT_POST_RESULT: *result = keep(&s->run.posted, bytes, len); break;
    case AGENT_POST_REPLY: *result = keep(&s->reply, bytes, len); break;
    case AGENT_POST_FAILURE: *result = keep(&s->failure, bytes, len); break;
    case AGENT_POST_CALL:
        /* The embedder is shown the call before the guest goes on: it may answer at once. */
        if (s->wait == WAIT_CALL) {
            s->wait = WAIT_NONE;
            *result = s->calls.replies.len;
        } else if (post_call(s, message) == BRU_OK) {
            s->wait = WAIT_CALL;
            return DOOR_PARK;
        }
        break;
    case AGENT_POST_SHOW: *result = post_artifact(s, message) ? refused : 0; break;
    case AGENT_POST_DROP:
        if (gmem_get32(message, 0, &id)) {
            calls_drop(&s->calls, id);
            *result = 0;
        }
        break;
    default: break;
    }
    return DOOR_RETURN;
}

static door_next door_wait(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    bru_session *s = ctx;
    (void)mem;
    if (s->wait != WAIT_TIME) {
        s->wait = WAIT_TIME;
        s->wake_at = args[0];
    }
    if (s->calls.replies.len == 0 && !s->wait_cut && session_clock(s) < s->wake_at)
        return DOOR_PARK;
    s->wait = WAIT_NONE;
    s->wait_cut = false;
    *result = s->calls.replies.len;
    return DOOR_RETURN;
}

/* Whole records only, as many as fit. */
static door_next door_take(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    bru_session *s = ctx;
    buf *replies = &s->calls.replies;
    uint32_t room = (uint32_t)args[1];
    void *to = gmem_at(mem, (uint32_t)args[0], room);
    size_t taken = 0;
    *result = 0;
    if (!to) return DOOR_RETURN;
    while (taken < replies->len) {
        agent_reply head;
        memcpy(&head, replies->data + taken, sizeof head);
        if (sizeof head + head.len > room - taken) break;
        taken += sizeof head + head.len;
    }
    if (taken > 0) {
        memcpy(to, replies->data, taken);
        memmove(replies->data, replies->data + taken, replies->len - taken);
        replies->len -= taken;
    }
    *result = taken;
    return DOOR_RETURN;
}

static door_next door_soft_ack(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {
    bru_session *s = ctx;
    (void)mem, (void)args, (void)result;
    if (engine_soft_ack(s->guest, SESSION_ACK_NS) && !s->run.acked)
        s->run.acked = clock_monotonic();
    return DOOR_RETURN;
}

static const door own_doors[] = {
    { "brumate", "post", "iii:i", door_post },
    { "brumate", "wait", "I:i", door_wait },
    { "brumate", "take", "ii:i", door_take },
    { "brumate", "soft_ack", ":", door_soft_ack },
};

size_t session_tables(door_table out[SESSION_TABLES]) {
    out[SESSION_TABLE_WASI] = (door_table){ wasi_doors, wasi_door_count };
    out[SESSION_TABLE_OWN] = (door_table){ own_doors, sizeof own_doors / sizeof *own_doors };
    return SESSION_TABLES;
}
