/* One execution, from its start to its result: bru_session_next() as a loop of
 *
 *     hand out    what the guest has for the embedder, output before calls
 *     advance     run the guest once, if what it waits for has come
 *
 * until there is an event. */
#define _GNU_SOURCE
#include "session/session.h"

#include "base/os_wait.h"
#include "session/functions.h"

#include <stdio.h>
#include <string.h>

/* ---- The start --------------------------------------------------------------------------- */

/* Copies to `at`, answers where that ends. */
static uint8_t *put(uint8_t *at, const void *bytes, size_t len) {
    if (len) memcpy(at, bytes, len);
    return at + len;
}

static bru_status check_frame(const bru_exec_options *o, size_t src, size_t args, bru_error *err) {
    size_t name = o->file_name ? strlen(o->file_name) : 0;
    if (src > UINT32_MAX / 2 || name > 4096 || args > UINT32_MAX / 4)
        return error_set(err, BRU_ELIMIT, "the source, its name or its arguments are too long");
    if (o->inputs_len > BRU_VALUE_MAX)
        return error_set(err, BRU_ELIMIT, "inputs of %zu bytes are larger than %u bytes",
                         o->inputs_len, BRU_VALUE_MAX);
    if (o->capture && !name_is_identifier(o->capture, strlen(o->capture)))
        return error_set(err, BRU_EINVAL, "'%.60s' is no name of a variable to capture",
                         o->capture);
    return BRU_OK;
}

/* The bytes of AGENT_OP_EXEC: the header and what it announces. */
static bru_status make_frame(bru_session *s, const char *src, size_t len, const bru_exec_options *o,
                             bru_error *err) {
    agent_exec head = { 0 };
    buf *functions = &s->functions;
    size_t args = 0;
    for (size_t i = 0; i < o->argc; i++) args += strlen(o->argv[i]) + 1;
    bru_status st = check_frame(o, len, args, err);
    if (st) return st;
    if (o->flags & BRU_EXEC_DISPLAY) head.flags |= AGENT_EXEC_DISPLAY;
    if (o->flags & BRU_EXEC_MODULE) head.flags |= AGENT_EXEC_MODULE;
    if (o->flags & BRU_EXEC_PROGRAM) head.flags |= AGENT_EXEC_FINAL;
    head.name_len = o->file_name ? (uint32_t)strlen(o->file_name) : 0;
    head.argc = (uint32_t)o->argc;
    head.args_len = (uint32_t)args;
    head.functions_len = s->functions_told ? 0 : (uint32_t)functions->len;
    head.inputs_len = o->inputs ? (uint32_t)o->inputs_len : 0;
    head.capture_len = o->capture ? (uint32_t)strlen(o->capture) : 0;
    session_run *run = &s->run;
    run->frame_len = sizeof head + head.name_len + args + head.functions_len + head.inputs_len +
                     head.capture_len + len;
    uint8_t *at = run->frame = mem_grow(NULL, run->frame_len);
    if (!at) return error_set(err, BRU_ENOMEM, "no memory for the source");
    at = put(put(at, &head, sizeof head), o->file_name, head.name_len);
    for (size_t i = 0; i < o->argc; i++) at = put(at, o->argv[i], strlen(o->argv[i]) + 1);
    at = put(at, functions->data, head.functions_len);
    at = put(at, o->inputs, head.inputs_len);
    at = put(at, o->capture, head.capture_len);
    (void)put(at, src, len);
    return BRU_OK;
}

static bru_status give_input(bru_session *s, const bru_exec_options *o, bru_error *err) {
    source_clear(s->input);
    source_set(s->input, s->run.pull);
    if (!o->input) return BRU_OK;
    bru_status st = source_give(s->input, o->input, o->input_len, err);
    source_end(s->input);
    return st;
}

/* An interrupt that was made for one run and comes late, after the next has begun, is that one's.
 */
static void activate(bru_session *s, bool active) {
    atomic_store(&s->asked, 0);
    engine_interrupt_clear(s->guest);
    if (active) atomic_store(&s->asked, ASKED_RUNS);
}

