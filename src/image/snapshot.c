#include "image/snapshot.h"

#include "base/fault.h"

#include <sodium.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

enum { CHUNK = 1 << 17 };
/* Frames whose window is larger than this are refused: it bounds what reading one takes. */
enum { WINDOW_LOG_MAX = 23 };

static bru_status damaged(bru_error *err, const char *what) {
    return error_set(err, BRU_EFORMAT, "the snapshot is damaged: %s", what);
}

/* ---- The header ------------------------------------------------------------------------------ */

static void header_sum(const snapshot_header *h, uint8_t out[8]) {
    XXH64_canonical_t sum;
    XXH64_canonicalFromHash(&sum, XXH3_64bits(h, offsetof(snapshot_header, header_sum)));
    memcpy(out, sum.digest, 8);
}

static size_t tag_size(const snapshot_header *h) {
    return h->flags & SNAPSHOT_SIGNED ? SNAPSHOT_TAG : 0;
}

/* Of `len` bytes, at least header and signature. */
static void content_sum(const uint8_t *bytes, size_t len, const snapshot_header *h,
                        uint8_t out[16]) {
    XXH128_canonical_t sum;
    size_t content = len - sizeof *h - tag_size(h);
    XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes + sizeof *h, content));
    memcpy(out, sum.digest, 16);
}

