/* Case scripts: guest programs with what is expected of them, one kind of behaviour a file.
 *
 *     # Exits keep their code.            a comment, for people
 *     #: reason exited                    holds for every case of the file, unless said again
 *     #== sys.exit with a number          a case: a fresh session
 *     #: exit 5
 *     import sys; sys.exit(5)
 *     #-- and again                       a further run in the same session
 *
 * Session options are read from a case's first run, expectations from each. cases.c has the words.
 */
#ifndef BRU_TESTS_CASES_SCRIPT_H
#define BRU_TESTS_CASES_SCRIPT_H

#include <stddef.h>

/* `#: name value`. Texts point into the script's own copy of the file. */
typedef struct directive {
    const char *name, *value;
    unsigned line;
} directive;

typedef struct run {
    const char *title;
    const char *source; /* `len` bytes, preceded by as many newlines as the file has above it */
    size_t len;
    unsigned line;
    int starts_case;
    directive *directives; /* own ones first, then those of the file that they do not replace */
    size_t count;
} run;

typedef struct script {
    char *text;
    char *sources;
    run *runs;
    size_t count;
} script;

/* Reads the file at `path`; exits the test program with a message if it cannot. */
script script_read(const char *path);
void script_free(script *s);

/* The first directive called `name`, NULL if there is none. */
const char *run_get(const run *r, const char *name);

#endif
