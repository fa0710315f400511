/* The public functions that take options or texts: what callers may get wrong is checked here, so
 * that the rooms below need not. */
#define _GNU_SOURCE
#include "brumate.h"
#include "base/base.h"
#include "session/boot.h"
#include "session/sandbox.h"
#include "session/session.h"
#include "session/snapshot.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

const char *bru_version(void) {
    return TEXT(BRU_VERSION_MAJOR) "." TEXT(BRU_VERSION_MINOR) "." TEXT(BRU_VERSION_PATCH);
}

static bru_status invalid(bru_error *err, const char *what) {
    return error_set(err, BRU_EINVAL, "%s", what);
}

/* Options grow at their end: an older caller's are shorter, a newer one's must hold nothing that
 * we do not know. Copies what is there over the defaults in `to`. */
static bru_status take_options(const void *from, void *to, size_t size, bru_error *err) {
    size_t given;
    if (!from) return BRU_OK;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return invalid(err, "options without a size: start from the INIT macro");
    for (size_t i = size; i < given; i++)
        if (((const char *)from)[i])
            return invalid(err, "options of a newer library: use the version they belong to");
    memcpy(to, from, given < size ? given : size);
    memcpy(to, &size, sizeof size);
    return BRU_OK;
}

static bru_status check_flags(unsigned flags, unsigned known, const char *of, bru_error *err) {
    if ((flags & ~known) == 0) return BRU_OK;
    return error_set(err, BRU_EINVAL, "flags 0x%x of %s mean nothing to this library",
                     flags & ~known, of);
}

/* ---- Images --------------------------------------------------------------------------------- */

/* Where an image is looked for if none is named: beside the library or program that this code is
 * in, or where `make install` puts it. */
static const char *const default_places[] = { "core.bru", "brumate/core.bru",
                                              "../lib/brumate/core.bru" };

static const char here; /* an address in this library or program */

static bool default_image(char *out, size_t cap) {
    const char *named = getenv("BRUMATE_IMAGE");
    Dl_info where;
    char self[4096];
    if (named && *named) return (size_t)snprintf(out, cap, "%s", named) < cap;
    /* A program's own name may be relative to a folder it has left: ask for the file. */
    bool found = dladdr(&here, &where) && where.dli_fname &&
                 realpath(strchr(where.dli_fname, '/') ? where.dli_fname : "/proc/self/exe", self);
    char *slash = found ? strrchr(self, '/') : NULL;
    if (!slash) return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof default_places / sizeof *default_places; i++) {
        if ((size_t)snprintf(out, cap, "%s/%s", self, default_places[i]) >= cap) return false;
        if (access(out, F_OK) == 0) return true;
    }
    return false;
}

bru_status bru_image_open(const char *path, const bru_image_options *options, bru_image **out,
                          bru_error *err) {
    door_table tables[SESSION_TABLES];
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    char found[4200];
    if (!out) return invalid(err, "no place to put the image");
    *out = NULL;
    bru_status st = take_options(options, &o, sizeof o, err);
    if (!st) st = check_flags(o.flags, BRU_IMAGE_TRUSTED, "an image", err);
    if (!st && o.guest_of && o.guest_path)
        st = invalid(err, "the guest of an image is named by path or by image, not by both");
    if (st) return st;
    if (!path && !default_image(found, sizeof found))
        return error_set(err, BRU_ENOENT,
                         "no image was found beside the program or library: name one, or set "
                         "BRUMATE_IMAGE");
    return image_open(path ? path : found, &o, tables, session_tables(tables), out, err);
}

#define PRELOAD_MAX (64u << 10)
#define NOTE_MAX    (256u << 10)