static bool is_hex(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

/* Whether flags and names agree: only what has a base can have its files. */
static bool flags_fit(const snapshot_header *h) {
    static const uint8_t none[SNAPSHOT_ID];
    bool based = h->flags & SNAPSHOT_BASED, whole = memcmp(h->base, none, sizeof none) == 0;
    if (h->flags & ~(uint32_t)SNAPSHOT_FLAGS || based == whole) return false;
    bool files = h->flags & SNAPSHOT_HAS_FILES;
    if (h->flags & SNAPSHOT_FILES_OVER && !(based && files)) return false;
    return !(h->flags & SNAPSHOT_BASE_FILES) || (based && !files);
}

/* Whether the sizes can be those of a snapshot, each for itself and all together. */
static bool sizes_fit(const snapshot_header *h) {
    uint64_t pages = h->memory / SNAPSHOT_PAGE, total = sizeof *h + tag_size(h);
    uint64_t map = h->parts[SNAPSHOT_MAP].raw / sizeof(snapshot_page);
    const uint64_t most[SNAPSHOT_PARTS] = {
        [SNAPSHOT_STATE] = SNAPSHOT_STATE_MAX,
        [SNAPSHOT_MAP] = pages * sizeof(snapshot_page),
        [SNAPSHOT_PAGES] = map * SNAPSHOT_PAGE,
        [SNAPSHOT_FILES] = h->flags & SNAPSHOT_HAS_FILES ? SNAPSHOT_FILES_MAX : 0,
    };
    if (h->total < total) return false;
    if (h->memory == 0 || h->memory % 65536 != 0 || h->memory > 4ull << 30) return false;
    if (h->parts[SNAPSHOT_MAP].raw % sizeof(snapshot_page) != 0) return false;
    if (h->parts[SNAPSHOT_PAGES].raw % SNAPSHOT_PAGE != 0) return false;
    for (int i = 0; i < SNAPSHOT_PARTS; i++) {
        if (h->parts[i].raw > most[i] || h->parts[i].stored > h->total - total) return false;
        total += h->parts[i].stored;
    }
    return total == h->total;
}

bru_status snapshot_check(const uint8_t *bytes, size_t len, snapshot_header *h, bru_error *err) {
    uint8_t sum[16];
    if (len < sizeof *h || memcmp(bytes, SNAPSHOT_MAGIC, sizeof h->magic) != 0)
        return error_set(err, BRU_EFORMAT, "these bytes are no Brumate snapshot");
    memcpy(h, bytes, sizeof *h);
    if (h->version != SNAPSHOT_VERSION)
        return error_set(err, BRU_EFORMAT,
                         "the snapshot has format %u, this library reads %u: use the library that "
                         "it was made with",
                         h->version, SNAPSHOT_VERSION);
    header_sum(h, sum);
    if (memcmp(sum, h->header_sum, sizeof h->header_sum) != 0)
        return damaged(err, "its header fails its checksum");
    if (h->total != len)
        return error_set(err, BRU_EFORMAT, "the snapshot is damaged: it has %zu bytes, not %llu",
                         len, (unsigned long long)h->total);
    if (!flags_fit(h) || !is_hex(h->image_id, sizeof h->image_id) ||
        !is_hex(h->wasm_sha256, sizeof h->wasm_sha256) || !sizes_fit(h))
        return damaged(err, "its header contradicts itself");
    content_sum(bytes, len, h, sum);
    if (memcmp(sum, h->content_sum, sizeof h->content_sum) != 0)
        return damaged(err, "its contents fail their checksum");
    return BRU_OK;
}

void snapshot_seal(uint8_t *bytes, size_t len) {
    snapshot_header h;
    memcpy(&h, bytes, sizeof h);
    h.total = len;
    if (len >= sizeof h + tag_size(&h)) content_sum(bytes, len, &h, h.content_sum);
    header_sum(&h, h.header_sum);
    memcpy(bytes, &h, sizeof h);
}

/* ---- Signing ---------------------------------------------------------------------------------
 */

bru_status snapshot_key_check(snapshot_key key, bru_error *err) {
    if (!key.bytes && key.len == 0) return BRU_OK;
    if (!key.bytes || key.len < SNAPSHOT_KEY_MIN)
        return error_set(err, BRU_EINVAL, "a key of %zu bytes is too short: it needs at least %d",
                         key.len, SNAPSHOT_KEY_MIN);
    return sodium_init() < 0 ? error_set(err, BRU_ENOTSUP, "libsodium does not start") : BRU_OK;
}

/* Keys longer than BLAKE2b takes are hashed first. */
static void sign(const uint8_t *bytes, size_t len, snapshot_key key, uint8_t tag[SNAPSHOT_TAG]) {
    uint8_t hashed[crypto_generichash_KEYBYTES_MAX];
    if (key.len > sizeof hashed) {
        crypto_generichash(hashed, sizeof hashed, key.bytes, key.len, NULL, 0);
        key = (snapshot_key){ hashed, sizeof hashed };
    }
    crypto_generichash(tag, SNAPSHOT_TAG, bytes, len, key.bytes, key.len);
    sodium_memzero(hashed, sizeof hashed);
}

bru_status snapshot_authentic(const uint8_t *bytes, size_t len, snapshot_key key, bru_error *err) {
    snapshot_header h;
    uint8_t tag[SNAPSHOT_TAG];
    if (len < sizeof h + SNAPSHOT_TAG || memcmp(bytes, SNAPSHOT_MAGIC, sizeof h.magic) != 0)
        return BRU_OK; /* as snapshot_check() will say */
    memcpy(&h, bytes, sizeof h);
    if (h.version != SNAPSHOT_VERSION) return BRU_OK;
    bool is_signed = h.flags & SNAPSHOT_SIGNED;
    if (is_signed && !key.bytes)
        return error_set(err, BRU_EPERM, "the snapshot is signed: give the key it was made with");
    if (!is_signed && key.bytes)
        return error_set(
            err, BRU_EPERM,
            "the snapshot is not signed, so nobody knows who made it; a key was given");
    if (!key.bytes) return BRU_OK;
    sign(bytes, len - SNAPSHOT_TAG, key, tag);
    if (sodium_memcmp(tag, bytes + len - SNAPSHOT_TAG, SNAPSHOT_TAG) == 0) return BRU_OK;
    return error_set(err, BRU_EPERM,
                     "the snapshot was signed with another key, or changed since it was signed");
}

/* ---- Writing --------------------------------------------------------------------------------- */

bru_status snapshot_begin(snapshot_writer *w, int level, bru_error *err) {
    *w = (snapshot_writer){ .header = { .version = SNAPSHOT_VERSION } };
    memcpy(w->header.magic, SNAPSHOT_MAGIC, sizeof w->header.magic);
    buf_init(&w->out, SIZE_MAX / 2);
    w->chunk = mem_grow(NULL, CHUNK);
    w->zstd = fault_hit() ? NULL : ZSTD_createCCtx();
    w->hash = fault_hit() ? NULL : XXH3_createState();
    if (!w->zstd || !w->chunk || !w->hash || XXH3_128bits_reset((XXH3_state_t *)w->hash) != XXH_OK)
        return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level);
    bru_status st = buf_append(&w->out, &w->header, sizeof w->header);
    return st ? error_set(err, st, "no memory for a snapshot") : BRU_OK;
}

