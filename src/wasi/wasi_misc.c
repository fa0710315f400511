/* Arguments, clocks, randomness, the process, and sockets, of which there are none here. */
#include "wasi_internal.h"

#include <string.h>

#define RANDOM_MAX (16u << 20) /* bytes in one call */

enum { CLOCK_WALL = 0, CLOCK_MONO = 1, CLOCK_PROCESS = 2, CLOCK_THREAD = 3 };
enum {
    SIGNAL_NONE = 0,
    SIGNAL_CHLD = 16,
    SIGNAL_CONT = 17,
    SIGNAL_URG = 22,
    SIGNAL_WINCH = 27,
    SIGNAL_LAST = 30
};

/* ---- Arguments and environment ---- */

static wasi_err strings_sizes(const wasi_strings *s, gmem m, const uint64_t *a) {
    if (!gmem_at(m, (uint32_t)a[0], 4) || !gmem_at(m, (uint32_t)a[1], 4)) return W_EFAULT;
    gmem_put32(m, (uint32_t)a[0], s->count);
    gmem_put32(m, (uint32_t)a[1], s->len);
    return VFS_OK;
}

static wasi_err strings_get(const wasi_strings *s, gmem m, const uint64_t *a) {
    uint8_t *pointers = gmem_at(m, (uint32_t)a[0], (uint64_t)s->count * 4);
    uint8_t *text = gmem_at(m, (uint32_t)a[1], s->len);
    if (!pointers || !text) return W_EFAULT;
    if (s->len) memcpy(text, s->bytes, s->len);
    size_t at = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        put32(pointers + (size_t)i * 4, (uint32_t)a[1] + (uint32_t)at);
        at += strlen(s->bytes + at) + 1;
    }
    return VFS_OK;
}

wasi_err wasi_args_get(wasi *w, gmem m, const uint64_t *a) {
    return strings_get(&w->args, m, a);
}

wasi_err wasi_args_sizes_get(wasi *w, gmem m, const uint64_t *a) {
    return strings_sizes(&w->args, m, a);
}

wasi_err wasi_environ_get(wasi *w, gmem m, const uint64_t *a) {
    return strings_get(&w->env, m, a);
}

wasi_err wasi_environ_sizes_get(wasi *w, gmem m, const uint64_t *a) {
    return strings_sizes(&w->env, m, a);
}

/* ---- Clocks and randomness ---- */

wasi_err wasi_clock_res_get(wasi *w, gmem m, const uint64_t *a) {
    (void)w;
    if (a[0] > CLOCK_THREAD) return VFS_EINVAL;
    return gmem_put64(m, (uint32_t)a[1], 1) ? VFS_OK : W_EFAULT;
}

wasi_err wasi_clock_time_get(wasi *w, gmem m, const uint64_t *a) {
    uint64_t now;
    switch (a[0]) {
    case CLOCK_WALL: now = w->clock.wall(w->clock.ctx); break;
    case CLOCK_MONO: now = w->clock.monotonic(w->clock.ctx); break;
    case CLOCK_PROCESS:
    case CLOCK_THREAD: now = w->cpu_time ? w->cpu_time(w->cpu_time_ctx) : clock_thread_cpu(); break;
    default: return VFS_EINVAL;
    }
    return gmem_put64(m, (uint32_t)a[2], now) ? VFS_OK : W_EFAULT;
}

wasi_err wasi_random_get(wasi *w, gmem m, const uint64_t *a) {
    void *p = gmem_at(m, (uint32_t)a[0], a[1]);
    if (!p) return W_EFAULT;
    if (a[1] > RANDOM_MAX) return VFS_EINVAL; /* would keep the host too long */
    return w->random.fill(w->random.ctx, p, (size_t)a[1]) ? VFS_OK : VFS_EIO;
}

/* ---- The process ---- */

wasi_err wasi_proc_exit(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    w->stop = (wasi_stop_info){ WASI_STOP_EXIT, (uint32_t)a[0] };
    return VFS_STOP;
}

wasi_err wasi_proc_raise(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    switch (a[0]) {
    case SIGNAL_NONE:
    case SIGNAL_CHLD:
    case SIGNAL_CONT:
    case SIGNAL_URG:
    case SIGNAL_WINCH: return VFS_OK; /* ignored by default */
    default: break;
    }
    if (a[0] > SIGNAL_LAST) return VFS_EINVAL;
    w->stop = (wasi_stop_info){ WASI_STOP_SIGNAL, (uint32_t)a[0] };
    return VFS_STOP;
}

wasi_err wasi_sched_yield(wasi *w, gmem m, const uint64_t *a) {
    (void)w;
    (void)m;
    (void)a;
    return VFS_OK;
}

/* ---- Sockets: no descriptor is one ---- */

static wasi_err no_socket(wasi *w, uint64_t fd) {
    wasi_fd *f;
    wasi_err e = fd_get(w, fd, 0, &f);
    return e ? e : W_ENOTSOCK;
}

wasi_err wasi_sock_accept(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    return no_socket(w, a[0]);
}

wasi_err wasi_sock_recv(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    return no_socket(w, a[0]);
}

wasi_err wasi_sock_send(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    return no_socket(w, a[0]);
}

wasi_err wasi_sock_shutdown(wasi *w, gmem m, const uint64_t *a) {
    (void)m;
    return no_socket(w, a[0]);
}
