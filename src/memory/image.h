/* What slots ask of an image; inside the room. */
#ifndef BRU_MEMORY_IMAGE_H
#define BRU_MEMORY_IMAGE_H

#include "slot.h"

/* Maps all of it, copy-on-write, at `at` within a reservation. */
bru_status mem_image_map(const mem_image *im, uint8_t *at, bru_error *err);

/* BRU_EFORMAT if its file has become too short: touching the pages beyond would be a bus error. */
bru_status mem_image_intact(const mem_image *im, bru_error *err);

#endif
