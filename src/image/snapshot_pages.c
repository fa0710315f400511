/* Which pages a snapshot holds, and in which form. A page that is largely the image's (a reference
 * count here, a pointer there) is stored as the difference, which packs to next to nothing; equal
 * pages are stored once; pages of zeros not at all. */
#include "image/snapshot.h"

#include <string.h>
#include <xxhash.h>

enum { WORDS = SNAPSHOT_PAGE / sizeof(uint64_t) };

typedef struct page_bytes {
    uint64_t words[WORDS];
} page_bytes;

/* ---- Making ---------------------------------------------------------------------------------- */

void snapshot_pages_init(snapshot_pages *p, gmem memory, const uint8_t *image,
                         uint64_t image_size) {
    *p = (snapshot_pages){ .memory = memory, .image = image, .image_size = image_size };
}

void snapshot_pages_free(snapshot_pages *p) {
    mem_free(p->map);
    mem_free(p->first);
    mem_free(p->hashes);
    mem_free(p->index);
}

static bool is_zero(const uint8_t *page) {
    return page[0] == 0 && memcmp(page, page + 1, SNAPSHOT_PAGE - 1) == 0;
}

/* Whether more than half of a page is the image's. */
static bool resembles(const uint8_t *page, const uint8_t *image) {
    page_bytes a, b;
    unsigned same = 0;
    memcpy(&a, page, sizeof a);
    memcpy(&b, image, sizeof b);
    for (unsigned i = 0; i < WORDS; i++) same += a.words[i] == b.words[i];
    return same > WORDS / 2;
}

static void combine(page_bytes *out, const uint8_t *page, const uint8_t *image) {
    page_bytes b;
    memcpy(out, page, sizeof *out);
    memcpy(&b, image, sizeof b);
    for (unsigned i = 0; i < WORDS; i++) out->words[i] ^= b.words[i];
}

/* The bytes to be stored for a page of the map; `room` is used for differences. */
static const uint8_t *encoded(const gmem *memory, const uint8_t *image, const snapshot_page *page,
                              page_bytes *room) {
    uint64_t at = (uint64_t)page->page * SNAPSHOT_PAGE;
    if (!(page->source & SNAPSHOT_DELTA)) return memory->base + at;
    combine(room, memory->base + at, image + at);
    return (const uint8_t *)room;
}

static bool grow(void *block, size_t *cap, size_t size) {
    void **at = block;
    size_t room = *cap ? 2 * *cap : 256;
    void *more = mem_grow(*at, room * size);
    if (!more) return false;
    *at = more;
    *cap = room;
    return true;
}

static void index_add(snapshot_pages *p, uint32_t stored) {
    size_t i = p->hashes[stored] & (p->index_size - 1);
    while (p->index[i]) i = (i + 1) & (p->index_size - 1);
    p->index[i] = stored + 1;
}

/* Room for one more stored page: in its arrays, and in an index that is at most half full. */
static bool stored_reserve(snapshot_pages *p) {
    if (p->stored == p->stored_cap) {
        size_t cap = p->stored_cap, again = p->stored_cap;
        if (!grow(&p->first, &cap, sizeof *p->first) ||
            !grow(&p->hashes, &again, sizeof *p->hashes))
            return false;
        p->stored_cap = cap;
    }
    if (2 * ((size_t)p->stored + 1) <= p->index_size) return true;
    size_t size = p->index_size ? 2 * p->index_size : 512;
    uint32_t *index = mem_zero(size, sizeof *index);
    if (!index) return false;
    mem_free(p->index);
    p->index = index;
    p->index_size = size;
    for (uint32_t i = 0; i < p->stored; i++) index_add(p, i);
    return true;
}

/* Gives the page of the map its source: one that is stored already, or a new one. */
static bool find_source(snapshot_pages *p, snapshot_page *page) {
    page_bytes room, other;
    const uint8_t *bytes = encoded(&p->memory, p->image, page, &room);
    uint64_t hash = XXH3_64bits(bytes, SNAPSHOT_PAGE);
    if (!stored_reserve(p)) return false;
    uint32_t delta = page->source & SNAPSHOT_DELTA;
    for (size_t i = hash & (p->index_size - 1); p->index[i]; i = (i + 1) & (p->index_size - 1)) {
        uint32_t found = p->index[i] - 1;
        if (p->hashes[found] != hash) continue;
        const uint8_t *there = encoded(&p->memory, p->image, &p->map[p->first[found]], &other);
        if (memcmp(there, bytes, SNAPSHOT_PAGE) != 0) continue;
        page->source = found | delta;
        return true;
    }
    p->first[p->stored] = (uint32_t)p->count;
    p->hashes[p->stored] = hash;
    page->source = p->stored | delta;
    index_add(p, p->stored++);
    return true;
}