/* The soft interrupt was made; a hard one that came behind it is still to be met. */
static void interrupt_met(bru_session *s) {
    atomic_fetch_and(&s->asked, ~(unsigned)ASKED_SOFT);
    engine_interrupt_clear(s->guest);
    if (atomic_load(&s->asked) & ASKED_HARD) engine_interrupt(s->guest, 0);
}

static bool interrupted(bru_session *s) {
    return (atomic_load(&s->asked) & (ASKED_SOFT | ASKED_HARD)) != 0;
}

static uint64_t sum_or_never(uint64_t at, uint64_t duration) {
    return duration > UINT64_MAX - at ? UINT64_MAX : at + duration;
}

void session_run_clear(bru_session *s) {
    if (s->guest) activate(s, false);
    mem_free(s->run.frame);
    bru_result_free(s->run.result);
    calls_clear(&s->calls);
    buf_clear(&s->run.posted);
    s->run = (session_run){ .posted = s->run.posted };
    s->wait = WAIT_NONE;
    s->wait_cut = false;
}

static const char *state_text(const bru_session *s) {
    return s->phase == PHASE_ENDED
               ? "the session has ended (a limit, a crash or os._exit): reset it first"
               : "the session is busy: finish what was started first";
}

bru_status session_start(bru_session *s, const char *src, size_t len, const bru_exec_options *o,
                         bool pulled, bru_error *err) {
    if (s->phase != PHASE_IDLE) return error_set(err, BRU_ESTATE, "%s", state_text(s));
    session_run *run = &s->run;
    sink_clear(s->output);
    bool stream = (s->flags & BRU_STREAM_OUTPUT) || (o->flags & BRU_EXEC_STREAM);
    session_collect(s, !(pulled && stream));
    run->pull = pulled && (s->flags & BRU_PULL_INPUT);
    run->result = result_new();
    bru_status st = run->result ? BRU_OK : error_set(err, BRU_ENOMEM, "no memory for a result");
    if (!st) st = make_frame(s, src, len, o, err);
    if (!st) st = give_input(s, o, err);
    if (st) {
        session_run_clear(s);
        return st;
    }
    wasi_restart_stdio(s->wasi);
    instance_usage_clear(s->guest);
    run->started = clock_monotonic();
    uint64_t timeout = o->timeout_ns ? o->timeout_ns : s->limits.timeout_ns;
    uint64_t deadline = sum_or_never(run->started, timeout);
    s->engine.deadline = deadline == UINT64_MAX ? 0 : deadline;
    session_arm_soft_stops(s);
    s->phase = PHASE_STARTED;
    activate(s, true);
    return BRU_OK;
}

bru_status session_extend(bru_session *s, uint64_t ns, bru_error *err) {
    if (s->phase != PHASE_REST)
        return error_set(err, BRU_ESTATE, "no execution waits that could be given more time");
    if (s->engine.deadline) {
        uint64_t deadline = sum_or_never(s->engine.deadline, ns);
        s->engine.deadline = deadline == UINT64_MAX ? 0 : deadline;
    }
    uint64_t started = sum_or_never(s->run.started, ns), now = clock_monotonic();
    s->run.started = started < now ? started : now;
    return BRU_OK;
}

