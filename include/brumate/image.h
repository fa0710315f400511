/* Images: a frozen, initialised interpreter in one file, shared by every session made from it. */
#ifndef BRUMATE_IMAGE_H
#define BRUMATE_IMAGE_H

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_image bru_image;

enum bru_image_flag {
    /* Check the header and the manifest alone, not the checksum of the whole file: for a file that
     * nobody else can write. A damaged image can hurt no more than what runs in it. */
    BRU_IMAGE_TRUSTED = 1u
};

typedef struct bru_image_options {
    size_t size;            /* sizeof(bru_image_options) */
    const char *guest_path; /* the guest's shared object; NULL: `core.so` in the image's folder */
    unsigned flags;         /* of bru_image_flag */
    bru_image *guest_of;    /* the guest of this image, already loaded, instead of a path's */
} bru_image_options;
#define BRU_IMAGE_OPTIONS_INIT { .size = sizeof(bru_image_options) }

/* Opens the image at `path` and loads its guest. NULL: the file named by the environment variable
 * BRUMATE_IMAGE, else `core.bru` beside the library or in its `brumate` folder.
 * BRU_ENOENT     no such file, of image or guest.
 * BRU_EFORMAT    not an image, or damaged. BRU_EMISMATCH  the guest is another build than the
 *                image was made with. BRU_ELIMIT  no address space or descriptors.
 * `*out` goes back by bru_image_unref(). Any thread. */
BRU_API BRU_MUST_CHECK bru_status bru_image_open(const char *path, const bru_image_options *options,
                                                 bru_image **out, bru_error *err);

/* Images are counted; sessions keep theirs alive. Any thread; NULL is allowed. */
BRU_API bru_image *bru_image_ref(bru_image *image);
BRU_API void bru_image_unref(bru_image *image);

/* What an image is; texts are borrowed from it. */
typedef struct bru_image_info {
    const char *guest_build; /* versions of guest and compilers, one line */
    const char *wasm_sha256; /* 64 hex digits: the guest build it belongs to */
    const char *preloaded;   /* modules imported at the build, one a line */
    const char *note;        /* bru_build_options.note; "" if there was none */
    const char *id;          /* 32 hex digits: the checksum over the file's contents */
    uint64_t file_bytes;
    uint64_t memory_bytes; /* of the frozen linear memory */
    uint64_t stored_bytes; /* of it, pages that are not zero */
    uint64_t root_bytes;   /* of the read-only files inside */
    uint32_t root_entries;
    uint32_t format; /* of the file */
} bru_image_info;

/* Fills `*out`. Any thread. */
BRU_API void bru_image_get_info(const bru_image *image, bru_image_info *out);

/* A file to add to the guest's /lib. */
typedef struct bru_build_file {
    const char *path; /* below /lib: "python3.13/site-packages/x.py"; folders are made */
    const void *data;
    size_t len;
} bru_build_file;

/* Either `guest_path` and `root_path`, or `base`. */
typedef struct bru_build_options {
    size_t size;
    const char *guest_path;      /* the guest's shared object */
    const char *root_path;       /* the folder that becomes the guest's /lib, read-only */
    bru_image *base;             /* take guest and /lib from this image, and what it imports */
    const bru_build_file *files; /* to be added: BRU_EINVAL if one is there already */
    size_t file_count;
    const char *preload;   /* modules to import before freezing, one a line, after those of `base`;
                            * NULL: the usual ones, with `base` none */
    uint64_t timeout_ns;   /* for the boot and the imports together; 0: 60 s */
    uint64_t memory_bytes; /* for the same; 0: 512 MiB */
    const char *note;      /* kept with the image: text of one line, at most 256 KiB; NULL: none */
} bru_build_options;
#define BRU_BUILD_OPTIONS_INIT { .size = sizeof(bru_build_options) }

/* Boots a guest, imports modules, freezes it and writes the image to `path`: whole or not at all
 * (a temporary file beside it is renamed into place). What the imports print is dropped.
 * BRU_EGUEST  the guest failed to boot, an import raised or ended the process; the message has its
 *             last words. BRU_ELIMIT  it took longer than `timeout_ns`, or a file is too large.
 * BRU_EINVAL  a file is there already, or its path is none; a preload that is no module's name.
 * Else as the file system answers. Takes some tenths of a second, and the imports. Any thread. */
BRU_API BRU_MUST_CHECK bru_status bru_image_build(const bru_build_options *options,
                                                  const char *path, bru_error *err);

#ifdef __cplusplus
}
#endif
#endif
