/* The prompt: lines are gathered until they are a whole statement, which runs in the session. */
#include "prompt.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct block {
    char *text;
    size_t len, cap;
} block;

typedef struct prompt {
    runner *r;
    editor *editor;
    block block;
    uint64_t timeout_ns;
    branches branches;
    unsigned count; /* of statements, which name them in tracebacks */
} prompt;

static bool block_add(block *b, const char *line) {
    size_t len = strlen(line), need = b->len + len + 2;
    if (need > SOURCE_CEILING) return false;
    if (need > b->cap) {
        char *more = realloc(b->text, need * 2);
        if (!more) return false;
        b->text = more;
        b->cap = need * 2;
    }
    if (b->len > 0) b->text[b->len++] = '\n';
    memcpy(b->text + b->len, line, len + 1);
    b->len += len;
    return true;
}

static const char *complete(void *ctx, const char *text, size_t len) {
    prompt *p = ctx;
    const char *out;
    return bru_session_complete(p->r->session, text, len, &out, NULL) ? NULL : out;
}

void tell(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    (void)io_write(NULL, STDERR_FILENO, text, len, io_now() + 1000000000u);
}

static void greet(const runner *r, const bru_image *image) {
    bru_image_info info;
    char memory[32], timeout[32];
    bru_image_get_info(image, &info);
    const bru_limits *l = &r->settings->limits;
    char line[512];
    int n = snprintf(line, sizeof line,
                     "Brumate %s: %.200s\nMemory %s, time of a statement %s. Ctrl-C stops it, "
                     "Ctrl-D leaves, :help tells of ways back.\n",
                     bru_version(), info.guest_build, number_show_size(l->memory_bytes, memory),
                     r->settings->timeout_given ? number_show_time(l->timeout_ns, timeout)
                                                : "without limit");
    if (n > 0) tell("%s", line);
}

/* True: leave with `*rc`. */
static bool run(prompt *p, int *rc) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    char name[40];
    source src = { p->block.text, p->block.len };
    bru_result *result;
    snprintf(name, sizeof name, "<python-input-%u>", p->count++);
    o.file_name = name;
    o.timeout_ns = p->timeout_ns;
    o.flags = BRU_EXEC_DISPLAY;
    if (p->r->settings->checkpoint) branch_remember(&p->branches);
    *rc = pump(p->r, &src, o, &result);
    if (*rc || p->r->frozen) return true;
    report_end(p->r->settings, result);
    if (p->r->settings->stats) (void)report_stats(p->r, result);
    bool leave = bru_result_reason(result) == BRU_REASON_EXITED;
    if (leave)
        *rc = bru_result_exit_code(result) & 0xff;
    else if (!bru_result_session_alive(result))
        *rc = report_revival(p->r->session);
    bru_result_free(result);
    return leave || *rc;
}

/* Whether the lines so far are to be run. A block whose check fails runs too: it tells why. */
static bool whole(prompt *p) {
    bru_completeness c;
    return bru_session_check(p->r->session, p->block.text, p->block.len, &c, NULL) ||
           c != BRU_INCOMPLETE;
}

static bool word_of_leaving(const block *b) {
    return b->len == 4 && (memcmp(b->text, "exit", 4) == 0 || memcmp(b->text, "quit", 4) == 0);
}

static int loop(prompt *p) {
    int rc = 0;
    block *b = &p->block;
    for (;;) {
        const char *line;
        switch (editor_read(p->editor, b->len ? "... " : ">>> ", &line)) {
        case LINE_EOF: return 0;
        case LINE_INTERRUPTED:
            tell("KeyboardInterrupt\n");
            b->len = 0;
            continue;
        case LINE_READ: break;
        }
        if (b->len == 0 && line[strspn(line, " \t\r\f")] == 0) continue;
        if (b->len == 0 && branch_line(&p->branches, line)) continue;
        if (!block_add(b, line)) return fail("the statement is too long");
        if (word_of_leaving(b)) return 0;
        if (!whole(p)) continue;
        if (run(p, &rc)) return rc;
        b->len = 0;
    }
}

/* What a whole program has at its end: its atexit functions. */
static int run_atexit(prompt *p) {
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    source nothing = { (char[]){ "" }, 0 };
    bru_result *result;
    o.flags = BRU_EXEC_PROGRAM;
    o.timeout_ns = p->timeout_ns;
    int rc = pump(p->r, &nothing, o, &result);
    if (!rc) report_end(p->r->settings, result);
    if (!rc) bru_result_free(result);
    return rc;
}

int repl(runner *r, const bru_image *image) {
    prompt p = { .r = r,
                 .branches = { .r = r },
                 .timeout_ns =
                     r->settings->timeout_given ? r->settings->limits.timeout_ns : BRU_NO_LIMIT };
    p.editor = editor_new(r->interrupts, r->input, complete, &p);
    if (!p.editor) return fail("out of memory");
    if (!r->settings->quiet) greet(r, image);
    int rc = loop(&p);
    bool goes_on = r->frozen || r->settings->output;
    if (rc < EXIT_OURS && !goes_on) {
        int last = run_atexit(&p);
        if (last) rc = last;
    }
    editor_free(p.editor);
    branches_free(&p.branches);
    free(p.block.text);
    return rc;
}
