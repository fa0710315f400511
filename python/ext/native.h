/* The extension brumate._native: <brumate.h> as Python sees it, and what its files share.
 *
 *   module.c    the module, and library errors as exceptions
 *   image.c     Image: an opened image
 *   build.c     images built on images
 *   storage.c   Storage: files that sessions share
 *   result.c    ExecuteResult and Artifact: how a run ended
 *   session.c   Session: its options, its life, its properties
 *   run.c       one run: the loop over events, host functions, streams
 *   signals.c   Ctrl-C while the guest has the main thread
 *   worker.c    threads that run guests for an event loop
 *   files.c     files of a session or storage
 *   snapshot.c  Snapshot: a session's state as bytes; twins
 *   build.c     images made of others
 *
 * One interpreter. Whatever is not marked as atomic is touched under the GIL only; the library is
 * called without it wherever a guest may run. */
#ifndef BRUMATE_NATIVE_H
#define BRUMATE_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <brumate.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Each file that has something for the module adds it: 0, or -1 with an exception. */
int image_add(PyObject *module);
int build_add(PyObject *module);
int storage_add(PyObject *module);
int result_add(PyObject *module);
int session_add(PyObject *module);
int worker_add(PyObject *module);
int snapshot_add(PyObject *module);

/* Makes the type that `spec` describes, adds it to the module under its own name and keeps it in
 * `*out` (a reference of its own). */
int native_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out);

/* Raises what a failed call of the library means, and answers NULL. */
PyObject *native_raise(const bru_error *err);

/* Raises the class `name` of brumate.errors with a formatted text, and answers NULL. */
PyObject *native_raise_as(const char *name, const char *format, ...);

/* What guests write, as text: invalid bytes become U+FFFD. */
PyObject *native_text(const char *bytes, size_t len);

typedef struct image_object {
    PyObject_HEAD
    bru_image *image;
} image_object;
extern PyTypeObject *image_type;

typedef struct storage_object {
    PyObject_HEAD
    bru_storage *storage;
} storage_object;
extern PyTypeObject *storage_type;

/* Output that was handed out while it came, kept for the result. */
typedef struct text_buffer {
    char *bytes; /* PyMem_RawMalloc */
    size_t len, room;
} text_buffer;
enum { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_BOTH, OUTPUTS };

/* An ExecuteResult of `result`, that it takes over (also when it fails), as it does with the bytes
 * of `streamed` (NULL: the output is in `result`). */
PyObject *result_wrap(bru_result *result, uint64_t calls, text_buffer *streamed);

typedef enum run_phase {
    RUN_NONE,   /* nothing runs */
    RUN_OURS,   /* between two calls of the extension: whoever holds the ticket may go on */
    RUN_INSIDE, /* in the extension's own code: nobody may take the run from it */
    RUN_HOST,   /* the same, while it calls code of the host: the ticket may be taken */
    RUN_GUEST   /* inside bru_session_next(), here or in a worker */
} run_phase;

/* A stream of the guest, and who listens to it. */
typedef struct run_stream {
    PyObject *listener; /* NULL: nobody */
    char split[4];      /* the beginning of a character whose rest is to come */
    unsigned split_len;
} run_stream;

/* A call that was handed to an event loop, and when, CLOCK_MONOTONIC ns; HELD: to nobody here. */
#define OPEN_HELD UINT64_MAX
typedef struct open_call {
    uint32_t id;
    uint64_t since;
} open_call;

typedef struct run_state {
    run_phase phase;
    bool in_call;         /* inside a function of this extension that is not to be entered again */
    unsigned long ticket; /* who may drive; grows with each change of hands, never reset */
    uint64_t deadline;    /* CLOCK_MONOTONIC, ns; UINT64_MAX: none */
    bru_event event;      /* `pending`: not yet handled; pointers are good until the next */
    bool pending;
    unsigned wake_seen; /* `wake` before the event came */
    bool streaming;
    run_stream streams[2];
    text_buffer texts[OUTPUTS];
    PyObject *input; /* a function that gives standard input, or NULL */
    PyObject *given; /* what it gave, or all there is; and what of it was not read yet */
    const char *given_at;
    size_t given_left;
    uint64_t calls;        /* host functions called */
    open_call *open_calls; /* those that were not answered yet */
    size_t open, open_room;
    size_t held;      /* those of them that nobody here performs: their answers come from outside */
    bool waits;       /* the last event was WAIT */
    bool stepwise;    /* the run is left where it waits, to be gone on with later */
    bool driven;      /* of such a run: somebody goes on with it now */
    uint64_t left_at; /* when nobody went on with it any more, CLOCK_MONOTONIC ns */
    bool through;     /* of such a run: but not where a timer will go off */
    uint32_t host_call; /* in RUN_HOST: the call being performed, and since when; 0 since: none */
    uint64_t host_since;
    bool interrupted; /* interrupt() was called */
} run_state;

