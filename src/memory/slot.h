/* The memory of sandboxes: frozen images, and slots into which they are mapped.
 *
 * A slot is one reservation of addresses, laid out so that generated code finds everything at a
 * constant distance and every stray access falls on a guard:
 *
 *     low        stack_low            stack_top = instance        memory          memory + size
 * high |  guard   |  native stack  -->  |  instance (64 KiB)  |  linear memory  |  guard ...  |
 *
 * The image is mapped copy-on-write over the start of the linear memory: a sandbox pays for the
 * pages that it writes, and a reset copies just those back. The header that other rooms include. */
#ifndef BRU_MEMORY_SLOT_H
#define BRU_MEMORY_SLOT_H

#include "base/base.h"

/* Linear memory as wasm addresses it: a 32-bit address plus a 32-bit offset. Bytes. */
#define SLOT_MEMORY_MAX ((uint64_t)4 << 30)
/* The granule of linear memory: image sizes and growth are multiples of it. Bytes. */
#define SLOT_PAGE 65536u
/* Bytes of native stack when the caller does not say. Reserved, not used: docs/design/memory.md. */
#define SLOT_STACK_DEFAULT ((size_t)64 << 20)

/* A frozen linear memory: the bytes from which sandboxes start. Immutable and counted; any
 * function here may be called from any thread at any time. */
typedef struct mem_image mem_image;

/* The image that is `len` bytes (a multiple of SLOT_PAGE, at most SLOT_MEMORY_MAX) of the file
 * `fd` from `offset` (a multiple of the machine's page size) on. The descriptor is duplicated and
 * stays the caller's. The file must not be changed while the image lives: a file that was cut
 * short is noticed at the next reset, other changes are not.
 * BRU_EINVAL   a size or offset that does not fit.
 * BRU_EFORMAT  the file is shorter than that.
 * BRU_ENOMEM, BRU_ELIMIT, BRU_EIO   `*out` is NULL. */
BRU_MUST_CHECK bru_status mem_image_open(int fd, uint64_t offset, uint64_t len, mem_image **out,
                                         bru_error *err);

/* The image that holds a copy of `len` bytes, in memory that belongs to no file and is sealed.
 * Pages of zeros cost nothing. Statuses as for mem_image_open. */
BRU_MUST_CHECK bru_status mem_image_copy(const void *bytes, uint64_t len, mem_image **out,
                                         bru_error *err);

/* One more owner of `im`, which is answered. Slots hold their own. */
mem_image *mem_image_ref(mem_image *im);
/* One owner less; the last frees it. NULL allowed. */
void mem_image_unref(mem_image *im);

/* Its bytes, read-only, and how many; the image's, as long as it lives. */
const uint8_t *mem_image_bytes(const mem_image *im);
uint64_t mem_image_size(const mem_image *im);

/* A slot. One thread at a time; different slots on different threads at will. */
typedef struct slot slot;

/* Zero means the default. */
typedef struct slot_options {
    size_t size;       /* of this structure */
    size_t stack_size; /* bytes of native stack, rounded up to pages; 0 = SLOT_STACK_DEFAULT */
} slot_options;

/* Where things lie; constant for the life of the slot. Host addresses. */
typedef struct slot_place {
    uint8_t *low;       /* of the guard below the stack: the first byte of the reservation */
    uint8_t *stack_low; /* the lowest byte of the stack */
    uint8_t *stack_top; /* one past its highest, 64-byte aligned; = instance */
    uint8_t *instance;  /* GUEST_INSTANCE_SPAN bytes, zero at first */
    uint8_t *memory;    /* linear memory */
    uint8_t *high;      /* one past the last byte of the reservation */
} slot_place;

/* Reserves a slot: no image, no linear memory yet. `opt` may be NULL.
 * BRU_EINVAL  a stack size beyond 1 GiB or under 256 KiB.
 * BRU_ELIMIT  no more address space or mappings: the message names the limit to raise.
 * BRU_ENOMEM  `*out` is NULL. */
BRU_MUST_CHECK bru_status slot_new(const slot_options *opt, slot **out, bru_error *err);

/* Gives everything back. NULL allowed. */
void slot_free(slot *s);

slot_place slot_where(const slot *s);

/* Lets linear memory start from `im` (the slot takes its own reference), or from nothing when `im`
 * is NULL; copies no page. Whatever the linear memory held before is gone.
 * On failure the slot has no image and no linear memory; it may be mapped again. */
BRU_MUST_CHECK bru_status slot_map(slot *s, mem_image *im, bru_error *err);

/* Bytes of linear memory that can be touched now, the image's included. */
uint64_t slot_size(const slot *s);

/* Makes `bytes` (a multiple of SLOT_PAGE, not less than now, at most SLOT_MEMORY_MAX) of linear
 * memory touchable; the new part reads as zero. On failure the size is as before. */
BRU_MUST_CHECK bru_status slot_grow(slot *s, uint64_t bytes, bru_error *err);

/* Every byte of linear memory as slot_map left it, grown part gone; the native stack wiped, and cut
 * back to what an idle slot may keep. The instance page is not touched: the engine owns it. Cost
 * follows the pages written since the last reset, not the size. Up to `keep` written pages are
 * copied back and stay the slot's, so that the next run takes no faults on them; the rest is thrown
 * away.
 * BRU_EIO  the image's file was cut short: the slot has no linear memory any more. */
#define SLOT_KEEP_MAX 512u
BRU_MUST_CHECK bru_status slot_reset(slot *s, size_t keep, bru_error *err);

/* How many pages the last reset kept. */
size_t slot_kept(const slot *s);

/* Told of `len` bytes of linear memory from offset `at` on, both multiples of the machine's page
 * size, ascending; answering false ends the walk. */
typedef bool (*slot_visit)(void *ctx, uint64_t at, uint64_t len);

/* Visits all pages whose bytes differ from the image or, past its end, from zero: what a snapshot
 * must hold. Neighbours are visited as one range. Stopped by the visitor is BRU_OK too. */
BRU_MUST_CHECK bru_status slot_written(slot *s, slot_visit visit, void *ctx, bru_error *err);

typedef struct slot_stats {
    uint64_t written; /* bytes of linear memory that are private to this slot: copied on write */
    uint64_t grown;   /* bytes past the image's end that were made touchable */
    uint64_t stack;   /* bytes of native stack in use by the machine */
} slot_stats;

/* What the slot costs now. Asks the kernel: microseconds. 0 for what cannot be known here. */
slot_stats slot_measure(slot *s);

/* How written pages are found; chosen by trying, once per process. */
typedef enum slot_mode {
    SLOT_TRACK,   /* as SLOT_SCAN; the kernel marks written pages of slots that are often reset */
    SLOT_SCAN,    /* PAGEMAP_SCAN, Linux 6.7 and later: one call lists them */
    SLOT_PAGEMAP, /* an entry per page read from /proc/self/pagemap */
    SLOT_DISCARD  /* neither: everything is thrown away and faulted in again */
} slot_mode;

slot_mode slot_mode_found(void);

/* For tests: this slot works in `mode`, if that is no better than what was found. */
void slot_mode_force(slot *s, slot_mode mode);

#endif
