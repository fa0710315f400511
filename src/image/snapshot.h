/* The snapshot's form: a header, then four parts, each compressed for itself (zstd), then, if it is
 * signed, a keyed BLAKE2b of all that.
 *
 *     state   what the session keeps besides memory: session/snapshot.c
 *     map     which pages of linear memory differ from the image, and where each one's bytes are
 *     pages   those bytes, each different page once
 *     files   the in-memory tree, as memtree_save() has it; may be missing
 *
 * A snapshot may hold only what changed since another one, its base: pages that differ from the
 * base's, and the files compressed with the base's as what went before, or not at all if they are
 * the same. Such a one is joined to its base to become whole.
 *
 * All numbers are little-endian. The checksum finds damage, not malice: every number that is read
 * is checked against what it could do. */
#ifndef BRU_IMAGE_SNAPSHOT_H
#define BRU_IMAGE_SNAPSHOT_H

#include "base/base.h"
#include "base/door.h"

#define SNAPSHOT_MAGIC   "BRUSNAP\x1a"
#define SNAPSHOT_VERSION 2u
#define SNAPSHOT_PAGE    4096u
/* Ceilings of the parts, uncompressed. */
#define SNAPSHOT_STATE_MAX (1u << 30)
#define SNAPSHOT_FILES_MAX (8ull << 30)

enum snapshot_part { SNAPSHOT_STATE, SNAPSHOT_MAP, SNAPSHOT_PAGES, SNAPSHOT_FILES, SNAPSHOT_PARTS };

enum {
    SNAPSHOT_WAITING = 1u,
    SNAPSHOT_HAS_FILES = 2u,
    SNAPSHOT_SIGNED = 4u,
    SNAPSHOT_BASED = 8u,       /* changes since its base */
    SNAPSHOT_BASE_FILES = 16u, /* whose files it has */
    SNAPSHOT_FILES_OVER = 32u, /* its files unpack with its base's */
    SNAPSHOT_FLAGS = 63u
};

enum { SNAPSHOT_ID = 16, SNAPSHOT_TAG = 32 };

typedef struct snapshot_header {
    char magic[8];
    uint32_t version;
    uint32_t flags;
    uint64_t total;                     /* bytes, header and signature included */
    uint8_t id[SNAPSHOT_ID];            /* of what it holds, joined or not */
    uint8_t base[SNAPSHOT_ID];          /* the base's; zeros if it is whole */
    uint64_t wall;                      /* when it was taken, ns since 1970 */
    uint64_t memory;                    /* bytes of linear memory */
    char image_id[32], wasm_sha256[64]; /* hex digits */
    struct {
        uint64_t stored, raw; /* bytes, compressed and not */
    } parts[SNAPSHOT_PARTS];  /* one behind the other */
    uint8_t content_sum[16];  /* XXH3-128 of everything behind the header, but the signature */
    uint8_t header_sum[8];    /* XXH3-64 of the header up to here */
} snapshot_header;

/* Of any length that was checked by snapshot_key_check(); without bytes: none. */
typedef struct snapshot_key {
    const void *bytes;
    size_t len;
} snapshot_key;

enum { SNAPSHOT_KEY_MIN = 16 };
BRU_MUST_CHECK bru_status snapshot_key_check(snapshot_key key, bru_error *err);

/* Before anything else is read: whether the bytes were signed with this key, or not at all if there
 * is none. Bytes that are no snapshot may pass. BRU_EPERM. */
BRU_MUST_CHECK bru_status snapshot_authentic(const uint8_t *bytes, size_t len, snapshot_key key,
                                             bru_error *err);

/* Checks header and sums of `len` bytes. BRU_EFORMAT. */
BRU_MUST_CHECK bru_status snapshot_check(const uint8_t *bytes, size_t len, snapshot_header *out,
                                         bru_error *err);

/* Makes the sums of `len` bytes right, the header's length too; at least a header. */
void snapshot_seal(uint8_t *bytes, size_t len);

/* ---- Writing ------------------------------------------------------------------------------- */

typedef struct snapshot_writer {
    buf out;
    snapshot_header header;
    enum snapshot_part part;
    uint64_t left; /* bytes that the part still needs */
    void *zstd;
    void *hash; /* of the parts */
    uint8_t *chunk;
} snapshot_writer;

/* `level` is zstd's. The header's texts, flags and numbers are the caller's to fill. */
BRU_MUST_CHECK bru_status snapshot_begin(snapshot_writer *w, int level, bru_error *err);
/* Parts come in their order; each is given as many bytes as were announced, in any pieces. */
BRU_MUST_CHECK bru_status snapshot_part_begin(snapshot_writer *w, enum snapshot_part part,
                                              uint64_t raw, bru_error *err);
/* The same for a part that unpacks only with `before`, which must stay until the part is whole. */
BRU_MUST_CHECK bru_status snapshot_part_over(snapshot_writer *w, enum snapshot_part part,
                                             uint64_t raw, const void *before, size_t before_len,
                                             bru_error *err);
BRU_MUST_CHECK bru_status snapshot_put(snapshot_writer *w, const void *bytes, size_t len,
                                       bru_error *err);
