/* Sessions put to sleep, woken, and doubled. */
#include "session/snapshot.h"

#include <string.h>

/* ---- Taking one
 * ---------------------------------------------------------------------------------- */

static bru_status put_buffer(snapshot_writer *w, enum snapshot_part part, const buf *bytes,
                             bru_error *err) {
    bru_status st = snapshot_part_begin(w, part, bytes->len, err);
    return st ? st : snapshot_put(w, bytes->data, bytes->len, err);
}

static bru_status put_state(bru_session *s, snapshot_writer *w, bru_error *err) {
    buf state;
    buf_init(&state, SNAPSHOT_STATE_MAX);
    bru_status st = state_save(s, &state, err);
    if (!st) st = put_buffer(w, SNAPSHOT_STATE, &state, err);
    buf_free(&state);
    return st;
}

static bru_status put_memory(bru_session *s, snapshot_writer *w, const bru_snapshot *base,
                             bru_error *err) {
    const mem_image *im = s->image->memory;
    snapshot_content content = { 0 };
    snapshot_pages pages;
    bru_status st = base ? snapshot_content_read(base, &content, err) : BRU_OK;
    snapshot_pages_init(&pages, instance_memory(s->guest), mem_image_bytes(im), mem_image_size(im),
                        base ? &content : NULL);
    if (!st) st = instance_written(s->guest, snapshot_pages_add, &pages, err);
    if (!st) st = snapshot_pages_put(&pages, w, err);
    snapshot_pages_free(&pages);
    mem_free(content.pages);
    return st;
}

/* Files as what changed since the base's. */
static bru_status put_files_over(snapshot_writer *w, const snapshot_header *base,
                                 const uint8_t *before, const buf *files, bru_error *err) {
    size_t len = (size_t)base->parts[SNAPSHOT_FILES].raw;
    if (len == files->len && memcmp(before, files->data, len) == 0) {
        w->header.flags |= SNAPSHOT_BASE_FILES;
        return BRU_OK;
    }
    w->header.flags |= SNAPSHOT_HAS_FILES | SNAPSHOT_FILES_OVER;
    bru_status st = snapshot_part_over(w, SNAPSHOT_FILES, files->len, before, len, err);
    return st ? st : snapshot_put(w, files->data, files->len, err);
}

static bru_status put_files(bru_session *s, snapshot_writer *w, const bru_snapshot *base,
                            bru_error *err) {
    const snapshot_header *h = base ? &base->header : NULL;
    uint8_t *before = NULL;
    buf files;
    buf_init(&files, SNAPSHOT_FILES_MAX);
    bru_status st = memtree_save(s->tree, &files, err);
    if (!st && h && h->flags & SNAPSHOT_HAS_FILES) {
        st = snapshot_unpack(base->bytes, h, SNAPSHOT_FILES, &before, err);
        if (!st) st = put_files_over(w, h, before, &files, err);
    } else if (!st) {
        w->header.flags |= SNAPSHOT_HAS_FILES;
        st = put_buffer(w, SNAPSHOT_FILES, &files, err);
    }
    mem_free(before);
    buf_free(&files);
    return st;
}

static bru_status check_match(const bru_session *s, const bru_snapshot *snapshot, bru_error *err) {
    const bru_image_info *image = &s->image->info;
    if (strcmp(snapshot->wasm_sha256, image->wasm_sha256) != 0)
        return error_set(err, BRU_EMISMATCH,
                         "the snapshot was taken with another guest build (%.12s..., not %.12s...)",
                         snapshot->wasm_sha256, image->wasm_sha256);
    if (strcmp(snapshot->image_id, image->id) != 0)
        return error_set(
            err, BRU_EMISMATCH,
            "the snapshot belongs to another image (%.12s..., not %.12s...): open that "
            "one",
            snapshot->image_id, image->id);
    return BRU_OK;
}

/* Whether a snapshot may be the base of one of this session: pages are read where it says. */
static bru_status check_base(const bru_session *s, const bru_snapshot *base, bru_error *err) {
    if (!base) return BRU_OK;
    uint64_t image = mem_image_size(s->image->memory);
    bru_status st = check_match(s, base, err);
    if (!st && base->header.flags & SNAPSHOT_BASED)
        st = error_set(err, BRU_ESTATE,
                       "the base holds only changes: join it to its own base first");
    if (!st && !snapshot_map_fits(base->map, base->map_count, image))
        st = error_set(err, BRU_EFORMAT, "the base is damaged: it does not fit its image");
    return st;
}

