/* Sessions put to sleep, woken, and doubled. */
#include "session/snapshot.h"

#include "image/snapshot.h"
#include "session/calls_save.h"
#include "session/state.h"

#include <string.h>

struct bru_snapshot {
    uint8_t *bytes;
    size_t len;
    snapshot_header header;
    char image_id[33], wasm_sha256[65];
    uint8_t *state;
    state_view view; /* of state */
    snapshot_page *map;
    size_t map_count;
    bru_snapshot_call *calls; /* their names are owned */
};

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
                              h->parts[SNAPSHOT_PAGES].raw / SNAPSHOT_PAGE, h->memory, err);
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
    memcpy(snapshot->image_id, h->image_id, sizeof h->image_id);
    memcpy(snapshot->wasm_sha256, h->wasm_sha256, sizeof h->wasm_sha256);
    if (st)
        bru_snapshot_free(snapshot);
    else
        *out = snapshot;
    return st;
}

bru_status bru_snapshot_open(const void *bytes, size_t len, bru_snapshot **out, bru_error *err) {
    *out = NULL;
    uint8_t *copy = len ? mem_copy(bytes, len) : mem_zero(1, 1);
    if (!copy) return error_set(err, BRU_ENOMEM, "no memory for a snapshot of %zu bytes", len);
    return open_owned(copy, len, out, err);
}

bru_status bru_snapshot_load(const char *path, bru_snapshot **out, bru_error *err) {
    uint8_t *bytes;
    size_t len = 0;
    *out = NULL;
    bru_status st = snapshot_file_read(path, &bytes, &len, err);
    return st ? st : open_owned(bytes, len, out, err);
}

bru_status bru_snapshot_save(const bru_snapshot *snapshot, const char *path, bru_error *err) {
    return snapshot_file_write(path, snapshot->bytes, snapshot->len, err);
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
    };
}

bru_status bru_snapshot_get_call(const bru_snapshot *snapshot, size_t index, bru_snapshot_call *out,
                                 bru_error *err) {
    if (index >= snapshot->view.head.call_count)
        return error_set(err, BRU_ENOENT, "the snapshot has no call number %zu", index);
    *out = snapshot->calls[index];
    return BRU_OK;
}

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

static bru_status put_memory(bru_session *s, snapshot_writer *w, bru_error *err) {
    const mem_image *im = s->image->memory;
    snapshot_pages pages;
    snapshot_pages_init(&pages, instance_memory(s->guest), mem_image_bytes(im), mem_image_size(im));
    bru_status st = instance_written(s->guest, snapshot_pages_add, &pages, err);
    if (!st) st = snapshot_pages_put(&pages, w, err);
    snapshot_pages_free(&pages);
    return st;
}

static bru_status put_files(bru_session *s, snapshot_writer *w, bru_error *err) {
    buf files;
    buf_init(&files, SNAPSHOT_FILES_MAX);
    bru_status st = memtree_save(s->tree, &files, err);
    if (!st) st = put_buffer(w, SNAPSHOT_FILES, &files, err);
    buf_free(&files);
    return st;
}

bru_status session_snapshot(bru_session *s, const bru_snapshot_options *o, bru_snapshot **out,
                            bru_error *err) {
    snapshot_writer w;
    bool files = !(o->flags & BRU_SNAPSHOT_NO_FILES);
    *out = NULL;
    bru_status st = state_ready(s, err);
    if (st) return st;
    st = snapshot_begin(&w, o->level ? o->level : 1, err);
    snapshot_header *h = &w.header;
    h->flags = (files ? SNAPSHOT_HAS_FILES : 0u) | (s->phase == PHASE_REST ? SNAPSHOT_WAITING : 0u);
    h->wall = session_wall(s);
    h->memory = instance_memory(s->guest).size;
    memcpy(h->image_id, s->image->info.id, sizeof h->image_id);
    memcpy(h->wasm_sha256, s->image->info.wasm_sha256, sizeof h->wasm_sha256);
    if (!st) st = put_state(s, &w, err);
    if (!st) st = put_memory(s, &w, err);
    if (!st && files) st = put_files(s, &w, err);
    if (!st) {
        snapshot_finish(&w);
        uint8_t *bytes = w.out.data;
        size_t len = w.out.len;
        w.out = (buf){ 0 };
        st = open_owned(bytes, len, out, err);
    }
    snapshot_writer_free(&w);
    return st;
}

/* ---- Putting one back
 * ---------------------------------------------------------------------------- */

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