/* Hands `len` bytes to the compressor, and what comes out to the end of the snapshot. */
static bru_status compress(snapshot_writer *w, const void *bytes, size_t len, bool end,
                           bru_error *err) {
    ZSTD_inBuffer in = { bytes, len, 0 };
    size_t more;
    do {
        ZSTD_outBuffer out = { w->chunk, CHUNK, 0 };
        more = ZSTD_compressStream2(w->zstd, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(more))
            return error_set(err, BRU_ENOMEM, "the snapshot cannot be compressed: %s",
                             ZSTD_getErrorName(more));
        bru_status st = buf_append(&w->out, w->chunk, out.pos);
        if (st)
            return error_set(err, st, "no memory for a snapshot of more than %zu bytes",
                             w->out.len);
        w->header.parts[w->part].stored += out.pos;
    } while (end ? more > 0 : in.pos < in.size);
    return BRU_OK;
}

bru_status snapshot_part_begin(snapshot_writer *w, enum snapshot_part part, uint64_t raw,
                               bru_error *err) {
    w->part = part;
    w->left = w->header.parts[part].raw = raw;
    if (fault_hit()) return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    ZSTD_CCtx_reset(w->zstd, ZSTD_reset_session_only);
    ZSTD_CCtx_setPledgedSrcSize(w->zstd, raw);
    return raw ? BRU_OK : compress(w, NULL, 0, true, err);
}

/* A match may reach back over all that went before; finding one so far away takes a table of its
 * own. */
bru_status snapshot_part_over(snapshot_writer *w, enum snapshot_part part, uint64_t raw,
                              const void *before, size_t before_len, bru_error *err) {
    ZSTD_bounds windows = ZSTD_cParam_getBounds(ZSTD_c_windowLog);
    int window = windows.lowerBound;
    bru_status st = snapshot_part_begin(w, part, raw, err);
    if (st || raw == 0) return st;
    while (window < windows.upperBound && (1ull << window) < raw + before_len) window++;
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_windowLog, window);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_enableLongDistanceMatching, 1);
    if (ZSTD_isError(ZSTD_CCtx_refPrefix(w->zstd, before, before_len)))
        return error_set(err, BRU_ENOMEM, "no memory for a snapshot");
    return BRU_OK;
}

bru_status snapshot_put(snapshot_writer *w, const void *bytes, size_t len, bru_error *err) {
    if (len == 0) return BRU_OK;
    w->left -= len;
    (void)XXH3_128bits_update((XXH3_state_t *)w->hash, bytes, len);
    return compress(w, bytes, len, w->left == 0, err);
}

/* Two of the same content and base are the same one. The parts' lengths go in, lest bytes of one
 * pass for those of the next. */
static void name(snapshot_writer *w) {
    static const uint8_t none[SNAPSHOT_ID];
    XXH128_canonical_t sum;
    snapshot_header *h = &w->header;
    if (memcmp(h->id, none, sizeof none) != 0) return;
    for (int i = 0; i < SNAPSHOT_PARTS; i++)
        (void)XXH3_128bits_update((XXH3_state_t *)w->hash, &h->parts[i].raw, 8);
    (void)XXH3_128bits_update((XXH3_state_t *)w->hash, h->base, sizeof h->base);
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest((XXH3_state_t *)w->hash));
    memcpy(h->id, sum.digest, sizeof h->id);
    h->id[0] |= 1; /* never that of none */
}

