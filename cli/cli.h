/* What the files of the command share: its settings, its voice, and how it waits.
 *
 * The command stands on the public header alone. Its own lines go to stderr and begin with
 * "brumate: "; stdout belongs to the guest, byte for byte. */
#ifndef BRUMATE_CLI_H
#define BRUMATE_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "brumate.h"

/* Exit codes of ours; those of a guest's end come from BRU_REASON_MAP. */
enum { EXIT_OURS = 120, EXIT_INTERRUPTED = 130, EXIT_PIPE = 141 };
/* What a command answers when nobody reads its output: no exit code, so that it is not taken for a
 * guest's own 141. main() makes it one. */
enum { ENDED_BY_PIPE = 0x100 | EXIT_PIPE };

enum { SOURCE_CEILING = 64 << 20 };

typedef enum command {
    COMMAND_RUN,
    COMMAND_INFO,
    COMMAND_BUILD,
    COMMAND_VERIFY,
    COMMAND_FREEZE,
    COMMAND_THAW,
    COMMAND_SNAPSHOT
} command;

/* What the command line asked for. Texts are borrowed from argv. */
typedef struct settings {
    command command;
    const char *code;        /* -c */
    const char *module;      /* -m */
    const char *script;      /* "-" is stdin; all three NULL: no program was named */
    const char *const *args; /* what follows the program, or the operands of another command */
    size_t arg_count;
    bool interactive, quiet, stats;
    bool checkpoint;      /* before each statement of the prompt */
    const char *snapshot; /* thaw, snapshot info: the file */
    const char *key_file;
    bool deterministic;
    bru_deterministic fixed; /* then: seed and start */
    const char *stats_path;
    bool timeout_given, grace_given;
    bru_limits limits;
    bru_mount *mounts;
    size_t mount_count;
    const char **env;
    size_t env_count;
    const char *image, *guest, *root, *output;
    char *preload; /* one a line */
} settings;

/* options.c: fills `*s`, or says what is wrong. False: leave with `*exit_code`, which is 0 after
 * --help and --version. settings_free copes with half-filled ones. */
bool options_parse(int argc, char **argv, settings *s, int *exit_code);
void settings_free(settings *s);

/* help.c: prints it to stdout; answers an exit code. */
int help_print(command c);

/* number.c: "1.5s", "64M", "none" (BRU_NO_LIMIT). False if it is none of these, or 0, or larger
 * than 2^62. Times need a unit; sizes are bytes without one. */
bool number_time(const char *text, uint64_t *ns);
bool number_size(const char *text, uint64_t *bytes);
/* Decimal digits alone, below 2^64. */
bool number_whole(const char *text, uint64_t *out);
/* The other way, as short as it is exact: "64M", "30s", "none". */
const char *number_show_time(uint64_t ns, char out[32]);
const char *number_show_size(uint64_t bytes, char out[32]);

/* say.c: one line on stderr; control characters are escaped. The last two answer EXIT_OURS. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_text(const char *text, size_t len); /* as it is */
int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fail_error(const bru_error *err);
/* Flushes what was printed to stdout: 0, or EXIT_OURS after saying why not. */
int finish_stdout(void);

/* ctrl_c.c: SIGINT as something that can be waited for. While a session is its target the first
 * Ctrl-C is a KeyboardInterrupt, the second a hard stop, the third leaves at once; without a target
 * it leaves, but at a prompt, where it only wakes. Where SIGINT is ignored it stays so. */
typedef struct ctrl_c ctrl_c;
ctrl_c *ctrl_c_new(void);                            /* never NULL; there is one */
void ctrl_c_target(ctrl_c *c, bru_session *session); /* NULL: none; forgets earlier presses */
void ctrl_c_prompt(ctrl_c *c, bool at_prompt);       /* forgets earlier presses */

/* io.c: waiting and moving bytes. Times are of CLOCK_MONOTONIC, UINT64_MAX: for ever. */
typedef enum wait_end { WAIT_READY, WAIT_TIME, WAIT_WOKEN } wait_end;
uint64_t io_now(void);
wait_end io_wait(ctrl_c *c, int fd, short events, uint64_t until); /* fd -1: sleeps; c NULL: deaf */

typedef enum write_end {
    WRITE_DONE,
    WRITE_STALLED, /* nobody took it in time, or Ctrl-C came while it stalled; errno says no more */
    WRITE_FAILED   /* errno says why */
} write_end;
write_end io_write(ctrl_c *c, int fd, const void *data, size_t len, uint64_t until);

/* stdin, shared by a prompt that reads lines and a guest that reads bytes. */
typedef struct input {
    char *data; /* INPUT_CHUNK bytes, once something was wanted */
    size_t at, len;
    bool ended;
} input;
enum { INPUT_CHUNK = 64 << 10 };
/* Makes at least one byte ready, or sets `ended` (after an error too, which was said). */
wait_end input_fill(input *in, ctrl_c *c, uint64_t until);
void input_free(input *in);

/* source.c: program text, UTF-8 without byte order mark. 0, or EXIT_OURS after saying why. */
typedef struct source {
    char *text;
    size_t len;
} source;
int source_file(const char *path, source *out);
int source_stdin(source *out);
int source_text(const char *name, const char *text, source *out);
void program_free(source *s);

/* A session with what serves it. */
typedef struct runner {
    const settings *settings;
    ctrl_c *interrupts;
    bru_session *session;
    input *input;
    bool lines; /* give input a line at a time: a prompt reads from it too */
    /* If it is not NULL, a program that waits at rest is stopped there: it is asked for a snapshot,
     * which it puts here. */
    bru_snapshot *(*freeze)(struct runner *r);
    bru_snapshot *frozen;
} runner;

/* pump.c: runs `src` to its end, passing bytes both ways; without `src`, what waits in the session.
 * 0 and a result, or an exit code of ours with `*out` NULL, when its output had nowhere to go. If
 * it was frozen on the way, 0 and no result. */
int pump(runner *r, const source *src, bru_exec_options options, bru_result **out);

/* report.c: after a run, on stderr: the limit that ended it, --stats. A traceback was printed by
 * the guest itself. */
void report_end(const settings *s, const bru_result *result);
int report_stats(const runner *r, const bru_result *result);

/* run.c, repl.c, image.c, freeze.c: the commands. They answer the exit code. */
int command_run(const settings *s, ctrl_c *interrupts);
int command_image(const settings *s);
int command_freeze(const settings *s, ctrl_c *interrupts);
int command_thaw(const settings *s, ctrl_c *interrupts);
int command_snapshot(const settings *s);
int repl(runner *r, const bru_image *image);

/* report.c: a session that a limit ended starts afresh, and says so. 0, or EXIT_OURS. */
int report_revival(bru_session *session);

#endif