bru_status session_run_again(bru_session *s, const session_waited *waited, bru_error *err) {
    session_run *run = &s->run;
    uint64_t now = clock_monotonic();
    uint64_t left = waited->left < s->limits.timeout_ns ? waited->left : s->limits.timeout_ns;
    uint64_t deadline = sum_or_never(now, left);
    run->result = result_new();
    if (!run->result) return error_set(err, BRU_ENOMEM, "no memory for a result");
    session_collect(s, !(waited->streams || s->flags & BRU_STREAM_OUTPUT));
    run->pull = (s->flags & BRU_PULL_INPUT) != 0;
    source_set(s->input, run->pull);
    run->started = now - (waited->used < now ? waited->used : now);
    run->cpu_used = waited->cpu_used;
    s->engine.deadline = deadline == UINT64_MAX ? 0 : deadline;
    instance_usage_clear(s->guest);
    session_arm_soft_stops(s);
    s->phase = PHASE_REST;
    activate(s, true);
    return BRU_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* The texts of the posted result. False if the guest's agent posted nonsense, or nothing. */
static bool read_posted(bru_session *s, agent_result_header *head) {
    const buf *posted = &s->run.posted;
    if (posted->len < sizeof *head) return false;
    memcpy(head, posted->data, sizeof *head);
    const struct {
        uint32_t len;
        bru_text text;
    } parts[] = {
        { head->type_len, BRU_TEXT_TYPE },
        { head->text_len, BRU_TEXT_MESSAGE },
        { head->traceback_len, BRU_TEXT_TRACEBACK },
        { head->value_len, BRU_TEXT_VALUE },
        { head->value_error_len, BRU_TEXT_VALUE_ERROR },
    };
    size_t at = sizeof *head;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].len > posted->len - at) return false;
        /* Without memory a text stays empty: the reason is still told. */
        (void)!result_set(s->run.result, parts[i].text, posted->data + at, parts[i].len);
        at += parts[i].len;
    }
    return true;
}

static void detail(bru_result *r, bru_reason reason, const char *text) {
    r->reason = reason;
    (void)!result_set(r, BRU_TEXT_DETAIL, text, strlen(text));
}

/* CPython without memory cannot always say so as it should: for want of an exception it complains
 * that there is none, and a report may be empty. */
static bool says_no_memory(const bru_result *r) {
    const char *type = bru_result_text(r, BRU_TEXT_TYPE, NULL);
    const char *message = bru_result_text(r, BRU_TEXT_MESSAGE, NULL);
    return strcmp(type, "MemoryError") == 0 || !*type ||
           (strcmp(type, "SystemError") == 0 && strstr(message, "without exception set"));
}

/* The limit that a stop was made for; a hard one without a soft one before is for the deadline. */
static bru_reason stop_reason(const bru_session *s) {
    if (s->run.stop == STOP_INTERRUPT) return BRU_REASON_INTERRUPTED;
    return s->run.stop == STOP_CPU ? BRU_REASON_CPU_LIMIT : BRU_REASON_TIMEOUT;
}

/* What the guest says of its end, as far as it is to be believed: whether a limit was hit, the
 * host knows of itself. */
static void end_as_posted(bru_session *s) {
    bru_result *r = s->run.result;
    agent_result_header head;
    if (!read_posted(s, &head)) {
        detail(r, BRU_REASON_CRASHED, "the interpreter ended without a report");
        return;
    }
    r->exit_code = (int)((uint32_t)head.code & 0xFF);
    switch (head.end) {
    case AGENT_END_OK: r->reason = BRU_REASON_COMPLETED, r->exit_code = 0; return;
    case AGENT_END_EXIT: r->reason = BRU_REASON_EXITED; return;
    default: break;
    }
    /* Whatever exception came of a soft stop on its way up: that was the reason. */
    r->reason = s->run.stop != STOP_NONE ? stop_reason(s) : BRU_REASON_EXCEPTION;
    r->exit_code = 1;
    if (s->run.stop == STOP_NONE && instance_usage_of(s->guest).grow_refused && says_no_memory(r))
        detail(r, BRU_REASON_MEMORY_LIMIT, "the program needed more memory than its limit");
}

static void end_stopped(bru_session *s) {
    bru_result *r = s->run.result;
    wasi_stop_info stop = wasi_stop(s->wasi);
    r->exit_code = (int)(stop.code & 0xFF);
    switch (stop.cause) {
    case WASI_STOP_EXIT: r->reason = BRU_REASON_EXITED; break;
    case WASI_STOP_OUTPUT:
        detail(r, BRU_REASON_OUTPUT_LIMIT, "the program wrote more than its output limit");
        break;
    default: detail(r, BRU_REASON_CRASHED, "the program raised a signal"); break;
    }
}

