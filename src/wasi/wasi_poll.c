/* poll_oneoff: the guest's only way to wait. It waits by parking: the deadlines are reckoned from
 * when the call was first made, and each time it is made again everything is looked at anew. */
#include "wasi_internal.h"

#include <string.h>

#define SUBSCRIPTION 48u
#define EVENT        32u
#define EVENTS_MAX   65536u

enum { TAG_CLOCK = 0, TAG_READ = 1, TAG_WRITE = 2 };
enum { CLOCK_WALL = 0, CLOCK_MONO = 1 };
enum { ABSTIME = 1 };
enum { HANGUP = 1 };

/* A subscription, out of the guest's memory. */
typedef struct subscription {
    uint64_t userdata, timeout;
    uint32_t id; /* of a clock, or a descriptor */
    uint16_t flags;
    uint8_t tag;
} subscription;

typedef struct outcome {
    bool ready;
    wasi_err error;
    uint64_t bytes;
    uint16_t flags;
} outcome;

static subscription subscription_get(const uint8_t *p) {
    subscription s = { .tag = p[8] };
    memcpy(&s.userdata, p, 8);
    memcpy(&s.id, p + 16, 4);
    if (s.tag == TAG_CLOCK) {
        memcpy(&s.timeout, p + 24, 8);
        memcpy(&s.flags, p + 40, 2);
    }
    return s;
}

static void event_put(uint8_t *p, const subscription *s, const outcome *o) {
    memset(p, 0, EVENT);
    put64(p, s->userdata);
    put16(p + 8, (uint16_t)o->error);
    p[10] = s->tag;
    put64(p + 16, o->bytes);
    put16(p + 24, o->flags);
}

static uint64_t add_clamped(uint64_t a, uint64_t b) {
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* When a clock subscription is due, on the monotonic clock. */
static uint64_t due(const wasi *w, const subscription *s) {
    if (!(s->flags & ABSTIME)) return add_clamped(w->op.monotonic, s->timeout);
    if (s->id == CLOCK_MONO) return s->timeout;
    return s->timeout > w->op.wall ? add_clamped(w->op.monotonic, s->timeout - w->op.wall) : 0;
}

static outcome look_at_clock(const wasi *w, const subscription *s, uint64_t now,
                             wasi_wait_info *wait) {
    if (s->flags & ~ABSTIME) return (outcome){ .ready = true, .error = VFS_EINVAL };
    if (s->id > 3) return (outcome){ .ready = true, .error = VFS_EINVAL };
    if (s->id > CLOCK_MONO) return (outcome){ .ready = true, .error = VFS_ENOTSUP };
    uint64_t at = due(w, s);
    if (now >= at || w->interrupted) return (outcome){ .ready = true };
    wait->reasons |= WASI_WAIT_TIME;
    if (at < wait->deadline) wait->deadline = at;
    return (outcome){ 0 };
}

static outcome look_at_fd(wasi *w, const subscription *s, wasi_wait_info *wait) {
    wasi_fd *f;
    bool write = s->tag == TAG_WRITE, eof = false;
    outcome o = { .ready = true };
    o.error = fd_get(w, s->id, RIGHT_POLL_FD_READWRITE, &f);
    if (o.error) return o;
    vfs_err e = vfs_ready(f->file, write, f->offset, &o.bytes, &eof);
    if (e == VFS_WAIT) {
        bool stream = vfs_file_is_stream(f->file);
        wait->reasons |= !stream ? WASI_WAIT_FILES : write ? WASI_WAIT_OUTPUT : WASI_WAIT_INPUT;
        return (outcome){ 0 };
    }
    o.error = (wasi_err)e;
    if (eof) o.flags = HANGUP;
    return o;
}

/* The clocks are read when the first clock is met: waiting for descriptors needs none. */
static void begin(wasi *w) {
    if (w->op.timed) return;
    w->op.monotonic = w->clock.monotonic(w->clock.ctx);
    w->op.wall = w->clock.wall(w->clock.ctx);
    w->op.timed = true;
}

wasi_err wasi_poll_oneoff(wasi *w, gmem m, const uint64_t *a) {
    uint64_t count = a[2];
    if (count == 0 || count > EVENTS_MAX) return VFS_EINVAL;
    const uint8_t *in = gmem_at(m, (uint32_t)a[0], count * SUBSCRIPTION);
    uint8_t *out = gmem_at(m, (uint32_t)a[1], count * EVENT);
    if (!in || !out || !gmem_at(m, (uint32_t)a[3], 4)) return W_EFAULT;
    for (uint64_t i = 0; i < count; i++)
        if (in[i * SUBSCRIPTION + 8] > TAG_WRITE) return VFS_EINVAL;
    begin(w);
    uint64_t now = w->clock.monotonic(w->clock.ctx);
    wasi_wait_info wait = { 0, UINT64_MAX };
    uint32_t ready = 0;
    for (uint64_t i = 0; i < count; i++) {
        subscription s = subscription_get(in + i * SUBSCRIPTION);
        outcome o =
            s.tag == TAG_CLOCK ? look_at_clock(w, &s, now, &wait) : look_at_fd(w, &s, &wait);
        if (o.ready) event_put(out + (size_t)ready++ * EVENT, &s, &o);
    }
    if (ready == 0 && w->interrupted) return W_EINTR;
    if (ready == 0) return wait_for(w, wait.reasons, wait.deadline);
    gmem_put32(m, (uint32_t)a[3], ready);
    return VFS_OK;
}
