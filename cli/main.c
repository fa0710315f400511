/* brumate: runs Python in a sandbox. See help.c for what it takes, cli.h for who does what. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* A stream that came closed must not become the number of a file that the library opens: guest
 * output would be written into it. */
static void fill_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", O_RDWR);
}

/* The way in which other commands end on a closed pipe. */
static void end_as_on_a_closed_pipe(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

static int obey(const settings *s) {
    switch (s->command) {
    case COMMAND_RUN: return command_run(s, ctrl_c_new());
    case COMMAND_FREEZE: return command_freeze(s, ctrl_c_new());
    case COMMAND_THAW: return command_thaw(s, ctrl_c_new());
    case COMMAND_SNAPSHOT: return command_snapshot(s);
    default: return command_image(s);
    }
}

int main(int argc, char **argv) {
    settings s;
    int rc;
    fill_streams();
    struct sigaction pipe_action;
    bool pipe_ignored =
        sigaction(SIGPIPE, NULL, &pipe_action) == 0 && pipe_action.sa_handler == SIG_IGN;
    signal(SIGPIPE, SIG_IGN); /* a write says EPIPE instead, so that there is an orderly end */
    signal(SIGXFSZ, SIG_IGN); /* likewise EFBIG */
    if (options_parse(argc, argv, &s, &rc)) rc = obey(&s);
    settings_free(&s);
    if (rc != ENDED_BY_PIPE) return rc;
    if (!pipe_ignored) end_as_on_a_closed_pipe();
    return EXIT_PIPE;
}
