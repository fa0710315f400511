/* A library that only pretends to run Python, for tests of the command: programs are lines of a
 * word and an argument, each an event or an end. It shows what reaches the library (`show`) and
 * makes happen what a real guest seldom does (`crash`).
 *
 *   out TEXT, err TEXT   a line of output      flood N     N bytes of stdout, in pieces
 *   in                   asks for input and prints what it got, until the end
 *   line                 asks for input once
 *   wait MS              sleeps                 call        calls a host function, prints the
 * answer spin                 runs until stopped     deaf        the same, but no soft stop reaches
 * it exit N, raise, end NAME   ends it; NAME as in BRU_REASON_MAP, lower case show the options,
 * limits, mounts, environment and arguments it was given more                 to a prompt: an
 * unfinished statement until a line is empty */
#include "brumate.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct bru_image {
    char path[256];
    unsigned flags;
};

struct bru_result {
    bru_reason reason;
    int code;
    char traceback[128], detail[64];
    bru_usage usage;
    int alive;
};

struct bru_session {
    bru_session_options o;
    char mounts[512], env[512];
    char *src, *at, text[70000], shown[4096];
    size_t flood;
    uint64_t deadline, wake, out_bytes;
    int asking, once, alive, ending;
    int end_code;
    bru_reason end;
    atomic_int soft, hard;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char got[70000];
    size_t got_len;
};

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bru_status error(bru_error *err, bru_status st, const char *text) {
    if (err) {
        err->status = st;
        snprintf(err->message, sizeof err->message, "%s", text);
    }
    return st;
}

const char *bru_version(void) {
    return "0.0.0-fake";
}
const char *bru_status_text(bru_status st) {
    (void)st;
    return "a status";
}
const char *bru_reason_text(bru_reason reason) {
#define TEXT(name, text, code) text,
    static const char *const texts[] = { BRU_REASON_MAP(TEXT) };
    return texts[reason];
}

bru_status bru_image_open(const char *path, const bru_image_options *options, bru_image **out,
                          bru_error *err) {
    *out = NULL;
    if (path && strstr(path, "damaged"))
        return error(err, BRU_EFORMAT, "damaged.bru: damaged\nor \033[31mnot");
    *out = calloc(1, sizeof **out);
    snprintf((*out)->path, 256, "%s guest=%s", path ? path : "(default)",
             options->guest_path ? options->guest_path : "(default)");
    (*out)->flags = options->flags;
    return BRU_OK;
}
void bru_image_unref(bru_image *image) {
    free(image);
}
void bru_image_get_info(const bru_image *image, bru_image_info *out) {
    (void)image;
    *out = (bru_image_info){ .guest_build = "no Python",
                             .wasm_sha256 = "00",
                             .preloaded = "a\nb",
                             .id = "11",
                             .file_bytes = 1,
                             .format = 1 };
}
bru_status bru_image_build(const bru_build_options *o, const char *path, bru_error *err) {
    (void)err;
    printf("guest=%s root=%s preload=%s path=%s\n", o->guest_path, o->root_path,
           o->preload ? o->preload : "(usual)", path);
    return BRU_OK;
}

static void keep_list(bru_session *s) {
    for (size_t i = 0; i < s->o.mount_count; i++)
        snprintf(s->mounts + strlen(s->mounts), 512 - strlen(s->mounts), " %s>%s:%s",
                 s->o.mounts[i].host_path, s->o.mounts[i].guest_path,
                 s->o.mounts[i].flags ? "rw" : "ro");
    for (size_t i = 0; i < s->o.env_count; i++)
        snprintf(s->env + strlen(s->env), 512 - strlen(s->env), " %s", s->o.env[i]);
}

static const bru_image *the_image;