/* Names it if it has no id yet, seals and, with a key, signs; `w->out` then holds all of it. */
BRU_MUST_CHECK bru_status snapshot_finish(snapshot_writer *w, snapshot_key key, bru_error *err);
void snapshot_writer_free(snapshot_writer *w); /* `out` too, unless it was taken (zeroed) */

/* ---- Reading ------------------------------------------------------------------------------- */

/* A whole part, uncompressed, into `*out` (owned, mem_free). `bytes` were checked. */
BRU_MUST_CHECK bru_status snapshot_unpack(const uint8_t *bytes, const snapshot_header *h,
                                          enum snapshot_part part, uint8_t **out, bru_error *err);

/* The same of a part that was written over `before`. */
BRU_MUST_CHECK bru_status snapshot_unpack_over(const uint8_t *bytes, const snapshot_header *h,
                                               enum snapshot_part part, const void *before,
                                               size_t before_len, uint8_t **out, bru_error *err);

/* A part, piece by piece. The bytes must stay. */
typedef struct snapshot_stream {
    const uint8_t *at;
    size_t left;
    void *zstd;
} snapshot_stream;
BRU_MUST_CHECK bru_status snapshot_stream_open(snapshot_stream *s, const uint8_t *bytes,
                                               const snapshot_header *h, enum snapshot_part part,
                                               bru_error *err);
/* The next `len` bytes. BRU_EFORMAT. */
BRU_MUST_CHECK bru_status snapshot_stream_get(snapshot_stream *s, void *to, size_t len,
                                              bru_error *err);
void snapshot_stream_close(snapshot_stream *s); /* also if opening failed */

/* ---- Pages --------------------------------------------------------------------------------- */

/* A page of the map. */
typedef struct snapshot_page {
    uint32_t page;   /* its number in linear memory */
    uint32_t source; /* which of the stored pages, with the bit SNAPSHOT_DELTA if those are to be
                      * combined with the image's by exclusive or; or SNAPSHOT_ZERO */
} snapshot_page;
#define SNAPSHOT_DELTA (1u << 31)
#define SNAPSHOT_ZERO  UINT32_MAX
/* Or, in a snapshot with a base, with what the base has stored for this page. */
#define SNAPSHOT_OVER (1u << 30)

/* Checks that pages ascend within `memory` bytes, and that stored ones first appear in order, all
 * `stored` of them; `based`: it has a base. BRU_EFORMAT. */
BRU_MUST_CHECK bru_status snapshot_map_check(const snapshot_page *map, size_t count,
                                             uint64_t stored, uint64_t memory, bool based,
                                             bru_error *err);

/* The pages of a snapshot, out of its bytes. */
typedef struct snapshot_content {
    const snapshot_page *map; /* checked */
    size_t count;
    uint8_t *pages; /* the stored ones; owned, mem_free */
} snapshot_content;

/* The map in the making. */
typedef struct snapshot_pages {
    gmem memory;
    const uint8_t *image; /* what it started from, page by page */
    uint64_t image_size;
    const snapshot_content *base; /* NULL: none */
    size_t passed;                /* pages of the base's map that were seen to */
    snapshot_page *map;
    size_t count, cap;
    uint32_t *first;  /* for each stored page the place in the map that it first came for */
    uint64_t *hashes; /* of their bytes */
    uint32_t stored;
    size_t stored_cap;
    uint32_t *index; /* stored page + 1 by hash */
    size_t index_size;
    bool full; /* no memory */
} snapshot_pages;

/* `base` is whole, and fits the image. */
void snapshot_pages_init(snapshot_pages *p, gmem memory, const uint8_t *image, uint64_t image_size,
                         const snapshot_content *base);
/* Adds the pages of a range that differs from the image: a slot_visit. False: no memory. */
bool snapshot_pages_add(void *pages, uint64_t at, uint64_t len);
/* Writes the parts MAP and PAGES. */
BRU_MUST_CHECK bru_status snapshot_pages_put(snapshot_pages *p, snapshot_writer *w, bru_error *err);
void snapshot_pages_free(snapshot_pages *p);

/* Whether every page that is stored as a difference lies within the image. */
bool snapshot_map_fits(const snapshot_page *map, size_t count, uint64_t image_size);
/* Puts the pages of a checked map that fits into `memory`, that holds the image's bytes and zeros
 * behind them. BRU_EFORMAT, BRU_ENOMEM: some may be there. */
BRU_MUST_CHECK bru_status snapshot_pages_get(const uint8_t *bytes, const snapshot_header *h,
                                             const snapshot_page *map, size_t count, gmem memory,
                                             const uint8_t *image, bru_error *err);

/* Writes the parts MAP and PAGES of a base with what changed since, up to `memory` bytes.
 * BRU_EFORMAT: they do not belong together. */
BRU_MUST_CHECK bru_status snapshot_pages_join(const snapshot_content *base,
                                              const snapshot_content *changes, uint64_t memory,
                                              snapshot_writer *w, bru_error *err);

/* ---- Files --------------------------------------------------------------------------------- */

/* Not `synced`: whole or not at all for other processes, but a power cut may undo it. */
BRU_MUST_CHECK bru_status snapshot_file_write(const char *path, const void *bytes, size_t len,
                                              bool synced, bru_error *err);
BRU_MUST_CHECK bru_status snapshot_file_read(const char *path, uint8_t **out, size_t *len,
                                             bru_error *err);

#endif
