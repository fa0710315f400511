/* Snapshots as things of their own, without a session: opened, told, saved, joined. */
#include "session/snapshot.h"

#include "session/calls_save.h"

#include <stdio.h>
#include <string.h>

/* ---- Opening -----------------------------------------------------------------------------------
 */

void bru_snapshot_free(bru_snapshot *snapshot) {
    if (!snapshot) return;
    for (uint32_t i = 0; snapshot->calls && i < snapshot->view.head.call_count; i++)
        mem_free((void *)snapshot->calls[i].name);
    mem_free(snapshot->calls);
    mem_free(snapshot->map);
    mem_free(snapshot->state);
    mem_free(snapshot->bytes);
    mem_free(snapshot);
}

static bru_status list_calls(bru_snapshot *snapshot, bru_error *err) {
    const uint8_t *at = snapshot->view.calls;
    uint32_t count = snapshot->view.head.call_count;
    snapshot->calls = mem_zero(count + 1, sizeof *snapshot->calls);
    bool whole = snapshot->calls != NULL;
    for (uint32_t i = 0; whole && i < count; i++) {
        saved_call c;
        at = calls_saved_next(at, &c);
        char *name = mem_copy(c.name, c.name_len);
        snapshot->calls[i] = (bru_snapshot_call){ c.id, name, c.payload, c.len };
        whole = name != NULL;
    }
    return whole ? BRU_OK : error_set(err, BRU_ENOMEM, "no memory for a snapshot");
}

static bru_status read_map(bru_snapshot *snapshot, bru_error *err) {
    const snapshot_header *h = &snapshot->header;
    uint8_t *map = NULL;
    bru_status st = snapshot_unpack(snapshot->bytes, h, SNAPSHOT_MAP, &map, err);
    snapshot->map = (snapshot_page *)(void *)map;
    snapshot->map_count = (size_t)(h->parts[SNAPSHOT_MAP].raw / sizeof *snapshot->map);
    if (st) return st;
    return snapshot_map_check(snapshot->map, snapshot->map_count,
                              h->parts[SNAPSHOT_PAGES].raw / SNAPSHOT_PAGE, h->memory,
                              h->flags & SNAPSHOT_BASED, err);
}