bru_status snapshot_finish(snapshot_writer *w, snapshot_key key, bru_error *err) {
    uint8_t tag[SNAPSHOT_TAG] = { 0 };
    if (key.bytes) w->header.flags |= SNAPSHOT_SIGNED;
    bru_status st = key.bytes ? buf_append(&w->out, tag, sizeof tag) : BRU_OK;
    if (st) return error_set(err, st, "no memory for a snapshot");
    name(w);
    memcpy(w->out.data, &w->header, sizeof w->header);
    snapshot_seal(w->out.data, w->out.len);
    if (!key.bytes) return BRU_OK;
    size_t len = w->out.len - SNAPSHOT_TAG;
    sign(w->out.data, len, key, w->out.data + len);
    return BRU_OK;
}

void snapshot_writer_free(snapshot_writer *w) {
    ZSTD_freeCCtx(w->zstd);
    XXH3_freeState(w->hash);
    mem_free(w->chunk);
    buf_free(&w->out);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const uint8_t *part_at(const uint8_t *bytes, const snapshot_header *h,
                              enum snapshot_part part) {
    bytes += sizeof *h;
    for (int i = 0; i < (int)part; i++) bytes += h->parts[i].stored;
    return bytes;
}

bru_status snapshot_unpack_over(const uint8_t *bytes, const snapshot_header *h,
                                enum snapshot_part part, const void *before, size_t before_len,
                                uint8_t **out, bru_error *err) {
    size_t raw = (size_t)h->parts[part].raw, stored = (size_t)h->parts[part].stored;
    uint8_t *to = mem_grow(NULL, raw + 1);
    ZSTD_DCtx *zstd = fault_hit() ? NULL : ZSTD_createDCtx();
    *out = NULL;
    if (!to || !zstd) {
        mem_free(to);
        ZSTD_freeDCtx(zstd);
        return error_set(err, BRU_ENOMEM, "no memory for %zu bytes of a snapshot", raw);
    }
    (void)ZSTD_DCtx_refPrefix(zstd, before, before_len);
    size_t got = ZSTD_decompressDCtx(zstd, to, raw, part_at(bytes, h, part), stored);
    ZSTD_freeDCtx(zstd);
    if (ZSTD_isError(got) || got != raw) {
        mem_free(to);
        return damaged(err, "a part of it does not unpack to its size");
    }
    *out = to;
    return BRU_OK;
}

bru_status snapshot_unpack(const uint8_t *bytes, const snapshot_header *h, enum snapshot_part part,
                           uint8_t **out, bru_error *err) {
    return snapshot_unpack_over(bytes, h, part, NULL, 0, out, err);
}

bru_status snapshot_stream_open(snapshot_stream *s, const uint8_t *bytes, const snapshot_header *h,
                                enum snapshot_part part, bru_error *err) {
    s->at = part_at(bytes, h, part);
    s->left = (size_t)h->parts[part].stored;
    s->zstd = fault_hit() ? NULL : ZSTD_createDCtx();
    if (!s->zstd) return error_set(err, BRU_ENOMEM, "no memory to unpack a snapshot");
    ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    return BRU_OK;
}

bru_status snapshot_stream_get(snapshot_stream *s, void *to, size_t len, bru_error *err) {
    ZSTD_inBuffer in = { s->at, s->left, 0 };
    ZSTD_outBuffer out = { to, len, 0 };
    while (out.pos < len) {
        size_t before_in = in.pos, before_out = out.pos;
        size_t n = ZSTD_decompressStream(s->zstd, &out, &in);
        if (ZSTD_isError(n)) return damaged(err, "its pages cannot be unpacked");
        if (in.pos == before_in && out.pos == before_out)
            return damaged(err, "its pages end too soon");
    }
    s->at += in.pos;
    s->left -= in.pos;
    return BRU_OK;
}

void snapshot_stream_close(snapshot_stream *s) {
    ZSTD_freeDCtx(s->zstd);
}
