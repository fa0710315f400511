/* Sessions: a live Python, its files, its limits and its state.
 *
 *               start            DONE event
 *      IDLE ------------> BUSY ------------------> IDLE     (or ENDED, when a limit stopped it)
 *       ^                  |  ^
 *       |                  v  | next, after reply / input / the wait is over
 *       |                 WAITING (WAIT, CALL, INPUT or OUTPUT event handed out)
 *       +--- reset --- ENDED, or any state but inside bru_session_next()
 *
 * The embedder pulls: bru_session_next() runs the guest on the calling thread until it wants
 * something, and hands that out as an event. Between two calls no thread is held. */
#ifndef BRUMATE_SESSION_H
#define BRUMATE_SESSION_H

#include "image.h"
#include "result.h"
#include "storage.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bru_session bru_session;

#define BRU_NO_LIMIT UINT64_MAX

enum bru_limit_flag {
    BRU_OUTPUT_STOPS = 1u /* at the output limit the run ends; else the rest is cut, and counted */
};

/* What a session may use. 0 is the default, BRU_NO_LIMIT none. */
typedef struct bru_limits {
    uint64_t timeout_ns; /* wall time of one execution: 30 s */
    uint64_t cpu_ns;     /* CPU time of one execution: none */
    uint64_t grace_ns;   /* from the soft stop (a Python exception at the deadline, after which the
                          * session lives) to the hard stop (nothing in the guest can catch it,
                          * and the session must be reset): 400 us */
    uint64_t memory_bytes;   /* linear memory, the interpreter's own 20 MB included: 128 MiB */
    uint64_t output_bytes;   /* stdout and stderr of one execution together: 1 MiB */
    uint64_t file_bytes;     /* in-memory files, their names and folders: 64 MiB */
    uint64_t artifact_bytes; /* what `brumate.show()` hands out in one execution: 32 MiB */
    unsigned flags;          /* of bru_limit_flag */
} bru_limits;

enum bru_mount_flag { BRU_MOUNT_WRITE = 1u /* else read-only */ };

/* A host folder or file shown to the guest. */
typedef struct bru_mount {
    const char *host_path;
    const char *guest_path; /* absolute; its parents are made if missing */
    unsigned flags;         /* of bru_mount_flag */
} bru_mount;

/* A function of the host that guest code calls as `await name(...)`. Each call is a CALL event,
 * whose bytes are the arguments as the guest's codec has them: [[positional...], {name:
 * keyword...}]. */
typedef struct bru_function {
    const char *name; /* an identifier, or several with dots between: functions of an object */
    const char *description; /* for `_callbacks.list()`; NULL: "" */
    const char *schema;      /* of its arguments, JSON, for the same; NULL: none */
} bru_function;

enum bru_session_flag {
    BRU_STREAM_OUTPUT = 1u, /* hand output out as events instead of keeping it for the result */
    BRU_PULL_INPUT = 2u     /* ask for stdin by INPUT events; else it is at its end */
};

/* A session whose time and chance are functions of these and of what its code does, so that the
 * same code, given the same, is the same to the bit: output, memory, files. Clocks step by 1 us
 * with each reading; a sleep, or the wait for a timer, ends at once and moves them to its end, but
 * while host calls are open or input is awaited time stands still. Deadlines are real. In memory
 * and in its snapshots the state of both goes along: twins and sessions woken from one stay equal,
 * they draw no entropy of their own, and the environment is as it was. */
typedef struct bru_deterministic {
    uint8_t seed[32];
    uint64_t start_ns; /* the wall clock at the beginning, ns since 1970 */
} bru_deterministic;

typedef struct bru_session_options {
    size_t size;
    bru_limits limits;
    const bru_mount *mounts;
    size_t mount_count;
    const char *const *env; /* "KEY=VALUE"; nothing of the host's environment is shown */
    size_t env_count;
    const bru_function *functions;
    size_t function_count;
    bru_storage *storage;                   /* shared files, shown at storage_path; NULL: none */
    const char *storage_path;               /* absolute; NULL: /data */
    unsigned flags;                         /* of bru_session_flag */
    const bru_deterministic *deterministic; /* NULL: the time of the host, and its randomness */
} bru_session_options;
#define BRU_SESSION_OPTIONS_INIT { .size = sizeof(bru_session_options) }

/* Makes a session: a fresh Python from `image`, ready to run. Copies what options point to.
 * BRU_ELIMIT  no address space or mappings left. BRU_ENOENT, BRU_EPERM  a mount's folder.
 * `*out` goes back by bru_session_free(). */
BRU_API BRU_MUST_CHECK bru_status bru_session_new(bru_image *image,
                                                  const bru_session_options *options,
                                                  bru_session **out, bru_error *err);

