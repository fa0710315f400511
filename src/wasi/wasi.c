/* The context of a guest: its descriptors, its arguments, and what became of its last call. */
#include "wasi_internal.h"

#include <string.h>

#define FDS_DEFAULT 256u
#define FDS_FIRST   16u /* places at birth */

/* ---- Doors ---- */

typedef wasi_err (*wasi_fn)(wasi *w, gmem m, const uint64_t *a);

/* Runs a function, and turns its answer into what the engine is to do. */
static inline door_next run(wasi *w, unsigned number, wasi_fn fn, gmem m, const uint64_t *a,
                            uint64_t *result) {
    if (w->parked != WASI_FN_NONE && w->parked != number) wasi_forget_wait(w);
    /* A wait for time answers that the time has come: libraries do not pass EINTR on. */
    bool cut = w->interrupted && w->op.done == 0 && number != WASI_FN_poll_oneoff;
    wasi_err e = cut ? W_EINTR : fn(w, m, a);
    if (e == VFS_WAIT) {
        w->parked = number;
        w->interrupted = false;
        return DOOR_PARK;
    }
    if (w->parked != WASI_FN_NONE || w->op.timed || w->op.done) wasi_forget_wait(w);
    if (e == VFS_STOP) {
        if (w->stop.cause == WASI_RUNNING) w->stop.cause = WASI_STOP_OUTPUT;
        return DOOR_STOP;
    }
    *result = (uint64_t)e;
    return DOOR_RETURN;
}

#define WASI_DOOR(name, type)                                                                      \
    static door_next door_##name(void *ctx, gmem mem, const uint64_t *args, uint64_t *result) {    \
        return run(ctx, WASI_FN_##name, wasi_##name, mem, args, result);                           \
    }
WASI_FUNCTIONS(WASI_DOOR)
#undef WASI_DOOR

#define WASI_ROW(name, type) { "wasi_snapshot_preview1", #name, type, door_##name },
const door wasi_doors[] = { WASI_FUNCTIONS(WASI_ROW) };
#undef WASI_ROW
const size_t wasi_door_count = WASI_FN_COUNT;

/* ---- Waiting and ending ---- */

wasi_err wait_for(wasi *w, unsigned reasons, uint64_t deadline) {
    w->wait = (wasi_wait_info){ reasons, deadline };
    return VFS_WAIT;
}

wasi_wait_info wasi_wait(const wasi *w) {
    return w->parked == WASI_FN_NONE ? (wasi_wait_info){ 0, UINT64_MAX } : w->wait;
}

void wasi_interrupt(wasi *w) {
    if (w->parked != WASI_FN_NONE) w->interrupted = true;
}

void wasi_forget_wait(wasi *w) {
    w->parked = WASI_FN_NONE;
    w->interrupted = false;
    w->op.done = 0;
    w->op.timed = false;
}

wasi_stop_info wasi_stop(const wasi *w) {
    return w->stop;
}

/* ---- Descriptors ---- */

wasi_err fd_get(wasi *w, uint64_t fd, uint64_t rights, wasi_fd **out) {
    if (fd >= w->fd_count || !w->fds[fd].file) return VFS_EBADF;
    if ((w->fds[fd].rights & rights) != rights) return VFS_ENOTCAPABLE;
    *out = &w->fds[fd];
    return VFS_OK;
}

wasi_err fd_folder(wasi *w, uint64_t fd, uint64_t rights, wasi_fd **out) {
    wasi_err e = fd_get(w, fd, 0, out);
    if (e) return e;
    if (vfs_file_kind((*out)->file) != VFS_DIR) return VFS_ENOTDIR;
    return ((*out)->rights & rights) == rights ? VFS_OK : VFS_ENOTCAPABLE;
}

