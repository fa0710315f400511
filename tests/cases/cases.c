/* Runs case scripts: cases IMAGE FILE... [-k WORD]. Every case gets a fresh session; after it,
 * whatever it did, the session must be usable again (as it is, or after a reset), a fresh one must
 * be untouched, and the process must be as it was.
 *
 * Options of a session       timeout 300ms, cpu 1s, grace 1ms, memory 64M, output 1M, output-stops,
 *                            files 1M, env KEY=VALUE, stream
 * Of a run                   input TEXT, argv WORDS, name TEXT, module, display, program, reset,
 * reset-files, source previous-output (run what the run before printed) Expectations reason WORDS
 * (one of them; default: completed), exit N, alive yes|no, type WORDS, message TEXT, traceback
 * TEXT, detail TEXT (each: contained), traceback-lacks TEXT, stdout LINE and stderr LINE (all
 * lines, in order; on stderr those before the traceback, which must come last), stdout-has TEXT,
 *                            stderr-has TEXT, stdout-any, stderr-any,
 *                            event STREAM TEXT (all of them; neighbours of one stream are merged),
 *                            host-memory 160M (peak growth), idle (what took its time, waited),
 *                            cut (some output was thrown away),
 *                            wrecked (the session lives on, but not so that print() works)
 * In TEXT and LINE, \n, \\ and \xHH are bytes. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "brumate.h"
#include "host.h"
#include "script.h"

enum { HANG_SECONDS = 120 };

typedef struct text {
    char *data;
    size_t len;
} text;

static const char *file_name; /* of the running script, for messages and tracebacks */
static unsigned failures;     /* of the running case */

static void text_add(text *t, const char *data, size_t len) {
    t->data = realloc(t->data, t->len + len + 1);
    if (!t->data) exit(2);
    if (len) memcpy(t->data + t->len, data, len);
    t->len += len;
    t->data[t->len] = '\0';
}

__attribute__((format(printf, 2, 3))) static void wrong(const run *r, const char *format, ...) {
    va_list args;
    failures++;
    fprintf(stderr, "%s:%u: %s: ", file_name, r->line, r->title);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/* Adds `value` with its escapes resolved. */
static void text_add_escaped(text *t, const char *value) {
    while (*value) {
        char c = *value++;
        if (c == '\\' && (*value == 'n' || *value == '\\')) {
            c = *value++ == 'n' ? '\n' : '\\';
        } else if (c == '\\' && *value == 'x' && isxdigit((unsigned char)value[1])) {
            char hex[3] = { value[1], value[2], '\0' };
            c = (char)strtol(hex, NULL, 16);
            value += 3;
        }
        text_add(t, &c, 1);
    }
}

static uint64_t number(const char *value, const char *const *units, const uint64_t *factors) {
    char *unit;
    uint64_t n = strtoull(value, &unit, 10);
    for (size_t i = 0; units[i]; i++) {
        if (!strcmp(unit, units[i])) return n * factors[i];
    }
    fprintf(stderr, "%s: not a quantity: %s\n", file_name, value);
    exit(2);
}

static uint64_t duration(const run *r, const char *name) {
    static const char *const units[] = { "s", "ms", "us", NULL };
    static const uint64_t factors[] = { 1000000000, 1000000, 1000 };
    const char *value = run_get(r, name);
    return value ? number(value, units, factors) : 0;
}

static uint64_t bytes(const run *r, const char *name) {
    static const char *const units[] = { "", "K", "M", "G", NULL };
    static const uint64_t factors[] = { 1, 1 << 10, 1 << 20, 1 << 30 };
    const char *value = run_get(r, name);
    return value ? number(value, units, factors) : 0;
}

static bru_session *session_for(bru_image *image, const run *r) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits.timeout_ns = duration(r, "timeout");
    o.limits.cpu_ns = duration(r, "cpu");
    o.limits.grace_ns = duration(r, "grace");
    o.limits.memory_bytes = bytes(r, "memory");
    o.limits.output_bytes = bytes(r, "output");
    o.limits.file_bytes = bytes(r, "files");
    o.limits.flags = run_get(r, "output-stops") ? BRU_OUTPUT_STOPS : 0;
    o.flags = run_get(r, "stream") ? BRU_STREAM_OUTPUT : 0;
    const char *env[] = { run_get(r, "env") };
    o.env = env;
    o.env_count = env[0] != NULL;
    bru_session *s;
    bru_error err;
    if (bru_session_new(image, &o, &s, &err)) wrong(r, "no session: %s", err.message);
    return s;
}