/* Text that a manifest can hold: no control characters but `but`, at most `max` bytes. */
static bru_status check_line(const char *text, char but, size_t max, const char *of,
                             bru_error *err) {
    size_t len = 0;
    for (; text && text[len]; len++) {
        unsigned char c = (unsigned char)text[len];
        if ((c < ' ' && text[len] != but) || c == 0x7f)
            return error_set(err, BRU_EINVAL, "%s of an image with control characters", of);
        if (len == max)
            return error_set(err, BRU_EINVAL, "%s of an image with more than %zu bytes", of, max);
    }
    return BRU_OK;
}

bru_status bru_image_build(const bru_build_options *options, const char *path, bru_error *err) {
    bru_build_options o = BRU_BUILD_OPTIONS_INIT;
    bru_status st = take_options(options, &o, sizeof o, err);
    if (st) return st;
    if (!path || !*path) return invalid(err, "no path for the image to build");
    if (o.base && (o.guest_path || o.root_path))
        return invalid(err, "an image is built on a base, or of guest and folder, not of both");
    if (!o.base && !o.guest_path) return invalid(err, "no guest to build an image of");
    if (!o.base && !o.root_path) return invalid(err, "no folder for the image's files");
    if (o.file_count && !o.files) return invalid(err, "files are counted but not given");
    st = check_line(o.preload, '\n', PRELOAD_MAX, "modules to preload", err);
    if (!st) st = check_line(o.note, 0, NOTE_MAX, "the note", err);
    return st ? st : boot_image(&o, path, err);
}

/* ---- Sessions --------------------------------------------------------------------------- */

static bru_status check_session_options(const bru_session_options *o, bru_error *err) {
    bru_status flags = check_flags(o->flags, BRU_STREAM_OUTPUT | BRU_PULL_INPUT, "a session", err);
    if (!flags) flags = check_flags(o->limits.flags, BRU_OUTPUT_STOPS, "limits", err);
    if (flags) return flags;
    if (o->mount_count && !o->mounts) return invalid(err, "mounts are counted but not given");
    if (o->env_count && !o->env) return invalid(err, "environment is counted but not given");
    for (size_t i = 0; i < o->mount_count; i++) {
        const bru_mount *m = &o->mounts[i];
        if (!m->host_path || !*m->host_path || !m->guest_path || m->guest_path[0] != '/')
            return error_set(err, BRU_EINVAL,
                             "mount %zu needs a host path, and a guest path that starts with /", i);
        bru_status st = check_flags(m->flags, BRU_MOUNT_WRITE, "a mount", err);
        if (st) return st;
    }
    for (size_t i = 0; i < o->env_count; i++) {
        const char *equals = o->env[i] ? strchr(o->env[i], '=') : NULL;
        if (!equals || equals == o->env[i])
            return error_set(err, BRU_EINVAL, "environment %zu is not NAME=value", i);
    }
    if (o->function_count && !o->functions)
        return invalid(err, "host functions are counted but not given");
    if (o->storage_path && o->storage_path[0] != '/')
        return invalid(err, "the path of a storage starts with /");
    return BRU_OK;
}

bru_status bru_session_new(bru_image *image, const bru_session_options *options, bru_session **out,
                           bru_error *err) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    if (!out) return invalid(err, "no place to put the session");
    *out = NULL;
    if (!image) return invalid(err, "no image");
    bru_status st = take_options(options, &o, sizeof o, err);
    if (!st) st = check_session_options(&o, err);
    return st ? st : session_new(image, &o, out, err);
}

static bru_status check_exec(const char *src, size_t len, const bru_exec_options *options,
                             bru_exec_options *o, bru_error *err) {
    *o = (bru_exec_options)BRU_EXEC_OPTIONS_INIT;
    if (!src && len) return invalid(err, "no source");
    bru_status st = take_options(options, o, sizeof *o, err);
    if (!st)
        st = check_flags(o->flags,
                         BRU_EXEC_DISPLAY | BRU_EXEC_MODULE | BRU_EXEC_PROGRAM | BRU_EXEC_STREAM,
                         "an execution", err);
    if (st) return st;
    if (o->argc && !o->argv) return invalid(err, "arguments are counted but not given");
    for (size_t i = 0; i < o->argc; i++)
        if (!o->argv[i]) return error_set(err, BRU_EINVAL, "argument %zu is NULL", i);
    if (o->input_len && !o->input) return invalid(err, "input is counted but not given");
    if (o->inputs_len && !o->inputs) return invalid(err, "inputs are counted but not given");
    return BRU_OK;
}

