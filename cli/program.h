/* What running, freezing and thawing share (run.c): a program, and where it runs. */
#ifndef BRUMATE_CLI_PROGRAM_H
#define BRUMATE_CLI_PROGRAM_H

#include "cli.h"

/* Where the program comes from, and what Python is told about it. */
typedef struct program {
    source source;
    bru_exec_options exec;
    const char **argv;
    bool from_stdin, none;
    bool waiting; /* in the session already: there is no source */
} program;

/* 0, or an exit code of ours. Unload it whatever comes of it. */
int program_load(const settings *s, program *p);
void program_unload(program *p);

int image_open_for(const settings *s, bru_image **out);
/* `prompt`: there may be one. */
bru_session_options session_options_for(const settings *s, bool prompt);

/* Runs it; answers the exit code. `*went` tells whether a prompt may follow in the same session. */
int program_run(runner *r, const program *p, bool *went);
/* And then a prompt, if one is wanted. */
int program_run_in(runner *r, const program *p, const bru_image *image);

#endif
