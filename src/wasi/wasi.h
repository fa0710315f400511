/* WASI preview 1 over a namespace of files, clocks and a source of randomness: all functions of
 * wasi_snapshot_preview1 as doors. A context is the host's side of one guest: its descriptors,
 * arguments, environment, and what it waits for. It knows no engine: the guest's memory comes in
 * with each call. One call at a time per context; contexts are independent. */
#ifndef BRU_WASI_WASI_H
#define BRU_WASI_WASI_H

#include "base/door.h"
#include "vfs/vfs.h"

typedef struct wasi wasi;

/* The doors, in the order of the standard; the context of each is a `wasi *`. Module
 * "wasi_snapshot_preview1". */
extern const door wasi_doors[];
extern const size_t wasi_door_count;

typedef struct wasi_options {
    vfs *files;           /* borrowed, must outlive the context; fd 3 is its "/", and fds 0 to 2
                           * are its /dev/stdin, /dev/stdout, /dev/stderr */
    clock_source clock;   /* zeroed: clock_system */
    random_source random; /* zeroed: random_system */
    /* ns of CPU time that the guest used, for the process and thread clocks; NULL: of the calling
     * thread. */
    uint64_t (*cpu_time)(void *ctx);
    void *cpu_time_ctx;
    uint32_t max_fds; /* descriptors at a time, at least 4; 0: 256 */
} wasi_options;

/* A context with fds 0 to 3 open, no arguments and an empty environment. BRU_ENOMEM, BRU_EINVAL:
 * `*out` is NULL. */
bru_status wasi_new(const wasi_options *opt, wasi **out, bru_error *err);
/* Closes all descriptors. NULL allowed. */
void wasi_free(wasi *w);

/* Arguments and environment ("NAME=value"), copied; may be set at any time, and a guest that reads
 * them later sees the new ones. At most WASI_STRINGS_MAX bytes in all: BRU_ELIMIT. On failure
 * the old ones stay. */
#define WASI_STRINGS_MAX (1u << 20)
bru_status wasi_set_args(wasi *w, const char *const *args, size_t count, bru_error *err);
bru_status wasi_set_env(wasi *w, const char *const *env, size_t count, bru_error *err);

/* Replaces the clocks or the randomness from now on: an image is booted with one, and runs with
 * another. */
void wasi_set_clock(wasi *w, const clock_source *clock);
void wasi_set_random(wasi *w, const random_source *random);

/* Back to how wasi_new left it, except arguments, environment, clocks: closes what the guest
 * opened, opens what it closed, forgets waits and the end. Costs nothing worth counting if the
 * guest opened and closed nothing. Never allocates. */
void wasi_reset(wasi *w);

/* Before a run of a session that lives on: fds 0 to 2 are the standard streams again, whatever the
 * guest did to them; other descriptors stay. Forgets waits and the end. */
void wasi_restart_stdio(wasi *w);

/* ---- After DOOR_PARK ----------------------------------------------------------------------- */

/* What the parked call waits for; any one of it suffices. */
enum {
    WASI_WAIT_TIME = 1u << 0,   /* the monotonic clock reaching `deadline` */
    WASI_WAIT_INPUT = 1u << 1,  /* source_give() or source_end(): see source_wanted() */
    WASI_WAIT_OUTPUT = 1u << 2, /* sink_take() */
    WASI_WAIT_FILES = 1u << 3   /* a file system served by the embedder */
};

typedef struct wasi_wait_info {
    unsigned reasons;  /* 0: the context is not parked */
    uint64_t deadline; /* ns on the context's monotonic clock; UINT64_MAX if WASI_WAIT_TIME is not
                        * among the reasons */
} wasi_wait_info;

wasi_wait_info wasi_wait(const wasi *w);

/* The parked call, when it is made again, does not wait further: poll_oneoff answers that the time
 * of its clocks has come (the libraries of guests do not pass EINTR on from a sleep), a write what
 * it has written, any other call EINTR. Without effect if none is parked. */
void wasi_interrupt(wasi *w);
/* The parked call will not be made again: its guest was ended. */
void wasi_forget_wait(wasi *w);

/* ---- After DOOR_STOP ----------------------------------------------------------------------- */

typedef enum wasi_stop_cause {
    WASI_RUNNING = 0, /* not stopped */
    WASI_STOP_EXIT,   /* proc_exit: `code` */
    WASI_STOP_SIGNAL, /* proc_raise: `code` is WASI's number of the signal, 6 is ABRT */
    WASI_STOP_OUTPUT  /* the sink's limit was reached and it says to stop */
} wasi_stop_cause;

typedef struct wasi_stop_info {
    wasi_stop_cause cause;
    uint32_t code;
} wasi_stop_info;

wasi_stop_info wasi_stop(const wasi *w);

/* ---- Descriptors --------------------------------------------------------------------------- */

typedef struct wasi_fd_info {
    uint32_t fd;
    vfs_kind kind;
    uint64_t offset;
    bool initial; /* one of fds 0 to 3, and still what wasi_new opened there */
} wasi_fd_info;

/* Goes through the open descriptors in order: start with `*cursor` 0. False at the end. An image
 * or a snapshot may be taken if all are `initial`. */
bool wasi_fd_next(const wasi *w, uint32_t *cursor, wasi_fd_info *out);
/* Whether any descriptor is open that is not `initial`. */
bool wasi_has_open_files(const wasi *w);

/* The descriptors as bytes, for snapshots: appended to `out`; none if they are as at the beginning.
 * Files are told by path; those that have none any more go along with what is in them.
 * BRU_ELIMIT, BRU_ENOMEM. */
BRU_MUST_CHECK bru_status wasi_fds_save(const wasi *w, buf *out, bru_error *err);
/* Opens the descriptors that wasi_fds_save() told, in a context as at the beginning whose files are
 * there already. The bytes are not trusted. A file that cannot be opened is left out: its
 * descriptor is closed. BRU_EFORMAT, BRU_ENOMEM: some may be open. */
BRU_MUST_CHECK bru_status wasi_fds_load(wasi *w, const void *bytes, size_t len, bru_error *err);
/* How many descriptors of files such bytes tell of, as far as they are sound. */
uint32_t wasi_fds_count(const void *bytes, size_t len);
/* Gives `to` the arguments and the environment of `from`. BRU_ENOMEM: `to` is as before. */
BRU_MUST_CHECK bru_status wasi_copy_strings(wasi *to, const wasi *from, bru_error *err);

#endif
