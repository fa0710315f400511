/* Booting a guest, once, to freeze it into an image. */
#ifndef BRU_SESSION_BOOT_H
#define BRU_SESSION_BOOT_H

#include "brumate/image.h"

/* See bru_image_build(); options are checked. */
BRU_MUST_CHECK bru_status boot_image(const bru_build_options *options, const char *path,
                                     bru_error *err);

#endif