bru_status session_snapshot(bru_session *s, const bru_snapshot_options *o, bru_snapshot **out,
                            bru_error *err) {
    snapshot_writer w;
    bool files = !(o->flags & BRU_SNAPSHOT_NO_FILES);
    *out = NULL;
    bru_status st = state_ready(s, err);
    if (!st) st = check_base(s, o->base, err);
    if (st) return st;
    st = snapshot_begin(&w, o->level ? o->level : 1, err);
    snapshot_header *h = &w.header;
    h->flags = s->phase == PHASE_REST ? SNAPSHOT_WAITING : 0u;
    if (o->base) {
        h->flags |= SNAPSHOT_BASED;
        memcpy(h->base, o->base->header.id, sizeof h->base);
    }
    h->wall = session_wall(s);
    h->memory = instance_memory(s->guest).size;
    memcpy(h->image_id, s->image->info.id, sizeof h->image_id);
    memcpy(h->wasm_sha256, s->image->info.wasm_sha256, sizeof h->wasm_sha256);
    if (!st) st = put_state(s, &w, err);
    if (!st) st = put_memory(s, &w, o->base, err);
    if (!st && files) st = put_files(s, &w, o->base, err);
    if (!st) st = snapshot_from_writer(&w, o, out, err);
    snapshot_writer_free(&w);
    return st;
}

/* ---- Putting one back
 * ---------------------------------------------------------------------------- */

/* All that can be known before the session is touched. */
static bru_status check_room(const bru_session *s, const bru_snapshot *snapshot, bru_error *err) {
    const snapshot_header *h = &snapshot->header;
    uint64_t image = mem_image_size(s->image->memory);
    uint64_t files = h->parts[SNAPSHOT_FILES].raw;
    if (h->memory > s->limits.memory_bytes)
        return error_set(err, BRU_ELIMIT,
                         "the snapshot has %llu KiB of memory, this session's limit is %llu KiB",
                         (unsigned long long)h->memory >> 10,
                         (unsigned long long)s->limits.memory_bytes >> 10);
    if (files > s->limits.file_bytes)
        return error_set(
            err, BRU_ELIMIT, "the snapshot has %llu KiB of files, this session's limit is %llu KiB",
            (unsigned long long)files >> 10, (unsigned long long)s->limits.file_bytes >> 10);
    if (h->memory < image || snapshot->view.head.globals_len != s->image->globals_len ||
        !snapshot_map_fits(snapshot->map, snapshot->map_count, image))
        return error_set(err, BRU_EFORMAT, "the snapshot is damaged: it does not fit its image");
    return BRU_OK;
}

/* Lets the next step begin with entropy of its own, but in one that sleeps as if nothing were. What
 * is published to the host lies where the image has it, not where a snapshot says. */
static void wake_next(bru_session *s, const state_head *from) {
    if (from->deterministic) return;
    uint32_t at = s->image->control_at + (uint32_t)offsetof(agent_control, fresh);
    (void)gmem_put32(instance_memory(s->guest), at, 1);
}

static bru_status put_back(bru_session *s, const bru_snapshot *snapshot, const uint8_t *files,
                           bru_error *err) {
    const snapshot_header *h = &snapshot->header;
    bru_status st = BRU_OK;
    if (h->memory > instance_memory(s->guest).size) st = instance_grow(s->guest, h->memory, err);
    if (!st)
        st = snapshot_pages_get(snapshot->bytes, h, snapshot->map, snapshot->map_count,
                                instance_memory(s->guest), mem_image_bytes(s->image->memory), err);
    if (!st && files) st = memtree_load(s->tree, files, (size_t)h->parts[SNAPSHOT_FILES].raw, err);
    if (!st) st = state_load(s, &snapshot->view, err);
    wake_next(s, &snapshot->view.head);
    return st;
}

