/* Program text. The library takes UTF-8, so that is what leaves here: without a byte order mark,
 * converted if the source declares another encoding (PEP 263), and checked. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

void program_free(source *s) {
    free(s->text);
    *s = (source){ 0 };
}

/* Reads `fd` to its end; a byte more than `guess` saves a second look. */
static int read_all(int fd, const char *name, size_t guess, source *out) {
    size_t cap = 0;
    *out = (source){ 0 };
    for (;;) {
        if (out->len == cap) {
            size_t want = cap ? cap * 2 : guess + 1;
            if (want > SOURCE_CEILING + (size_t)1) want = SOURCE_CEILING + (size_t)1;
            if (out->len > SOURCE_CEILING) return fail("%s: larger than 64 MiB", name);
            char *more = realloc(out->text, want);
            if (!more) return fail("%s: out of memory", name);
            out->text = more;
            cap = want;
        }
        ssize_t n = read(fd, out->text + out->len, cap - out->len);
        if (n == 0) return 0;
        if (n > 0)
            out->len += (size_t)n;
        else if (errno == EAGAIN)
            (void)poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
        else if (errno != EINTR)
            return fail("%s: %s", name, strerror(errno));
    }
}

/* Lines are counted as Python counts them. */
static size_t line_of(const source *s, size_t at) {
    size_t line = 1;
    for (size_t i = 0; i < at; i++) line += s->text[i] == '\n';
    return line;
}

/* How many bytes are whole UTF-8: all of them, or up to the first that is not. */
static size_t utf8_length(const source *s) {
    static const struct {
        unsigned char first, last, low, high, more; /* of the first and the second byte */
    } kinds[] = {
        { 0xc2, 0xdf, 0x80, 0xbf, 1 }, { 0xe0, 0xe0, 0xa0, 0xbf, 2 }, { 0xe1, 0xec, 0x80, 0xbf, 2 },
        { 0xed, 0xed, 0x80, 0x9f, 2 }, { 0xee, 0xef, 0x80, 0xbf, 2 }, { 0xf0, 0xf0, 0x90, 0xbf, 3 },
        { 0xf1, 0xf3, 0x80, 0xbf, 3 }, { 0xf4, 0xf4, 0x80, 0x8f, 3 },
    };
    const unsigned char *t = (const unsigned char *)s->text;
    size_t i = 0;
    while (i < s->len) {
        if (t[i] < 0x80) {
            i++;
            continue;
        }
        size_t k = 0, n = sizeof kinds / sizeof *kinds;
        while (k < n && !(t[i] >= kinds[k].first && t[i] <= kinds[k].last)) k++;
        if (k == n || s->len - i <= kinds[k].more) return i;
        if (t[i + 1] < kinds[k].low || t[i + 1] > kinds[k].high) return i;
        for (size_t j = 2; j <= kinds[k].more; j++)
            if ((t[i + j] & 0xc0) != 0x80) return i;
        i += (size_t)kinds[k].more + 1;
    }
    return i;
}

static bool one_of(char c, const char *set) {
    return c && strchr(set, c);
}

/* The encoding that a comment in [p, end) declares: "coding", then : or =, then its name. */
static bool comment_encoding(const char *p, const char *end, char out[40]) {
    for (; end - p > 7; p++) {
        if (memcmp(p, "coding", 6) != 0 || !one_of(p[6], ":=")) continue;
        p += 7;
        while (p < end && one_of(*p, " \t")) p++;
        size_t n = 0;
        while (p + n < end && (one_of(p[n], "-_.") || (p[n] >= '0' && p[n] <= '9') ||
                               ((p[n] | 32) >= 'a' && (p[n] | 32) <= 'z')))
            n++;
        if (n == 0) return false;
        snprintf(out, 40, "%.*s", (int)(n < 39 ? n : 39), p);
        return true;
    }
    return false;
}

/* It may stand on the first line, or on the second if the first is blank or a comment. */
static bool declared_encoding(const source *s, char out[40]) {
    const char *p = s->text, *end = s->text + s->len;
    for (int line = 0; line < 2 && p < end; line++) {
        const char *stop = p;
        while (stop < end && *stop != '\n' && *stop != '\r') stop++;
        while (p < stop && one_of(*p, " \t\f")) p++;
        if (p < stop && *p != '#') return false;
        if (comment_encoding(p, stop, out)) return true;
        p = stop < end ? stop + 1 + (*stop == '\r' && stop + 1 < end && stop[1] == '\n') : end;
    }
    return false;
}