static void end_trapped(bru_session *s, engine_trap trap) {
    bru_result *r = s->run.result;
    if (trap == ENGINE_TRAP_STACK)
        detail(r, BRU_REASON_STACK_LIMIT, "the program recursed deeper than its stack");
    else if (instance_usage_of(s->guest).grow_refused)
        detail(r, BRU_REASON_MEMORY_LIMIT, "the interpreter gave up without memory");
    else if (trap == ENGINE_TRAP_UNREACHABLE)
        detail(r, BRU_REASON_CRASHED, "the interpreter aborted");
    else
        detail(r, BRU_REASON_CRASHED, engine_trap_text(trap));
}

/* stdout, stderr and both in order, which are the sink's own bytes: a copy is only made of two
 * streams apart. */
static void collect_output(bru_session *s) {
    bru_result *r = s->run.result;
    sink_cursor cursor = { 0 };
    sink_piece piece;
    sink_counts counts;
    size_t at[2] = { 0, 0 };
    sink_get_counts(s->output, &counts);
    const uint64_t *kept = counts.kept;
    if (kept[0] + kept[1] == 0) return;
    char *one[2] = { NULL, NULL }, *both = NULL;
    bool split = kept[0] && kept[1], room = true;
    for (int i = 0; i < 2 && split; i++) {
        one[i] = mem_grow(NULL, kept[i] + 1);
        room = room && one[i];
    }
    while (room && split && sink_next(s->output, &cursor, &piece)) {
        memcpy(one[piece.stream] + at[piece.stream], piece.bytes, piece.len);
        at[piece.stream] += piece.len;
    }
    if (room) both = sink_release(s->output);
    if (!both) {
        mem_free(one[0]), mem_free(one[1]);
        (void)!result_set(r, BRU_TEXT_DETAIL, "no memory to keep the output", 28);
        return;
    }
    result_give_output(r, both, kept[0] + kept[1], one, (const size_t[]){ kept[0], kept[1] });
}

static void fill_usage(bru_session *s) {
    bru_usage *u = &s->run.result->usage;
    sink_counts counts;
    memtree_usage files;
    sink_get_counts(s->output, &counts);
    memtree_get_usage(s->tree, &files);
    *u = (bru_usage){
        .duration_ns = clock_monotonic() - s->run.started,
        .cpu_ns = s->run.cpu_used,
        .peak_memory = instance_usage_of(s->guest).memory_peak,
        .stdout_bytes = counts.kept[0] + counts.cut[0],
        .stderr_bytes = counts.kept[1] + counts.cut[1],
        .cut_bytes = counts.cut[0] + counts.cut[1],
        .file_bytes = files.bytes,
    };
}

/* The run is over; its result waits to be handed out, behind what is left of the output. */
static void finish(bru_session *s, const engine_report *report) {
    bru_result *r = s->run.result;
    switch (report->outcome) {
    case ENGINE_RETURNED: end_as_posted(s); break;
    case ENGINE_STOPPED: end_stopped(s); break;
    case ENGINE_TRAPPED: end_trapped(s, report->trap); break;
    case ENGINE_HARD_STOP: detail(r, stop_reason(s), "stopped hard at its limit"); break;
    case ENGINE_CPU_STOP: detail(r, BRU_REASON_CPU_LIMIT, "stopped hard at its limit"); break;
    default: detail(r, BRU_REASON_INTERRUPTED, "stopped by the host"); break;
    }
    bool alive = report->outcome == ENGINE_RETURNED && report->value == AGENT_REST_DONE &&
                 r->reason != BRU_REASON_CRASHED;
    r->session_alive = alive;
    fill_usage(s);
    if (s->run.collect) collect_output(s);
    if (!alive) wasi_forget_wait(s->wasi);
    s->phase = alive ? PHASE_IDLE : PHASE_ENDED;
    s->run.over = true;
}

/* ---- Running the guest ------------------------------------------------------------------- */

static bool expired(const bru_session *s, uint64_t now) {
    return s->engine.deadline && now >= s->engine.deadline;
}