bru_status bru_session_new(bru_image *image, const bru_session_options *o, bru_session **out,
                           bru_error *err) {
    (void)err;
    the_image = image;
    bru_session *s = calloc(1, sizeof *s);
    s->o = *o;
    s->alive = 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    keep_list(s);
    *out = s;
    return BRU_OK;
}
void bru_session_free(bru_session *s) {
    if (s) free(s->src);
    free(s);
}
bru_status bru_session_reset(bru_session *s, unsigned flags, bru_error *err) {
    (void)flags, (void)err;
    s->alive = 1;
    return BRU_OK;
}
uint64_t bru_session_private_bytes(bru_session *s) {
    (void)s;
    return 4096;
}
void bru_session_interrupt(bru_session *s, bru_interrupt how) {
    pthread_mutex_lock(&s->lock);
    if (how == BRU_INTERRUPT_SOFT)
        s->soft = 1;
    else
        s->hard = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void show(bru_session *s, const bru_exec_options *e) {
    const bru_limits *l = &s->o.limits;
    int n = snprintf(s->shown, sizeof s->shown,
                     "image %s trusted=%u\ntimeout=%" PRIu64 " exec=%" PRIu64 " cpu=%" PRIu64
                     " grace=%" PRIu64 " memory=%" PRIu64 " output=%" PRIu64 " files=%" PRIu64
                     " stops=%u\nmounts%s\nenv%s\nfile=%s flags=%u argv",
                     the_image->path, the_image->flags, l->timeout_ns, e->timeout_ns, l->cpu_ns,
                     l->grace_ns, l->memory_bytes, l->output_bytes, l->file_bytes, l->flags,
                     s->mounts, s->env, e->file_name ? e->file_name : "(none)", e->flags);
    for (size_t i = 0; i < e->argc; i++)
        n += snprintf(s->shown + n, sizeof s->shown - (size_t)n, " [%s]", e->argv[i]);
    snprintf(s->shown + n, sizeof s->shown - (size_t)n, "\n");
}

bru_status bru_session_start(bru_session *s, const char *src, size_t len, const bru_exec_options *e,
                             bru_error *err) {
    if (!s->alive) return error(err, BRU_ESTATE, "the session has ended");
    free(s->src);
    s->src = calloc(1, len + 2);
    memcpy(s->src, src, len);
    s->at = s->src;
    s->soft = s->hard = s->asking = s->ending = 0;
    s->flood = 0;
    s->out_bytes = 0;
    s->deadline = e->timeout_ns == BRU_NO_LIMIT ? UINT64_MAX : now() + e->timeout_ns;
    show(s, e);
    return BRU_OK;
}

static bru_status output(bru_session *s, bru_event *ev, int stream, const char *text, size_t len) {
    memmove(s->text, text, len);
    s->out_bytes += len;
    *ev = (bru_event){ .kind = BRU_EVENT_OUTPUT, .stream = stream, .data = s->text, .len = len };
    return BRU_OK;
}

/* A guest prints its traceback before it ends. */
static bru_status done(bru_session *s, bru_event *ev, bru_reason reason, int code) {
#define CODE(name, text, code) code,
    static const int codes[] = { BRU_REASON_MAP(CODE) };
    if (!s->ending && (reason == BRU_REASON_EXCEPTION ||
                       (reason == BRU_REASON_INTERRUPTED && s->soft && !s->hard))) {
        s->ending = 1;
        s->end = reason;
        s->end_code = code;
        return output(s, ev, 2,
                      reason == BRU_REASON_EXCEPTION ? "Traceback: boom\n" : "KeyboardInterrupt\n",
                      reason == BRU_REASON_EXCEPTION ? 16 : 18);
    }
    bru_result *r = calloc(1, sizeof *r);
    *r = (bru_result){ .reason = reason, .code = codes[reason] < 0 ? code : codes[reason] };
    r->alive = s->alive = reason < BRU_REASON_TIMEOUT || (s->soft && !s->hard);
    r->usage.stdout_bytes = s->out_bytes;
    r->usage.duration_ns = 1500000;
    if (s->ending) snprintf(r->traceback, 128, "printed before");
    if (reason > BRU_REASON_EXITED) snprintf(r->detail, 64, "it was\ntoo much");
    *ev = (bru_event){ .kind = BRU_EVENT_DONE, .result = r };
    return BRU_OK;
}

/* Waits as a running guest does: until it is stopped, or for the deadline. */
static bru_status spin(bru_session *s, bru_event *ev, int deaf) {
    pthread_mutex_lock(&s->lock);
    while (!s->hard && !(s->soft && !deaf) && now() < s->deadline) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += 5000000;
        if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
        pthread_cond_timedwait(&s->changed, &s->lock, &t);
    }
    int stopped = s->hard || (s->soft && !deaf);
    pthread_mutex_unlock(&s->lock);
    return done(s, ev, stopped ? BRU_REASON_INTERRUPTED : BRU_REASON_TIMEOUT, 0);
}