bru_status bru_session_run(bru_session *session, const char *src, size_t len,
                           const bru_exec_options *options, bru_result **out, bru_error *err) {
    bru_exec_options o;
    if (!out) return invalid(err, "no place to put the result");
    *out = NULL;
    bru_status st = check_exec(src, len, options, &o, err);
    return st ? st : session_run_to_end(session, src, len, &o, out, err);
}

bru_status bru_session_start(bru_session *session, const char *src, size_t len,
                             const bru_exec_options *options, bru_error *err) {
    bru_exec_options o;
    bru_status st = check_exec(src, len, options, &o, err);
    return st ? st : session_start(session, src, len, &o, true, err);
}

bru_status bru_session_reset(bru_session *session, unsigned flags, bru_error *err) {
    bru_status st = check_flags(flags, BRU_RESET_FILES, "a reset", err);
    return st ? st : session_reset(session, flags, err);
}

bru_status bru_session_extend(bru_session *session, uint64_t ns, bru_error *err) {
    return session_extend(session, ns, err);
}

bru_status bru_session_clear(bru_session *session, bru_error *err) {
    return session_clear(session, err);
}

/* The parts of snapshot options that taking and joining share. */
static bru_status check_snapshot_options(const bru_snapshot_options *o, bru_error *err) {
    if (o->level < 0 || o->level > 19)
        return error_set(err, BRU_EINVAL, "a snapshot of level %d: 1 is fast, 19 small", o->level);
    return snapshot_key_check((snapshot_key){ o->key, o->key_len }, err);
}

bru_status bru_session_snapshot(bru_session *session, const bru_snapshot_options *options,
                                bru_snapshot **out, bru_error *err) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    if (!out) return invalid(err, "no place to put the snapshot");
    *out = NULL;
    bru_status st = take_options(options, &o, sizeof o, err);
    if (!st) st = check_flags(o.flags, BRU_SNAPSHOT_NO_FILES, "a snapshot", err);
    if (!st) st = check_snapshot_options(&o, err);
    return st ? st : session_snapshot(session, &o, out, err);
}

bru_status bru_session_resume(bru_image *image, const bru_session_options *options,
                              const bru_snapshot *snapshot, bru_session **out, bru_error *err) {
    if (!out) return invalid(err, "no place to put the session");
    *out = NULL;
    if (!snapshot) return invalid(err, "no snapshot");
    bru_session *s;
    bru_status st = bru_session_new(image, options, &s, err);
    if (!st) st = bru_session_restore(s, snapshot, err);
    if (st)
        bru_session_free(s);
    else
        *out = s;
    return st;
}

static bru_status take_key(const bru_snapshot_open_options *options, snapshot_key *key,
                           bru_error *err) {
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    bru_status st = take_options(options, &o, sizeof o, err);
    *key = (snapshot_key){ o.key, o.key_len };
    return st ? st : snapshot_key_check(*key, err);
}

bru_status bru_snapshot_open_with(const void *bytes, size_t len,
                                  const bru_snapshot_open_options *options, bru_snapshot **out,
                                  bru_error *err) {
    snapshot_key key;
    if (!out) return invalid(err, "no place to put the snapshot");
    *out = NULL;
    if (!bytes && len) return invalid(err, "no bytes to open a snapshot of");
    bru_status st = take_key(options, &key, err);
    return st ? st : session_snapshot_open(bytes, len, key, out, err);
}