/* The engine did a soft stop in the stretch behind us; what was due tells which. From here on there
 * is only the end of the grace: another stop must not strike the report of this one. */
static void note_soft_stop(bru_session *s, const engine_report *report) {
    if (!report->soft_fired || s->run.stop != STOP_NONE) return;
    uint64_t now = clock_monotonic(), from = now, grace = s->limits.grace_ns;
    if (interrupted(s))
        s->run.stop = STOP_INTERRUPT, grace = session_interrupt_grace(&s->limits);
    else if (expired(s, now))
        s->run.stop = STOP_DEADLINE, from = s->engine.deadline;
    else
        s->run.stop = STOP_CPU;
    uint64_t end = s->run.acked ? s->run.acked + SESSION_ACK_NS : sum_or_never(from, grace);
    if (s->run.stop == STOP_DEADLINE || !s->engine.deadline || end < s->engine.deadline)
        s->engine.deadline = end;
    s->engine.soft_deadline.count = 0;
    s->engine.soft_cpu.count = 0;
    s->engine.soft_interrupt.count = 0;
    if (s->run.stop == STOP_INTERRUPT) interrupt_met(s);
}

static void arm_cpu(bru_session *s) {
    if (s->limits.cpu_ns == BRU_NO_LIMIT || s->run.stop != STOP_NONE)
        s->engine.cpu = 0;
    else if (s->run.cpu_used >= s->limits.cpu_ns)
        s->engine.cpu = 1;
    else
        s->engine.cpu = s->limits.cpu_ns - s->run.cpu_used;
    s->cpu_began = clock_thread_cpu();
}

static bru_status step(bru_session *s, enum agent_op op, const void *bytes, size_t len,
                       engine_report *report, bru_error *err) {
    uint32_t at = 0;
    bru_status st = session_push(s, &s->image->exports, bytes, len, &at, report, err);
    if (st || report->outcome != ENGINE_RETURNED) return st;
    note_soft_stop(s, report); /* may strike here already: the step meets it */
    if (op == AGENT_OP_DELIVER) buf_clear(&s->calls.replies); /* the guest has its copy */
    uint64_t args[] = { op, at, len };
    return engine_call(s->guest, s->image->exports.step, args, &s->engine, report, err);
}

/* Makes the guest take what ended its wait. */
static bru_status go_on(bru_session *s, engine_report *report, bru_error *err) {
    if (s->phase == PHASE_PARKED) return engine_resume(s->guest, &s->engine, report, err);
    if (s->phase == PHASE_REST)
        return step(s, AGENT_OP_DELIVER, s->calls.replies.data, s->calls.replies.len, report, err);
    bru_status st = step(s, AGENT_OP_EXEC, s->run.frame, s->run.frame_len, report, err);
    mem_free(s->run.frame);
    s->run.frame = NULL;
    s->functions_told = s->functions_told || !st;
    return st;
}

/* After a step that followed arm_cpu(): what it used, ns. */
static uint64_t note_cpu(bru_session *s) {
    uint64_t used = clock_thread_cpu() - s->cpu_began;
    s->cpu_before += used;
    return used;
}