/* Ends and frees it, in any state but inside another call. NULL is allowed. Its memory is wiped,
 * and up to eight such pieces of at most 0.3 MB stay with the image, for sessions to come. */
BRU_API void bru_session_free(bru_session *session);

enum bru_exec_flag {
    BRU_EXEC_DISPLAY = 1u, /* print the last expression's repr, as the interactive prompt does */
    BRU_EXEC_MODULE = 2u,  /* the source is a module's name: run it as `python -m` does */
    BRU_EXEC_PROGRAM = 4u, /* a whole program: atexit functions run at its end */
    BRU_EXEC_STREAM = 8u   /* as BRU_STREAM_OUTPUT, for this execution */
};

typedef struct bru_exec_options {
    size_t size;
    const char *file_name;   /* for tracebacks; NULL: "<brumate>" */
    const char *const *argv; /* sys.argv; NULL: [''] */
    size_t argc;
    const char *input; /* stdin, if not BRU_PULL_INPUT; NULL: at its end; not kept */
    size_t input_len;
    const void *inputs; /* variables to set first: a map from names to values, as the guest's codec
                         * has them (CBOR); NULL: none; not kept */
    size_t inputs_len;
    const char *capture; /* the variable whose JSON becomes BRU_TEXT_VALUE; NULL: none */
    uint64_t timeout_ns; /* 0: the session's */
    unsigned flags;      /* of bru_exec_flag */
} bru_exec_options;
#define BRU_EXEC_OPTIONS_INIT { .size = sizeof(bru_exec_options) }

/* Runs `src` (UTF-8, `len` bytes, not kept) to its end on this thread: waits through sleeps,
 * answers calls of host functions with an error, refuses INPUT with the end of the file.
 * BRU_OK       `*out` is the caller's until bru_result_free(); it may hold an exception or a limit.
 * BRU_ESTATE   not IDLE: `*out` is NULL and the session is as before. So with BRU_ENOMEM.
 * Threads      bru_session_interrupt() may come from any thread. */
BRU_API BRU_MUST_CHECK bru_status bru_session_run(bru_session *session, const char *src, size_t len,
                                                  const bru_exec_options *options, bru_result **out,
                                                  bru_error *err);

/* The same without running yet: then call bru_session_next() until it answers DONE. The deadline
 * counts from here. Statuses as above. */
BRU_API BRU_MUST_CHECK bru_status bru_session_start(bru_session *session, const char *src,
                                                    size_t len, const bru_exec_options *options,
                                                    bru_error *err);

typedef enum bru_event_kind {
    BRU_EVENT_DONE,   /* ended: `result` is the caller's */
    BRU_EVENT_OUTPUT, /* `stream` 1 or 2, `data`, `len` */
    BRU_EVENT_INPUT,  /* stdin wanted: answer by bru_session_input(), or go on at `wake_ns` */
    BRU_EVENT_CALL,   /* host function `name` called with `data`: answer by bru_session_reply(),
                       * now or after further events; `id` names it */
    BRU_EVENT_DROP,   /* the guest no longer waits for call `id`; a reply is still allowed */
    BRU_EVENT_WAIT    /* nothing to do before `wake_ns`, unless a reply comes earlier */
} bru_event_kind;

/* Pointers are borrowed until the next call on the session. */
typedef struct bru_event {
    bru_event_kind kind;
    int stream;
    uint32_t id;
    const char *name;
    const void *data;
    size_t len;
    uint64_t wake_ns; /* CLOCK_MONOTONIC; never later than the deadline; UINT64_MAX: no limit */
    bru_result *result;
} bru_event;

/* Runs the guest until the next event.
 * BRU_OK       `*event` is filled.
 * BRU_ESTATE   nothing was started.
 * Threads      may be another thread than last time. */
BRU_API BRU_MUST_CHECK bru_status bru_session_next(bru_session *session, bru_event *event,
                                                   bru_error *err);

/* The largest value that crosses: the arguments of a call, a reply, inputs, a captured variable. */
#define BRU_VALUE_MAX (16u << 20)

/* Answers CALL event `id`: `ok` with a value as the codec has it, or not `ok` with an error's text,
 * that the guest's call raises: "ValueError: no such city" as that built-in exception, any other as
 * brumate.CallError. Copied.
 * BRU_EINVAL  no such call is open. BRU_ELIMIT  larger than the guest's memory can take. */
BRU_API BRU_MUST_CHECK bru_status bru_session_reply(bru_session *session, uint32_t id, int ok,
                                                    const void *data, size_t len, bru_error *err);

