/* What is said after a run. */
#include "cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The option that set the limit, as it was given or would be: " (--timeout 2s)". */
static const char *limit_of(const settings *s, bru_reason reason, char out[64]) {
    const bru_limits *l = &s->limits;
    char value[32];
    const char *text = NULL, *option = NULL;
    switch (reason) {
    case BRU_REASON_TIMEOUT:
        option = "--timeout";
        text = number_show_time(l->timeout_ns, value);
        break;
    case BRU_REASON_CPU_LIMIT:
        option = "--cpu";
        text = number_show_time(l->cpu_ns, value);
        break;
    case BRU_REASON_MEMORY_LIMIT:
        option = "--memory";
        text = number_show_size(l->memory_bytes, value);
        break;
    case BRU_REASON_OUTPUT_LIMIT:
        option = "--output";
        text = number_show_size(l->output_bytes, value);
        break;
    default: return "";
    }
    snprintf(out, 64, " (%s %s)", option, text);
    return out;
}

static bool own_end(bru_reason reason) {
    return reason == BRU_REASON_COMPLETED || reason == BRU_REASON_EXCEPTION ||
           reason == BRU_REASON_EXITED;
}

void report_end(const settings *s, const bru_result *result) {
    bru_reason reason = bru_result_reason(result);
    bool told = reason == BRU_REASON_INTERRUPTED &&
                *bru_result_text(result, BRU_TEXT_TRACEBACK, NULL); /* the guest printed it */
    if (!own_end(reason) && !told) {
        const char *detail = bru_result_text(result, BRU_TEXT_DETAIL, NULL);
        char limit[64];
        say("%s%s%s%s", bru_reason_text(reason), limit_of(s, reason, limit), *detail ? ": " : "",
            detail);
    }
    const bru_usage *u = bru_result_usage(result);
    char limit[64];
    if (u->cut_bytes > 0 && !(s->limits.flags & BRU_OUTPUT_STOPS))
        say("%" PRIu64 " bytes of output were cut%s", u->cut_bytes,
            limit_of(s, BRU_REASON_OUTPUT_LIMIT, limit));
}

static void print_stats(FILE *f, const runner *r, const bru_result *result) {
    const bru_usage *u = bru_result_usage(result);
    fprintf(f, "reason: %s\n", bru_reason_text(bru_result_reason(result)));
    fprintf(f, "exit_code: %d\n", bru_result_exit_code(result) & 0xff);
    fprintf(f, "wall_seconds: %.6f\n", (double)u->duration_ns / 1e9);
    fprintf(f, "cpu_seconds: %.6f\n", (double)u->cpu_ns / 1e9);
    const struct {
        const char *key;
        uint64_t bytes;
    } rows[] = {
        { "peak_memory_bytes", u->peak_memory },
        { "written_memory_bytes", bru_session_private_bytes(r->session) },
        { "stdout_bytes", u->stdout_bytes },
        { "stderr_bytes", u->stderr_bytes },
        { "cut_bytes", u->cut_bytes },
        { "file_bytes", u->file_bytes },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(f, "%s: %" PRIu64 "\n", rows[i].key, rows[i].bytes);
}

int report_stats(const runner *r, const bru_result *result) {
    const settings *s = r->settings;
    if (!s->stats_path) {
        char text[1024] = "";
        FILE *f = fmemopen(text, sizeof text, "w");
        if (!f) return fail("--stats: %s", strerror(errno));
        print_stats(f, r, result);
        fclose(f);
        say_text(text, strlen(text));
        return 0;
    }
    FILE *f = fopen(s->stats_path, "we");
    if (!f) return fail("--stats: %s: %s", s->stats_path, strerror(errno));
    print_stats(f, r, result);
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) return fail("--stats: %s: %s", s->stats_path, strerror(errno));
    return 0;
}

int report_revival(bru_session *session) {
    bru_error err = { 0 };
    if (bru_session_reset(session, 0, &err)) return fail_error(&err);
    say("the session starts afresh; its variables are gone, its files are kept");
    return 0;
}