/* The events of a run, "1 text" each; neighbours of the same stream are one. */
static bru_result *follow(bru_session *s, const run *r, text *events, unsigned *count) {
    bru_error err;
    bru_event e;
    int last = 0;
    for (;;) {
        if (bru_session_next(s, &e, &err)) {
            wrong(r, "no event: %s", err.message);
            return NULL;
        }
        if (e.kind == BRU_EVENT_DONE) break;
        if (e.kind == BRU_EVENT_WAIT) {
            struct timespec until = { (time_t)(e.wake_ns / 1000000000),
                                      (long)(e.wake_ns % 1000000000) };
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        }
        if (e.kind != BRU_EVENT_OUTPUT) continue;
        if (e.stream != last) text_add(events, last ? "\n" : "", last != 0);
        if (e.stream != last) text_add(events, e.stream == 1 ? "1 " : "2 ", 2);
        text_add(events, e.data, e.len);
        last = e.stream;
        *count += 1;
    }
    return e.result;
}

typedef struct outcome {
    bru_result *result;
    text events;
    unsigned event_count;
    uint64_t growth; /* of the host's peak memory, bytes */
} outcome;

static void run_it(bru_session *s, const run *r, const text *previous, outcome *out) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    char words[256];
    const char *argv[16];
    const char *args = run_get(r, "argv"), *input = run_get(r, "input");
    snprintf(words, sizeof words, "%s", args ? args : "");
    for (char *w = strtok(words, " "); w && o.argc < 16; w = strtok(NULL, " ")) argv[o.argc++] = w;
    o.argv = argv;
    o.file_name = run_get(r, "name") ? run_get(r, "name") : file_name;
    text in = { 0 };
    text_add_escaped(&in, input ? input : "");
    o.input = in.data;
    o.input_len = in.len;
    o.flags = (run_get(r, "display") ? BRU_EXEC_DISPLAY : 0u) |
              (run_get(r, "module") ? BRU_EXEC_MODULE : 0u) |
              (run_get(r, "program") ? BRU_EXEC_PROGRAM : 0u);
    const char *source = r->source;
    size_t len = r->len;
    if (run_get(r, "source")) {
        source = previous->data;
        len = previous->len;
    }
    if (o.flags & BRU_EXEC_MODULE) {
        source = run_get(r, "module");
        len = strlen(source);
    }
    bru_error err;
    host_forget_peak();
    uint64_t before = host_resident();
    bru_status st = run_get(r, "stream") ? bru_session_start(s, source, len, &o, &err)
                                         : bru_session_run(s, source, len, &o, &out->result, &err);
    if (st)
        wrong(r, "did not run: %s", err.message);
    else if (!out->result)
        out->result = follow(s, r, &out->events, &out->event_count);
    uint64_t peak = host_peak();
    out->growth = peak > before ? peak - before : 0;
    free(in.data);
}

static const char *const reasons[] = {
#define REASON_NAME(name, text, code) #name,
    BRU_REASON_MAP(REASON_NAME)
#undef REASON_NAME
};

/* Whether `word` is one of the words in `list`, whatever their case. */
static int among(const char *list, const char *word) {
    size_t len = strlen(word);
    for (const char *at = list; *at;) {
        at += strspn(at, " ");
        size_t n = strcspn(at, " ");
        if (n == len && !strncasecmp(at, word, n)) return 1;
        at += n;
    }
    return 0;
}

static const char *result_text(const outcome *o, bru_text which) {
    return bru_result_text(o->result, which, NULL);
}

/* All that a failing case needs to be understood. */
static void show(const run *r, const outcome *o) {
    fprintf(stderr, "    %s:%u ended: %s, exit code %d; %s %s\n", file_name, r->line,
            bru_reason_text(bru_result_reason(o->result)), bru_result_exit_code(o->result),
            result_text(o, BRU_TEXT_TYPE), result_text(o, BRU_TEXT_DETAIL));
    size_t len;
    const char *output = bru_result_text(o->result, BRU_TEXT_OUTPUT, &len);
    fprintf(stderr, "    output (%zu bytes, the last of it): %s\n", len,
            output + (len > 1000 ? len - 1000 : 0));
}

static void check_end(const run *r, const outcome *o) {
    bru_reason reason = bru_result_reason(o->result);
    const char *want = run_get(r, "reason"), *code = run_get(r, "exit");
    const char *alive = run_get(r, "alive"), *type = run_get(r, "type");
    if (!among(want ? want : "completed", reasons[reason]))
        wrong(r, "ended as %s, not %s", reasons[reason], want ? want : "completed");
    if (code && bru_result_exit_code(o->result) != atoi(code))
        wrong(r, "exit code %d, not %s", bru_result_exit_code(o->result), code);
    if (alive && bru_result_session_alive(o->result) != !strcmp(alive, "yes"))
        wrong(r, "the session should%s live on", strcmp(alive, "yes") ? " not" : "");
    if (type && reason == BRU_REASON_EXCEPTION && !among(type, result_text(o, BRU_TEXT_TYPE)))
        wrong(r, "exception %s, not %s", result_text(o, BRU_TEXT_TYPE), type);
    if (run_get(r, "cut") && !bru_result_usage(o->result)->cut_bytes) wrong(r, "nothing was cut");
}

