/* Which pages a snapshot holds, and in which form. A page that is largely the image's (a reference
 * count here, a pointer there), or the base's, is stored as the difference, which packs to next to
 * nothing; equal pages are stored once; pages of zeros not at all. */
#include "image/snapshot.h"

#include <string.h>
#include <xxhash.h>

enum { WORDS = SNAPSHOT_PAGE / sizeof(uint64_t) };

typedef struct page_bytes {
    uint64_t words[WORDS];
} page_bytes;

/* ---- Making ---------------------------------------------------------------------------------- */

void snapshot_pages_init(snapshot_pages *p, gmem memory, const uint8_t *image, uint64_t image_size,
                         const snapshot_content *base) {
    *p = (snapshot_pages){
        .memory = memory, .image = image, .image_size = image_size, .base = base
    };
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

/* Either of them from the difference and the other. */
static void combine(page_bytes *out, const uint8_t *page, const uint8_t *image) {
    page_bytes b;
    memcpy(out, page, sizeof *out);
    memcpy(&b, image, sizeof b);
    for (unsigned i = 0; i < WORDS; i++) out->words[i] ^= b.words[i];
}

static uint32_t ordinal(const snapshot_page *page) {
    return page->source & ~(SNAPSHOT_DELTA | SNAPSHOT_OVER);
}

static const uint8_t *stored_at(const snapshot_content *c, const snapshot_page *page) {
    return c->pages + (size_t)ordinal(page) * SNAPSHOT_PAGE;
}

static const snapshot_page *find_page(const snapshot_content *c, uint32_t number) {
    size_t from = 0, to = c->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (c->map[middle].page < number)
            from = middle + 1;
        else
            to = middle;
    }
    return from < c->count && c->map[from].page == number ? &c->map[from] : NULL;
}

/* What the memory held where a page of the base's is, that is not zero; `room` may be used. */
static const uint8_t *base_bytes(const snapshot_pages *p, const snapshot_page *old,
                                 page_bytes *room) {
    const uint8_t *stored = stored_at(p->base, old);
    if (!(old->source & SNAPSHOT_DELTA)) return stored;
    combine(room, stored, p->image + (uint64_t)old->page * SNAPSHOT_PAGE);
    return (const uint8_t *)room;
}

/* The bytes to be stored for a page of the map; `room` is used for differences. */
static const uint8_t *encoded(const snapshot_pages *p, const snapshot_page *page,
                              page_bytes *room) {
    uint64_t at = (uint64_t)page->page * SNAPSHOT_PAGE;
    const uint8_t *now = p->memory.base + at;
    page_bytes before;
    if (page->source & SNAPSHOT_OVER)
        combine(room, now, base_bytes(p, find_page(p->base, page->page), &before));
    else if (page->source & SNAPSHOT_DELTA)
        combine(room, now, p->image + at);
    else
        return now;
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
    const uint8_t *bytes = encoded(p, page, &room);
    uint64_t hash = XXH3_64bits(bytes, SNAPSHOT_PAGE);
    if (!stored_reserve(p)) return false;
    uint32_t form = page->source;
    for (size_t i = hash & (p->index_size - 1); p->index[i]; i = (i + 1) & (p->index_size - 1)) {
        uint32_t found = p->index[i] - 1;
        if (p->hashes[found] != hash) continue;
        const uint8_t *there = encoded(p, &p->map[p->first[found]], &other);
        if (memcmp(there, bytes, SNAPSHOT_PAGE) != 0) continue;
        page->source = found | form;
        return true;
    }
    p->first[p->stored] = (uint32_t)p->count;
    p->hashes[p->stored] = hash;
    page->source = p->stored | form;
    index_add(p, p->stored++);
    return true;
}

/* Whether a page is what the base has there: its own, or what the image has. */
static bool as_in_base(const snapshot_pages *p, uint64_t at, const snapshot_page *old) {
    const uint8_t *now = p->memory.base + at;
    page_bytes room;
    if (old ? old->source == SNAPSHOT_ZERO : at >= p->image_size) return is_zero(now);
    return memcmp(now, old ? base_bytes(p, old, &room) : p->image + at, SNAPSHOT_PAGE) == 0;
}

/* In which form a page that is not zero is stored, `old` being what the base has. */
static uint32_t form_of(const snapshot_pages *p, uint64_t at, const snapshot_page *old) {
    const uint8_t *now = p->memory.base + at;
    page_bytes room;
    if (old && old->source != SNAPSHOT_ZERO && resembles(now, base_bytes(p, old, &room)))
        return SNAPSHOT_OVER;
    return at < p->image_size && resembles(now, p->image + at) ? SNAPSHOT_DELTA : 0;
}

