#include "session/state.h"

#include "session/calls_save.h"

#include <string.h>

/* ---- Saving ---------------------------------------------------------------------------------- */

bru_status state_ready(const bru_session *s, bru_error *err) {
    const char *why = NULL;
    if (s->phase == PHASE_ENDED)
        why = "it has ended (a limit, a crash or os._exit): reset it first";
    else if (s->run.over)
        why = "its result was not taken yet: call bru_session_next() until DONE";
    else if (s->phase == PHASE_STARTED)
        why = "its execution has not begun: call bru_session_next() until it waits";
    else if (s->phase == PHASE_PARKED && s->wait == WAIT_CALL)
        why = "it was not told yet that its call has to wait: call bru_session_next() until WAIT";
    else if (s->phase == PHASE_PARKED)
        why = "its code waits in the middle of a call (time.sleep, input, asyncio.run or output): "
              "only what waits by `await` can sleep";
    else if (instance_state_of(s->guest) != INSTANCE_REST)
        why = "it is inside another call";
    return why ? error_set(err, BRU_ESTATE, "the session is not at rest: %s", why) : BRU_OK;
}

static bru_status save_output(bru_session *s, buf *out) {
    sink_cursor cursor = s->run.handed;
    sink_piece piece;
    bru_status st = BRU_OK;
    while (!st && sink_next(s->output, &cursor, &piece)) {
        uint32_t head[] = { piece.stream, (uint32_t)piece.len };
        st = buf_append(out, head, sizeof head);
        if (!st) st = buf_append(out, piece.bytes, piece.len);
    }
    return st;
}

static bru_status save_shown(const bru_result *r, buf *out) {
    bru_status st = BRU_OK;
    for (size_t i = 0; !st && i < r->artifact_count; i++) {
        const artifact *a = &r->artifacts[i];
        uint32_t head[] = { (uint32_t)a->data_at - 1, (uint32_t)a->len };
        st = buf_append(out, head, sizeof head);
        if (!st) st = buf_append(out, a->bytes, head[0]);
        if (!st) st = buf_append(out, a->bytes + a->data_at, a->len);
    }
    return st;
}

/* How much was appended since the last time. */
static uint64_t since(const buf *out, size_t *mark) {
    size_t len = out->len - *mark;
    *mark = out->len;
    return len;
}

static void save_times(bru_session *s, state_head *h) {
    uint64_t now = clock_monotonic();
    const determinism *d = &s->deterministic;
    h->clock = session_clock(s);
    h->wall = session_wall(s);
    if (d->on) {
        h->deterministic = 1;
        memcpy(h->seed, d->seed, sizeof h->seed);
        h->wall_offset = d->wall_offset;
        h->readings = d->readings;
        h->waited = d->waited;
        h->draws = d->draws;
    } else {
        h->cpu_before = s->cpu_before;
    }
    if (s->phase != PHASE_REST) return;
    uint64_t deadline = s->engine.deadline;
    h->waiting = 1;
    h->used = now - s->run.started;
    h->left = !deadline ? BRU_NO_LIMIT : deadline > now ? deadline - now : 0;
    h->cpu_used = s->run.cpu_used;
    h->streams = !s->run.collect;
}

bru_status state_save(bru_session *s, buf *out, bru_error *err) {
    state_head h = { 0 };
    const void *input = NULL;
    size_t start = out->len, input_len = 0, mark = start + sizeof h;
    bool ended = false;
    save_times(s, &h);
    bru_status st = buf_append(out, &h, sizeof h);
    if (!st) st = instance_globals(s->guest, out, err);
    h.globals_len = (uint32_t)since(out, &mark);
    if (!st) st = wasi_fds_save(s->wasi, out, err);
    h.fds_len = since(out, &mark);
    if (!st && h.waiting) st = calls_save(&s->calls, out, &h.call_count);
    h.calls_len = since(out, &mark);
    if (!st && h.waiting) st = buf_append(out, s->calls.replies.data, s->calls.replies.len);
    h.replies_len = since(out, &mark);
    if (!st && h.waiting) st = save_output(s, out);
    h.output_len = since(out, &mark);
    if (h.waiting) source_unread(s->input, &input, &input_len, &ended);
    if (!st) st = buf_append(out, input, input_len);
    h.input_len = since(out, &mark);
    h.input_ended = ended;
    if (!st && h.waiting) st = save_shown(s->run.result, out);
    h.shown_len = since(out, &mark);
    if (st) return error_set(err, st, "no room for the session's state in a snapshot");
    memcpy(out->data + start, &h, sizeof h);
    return BRU_OK;
}

/* ---- Reading back ---------------------------------------------------------------------------- */

static bool take(const uint8_t **at, size_t *left, uint64_t len, const uint8_t **out) {
    if (len > *left) return false;
    *out = *at;
    *at += len;
    *left -= (size_t)len;
    return true;
}

static bool replies_whole(const uint8_t *bytes, size_t len) {
    agent_reply reply;
    while (len > 0) {
        if (len < sizeof reply) return false;
        memcpy(&reply, bytes, sizeof reply);
        if (reply.len > len - sizeof reply) return false;
        bytes += sizeof reply + reply.len;
        len -= sizeof reply + reply.len;
    }
    return true;
}

static bool output_whole(const uint8_t *bytes, size_t len) {
    uint32_t head[2];
    while (len > 0) {
        if (len < sizeof head) return false;
        memcpy(head, bytes, sizeof head);
        if (head[0] > SINK_ERR || head[1] > len - sizeof head) return false;
        bytes += sizeof head + head[1];
        len -= sizeof head + head[1];
    }
    return true;
}

