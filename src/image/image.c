#define _GNU_SOURCE
#include "image/image.h"
#include "image/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bru_status image_exports_find(const guest *g, image_exports *out, bru_error *err) {
    const struct {
        const char *name, *type;
        uint32_t *to;
    } wanted[] = {
        { "_initialize", ":", &out->initialize }, { "bru_boot", "ii:i", &out->boot },
        { "bru_alloc", "i:i", &out->alloc },      { "bru_step", "iii:i", &out->step },
        { "bru_control", ":i", &out->control },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        bru_status st = guest_export_find(g, wanted[i].name, wanted[i].type, wanted[i].to, err);
        if (st) return st;
    }
    return BRU_OK;
}

/* The file, opened and checked as far as asked, with its header. */
static bru_status open_checked(const char *path, unsigned flags, int *fd, format_header *h,
                               bru_error *err) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0) return error_errno(err, errno, "cannot open the image %s", path);
    if (fstat(*fd, &info) != 0) return error_errno(err, errno, "cannot read the image %s", path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, BRU_EFORMAT, "%s is not a file, so not an image", path);
    uint8_t page[FORMAT_PAGE];
    ssize_t n = pread(*fd, page, sizeof page, 0);
    if (n < 0) return error_errno(err, errno, "cannot read the image %s", path);
    if ((size_t)n < sizeof page)
        return error_set(err, BRU_EFORMAT, "%s is too short to be a Brumate image", path);
    memcpy(h, page, sizeof *h);
    bru_status st = format_check(h, (uint64_t)info.st_size, path, err);
    for (size_t i = sizeof *h; !st && i < sizeof page; i++)
        if (page[i]) st = error_set(err, BRU_EFORMAT, "%s is damaged in its first page", path);
    if (!st && !(flags & BRU_IMAGE_TRUSTED)) st = format_verify(*fd, h, path, err);
    return st;
}

static bru_status read_manifest(bru_image *im, int fd, const format_header *h, const char *path,
                                bru_error *err) {
    size_t len = h->manifest.len, lines = len - h->globals_len;
    uint8_t sum[16];
    char *bytes = mem_zero(len + 1, 1), *control = NULL, *sha = NULL;
    bru_status st = BRU_OK;
    if (!bytes) return error_set(err, BRU_ENOMEM, "no memory for the manifest of %s", path);
    if (pread(fd, bytes, len, (off_t)h->manifest.offset) != (ssize_t)len)
        st = error_set(err, BRU_EIO, "cannot read the manifest of %s", path);
    if (!st) {
        format_sum(bytes, len, sum);
        if (memcmp(sum, h->manifest_sum, sizeof sum) != 0)
            st =
                error_set(err, BRU_EFORMAT, "%s is damaged: its manifest fails its checksum", path);
    }
    if (!st) st = format_lines_check(bytes, lines, path, err);
    if (!st) st = format_value(bytes, lines, "wasm_sha256", &sha, err);
    if (!st && strcmp(sha, guest_wasm_sha256(im->code)) != 0)
        st = error_set(err, BRU_EMISMATCH,
                       "%s was made with another guest build (%.12s..., the guest beside it is "
                       "%.12s...): build the image again",
                       path, sha, guest_wasm_sha256(im->code));
    if (!st) st = format_value(bytes, lines, "preloaded", &im->preloaded, err);
    if (!st && format_value(bytes, lines, "note", &im->note, NULL) == BRU_EFORMAT)
        im->note = mem_string(""); /* images had none at first */
    if (!st && !im->note) st = error_set(err, BRU_ENOMEM, "no memory for the manifest of %s", path);
    if (!st) st = format_value(bytes, lines, "control", &control, err);
    if (!st) {
        unsigned long at = strtoul(control, NULL, 10);
        im->control_at = (uint32_t)at;
        im->globals_len = h->globals_len;
        im->globals = mem_copy(bytes + lines, h->globals_len);
        if (at > UINT32_MAX) st = error_set(err, BRU_EFORMAT, "%s: its manifest is damaged", path);
        if (!im->globals) st = error_set(err, BRU_ENOMEM, "no memory for the image");
    }
    mem_free(control);
    mem_free(sha);
    mem_free(bytes);
    return st;
}

