/* Snapshots that somebody made up, their sums made right. By the first byte: the bytes as they are,
 * or the parts from which one is put together, to get behind the compression. Then everything that
 * needs no guest is put back. */
#include "fuzz.h"

#include "brumate/snapshot.h"
#include "image/snapshot.h"
#include "session/calls_save.h"
#include "session/state.h"

enum { MEMORY = 4 * 65536, IMAGE = 2 * 65536, PATTERN = 16 };

static void as_it_is(const uint8_t *data, size_t size) {
    bru_snapshot *snapshot = NULL;
    bru_snapshot_info info;
    uint8_t *bytes = malloc(size + 1);
    MUST(bytes != NULL);
    if (size) memcpy(bytes, data, size);
    if (size >= sizeof(snapshot_header)) snapshot_seal(bytes, size);
    if (bru_snapshot_open(bytes, size, &snapshot, NULL) == BRU_OK) {
        bru_snapshot_get_info(snapshot, &info);
        for (uint32_t i = 0; i < info.call_count; i++) {
            bru_snapshot_call c;
            MUST(bru_snapshot_get_call(snapshot, i, &c, NULL) == BRU_OK);
        }
    }
    bru_snapshot_free(snapshot);
    free(bytes);
}

/* Lengths in the input are cut to what there is. */
static const uint8_t *cut(input *in, size_t *len) {
    const uint8_t *p = in->p;
    if (*len > in->left) *len = in->left;
    in->p += *len;
    in->left -= *len;
    return p;
}

static void put(snapshot_writer *w, enum snapshot_part part, const void *bytes, size_t len) {
    MUST(!snapshot_part_begin(w, part, len, NULL));
    MUST(!snapshot_put(w, bytes, len, NULL));
}

/* ---- Memory ---- */

static void put_back_pages(const snapshot_writer *w, const snapshot_page *map, size_t count) {
    static uint8_t image[IMAGE], memory[MEMORY];
    for (size_t i = 0; i < IMAGE; i++) image[i] = (uint8_t)(i * 31);
    memset(memory, 0, MEMORY);
    memcpy(memory, image, IMAGE);
    uint64_t stored = w->header.parts[SNAPSHOT_PAGES].raw / SNAPSHOT_PAGE;
    if (snapshot_map_check(map, count, stored, MEMORY, false, NULL)) return;
    if (!snapshot_map_fits(map, count, IMAGE)) return;
    gmem to = { memory, MEMORY };
    MUST(!snapshot_pages_get(w->out.data, &w->header, map, count, to, image, NULL));
    /* What was put back is told alike. */
    snapshot_pages again;
    snapshot_pages_init(&again, to, image, IMAGE, NULL);
    for (size_t i = 0; i < count; i++)
        MUST(snapshot_pages_add(&again, (uint64_t)map[i].page * SNAPSHOT_PAGE, SNAPSHOT_PAGE));
    MUST(again.count == count && again.stored <= count);
    snapshot_pages_free(&again);
}

/* The pages as changes since a base: what comes out must be a sound map again. */
static void join_pages(const snapshot_page *map, size_t count, uint8_t *pages, uint64_t stored) {
    static uint8_t base_pages[2 * SNAPSHOT_PAGE];
    static const snapshot_page base_map[] = {
        { 1, 0 }, { 2, 1 | SNAPSHOT_DELTA }, { 3, SNAPSHOT_ZERO }, { 50, 0 }
    };
    const snapshot_content base = { base_map, sizeof base_map / sizeof *base_map, base_pages };
    const snapshot_content changes = { map, count, pages };
    snapshot_writer w;
    uint8_t *joined = NULL;
    memset(base_pages, 'b', sizeof base_pages);
    if (snapshot_map_check(map, count, stored, MEMORY, true, NULL)) return;
    MUST(!snapshot_begin(&w, 1, NULL));
    put(&w, SNAPSHOT_STATE, "", 0);
    if (!snapshot_pages_join(&base, &changes, MEMORY, &w, NULL)) {
        MUST(!snapshot_unpack(w.out.data, &w.header, SNAPSHOT_MAP, &joined, NULL));
        MUST(!snapshot_map_check((const snapshot_page *)(const void *)joined,
                                 w.header.parts[SNAPSHOT_MAP].raw / sizeof *map,
                                 w.header.parts[SNAPSHOT_PAGES].raw / SNAPSHOT_PAGE, MEMORY, false,
                                 NULL));
    }
    mem_free(joined);
    snapshot_writer_free(&w);
}

