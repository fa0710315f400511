/* The form of an archive, for the file that reads and the file that makes them. All numbers are
 * little-endian.
 *
 *   header   64 bytes
 *   entries  48 bytes each, in breadth-first order: entry 0 is the root, and the children of a
 *            folder stand together, sorted by the bytes of their names
 *   names    one after the other, as the entries stand
 *   data     of files and links, each at a multiple of 16
 *   trailer  16 bytes
 *
 * A folder's children begin where those of the folder before it end; so every entry but the root
 * is the child of exactly one folder that stands before it, and there can be no cycle. */
#ifndef BRU_VFS_ARCHIVE_H
#define BRU_VFS_ARCHIVE_H

#include <stdint.h>

#define ARCHIVE_MAGIC       "BRUARCH1"
#define ARCHIVE_VERSION     1u
#define ARCHIVE_HEADER      64u
#define ARCHIVE_ENTRY       48u
#define ARCHIVE_TRAILER     16u
#define ARCHIVE_ALIGN       16u
#define ARCHIVE_ENTRIES_MAX (1u << 24)
/* Of what is added: below what paths of a guest may have. */
#define ARCHIVE_PATH_MAX  2048u
#define ARCHIVE_DEPTH_MAX 64u

/* Offsets in the header. */
enum {
    HEAD_VERSION = 8,     /* u32 */
    HEAD_COUNT = 12,      /* u32 entries */
    HEAD_TOTAL = 16,      /* u64 bytes in all */
    HEAD_NAMES = 24,      /* u64 bytes of names */
    HEAD_DATA = 32,       /* u64 where the data begins */
    HEAD_TABLES_SUM = 40, /* u64 XXH3 of entries and names */
    HEAD_RESERVED = 48,   /* u64 0 */
    HEAD_SUM = 56         /* u64 XXH3 of the header up to here */
};

/* Offsets in an entry. */
enum {
    ENT_NAME = 0,      /* u32 offset in names */
    ENT_NAME_LEN = 4,  /* u16 */
    ENT_KIND = 6,      /* u8 VFS_DIR, VFS_REGULAR, VFS_LINK; then a byte 0 */
    ENT_PARENT = 8,    /* u32 entry; the root's is 0 */
    ENT_FIRST = 12,    /* u32 entry of a folder's first child */
    ENT_CHILDREN = 16, /* u32; then 4 bytes 0 */
    ENT_OFFSET = 24,   /* u64 of the data, from the beginning of the archive */
    ENT_SIZE = 32,     /* u64 */
    ENT_MTIME = 40     /* u64 ns since 1970 */
};

/* Offsets in the trailer. */
enum { TAIL_DATA_SUM = 0 /* u64 XXH3 of the data */, TAIL_MAGIC = 8 };

static inline uint64_t le_get(const uint8_t *p, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}
static inline void le_put(uint8_t *p, uint64_t v, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> 8 * i);
}

#endif
