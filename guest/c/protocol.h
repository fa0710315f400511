/* How the host and the guest's agent talk: the exports and imports, and the layout of what crosses.
 * Included by the guest's reactor (wasm32) and by the host's session room; all numbers are
 * little-endian, all pointers are offsets into the guest's linear memory.
 *
 * Exports of the guest:
 *   _initialize()                       wasm constructors; once, before all else
 *   bru_boot(ptr, len) -> i32           once, at image build: start the interpreter and the agent.
 *                                       The bytes name modules to import, one a line. 0, or an
 *                                       error after a AGENT_POST_FAILURE with its text
 *   bru_alloc(len) -> ptr               room for the host to write `len` bytes into, valid until
 *                                       the next bru_step returns; 0 if there is no memory
 *   bru_step(op, ptr, len) -> i32       do one step (enum agent_op), answer an enum agent_rest
 *   bru_control() -> ptr                the agent_control block, fixed for the instance's life
 *
 * Imports of the guest, module "brumate" (besides WASI preview 1):
 *   post(kind, ptr, len) -> i32         hand the host a message (enum agent_post); -1: refused.
 *                                       0: taken. After a AGENT_POST_CALL more than 0: the host has
 *                                       answered at once, so many bytes of replies can be taken
 *   wait(wake_at: i64) -> i32           park the stack: until replies are there, the monotonic
 *                                       clock reads wake_at (ns, -1 = never), or a descriptor of
 *                                       agent_control.waits is ready; answers how many bytes of
 *                                       replies can be taken. Only asyncio.run() and its like come
 *                                       here: code at rest answers AGENT_REST_PENDING instead
 *   take(ptr, len) -> i32               copy the replies to ptr: agent_reply records as for
 *                                       AGENT_OP_DELIVER, `len` bytes as announced; how many were
 *   soft_ack()                          the soft stop has reached the agent: it is now writing its
 *                                       report and asks for the (single, bounded) extension
 *
 * The guest is hostile: all that comes by these ways is data to be checked, and a guest may post
 * what it likes (a result before its end, an end that is not so). Whether a limit was hit the host
 * knows of itself. The last AGENT_POST_RESULT before bru_step returns DONE counts.
 *
 * At rest (no bru_step running) no native pointer and no host address is in linear memory. */
#ifndef BRU_GUEST_PROTOCOL_H
#define BRU_GUEST_PROTOCOL_H

#include <stdint.h>

#define AGENT_PROTOCOL_VERSION 2u

enum agent_op {
    AGENT_OP_EXEC = 1,     /* an agent_exec header, then what it announces */
    AGENT_OP_DELIVER = 2,  /* zero or more replies (agent_reply header, then its bytes), then go on:
                            * timers that are due fire, the loop runs until nothing is ready */
    AGENT_OP_CHECK = 3,    /* source (UTF-8); answers whether a REPL should ask for more lines:
                            * posts AGENT_POST_REPLY: a byte, 0 complete, 1 incomplete, 2 wrong */
    AGENT_OP_COMPLETE = 4, /* bytes: the text before the cursor; posts AGENT_POST_REPLY: what can
                            * replace its last word, one a line */
    AGENT_OP_CANCEL = 5,   /* end the pending execution as cancelled (its tasks are cancelled) */
    AGENT_OP_CLEAR = 6     /* drop the variables of __main__; modules and host functions stay */
};

enum agent_rest {
    AGENT_REST_DONE = 0,    /* the operation ended; an EXEC has posted its result */
    AGENT_REST_PENDING = 1, /* waits for calls or timers: agent_control.wake_at, .calls_pending */
    AGENT_REST_BROKEN = 2   /* the agent itself failed; the instance should be reset */
};

enum agent_post {
    AGENT_POST_RESULT = 1,  /* how an EXEC ended: an agent_result_header, then its texts */
    AGENT_POST_CALL = 2,    /* a host function is called: u32 id, u32 name length, name, payload */
    AGENT_POST_REPLY = 3,   /* the answer of CHECK or COMPLETE */
    AGENT_POST_FAILURE = 4, /* why bru_boot or the agent failed, UTF-8 */
    AGENT_POST_DROP = 5,    /* u32 id: the guest no longer waits for this call */
    AGENT_POST_SHOW = 6     /* an artifact: u32 length of its type, type, bytes */
};