wasi_err fd_room(wasi *w, uint32_t fd) {
    if (fd < w->fd_count) return VFS_OK;
    if (fd >= w->max_fds) return VFS_EBADF;
    uint32_t count = w->fd_count * 2 > fd ? w->fd_count * 2 : fd + 1;
    if (count > w->max_fds) count = w->max_fds;
    wasi_fd *fds = mem_grow(w->fds, count * sizeof *fds);
    if (!fds) return VFS_ENOMEM;
    memset(fds + w->fd_count, 0, (count - w->fd_count) * sizeof *fds);
    w->fds = fds;
    w->fd_count = count;
    return VFS_OK;
}

wasi_err fd_free_number(wasi *w, uint32_t *out) {
    uint32_t fd = STD_COUNT;
    while (fd < w->fd_count && w->fds[fd].file) fd++;
    if (fd >= w->max_fds) return VFS_EMFILE;
    *out = fd;
    return fd_room(w, fd);
}

void fd_shut(wasi *w, wasi_fd *f) {
    bool standard = false;
    for (unsigned i = 0; i < STD_COUNT; i++) standard = standard || f->file == w->std[i];
    if (!standard) vfs_close(f->file);
    *f = (wasi_fd){ 0 };
    w->touched = true;
}

/* Makes `fd` what it was at the beginning. */
static void fd_restore(wasi *w, uint32_t fd) {
    wasi_fd *f = &w->fds[fd];
    if (f->file && f->file != w->std[fd]) fd_shut(w, f);
    uint64_t rights = RIGHTS_FILE & ~(fd == 0 ? RIGHT_FD_WRITE : RIGHT_FD_READ);
    if (fd == 3) rights = RIGHTS_FOLDER;
    *f = (wasi_fd){ .file = w->std[fd],
                    .rights = rights,
                    .inheriting = fd == 3 ? RIGHTS_ALL : 0,
                    .preopen = fd == 3 };
}

bool wasi_fd_next(const wasi *w, uint32_t *cursor, wasi_fd_info *out) {
    while (*cursor < w->fd_count && !w->fds[*cursor].file) ++*cursor;
    if (*cursor >= w->fd_count) return false;
    uint32_t fd = (*cursor)++;
    const wasi_fd *f = &w->fds[fd];
    *out = (wasi_fd_info){ .fd = fd,
                           .kind = vfs_file_kind(f->file),
                           .offset = f->offset,
                           .initial = fd < STD_COUNT && f->file == w->std[fd] };
    return true;
}

bool wasi_has_open_files(const wasi *w) {
    wasi_fd_info info;
    for (uint32_t cursor = 0; w->touched && wasi_fd_next(w, &cursor, &info);)
        if (!info.initial) return true;
    return false;
}

/* ---- Life ---- */

static bru_status open_standard(wasi *w, bru_error *err) {
    static const struct {
        const char *path;
        unsigned flags;
    } files[STD_COUNT] = { { "/dev/stdin", VFS_READ },
                           { "/dev/stdout", VFS_WRITE },
                           { "/dev/stderr", VFS_WRITE },
                           { "/", VFS_READ | VFS_FOLDER } };
    vfs_err e = VFS_OK;
    unsigned i = 0;
    for (; !e && i < STD_COUNT; i++)
        e = vfs_open(w->files, NULL, files[i].path, strlen(files[i].path), files[i].flags,
                     &w->std[i]);
    return vfs_error(err, e, files[i ? i - 1 : 0].path);
}

