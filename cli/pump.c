/* One execution: the guest's events against our descriptors. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

typedef struct pumping {
    runner *r;
    uint64_t deadline; /* of what waits for the world outside; the library has its own */
    bool stalled[3];   /* nobody reads this stream: what comes now is lost */
    int failed;        /* exit code of ours, once output had nowhere to go */
} pumping;

static void output(pumping *p, const bru_event *e) {
    int fd = e->stream == 2 ? STDERR_FILENO : STDOUT_FILENO;
    if (p->failed) return;
    uint64_t until = p->stalled[fd] ? 0 : p->deadline;
    switch (io_write(p->r->interrupts, fd, e->data, e->len, until)) {
    case WRITE_DONE: return;
    case WRITE_STALLED: p->stalled[fd] = true; return;
    case WRITE_FAILED: break;
    }
    p->failed = errno == EPIPE ? ENDED_BY_PIPE : EXIT_OURS;
    if (p->failed == EXIT_OURS)
        fail("cannot write to %s: %s", fd == STDERR_FILENO ? "stderr" : "stdout", strerror(errno));
    bru_session_interrupt(p->r->session, BRU_INTERRUPT_HARD);
}

/* Not answered when time is up or Ctrl-C came: the library ends or interrupts the guest then. */
static bru_status give_input(pumping *p, uint64_t wake, bru_error *err) {
    input *in = p->r->input;
    if (wake > p->deadline) wake = p->deadline;
    if (!p->failed && input_fill(in, p->r->interrupts, wake) != WAIT_READY) return BRU_OK;
    size_t len = p->failed ? 0 : in->len - in->at;
    const char *newline = len && p->r->lines ? memchr(in->data + in->at, '\n', len) : NULL;
    if (newline) len = (size_t)(newline - (in->data + in->at)) + 1;
    bru_status st = bru_session_input(p->r->session, len ? in->data + in->at : "", len, err);
    in->at += len;
    /* A terminal goes on after its end of the file. */
    if (in->ended && isatty(STDIN_FILENO)) in->ended = false;
    return st;
}

static bru_status serve(pumping *p, const bru_event *e, bru_error *err) {
    static const char none[] = "no host function is offered here";
    switch (e->kind) {
    case BRU_EVENT_OUTPUT: output(p, e); return BRU_OK;
    case BRU_EVENT_INPUT: return give_input(p, e->wake_ns, err);
    case BRU_EVENT_CALL:
        return bru_session_reply(p->r->session, e->id, 0, none, sizeof none - 1, err);
    case BRU_EVENT_WAIT:
        if (p->r->freeze) p->r->frozen = p->r->freeze(p->r);
        if (!p->r->frozen) (void)io_wait(p->r->interrupts, -1, 0, e->wake_ns);
        return BRU_OK;
    case BRU_EVENT_DROP:
    case BRU_EVENT_DONE: return BRU_OK;
    }
    return BRU_OK;
}

int pump(runner *r, const source *src, bru_exec_options options, bru_result **out) {
    pumping p = { .r = r, .deadline = UINT64_MAX };
    if (options.timeout_ns != BRU_NO_LIMIT) p.deadline = io_now() + options.timeout_ns;
    bru_error err = { 0 };
    bru_event event = { .kind = BRU_EVENT_DROP };
    *out = NULL;
    ctrl_c_target(r->interrupts, r->session);
    bru_status st = BRU_OK;
    if (src) st = bru_session_start(r->session, src->text, src->len, &options, &err);
    while (!st && event.kind != BRU_EVENT_DONE && !r->frozen) {
        st = bru_session_next(r->session, &event, &err);
        if (!st) st = serve(&p, &event, &err);
    }
    ctrl_c_target(r->interrupts, NULL);
    if (st) return fail_error(&err);
    if (p.failed || r->frozen)
        bru_result_free(event.result);
    else
        *out = event.result;
    return p.failed;
}
