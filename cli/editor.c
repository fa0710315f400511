/* Reading lines. libedit is loaded only when a prompt comes up on a terminal: it and its terminal
 * database would cost every `brumate script.py` a third of a millisecond. Without it lines are read
 * plainly, with the terminal's own editing. */
#include "prompt.h"

#include <dlfcn.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* libedit.so.2 as we use it; its numbers are its ABI. */
typedef struct lineinfo {
    const char *buffer, *cursor, *lastchar;
} lineinfo;
typedef struct history_event {
    int number;
    const char *text;
} history_event;
enum {
    EL_PROMPT = 0,
    EL_EDITOR = 2,
    EL_SIGNAL = 3,
    EL_BIND = 4,
    EL_ADDFN = 9,
    EL_HIST = 10,
    EL_GETCFN = 13
};
enum { CC_REFRESH = 4, CC_REDISPLAY = 8, CC_REFRESH_BEEP = 9 };
enum { CTRL_D = 4 };
enum { H_SETSIZE = 1, H_ENTER = 10, H_SETUNIQUE = 20 };

typedef struct libedit {
    void *(*init)(const char *, FILE *, FILE *, FILE *);
    void (*end)(void *);
    int (*set)(void *, int, ...);
    const char *(*gets)(void *, int *);
    const lineinfo *(*line)(void *);
    int (*insertstr)(void *, const char *);
    void *(*history_init)(void);
    void (*history_end)(void *);
    int (*history)(void *, history_event *, int, ...);
} libedit;

struct editor {
    ctrl_c *interrupts;
    input *in;
    const char *(*complete)(void *ctx, const char *, size_t);
    void *ctx;
    const char *prompt;
    bool woken; /* Ctrl-C came while a line was read */
    char *line; /* of plain reading */
    size_t line_cap;
    libedit lib;
    void *edit; /* NULL: plain reading */
    void *past;
    FILE *screen;
    history history;
};

/* --- libedit --- */

static bool load_libedit(libedit *l) {
    void *so = dlopen("libedit.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (!so) return false;
    const struct {
        const char *name;
        void *to;
    } symbols[] = {
        { "el_init", &l->init },
        { "el_end", &l->end },
        { "el_set", &l->set },
        { "el_gets", &l->gets },
        { "el_line", &l->line },
        { "el_insertstr", &l->insertstr },
        { "history_init", &l->history_init },
        { "history_end", &l->history_end },
        { "history", &l->history },
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(so, symbols[i].name);
        if (!symbol) return false;
        memcpy(symbols[i].to, &symbol, sizeof symbol); /* POSIX lets data pointers be functions */
    }
    return true;
}

/* libedit calls back with its own handle alone; there is one prompt in a process. */
static editor *current;

static char *show_prompt(void *edit) {
    (void)edit;
    return (char *)(uintptr_t)current->prompt; /* libedit only reads it */
}

/* One character, waiting in a way that Ctrl-C ends. 1, or 0 at the end of the input. */
static int get_character(void *edit, wchar_t *out) {
    editor *e = current;
    mbstate_t state = { 0 };
    for (;;) {
        char byte;
        if (io_wait(e->interrupts, STDIN_FILENO, POLLIN, UINT64_MAX) != WAIT_READY) {
            e->woken = true;
            return 0;
        }
        if (read(STDIN_FILENO, &byte, 1) != 1) return 0;
        /* A Ctrl-D typed before libedit took the terminal over arrives as a zero. */
        const lineinfo *line = byte == 0 ? e->lib.line(edit) : NULL;
        if (line && line->lastchar == line->buffer) byte = CTRL_D;
        size_t n = mbrtowc(out, &byte, 1, &state);
        if (n == (size_t)-2) continue; /* the first bytes of a character */
        if (n == (size_t)-1) *out = L'?';
        return 1;
    }
}

static bool word_byte(char c) {
    unsigned char u = (unsigned char)c;
    return u >= 0x80 || u == '_' || u == '.' || (u >= '0' && u <= '9') ||
           ((u | 32) >= 'a' && (u | 32) <= 'z');
}

/* What a guest offers is shown and inserted only if it is plain text. */
static bool plain(const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f) return false;
    return len > 0;
}

/* Goes over the plain ones of `list`; NULL at the end. */
static const char *next_candidate(const char **list, size_t *len) {
    while (**list) {
        const char *at = *list;
        *len = strcspn(at, "\n");
        *list += *len + (at[*len] == '\n');
        if (plain(at, *len)) return at;
    }
    return NULL;
}

static void show_candidates(editor *e, const char *list) {
    enum { MOST = 200 };
    size_t len, count = 0;
    fputc('\n', e->screen);
    for (const char *c; (c = next_candidate(&list, &len)) != NULL && count < MOST; count++)
        fprintf(e->screen, "%.*s%s", (int)(len < 200 ? len : 200), c, count % 4 == 3 ? "\n" : "  ");
    fputs(count == MOST ? "...\n" : count % 4 ? "\n" : "", e->screen);
    fflush(e->screen);
}

/* How long the beginning is that all candidates share; 0: there are none. */
static size_t shared_length(const char *list, const char **first, size_t *count) {
    size_t shared = 0, len;
    *count = 0;
    for (const char *c; (c = next_candidate(&list, &len)) != NULL; ++*count) {
        if (*count == 0) {
            *first = c;
            shared = len;
        }
        size_t same = 0;
        while (same < shared && same < len && c[same] == (*first)[same]) same++;
        shared = same;
    }
    /* Not in the middle of a character. */
    while (shared > 0 && *count > 1 && ((unsigned char)(*first)[shared] & 0xc0) == 0x80) shared--;
    return shared;
}

