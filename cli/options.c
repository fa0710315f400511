/* The command line: a table says what there is, one function a kind of value what it means. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    settings *s;
    char **at, **end; /* the words not yet taken */
    int exit_code;
    bool leave;
} parser;

static bool stop(parser *p, int exit_code) {
    p->exit_code = exit_code;
    p->leave = true;
    return false;
}

/* Of two words: how many letters to add, drop, change or swap with a neighbour. Words longer than
 * the rows are far from everything. */
static size_t distance(const char *a, const char *b) {
    enum { LONGEST = 24 };
    size_t la = strlen(a), lb = strlen(b);
    if (la > LONGEST || lb > LONGEST) return SIZE_MAX;
    size_t rows[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= la; i++)
        for (size_t j = 0; j <= lb; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            size_t best = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (rows[i - 1][j] + 1 < best) best = rows[i - 1][j] + 1;
            if (rows[i][j - 1] + 1 < best) best = rows[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                rows[i - 2][j - 2] + 1 < best)
                best = rows[i - 2][j - 2] + 1;
            rows[i][j] = best;
        }
    return rows[la][lb];
}

static bool offered(const parser *p, const option *o) {
    return o->flags & (1u << p->s->command);
}

static bool unknown(parser *p, const char *word, size_t name_len) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(name_len < 63 ? name_len : 63), word);
    const option *nearest = NULL;
    size_t least = SIZE_MAX;
    for (const option *o = options; o->help; o++) {
        size_t d = o->name && offered(p, o) ? distance(name, o->name) : SIZE_MAX;
        if (d < least) {
            least = d;
            nearest = o;
        }
    }
    bool near = nearest && least <= strlen(name) / 2 + 1;
    return stop(p, fail("unknown option --%s%s%s (brumate --help lists them)", name,
                        near ? "; the nearest is --" : "", near ? nearest->name : ""));
}

static const char *shown(const option *o, char out[32]) {
    if (o->name)
        snprintf(out, 32, "--%s", o->name);
    else
        snprintf(out, 32, "-%c", o->letter);
    return out;
}

static bool take_time(parser *p, const option *o, const char *v, uint64_t *out) {
    char name[32];
    if (number_time(v, out)) return true;
    return stop(p, fail("%s: \"%s\" is not a time; write 500ms, 2s or 1m", shown(o, name), v));
}

static bool take_size(parser *p, const option *o, const char *v, uint64_t *out) {
    char name[32];
    if (number_size(v, out)) return true;
    return stop(p, fail("%s: \"%s\" is not a size; write 500K, 64M or 1G", shown(o, name), v));
}

static bool take_env(parser *p, const char *v) {
    const char *equals = strchr(v, '=');
    if (!equals || equals == v) return stop(p, fail("--env: \"%s\" is not KEY=VALUE", v));
    p->s->env[p->s->env_count++] = v;
    return true;
}

/* SRC:DST[:ro|:rw]. SRC may hold colons: DST begins after the last one that a slash follows. */
static bool take_volume(parser *p, char *v) {
    size_t len = strlen(v);
    bru_mount *m = &p->s->mounts[p->s->mount_count];
    *m = (bru_mount){ v, NULL, 0 };

    if (len > 3 && (strcmp(v + len - 3, ":rw") == 0 || strcmp(v + len - 3, ":ro") == 0)) {
        if (v[len - 1] == 'w') m->flags = BRU_MOUNT_WRITE;
        len -= 3;
    }
    size_t at = len;
    while (at > 0 && !(v[at - 1] == ':' && v[at] == '/' && at < len)) at--;
    if (at < 2 || memchr(v + at, ':', len - at))
        return stop(p, fail("--volume: \"%s\" is not SRC:DST[:ro|:rw] with an absolute DST", v));
    v[len] = 0;
    v[at - 1] = 0;
    m->guest_path = v + at;
    p->s->mount_count++;
    return true;
}

static bool take_preload(parser *p, const char *v) {
    free(p->s->preload);
    p->s->preload = strdup(v);
    if (!p->s->preload) return stop(p, fail("out of memory"));
    for (char *c = p->s->preload; *c; c++) {
        if (*c == ',')
            *c = '\n';
        else if (!strchr("_.", *c) && !(*c >= '0' && *c <= '9') &&
                 !((*c | 32) >= 'a' && (*c | 32) <= 'z') && (unsigned char)*c < 0x80)
            return stop(p, fail("--preload: \"%s\" is not a list of modules; write json,re", v));
    }
    return true;
}

static bool take_policy(parser *p, const char *v) {
    bool cut = strcmp(v, "cut") == 0;
    if (!cut && strcmp(v, "stop") != 0)
        return stop(p, fail("--output-policy: \"%s\" is neither stop nor cut", v));
    p->s->limits.flags = cut ? 0 : BRU_OUTPUT_STOPS;
    return true;
}

