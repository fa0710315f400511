/* How the host and the guest's agent talk: the exports and imports, and the layout of what crosses.
 * Included by the guest's reactor (wasm32) and by the host's session room; all numbers are
 * little-endian, all pointers are offsets into the guest's linear memory.
 *
 * Exports of the guest:
 *   _initialize()                       wasm constructors; once, before all else
 *   bru_boot(ptr, len) -> i32           once, at image build: start the interpreter and the agent.
 *                                       The bytes name modules to import, one a line. 0, or an error
 *                                       after a AGENT_POST_FAILURE with its text
 *   bru_alloc(len) -> ptr               room for the host to write `len` bytes into, valid until the
 *                                       next bru_step returns; 0 if there is no memory
 *   bru_step(op, ptr, len) -> i32       do one step (enum agent_op), answer an enum agent_rest
 *   bru_control() -> ptr                the agent_control block, fixed for the instance's life
 *
 * Imports of the guest, module "brumate" (besides WASI preview 1):
 *   post(kind, ptr, len) -> i32         hand the host a message (enum agent_post); 0, or -1: refused
 *   soft_ack()                          the soft stop has reached the agent: it is now writing its
 *                                       report and asks for the (single, bounded) extension
 *
 * At rest (no bru_step running) no native pointer and no host address is in linear memory. */
#ifndef BRU_GUEST_PROTOCOL_H
#define BRU_GUEST_PROTOCOL_H

#include <stdint.h>

#define AGENT_PROTOCOL_VERSION 1u

enum agent_op {
    AGENT_OP_EXEC = 1,    /* an agent_exec header, then the file name, then the source (UTF-8) */
    AGENT_OP_DELIVER = 2, /* zero or more replies (agent_reply header, then its bytes), then go on:
                         * timers that are due fire, the loop runs until nothing is ready */
    AGENT_OP_CHECK = 3,   /* source as for EXEC; answers whether a REPL should ask for more lines:
                         * posts AGENT_POST_REPLY with one byte: 0 complete, 1 incomplete, 2 an error */
    AGENT_OP_COMPLETE = 4,/* bytes: the text before the cursor; posts AGENT_POST_REPLY: the candidates
                         * that replace its last word, one a line */
    AGENT_OP_CANCEL = 5   /* end the pending execution as cancelled (its tasks are cancelled) */
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
    AGENT_POST_DROP = 5     /* u32 id: the guest no longer waits for this call */
};

/* Flags of an execution. */
enum agent_exec_flag {
    AGENT_EXEC_DISPLAY = 1u,   /* print the repr of the last expression, as a REPL does */
    AGENT_EXEC_MODULE = 2u     /* the "source" is a module's name: run it as `python -m` does */
};

typedef struct agent_exec {
    uint32_t flags;
    uint32_t name_len;       /* of the file name for tracebacks, that follows; 0 = "<brumate>" */
    uint32_t argc;           /* how many NUL-terminated arguments follow the name: sys.argv; 0 = [''] */
    uint32_t args_len;       /* their bytes altogether, NULs included */
    /* name, arguments, then the source up to the end of the step's bytes */
} agent_exec;

typedef struct agent_reply {
    uint32_t id;             /* of the call */
    uint32_t ok;             /* 1: `len` bytes of payload; 0: an error, its text */
    uint32_t len;
    uint32_t reserved;       /* 0 */
} agent_reply;

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
    uint32_t reserved;
} agent_result_header;

/* The published block. The host reads it at rest, and writes through it (from a signal handler, on
 * the guest's own thread) to stop the interpreter softly: it stores `soft_exc` (or
 * `interrupt_exc`) at `async_exc`, then sets `async_bit` in the word at `eval_breaker`. */
typedef struct agent_control {
    uint32_t version;        /* AGENT_PROTOCOL_VERSION */
    uint32_t size;           /* of this struct */
    uint32_t eval_breaker;   /* address of a u32 */
    uint32_t async_bit;
    uint32_t async_exc;      /* address of a u32 */
    uint32_t soft_exc;       /* immortal exception types */
    uint32_t interrupt_exc;
    uint32_t calls_pending;  /* at rest: calls posted and not yet replied to */
    uint64_t wake_at;        /* at rest: CLOCK_MONOTONIC ns of the next timer, UINT64_MAX none */
} agent_control;

#endif