bru_status wasi_new(const wasi_options *opt, wasi **out, bru_error *err) {
    *out = NULL;
    if (!opt || !opt->files) return error_set(err, BRU_EINVAL, "a context of WASI needs files");
    if (opt->max_fds && opt->max_fds < STD_COUNT)
        return error_set(err, BRU_EINVAL, "a guest needs at least %u descriptors", STD_COUNT);
    wasi *w = mem_zero(1, sizeof *w);
    if (!w) return error_set(err, BRU_ENOMEM, "no memory for a context of WASI");
    w->files = opt->files;
    wasi_set_clock(w, &opt->clock);
    wasi_set_random(w, &opt->random);
    w->cpu_time = opt->cpu_time;
    w->cpu_time_ctx = opt->cpu_time_ctx;
    w->max_fds = opt->max_fds ? opt->max_fds : FDS_DEFAULT;
    w->parked = WASI_FN_NONE;
    bru_status st = open_standard(w, err);
    uint32_t count = w->max_fds < FDS_FIRST ? w->max_fds : FDS_FIRST;
    if (!st) w->fds = mem_zero(count, sizeof *w->fds);
    if (!st && !w->fds) st = error_set(err, BRU_ENOMEM, "no memory for descriptors");
    if (st) {
        wasi_free(w);
        return st;
    }
    w->fd_count = count;
    for (uint32_t i = 0; i < STD_COUNT; i++) fd_restore(w, i);
    *out = w;
    return BRU_OK;
}

void wasi_free(wasi *w) {
    if (!w) return;
    for (uint32_t i = 0; i < w->fd_count; i++)
        if (w->fds[i].file) fd_shut(w, &w->fds[i]);
    for (unsigned i = 0; i < STD_COUNT; i++) vfs_close(w->std[i]);
    mem_free(w->fds);
    mem_free(w->args.bytes);
    mem_free(w->env.bytes);
    mem_free(w);
}

void wasi_reset(wasi *w) {
    wasi_forget_wait(w);
    w->stop = (wasi_stop_info){ WASI_RUNNING, 0 };
    if (!w->touched) return;
    for (uint32_t i = STD_COUNT; i < w->fd_count; i++)
        if (w->fds[i].file) fd_shut(w, &w->fds[i]);
    for (uint32_t i = 0; i < STD_COUNT; i++) fd_restore(w, i);
    w->touched = false;
}

void wasi_restart_stdio(wasi *w) {
    wasi_forget_wait(w);
    w->stop = (wasi_stop_info){ WASI_RUNNING, 0 };
    for (uint32_t i = 0; w->touched && i < 3; i++) fd_restore(w, i);
}

void wasi_set_clock(wasi *w, const clock_source *clock) {
    w->clock = clock->wall ? *clock : clock_system;
}

void wasi_set_random(wasi *w, const random_source *random) {
    w->random = random->fill ? *random : random_system;
}

static bru_status strings_set(wasi_strings *s, const char *const *texts, size_t count,
                              const char *what, bru_error *err) {
    size_t len = 0;
    for (size_t i = 0; i < count && len <= WASI_STRINGS_MAX; i++) len += strlen(texts[i]) + 1;
    if (len > WASI_STRINGS_MAX)
        return error_set(err, BRU_ELIMIT, "%s: more than %u bytes", what, WASI_STRINGS_MAX);
    char *bytes = mem_zero(len + 1, 1);
    if (!bytes) return error_set(err, BRU_ENOMEM, "%s: no memory", what);
    char *p = bytes;
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(texts[i]) + 1;
        memcpy(p, texts[i], n);
        p += n;
    }
    mem_free(s->bytes);
    *s = (wasi_strings){ bytes, (uint32_t)len, (uint32_t)count };
    return BRU_OK;
}

bru_status wasi_set_args(wasi *w, const char *const *args, size_t count, bru_error *err) {
    return strings_set(&w->args, args, count, "arguments", err);
}

bru_status wasi_set_env(wasi *w, const char *const *env, size_t count, bru_error *err) {
    return strings_set(&w->env, env, count, "environment", err);
}

bru_status wasi_copy_strings(wasi *to, const wasi *from, bru_error *err) {
    wasi_strings args = from->args, env = from->env;
    args.bytes = mem_copy(from->args.bytes, args.len);
    env.bytes = mem_copy(from->env.bytes, env.len);
    if (!args.bytes || !env.bytes) {
        mem_free(args.bytes);
        mem_free(env.bytes);
        return error_set(err, BRU_ENOMEM, "no memory for arguments and environment");
    }
    mem_free(to->args.bytes);
    mem_free(to->env.bytes);
    to->args = args;
    to->env = env;
    return BRU_OK;
}
