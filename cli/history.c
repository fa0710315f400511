/* The lines typed at earlier prompts. See prompt.h. */
#include "prompt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* $XDG_STATE_HOME/brumate/history with its folders made; false: nowhere. */
static bool find(char path[PATH_MAX]) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool own = state && state[0] == '/';
    if (!own && !(home && home[0] == '/')) return false;
    int n = snprintf(path, PATH_MAX, "%s%s/brumate/history", own ? state : home,
                     own ? "" : "/.local/state");
    if (n < 0 || n >= PATH_MAX) return false;
    for (char *p = path + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = '/';
        if (!made) return false;
    }
    return true;
}

/* The file's last HISTORY_BYTES, or NULL. */
static char *load(int fd, size_t *len) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return NULL;
    off_t from = st.st_size > HISTORY_BYTES ? st.st_size - HISTORY_BYTES : 0;
    char *text = malloc(HISTORY_BYTES + 1);
    ssize_t n = text ? pread(fd, text, HISTORY_BYTES, from) : -1;
    if (n < 0) {
        free(text);
        return NULL;
    }
    text[n] = 0;
    *len = (size_t)n;
    return text;
}

/* Where the newest HISTORY_LINES lines begin. */
static size_t newest(const char *text, size_t len) {
    size_t lines = 0, at = len;
    while (at > 0) {
        if (text[at - 1] == '\n' && at < len && ++lines == HISTORY_LINES) break;
        at--;
    }
    return at;
}

/* The file becomes `text`, whole or not at all; `h` goes on in the new one. */
static void replace(history *h, const char *path, const char *text, size_t len) {
    char temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (n < 0 || n >= PATH_MAX) return;
    int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, text, len) == (ssize_t)len && rename(temporary, path) == 0) {
        close(h->fd);
        h->fd = fd;
        return;
    }
    unlink(temporary);
    close(fd);
}

void history_open(history *h, void (*add)(void *ctx, const char *line), void *ctx) {
    char path[PATH_MAX];
    *h = (history){ -1 };
    if (!find(path)) return;
    h->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    size_t len = 0;
    char *text = h->fd >= 0 ? load(h->fd, &len) : NULL;
    if (!text) {
        history_close(h);
        return;
    }
    size_t from = newest(text, len);
    /* Not at each opening: only when it has grown to twice what is kept. */
    if (newest(text, from) > 0 || len == HISTORY_BYTES) replace(h, path, text + from, len - from);
    for (char *line = text + from, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = 0;
        if (*line) add(ctx, line);
    }
    free(text);
}

void history_append(history *h, const char *line) {
    size_t len = strlen(line);
    char *copy = h->fd >= 0 && len < HISTORY_BYTES ? malloc(len + 1) : NULL;
    if (!copy) return;
    memcpy(copy, line, len);
    copy[len] = '\n';
    if (write(h->fd, copy, len + 1) < 0) history_close(h); /* once it fails, it will again */
    free(copy);
}

void history_close(history *h) {
    if (h->fd >= 0) close(h->fd);
    h->fd = -1;
}