static bool add_page(snapshot_pages *p, uint64_t at) {
    if (p->count == p->cap && !grow(&p->map, &p->cap, sizeof *p->map)) return false;
    snapshot_page page = { (uint32_t)(at / SNAPSHOT_PAGE), SNAPSHOT_ZERO };
    const snapshot_page *old = p->base ? find_page(p->base, page.page) : NULL;
    if (p->base && as_in_base(p, at, old)) return true;
    if (!is_zero(p->memory.base + at)) {
        page.source = form_of(p, at, old);
        if (!find_source(p, &page)) return false;
    }
    p->map[p->count++] = page;
    return true;
}

/* The base's pages before `at` that were not told to be written: they are the image's again. */
static bool add_passed(snapshot_pages *p, uint64_t at) {
    while (p->base && p->passed < p->base->count) {
        uint64_t passed = (uint64_t)p->base->map[p->passed].page * SNAPSHOT_PAGE;
        if (passed >= at) break;
        if (!add_page(p, passed)) return false;
        p->passed++;
    }
    return true;
}

bool snapshot_pages_add(void *pages, uint64_t at, uint64_t len) {
    snapshot_pages *p = pages;
    for (uint64_t end = at + len; !p->full && at < end; at += SNAPSHOT_PAGE) {
        p->full = !add_passed(p, at) || !add_page(p, at);
        if (p->base && p->passed < p->base->count &&
            p->base->map[p->passed].page == at / SNAPSHOT_PAGE)
            p->passed++;
    }
    return !p->full;
}

bru_status snapshot_pages_put(snapshot_pages *p, snapshot_writer *w, bru_error *err) {
    page_bytes room;
    p->full = p->full || !add_passed(p, p->memory.size);
    if (p->full) return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    bru_status st = snapshot_part_begin(w, SNAPSHOT_MAP, p->count * sizeof *p->map, err);
    if (!st) st = snapshot_put(w, p->map, p->count * sizeof *p->map, err);
    if (!st) st = snapshot_part_begin(w, SNAPSHOT_PAGES, (uint64_t)p->stored * SNAPSHOT_PAGE, err);
    for (uint32_t i = 0; !st && i < p->stored; i++) {
        const snapshot_page *page = &p->map[p->first[i]];
        st = snapshot_put(w, encoded(p, page, &room), SNAPSHOT_PAGE, err);
    }
    return st;
}

/* ---- Putting back ---------------------------------------------------------------------------- */

