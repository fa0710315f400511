/* Sandboxes: a session for each run, made for it and closed behind it. That this is cheap is the
 * matter of the image's idle instances. */
#include "session/sandbox.h"
#include "session/session.h"

#include <pthread.h>

/* A run under way, on the stack of its thread. */
typedef struct run_entry {
    struct run_entry *next;
    bru_session *session;
} run_entry;

struct bru_sandbox {
    bru_image *image;
    bru_session_options options; /* what it points to is owned */
    run_entry *busy;             /* under lock */
};

/* One for all sandboxes, held for moments: so a fork can wait for it, and a child finds it free. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t lock_once = PTHREAD_ONCE_INIT;
static int lock_failed;

static void lock_take(void) {
    pthread_mutex_lock(&lock);
}

static void lock_give(void) {
    pthread_mutex_unlock(&lock);
}

static void lock_prepare(void) {
    lock_failed = pthread_atfork(lock_take, lock_give, lock_give);
}

/* ---- A recipe of its own -------------------------------------------------------------------- */

static void recipe_free(bru_session_options *o) {
    for (size_t i = 0; o->mounts && i < o->mount_count; i++) {
        mem_free((void *)o->mounts[i].host_path);
        mem_free((void *)o->mounts[i].guest_path);
    }
    for (size_t i = 0; o->env && i < o->env_count; i++) mem_free((void *)o->env[i]);
    for (size_t i = 0; o->functions && i < o->function_count; i++) {
        mem_free((void *)o->functions[i].name);
        mem_free((void *)o->functions[i].description);
        mem_free((void *)o->functions[i].schema);
    }
    mem_free((void *)o->mounts);
    mem_free((void *)o->env);
    mem_free((void *)o->functions);
    mem_free((void *)o->storage_path);
    mem_free((void *)o->deterministic);
    bru_storage_unref(o->storage);
}

/* A copy of `text`, in `*to`; false without memory. No text has no copy. */
static bool copy_text(const char *text, const char **to) {
    *to = text ? mem_string(text) : NULL;
    return *to || !text;
}

static bru_status recipe_copy(const bru_session_options *from, bru_session_options *to,
                              bru_error *err) {
    *to = *from;
    bru_mount *mounts = mem_zero(from->mount_count + 1, sizeof *mounts);
    const char **env = mem_zero(from->env_count + 1, sizeof *env);
    bru_function *functions = mem_zero(from->function_count + 1, sizeof *functions);
    to->mounts = mounts;
    to->env = env;
    to->functions = functions;
    to->storage = bru_storage_ref(from->storage);
    bool whole = copy_text(from->storage_path, &to->storage_path) && mounts && env && functions;
    if (from->deterministic)
        to->deterministic = mem_copy(from->deterministic, sizeof *from->deterministic);
    whole = whole && !to->deterministic == !from->deterministic;
    for (size_t i = 0; whole && i < from->mount_count; i++) {
        mounts[i].flags = from->mounts[i].flags;
        whole = copy_text(from->mounts[i].host_path, &mounts[i].host_path) &&
                copy_text(from->mounts[i].guest_path, &mounts[i].guest_path);
    }
    for (size_t i = 0; whole && i < from->env_count; i++) whole = copy_text(from->env[i], &env[i]);
    for (size_t i = 0; whole && i < from->function_count; i++)
        whole = copy_text(from->functions[i].name, &functions[i].name) &&
                copy_text(from->functions[i].description, &functions[i].description) &&
                copy_text(from->functions[i].schema, &functions[i].schema);
    return whole ? BRU_OK : error_set(err, BRU_ENOMEM, "no memory for a sandbox");
}

bru_status sandbox_new(bru_image *image, const bru_session_options *options, bru_sandbox **out,
                       bru_error *err) {
    *out = NULL;
    bru_sandbox *sb = mem_zero(1, sizeof *sb);
    if (!sb) return error_set(err, BRU_ENOMEM, "no memory for a sandbox");
    pthread_once(&lock_once, lock_prepare);
    if (lock_failed) {
        mem_free(sb);
        return error_errno(err, lock_failed, "cannot prepare for forks");
    }
    sb->image = bru_image_ref(image);
    bru_status st = recipe_copy(options, &sb->options, err);
    if (st)
        bru_sandbox_free(sb);
    else
        *out = sb;
    return st;
}

void bru_sandbox_free(bru_sandbox *sb) {
    if (!sb) return;
    recipe_free(&sb->options);
    bru_image_unref(sb->image);
    mem_free(sb);
}

/* ---- Runs ---------------------------------------------------------------------------------- */

static void enter(bru_sandbox *sb, run_entry *e) {
    lock_take();
    e->next = sb->busy;
    sb->busy = e;
    lock_give();
}

static void leave(bru_sandbox *sb, const run_entry *e) {
    lock_take();
    run_entry **at = &sb->busy;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    lock_give();
}

bru_status sandbox_run(bru_sandbox *sb, const char *src, size_t len, const bru_exec_options *o,
                       bru_result **out, bru_error *err) {
    run_entry e;
    *out = NULL;
    bru_status st = session_new(sb->image, &sb->options, &e.session, err);
    if (st) return st;
    enter(sb, &e);
    st = session_run_to_end(e.session, src, len, o, out, err);
    leave(sb, &e);
    bru_session_free(e.session);
    return st;
}

void bru_sandbox_interrupt(bru_sandbox *sb) {
    lock_take();
    for (run_entry *e = sb->busy; e; e = e->next)
        bru_session_interrupt(e->session, BRU_INTERRUPT_HARD);
    lock_give();
}