typedef struct mapping {
    void *at;
    size_t len;
} mapping;

static void unmap(void *ctx) {
    mapping *m = ctx;
    munmap(m->at, m->len);
    mem_free(m);
}

bru_status image_root_map(int fd, uint64_t offset, uint64_t len, bool verify, vfs_fs **out,
                          bru_error *err) {
    *out = NULL;
    mapping *m = mem_zero(1, sizeof *m);
    if (!m) return error_set(err, BRU_ENOMEM, "no memory for the root archive");
    m->len = len;
    m->at = mmap(NULL, m->len, PROT_READ, MAP_SHARED, fd, (off_t)offset);
    if (m->at == MAP_FAILED) {
        mem_free(m);
        return error_errno(err, errno, "cannot map the root archive");
    }
    return archive_open(m->at, m->len, verify, unmap, m, out, err);
}

/* core.so in the folder of `path`. */
static char *guest_beside(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    char *name = mem_zero(folder + sizeof "core.so", 1);
    if (!name) return NULL;
    memcpy(name, path, folder);
    memcpy(name + folder, "core.so", sizeof "core.so");
    return name;
}

static void fill_info(bru_image *im, const format_header *h) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        im->id[2 * i] = digits[h->content_sum[i] >> 4];
        im->id[2 * i + 1] = digits[h->content_sum[i] & 15];
    }
    im->info = (bru_image_info){
        .guest_build = guest_build_line(im->code),
        .wasm_sha256 = guest_wasm_sha256(im->code),
        .preloaded = im->preloaded,
        .note = im->note,
        .id = im->id,
        .file_bytes = h->file_len,
        .memory_bytes = h->memory.len,
        .stored_bytes = h->stored_bytes,
        .root_bytes = h->root.len,
        .root_entries = archive_entries(im->root),
        .format = h->version,
    };
}

/* The guest that `o` names; that of another image is loaded already. */
static bru_status open_guest(const char *path, const bru_image_options *o, guest **out,
                             bru_error *err) {
    if (o->guest_of) {
        *out = guest_ref(o->guest_of->code);
        return BRU_OK;
    }
    char *beside = o->guest_path ? NULL : guest_beside(path);
    if (!o->guest_path && !beside) return error_set(err, BRU_ENOMEM, "no memory for an image");
    bru_status st = guest_open(beside ? beside : o->guest_path, out, err);
    mem_free(beside);
    return st;
}

bru_status image_open(const char *path, const bru_image_options *o, const door_table *doors,
                      size_t door_tables, bru_image **out, bru_error *err) {
    format_header h;
    int fd = -1;
    *out = NULL;
    bru_image *im = mem_zero(1, sizeof *im);
    if (!im) return error_set(err, BRU_ENOMEM, "no memory for an image");
    atomic_init(&im->refs, 1);
    bru_status st = open_checked(path, o->flags, &fd, &h, err);
    if (!st) st = open_guest(path, o, &im->code, err);
    if (!st) st = image_exports_find(im->code, &im->exports, err);
    if (!st) st = guest_link_new(im->code, doors, door_tables, &im->link, err);
    if (!st) st = read_manifest(im, fd, &h, path, err);
    if (!st) st = mem_image_open(fd, h.memory.offset, h.memory.len, &im->memory, err);
    if (!st) st = image_root_map(fd, h.root.offset, h.root.len, false, &im->root, err);
    if (!st) fill_info(im, &h);
    if (fd >= 0) close(fd);
    if (st)
        bru_image_unref(im);
    else
        *out = im;
    return st;
}

bru_image *bru_image_ref(bru_image *image) {
    if (image) atomic_fetch_add_explicit(&image->refs, 1, memory_order_relaxed);
    return image;
}

void bru_image_unref(bru_image *image) {
    if (!image || atomic_fetch_sub_explicit(&image->refs, 1, memory_order_acq_rel) != 1) return;
    instance_pool_clear(&image->idle);
    fs_unref(image->root);
    mem_image_unref(image->memory);
    guest_link_unref(image->link);
    guest_unref(image->code);
    mem_free(image->globals);
    mem_free(image->preloaded);
    mem_free(image->note);
    mem_free(image);
}

void bru_image_get_info(const bru_image *image, bru_image_info *out) {
    *out = image->info;
}