bru_status snapshot_map_check(const snapshot_page *map, size_t count, uint64_t stored,
                              uint64_t memory, bool based, bru_error *err) {
    const uint32_t both = SNAPSHOT_DELTA | SNAPSHOT_OVER;
    uint32_t next = 0;
    bool sound = true;
    for (size_t i = 0; sound && i < count; i++) {
        sound = map[i].page < memory / SNAPSHOT_PAGE && (i == 0 || map[i].page > map[i - 1].page);
        if (map[i].source == SNAPSHOT_ZERO) continue;
        uint32_t form = map[i].source & both;
        sound = sound && form != both && (based || form != SNAPSHOT_OVER);
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
    const snapshot_pages there = { .memory = memory, .image = image };
    snapshot_stream in = { 0 };
    page_bytes room, fresh;
    bru_status st = first ? snapshot_stream_open(&in, bytes, h, SNAPSHOT_PAGES, err)
                          : error_set(err, BRU_ENOMEM, "no memory to unpack a snapshot");
    for (size_t i = 0; !st && i < count; i++) {
        const snapshot_page *page = &map[i];
        if (page->source == SNAPSHOT_ZERO) {
            memset(memory.base + (uint64_t)page->page * SNAPSHOT_PAGE, 0, SNAPSHOT_PAGE);
        } else if (ordinal(page) < next) {
            put_page(memory, image, page, encoded(&there, &map[first[ordinal(page)]], &room));
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

/* ---- Joining --------------------------------------------------------------------------------- */

/* A page of the whole: where its bytes come from. */
typedef struct joined {
    const uint8_t *bytes, *over; /* `over` to be combined with them; NULL: not */
} joined;

typedef struct joining {
    const snapshot_content *base, *changes;
    snapshot_page *map;
    joined *stored;
    size_t count;
    uint32_t stored_count;
    uint32_t *of_base, *of_changes; /* the numbers that stored pages get; UINT32_MAX: none yet */
} joining;

/* Adds a page of either one; `numbers` are that one's, NULL if its bytes are for this page alone.
 */
static void join_page(joining *j, const snapshot_page *page, uint32_t *numbers, joined bytes) {
    snapshot_page *to = &j->map[j->count++];
    *to = *page;
    if (page->source == SNAPSHOT_ZERO) return;
    uint32_t *known = numbers ? &numbers[ordinal(page)] : NULL;
    uint32_t number = known && *known != UINT32_MAX ? *known : j->stored_count;
    if (number == j->stored_count) j->stored[j->stored_count++] = bytes;
    if (known) *known = number;
    to->source = number | (page->source & SNAPSHOT_DELTA);
}

static void join_base(joining *j, const snapshot_page *page) {
    joined bytes = { 0 };
    if (page->source != SNAPSHOT_ZERO) bytes.bytes = stored_at(j->base, page);
    join_page(j, page, j->of_base, bytes);
}

static bool join_change(joining *j, const snapshot_page *page, const snapshot_page *old) {
    joined bytes = { 0 };
    if (page->source != SNAPSHOT_ZERO) bytes.bytes = stored_at(j->changes, page);
    if (page->source == SNAPSHOT_ZERO || !(page->source & SNAPSHOT_OVER)) {
        join_page(j, page, j->of_changes, bytes);
        return true;
    }
    if (!old || old->source == SNAPSHOT_ZERO) return false;
    bytes.over = stored_at(j->base, old);
    join_page(j, old, NULL, bytes);
    return true;
}

static bool join_all(joining *j, uint64_t memory) {
    const snapshot_content *b = j->base, *c = j->changes;
    for (size_t i = 0, k = 0; i < b->count || k < c->count;) {
        bool from_base = i < b->count && (k == c->count || b->map[i].page < c->map[k].page);
        if (from_base) {
            if (b->map[i].page < memory / SNAPSHOT_PAGE) join_base(j, &b->map[i]);
            i++;
            continue;
        }
        bool both = i < b->count && b->map[i].page == c->map[k].page;
        if (!join_change(j, &c->map[k], both ? &b->map[i] : NULL)) return false;
        i += both;
        k++;
    }
    return true;
}

static bru_status join_put(const joining *j, snapshot_writer *w, bru_error *err) {
    page_bytes room;
    bru_status st = snapshot_part_begin(w, SNAPSHOT_MAP, j->count * sizeof *j->map, err);
    if (!st) st = snapshot_put(w, j->map, j->count * sizeof *j->map, err);
    if (!st)
        st = snapshot_part_begin(w, SNAPSHOT_PAGES, (uint64_t)j->stored_count * SNAPSHOT_PAGE, err);
    for (uint32_t i = 0; !st && i < j->stored_count; i++) {
        const joined *page = &j->stored[i];
        if (page->over) combine(&room, page->bytes, page->over);
        st = snapshot_put(w, page->over ? (const uint8_t *)&room : page->bytes, SNAPSHOT_PAGE, err);
    }
    return st;
}

/* No more stored pages than entries: each is some entry's. */
static uint32_t *numbers_new(const snapshot_content *c) {
    uint32_t *numbers = mem_zero(c->count + 1, sizeof *numbers);
    if (numbers) memset(numbers, 0xff, (c->count + 1) * sizeof *numbers);
    return numbers;
}

bru_status snapshot_pages_join(const snapshot_content *base, const snapshot_content *changes,
                               uint64_t memory, snapshot_writer *w, bru_error *err) {
    joining j = { .base = base, .changes = changes };
    size_t most = base->count + changes->count + 1;
    j.map = mem_zero(most, sizeof *j.map);
    j.stored = mem_zero(most, sizeof *j.stored);
    j.of_base = numbers_new(base);
    j.of_changes = numbers_new(changes);
    bru_status st = BRU_OK;
    if (!j.map || !j.stored || !j.of_base || !j.of_changes)
        st = error_set(err, BRU_ENOMEM, "no memory to join snapshots");
    else if (!join_all(&j, memory))
        st = error_set(err, BRU_EFORMAT,
                       "the snapshot is damaged: it changes pages that its base has not");
    if (!st) st = join_put(&j, w, err);
    mem_free(j.map);
    mem_free(j.stored);
    mem_free(j.of_base);
    mem_free(j.of_changes);
    return st;
}
