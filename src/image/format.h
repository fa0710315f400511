/* The image file: one page of header, then three sections that start on page boundaries.
 *
 *     header    magic, version, where the sections are, checksums; the rest of its page is zero
 *     manifest  lines of "key value", then the guest's globals as bytes
 *     memory    the frozen linear memory, as it is mapped; pages of zeros are holes
 *     root      the archive of the guest's read-only files, as it is mapped
 *
 * All numbers are little-endian. A file is only trusted as far as format_check() went: what is in
 * the sections is the guest's and may be hostile. */
#ifndef BRU_IMAGE_FORMAT_H
#define BRU_IMAGE_FORMAT_H

#include "base/base.h"

#define FORMAT_MAGIC   "BRUMATE\x1a"
#define FORMAT_VERSION 1u
#define FORMAT_PAGE    4096u
/* Ceilings, far above what a guest has: a manifest is a few KB. */
#define FORMAT_MANIFEST_MAX (1u << 20)
#define FORMAT_MEMORY_MAX   (4ull << 30)
#define FORMAT_ROOT_MAX     (4ull << 30)

typedef struct format_section {
    uint64_t offset, len;
} format_section;

typedef struct format_header {
    char magic[8];
    uint32_t version;
    uint32_t globals_len; /* the last bytes of the manifest section */
    uint64_t file_len;
    format_section manifest, memory, root;
    uint64_t stored_bytes;    /* of memory, without the holes */
    uint8_t manifest_sum[16]; /* XXH3-128 of the manifest section */
    uint8_t content_sum[16];  /* XXH3-128 of everything behind the header's page */
    uint8_t header_sum[8];    /* XXH3-64 of the header up to here */
} format_header;

/* Sums that header and manifest carry; big-endian as XXH's canonical form. */
void format_header_sum(const format_header *h, uint8_t out[8]);
void format_sum(const void *bytes, size_t len, uint8_t out[16]);

/* Checks everything that the header says, against itself and against the file's length `file_len`;
 * `name` is for the message. BRU_EFORMAT. */
bru_status format_check(const format_header *h, uint64_t file_len, const char *name,
                        bru_error *err);

/* XXH3-128 of everything behind the header's page, reading `fd`. BRU_EFORMAT, BRU_EIO. */
bru_status format_content_sum(int fd, uint64_t file_len, uint8_t out[16], const char *name,
                              bru_error *err);

/* Checks that sum against the header. */
bru_status format_verify(int fd, const format_header *h, const char *name, bru_error *err);

/* Checks that the `len` bytes of manifest lines are text that can be shown: no control characters
 * but those that part lines. BRU_EFORMAT. */
bru_status format_lines_check(const char *lines, size_t len, const char *name, bru_error *err);

/* The value of `key` in the `len` bytes of manifest lines, copied into `out` (owned, mem_free):
 * the rest of its line; the separator 0x1f is a line break. BRU_EFORMAT if there is none. */
bru_status format_value(const char *lines, size_t len, const char *key, char **out, bru_error *err);

#endif
