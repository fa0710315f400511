/* Writing an image: into a temporary file beside the one to be, renamed when it is whole. */
#define _GNU_SOURCE
#include "image/format.h"
#include "image/image.h"
#include "image/replace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct image_writer {
    replacement file;
    uint64_t at; /* where the next byte goes */
    format_header header;
};

static bru_status put(image_writer *w, const void *bytes, size_t len, bru_error *err) {
    for (const uint8_t *p = bytes; len > 0;) {
        ssize_t n = pwrite(w->file.fd, p, len, (off_t)w->at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_errno(err, errno, "cannot write the image %s", w->file.path);
        p += n;
        w->at += (uint64_t)n;
        len -= (size_t)n;
    }
    return BRU_OK;
}

static bru_status put_archive(void *ctx, const void *bytes, size_t len, bru_error *err) {
    return put(ctx, bytes, len, err);
}

static void align(image_writer *w) {
    w->at = (w->at + FORMAT_PAGE - 1) / FORMAT_PAGE * FORMAT_PAGE;
}

/* Times inside are fixed, so that equal inputs give equal files: 2020-01-01. */
#define ROOT_MTIME 1577836800000000000ull

static bru_status put_root(image_writer *w, vfs_fs *root, const bru_build_file *files, size_t count,
                           bru_error *err) {
    archive_file *added = mem_zero(count + 1, sizeof *added);
    if (!added) return error_set(err, BRU_ENOMEM, "no memory for %zu files", count);
    for (size_t i = 0; i < count; i++)
        added[i] = (archive_file){ files[i].path, files[i].data, files[i].len };
    w->header.root.offset = w->at;
    bru_status st = archive_extend(root, added, count, ROOT_MTIME, put_archive, w, err);
    w->header.root.len = w->at - w->header.root.offset;
    if (!st && w->header.root.len > FORMAT_ROOT_MAX)
        st = error_set(err, BRU_ELIMIT, "the files of the image are more than 4 GiB");
    mem_free(added);
    return st;
}

bru_status image_writer_new(const char *path, vfs_fs *root, const bru_build_file *files,
                            size_t count, image_writer **out, bru_error *err) {
    *out = NULL;
    image_writer *w = mem_zero(1, sizeof *w);
    if (!w) return error_set(err, BRU_ENOMEM, "no memory to write an image");
    bru_status st = replacement_open(&w->file, path, err);
    w->at = FORMAT_PAGE;
    if (!st) st = put_root(w, root, files, count, err);
    if (st)
        image_writer_free(w);
    else
        *out = w;
    return st;
}

bru_status image_writer_root(image_writer *w, vfs_fs **out, bru_error *err) {
    return image_root_map(w->file.fd, w->header.root.offset, w->header.root.len, true, out, err);
}

/* The pages that are not zero, neighbours in one go; the others stay holes. */
static bru_status put_memory(image_writer *w, gmem memory, bru_error *err) {
    static const uint8_t zeros[FORMAT_PAGE];
    align(w);
    w->header.memory = (format_section){ w->at, memory.size };
    uint64_t start = w->at, from = 0; /* of the run that is not written yet */
    for (uint64_t at = 0; at <= memory.size; at += FORMAT_PAGE) {
        if (at < memory.size && memcmp(memory.base + at, zeros, FORMAT_PAGE) != 0) continue;
        w->at = start + from;
        bru_status st = put(w, memory.base + from, at - from, err);
        if (st) return st;
        w->header.stored_bytes += at - from;
        from = at + FORMAT_PAGE;
    }
    w->at = start + memory.size;
    if (ftruncate(w->file.fd, (off_t)w->at) != 0)
        return error_errno(err, errno, "cannot write the image %s", w->file.path);
    return BRU_OK;
}

static bru_status line(buf *b, const char *key, const char *value) {
    bru_status st = buf_append(b, key, strlen(key));
    if (!st) st = buf_append(b, " ", 1);
    for (const char *c = value; !st && *c; c++) st = buf_append(b, *c == '\n' ? "\x1f" : c, 1);
    return st ? st : buf_append(b, "\n", 1);
}

static bru_status put_manifest(image_writer *w, const image_state *state, bru_error *err) {
    char control[16];
    buf b;
    buf_init(&b, FORMAT_MANIFEST_MAX);
    snprintf(control, sizeof control, "%u", state->control_at);
    bru_status st = line(&b, "wasm_sha256", guest_wasm_sha256(state->code));
    if (!st) st = line(&b, "build", guest_build_line(state->code));
    if (!st) st = line(&b, "preloaded", state->preloaded);
    if (!st) st = line(&b, "note", state->note);
    if (!st) st = line(&b, "control", control);
    if (!st) st = buf_append(&b, state->globals, state->globals_len);
    if (st)
        error_set(
            err, st,
            "the manifest is too large: fewer modules to preload, or a shorter note, may help");
    align(w);
    w->header.manifest = (format_section){ w->at, b.len };
    w->header.globals_len = (uint32_t)state->globals_len;
    format_sum(b.data, b.len, w->header.manifest_sum);
    if (!st) st = put(w, b.data, b.len, err);
    buf_free(&b);
    return st;
}

/* The header comes last, when all that it sums up is there. */
static bru_status put_header(image_writer *w, bru_error *err) {
    memcpy(w->header.magic, FORMAT_MAGIC, sizeof w->header.magic);
    w->header.version = FORMAT_VERSION;
    w->header.file_len = w->at;
    bru_status st = format_content_sum(w->file.fd, w->at, w->header.content_sum, w->file.path, err);
    format_header_sum(&w->header, w->header.header_sum);
    w->at = 0;
    return st ? st : put(w, &w->header, sizeof w->header, err);
}

bru_status image_writer_finish(image_writer *w, const image_state *state, bru_error *err) {
    bru_status st = put_memory(w, state->memory, err);
    if (!st) st = put_manifest(w, state, err);
    if (!st) st = put_header(w, err);
    return st ? st : replacement_finish(&w->file, 0644, err);
}

void image_writer_free(image_writer *w) {
    if (!w) return;
    replacement_close(&w->file);
    mem_free(w);
}