static bru_status line(bru_session *s, bru_event *ev, int stream, const char *arg) {
    char text[1024];
    return output(s, ev, stream, text, (size_t)snprintf(text, sizeof text, "%s\n", arg));
}

static bru_status end_named(bru_session *s, bru_event *ev, const char *name) {
#define NAME(name, text, code) #name,
    static const char *const names[] = { BRU_REASON_MAP(NAME) };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i]) == 0)
            return done(s, ev, (bru_reason)i, i == BRU_REASON_EXCEPTION);
    return done(s, ev, BRU_REASON_CRASHED, 0);
}

bru_status bru_session_next(bru_session *s, bru_event *ev, bru_error *err) {
    (void)err;
    for (;;) {
        if (s->ending) return done(s, ev, s->end, s->end_code);
        if (s->hard || s->soft) return done(s, ev, BRU_REASON_INTERRUPTED, 0);
        if (now() >= s->deadline) return done(s, ev, BRU_REASON_TIMEOUT, 0);
        if (s->flood) {
            size_t n = s->flood < 60000 ? s->flood : 60000;
            s->flood -= n;
            memset(s->text, 'x', n);
            return output(s, ev, 1, s->text, n);
        }
        if (s->got_len) {
            size_t n = s->got_len;
            s->got_len = 0;
            if (s->once) s->asking = 0;
            return output(s, ev, 1, s->got, n);
        }
        if (s->asking) {
            *ev = (bru_event){ .kind = BRU_EVENT_INPUT };
            return BRU_OK;
        }
        if (s->wake) {
            if (now() >= s->wake) {
                s->wake = 0;
                continue;
            }
            *ev = (bru_event){ .kind = BRU_EVENT_WAIT,
                               .wake_ns = s->wake < s->deadline ? s->wake : s->deadline };
            return BRU_OK;
        }
        if (!*s->at) return done(s, ev, BRU_REASON_COMPLETED, 0);
        char *word = s->at, *end = word + strcspn(word, "\n");
        s->at = end + (*end == '\n');
        *end = 0;
        char *arg = word + strcspn(word, " ");
        if (*arg) *arg++ = 0;
        if (!strcmp(word, "out")) return line(s, ev, 1, arg);
        if (!strcmp(word, "err")) return line(s, ev, 2, arg);
        if (!strcmp(word, "show")) return output(s, ev, 1, s->shown, strlen(s->shown));
        if (!strcmp(word, "flood")) s->flood = strtoul(arg, NULL, 10);
        if (!strcmp(word, "in") || !strcmp(word, "line")) {
            s->asking = 1;
            s->once = word[0] == 'l';
        }
        if (!strcmp(word, "wait")) s->wake = now() + strtoul(arg, NULL, 10) * 1000000u;
        if (!strcmp(word, "spin")) return spin(s, ev, 0);
        if (!strcmp(word, "deaf")) return spin(s, ev, 1);
        if (!strcmp(word, "exit")) return done(s, ev, BRU_REASON_EXITED, atoi(arg));
        if (!strcmp(word, "raise")) return done(s, ev, BRU_REASON_EXCEPTION, 1);
        if (!strcmp(word, "end")) return end_named(s, ev, arg);
        if (!strcmp(word, "call")) {
            *ev = (bru_event){ .kind = BRU_EVENT_CALL, .id = 7, .name = "f" };
            return BRU_OK;
        }
    }
}

bru_status bru_session_reply(bru_session *s, uint32_t id, int ok, const void *data, size_t len,
                             bru_error *err) {
    if (id != 7 || ok) return error(err, BRU_EINVAL, "no such call");
    memcpy(s->got, data, len);
    s->got[len] = '\n';
    s->got_len = len + 1;
    return BRU_OK;
}
bru_status bru_session_input(bru_session *s, const void *data, size_t len, bru_error *err) {
    if (!s->asking) return error(err, BRU_ESTATE, "nobody asked");
    memcpy(s->got, data, len);
    s->got_len = len;
    if (!len) s->asking = 0;
    return BRU_OK;
}
bru_status bru_session_check(bru_session *s, const char *src, size_t len, bru_completeness *out,
                             bru_error *err) {
    (void)s, (void)err;
    *out =
        len >= 4 && !memcmp(src, "more", 4) && src[len - 1] != '\n' ? BRU_INCOMPLETE : BRU_COMPLETE;
    return BRU_OK;
}
bru_status bru_session_complete(bru_session *s, const char *text, size_t len, const char **out,
                                bru_error *err) {
    (void)s, (void)err;
    *out = len > 1 && !memcmp(text + len - 2, "ai", 2) ? "raise" : "out_one\nout_two\nout_\033[31m";
    return BRU_OK;
}