/* Runs the guest until it rests, parks or ends. */
static bru_status run_guest(bru_session *s, bru_error *err) {
    engine_report report = { 0 };
    arm_cpu(s);
    bru_status st = go_on(s, &report, err);
    s->run.cpu_used += note_cpu(s);
    if (st) { /* a program too large for the guest was not begun */
        bool untouched = s->phase == PHASE_STARTED && instance_state_of(s->guest) == INSTANCE_REST;
        s->phase = untouched ? PHASE_IDLE : PHASE_ENDED;
        session_run_clear(s);
        return st;
    }
    note_soft_stop(s, &report);
    if (report.outcome == ENGINE_PARKED)
        s->phase = PHASE_PARKED;
    else if (report.outcome == ENGINE_RETURNED && report.value == AGENT_REST_PENDING)
        s->phase = PHASE_REST;
    else
        finish(s, &report);
    return BRU_OK;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* When the resting guest wants to be woken, as it says in its memory. */
static uint64_t rest_wake_at(const bru_session *s) {
    uint64_t at;
    gmem memory = instance_memory(s->guest);
    const void *p =
        gmem_at(memory, s->image->control_at + (uint32_t)offsetof(agent_control, wake_at), 8);
    if (!p) return 0;
    memcpy(&at, p, sizeof at);
    return at;
}

/* Until when, by its own clock, the guest has nothing to do: 0 if it can go on now. `*input` if it
 * waits for that. */
static uint64_t waits_until(bru_session *s, bool *input) {
    *input = false;
    if (s->phase == PHASE_STARTED) return 0;
    if (s->phase == PHASE_REST) return s->calls.replies.len ? 0 : rest_wake_at(s);
    if (s->wait == WAIT_CALL) return 0;
    if (s->wait == WAIT_TIME) return s->calls.replies.len ? 0 : s->wake_at;
    wasi_wait_info wait = wasi_wait(s->wasi);
    if (wait.reasons & WASI_WAIT_OUTPUT) return 0; /* was handed out and taken */
    if (wait.reasons & WASI_WAIT_INPUT) {
        if (!source_wanted(s->input, NULL)) return 0; /* has been given */
        *input = true;
    }
    return wait.deadline;
}

/* In a deterministic session a wait takes no time; but whoever else has a say comes first: how
 * long an embedder takes to answer must make no difference. */
static void pass_time(bru_session *s, uint64_t until, bool input) {
    bool alone = !input && s->calls.open == s->calls.dropped;
    if (s->deterministic.on && alone) (void)determinism_wait(&s->deterministic, until);
}

/* Ends the wait of a parked guest, so that it meets the stop that is due. */
static void cut_wait(bru_session *s) {
    s->wait_cut = s->wait == WAIT_TIME;
    if (s->wait == WAIT_NONE) wasi_interrupt(s->wasi);
}

/* Runs the guest if there is something for it to do; else fills a WAIT or INPUT event. */
static bru_status advance(bru_session *s, bru_event *event, bool *has_event, bru_error *err) {
    uint64_t now = clock_monotonic();
    bool input, due = expired(s, now) || interrupted(s);
    uint64_t until = waits_until(s, &input);
    if (!due) pass_time(s, until, input);
    uint64_t wake = session_host_time(s, until);
    if (due) {
        if (s->phase == PHASE_PARKED) cut_wait(s);
    } else if (wake > now) {
        if (s->engine.deadline && s->engine.deadline < wake) wake = s->engine.deadline;
        *event = (bru_event){ .kind = input ? BRU_EVENT_INPUT : BRU_EVENT_WAIT, .wake_ns = wake };
        s->run.input_asked = input;
        *has_event = true;
        return BRU_OK;
    }
    return run_guest(s, err);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool hand_out(bru_session *s, bru_event *event) {
    sink_piece piece;
    if (!s->run.collect) {
        if (sink_next(s->output, &s->run.handed, &piece)) {
            *event = (bru_event){ .kind = BRU_EVENT_OUTPUT,
                                  .stream = piece.stream == SINK_OUT ? 1 : 2,
                                  .data = piece.bytes,
                                  .len = piece.len };
            return true;
        }
        sink_take(s->output);
        s->run.handed = (sink_cursor){ 0 };
    }
    if (s->run.over) {
        *event = (bru_event){ .kind = BRU_EVENT_DONE, .result = s->run.result };
        s->run.result = NULL;
        session_run_clear(s);
        return true;
    }
    const call *c = calls_next(&s->calls);
    if (!c) return false;
    *event = (bru_event){ .kind = c->dropped ? BRU_EVENT_DROP : BRU_EVENT_CALL,
                          .id = c->id,
                          .name = c->name,
                          .data = call_payload(c),
                          .len = c->len };
    return true;
}

bru_status bru_session_next(bru_session *s, bru_event *event, bru_error *err) {
    *event = (bru_event){ 0 };
    if (!s->run.over && (s->phase == PHASE_IDLE || s->phase == PHASE_ENDED))
        return error_set(err, BRU_ESTATE, "nothing runs in this session: start something first");
    for (;;) {
        if (hand_out(s, event)) return BRU_OK;
        bool has_event = false;
        bru_status st = advance(s, event, &has_event, err);
        if (st || has_event) return st;
    }
}

bru_status bru_session_reply(bru_session *s, uint32_t id, int ok, const void *data, size_t len,
                             bru_error *err) {
    return calls_reply(&s->calls, id, ok != 0, data, len, err);
}

bru_status bru_session_input(bru_session *s, const void *data, size_t len, bru_error *err) {
    if (!s->run.input_asked) return error_set(err, BRU_ESTATE, "the guest waits for no input");
    bru_status st = BRU_OK;
    if (len == 0)
        source_end(s->input);
    else
        st = source_give(s->input, data, len, err);
    if (!st) s->run.input_asked = false;
    return st;
}

/* ---- To the end in one call -------------------------------------------------------------- */

/* Until `wake` (UINT64_MAX: for ever), or an interrupt. */
static void sleep_until(bru_session *s, uint64_t wake) {
    while (!interrupted(s) && clock_monotonic() < wake) os_wait(&s->asked, ASKED_RUNS, wake);
}

bru_status session_run_to_end(bru_session *s, const char *src, size_t len,
                              const bru_exec_options *o, bru_result **out, bru_error *err) {
    static const char no_host_function[] = "there is no host function here";
    bru_event event;
    *out = NULL;
    bru_status st = session_start(s, src, len, o, false, err);
    while (!st && !*out) {
        st = bru_session_next(s, &event, err);
        if (st) break;
        if (event.kind == BRU_EVENT_DONE) *out = event.result;
        if (event.kind == BRU_EVENT_WAIT) sleep_until(s, event.wake_ns);
        if (event.kind == BRU_EVENT_CALL)
            st = bru_session_reply(s, event.id, 0, no_host_function, strlen(no_host_function), err);
    }
    return st;
}

/* ---- Questions of a prompt --------------------------------------------------------------- */

#define ASK_TIMEOUT_NS 2000000000ull
#define ASK_GRACE_NS   100000000ull

/* What the guest's own code does while it is asked (completing calls __dir__ and properties) must
 * not end the session: what it prints is dropped, its input is at its end, its waits are cut short.
 */
bru_status session_ask(bru_session *s, enum agent_op op, const void *bytes, size_t len,
                       bru_error *err) {
    if (s->phase != PHASE_IDLE) return error_set(err, BRU_ESTATE, "%s", state_text(s));
    engine_report report = { 0 };
    buf_clear(&s->reply);
    sink_clear(s->output);
    session_collect(s, true);
    source_clear(s->input);
    source_set(s->input, false);
    session_arm_soft_stops(s);
    arm_cpu(s);
    s->engine.deadline = clock_monotonic() + ASK_TIMEOUT_NS;
    s->engine.grace = ASK_GRACE_NS;
    bru_status st = step(s, op, bytes, len, &report, err);
    while (!st && report.outcome == ENGINE_PARKED) {
        cut_wait(s);
        st = engine_resume(s->guest, &s->engine, &report, err);
    }
    (void)note_cpu(s);
    s->engine.grace = s->limits.grace_ns;
    if (!st && (report.outcome != ENGINE_RETURNED || report.value != AGENT_REST_DONE)) {
        s->phase = PHASE_ENDED; /* it never came back */
        st = error_set(err, BRU_ESTATE, "the session ended while it was asked: reset it");
    }
    sink_clear(s->output);
    session_run_clear(s);
    if (!st && buf_append(&s->reply, "", 1) != BRU_OK)
        st = error_set(err, BRU_ENOMEM, "no memory for the answer");
    return st;
}

bru_status session_clear(bru_session *s, bru_error *err) {
    return session_ask(s, AGENT_OP_CLEAR, NULL, 0, err);
}
