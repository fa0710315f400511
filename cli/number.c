/* Times and sizes as people write them, checked to the last character. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

#define NUMBER_CEILING (UINT64_C(1) << 62)
enum { FRACTION_DIGITS = 6 }; /* 10^6 times the largest factor still fits */

static const unit time_units[] = {
    { "ns", 1 },          { "us", 1000 },         { "ms", 1000000 }, { "s", 1000000000 },
    { "m", 60000000000 }, { "h", 3600000000000 }, { NULL, 0 },
};
static const unit size_units[] = {
    { "", 1 },          { "B", 1 },        { "K", 1 << 10 },   { "KB", 1 << 10 },
    { "KiB", 1 << 10 }, { "M", 1 << 20 },  { "MB", 1 << 20 },  { "MiB", 1 << 20 },
    { "G", 1 << 30 },   { "GB", 1 << 30 }, { "GiB", 1 << 30 }, { NULL, 0 },
};

static bool digit(char c) {
    return c >= '0' && c <= '9';
}

static bool parse(const char *p, const unit *units, uint64_t *out) {
    if (strcmp(p, "none") == 0) {
        *out = BRU_NO_LIMIT;
        return true;
    }
    if (!digit(*p)) return false;
    uint64_t whole = 0, fraction = 0, scale = 1;
    for (; digit(*p); p++) {
        if (whole > NUMBER_CEILING / 10) return false;
        whole = whole * 10 + (uint64_t)(*p - '0');
    }
    if (*p == '.') {
        if (!digit(*++p)) return false;
        for (int n = 0; digit(*p); p++) {
            if (++n > FRACTION_DIGITS) return false;
            fraction = fraction * 10 + (uint64_t)(*p - '0');
            scale *= 10;
        }
    }
    const unit *u = units;
    while (u->name && strcasecmp(u->name, p) != 0) u++;
    if (!u->name || whole > NUMBER_CEILING / u->factor) return false;
    *out = whole * u->factor + fraction * u->factor / scale;
    return *out > 0 && *out <= NUMBER_CEILING;
}

bool number_time(const char *text, uint64_t *ns) {
    return parse(text, time_units, ns);
}

bool number_size(const char *text, uint64_t *bytes) {
    return parse(text, size_units, bytes);
}

bool number_whole(const char *text, uint64_t *out) {
    const char *p = text;
    for (*out = 0; digit(*p); p++) {
        uint64_t more = (uint64_t)(*p - '0');
        if (*out > (UINT64_MAX - more) / 10) return false;
        *out = *out * 10 + more;
    }
    return p > text && !*p;
}

static const char *show(uint64_t value, const unit *units, char out[32]) {
    if (value == BRU_NO_LIMIT) return "none";
    const unit *best = units;
    for (const unit *u = units; u->name; u++)
        if (value % u->factor == 0 && u->factor > best->factor) best = u;
    snprintf(out, 32, "%" PRIu64 "%s", value / best->factor, best->name);
    return out;
}

const char *number_show_time(uint64_t ns, char out[32]) {
    return show(ns, time_units, out);
}

const char *number_show_size(uint64_t bytes, char out[32]) {
    return show(bytes, size_units, out);
}