/* Python's names that iconv does not know. NULL: UTF-8 already, or a part of it. "": no encoding
 * for source text. */
static const char *iconv_name(char *name) {
    for (char *p = name; *p; p++) *p = *p == '_' ? '-' : *p;
    static const char *const same[] = { "utf-8", "utf8", "u8", "ascii", "us-ascii", "utf-8-sig" };
    static const char *const latin[] = { "latin-1", "latin1", "iso-latin-1", "l1", "iso8859-1" };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcasecmp(name, same[i]) == 0) return NULL;
    for (size_t i = 0; i < sizeof latin / sizeof *latin; i++)
        if (strcasecmp(name, latin[i]) == 0) return "ISO-8859-1";
    if (strncasecmp(name, "utf-8-", 6) == 0) return NULL;
    if (strncasecmp(name, "utf", 3) == 0 || strncasecmp(name, "ucs", 3) == 0) return "";
    return name;
}

static int convert(const char *name, const char *encoding, const char *as, source *s) {
    iconv_t cd = *as ? iconv_open("UTF-8", as) : (iconv_t)-1;
    if (cd == (iconv_t)-1)
        return fail("%s: the encoding \"%s\" is not known; save it as UTF-8", name, encoding);
    /* No byte of any charset becomes more than four bytes of UTF-8. */
    size_t room = s->len * 4 + 1, in_left = s->len, out_left = room;
    char *text = malloc(room), *in = s->text, *to = text;
    if (!text) {
        iconv_close(cd);
        return fail("%s: out of memory", name);
    }
    size_t n = iconv(cd, &in, &in_left, &to, &out_left);
    iconv_close(cd);
    if (n == (size_t)-1 || in_left) {
        size_t line = line_of(s, s->len - in_left);
        free(text);
        return fail("%s: line %zu is not text in \"%s\", which it declares", name, line, encoding);
    }
    free(s->text);
    *s = (source){ text, (size_t)(to - text) };
    return 0;
}

/* From bytes as they were read to what the library takes. */
static int decode(const char *name, source *s) {
    bool mark = s->len >= 3 && memcmp(s->text, "\xef\xbb\xbf", 3) == 0;
    if (mark) memmove(s->text, s->text + 3, s->len -= 3);
    if (s->len >= 4 && memcmp(s->text, "PK\3\4", 4) == 0)
        return fail("%s: a zip archive; unpack it and show its folder with -v", name);
    if (s->len >= 16 && memcmp(s->text + 2, "\r\n", 2) == 0 && memchr(s->text, 0, 16))
        return fail("%s: compiled Python; only source text is run", name);
    char encoding[40], spelled[40];
    if (!mark && declared_encoding(s, encoding)) {
        memcpy(spelled, encoding, sizeof spelled);
        const char *as = iconv_name(spelled);
        if (as) return convert(name, encoding, as, s);
    }
    size_t good = utf8_length(s);
    if (good == s->len) return 0;
    return fail("%s: line %zu is not UTF-8 and no other encoding is declared", name,
                line_of(s, good));
}

int source_file(const char *path, source *out) {
    *out = (source){ 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return fail("%s: %s", path, strerror(errno));
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) != 0)
        rc = fail("%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = fail("%s: a folder; name a file of Python source", path);
    bool sized = !rc && S_ISREG(st.st_mode) && st.st_size >= 0;
    if (sized && st.st_size > SOURCE_CEILING) rc = fail("%s: larger than 64 MiB", path);
    if (!rc) rc = read_all(fd, path, sized ? (size_t)st.st_size : 64 << 10, out);
    close(fd);
    if (!rc) rc = decode(path, out);
    if (rc) program_free(out);
    return rc;
}

int source_stdin(source *out) {
    int rc = read_all(STDIN_FILENO, "stdin", 64 << 10, out);
    if (!rc) rc = decode("stdin", out);
    if (rc) program_free(out);
    return rc;
}

int source_text(const char *name, const char *text, source *out) {
    *out = (source){ strdup(text), strlen(text) };
    int rc = out->text ? 0 : fail("out of memory");
    if (!rc && utf8_length(out) != out->len) rc = fail("%s: not UTF-8", name);
    if (rc) program_free(out);
    return rc;
}
