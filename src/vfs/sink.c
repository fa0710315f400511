/* Where a guest's output goes: one stretch of bytes in the order of writing, with marks where the
 * stream changes. Two streams alternate, so a mark is just a length: a variable-length number
 * that never takes more bytes than it counts, which bounds the marks by the output. */
#include "vfs.h"

#include <string.h>

#define DEFAULT_LIMIT (1u << 20)
#define KEEP_MEMORY   65536u /* sink_clear gives back buffers larger than this */

struct sink {
    sink_options opt;
    buf bytes, marks;    /* marks: lengths of the closed pieces; the last piece is open */
    unsigned first, now; /* stream of the first and of the open piece */
    size_t open_len;
    sink_counts counts;
};

static void apply(sink *s, const sink_options *opt) {
    s->opt = opt ? *opt : (sink_options){ 0 };
    if (s->opt.limit == 0) s->opt.limit = DEFAULT_LIMIT;
    if (s->opt.limit > SIZE_MAX / 4) s->opt.limit = SIZE_MAX / 4;
    if (s->opt.merge > SINK_PENDING_MAX) s->opt.merge = SINK_PENDING_MAX;
    size_t ceiling = (size_t)s->opt.limit;
    if (s->opt.mode == SINK_STREAM && ceiling > SINK_PENDING_MAX) ceiling = SINK_PENDING_MAX;
    s->bytes.ceiling = ceiling > s->bytes.len ? ceiling : s->bytes.len;
    s->marks.ceiling = s->bytes.ceiling + 64;
}

bru_status sink_new(const sink_options *opt, sink **out, bru_error *err) {
    sink *s = mem_zero(1, sizeof *s);
    *out = s;
    if (!s) return error_set(err, BRU_ENOMEM, "no memory for an output sink");
    apply(s, opt);
    return BRU_OK;
}

void sink_free(sink *s) {
    if (!s) return;
    buf_free(&s->bytes);
    buf_free(&s->marks);
    mem_free(s);
}

void sink_set(sink *s, const sink_options *opt) {
    apply(s, opt);
}

void sink_take(sink *s) {
    buf_clear(&s->bytes);
    buf_clear(&s->marks);
    s->open_len = 0;
}

void sink_clear(sink *s) {
    if (s->bytes.cap > KEEP_MEMORY) buf_free(&s->bytes);
    if (s->marks.cap > KEEP_MEMORY) buf_free(&s->marks);
    sink_take(s);
    s->counts = (sink_counts){ { 0 }, { 0 } };
    apply(s, &s->opt);
}

/* ---- Writing ---- */

/* Ends the open piece, if it is of another stream. */
static vfs_err piece_switch(sink *s, unsigned stream) {
    if (s->bytes.len == 0) {
        s->first = s->now = stream;
        s->open_len = 0;
        buf_clear(&s->marks);
        return VFS_OK;
    }
    if (s->now == stream) return VFS_OK;
    uint8_t mark[10];
    size_t n = 0;
    for (size_t v = s->open_len; v > 0x7F; v >>= 7) mark[n++] = (uint8_t)(v | 0x80);
    mark[n] = (uint8_t)(s->open_len >> 7 * n);
    if (buf_append(&s->marks, mark, n + 1)) return VFS_ENOMEM;
    s->now = stream;
    s->open_len = 0;
    return VFS_OK;
}

static vfs_err keep(sink *s, unsigned stream, const void *bytes, size_t len) {
    if (len == 0) return VFS_OK;
    vfs_err e = piece_switch(s, stream);
    if (e) return e;
    if (buf_append(&s->bytes, bytes, len)) return VFS_ENOMEM;
    s->open_len += len;
    s->counts.kept[stream] += len;
    return VFS_OK;
}

static bool must_wait(const sink *s) {
    return s->opt.mode == SINK_STREAM && s->bytes.len > s->opt.merge;
}

vfs_err sink_write(sink *s, unsigned stream, const void *bytes, size_t len, size_t *n) {
    *n = 0;
    if (must_wait(s)) return VFS_WAIT;
    if (len == 0) return VFS_OK;
    uint64_t used = s->counts.kept[0] + s->counts.kept[1];
    uint64_t left = used < s->opt.limit ? s->opt.limit - used : 0;
    size_t part = len < left ? len : (size_t)left, cut = len - part;
    if (part > s->bytes.ceiling - s->bytes.len) { /* stream: the rest later */
        part = s->bytes.ceiling - s->bytes.len;
        cut = 0;
        if (part == 0) return VFS_WAIT;
    }
    vfs_err e = keep(s, stream, bytes, part);
    if (e) return e;
    s->counts.cut[stream] += cut;
    if (cut && s->opt.stop) {
        *n = part;
        return VFS_STOP;
    }
    *n = part + cut;
    return must_wait(s) ? VFS_WAIT : VFS_OK;
}

/* ---- Reading ---- */

bool sink_next(const sink *s, sink_cursor *c, sink_piece *out) {
    if (c->byte == 0 && c->piece == 0) c->stream = s->first;
    while (c->byte < s->bytes.len) {
        size_t len = 0, shift = 0;
        if (c->piece >= s->marks.len) {
            len = s->bytes.len - c->byte;
        } else {
            uint8_t b;
            do {
                b = s->marks.data[c->piece++];
                len |= (size_t)(b & 0x7F) << shift;
                shift += 7;
            } while (b & 0x80);
        }
        *out = (sink_piece){ c->stream, s->bytes.data + c->byte, len };
        c->stream = !c->stream;
        c->byte += len;
        if (len > 0) return true;
    }
    return false;
}

bru_status sink_copy(const sink *s, unsigned stream, buf *out) {
    sink_cursor c = { 0 };
    sink_piece p;
    bru_status st = BRU_OK;
    while (!st && sink_next(s, &c, &p))
        if (p.stream == stream) st = buf_append(out, p.bytes, p.len);
    return st;
}

char *sink_release(sink *s) {
    buf *b = &s->bytes;
    size_t len = b->len;
    if (len == b->cap || b->cap - len > KEEP_MEMORY) { /* no room for the NUL, or far too much */
        uint8_t *fitted = mem_grow(b->data, len + 1);
        if (!fitted) return NULL;
        b->data = fitted;
    }
    char *bytes = (char *)b->data;
    bytes[len] = '\0';
    *b = (buf){ .ceiling = b->ceiling };
    sink_take(s);
    return bytes;
}

bool sink_pending(const sink *s) {
    return s->bytes.len > 0;
}

void sink_get_counts(const sink *s, sink_counts *out) {
    *out = s->counts;
}
