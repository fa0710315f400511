#define _GNU_SOURCE
#include "image/format.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

void format_header_sum(const format_header *h, uint8_t out[8]) {
    XXH64_canonical_t sum;
    XXH64_canonicalFromHash(&sum, XXH3_64bits(h, offsetof(format_header, header_sum)));
    memcpy(out, sum.digest, 8);
}

void format_sum(const void *bytes, size_t len, uint8_t out[16]) {
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(bytes, len));
    memcpy(out, sum.digest, 16);
}

static bool section_fits(const format_section *s, uint64_t max, uint64_t file_len) {
    return s->offset % FORMAT_PAGE == 0 && s->offset >= FORMAT_PAGE && s->offset <= file_len &&
           s->len <= max && s->len <= file_len - s->offset;
}

bru_status format_check(const format_header *h, uint64_t file_len, const char *name,
                        bru_error *err) {
    uint8_t sum[8];
    if (memcmp(h->magic, FORMAT_MAGIC, sizeof h->magic) != 0)
        return error_set(err, BRU_EFORMAT, "%s is not a Brumate image", name);
    if (h->version != FORMAT_VERSION)
        return error_set(err, BRU_EFORMAT,
                         "%s has format %u, this library reads %u: build the image again", name,
                         h->version, FORMAT_VERSION);
    format_header_sum(h, sum);
    if (memcmp(sum, h->header_sum, sizeof sum) != 0)
        return error_set(err, BRU_EFORMAT, "%s is damaged: its header fails its checksum", name);
    if (h->file_len != file_len)
        return error_set(err, BRU_EFORMAT, "%s is damaged: it has %llu bytes, not %llu", name,
                         (unsigned long long)file_len, (unsigned long long)h->file_len);
    if (!section_fits(&h->manifest, FORMAT_MANIFEST_MAX, file_len) ||
        !section_fits(&h->memory, FORMAT_MEMORY_MAX, file_len) ||
        !section_fits(&h->root, FORMAT_ROOT_MAX, file_len) || h->memory.len % 65536 != 0 ||
        h->globals_len > h->manifest.len || h->stored_bytes > h->memory.len)
        return error_set(err, BRU_EFORMAT, "%s is damaged: its sections do not fit it", name);
    return BRU_OK;
}

bru_status format_content_sum(int fd, uint64_t file_len, uint8_t out[16], const char *name,
                              bru_error *err) {
    enum { CHUNK = 1 << 18 };
    XXH3_state_t *state = XXH3_createState();
    uint8_t *chunk = mem_zero(CHUNK, 1);
    bru_status st = BRU_OK;
    if (!state || !chunk) st = error_set(err, BRU_ENOMEM, "no memory to check %s", name);
    if (!st) XXH3_128bits_reset(state);
    for (uint64_t at = FORMAT_PAGE; !st && at < file_len;) {
        ssize_t n = pread(fd, chunk, CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) st = error_errno(err, errno, "cannot read %s", name);
        if (n == 0) st = error_set(err, BRU_EFORMAT, "%s became shorter while it was read", name);
        if (n > 0) {
            XXH3_128bits_update(state, chunk, (size_t)n);
            at += (uint64_t)n;
        }
    }
    if (!st) {
        XXH128_canonical_t sum;
        XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(state));
        memcpy(out, sum.digest, 16);
    }
    mem_free(chunk);
    XXH3_freeState(state);
    return st;
}

bru_status format_verify(int fd, const format_header *h, const char *name, bru_error *err) {
    uint8_t sum[16];
    bru_status st = format_content_sum(fd, h->file_len, sum, name, err);
    if (!st && memcmp(sum, h->content_sum, sizeof sum) != 0)
        st = error_set(err, BRU_EFORMAT,
                       "%s is damaged: its contents fail their checksum; build or fetch it again",
                       name);
    return st;
}

bru_status format_lines_check(const char *lines, size_t len, const char *name, bru_error *err) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)lines[i];
        if ((c < ' ' && c != '\n' && c != '\x1f') || c == 0x7f)
            return error_set(err, BRU_EFORMAT, "%s is damaged: its manifest is no text", name);
    }
    return BRU_OK;
}

bru_status format_value(const char *lines, size_t len, const char *key, char **out,
                        bru_error *err) {
    size_t key_len = strlen(key);
    *out = NULL;
    for (const char *line = lines, *end = lines + len; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) break;
        if ((size_t)(stop - line) > key_len && memcmp(line, key, key_len) == 0 &&
            line[key_len] == ' ') {
            char *value = mem_copy(line + key_len + 1, (size_t)(stop - line) - key_len - 1);
            if (!value) return error_set(err, BRU_ENOMEM, "no memory for the manifest");
            for (char *c = value; *c; c++)
                if (*c == '\x1f') *c = '\n'; /* how the writer keeps several lines in one */
            *out = value;
            return BRU_OK;
        }
        line = stop + 1;
    }
    return error_set(err, BRU_EFORMAT, "damaged image: its manifest has no \"%s\"", key);
}
