/* The tables of options, commands and exit codes, and their printing. */
#include "options.h"

#include <stdio.h>
#include <string.h>

const option options[] = {
    { OPT_CODE, 'c', NULL, "CODE", FOR_PROGRAM,
      "run CODE; the arguments after it are the program's" },
    { OPT_MODULE, 'm', NULL, "MODULE", FOR_PROGRAM,
      "run a module as a program, as python -m does" },
    { OPT_INTERACTIVE, 'i', NULL, NULL, FOR_PROMPT,
      "a prompt after the program, or without a terminal" },
    { OPT_QUIET, 'q', NULL, NULL, FOR_PROMPT, "no banner before the prompt" },
    { OPT_TIMEOUT, 't', "timeout", "TIME", FOR_PROGRAM,
      "wall time of the program, or of each statement at the\n"
      "prompt: 500ms, 2s, 1m; none; default 30s, at the prompt none" },
    { OPT_CPU, 0, "cpu", "TIME", FOR_PROGRAM, "CPU time, likewise; default none" },
    { OPT_GRACE, 0, "grace", "TIME", FOR_PROGRAM,
      "from the Python exception at a deadline or at Ctrl-C to\n"
      "the stop that nothing catches; default 100ms, prompt 1s" },
    { OPT_MEMORY, 0, "memory", "SIZE", FOR_PROGRAM,
      "memory, the interpreter's own included: 64M, 1G; none\n"
      "(4G); default 512M" },
    { OPT_OUTPUT, 0, "output", "SIZE", FOR_PROGRAM,
      "stdout and stderr together, of the program or of each\n"
      "statement; none; default 64M" },
    { OPT_OUTPUT_POLICY, 0, "output-policy", "stop|cut", FOR_PROGRAM,
      "at the output limit: stop the program (the default), or\n"
      "throw the rest away and say how much it was" },
    { OPT_FILES, 0, "files", "SIZE", FOR_PROGRAM, "in-memory files; none; default 64M" },
    { OPT_ENV, 'e', "env", "KEY=VALUE", FOR_PROGRAM,
      "an environment variable; nothing else of the environment\n"
      "is shown; may be repeated" },
    { OPT_VOLUME, 'v', "volume", "SRC:DST[:ro|:rw]", FOR_PROGRAM,
      "show the folder or file SRC at the absolute path DST,\n"
      "read-only unless :rw is there; may be repeated" },
    { OPT_DETERMINISTIC, 0, "deterministic", "SEED", FOR_PROGRAM,
      "time and chance are the same in each run: SEED is a number;\n"
      "clocks begin in 2025, sleeping takes no time" },
    { OPT_STATS, 0, "stats", "FILE", FOR_PROGRAM | VALUE_OPTIONAL,
      "after the run, what it used: on stderr, or in FILE" },
    { OPT_CHECKPOINT, 0, "checkpoint", NULL, FOR_PROMPT,
      "at the prompt, remember the session before each statement,\n"
      "for :undo" },
    { OPT_KEY_FILE, 0, "key-file", "FILE", FOR_FROZEN,
      "sign with the bytes of FILE, and open only what was; 16\n"
      "bytes at least" },
    { OPT_IMAGE, 0, "image", "FILE", FOR_PROGRAM,
      "the image to run; default $BRUMATE_IMAGE, else core.bru" },
    { OPT_GUEST, 0, "guest", "FILE", FOR_ALL & ~FOR_SNAPSHOT,
      "the guest's shared object; default core.so in the\n"
      "image's folder" },
    { OPT_ROOT, 0, "root", "DIR", FOR_BUILD,
      "the folder that becomes the guest's read-only files" },
    { OPT_PRELOAD, 0, "preload", "A,B", FOR_BUILD,
      "modules to import before freezing; default the usual ones" },
    { OPT_WRITE, 'o', NULL, "FILE", FOR_BUILD, "the image to write: whole, or not at all" },
    { OPT_WRITE, 'o', NULL, "FILE", FOR_FREEZE | FOR_THAW,
      "the snapshot to write: whole, or not at all" },
    { OPT_HELP, 'h', "help", NULL, FOR_ALL, "print this help" },
    { OPT_VERSION, 'V', "version", NULL, FOR_ALL, "print the version" },
    { 0, 0, NULL, NULL, 0, NULL },
};