/* Flags of an execution. */
enum agent_exec_flag {
    AGENT_EXEC_DISPLAY = 1u,   /* print the repr of the last expression, as a REPL does */
    AGENT_EXEC_MODULE = 2u,    /* the "source" is a module's name: run it as `python -m` does */
    AGENT_EXEC_FINAL = 4u      /* a whole program: at its end run what Python runs at exit (atexit
                                * callbacks, then __main__ is emptied); for instances used once */
};

typedef struct agent_exec {
    uint32_t flags;
    uint32_t name_len;       /* of the file name for tracebacks, that follows; 0 = "<brumate>" for
                              * an instance's first execution, then "<brumate:2>", ... A name that
                              * does not begin with '<' is a script's: it gets __file__ and
                              * sys.path[0] as under Python */
    uint32_t argc;           /* how many NUL-terminated arguments follow the name: sys.argv. 0
                              * leaves it as it is, [''] at first */
    uint32_t args_len;       /* their bytes altogether, NULs included */
    uint32_t functions_len;  /* host functions to make known, for an instance's first execution: a
                              * name, a description and a schema (JSON or empty) each, all three
                              * NUL-terminated */
    uint32_t inputs_len;     /* variables to set in __main__: a CBOR map (value.h); 0: none */
    uint32_t capture_len;    /* of the name of the variable to tell in the result; 0: none */
    uint32_t reserved;       /* 0 */
    /* name, arguments, functions, inputs, captured name, then the source up to the end of the
     * step's bytes */
} agent_exec;

typedef struct agent_reply {
    uint32_t id;             /* of the call */
    uint32_t ok;             /* 1: `len` bytes of payload; 0: an error, its text: "ValueError: why" for
                              * a built-in exception, else a CallError */
    uint32_t len;
    uint32_t reserved;       /* 0 */
} agent_reply;

/* A descriptor that the guest waits for, as poll(2) has it. */
typedef struct agent_wait {
    uint32_t fd;
    uint32_t events;         /* 1: readable, 2: writable */
} agent_wait;

/* How an execution ended. Lengths are of UTF-8 texts that follow in this order. */
enum agent_end {
    AGENT_END_OK = 0,
    AGENT_END_EXCEPTION = 1,   /* uncaught: type, text and traceback are filled */
    AGENT_END_EXIT = 2,        /* SystemExit: code; its message, if any, was written to stderr */
    AGENT_END_SOFT_STOP = 3,   /* the soft stop's exception reached the top: traceback is filled */
    AGENT_END_INTERRUPT = 4,   /* the same for an interrupt from the host (KeyboardInterrupt) */
    AGENT_END_CANCELLED = 5
};

typedef struct agent_result_header {
    uint32_t end;
    int32_t code;            /* exit code: 0 ok, 1 exception, else as given */
    uint32_t type_len, text_len, traceback_len;
    uint32_t value_len;      /* JSON of the captured variable; 0: it was not set, or is no JSON */
    uint32_t value_error_len; /* then why not */
    uint32_t reserved;
} agent_result_header;

/* The published block. The host reads it at rest, and writes through it (from a signal handler, on
 * the guest's own thread) to stop the interpreter softly. In this order it stores
 *     soft_exc (or interrupt_exc)  at async_exc,
 *     1                            at trip_one, then at trip_any,
 * and sets async_bit in the word at eval_breaker. Bytecode then raises at its next check; C code
 * that polls for signals (re, big ints) raises from there. Whichever comes first takes the
 * exception; what was not taken when an execution ends is forgotten. */
typedef struct agent_control {
    uint32_t version;        /* AGENT_PROTOCOL_VERSION */
    uint32_t size;           /* of this struct */
    uint32_t eval_breaker;   /* address of a u32 */
    uint32_t async_bit;
    uint32_t async_exc;      /* address of a u32 */
    uint32_t soft_exc;       /* immortal exception types */
    uint32_t interrupt_exc;
    uint32_t calls_pending;  /* at rest or in wait(): calls posted and not yet replied to */
    uint64_t wake_at;        /* at rest: CLOCK_MONOTONIC ns of the next timer, UINT64_MAX none */
    uint32_t trip_one;       /* addresses of u32 */
    uint32_t trip_any;
    uint32_t waits;          /* address of agent_wait[waits_len]: at rest or in wait(), the */
    uint32_t waits_len;      /* descriptors waited for; when one is ready, DELIVER */
    uint32_t fresh;          /* not 0: the next step begins by waking, with entropy and environment of
                              * its own. Set at boot, and by a host that put a snapshot back */
    uint32_t reserved;       /* 0 */
} agent_control;

#endif