static bool add_page(snapshot_pages *p, uint64_t at) {
    if (p->count == p->cap && !grow(&p->map, &p->cap, sizeof *p->map)) return false;
    snapshot_page page = { (uint32_t)(at / SNAPSHOT_PAGE), 0 };
    const uint8_t *bytes = p->memory.base + at;
    if (is_zero(bytes)) {
        page.source = SNAPSHOT_ZERO;
    } else {
        if (at < p->image_size && resembles(bytes, p->image + at)) page.source = SNAPSHOT_DELTA;
        if (!find_source(p, &page)) return false;
    }
    p->map[p->count++] = page;
    return true;
}

bool snapshot_pages_add(void *pages, uint64_t at, uint64_t len) {
    snapshot_pages *p = pages;
    for (uint64_t end = at + len; !p->full && at < end; at += SNAPSHOT_PAGE)
        p->full = !add_page(p, at);
    return !p->full;
}

bru_status snapshot_pages_put(snapshot_pages *p, snapshot_writer *w, bru_error *err) {
    page_bytes room;
    if (p->full) return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    bru_status st = snapshot_part_begin(w, SNAPSHOT_MAP, p->count * sizeof *p->map, err);
    if (!st) st = snapshot_put(w, p->map, p->count * sizeof *p->map, err);
    if (!st) st = snapshot_part_begin(w, SNAPSHOT_PAGES, (uint64_t)p->stored * SNAPSHOT_PAGE, err);
    for (uint32_t i = 0; !st && i < p->stored; i++) {
        const snapshot_page *page = &p->map[p->first[i]];
        st = snapshot_put(w, encoded(&p->memory, p->image, page, &room), SNAPSHOT_PAGE, err);
    }
    return st;
}

/* ---- Putting back ---------------------------------------------------------------------------- */

static uint32_t ordinal(const snapshot_page *page) {
    return page->source & ~SNAPSHOT_DELTA;
}

bru_status snapshot_map_check(const snapshot_page *map, size_t count, uint64_t stored,
                              uint64_t memory, bru_error *err) {
    uint32_t next = 0;
    bool sound = true;
    for (size_t i = 0; sound && i < count; i++) {
        sound = map[i].page < memory / SNAPSHOT_PAGE && (i == 0 || map[i].page > map[i - 1].page);
        if (map[i].source == SNAPSHOT_ZERO) continue;
        sound = sound && ordinal(&map[i]) <= next && ordinal(&map[i]) < stored;
        if (ordinal(&map[i]) == next) next++;
    }
    if (sound && next == stored) return BRU_OK;
    return error_set(err, BRU_EFORMAT, "the snapshot is damaged: its map of pages is wrong");
}

bool snapshot_map_fits(const snapshot_page *map, size_t count, uint64_t image_size) {
    for (size_t i = 0; i < count; i++)
        if (map[i].source != SNAPSHOT_ZERO && map[i].source & SNAPSHOT_DELTA &&
            map[i].page >= image_size / SNAPSHOT_PAGE)
            return false;
    return true;
}

static void put_page(gmem memory, const uint8_t *image, const snapshot_page *page,
                     const uint8_t *bytes) {
    uint64_t at = (uint64_t)page->page * SNAPSHOT_PAGE;
    page_bytes room;
    if (page->source & SNAPSHOT_DELTA) {
        combine(&room, bytes, image + at);
        bytes = (const uint8_t *)&room;
    }
    memcpy(memory.base + at, bytes, SNAPSHOT_PAGE);
}

bru_status snapshot_pages_get(const uint8_t *bytes, const snapshot_header *h,
                              const snapshot_page *map, size_t count, gmem memory,
                              const uint8_t *image, bru_error *err) {
    size_t stored = (size_t)(h->parts[SNAPSHOT_PAGES].raw / SNAPSHOT_PAGE);
    uint32_t *first = mem_zero(stored + 1, sizeof *first), next = 0;
    snapshot_stream in = { 0 };
    page_bytes room, fresh;
    bru_status st = first ? snapshot_stream_open(&in, bytes, h, SNAPSHOT_PAGES, err)
                          : error_set(err, BRU_ENOMEM, "no memory to unpack a snapshot");
    for (size_t i = 0; !st && i < count; i++) {
        const snapshot_page *page = &map[i];
        if (page->source == SNAPSHOT_ZERO) {
            memset(memory.base + (uint64_t)page->page * SNAPSHOT_PAGE, 0, SNAPSHOT_PAGE);
        } else if (ordinal(page) < next) {
            put_page(memory, image, page,
                     encoded(&memory, image, &map[first[ordinal(page)]], &room));
        } else {
            first[next++] = (uint32_t)i;
            st = snapshot_stream_get(&in, &fresh, sizeof fresh, err);
            if (!st) put_page(memory, image, page, (const uint8_t *)&fresh);
        }
    }
    snapshot_stream_close(&in);
    mem_free(first);
    return st;
}
