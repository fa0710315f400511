/* Waiting and moving bytes: never longer than a deadline, never deaf to Ctrl-C. */
#include "cli.h"
#include "wake.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

uint64_t io_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* ppoll's descriptors: ours, and the one that Ctrl-C makes readable. */
wait_end io_wait(ctrl_c *c, int fd, short events, uint64_t until) {
    struct pollfd fds[2] = { { .fd = fd, .events = events },
                             { .fd = c ? ctrl_c_wake(c) : -1, .events = POLLIN } };
    for (;;) {
        uint64_t now = io_now(), left = until > now ? until - now : 0;
        struct timespec t = { (time_t)(left / SECOND), (long)(left % SECOND) };
        int n = ppoll(fds, 2, until == UINT64_MAX ? NULL : &t, NULL);
        if (n > 0 && fds[0].revents) return WAIT_READY; /* an error or a hangup too */
        if (n > 0) {
            ctrl_c_woken(c);
            return WAIT_WOKEN;
        }
        if (n == 0 && io_now() >= until) return WAIT_TIME;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return WAIT_READY; /* the caller's own
                                * read or write will tell */
    }
}

/* A pipe or a socket said to be writable takes PIPE_BUF bytes without blocking, but maybe no
 * more. Files and terminals are as ready as they will ever be. */
static size_t piece(int fd) {
    struct stat st;
    bool may_block = fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
    return may_block ? PIPE_BUF : SSIZE_MAX;
}

write_end io_write(ctrl_c *c, int fd, const void *data, size_t len, uint64_t until) {
    const char *at = data;
    size_t most = len > PIPE_BUF ? piece(fd) : len;
    while (len > 0) {
        struct pollfd ready = { .fd = fd, .events = POLLOUT };
        if (poll(&ready, 1, 0) == 0 && io_wait(c, fd, POLLOUT, until) != WAIT_READY)
            return WRITE_STALLED;
        ssize_t n = write(fd, at, len < most ? len : most);
        if (n < 0 && errno != EINTR && errno != EAGAIN) return WRITE_FAILED;
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return WRITE_DONE;
}

/* What was typed while libedit had the terminal has a CR where a line ends with NL: libedit has the
 * terminal turn NL into CR, and takes either. */
static void mend_lines(input *in) {
    if (!isatty(STDIN_FILENO)) return;
    for (char *at = in->data; (at = memchr(at, '\r', in->len - (size_t)(at - in->data))); at++)
        *at = '\n';
}

wait_end input_fill(input *in, ctrl_c *c, uint64_t until) {
    while (in->at == in->len && !in->ended) {
        if (!in->data) in->data = malloc(INPUT_CHUNK);
        if (!in->data) {
            say("out of memory");
            in->ended = true;
            break;
        }
        wait_end end = io_wait(c, STDIN_FILENO, POLLIN, until);
        if (end != WAIT_READY) return end;
        ssize_t n = read(STDIN_FILENO, in->data, INPUT_CHUNK);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n < 0) say("cannot read stdin: %s", strerror(errno));
        in->ended = n <= 0;
        in->at = 0;
        in->len = n > 0 ? (size_t)n : 0;
        mend_lines(in);
    }
    return WAIT_READY;
}

void input_free(input *in) {
    free(in->data);
    *in = (input){ 0 };
}