/* As the Python package takes it: the lowest byte first. */
static bool take_seed(parser *p, const char *v) {
    uint64_t seed;
    if (!number_whole(v, &seed))
        return stop(p, fail("--deterministic: \"%s\" is no seed; write a number, such as 42", v));
    p->s->deterministic = true;
    p->s->fixed = (bru_deterministic){ .start_ns = UINT64_C(1000000000) * FIXED_START_S };
    for (unsigned i = 0; i < sizeof seed; i++) p->s->fixed.seed[i] = (uint8_t)(seed >> 8 * i);
    return true;
}

/* The program is named: the rest of the words is its own. */
static bool program(parser *p) {
    p->s->args = (const char *const *)p->at;
    p->s->arg_count = (size_t)(p->end - p->at);
    p->at = p->end;
    return true;
}

static bool apply(parser *p, const option *o, char *v) {
    settings *s = p->s;
    switch (o->id) {
    case OPT_CODE: s->code = v; return program(p);
    case OPT_MODULE: s->module = v; return program(p);
    case OPT_INTERACTIVE: s->interactive = true; return true;
    case OPT_QUIET: s->quiet = true; return true;
    case OPT_TIMEOUT: s->timeout_given = true; return take_time(p, o, v, &s->limits.timeout_ns);
    case OPT_CPU: return take_time(p, o, v, &s->limits.cpu_ns);
    case OPT_GRACE:
        s->grace_given = true;
        if (!take_time(p, o, v, &s->limits.grace_ns)) return false;
        if (s->limits.grace_ns != BRU_NO_LIMIT) return true;
        return stop(p, fail("--grace: none would let a program stay for ever; write 100ms or 2s"));
    case OPT_MEMORY: return take_size(p, o, v, &s->limits.memory_bytes);
    case OPT_OUTPUT: return take_size(p, o, v, &s->limits.output_bytes);
    case OPT_OUTPUT_POLICY: return take_policy(p, v);
    case OPT_FILES: return take_size(p, o, v, &s->limits.file_bytes);
    case OPT_ENV: return take_env(p, v);
    case OPT_VOLUME: return take_volume(p, v);
    case OPT_DETERMINISTIC: return take_seed(p, v);
    case OPT_STATS:
        s->stats = true;
        s->stats_path = v;
        return true;
    case OPT_CHECKPOINT: s->checkpoint = true; return true;
    case OPT_KEY_FILE: s->key_file = v; return true;
    case OPT_IMAGE: s->image = v; return true;
    case OPT_GUEST: s->guest = v; return true;
    case OPT_ROOT: s->root = v; return true;
    case OPT_PRELOAD: return take_preload(p, v);
    case OPT_WRITE: s->output = v; return true;
    case OPT_HELP: return stop(p, help_print(s->command));
    case OPT_VERSION: printf("brumate %s\n", bru_version()); return stop(p, finish_stdout());
    }
    return true;
}

/* A word that begins with two dashes. */
static bool long_option(parser *p, char *word) {
    size_t len = strcspn(word, "=");
    char *v = word[len] ? word + len + 1 : NULL;
    const option *o = options;
    while (o->help &&
           !(o->name && offered(p, o) && strlen(o->name) == len && memcmp(o->name, word, len) == 0))
        o++;
    if (!o->help) return unknown(p, word, len);
    if (v && !o->value) return stop(p, fail("--%s takes no value", o->name));
    if (!v && o->value && !(o->flags & VALUE_OPTIONAL)) {
        if (p->at == p->end) return stop(p, fail("--%s needs a value: %s", o->name, o->value));
        v = *p->at++;
    }
    return apply(p, o, v);
}

/* A word that begins with one dash: letters, the last of which may take a value. */
static bool short_options(parser *p, char *word) {
    for (; *word; word++) {
        const option *o = options;
        while (o->help && !(o->letter == *word && offered(p, o))) o++;
        if (!o->help) return stop(p, fail("unknown option -%c (brumate --help lists them)", *word));
        if (!o->value) {
            if (!apply(p, o, NULL)) return false;
            continue;
        }
        char *v = word[1] ? word + 1 : p->at < p->end ? *p->at++ : NULL;
        if (!v) return stop(p, fail("-%c needs a value: %s", *word, o->value));
        return apply(p, o, v);
    }
    return true;
}

/* Options up to the first word that is none, or up to `--`. */
static bool leading_options(parser *p) {
    while (p->at < p->end) {
        char *word = *p->at;
        if (word[0] != '-' || !word[1]) return true;
        p->at++;
        if (strcmp(word, "--") == 0) return true;
        if (!(word[1] == '-' ? long_option(p, word + 2) : short_options(p, word + 1))) return false;
    }
    return true;
}

