/* Frozen linear memories: a counted range of a file. */
#include "slot.h"
#include "image.h"

#include <stdatomic.h>
#include <string.h>

#include "base/os_memory.h"

struct mem_image {
    atomic_uint refs;
    int fd;
    bool sealed; /* the file cannot change: it is ours */
    uint64_t offset, len;
    uint8_t *view; /* read-only, shared by all: what resets copy from */
};

static bru_status size_check(uint64_t offset, uint64_t len, bru_error *err) {
    if (len == 0 || len % SLOT_PAGE != 0 || len > SLOT_MEMORY_MAX)
        return error_set(err, BRU_EINVAL, "a memory image of %llu bytes: not 1 to 65536 pages",
                         (unsigned long long)len);
    if (offset % os_page() != 0 || offset > INT64_MAX - len)
        return error_set(err, BRU_EINVAL, "a memory image at offset %llu: not at a page",
                         (unsigned long long)offset);
    return BRU_OK;
}

static mem_image *image_blank(uint64_t offset, uint64_t len) {
    mem_image *im = mem_zero(1, sizeof *im);
    if (!im) return NULL;
    atomic_init(&im->refs, 1);
    im->fd = -1;
    im->offset = offset;
    im->len = len;
    return im;
}

bru_status mem_image_open(int fd, uint64_t offset, uint64_t len, mem_image **out, bru_error *err) {
    *out = NULL;
    bru_status st = size_check(offset, len, err);
    if (st) return st;
    mem_image *im = image_blank(offset, len);
    if (!im) return error_set(err, BRU_ENOMEM, "no memory for an image");
    st = os_duplicate(fd, &im->fd, err);
    if (!st) st = mem_image_intact(im, err);
    if (!st) st = os_view(im->fd, offset, (size_t)len, &im->view, err);
    if (st)
        mem_image_unref(im);
    else
        *out = im;
    return st;
}

/* Writes the pages of `bytes` that are not all zero, neighbours in one go. */
static bru_status write_pages(int fd, const uint8_t *bytes, uint64_t len, bru_error *err) {
    size_t page = os_page();
    uint64_t from = 0; /* of the run that is not written yet */
    for (uint64_t at = 0; at < len; at += page) {
        bool zero = bytes[at] == 0 && memcmp(bytes + at, bytes + at + 1, page - 1) == 0;
        if (!zero) continue;
        bru_status st = from < at ? os_write_at(fd, from, bytes + from, at - from, err) : BRU_OK;
        if (st) return st;
        from = at + page;
    }
    return from < len ? os_write_at(fd, from, bytes + from, len - from, err) : BRU_OK;
}

bru_status mem_image_copy(const void *bytes, uint64_t len, mem_image **out, bru_error *err) {
    *out = NULL;
    bru_status st = size_check(0, len, err);
    if (st) return st;
    mem_image *im = image_blank(0, len);
    if (!im) return error_set(err, BRU_ENOMEM, "no memory for an image");
    st = os_memory_file(len, &im->fd, err);
    if (!st) st = write_pages(im->fd, bytes, len, err);
    if (!st) st = os_seal(im->fd, err);
    if (!st) st = os_view(im->fd, 0, (size_t)len, &im->view, err);
    im->sealed = !st;
    if (st)
        mem_image_unref(im);
    else
        *out = im;
    return st;
}

mem_image *mem_image_ref(mem_image *im) {
    atomic_fetch_add_explicit(&im->refs, 1, memory_order_relaxed);
    return im;
}

void mem_image_unref(mem_image *im) {
    if (!im || atomic_fetch_sub_explicit(&im->refs, 1, memory_order_acq_rel) != 1) return;
    os_release(im->view, (size_t)im->len);
    os_close(im->fd);
    mem_free(im);
}

const uint8_t *mem_image_bytes(const mem_image *im) {
    return im->view;
}

uint64_t mem_image_size(const mem_image *im) {
    return im->len;
}

bru_status mem_image_map(const mem_image *im, uint8_t *at, bru_error *err) {
    return os_map_file(at, (size_t)im->len, im->fd, im->offset, err);
}

bru_status mem_image_intact(const mem_image *im, bru_error *err) {
    if (im->sealed) return BRU_OK;
    uint64_t have = 0;
    bru_status st = os_file_size(im->fd, &have, err);
    if (!st && have < im->offset + im->len)
        st =
            error_set(err, BRU_EFORMAT, "the image file has %llu bytes, not the %llu that it needs",
                      (unsigned long long)have, (unsigned long long)(im->offset + im->len));
    return st;
}