static unsigned char complete(void *edit, int ch) {
    (void)ch;
    editor *e = current;
    const lineinfo *line = e->lib.line(edit);
    size_t len = (size_t)(line->cursor - line->buffer), word = 0, blank = 0;
    while (blank < len && line->buffer[blank] == ' ') blank++;
    if (blank == len) return e->lib.insertstr(edit, "    ") == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
    while (word < len && word_byte(line->buffer[len - 1 - word])) word++;
    const char *list = e->complete(e->ctx, line->buffer, len), *first = NULL;
    size_t count = 0, shared = list ? shared_length(list, &first, &count) : 0;
    if (count == 0) return CC_REFRESH_BEEP;
    if (shared > word && shared - word < 256) {
        char rest[256];
        memcpy(rest, first + word, shared - word);
        rest[shared - word] = 0;
        return e->lib.insertstr(edit, rest) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
    }
    if (count < 2) return CC_REFRESH_BEEP;
    show_candidates(e, list);
    return CC_REDISPLAY;
}

static void remember(void *ctx, const char *line) {
    editor *e = ctx;
    history_event event;
    (void)e->lib.history(e->past, &event, H_ENTER, line);
}

/* Bytes typed are UTF-8, whatever locale we were started in. */
static void set_locale(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
}

static void open_libedit(editor *e) {
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO) || !load_libedit(&e->lib)) return;
    set_locale();
    current = e;
    e->screen = stderr;
    e->edit = e->lib.init("brumate", stdin, stderr, stderr);
    e->past = e->edit ? e->lib.history_init() : NULL;
    if (!e->past) return;
    history_event event;
    (void)e->lib.history(e->past, &event, H_SETSIZE, (int)HISTORY_LINES);
    (void)e->lib.history(e->past, &event, H_SETUNIQUE, 1);
    (void)e->lib.set(e->edit, EL_PROMPT, show_prompt);
    (void)e->lib.set(e->edit, EL_EDITOR, "emacs");
    (void)e->lib.set(e->edit, EL_SIGNAL, 1);
    (void)e->lib.set(e->edit, EL_HIST, e->lib.history, e->past);
    (void)e->lib.set(e->edit, EL_GETCFN, get_character);
    (void)e->lib.set(e->edit, EL_ADDFN, "complete", "complete the word", complete);
    (void)e->lib.set(e->edit, EL_BIND, "\t", "complete", NULL);
    (void)e->lib.set(e->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    history_open(&e->history, remember, e);
}

static line_end edited(editor *e, const char **line) {
    int count = 0;
    e->woken = false;
    const char *text = e->lib.gets(e->edit, &count);
    if (!text || count <= 0) {
        fputc('\n', e->screen);
        fflush(e->screen);
        return e->woken ? LINE_INTERRUPTED : LINE_EOF;
    }
    free(e->line);
    e->line = strdup(text);
    if (!e->line) return LINE_EOF;
    e->line[strcspn(e->line, "\n")] = 0;
    *line = e->line;
    if (e->line[strspn(e->line, " \t")]) {
        remember(e, e->line);
        history_append(&e->history, e->line);
    }
    return LINE_READ;
}

/* --- plain reading --- */

static bool keep(editor *e, size_t len, char c) {
    if (len + 1 >= e->line_cap) {
        size_t cap = e->line_cap ? e->line_cap * 2 : 256;
        char *more = cap <= SOURCE_CEILING ? realloc(e->line, cap) : NULL;
        if (!more) return false;
        e->line = more;
        e->line_cap = cap;
    }
    e->line[len] = c;
    e->line[len + 1] = 0;
    return true;
}

static line_end read_plainly(editor *e, const char **line) {
    input *in = e->in;
    size_t len = 0;
    (void)io_write(NULL, STDERR_FILENO, e->prompt, strlen(e->prompt), io_now() + 1000000000u);
    for (;;) {
        if (input_fill(in, e->interrupts, UINT64_MAX) != WAIT_READY) return LINE_INTERRUPTED;
        if (in->at == in->len) { /* the end; a last line may lack its newline */
            if (len == 0) return LINE_EOF;
            break;
        }
        char c = in->data[in->at++];
        if (c == '\n') break;
        if (!keep(e, len++, c)) {
            say("the line is too long");
            return LINE_EOF;
        }
    }
    if (len == 0 && !keep(e, 0, 0)) return LINE_EOF;
    *line = e->line;
    return LINE_READ;
}

editor *editor_new(ctrl_c *c, input *in, const char *(*complete_word)(void *, const char *, size_t),
                   void *ctx) {
    editor *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    *e = (editor){
        .interrupts = c, .in = in, .complete = complete_word, .ctx = ctx, .history = { -1 }
    };
    open_libedit(e);
    return e;
}

line_end editor_read(editor *e, const char *prompt, const char **line) {
    e->prompt = prompt;
    ctrl_c_prompt(e->interrupts, true);
    line_end end = e->edit && e->past ? edited(e, line) : read_plainly(e, line);
    ctrl_c_prompt(e->interrupts, false);
    return end;
}

void editor_free(editor *e) {
    if (!e) return;
    if (e->past) e->lib.history_end(e->past);
    if (e->edit) e->lib.end(e->edit);
    history_close(&e->history);
    free(e->line);
    current = NULL;
    free(e);
}
