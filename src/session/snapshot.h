/* What brumate/snapshot.h does once arguments were checked.
 *
 *   snapshot_open.c   what a snapshot is: opened, told, saved, joined
 *   snapshot.c        between sessions and snapshots: taking, putting back, twins */
#ifndef BRU_SESSION_SNAPSHOT_H
#define BRU_SESSION_SNAPSHOT_H

#include "brumate/snapshot.h"
#include "image/snapshot.h"
#include "session/session.h"
#include "session/state.h"

struct bru_snapshot {
    uint8_t *bytes;
    size_t len;
    snapshot_header header;
    char image_id[33], wasm_sha256[65], id[33], base_id[33];
    uint8_t *state;
    state_view view; /* of state */
    snapshot_page *map;
    size_t map_count;
    bru_snapshot_call *calls; /* their names are owned */
};

/* Unpacks the pages; `out->pages` is the caller's. */
BRU_MUST_CHECK bru_status snapshot_content_read(const bru_snapshot *snapshot, snapshot_content *out,
                                                bru_error *err);
/* Finishes what was written, with the options' key, as a snapshot. */
BRU_MUST_CHECK bru_status snapshot_from_writer(snapshot_writer *w, const bru_snapshot_options *o,
                                               bru_snapshot **out, bru_error *err);

BRU_MUST_CHECK bru_status session_snapshot_open(const void *bytes, size_t len, snapshot_key key,
                                                bru_snapshot **out, bru_error *err);
BRU_MUST_CHECK bru_status session_snapshot_load(const char *path, snapshot_key key,
                                                bru_snapshot **out, bru_error *err);
BRU_MUST_CHECK bru_status session_snapshot_join(const bru_snapshot *base,
                                                const bru_snapshot *changes,
                                                const bru_snapshot_options *o, bru_snapshot **out,
                                                bru_error *err);
BRU_MUST_CHECK bru_status session_snapshot(bru_session *s, const bru_snapshot_options *o,
                                           bru_snapshot **out, bru_error *err);
#endif