static const struct {
    const char *usage, *what;
} commands[] = {
    [COMMAND_RUN] = { "brumate [OPTION...] [SCRIPT | - | -c CODE | -m MODULE] [ARGUMENT...]\n"
                      "       brumate freeze|thaw|snapshot info|image info|build|verify ...",
                      "Runs untrusted Python in a sandbox. Without a program: a prompt, or, where\n"
                      "stdin is no terminal, the program is read from it. `--` ends the options;\n"
                      "what follows the program is the program's. It sees no files but Python's\n"
                      "own, its in-memory ones and what -v shows." },
    [COMMAND_INFO] = { "brumate image info [OPTION...] [FILE]",
                       "Prints what an image is; without FILE, the default one." },
    [COMMAND_BUILD] = { "brumate image build --guest FILE --root DIR [--preload A,B] -o FILE",
                        "Boots a guest, imports modules, freezes it, writes an image." },
    [COMMAND_VERIFY] = { "brumate image verify [OPTION...] FILE...",
                         "Checks each image to its last byte, and that its guest fits." },
    [COMMAND_FREEZE] = { "brumate freeze [OPTION...] -o FILE [SCRIPT | - | -c CODE | -m MODULE] "
                         "[ARGUMENT...]",
                         "Runs a program to its end, or until it waits in an `await`, and writes\n"
                         "its session to FILE: variables, files, what waits. One that fails is\n"
                         "not written." },
    [COMMAND_THAW] = { "brumate thaw [OPTION...] FILE [OPTION...] [SCRIPT | - | -c CODE | -m "
                       "MODULE] "
                       "[ARGUMENT...]",
                       "Goes on in a session that was frozen: first with what waits in it, then\n"
                       "with the program, or without one, if nothing waited, at a prompt. With\n"
                       "-o it is frozen again." },
    [COMMAND_SNAPSHOT] = { "brumate snapshot info [OPTION...] FILE", "Prints what a snapshot is." },
};

static void print_option(const option *o) {
    char left[64];
    size_t at = 0;
    at += (size_t)snprintf(left, sizeof left, o->letter ? "-%c" : "  ", o->letter);
    if (o->name)
        at += (size_t)snprintf(left + at, sizeof left - at, "%s--%s", o->letter ? ", " : "  ",
                               o->name);
    if (o->value)
        snprintf(left + at, sizeof left - at, o->flags & VALUE_OPTIONAL ? "[=%s]" : " %s",
                 o->value);
    printf("  %-26s", left);
    if (strlen(left) > 25) printf("\n  %-26s", "");
    for (const char *p = o->help; *p;) {
        size_t n = strcspn(p, "\n");
        printf(" %.*s\n", (int)n, p);
        p += n + (p[n] == '\n');
        if (*p) printf("  %-26s", "");
    }
}

static void print_exit_codes(void) {
    printf("\nExit codes: the program's own, 1 for an uncaught exception, or\n");
    static const struct {
        int code;
        const char *text;
    } rows[] = {
        { EXIT_OURS, "brumate itself failed: a wrong option, a missing file, a damaged image ..." },
#define ROW(name, text, code) { code, text },
        BRU_REASON_MAP(ROW)
#undef ROW
            { EXIT_PIPE, "nobody reads the output any more" },
    };
    for (int code = EXIT_OURS; code <= EXIT_PIPE; code++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (rows[i].code == code) printf("  %d  %s\n", code, rows[i].text);
    printf("\nWrite a script whose name is a command, such as `image`, as ./image.\n"
           "The manual: man brumate\n");
}

int help_print(command c) {
    printf("usage: %s\n\n%s\n\n", commands[c].usage, commands[c].what);
    for (const option *o = options; o->help; o++)
        if (o->flags & (1u << c)) print_option(o);
    if (c == COMMAND_RUN) print_exit_codes();
    return finish_stdout();
}
