/* A session: an instance with its files, its limits and its state machine (brumate/session.h).
 *
 *   session.c   making, resetting and freeing one; what belongs to no run
 *   run.c       one execution: from the start to the result, event by event
 *   calls.c     the calls of host functions under way
 *   doors.c     the imports of module "brumate": how the guest's agent talks to its session
 *   result.c    what an execution leaves behind
 *   boot.c      a guest that is started to become an image
 *   sandbox.c   sessions for one run each
 *   storage.c   files in memory that sessions share and that outlive them
 *   files.c     files from the embedder's side, of sessions and storages
 *
 * What the embedder sees as WAITING is one of two: the guest is at rest between two steps (its
 * whole state is in linear memory), or its stack is parked inside a door. */
#ifndef BRU_SESSION_SESSION_H
#define BRU_SESSION_SESSION_H

#include "brumate/session.h"
#include "engine/engine.h"
#include "image/image.h"
#include "protocol.h"
#include "session/calls.h"
#include "session/determinism.h"
#include "session/result.h"
#include "wasi/wasi.h"

#include <stdatomic.h>

/* Ceilings of what a guest may post. */
enum {
    SESSION_RESULT_MAX = 20 << 20, /* an exception's texts, or a variable of BRU_VALUE_MAX */
    SESSION_REPLY_MAX = 1 << 20,   /* what a prompt asked for */
    SESSION_FAILURE_MAX = 1 << 16
};
/* Bytes of one in-memory file, whatever the limit: its table of blocks is made in one go. */
#define SESSION_FILE_MAX (8ull << 30)
enum { SESSION_FILES_MIN = 16 << 10 }; /* bytes: the folders that every guest has, with room */

/* The public states, and whether the guest is parked in WAITING. */
typedef enum session_phase {
    PHASE_IDLE,
    PHASE_STARTED, /* the first step is to be made */
    PHASE_REST,    /* a step has ended, more are to come */
    PHASE_PARKED,  /* inside a step, in a door */
    PHASE_ENDED    /* a limit or a crash: only reset */
} session_phase;

/* What the parked guest waits for, if it was one of the session's own doors; WASI's are asked. */
typedef enum session_wait {
    WAIT_NONE,
    WAIT_CALL, /* for the embedder to have seen a call, and answered if it can at once */
    WAIT_TIME  /* for replies, or the time `wake_at` */
} session_wait;

/* Whether there is something to interrupt, and how it was interrupted. */
enum session_asked { ASKED_RUNS = 1u, ASKED_SOFT = 2u, ASKED_HARD = 4u };

/* Why a soft stop was made. */
typedef enum session_stop { STOP_NONE, STOP_DEADLINE, STOP_CPU, STOP_INTERRUPT } session_stop;

/* After an interrupt there is no deadline to keep, but a session to save: the least of its grace. */
#define SESSION_INTERRUPT_GRACE_NS 100000000ull

static inline uint64_t session_interrupt_grace(const bru_limits *l) {
    return l->grace_ns > SESSION_INTERRUPT_GRACE_NS ? l->grace_ns : SESSION_INTERRUPT_GRACE_NS;
}

/* How much longer a guest may take that has noticed its soft stop and writes its report. */
#define SESSION_ACK_NS 20000000ull

/* One execution, from start to result. */
typedef struct session_run {
    uint8_t *frame; /* what the first step is given; freed once it was made */
    size_t frame_len;
    bool collect;       /* output is kept for the result, not handed out */
    bool pull;          /* input is asked for by events */
    uint64_t started;   /* CLOCK_MONOTONIC, ns */
    uint64_t cpu_used;  /* ns */
    sink_cursor handed; /* how far the output was handed out */
    bool input_asked;   /* an INPUT event is out */
    session_stop stop;  /* the soft stop that was made, if any */
    uint64_t acked;     /* when the guest noticed it, CLOCK_MONOTONIC ns; 0: not yet */
    buf posted;         /* the last AGENT_POST_RESULT; empty: none */
    bru_result *result; /* made at the start, so that an end cannot fail */
    bool over;          /* and filled in: only to be handed out */
} session_run;

struct bru_session {
    bru_image *image;
    instance *guest;
    vfs_fs *tree; /* the in-memory files */
    vfs *files;
    sink *output;
    source *input;
    wasi *wasi;
    bru_limits limits; /* no defaults left in it */
    unsigned flags;
    agent_control control; /* as published at boot: addresses */
    engine_limits engine;  /* what stops the running step */
    session_phase phase;
    session_wait wait;
    uint64_t wake_at;    /* for WAIT_TIME, ns of the guest's monotonic clock */
    bool wait_cut;       /* WAIT_TIME ends now: a limit or an interrupt is due */
    buf functions;       /* the host's, as agent_exec has them */
    bool functions_told; /* to this instance */
    call_list calls;
    session_run run;
    uint64_t
        cpu_before; /* ns that the guest used since its start or reset, but for the running step */
    uint64_t cpu_began;    /* the calling thread's CPU time when the running step began */
    buf reply;             /* the last AGENT_POST_REPLY */
    buf failure;           /* the last AGENT_POST_FAILURE */
    uint64_t clock_offset; /* ns from the host's monotonic clock to the guest's, modulo 2^64: not 0
                            * once a snapshot was put in */
    determinism own;       /* as it was made */
    determinism deterministic; /* as it is now: a snapshot brings its own */