/* What ended at once did not wait; of the rest, half of the time is far from waiting. */
static void check_use(const run *r, const outcome *o) {
    const bru_usage *u = bru_result_usage(o->result);
    uint64_t memory = bytes(r, "host-memory");
    if (memory && o->growth > memory)
        wrong(r, "the host grew by %llu MB", (unsigned long long)(o->growth >> 20));
    if (run_get(r, "idle") && u->duration_ns > 100000000 && u->cpu_ns > u->duration_ns / 2)
        wrong(r, "%llu us of CPU time used while waiting", (unsigned long long)(u->cpu_ns / 1000));
}

/* Lines of directive `name`, all of them, against `have`; the last newline may lack. */
static void check_lines(const run *r, const char *name, const char *have, size_t have_len) {
    text want = { 0 };
    text_add(&want, "", 0);
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->directives[i].name, name)) continue;
        text_add_escaped(&want, r->directives[i].value);
        text_add(&want, "\n", 1);
    }
    int same = have_len == want.len && !memcmp(have, want.data, want.len);
    same |= have_len + 1 == want.len && !memcmp(have, want.data, have_len);
    if (!same) wrong(r, "%s is not\n%s----", name, want.data);
    free(want.data);
}

static void check_contained(const run *r, const char *name, const char *have, size_t have_len,
                            int lacks) {
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->directives[i].name, name)) continue;
        text want = { 0 };
        text_add_escaped(&want, r->directives[i].value);
        int found = want.len && memmem(have, have_len, want.data, want.len) != NULL;
        if (found == lacks) wrong(r, "%s: %s", name, r->directives[i].value);
        free(want.data);
    }
}

/* The length of the traceback with which stderr closes. */
static size_t traceback_at_end(const run *r, const outcome *o, const char *have, size_t have_len) {
    size_t len;
    const char *traceback = bru_result_text(o->result, BRU_TEXT_TRACEBACK, &len);
    if (run_get(r, "stream") || run_get(r, "stderr-any")) return 0;
    if (have_len >= len && !memcmp(have + have_len - len, traceback, len)) return len;
    wrong(r, "stderr does not end with the traceback");
    return 0;
}

static void check_stream(const run *r, const outcome *o, bru_text which, const char *name) {
    char has[16], any[16];
    size_t len;
    const char *have = bru_result_text(o->result, which, &len);
    if (which == BRU_TEXT_STDERR) len -= traceback_at_end(r, o, have, len);
    snprintf(has, sizeof has, "%s-has", name);
    snprintf(any, sizeof any, "%s-any", name);
    check_contained(r, has, have, len, 0);
    if (!run_get(r, has) && !run_get(r, any) && !run_get(r, "stream"))
        check_lines(r, name, have, len);
}

static void check(const run *r, const outcome *o) {
    static const struct {
        const char *name;
        bru_text which;
        int lacks;
    } texts[] = { { "message", BRU_TEXT_MESSAGE, 0 },
                  { "traceback", BRU_TEXT_TRACEBACK, 0 },
                  { "traceback-lacks", BRU_TEXT_TRACEBACK, 1 },
                  { "detail", BRU_TEXT_DETAIL, 0 } };
    check_end(r, o);
    check_use(r, o);
    check_stream(r, o, BRU_TEXT_STDOUT, "stdout");
    check_stream(r, o, BRU_TEXT_STDERR, "stderr");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t len;
        const char *have = bru_result_text(o->result, texts[i].which, &len);
        check_contained(r, texts[i].name, have, len, texts[i].lacks);
    }
    if (run_get(r, "event"))
        check_lines(r, "event", o->events.data ? o->events.data : "", o->events.len);
    if (run_get(r, "stream") && o->event_count > 10000)
        wrong(r, "%u events: small writes should be merged", o->event_count);
    if (failures) show(r, o);
}