bru_reason bru_result_reason(const bru_result *r) {
    return r->reason;
}
int bru_result_exit_code(const bru_result *r) {
    return r->code;
}
const char *bru_result_text(const bru_result *r, bru_text which, size_t *len) {
    const char *t = which == BRU_TEXT_TRACEBACK ? r->traceback
                    : which == BRU_TEXT_DETAIL  ? r->detail
                                                : "";
    if (len) *len = strlen(t);
    return t;
}
const bru_usage *bru_result_usage(const bru_result *r) {
    return &r->usage;
}
int bru_result_session_alive(const bru_result *r) {
    return r->alive;
}
void bru_result_free(bru_result *r) {
    free(r);
}

/* A frozen session is the rest of its program. */
struct bru_snapshot {
    char rest[256];
};

bru_status bru_session_snapshot(bru_session *s, const bru_snapshot_options *o, bru_snapshot **out,
                                bru_error *err) {
    (void)o;
    *out = NULL;
    if (s->src && strstr(s->src, "restless")) return error(err, BRU_ESTATE, "it is not at rest");
    *out = calloc(1, sizeof **out);
    snprintf((*out)->rest, sizeof(*out)->rest, "%.255s", s->at ? s->at : "");
    return BRU_OK;
}
bru_status bru_session_restore(bru_session *s, const bru_snapshot *snapshot, bru_error *err) {
    (void)s, (void)snapshot, (void)err;
    return BRU_OK;
}
bru_status bru_session_fork(bru_session *s, bru_session **out, bru_error *err) {
    return bru_session_new(NULL, &s->o, out, err);
}
bru_status bru_session_resume(bru_image *image, const bru_session_options *o,
                              const bru_snapshot *snapshot, bru_session **out, bru_error *err) {
    bru_status st = bru_session_new(image, o, out, err);
    (*out)->src = (*out)->at = strdup(snapshot->rest);
    (*out)->deadline = UINT64_MAX;
    return st;
}
const void *bru_snapshot_bytes(const bru_snapshot *snapshot, size_t *len) {
    *len = strlen(snapshot->rest);
    return snapshot->rest;
}
bru_status bru_snapshot_save(const bru_snapshot *snapshot, const char *path, bru_error *err) {
    FILE *f = fopen(path, "w");
    if (!f) return error(err, BRU_ENOENT, "cannot write");
    fputs(snapshot->rest, f);
    fclose(f);
    return BRU_OK;
}
bru_status bru_snapshot_load_with(const char *path, const bru_snapshot_open_options *o,
                                  bru_snapshot **out, bru_error *err) {
    (void)o;
    *out = NULL;
    FILE *f = fopen(path, "r");
    if (!f) return error(err, BRU_ENOENT, "cannot open the snapshot");
    *out = calloc(1, sizeof **out);
    (void)!fread((*out)->rest, 1, 255, f);
    fclose(f);
    return BRU_OK;
}
void bru_snapshot_free(bru_snapshot *snapshot) {
    free(snapshot);
}
void bru_snapshot_get_info(const bru_snapshot *snapshot, bru_snapshot_info *out) {
    *out = (bru_snapshot_info){ .image_id = "11",
                                .wasm_sha256 = "00",
                                .id = "22",
                                .base_id = "",
                                .waiting = snapshot->rest[0] != '\0',
                                .call_count = 1,
                                .left_ns = 1500000000 };
}
bru_status bru_snapshot_get_call(const bru_snapshot *snapshot, size_t index, bru_snapshot_call *out,
                                 bru_error *err) {
    (void)snapshot, (void)index, (void)err;
    *out = (bru_snapshot_call){ 1, "f\033[31m", "", 0 };
    return BRU_OK;
}
