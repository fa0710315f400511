/* Our own lines: short, on stderr, never on stdout, and with no control characters of others. */
#include "cli.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_CEILING = 1024, ESCAPED_CEILING = 4 * LINE_CEILING + 16 };

/* A reader of stderr that does not read for a second loses the rest. Asked first: a write to a full
 * pipe or terminal would wait for ever. */
void say_text(const char *text, size_t len) {
    while (len > 0) {
        struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };
        int ready = poll(&fd, 1, 1000);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return;
        ssize_t n = write(STDERR_FILENO, text, len < PIPE_BUF ? len : PIPE_BUF);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return;
        text += n;
        len -= (size_t)n;
    }
}

static void say_list(const char *format, va_list args) {
    char line[LINE_CEILING], escaped[ESCAPED_CEILING] = "brumate: ";
    if (vsnprintf(line, sizeof line, format, args) < 0) return;
    size_t at = strlen(escaped);
    for (const char *p = line; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= ' ' && c != 0x7f)
            escaped[at++] = *p;
        else
            at += (size_t)snprintf(escaped + at, 5, c == '\n' ? "\\n" : "\\x%02x", c);
    }
    escaped[at++] = '\n';
    say_text(escaped, at);
}

void say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
}

int fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say_list(format, args);
    va_end(args);
    return EXIT_OURS;
}

int fail_error(const bru_error *err) {
    return fail("%s", err->message[0] ? err->message : bru_status_text(err->status));
}

int finish_stdout(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    if (errno == EPIPE) return ENDED_BY_PIPE;
    return fail("cannot write to stdout: %s", strerror(errno));
}
