/* Which pages of a copy-on-write mapping have been written; inside the room. */
#ifndef BRU_MEMORY_WRITTEN_H
#define BRU_MEMORY_WRITTEN_H

#include "slot.h"

/* Told of host addresses [start, end); answering false ends the walk. */
typedef bool (*written_visit)(void *ctx, uint8_t *start, uint8_t *end);

/* Visits, ascending, the pages of [start, end) that are private to this process, in memory or
 * swapped out: in a private file mapping those that were written, in anonymous memory those that
 * were touched. Neighbours may come as one range or as several.
 * BRU_ENOTSUP  `mode` is SLOT_DISCARD, or the kernel's answer cannot be had any more: some pages
 *              may not have been visited. */
bru_status written_walk(slot_mode mode, uint8_t *start, uint8_t *end, written_visit visit,
                        void *ctx);

/* From here on the kernel marks the pages of [start, end), a whole mapping, that are written; what
 * was written before is forgotten. False: it does not, and must not be asked for them. Tracking
 * ends with the mapping; a child of fork() does not inherit it. */
bool written_track(uint8_t *start, uint8_t *end);
void written_untrack(uint8_t *start, uint8_t *end);

/* Visits as written_walk(), but those pages of a tracked mapping that were written since.
 * BRU_ENOTSUP  it is not tracked any more: ask written_walk(). */
bru_status written_since(uint8_t *start, uint8_t *end, written_visit visit, void *ctx);

#endif
