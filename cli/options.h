/* The table of options: what is parsed, what --help prints, what the manual is checked against. */
#ifndef BRUMATE_CLI_OPTIONS_H
#define BRUMATE_CLI_OPTIONS_H

#include "cli.h"

typedef enum option_id {
    OPT_CODE,
    OPT_MODULE,
    OPT_INTERACTIVE,
    OPT_QUIET,
    OPT_TIMEOUT,
    OPT_CPU,
    OPT_GRACE,
    OPT_MEMORY,
    OPT_OUTPUT,
    OPT_OUTPUT_POLICY,
    OPT_FILES,
    OPT_ENV,
    OPT_VOLUME,
    OPT_DETERMINISTIC,
    OPT_STATS,
    OPT_CHECKPOINT,
    OPT_KEY_FILE,
    OPT_IMAGE,
    OPT_GUEST,
    OPT_ROOT,
    OPT_PRELOAD,
    OPT_WRITE,
    OPT_HELP,
    OPT_VERSION
} option_id;

enum option_flag {
    FOR_RUN = 1u << COMMAND_RUN,
    FOR_INFO = 1u << COMMAND_INFO,
    FOR_BUILD = 1u << COMMAND_BUILD,
    FOR_VERIFY = 1u << COMMAND_VERIFY,
    FOR_FREEZE = 1u << COMMAND_FREEZE,
    FOR_THAW = 1u << COMMAND_THAW,
    FOR_SNAPSHOT = 1u << COMMAND_SNAPSHOT,
    FOR_PROMPT = FOR_RUN | FOR_THAW, /* what may have one */
    FOR_PROGRAM = FOR_PROMPT | FOR_FREEZE,
    FOR_FROZEN = FOR_FREEZE | FOR_THAW | FOR_SNAPSHOT,
    FOR_ALL = FOR_PROGRAM | FOR_SNAPSHOT | FOR_INFO | FOR_BUILD | FOR_VERIFY,
    VALUE_OPTIONAL = 1u << 8 /* only as --name=VALUE */
};

typedef struct option {
    option_id id;
    char letter;       /* 0: none */
    const char *name;  /* without dashes; NULL: only the letter */
    const char *value; /* what the value is called in the help; NULL: takes none */
    unsigned flags;
    const char *help; /* lines are broken by hand */
} option;

extern const option options[]; /* ends with .help NULL */

/* Defaults of the command, where they are not the library's. */
enum {
    RUN_TIMEOUT_S = 30,
    RUN_GRACE_MS = 100,
    REPL_GRACE_MS = 1000,
    MEMORY_MIB = 512,
    OUTPUT_MIB = 64,
    FIXED_START_S = 1735689600 /* of 2025, as in the Python package */
};

#endif