static void write_hex(char out[33], const uint8_t id[SNAPSHOT_ID]) {
    for (int i = 0; i < SNAPSHOT_ID; i++) snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static void copy_names(bru_snapshot *snapshot) {
    const snapshot_header *h = &snapshot->header;
    memcpy(snapshot->image_id, h->image_id, sizeof h->image_id);
    memcpy(snapshot->wasm_sha256, h->wasm_sha256, sizeof h->wasm_sha256);
    write_hex(snapshot->id, h->id);
    if (h->flags & SNAPSHOT_BASED) write_hex(snapshot->base_id, h->base);
}

/* Takes over `bytes`, whatever comes of it. */
static bru_status open_owned(uint8_t *bytes, size_t len, bru_snapshot **out, bru_error *err) {
    *out = NULL;
    bru_snapshot *snapshot = mem_zero(1, sizeof *snapshot);
    if (!snapshot) {
        mem_free(bytes);
        return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    }
    snapshot->bytes = bytes;
    snapshot->len = len;
    snapshot_header *h = &snapshot->header;
    bru_status st = snapshot_check(bytes, len, h, err);
    if (!st) st = snapshot_unpack(bytes, h, SNAPSHOT_STATE, &snapshot->state, err);
    if (!st)
        st = state_parse(snapshot->state, (size_t)h->parts[SNAPSHOT_STATE].raw, &snapshot->view,
                         err);
    if (!st && snapshot->view.head.waiting != (h->flags & SNAPSHOT_WAITING))
        st = error_set(err, BRU_EFORMAT, "the snapshot is damaged: it waits and does not");
    if (!st) st = list_calls(snapshot, err);
    if (!st) st = read_map(snapshot, err);
    copy_names(snapshot);
    if (st)
        bru_snapshot_free(snapshot);
    else
        *out = snapshot;
    return st;
}

bru_status session_snapshot_open(const void *bytes, size_t len, snapshot_key key,
                                 bru_snapshot **out, bru_error *err) {
    bru_status st = snapshot_authentic(bytes, len, key, err);
    if (st) return st;
    uint8_t *copy = len ? mem_copy(bytes, len) : mem_zero(1, 1);
    if (!copy) return error_set(err, BRU_ENOMEM, "no memory for a snapshot of %zu bytes", len);
    return open_owned(copy, len, out, err);
}

bru_status session_snapshot_load(const char *path, snapshot_key key, bru_snapshot **out,
                                 bru_error *err) {
    uint8_t *bytes;
    size_t len = 0;
    bru_status st = snapshot_file_read(path, &bytes, &len, err);
    if (st) return st;
    st = snapshot_authentic(bytes, len, key, err);
    if (!st) return open_owned(bytes, len, out, err);
    mem_free(bytes);
    return st;
}

const void *bru_snapshot_bytes(const bru_snapshot *snapshot, size_t *len) {
    if (len) *len = snapshot->len;
    return snapshot->bytes;
}

void bru_snapshot_get_info(const bru_snapshot *snapshot, bru_snapshot_info *out) {
    const snapshot_header *h = &snapshot->header;
    const state_head *state = &snapshot->view.head;
    *out = (bru_snapshot_info){
        .image_id = snapshot->image_id,
        .wasm_sha256 = snapshot->wasm_sha256,
        .id = snapshot->id,
        .base_id = snapshot->base_id,
        .wall_ns = h->wall,
        .memory_bytes = h->memory,
        .changed_bytes = (uint64_t)snapshot->map_count * SNAPSHOT_PAGE,
        .stored_bytes = h->parts[SNAPSHOT_PAGES].raw,
        .file_bytes = h->parts[SNAPSHOT_FILES].raw,
        .left_ns = state->waiting ? state->left : 0,
        .waiting = (int)state->waiting,
        .call_count = state->call_count,
        .descriptors = wasi_fds_count(snapshot->view.fds, (size_t)state->fds_len),
        .format = h->version,
        .is_signed = (h->flags & SNAPSHOT_SIGNED) != 0,
    };
}

bru_status bru_snapshot_get_call(const bru_snapshot *snapshot, size_t index, bru_snapshot_call *out,
                                 bru_error *err) {
    if (index >= snapshot->view.head.call_count)
        return error_set(err, BRU_ENOENT, "the snapshot has no call number %zu", index);
    *out = snapshot->calls[index];
    return BRU_OK;
}

bru_status snapshot_from_writer(snapshot_writer *w, const bru_snapshot_options *o,
                                bru_snapshot **out, bru_error *err) {
    bru_status st = snapshot_finish(w, (snapshot_key){ o->key, o->key_len }, err);
    if (st) return st;
    uint8_t *bytes = w->out.data;
    size_t len = w->out.len;
    w->out = (buf){ 0 };
    return open_owned(bytes, len, out, err);
}

bru_status snapshot_content_read(const bru_snapshot *snapshot, snapshot_content *out,
                                 bru_error *err) {
    *out = (snapshot_content){ .map = snapshot->map, .count = snapshot->map_count };
    return snapshot_unpack(snapshot->bytes, &snapshot->header, SNAPSHOT_PAGES, &out->pages, err);
}

/* ---- Joining ---------------------------------------------------------------------------------
 */

static bru_status check_pair(const bru_snapshot *base, const bru_snapshot *changes,
                             bru_error *err) {
    const snapshot_header *b = &base->header, *c = &changes->header;
    if (!(c->flags & SNAPSHOT_BASED))
        return error_set(err, BRU_EINVAL, "the snapshot is whole: there is nothing to join");
    if (b->flags & SNAPSHOT_BASED)
        return error_set(err, BRU_ESTATE,
                         "the base holds only changes: join it to its own base first");
    if (memcmp(b->id, c->base, sizeof c->base) != 0)
        return error_set(err, BRU_EMISMATCH,
                         "the snapshot holds the changes since %.12s..., not since %.12s...",
                         changes->base_id, base->id);
    if (memcmp(b->image_id, c->image_id, sizeof b->image_id) != 0 ||
        memcmp(b->wasm_sha256, c->wasm_sha256, sizeof b->wasm_sha256) != 0)
        return error_set(err, BRU_EFORMAT, "the snapshot is damaged: its base has another image");
    if (c->flags & (SNAPSHOT_BASE_FILES | SNAPSHOT_FILES_OVER) && !(b->flags & SNAPSHOT_HAS_FILES))
        return error_set(err, BRU_EFORMAT, "the snapshot is damaged: its base has no files");
    return BRU_OK;
}

/* A part as it is. */
static bru_status copy_part(const bru_snapshot *from, enum snapshot_part part, snapshot_writer *w,
                            bru_error *err) {
    uint8_t *bytes = NULL;
    uint64_t raw = from->header.parts[part].raw;
    bru_status st = snapshot_unpack(from->bytes, &from->header, part, &bytes, err);
    if (!st) st = snapshot_part_begin(w, part, raw, err);
    if (!st) st = snapshot_put(w, bytes, (size_t)raw, err);
    mem_free(bytes);
    return st;
}

/* Files that were written over the base's. */
static bru_status join_files(const bru_snapshot *base, const bru_snapshot *changes,
                             snapshot_writer *w, bru_error *err) {
    const snapshot_header *b = &base->header, *c = &changes->header;
    uint64_t raw = c->parts[SNAPSHOT_FILES].raw;
    uint8_t *before = NULL, *files = NULL;
    bru_status st = snapshot_unpack(base->bytes, b, SNAPSHOT_FILES, &before, err);
    if (!st)
        st = snapshot_unpack_over(changes->bytes, c, SNAPSHOT_FILES, before,
                                  (size_t)b->parts[SNAPSHOT_FILES].raw, &files, err);
    if (!st) st = snapshot_part_begin(w, SNAPSHOT_FILES, raw, err);
    if (!st) st = snapshot_put(w, files, (size_t)raw, err);
    mem_free(before);
    mem_free(files);
    return st;
}

static bru_status join_memory(const bru_snapshot *base, const bru_snapshot *changes,
                              snapshot_writer *w, bru_error *err) {
    snapshot_content a = { 0 }, b = { 0 };
    bru_status st = snapshot_content_read(base, &a, err);
    if (!st) st = snapshot_content_read(changes, &b, err);
    if (!st) st = snapshot_pages_join(&a, &b, changes->header.memory, w, err);
    mem_free(a.pages);
    mem_free(b.pages);
    return st;
}

bru_status session_snapshot_join(const bru_snapshot *base, const bru_snapshot *changes,
                                 const bru_snapshot_options *o, bru_snapshot **out,
                                 bru_error *err) {
    snapshot_writer w;
    const snapshot_header *c = &changes->header;
    bool base_files = c->flags & SNAPSHOT_BASE_FILES;
    bru_status st = check_pair(base, changes, err);
    if (st) return st;
    st = snapshot_begin(&w, o->level ? o->level : 1, err);
    snapshot_header *h = &w.header;
    h->flags = c->flags & (SNAPSHOT_WAITING | SNAPSHOT_HAS_FILES);
    if (base_files) h->flags |= SNAPSHOT_HAS_FILES;
    h->wall = c->wall;
    h->memory = c->memory;
    memcpy(h->id, c->id, sizeof h->id);
    memcpy(h->image_id, c->image_id, sizeof h->image_id);
    memcpy(h->wasm_sha256, c->wasm_sha256, sizeof h->wasm_sha256);
    if (!st) st = copy_part(changes, SNAPSHOT_STATE, &w, err);
    if (!st) st = join_memory(base, changes, &w, err);
    if (!st && c->flags & SNAPSHOT_FILES_OVER)
        st = join_files(base, changes, &w, err);
    else if (!st && h->flags & SNAPSHOT_HAS_FILES)
        st = copy_part(base_files ? base : changes, SNAPSHOT_FILES, &w, err);
    if (!st) st = snapshot_from_writer(&w, o, out, err);
    snapshot_writer_free(&w);
    return st;
}
