/* What the prompt is made of: a line editor with a history. */
#ifndef BRUMATE_CLI_PROMPT_H
#define BRUMATE_CLI_PROMPT_H

#include "cli.h"

/* history.c: lines in $XDG_STATE_HOME/brumate/history, mode 0600; ~/.local/state without the
 * variable. Each line is appended as it is entered, so that two prompts lose nothing to each other;
 * on opening, a file that has grown too long is cut to its newest lines. Whatever fails, the prompt
 * goes on without. */
typedef struct history {
    int fd; /* -1: none */
} history;
enum { HISTORY_LINES = 1000, HISTORY_BYTES = 1 << 20 };
/* Calls `add` for each line, oldest first. */
void history_open(history *h, void (*add)(void *ctx, const char *line), void *ctx);
void history_append(history *h, const char *line);
void history_close(history *h);

typedef enum line_end { LINE_READ, LINE_EOF, LINE_INTERRUPTED } line_end;

/* editor.c: reads lines, through libedit where there is a terminal and the library. */
typedef struct editor editor;
/* `complete` answers what could replace the last word of a text, one a line, or NULL; borrowed
 * until its next call. NULL: no memory. */
editor *editor_new(ctrl_c *c, input *in, const char *(*complete)(void *ctx, const char *, size_t),
                   void *ctx);
/* `*line` has no newline and is borrowed until the next call. */
line_end editor_read(editor *e, const char *prompt, const char **line);
void editor_free(editor *e);

/* repl.c: beside the prompt, as Python has it there: without our prefix. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* branch.c: ways back and twins, by lines that begin with a colon. */
enum { BRANCH_WAYS = 100, BRANCH_LEVELS = 32 };
#define BRANCH_BYTES ((size_t)512 << 20)

typedef struct branch_way {
    bru_snapshot *snapshot;
    size_t len;
    unsigned level; /* of the twin that it is of */
} branch_way;

typedef struct branches {
    runner *r;
    branch_way ways[BRANCH_WAYS]; /* oldest first */
    size_t count, bytes;
    bru_session *parents[BRANCH_LEVELS]; /* whom one comes back to */
    unsigned level;
} branches;

/* Remembers the session as it is, and forgets the oldest if there are too many. */
void branch_remember(branches *b);
/* Whether the line was one of ours; then it was obeyed. */
bool branch_line(branches *b, const char *line);
void branches_free(branches *b);

#endif
