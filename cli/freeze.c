/* brumate freeze | thaw | snapshot info. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_CEILING = 64 << 10 };

typedef struct key {
    char *bytes; /* NULL: none */
    size_t len;
} key;

static int key_load(const settings *s, key *k) {
    *k = (key){ NULL, 0 };
    if (!s->key_file) return 0;
    FILE *f = fopen(s->key_file, "re");
    if (!f) return fail("--key-file: %s: %s", s->key_file, strerror(errno));
    k->bytes = malloc(KEY_CEILING + 1);
    if (k->bytes) k->len = fread(k->bytes, 1, KEY_CEILING + 1, f);
    bool bad = ferror(f) != 0;
    int why = errno;
    fclose(f);
    if (!k->bytes) return fail("out of memory");
    if (bad) return fail("--key-file: %s: %s", s->key_file, strerror(why));
    if (k->len > KEY_CEILING) return fail("--key-file: %s: more than 64K", s->key_file);
    return 0;
}

static int snapshot_load(const settings *s, bru_snapshot **out) {
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    bru_error err = { 0 };
    key k;
    *out = NULL;
    int rc = key_load(s, &k);
    o.key = k.bytes;
    o.key_len = k.len;
    if (!rc && bru_snapshot_load_with(s->snapshot, &o, out, &err)) rc = fail_error(&err);
    free(k.bytes);
    return rc;
}

/* ---- Freezing -------------------------------------------------------------------------------- */

/* A runner whose session is to be frozen. */
typedef struct freezer {
    runner r; /* first: the pump knows only of this */
    key key;
} freezer;

static bru_snapshot *take(const freezer *f, bru_error *err) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *out;
    o.key = f->key.bytes;
    o.key_len = f->key.len;
    return bru_session_snapshot(f->r.session, &o, &out, err) ? NULL : out;
}

/* NULL while it waits in the middle of a call: then it goes on. What else fails does so again at
 * the end, and is told there. */
static bru_snapshot *freeze_at_rest(runner *r) {
    return take((const freezer *)r, NULL);
}

/* The new file is renamed into place: what stands there must be a file, or nothing. */
static int check_target(const char *path) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return fail("-o: %s: not a regular file", path);
    return 0;
}

/* After a program or a prompt that ended with `rc`. */
static int freeze_end(freezer *f, int rc) {
    bru_error err = { 0 };
    bool waits = f->r.frozen != NULL;
    if (rc) {
        if (rc < EXIT_OURS) say("nothing was frozen: the program failed");
        return rc;
    }
    if (!waits) f->r.frozen = take(f, &err);
    if (!f->r.frozen || bru_snapshot_save(f->r.frozen, f->r.settings->output, &err))
        return fail_error(&err);
    if (waits) say("frozen while it waits; thaw goes on with it");
    return 0;
}

static int freezer_open(freezer *f, const settings *s, ctrl_c *interrupts, input *in) {
    *f = (freezer){ .r = { .settings = s, .interrupts = interrupts, .input = in } };
    if (!s->output) return 0;
    int rc = check_target(s->output);
    return rc ? rc : key_load(s, &f->key);
}

static void freezer_close(freezer *f) {
    bru_snapshot_free(f->r.frozen);
    bru_session_free(f->r.session);
    input_free(f->r.input);
    free(f->key.bytes);
}

int command_freeze(const settings *s, ctrl_c *interrupts) {
    program p = { .none = false };
    input in = { 0 };
    bru_image *image = NULL;
    bru_error err = { 0 };
    freezer f;
    bool went = false;
    int rc = freezer_open(&f, s, interrupts, &in);
    if (!rc) rc = program_load(s, &p);
    if (!rc && p.none) rc = fail("freeze: which program?");
    if (!rc) rc = image_open_for(s, &image);
    if (!rc) {
        bru_session_options o = session_options_for(s, false);
        if (bru_session_new(image, &o, &f.r.session, &err)) rc = fail_error(&err);
    }
    f.r.freeze = freeze_at_rest;
    if (!rc) rc = freeze_end(&f, program_run(&f.r, &p, &went));
    freezer_close(&f);
    bru_image_unref(image);
    program_unload(&p);
    return rc;
}

