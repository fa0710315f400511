/* Where a guest's input comes from: bytes that the embedder gave, then the end, or a question. */
#include "vfs.h"

#include <string.h>

#define UNREAD_MAX (16u << 20)

struct source {
    buf bytes;
    size_t pos; /* read so far */
    bool ask, ended;
    bool wanted;
    size_t wanted_len;
};

bru_status source_new(bool ask, source **out, bru_error *err) {
    source *s = mem_zero(1, sizeof *s);
    *out = s;
    if (!s) return error_set(err, BRU_ENOMEM, "no memory for an input source");
    buf_init(&s->bytes, UNREAD_MAX);
    s->ask = ask;
    return BRU_OK;
}

void source_free(source *s) {
    if (!s) return;
    buf_free(&s->bytes);
    mem_free(s);
}

void source_set(source *s, bool ask) {
    s->ask = ask;
}

void source_clear(source *s) {
    buf_free(&s->bytes);
    s->pos = 0;
    s->ended = s->wanted = false;
}

bru_status source_give(source *s, const void *bytes, size_t len, bru_error *err) {
    if (s->pos > 0) {
        memmove(s->bytes.data, s->bytes.data + s->pos, s->bytes.len - s->pos);
        s->bytes.len -= s->pos;
        s->pos = 0;
    }
    bru_status st = buf_append(&s->bytes, bytes, len);
    if (st == BRU_ELIMIT)
        return error_set(err, st, "no more than %u bytes of input can wait to be read", UNREAD_MAX);
    if (st) return error_set(err, st, "no memory for input");
    s->wanted = false;
    return BRU_OK;
}

void source_end(source *s) {
    s->ended = true;
    s->wanted = false;
}

bool source_wanted(const source *s, size_t *len) {
    if (s->wanted && len) *len = s->wanted_len;
    return s->wanted;
}

static vfs_err want(source *s, size_t len) {
    s->wanted = true;
    s->wanted_len = len;
    return VFS_WAIT;
}

vfs_err source_read(source *s, void *out, size_t len, size_t *n) {
    size_t there = s->bytes.len - s->pos;
    *n = 0;
    if (len == 0) return VFS_OK;
    if (there == 0) return s->ended || !s->ask ? VFS_OK : want(s, len);
    if (len > there) len = there;
    memcpy(out, s->bytes.data + s->pos, len);
    s->pos += len;
    *n = len;
    if (s->pos == s->bytes.len) {
        buf_clear(&s->bytes);
        s->pos = 0;
    }
    return VFS_OK;
}

vfs_err source_ready(source *s, uint64_t *bytes, bool *eof) {
    *bytes = s->bytes.len - s->pos;
    *eof = *bytes == 0 && (s->ended || !s->ask);
    return *bytes > 0 || *eof ? VFS_OK : want(s, 1);
}

void source_unread(const source *s, const void **bytes, size_t *len, bool *ended) {
    *bytes = s->bytes.data ? s->bytes.data + s->pos : NULL;
    *len = s->bytes.len - s->pos;
    *ended = s->ended;
}