/* The session is neither what it was nor what it should become: makes it a fresh one. */
static bru_status fall_back(bru_session *s, bru_status st, bru_error *err) {
    bru_error first = { .message = "" };
    if (err) first = *err;
    bru_status reset = session_reset(s, BRU_RESET_FILES, NULL);
    error_set(err, st, "%.400s; the session %s", first.message, reset ? "has ended" : "was reset");
    return st;
}

bru_status bru_session_restore(bru_session *s, const bru_snapshot *snapshot, bru_error *err) {
    const snapshot_header *h = &snapshot->header;
    uint8_t *files = NULL;
    if (instance_state_of(s->guest) == INSTANCE_RUNNING)
        return error_set(err, BRU_EBUSY, "the session is inside another call");
    if (h->flags & SNAPSHOT_BASED)
        return error_set(err, BRU_ESTATE,
                         "the snapshot holds only what changed since %.12s...: join it to that one "
                         "first",
                         snapshot->base_id);
    bru_status st = check_match(s, snapshot, err);
    if (!st) st = check_room(s, snapshot, err);
    if (!st && h->flags & SNAPSHOT_HAS_FILES)
        st = snapshot_unpack(snapshot->bytes, h, SNAPSHOT_FILES, &files, err);
    if (st) return st;
    st = session_reset(s, files ? BRU_RESET_FILES : 0, err);
    if (!st) {
        st = put_back(s, snapshot, files, err);
        if (st) st = fall_back(s, st, err);
    }
    mem_free(files);
    return st;
}

/* ---- Twins ----------------------------------------------------------------------------------- */

typedef struct copying {
    gmem from, to;
} copying;

static bool copy_pages(void *ctx, uint64_t at, uint64_t len) {
    const copying *c = ctx;
    memcpy(c->to.base + at, c->from.base + at, (size_t)len);
    return true;
}

static bru_status copy_memory(bru_session *s, bru_session *twin, bru_error *err) {
    copying c = { instance_memory(s->guest), instance_memory(twin->guest) };
    bru_status st = c.from.size > c.to.size ? instance_grow(twin->guest, c.from.size, err) : BRU_OK;
    return st ? st : instance_written(s->guest, copy_pages, &c, err);
}

static bru_status copy_state(bru_session *s, bru_session *twin, bru_error *err) {
    state_view view;
    buf state;
    buf_init(&state, SNAPSHOT_STATE_MAX);
    bru_status st = state_save(s, &state, err);
    if (!st) st = state_parse(state.data, state.len, &view, err);
    if (!st) st = state_load(twin, &view, err);
    if (!st) wake_next(twin, &view.head);
    if (!st && view.head.waiting) twin->engine.deadline = s->engine.deadline; /* to the moment */
    buf_free(&state);
    return st;
}

/* What a session was given when it was made. */
static bru_status copy_world(bru_session *s, bru_session *twin, bru_error *err) {
    bru_status st = memtree_fork(s->tree, &twin->tree, err);
    if (!st) st = session_open_world(twin, s->image->root, err);
    if (!st) st = vfs_mount_alike(twin->files, s->files, err);
    if (!st) st = wasi_copy_strings(twin->wasi, s->wasi, err);
    if (!st && buf_append(&twin->functions, s->functions.data, s->functions.len))
        st = error_set(err, BRU_ENOMEM, "no memory for the host functions");
    twin->functions_told = s->functions_told;
    return st;
}

bru_status bru_session_fork(bru_session *s, bru_session **out, bru_error *err) {
    *out = NULL;
    bru_status st = state_ready(s, err);
    if (st) return st;
    bru_session *twin = mem_zero(1, sizeof *twin);
    if (!twin) return error_set(err, BRU_ENOMEM, "no memory for a session");
    twin->image = bru_image_ref(s->image);
    twin->limits = s->limits;
    twin->flags = s->flags;
    twin->own = s->own;
    twin->control = s->control;
    twin->engine.grace = s->limits.grace_ns;
    session_arm_soft_stops(twin);
    st = copy_world(s, twin, err);
    if (!st) st = session_make_instance(twin, err);
    if (!st) st = copy_memory(s, twin, err);
    if (!st) st = copy_state(s, twin, err);
    if (st)
        bru_session_free(twin);
    else
        *out = twin;
    return st;
}
