/* Ways back and twins at the prompt. No statement of Python begins with a colon. */
#include "prompt.h"

#include <string.h>

static void forget(branches *b, size_t at) {
    b->bytes -= b->ways[at].len;
    bru_snapshot_free(b->ways[at].snapshot);
    memmove(&b->ways[at], &b->ways[at + 1], (--b->count - at) * sizeof b->ways[0]);
}

static bool remember(branches *b) {
    branch_way way = { NULL, 0, b->level };
    bru_error err = { 0 };
    if (bru_session_snapshot(b->r->session, NULL, &way.snapshot, &err)) {
        tell("No checkpoint: %s\n", err.message);
        return false;
    }
    (void)bru_snapshot_bytes(way.snapshot, &way.len);
    while (b->count && (b->count == BRANCH_WAYS || b->bytes + way.len > BRANCH_BYTES)) forget(b, 0);
    b->bytes += way.len;
    b->ways[b->count++] = way;
    return true;
}

void branch_remember(branches *b) {
    (void)remember(b);
}

static void checkpoint(branches *b) {
    if (remember(b))
        tell("Checkpoint of %zu KB; :undo comes back to it.\n", b->ways[b->count - 1].len >> 10);
}

static void undo(branches *b) {
    bru_error err = { 0 };
    if (b->count == 0 || b->ways[b->count - 1].level != b->level) {
        tell("Nothing to go back to; :checkpoint remembers, or --checkpoint before each "
             "statement.\n");
        return;
    }
    if (bru_session_restore(b->r->session, b->ways[b->count - 1].snapshot, &err))
        tell("Not undone: %s\n", err.message);
    else
        tell("Undone.\n");
    forget(b, b->count - 1);
}

static void fork_session(branches *b) {
    bru_session *twin;
    bru_error err = { 0 };
    if (b->level == BRANCH_LEVELS) {
        tell("No twin: %d are the most at a time; :back leaves one.\n", BRANCH_LEVELS);
    } else if (bru_session_fork(b->r->session, &twin, &err)) {
        tell("No twin: %s\n", err.message);
    } else {
        b->parents[b->level++] = b->r->session;
        b->r->session = twin;
        tell("In a twin; :back leaves it.\n");
    }
}

static void back(branches *b) {
    if (b->level == 0) {
        tell("This is no twin; :fork makes one.\n");
        return;
    }
    while (b->count && b->ways[b->count - 1].level == b->level) forget(b, b->count - 1);
    bru_session_free(b->r->session);
    b->r->session = b->parents[--b->level];
    tell("The twin is gone; this is the session that it was made of.\n");
}

static void help(branches *b);

static const struct {
    const char *name, *what;
    void (*obey)(branches *b);
} words[] = {
    { "checkpoint", "remember the session as it is", checkpoint },
    { "undo", "go back to where it was remembered last", undo },
    { "fork", "go on in a twin of the session", fork_session },
    { "back", "leave the twin for the session it was made of", back },
    { "help", "this", help },
};
enum { WORDS = sizeof words / sizeof *words };

static void help(branches *b) {
    (void)b;
    for (size_t i = 0; i < WORDS; i++) tell(":%-11s %s\n", words[i].name, words[i].what);
    tell("With --checkpoint the session is remembered before each statement.\n");
}

bool branch_line(branches *b, const char *line) {
    line += strspn(line, " \t");
    if (*line != ':') return false;
    line++;
    size_t len = strcspn(line, " \t\r");
    for (size_t i = 0; i < WORDS; i++)
        if (len == strlen(words[i].name) && memcmp(line, words[i].name, len) == 0 &&
            !line[len + strspn(line + len, " \t\r")]) {
            words[i].obey(b);
            return true;
        }
    tell("No such command; :help lists them.\n");
    return true;
}

void branches_free(branches *b) {
    while (b->count) forget(b, b->count - 1);
    while (b->level) bru_session_free(b->parents[--b->level]);
}