static bool image_command(parser *p) {
    static const struct {
        const char *name;
        command c;
    } names[] = { { "info", COMMAND_INFO },
                  { "build", COMMAND_BUILD },
                  { "verify", COMMAND_VERIFY } };
    const char *word = p->at < p->end ? *p->at : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i].name) == 0) {
            p->s->command = names[i].c;
            p->at++;
        }
    if (p->s->command == COMMAND_RUN)
        return stop(p,
                    fail("image: \"%s\" is not a command; write image info, image build or image "
                         "verify (a script of that name is ./image)",
                         word));
    /* Operands and options may be mixed; the operands are gathered at the front. */
    char **operands = p->at, **kept = p->at;
    while (p->at < p->end) {
        char **before = p->at;
        if (!leading_options(p)) return false;
        bool ended = p->at > before && strcmp(p->at[-1], "--") == 0;
        do
            if (p->at < p->end) *kept++ = *p->at++;
        while (ended && p->at < p->end);
    }
    p->s->args = (const char *const *)operands;
    p->s->arg_count = (size_t)(kept - operands);
    return true;
}

static bool check_image_command(parser *p) {
    const settings *s = p->s;
    if (s->command == COMMAND_INFO && s->arg_count > 1)
        return stop(p, fail("image info: one file at a time"));
    if (s->command == COMMAND_VERIFY && s->arg_count == 0)
        return stop(p, fail("image verify: which file?"));
    if (s->command != COMMAND_BUILD) return true;
    if (s->arg_count) return stop(p, fail("image build: what is \"%s\"?", s->args[0]));
    if (!s->guest) return stop(p, fail("image build: --guest FILE is missing"));
    if (!s->root) return stop(p, fail("image build: --root DIR is missing"));
    if (!s->output) return stop(p, fail("image build: -o FILE is missing"));
    return true;
}

/* Options, then the program, if one is named. */
static bool program_words(parser *p) {
    settings *s = p->s;
    if (!leading_options(p)) return false;
    if (s->code || s->module || p->at == p->end) return true;
    s->script = *p->at++;
    return program(p);
}

static bool freeze_command(parser *p) {
    p->s->command = COMMAND_FREEZE;
    if (!program_words(p)) return false;
    if (!p->s->output) return stop(p, fail("freeze: -o FILE is missing"));
    return true;
}

static bool thaw_command(parser *p) {
    settings *s = p->s;
    s->command = COMMAND_THAW;
    if (!leading_options(p)) return false;
    if (s->code || s->module) return stop(p, fail("thaw: the snapshot comes before the program"));
    if (p->at == p->end) return stop(p, fail("thaw: which snapshot?"));
    s->snapshot = *p->at++;
    return program_words(p);
}

static bool snapshot_command(parser *p) {
    if (p->at == p->end || strcmp(*p->at, "info") != 0)
        return stop(p, fail("snapshot: \"%s\" is not a command; write snapshot info (a script of "
                            "that name is ./snapshot)",
                            p->at < p->end ? *p->at : ""));
    p->at++;
    p->s->command = COMMAND_SNAPSHOT;
    if (!leading_options(p)) return false;
    if (p->at == p->end) return stop(p, fail("snapshot info: which file?"));
    p->s->snapshot = *p->at++;
    if (!leading_options(p)) return false;
    return p->at == p->end || stop(p, fail("snapshot info: one file at a time"));
}

static bool images_command(parser *p) {
    return image_command(p) && check_image_command(p);
}

static bool parse(parser *p) {
    static const struct {
        const char *name;
        bool (*parse)(parser *p);
    } names[] = { { "image", images_command },
                  { "freeze", freeze_command },
                  { "thaw", thaw_command },
                  { "snapshot", snapshot_command } };
    settings *s = p->s;
    char **first = p->at;
    if (!leading_options(p)) return false;
    if (s->code || s->module || p->at == p->end) return true;
    bool dashes = p->at > first && strcmp(p->at[-1], "--") == 0;
    for (size_t i = 0; !dashes && i < sizeof names / sizeof *names; i++) {
        if (strcmp(*p->at, names[i].name) != 0) continue;
        if (p->at > first)
            return stop(p, fail("options of a run do not go with `%s`; write them after it",
                                names[i].name));
        p->at++;
        return names[i].parse(p);
    }
    s->script = *p->at++;
    return program(p);
}

bool options_parse(int argc, char **argv, settings *s, int *exit_code) {
    *s = (settings){ .limits = { .timeout_ns = UINT64_C(1000000000) * RUN_TIMEOUT_S,
                                 .grace_ns = UINT64_C(1000000) * RUN_GRACE_MS,
                                 .memory_bytes = UINT64_C(1048576) * MEMORY_MIB,
                                 .output_bytes = UINT64_C(1048576) * OUTPUT_MIB,
                                 .flags = BRU_OUTPUT_STOPS } };
    parser p = { .s = s, .at = argv + (argc > 0), .end = argv + argc };
    /* No more of them than there are words. */
    s->mounts = calloc((size_t)argc + 1, sizeof *s->mounts);
    s->env = calloc((size_t)argc + 1, sizeof *s->env);
    if (!s->mounts || !s->env)
        stop(&p, fail("out of memory"));
    else
        parse(&p);
    *exit_code = p.exit_code;
    return !p.leave;
}

void settings_free(settings *s) {
    free(s->mounts);
    free(s->env);
    free(s->preload);
}
