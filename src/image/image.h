/* Images: opening the file, and writing one. Building one needs a running guest: session/boot.h. */
#ifndef BRU_IMAGE_IMAGE_H
#define BRU_IMAGE_IMAGE_H

#include "brumate/image.h"
#include "engine/engine.h"
#include "vfs/vfs.h"

#include <stdatomic.h>

/* The exports of every guest that the session room calls: see guest/c/protocol.h. */
typedef struct image_exports {
    uint32_t initialize, boot, alloc, step, control;
} image_exports;

/* BRU_EMISMATCH names what the guest lacks. */
BRU_MUST_CHECK bru_status image_exports_find(const guest *g, image_exports *out, bru_error *err);

/* Immutable once open but for its idle instances, and counted: any thread. */
struct bru_image {
    atomic_uint refs;
    guest_link *link; /* the guest, bound to our doors */
    guest *code;
    mem_image *memory;
    instance_pool idle; /* of closed sessions, for new ones */
    vfs_fs *root; /* archive: the guest's /lib */
    image_exports exports;
    uint32_t control_at; /* of the agent_control block, checked to lie inside memory */
    uint8_t *globals;
    size_t globals_len;
    char *preloaded, *note;
    bru_image_info info;
    char id[33];
};

/* Opens `path` with the guest that `o` names, bound to `doors`. See bru_image_open(). */
BRU_MUST_CHECK bru_status image_open(const char *path, const bru_image_options *o,
                                     const door_table *doors, size_t door_tables, bru_image **out,
                                     bru_error *err);

/* The archive of `len` bytes in `fd` from `offset` on, mapped for as long as it is referenced. */
BRU_MUST_CHECK bru_status image_root_map(int fd, uint64_t offset, uint64_t len, bool verify,
                                         vfs_fs **out, bru_error *err);

/* An image in the making: a temporary file beside the one to be, with the root archive in it. */
typedef struct image_writer image_writer;

/* Starts writing what will be `path`, with the files of `root`, and `count` files more. */
BRU_MUST_CHECK bru_status image_writer_new(const char *path, vfs_fs *root,
                                           const bru_build_file *files, size_t count,
                                           image_writer **out, bru_error *err);
/* The archive, mapped from the temporary file; a reference is the caller's. */
BRU_MUST_CHECK bru_status image_writer_root(image_writer *w, vfs_fs **out, bru_error *err);

typedef struct image_state {
    const guest *code;
    const char *preloaded; /* one a line */
    const char *note;      /* the builder's own */
    uint32_t control_at;
    gmem memory;
    const uint8_t *globals;
    size_t globals_len;
} image_state;

/* Writes the rest and renames the file into place. */
BRU_MUST_CHECK bru_status image_writer_finish(image_writer *w, const image_state *state,
                                              bru_error *err);
/* Frees, and removes the temporary file unless it was finished. NULL allowed. */
void image_writer_free(image_writer *w);

#endif