/* ---- The rest ---- */

static void check_saved_alike(bru_session *s) {
    buf saved;
    uint32_t count;
    buf_init(&saved, 1 << 24);
    MUST(!wasi_fds_save(s->wasi, &saved, NULL));
    wasi_reset(s->wasi);
    MUST(!wasi_fds_load(s->wasi, saved.data, saved.len, NULL));
    buf_clear(&saved);
    MUST(!calls_save(&s->calls, &saved, &count));
    MUST(count == s->calls.open && calls_saved(saved.data, saved.len, count));
    buf_free(&saved);
}

static void put_back_state(const uint8_t *state, size_t state_len, const uint8_t *files,
                           size_t files_len) {
    bru_limits limits = { .file_bytes = 1 << 18, .output_bytes = 4096 };
    bru_session s = { .limits = session_limits(&limits), .phase = PHASE_IDLE };
    state_view view;
    vfs_fs *lib = NULL;
    MUST(!memtree_new(NULL, &lib, NULL));
    MUST(!session_open_world(&s, lib, NULL));
    fs_unref(lib);
    (void)!memtree_load(s.tree, files, files_len, NULL);
    if (!state_parse(state, state_len, &view, NULL) && !state_load_world(&s, &view, NULL))
        check_saved_alike(&s);
    wasi_reset(s.wasi);
    session_close_world(&s);
}

static void from_parts(const uint8_t *data, size_t size) {
    input in = { data, size };
    size_t state_len = take(&in, 2), count = take(&in, 1), stored = take(&in, 1) % 16;
    const uint8_t *state = cut(&in, &state_len);
    size_t map_len = count * sizeof(snapshot_page), pattern_len = stored * PATTERN;
    const uint8_t *map_bytes = cut(&in, &map_len), *patterns = cut(&in, &pattern_len);
    snapshot_page map[256];
    count = map_len / sizeof *map;
    if (count) memcpy(map, map_bytes, count * sizeof *map);
    stored = pattern_len / PATTERN;
    uint8_t *pages = malloc(stored * SNAPSHOT_PAGE + 1);
    MUST(pages != NULL);
    for (size_t i = 0; i < stored * SNAPSHOT_PAGE; i++)
        pages[i] = patterns[i / SNAPSHOT_PAGE * PATTERN + i % PATTERN];
    snapshot_writer w;
    MUST(!snapshot_begin(&w, 1, NULL));
    w.header.flags = SNAPSHOT_HAS_FILES;
    w.header.memory = MEMORY;
    memset(w.header.image_id, '0', sizeof w.header.image_id);
    memset(w.header.wasm_sha256, '0', sizeof w.header.wasm_sha256);
    put(&w, SNAPSHOT_STATE, state, state_len);
    put(&w, SNAPSHOT_MAP, map, count * sizeof *map);
    put(&w, SNAPSHOT_PAGES, pages, stored * SNAPSHOT_PAGE);
    put(&w, SNAPSHOT_FILES, in.p, in.left);
    MUST(!snapshot_finish(&w, (snapshot_key){ 0 }, NULL));
    bru_snapshot *snapshot = NULL;
    bru_status st = bru_snapshot_open(w.out.data, w.out.len, &snapshot, NULL);
    MUST(st == BRU_OK || st == BRU_EFORMAT);
    bru_snapshot_free(snapshot);
    put_back_pages(&w, map, count);
    join_pages(map, count, pages, stored);
    put_back_state(state, state_len, in.p, in.left);
    snapshot_writer_free(&w);
    free(pages);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    if (data[0] & 1)
        as_it_is(data + 1, size - 1);
    else
        from_parts(data + 1, size - 1);
    return 0;
}