bru_status bru_snapshot_open(const void *bytes, size_t len, bru_snapshot **out, bru_error *err) {
    return bru_snapshot_open_with(bytes, len, NULL, out, err);
}

bru_status bru_snapshot_load_with(const char *path, const bru_snapshot_open_options *options,
                                  bru_snapshot **out, bru_error *err) {
    snapshot_key key;
    if (!out) return invalid(err, "no place to put the snapshot");
    *out = NULL;
    if (!path) return invalid(err, "no path of a snapshot");
    bru_status st = take_key(options, &key, err);
    return st ? st : session_snapshot_load(path, key, out, err);
}

bru_status bru_snapshot_load(const char *path, bru_snapshot **out, bru_error *err) {
    return bru_snapshot_load_with(path, NULL, out, err);
}

bru_status bru_snapshot_save_with(const bru_snapshot *snapshot, const char *path, unsigned flags,
                                  bru_error *err) {
    if (!path) return invalid(err, "no path for the snapshot");
    bru_status st = check_flags(flags, BRU_SAVE_UNSYNCED, "saving", err);
    bool synced = !(flags & BRU_SAVE_UNSYNCED);
    return st ? st : snapshot_file_write(path, snapshot->bytes, snapshot->len, synced, err);
}

bru_status bru_snapshot_save(const bru_snapshot *snapshot, const char *path, bru_error *err) {
    return bru_snapshot_save_with(snapshot, path, 0, err);
}

bru_status bru_snapshot_join(const bru_snapshot *base, const bru_snapshot *changes,
                             const bru_snapshot_options *options, bru_snapshot **out,
                             bru_error *err) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    if (!out) return invalid(err, "no place to put the snapshot");
    *out = NULL;
    if (!base || !changes) return invalid(err, "two snapshots are joined");
    bru_status st = take_options(options, &o, sizeof o, err);
    if (!st && (o.flags || o.base))
        st = invalid(err, "joining takes a level and a key, no other options");
    if (!st) st = check_snapshot_options(&o, err);
    return st ? st : session_snapshot_join(base, changes, &o, out, err);
}

bru_status bru_session_check(bru_session *session, const char *src, size_t len,
                             bru_completeness *out, bru_error *err) {
    *out = BRU_SYNTAX_ERROR;
    bru_status st = session_ask(session, AGENT_OP_CHECK, src, len, err);
    if (!st && session->reply.data[0] <= BRU_SYNTAX_ERROR)
        *out = (bru_completeness)session->reply.data[0];
    return st;
}

bru_status bru_session_complete(bru_session *session, const char *text, size_t len,
                                const char **out, bru_error *err) {
    *out = NULL;
    bru_status st = session_ask(session, AGENT_OP_COMPLETE, text, len, err);
    if (!st) *out = (const char *)session->reply.data;
    return st;
}

/* ---- Sandboxes --------------------------------------------------------------------------- */

bru_status bru_sandbox_new(bru_image *image, const bru_session_options *options, bru_sandbox **out,
                           bru_error *err) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    if (!out) return invalid(err, "no place to put the sandbox");
    *out = NULL;
    if (!image) return invalid(err, "no image");
    bru_status st = take_options(options, &o, sizeof o, err);
    if (!st) st = check_session_options(&o, err);
    if (!st && (o.flags & (BRU_STREAM_OUTPUT | BRU_PULL_INPUT)))
        st = invalid(err, "a sandbox hands out no events: use a session");
    return st ? st : sandbox_new(image, &o, out, err);
}

bru_status bru_sandbox_run(bru_sandbox *sandbox, const char *src, size_t len,
                           const bru_exec_options *options, bru_result **out, bru_error *err) {
    bru_exec_options o;
    if (!out) return invalid(err, "no place to put the result");
    *out = NULL;
    bru_status st = check_exec(src, len, options, &o, err);
    return st ? st : sandbox_run(sandbox, src, len, &o, out, err);
}