    /* Interrupts come from other threads, and may find the session at any moment. No lock: a forked
     * child must find it usable. */
    atomic_uint asked; /* of session_asked */
};

/* The session's own doors (context: bru_session *), and with WASI's the two tables every guest is
 * linked with; instance contexts are in this order. */
enum { SESSION_TABLE_WASI, SESSION_TABLE_OWN, SESSION_TABLES };
size_t session_tables(door_table out[SESSION_TABLES]); /* answers how many */

/* Everything of a session but its image and instance: files, streams, WASI. Used by sessions and
 * by the boot. The `root` archive is mounted at /lib. A tree that is there already is used. */
BRU_MUST_CHECK bru_status session_open_world(bru_session *s, vfs_fs *root, bru_error *err);

void session_close_world(bru_session *s); /* what was opened of it; once */

/* Limits with their defaults filled in. */
bru_limits session_limits(const bru_limits *asked);

/* Lets the engine make soft stops (again). */
void session_arm_soft_stops(bru_session *s);

/* Whether output is kept for the result or handed out, from now on. */
void session_collect(bru_session *s, bool collect);

/* Copies `len` bytes to where bru_alloc says, and answers where. At rest. If a limit or a trap ends
 * the guest meanwhile, that is BRU_OK, the report says it, and nothing was copied.
 * BRU_ELIMIT  the guest has no memory for them. */
BRU_MUST_CHECK bru_status session_push(bru_session *s, const image_exports *exports,
                                       const void *bytes, size_t len, uint32_t *at,
                                       engine_report *report, bru_error *err);

/* Gives it an instance of its image. */
BRU_MUST_CHECK bru_status session_make_instance(bru_session *s, bru_error *err);

/* What the functions of brumate/session.h are once their arguments were checked. */
BRU_MUST_CHECK bru_status session_new(bru_image *image, const bru_session_options *options,
                                      bru_session **out, bru_error *err);
BRU_MUST_CHECK bru_status session_reset(bru_session *s, unsigned flags, bru_error *err);
/* `pulled`: by bru_session_next(), which may hand out output and ask for input. */
BRU_MUST_CHECK bru_status session_start(bru_session *s, const char *src, size_t len,
                                        const bru_exec_options *o, bool pulled, bru_error *err);
BRU_MUST_CHECK bru_status session_run_to_end(bru_session *s, const char *src, size_t len,
                                             const bru_exec_options *o, bru_result **out,
                                             bru_error *err);
/* One step that answers with an AGENT_POST_REPLY, left in `s->reply` and NUL-terminated. */
BRU_MUST_CHECK bru_status session_ask(bru_session *s, enum agent_op op, const void *bytes,
                                      size_t len, bru_error *err);

BRU_MUST_CHECK bru_status session_extend(bru_session *s, uint64_t ns, bru_error *err);
BRU_MUST_CHECK bru_status session_clear(bru_session *s, bru_error *err);

/* The guest is another one than was told of the host functions: its next execution tells it. */
void session_forget_functions(bru_session *s);

/* The guest's monotonic clock. Looking at it here is no reading. */
uint64_t session_clock(const bru_session *s);
/* Its wall clock, likewise. */
uint64_t session_wall(const bru_session *s);
/* When the guest's monotonic clock will read `time`, by the host's; UINT64_MAX is never in both: as
 * is what lies ahead of a deterministic session. A time before the host's clock began is 0. */
uint64_t session_host_time(const bru_session *s, uint64_t time);

/* What an execution that waits at rest has behind it, and before it. */
typedef struct session_waited {
    uint64_t used, left; /* ns of its time; left BRU_NO_LIMIT: no deadline */
    uint64_t cpu_used;   /* ns */
    bool streams;        /* its output is handed out, whatever the session's flags */
} session_waited;

/* Lets an execution go on that waits at rest in memory just put into the session; never longer
 * than the session's own time limit. BRU_ENOMEM. */
BRU_MUST_CHECK bru_status session_run_again(bru_session *s, const session_waited *waited,
                                            bru_error *err);

/* Forgets the execution under way, whatever its phase. */
void session_run_clear(bru_session *s);

#endif