typedef struct session_object {
    PyObject_HEAD
    bru_session *session;  /* NULL: closed */
    PyObject *functions;   /* dict: name to callable */
    PyObject *async_names; /* frozenset: those of them that are coroutine functions */
    PyObject *capture;     /* str, or NULL */
    PyObject *waker;       /* called after an interrupt, or NULL */
    PyObject *on_ready;    /* called when a worker is done, or NULL */
    uint64_t timeout;      /* ns, of a run; BRU_NO_LIMIT */
    uint64_t call_timeout; /* ns, of a call of a host function; BRU_NO_LIMIT */
    uint64_t max_calls, max_open;
    bool resets;         /* behind every run, at once */
    bool fresh;          /* it was, and nothing happened since */
    unsigned long forks; /* native_forks when it was made or last reset */
    atomic_uint wake;    /* futex: grows when a wait should be looked at again */
    run_state run;
    struct session_object *next_job; /* of worker.c, up to the end */
    struct session_object *next_running, **prior_running;
    struct notifier_object *notifier;
    bru_status job_status;
    bru_error job_error;
    atomic_uint job_done; /* futex: 1 when the worker has nothing more to do with it */
} session_object;
extern PyTypeObject *session_type;

/* The session, or NULL with BrumateError: closed, or a run is under way. */
bru_session *session_idle(session_object *self);

/* The same, but a run that was left where it waits is given up: its calls are forgotten. For what
 * replaces the session's state or ends it. */
bru_session *session_given_up(session_object *self);

/* The session, or NULL with BrumateError, if it is idle or what runs in it waits. */
bru_session *session_at_rest(session_object *self);

/* A session object for `session`, that it takes over, with the functions and limits of another.
 * NULL with an exception: the session is freed. */
session_object *session_alike(session_object *model, bru_session *session);

/* How often this process has come out of a fork() as the child. */
extern unsigned long native_forks;

extern PyMethodDef run_methods[]; /* of Session, in run.c: NULL-terminated */
extern PyMethodDef file_methods[];
extern PyMethodDef job_methods[];
extern PyMethodDef snapshot_methods[];

uint64_t native_clock(void); /* CLOCK_MONOTONIC, ns */

/* Runs the guest up to its next event, and resets it behind the last if it is to be. Without the
 * GIL. */
bru_status run_guest(session_object *self, bru_error *err);

/* Runs the guest up to its next event, without the GIL, Ctrl-C arranged for. False with an
 * exception. */
bool run_next(session_object *self);

/* The session was put where a run waits, with `left` ns to go: from here on that is this object's
 * run, a stepwise one. `streams`: stdin, on_stdout, on_stderr. False with an exception. */
bool run_wait_again(session_object *self, PyObject *const *streams, uint64_t left);

/* The time that a stepwise run was left waiting is not the guest's: moves its deadline. */
void run_unpause(session_object *self);

/* Forgets the run: the library's has ended or been replaced. */
void run_clear(session_object *self);

/* The arguments of a call, [[positional...], {name: keyword...}] in the codec's bytes, from a
 * hostile guest. False with ValueError. */
bool run_arguments(const void *bytes, size_t len, PyObject **args, PyObject **kwargs);

/* Ends the run under way, whatever the guest does: stops it, refuses what it wants, throws its
 * result away. */
void run_abandon(session_object *self);

/* While a guest has the main thread: makes SIGINT stop it, behind what SIGINT does else. The
 * session goes to signals_end(), NULL if there was nothing to do. */
session_object *signals_begin(session_object *self);
void signals_end(session_object *hooked);

/* Sleeps until `wake` (CLOCK_MONOTONIC, ns), `*word` is another than `seen`, or a signal. Without
 * the GIL. */
void native_sleep(atomic_uint *word, unsigned seen, uint64_t wake);
/* Ends native_sleep() on `word`; from anywhere, signal handlers too. */
void native_wake(atomic_uint *word);

#endif