/* Whether `s` prints what it is told to. */
static int answers(bru_session *s, const run *r, const char *when) {
    static const char source[] = "print('still here')";
    bru_error err;
    bru_result *result = NULL;
    text events = { 0 };
    unsigned count = 0;
    bru_status st = bru_session_start(s, source, sizeof source - 1, NULL, &err);
    if (!st) result = follow(s, r, &events, &count);
    int good = result && bru_result_reason(result) == BRU_REASON_COMPLETED &&
               strstr(events.len ? events.data : bru_result_text(result, BRU_TEXT_STDOUT, NULL),
                      "still here");
    if (!good) {
        wrong(r, "%s, print() fails: %s", when,
              st       ? err.message
              : result ? bru_result_text(result, BRU_TEXT_TRACEBACK, NULL)
                       : "");
    }
    bru_result_free(result);
    free(events.data);
    return good;
}

/* `alive` is whether the last run's result promised that the session goes on. */
static void check_after(bru_image *image, bru_session *s, const run *r, int alive) {
    bru_error err;
    if (alive && !run_get(r, "wrecked")) answers(s, r, "in the same session");
    if (bru_session_reset(s, BRU_RESET_FILES, &err))
        wrong(r, "no reset: %s", err.message);
    else
        answers(s, r, "after a reset");
    bru_session *fresh = session_for(image, r);
    if (fresh) answers(fresh, r, "in a fresh session");
    bru_session_free(fresh);
}

/* Runs the case that begins at `r`; answers how many runs it has. */
static size_t run_case(bru_image *image, const run *r, const run *end) {
    host_state before, after;
    text previous = { 0 };
    size_t n = 0;
    int alive = 1;
    failures = 0;
    host_look(&before);
    bru_session *s = session_for(image, r);
    for (; s && r + n < end && (!n || !r[n].starts_case); n++) {
        outcome o = { 0 };
        bru_error err;
        unsigned flags = run_get(&r[n], "reset-files") ? BRU_RESET_FILES : 0;
        if ((run_get(&r[n], "reset") || flags) && bru_session_reset(s, flags, &err))
            wrong(&r[n], "no reset: %s", err.message);
        run_it(s, &r[n], &previous, &o);
        if (!o.result) break;
        check(&r[n], &o);
        alive = bru_result_session_alive(o.result);
        previous.len = 0;
        size_t len;
        const char *printed = bru_result_text(o.result, BRU_TEXT_STDOUT, &len);
        text_add(&previous, printed, len);
        bru_result_free(o.result);
        free(o.events.data);
    }
    if (s) check_after(image, s, r, alive);
    bru_session_free(s);
    host_look(&after);
    const char *changed = host_difference(&before, &after);
    if (changed) wrong(r, "the guest changed %s of the host", changed);
    free(previous.data);
    while (r + n < end && !r[n].starts_case) n++;
    return n;
}

static void run_script(bru_image *image, const char *path, const char *word, unsigned *passed,
                       unsigned *failed) {
    script s = script_read(path);
    const run *end = s.runs + s.count;
    file_name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (const run *r = s.runs; r < end;) {
        const run *first = r;
        if (word && !strstr(first->title, word)) {
            do r++;
            while (r < end && !r->starts_case);
            continue;
        }
        host_watch(first->title, HANG_SECONDS);
        r += run_case(image, first, end);
        host_watch(NULL, 0);
        if (failures) fprintf(stderr, "FAILED %s: %s\n", file_name, first->title);
        *(failures ? failed : passed) += 1;
    }
    script_free(&s);
}

/* What comes with the first session (signal handlers, the watching thread) is no case's doing. */
static void warm_up(bru_image *image) {
    static const run none = { .title = "warming up" };
    host_watch(none.title, HANG_SECONDS);
    bru_session *s = session_for(image, &none);
    if (s) answers(s, &none, "at first");
    bru_session_free(s);
    host_watch(NULL, 0);
}

int main(int argc, char **argv) {
    unsigned passed = 0, failed = 0;
    const char *image_path = getenv("BRUMATE_IMAGE"), *word = NULL;
    bru_image_options options = BRU_IMAGE_OPTIONS_INIT;
    bru_image *image;
    bru_error err;
    if (argc < 3) {
        fprintf(stderr, "usage: cases IMAGE FILE... [-k WORD]\n");
        return 2;
    }
    if (argc > 4 && !strcmp(argv[argc - 2], "-k")) {
        word = argv[argc - 1];
        argc -= 2;
    }
    options.guest_path = getenv("BRUMATE_GUEST");
    if (bru_image_open(image_path ? image_path : argv[1], &options, &image, &err)) {
        fprintf(stderr, "cases: %s\n", err.message);
        return 2;
    }
    warm_up(image);
    for (int i = 2; i < argc; i++) run_script(image, argv[i], word, &passed, &failed);
    bru_image_unref(image);
    printf("%u passed, %u failed\n", passed, failed);
    return failed || !passed;
}