/* ---- Thawing --------------------------------------------------------------------------------- */

/* What waited when it was frozen, to its end: where it stands now it was frozen already. */
static int go_on(runner *r, bool *went) {
    program waiting = { .exec = BRU_EXEC_OPTIONS_INIT, .waiting = true };
    waiting.exec.timeout_ns = r->settings->limits.timeout_ns;
    return program_run(r, &waiting, went);
}

static int thaw(freezer *f, const program *p, const bru_image *image, bool waiting) {
    runner *r = &f->r;
    const settings *s = r->settings;
    bool went = true, more = s->code || s->module || s->script || s->interactive || !waiting;
    int rc = waiting ? go_on(r, &went) : 0;
    if (s->output) r->freeze = freeze_at_rest;
    if (more && went && rc == 0 && !r->frozen) rc = program_run_in(r, p, image);
    return s->output ? freeze_end(f, rc) : rc;
}

int command_thaw(const settings *s, ctrl_c *interrupts) {
    program p = { .none = true };
    input in = { 0 };
    bru_image *image = NULL;
    bru_snapshot *snapshot = NULL;
    bru_snapshot_info info = { 0 };
    bru_error err = { 0 };
    freezer f;
    int rc = freezer_open(&f, s, interrupts, &in);
    f.r.lines = s->interactive;
    if (!rc) rc = snapshot_load(s, &snapshot);
    if (!rc) bru_snapshot_get_info(snapshot, &info);
    bool named = s->code || s->module || s->script;
    if (!rc && (named || !info.waiting)) rc = program_load(s, &p);
    if (!rc) rc = image_open_for(s, &image);
    if (!rc) {
        bru_session_options o = session_options_for(s, p.none || s->interactive);
        if (bru_session_resume(image, &o, snapshot, &f.r.session, &err)) rc = fail_error(&err);
    }
    bru_snapshot_free(snapshot);
    if (!rc) rc = thaw(&f, &p, image, info.waiting);
    freezer_close(&f);
    bru_image_unref(image);
    program_unload(&p);
    return rc;
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void print_time(uint64_t wall_ns) {
    time_t at = (time_t)(wall_ns / 1000000000u);
    struct tm parts;
    char text[40] = "?";
    if (gmtime_r(&at, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    printf("taken: %s\n", text);
}

/* Names of functions are whatever a guest made them. */
static void print_name(const char *name) {
    for (; *name; name++) putchar((unsigned char)*name < ' ' || *name == 127 ? '?' : *name);
}

static void print_info(const bru_snapshot *snapshot) {
    bru_snapshot_info i;
    bru_snapshot_call c;
    size_t len;
    bru_snapshot_get_info(snapshot, &i);
    bru_snapshot_bytes(snapshot, &len);
    printf("id: %s\nbase: %s\nformat: %" PRIu32 "\nimage: %s\nwasm_sha256: %s\n", i.id, i.base_id,
           i.format, i.image_id, i.wasm_sha256);
    print_time(i.wall_ns);
    printf("signed: %s\nfile_bytes: %zu\nmemory_bytes: %" PRIu64 "\nchanged_bytes: %" PRIu64
           "\nstored_bytes: %" PRIu64 "\nfiles_bytes: %" PRIu64 "\ndescriptors: %" PRIu32
           "\nwaiting: %s\n",
           i.is_signed ? "yes" : "no", len, i.memory_bytes, i.changed_bytes, i.stored_bytes,
           i.file_bytes, i.descriptors, i.waiting ? "yes" : "no");
    if (i.waiting && i.left_ns != BRU_NO_LIMIT)
        printf("left_seconds: %.3f\n", (double)i.left_ns / 1e9);
    fputs("calls:", stdout);
    for (size_t n = 0; n < i.call_count && !bru_snapshot_get_call(snapshot, n, &c, NULL); n++) {
        putchar(' ');
        print_name(c.name);
    }
    putchar('\n');
}

int command_snapshot(const settings *s) {
    bru_snapshot *snapshot;
    int rc = snapshot_load(s, &snapshot);
    if (rc) return rc;
    print_info(snapshot);
    bru_snapshot_free(snapshot);
    return finish_stdout();
}