/* Answers an INPUT event; `len` 0 is the end of the input. Copied. */
BRU_API BRU_MUST_CHECK bru_status bru_session_input(bru_session *session, const void *data,
                                                    size_t len, bru_error *err);

typedef enum bru_interrupt {
    BRU_INTERRUPT_SOFT, /* KeyboardInterrupt at the next bytecode; hard after the grace, here 100 ms
                         * at least */
    BRU_INTERRUPT_HARD  /* at once; the session must be reset */
} bru_interrupt;

/* Stops what runs, if something does: any thread, any time before bru_session_free(), also from a
 * signal handler. */
BRU_API void bru_session_interrupt(bru_session *session, bru_interrupt how);

/* Files, as the guest sees them: absolute paths, links followed inside. Not inside another call on
 * the session. BRU_ENOENT, BRU_EPERM (also: read-only), BRU_EINVAL (a folder for a file, or the
 * other way round), BRU_ELIMIT (no room). */

/* Writes `len` bytes at `offset` of the file at `path`, that is made with the folders above it if
 * it is missing; BRU_FILE_REPLACE empties it first. */
BRU_API BRU_MUST_CHECK bru_status bru_session_write_file(bru_session *session, const char *path,
                                                         uint64_t offset, const void *data,
                                                         size_t len, unsigned flags,
                                                         bru_error *err);
/* Reads up to `len` bytes at `offset`; `*got` 0 is the end. */
BRU_API BRU_MUST_CHECK bru_status bru_session_read_file(bru_session *session, const char *path,
                                                        uint64_t offset, void *data, size_t len,
                                                        size_t *got, bru_error *err);

/* What is at `path`, links followed. The name is in `path`: what stands behind its last slash. */
BRU_API BRU_MUST_CHECK bru_status bru_session_stat_file(bru_session *session, const char *path,
                                                        bru_file_info *out, bru_error *err);
/* Calls `each` for every entry of the folder, in order of names, until it answers 0; it must not
 * use the session. */
BRU_API BRU_MUST_CHECK bru_status bru_session_list_files(bru_session *session, const char *path,
                                                         int (*each)(void *ctx,
                                                                     const bru_file_info *file),
                                                         void *ctx, bru_error *err);
/* Removes a file, a link, or a folder with all that is in it. */
BRU_API BRU_MUST_CHECK bru_status bru_session_remove_file(bru_session *session, const char *path,
                                                          bru_error *err);
/* Makes a folder, and those above it; one that is there is no error. */
BRU_API BRU_MUST_CHECK bru_status bru_session_make_folder(bru_session *session, const char *path,
                                                          bru_error *err);

/* Bytes of memory that are this session's own: pages that its guest wrote. Asks the kernel, some
 * microseconds; 0 where it cannot tell. Not inside bru_session_next(). */
BRU_API uint64_t bru_session_private_bytes(bru_session *session);

enum bru_reset_flag { BRU_RESET_FILES = 1u /* forget the in-memory files too */ };

/* A fresh Python from the image: some 35 us, as freeing the session and making another. Limits,
 * mounts and environment stay.
 * BRU_EBUSY  inside bru_session_next() on another thread. */
BRU_API BRU_MUST_CHECK bru_status bru_session_reset(bru_session *session, unsigned flags,
                                                    bru_error *err);

/* Gives an execution that waits `ns` more: its deadline moves, and so its duration does not count
 * them. For embedders that let it wait for somebody whose time is not the guest's.
 * BRU_ESTATE  none waits at rest (bru_session_next() has not said WAIT). */
BRU_API BRU_MUST_CHECK bru_status bru_session_extend(bru_session *session, uint64_t ns,
                                                     bru_error *err);

/* Drops the variables of `__main__`; modules stay loaded, host functions stay known. What
 * destructors print is dropped, and they have some seconds. BRU_ESTATE  something runs, or the
 * session has ended; also if it ended by this. */
BRU_API BRU_MUST_CHECK bru_status bru_session_clear(bru_session *session, bru_error *err);

/* For a prompt. Not while something runs (BRU_ESTATE). */
typedef enum bru_completeness { BRU_COMPLETE, BRU_INCOMPLETE, BRU_SYNTAX_ERROR } bru_completeness;

/* Whether `src` is a whole statement, or a prompt should ask for more lines. */
BRU_API BRU_MUST_CHECK bru_status bru_session_check(bru_session *session, const char *src,
                                                    size_t len, bru_completeness *out,
                                                    bru_error *err);

/* What could replace the last word of `text`, one a line; borrowed until the next call. */
BRU_API BRU_MUST_CHECK bru_status bru_session_complete(bru_session *session, const char *text,
                                                       size_t len, const char **out,
                                                       bru_error *err);

#ifdef __cplusplus
}
#endif
#endif