static bool shown_whole(const uint8_t *bytes, size_t len) {
    uint32_t head[2];
    while (len > 0) {
        if (len < sizeof head) return false;
        memcpy(head, bytes, sizeof head);
        size_t room = len - sizeof head;
        if (head[0] > room || head[1] > room - head[0]) return false;
        bytes += sizeof head + head[0] + head[1];
        len = room - head[0] - head[1];
    }
    return true;
}

bru_status state_parse(const uint8_t *bytes, size_t len, state_view *v, bru_error *err) {
    const uint8_t *at = bytes;
    size_t left = len;
    const uint8_t *head = NULL;
    bool whole = take(&at, &left, sizeof v->head, &head);
    if (whole) memcpy(&v->head, head, sizeof v->head);
    const state_head *h = &v->head;
    whole = whole && take(&at, &left, h->globals_len, &v->globals) &&
            take(&at, &left, h->fds_len, &v->fds) && take(&at, &left, h->calls_len, &v->calls) &&
            take(&at, &left, h->replies_len, &v->replies) &&
            take(&at, &left, h->output_len, &v->output) &&
            take(&at, &left, h->input_len, &v->input) &&
            take(&at, &left, h->shown_len, &v->shown) && left == 0;
    if (whole && h->clock <= STATE_CLOCK_MAX && h->waiting <= 1 &&
        (h->deterministic || h->wall <= STATE_CLOCK_MAX) && h->input_ended <= 1 &&
        h->streams <= 1 && h->deterministic <= 1 &&
        replies_whole(v->replies, (size_t)h->replies_len) &&
        output_whole(v->output, (size_t)h->output_len) &&
        shown_whole(v->shown, (size_t)h->shown_len) &&
        calls_saved(v->calls, (size_t)h->calls_len, h->call_count))
        return BRU_OK;
    return error_set(err, BRU_EFORMAT, "the snapshot is damaged: its state is malformed");
}

static bru_status load_determinism(bru_session *s, const state_head *h, bru_error *err) {
    bru_deterministic given;
    memcpy(given.seed, h->seed, sizeof given.seed);
    bru_status st = determinism_init(&s->deterministic, &given, err);
    determinism *d = &s->deterministic;
    d->wall_offset = h->wall_offset;
    d->readings = h->readings;
    d->waited = h->waited;
    d->draws = h->draws;
    if (!st && !determinism_sound(d))
        st = error_set(err, BRU_EFORMAT, "the snapshot is damaged: no clock reads like its");
    return st;
}

/* The guest's clock goes on where it was, plus the time that has passed; in a deterministic session
 * none does. */
static void load_clock(bru_session *s, const state_head *h) {
    if (s->deterministic.on) {
        determinism_continue(&s->deterministic, h->clock, h->cpu_before);
        return;
    }
    uint64_t wall = clock_system.wall(NULL);
    uint64_t asleep = wall > h->wall ? wall - h->wall : 0;
    s->clock_offset = h->clock + asleep - clock_monotonic();
    s->cpu_before = h->cpu_before;
}

/* What does not fit the limit is cut, as when it was written. */
static bru_status load_output(bru_session *s, const state_view *v) {
    session_collect(s, true);
    for (size_t at = 0; at < v->head.output_len;) {
        uint32_t head[2];
        size_t n;
        memcpy(head, v->output + at, sizeof head);
        at += sizeof head;
        if (sink_write(s->output, head[0], v->output + at, head[1], &n) == VFS_ENOMEM)
            return BRU_ENOMEM;
        at += head[1];
    }
    return BRU_OK;
}

static bru_status load_input(bru_session *s, const state_view *v, bru_error *err) {
    bru_status st = source_give(s->input, v->input, (size_t)v->head.input_len, err);
    if (v->head.input_ended) source_end(s->input);
    return st;
}

bru_status state_load_world(bru_session *s, const state_view *v, bru_error *err) {
    const state_head *h = &v->head;
    bru_status st = BRU_OK;
    if (h->deterministic)
        st = load_determinism(s, h, err);
    else
        load_clock(s, h);
    if (!st) st = wasi_fds_load(s->wasi, v->fds, (size_t)h->fds_len, err);
    if (st || !h->waiting) return st;
    st = calls_load(&s->calls, v->calls, h->call_count);
    if (!st) st = buf_append(&s->calls.replies, v->replies, (size_t)h->replies_len);
    if (!st) st = load_output(s, v);
    if (st) return error_set(err, st, "no room for what the execution left");
    return load_input(s, v, err);
}

static bru_status load_shown(bru_session *s, const state_view *v, bru_error *err) {
    bru_status st = BRU_OK;
    for (size_t at = 0; !st && at < v->head.shown_len;) {
        uint32_t head[2];
        memcpy(head, v->shown + at, sizeof head);
        at += sizeof head;
        st = result_add_artifact(s->run.result, s->limits.artifact_bytes, v->shown + at, head[0],
                                 v->shown + at + head[0], head[1]);
        at += head[0] + head[1];
    }
    return st ? error_set(err, st, "what the execution has shown so far cannot be kept") : BRU_OK;
}

bru_status state_load(bru_session *s, const state_view *v, bru_error *err) {
    const state_head *h = &v->head;
    session_waited waited = { h->used, h->left, h->cpu_used, h->streams != 0 };
    bru_status st = instance_globals_set(s->guest, v->globals, h->globals_len, err);
    if (!st) st = state_load_world(s, v, err);
    if (!st && h->waiting) st = session_run_again(s, &waited, err);
    if (!st && h->waiting) st = load_shown(s, v, err);
    return st;
}
