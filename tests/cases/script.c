#include "script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *p) {
    if (!p) {
        fprintf(stderr, "cases: out of memory\n");
        exit(2);
    }
    return p;
}

static char *read_all(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    size_t room = 1 << 16;
    char *text = need(malloc(room));
    for (*len = 0;;) {
        *len += fread(text + *len, 1, room - *len - 1, f);
        if (*len + 1 < room) break;
        text = need(realloc(text, room *= 2));
    }
    fclose(f);
    text[*len] = '\0';
    return text;
}

/* Cuts the line at `*at` off: ends it with NUL in place and moves `*at` behind it. */
static char *take_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    if (end) *end = '\0';
    *at = end ? end + 1 : line + strlen(line);
    return line;
}

static void add_directive(run *r, directive d) {
    r->directives = need(realloc(r->directives, (r->count + 1) * sizeof d));
    r->directives[r->count++] = d;
}

static directive split(char *text, unsigned line) {
    char *name = text + strspn(text, " ");
    size_t len = strcspn(name, " ");
    char *value = name + len;
    if (*value) *value++ = '\0';
    return (directive){ name, value, line };
}

const char *run_get(const run *r, const char *name) {
    for (size_t i = 0; i < r->count; i++) {
        if (!strcmp(r->directives[i].name, name)) return r->directives[i].value;
    }
    return NULL;
}

static run *add_run(script *s, const char *title, unsigned line, int starts_case) {
    s->runs = need(realloc(s->runs, (s->count + 1) * sizeof *s->runs));
    run *r = &s->runs[s->count++];
    *r = (run){ .title = title, .line = line, .starts_case = starts_case };
    return r;
}

/* What the file says for all runs comes behind what a run says itself. */
static void inherit(run *r, const run *file) {
    size_t own = r->count;
    for (size_t i = 0; i < file->count; i++) {
        const directive *d = &file->directives[i];
        int replaced = 0;
        for (size_t j = 0; j < own; j++) replaced |= !strcmp(r->directives[j].name, d->name);
        if (!replaced) add_directive(r, *d);
    }
}

/* Sources are copied with newlines in front, so that tracebacks name the file's own lines. */
static char *copy_line(char *to, const char *line) {
    size_t len = strlen(line);
    memcpy(to, line, len);
    to[len] = '\n';
    return to + len + 1;
}

static size_t count_starts(const char *text) {
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, "\n#")); at++) n += at[2] == '=' || at[2] == '-';
    return n;
}

static char *begin_source(run *r, char *to, unsigned lines_above) {
    r->source = to;
    memset(to, '\n', lines_above);
    return to + lines_above;
}

script script_read(const char *path) {
    size_t len;
    script s = { .text = read_all(path, &len) };
    unsigned lines = 1;
    for (const char *at = s.text; (at = strchr(at, '\n')); at++) lines++;
    s.sources = need(malloc((count_starts(s.text) + 1) * (lines + 1) + len + lines + 1));

    run file = { 0 }, *r = NULL;
    char *at = s.text, *to = s.sources;
    for (unsigned n = 1; *at; n++) {
        char *line = take_line(&at);
        if (!strncmp(line, "#==", 3) || !strncmp(line, "#--", 3)) {
            r = add_run(&s, line + 3 + strspn(line + 3, " "), n, line[1] == '=');
            to = begin_source(r, to, n);
        } else if (!strncmp(line, "#:", 2)) {
            add_directive(r ? r : &file, split(line + 2, n));
            if (r) *to++ = '\n';
        } else if (r) {
            to = copy_line(to, line);
        } else if (*line && *line != '#') {
            fprintf(stderr, "%s:%u: code before the first case\n", path, n);
            exit(2);
        }
        if (r) r->len = (size_t)(to - r->source);
    }
    for (size_t i = 0; i < s.count; i++) inherit(&s.runs[i], &file);
    free(file.directives);
    return s;
}

void script_free(script *s) {
    for (size_t i = 0; i < s->count; i++) free(s->runs[i].directives);
    free(s->runs);
    free(s->sources);
    free(s->text);
}
