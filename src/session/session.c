#define _GNU_SOURCE
#include "session/session.h"

#include "base/os_wait.h"
#include "session/functions.h"
#include "session/files.h"
#include "session/storage.h"

#include <errno.h>
#include <string.h>

bru_limits session_limits(const bru_limits *asked) {
    bru_limits l = *asked;
    if (!l.timeout_ns) l.timeout_ns = 30ull * 1000000000;
    if (!l.cpu_ns) l.cpu_ns = BRU_NO_LIMIT;
    if (!l.grace_ns) l.grace_ns = 400000;
    if (!l.memory_bytes) l.memory_bytes = 128ull << 20;
    if (!l.output_bytes) l.output_bytes = 1ull << 20;
    if (!l.file_bytes) l.file_bytes = 64ull << 20;
    if (!l.artifact_bytes) l.artifact_bytes = 32ull << 20;
    return l;
}

/* ---- The world of a guest: files, streams, WASI ---------------------------------------- */

static sink_options sink_for(const bru_session *s, bool collect) {
    return (sink_options){
        .mode = collect ? SINK_COLLECT : SINK_STREAM,
        .limit = s->limits.output_bytes,
        .stop = (s->limits.flags & BRU_OUTPUT_STOPS) != 0,
    };
}

void session_collect(bru_session *s, bool collect) {
    sink_options options = sink_for(s, collect);
    sink_set(s->output, &options);
    s->run.collect = collect;
}

/* The guest's own: that of the host's thread would tell what others used, and go back when the
 * session goes on by another thread. */
static uint64_t guest_cpu(void *ctx) {
    bru_session *s = ctx;
    determinism_step(&s->deterministic);
    if (s->deterministic.on) return determinism_cpu(&s->deterministic);
    return s->cpu_before + (clock_thread_cpu() - s->cpu_began);
}

uint64_t session_clock(const bru_session *s) {
    if (s->deterministic.on) return determinism_monotonic(&s->deterministic);
    return clock_monotonic() + s->clock_offset;
}

uint64_t session_wall(const bru_session *s) {
    if (s->deterministic.on) return determinism_wall(&s->deterministic);
    return clock_system.wall(clock_system.ctx);
}

uint64_t session_host_time(const bru_session *s, uint64_t time) {
    if (time == UINT64_MAX) return time;
    if (s->deterministic.on) return time <= session_clock(s) ? 0 : UINT64_MAX;
    bool ahead = s->clock_offset <= INT64_MAX; /* of the host's */
    if (ahead && time < s->clock_offset) return 0;
    if (!ahead && time > UINT64_MAX + s->clock_offset) return UINT64_MAX;
    return time - s->clock_offset;
}

static uint64_t guest_monotonic(void *ctx) {
    bru_session *s = ctx;
    determinism_step(&s->deterministic);
    return session_clock(s);
}

static uint64_t guest_wall(void *ctx) {
    bru_session *s = ctx;
    determinism_step(&s->deterministic);
    return session_wall(s);
}

/* Stamps of files: not read by the guest, and the embedder's own writing must not move its clocks.
 */
static uint64_t stamp(void *ctx) {
    return session_wall(ctx);
}

static bool guest_random(void *ctx, void *out, size_t len) {
    bru_session *s = ctx;
    if (s->deterministic.on) return determinism_draw(&s->deterministic, out, len);
    return random_system.fill(random_system.ctx, out, len);
}

bru_status session_open_world(bru_session *s, vfs_fs *root, bru_error *err) {
    uint64_t bytes = s->limits.file_bytes;
    const clock_source stamps = { stamp, stamp, s };
    const random_source random = { guest_random, s };
    memtree_options tree = { .max_bytes = bytes,
                             .max_file = bytes < SESSION_FILE_MAX ? bytes : SESSION_FILE_MAX,
                             .clock = stamps };
    sink_options streams = sink_for(s, true);
    calls_init(&s->calls);
    buf_init(&s->functions, FUNCTIONS_BYTES_MAX);
    buf_init(&s->run.posted, SESSION_RESULT_MAX);
    buf_init(&s->reply, SESSION_REPLY_MAX);
    buf_init(&s->failure, SESSION_FAILURE_MAX);
    bru_status st = s->tree ? BRU_OK : memtree_new(&tree, &s->tree, err);
    if (s->tree) memtree_set_clock(s->tree, &stamps);
    if (!st) st = sink_new(&streams, &s->output, err);
    if (!st) st = source_new((s->flags & BRU_PULL_INPUT) != 0, &s->input, err);
    if (!st) st = vfs_new(s->tree, s->output, s->input, &random, &s->files, err);
    if (!st) st = vfs_mount(s->files, "/lib", root, err);
    wasi_options options = { .files = s->files,
                             .clock = { guest_wall, guest_monotonic, s },
                             .random = random,
                             .cpu_time = guest_cpu,
                             .cpu_time_ctx = s };
    if (!st) st = wasi_new(&options, &s->wasi, err);
    return st;
}

void session_close_world(bru_session *s) {
    wasi_free(s->wasi);
    vfs_free(s->files);
    sink_free(s->output);
    source_free(s->input);
    fs_unref(s->tree);
    calls_free(&s->calls);
    buf_free(&s->functions);
    buf_free(&s->run.posted);
    buf_free(&s->reply);
    buf_free(&s->failure);
}

bru_status session_push(bru_session *s, const image_exports *exports, const void *bytes, size_t len,
                        uint32_t *at, engine_report *report, bru_error *err) {
    uint64_t args[] = { len };
    if (len > UINT32_MAX)
        return error_set(err, BRU_ELIMIT, "%zu bytes are more than a guest can take", len);
    bru_status st = engine_call(s->guest, exports->alloc, args, &s->engine, report, err);
    if (st) return st;
    if (report->outcome != ENGINE_RETURNED) return BRU_OK;
    *at = (uint32_t)report->value;
    void *to = gmem_at(instance_memory(s->guest), *at, len);
    if ((*at == 0 && len > 0) || !to)
        return error_set(err, BRU_ELIMIT,
                         "the guest has no memory for %zu bytes: raise the memory limit", len);
    if (len > 0) memcpy(to, bytes, len);
    return BRU_OK;
}

/* ---- Making and ending a session ---------------------------------------------------------- */

static bru_status mount_all(bru_session *s, const bru_session_options *o, bru_error *err) {
    bru_status st = BRU_OK;
    for (size_t i = 0; !st && i < o->mount_count; i++) {
        hostfs_options host = { .writable = (o->mounts[i].flags & BRU_MOUNT_WRITE) != 0 };
        vfs_fs *fs = NULL;
        st = hostfs_open(o->mounts[i].host_path, &host, &fs, err);
        if (!st) st = vfs_mount(s->files, o->mounts[i].guest_path, fs, err);
        fs_unref(fs);
    }
    return st;
}

/* The storage's files, in place of the session's own if that is where they are to be. */
static bru_status mount_storage(bru_session *s, const bru_session_options *o, bru_error *err) {
    if (!o->storage) return BRU_OK;
    return vfs_mount(s->files, o->storage_path ? o->storage_path : "/data",
                     storage_tree(o->storage), err);
}

/* What every program may expect to find, then the embedder's own. */
static bru_status set_environment(bru_session *s, const bru_session_options *o, bru_error *err) {
    static const char *const usual[] = { "HOME=/data", "TMPDIR=/tmp", "LANG=C.UTF-8" };
    enum { USUAL = sizeof usual / sizeof *usual };
    const char **all = mem_zero(USUAL + o->env_count, sizeof *all);
    size_t n = 0;
    if (!all) return error_set(err, BRU_ENOMEM, "no memory for the environment");
    for (size_t i = 0; i < USUAL; i++) {
        bool given = false;
        for (size_t k = 0; k < o->env_count; k++) {
            size_t name = (size_t)(strchr(usual[i], '=') - usual[i]) + 1;
            given = given || strncmp(o->env[k], usual[i], name) == 0;
        }
        if (!given) all[n++] = usual[i];
    }
    for (size_t k = 0; k < o->env_count; k++) all[n++] = o->env[k];
    bru_status st = wasi_set_env(s->wasi, all, n, err);
    mem_free(all);
    return st;
}

/* The addresses that the agent published at boot, and what a soft stop stores there. */
static bru_status read_control(bru_session *s, bru_error *err) {
    const bru_image *im = s->image;
    gmem memory = { (uint8_t *)mem_image_bytes(im->memory), mem_image_size(im->memory) };
    const void *at = gmem_at(memory, im->control_at, sizeof s->control);
    if (at) memcpy(&s->control, at, sizeof s->control);
    const agent_control *c = &s->control;
    if (!at || c->version != AGENT_PROTOCOL_VERSION || c->size != sizeof *c)
        return error_set(err, BRU_EMISMATCH,
                         "the image's agent speaks another protocol: build the image again");
    s->engine.grace = s->limits.grace_ns;
    session_arm_soft_stops(s);
    return BRU_OK;
}

void session_arm_soft_stops(bru_session *s) {
    const agent_control *c = &s->control;
    engine_soft soft = { 4,
                         { { c->async_exc, c->soft_exc, false },
                           { c->trip_one, 1, false },
                           { c->trip_any, 1, false },
                           { c->eval_breaker, c->async_bit, true } } };
    s->engine.soft_deadline = s->engine.soft_cpu = s->engine.soft_interrupt = soft;
    s->engine.soft_interrupt.stores[0].value = c->interrupt_exc;
}

static bru_status check_limits(const bru_limits *l, const bru_image *image, bru_error *err) {
    uint64_t least = mem_image_size(image->memory);
    if (l->file_bytes < SESSION_FILES_MIN)
        return error_set(err, BRU_EINVAL,
                         "a file limit of %llu bytes is too small: every guest has folders, %d "
                         "bytes are the least",
                         (unsigned long long)l->file_bytes, SESSION_FILES_MIN);
    if (l->memory_bytes < least)
        return error_set(
            err, BRU_EINVAL,
            "a memory limit of %llu bytes is too small: the interpreter itself has %llu",
            (unsigned long long)l->memory_bytes, (unsigned long long)least);
    return BRU_OK;
}

bru_status session_make_instance(bru_session *s, bru_error *err) {
    bru_image *im = s->image;
    bool unlimited = s->limits.memory_bytes == BRU_NO_LIMIT;
    instance_options options = {
        .size = sizeof options,
        .memory_limit = unlimited ? 0 : s->limits.memory_bytes / SLOT_PAGE * SLOT_PAGE,
        .ctx = { [SESSION_TABLE_WASI] = s->wasi, [SESSION_TABLE_OWN] = s },
    };
    return instance_take(&im->idle, im->link, im->memory, im->globals, im->globals_len, &options,
                         &s->guest, err);
}

bru_status session_new(bru_image *image, const bru_session_options *o, bru_session **out,
                       bru_error *err) {
    *out = NULL;
    bru_session *s = mem_zero(1, sizeof *s);
    if (!s) return error_set(err, BRU_ENOMEM, "no memory for a session");
    s->image = bru_image_ref(image);
    s->limits = session_limits(&o->limits);
    s->flags = o->flags;
    bru_status st = check_limits(&s->limits, image, err);
    if (!st) st = determinism_init(&s->own, o->deterministic, err);
    s->deterministic = s->own;
    if (!st) st = session_open_world(s, image->root, err);
    if (!st) st = mount_storage(s, o, err);
    if (!st) st = mount_all(s, o, err);
    if (!st) st = set_environment(s, o, err);
    if (!st) st = functions_copy(o->functions, o->function_count, &s->functions, err);
    if (!st) st = read_control(s, err);
    if (!st) st = session_make_instance(s, err);
    if (st)
        bru_session_free(s);
    else
        *out = s;
    return st;
}

void bru_session_free(bru_session *s) {
    if (!s) return;
    session_run_clear(s);
    instance_give(&s->image->idle, s->guest);
    session_close_world(s);
    bru_image_unref(s->image);
    mem_free(s);
}

bru_status session_reset(bru_session *s, unsigned flags, bru_error *err) {
    bru_status st = instance_reset(s->guest, err);
    if (st == BRU_EBUSY) return st;
    session_run_clear(s);
    session_forget_functions(s);
    s->cpu_before = 0;
    s->clock_offset = 0;
    s->deterministic = s->own;
    wasi_reset(s->wasi);
    sink_clear(s->output);
    source_clear(s->input);
    if (flags & BRU_RESET_FILES) memtree_clear(s->tree);
    s->phase = st ? PHASE_ENDED : PHASE_IDLE;
    return st;
}

void session_forget_functions(bru_session *s) {
    s->functions_told = false;
}

void bru_session_interrupt(bru_session *s, bru_interrupt how) {
    bool soft = how == BRU_INTERRUPT_SOFT;
    unsigned was = atomic_load(&s->asked);
    do {
        if (!(was & ASKED_RUNS)) return;
    } while (
        !atomic_compare_exchange_weak(&s->asked, &was, was | (soft ? ASKED_SOFT : ASKED_HARD)));
    engine_interrupt(s->guest, soft ? session_interrupt_grace(&s->limits) : 0);
    os_wake(&s->asked);
}

bru_status session_files(bru_session *s, vfs **out, bru_error *err) {
    *out = s->files;
    if (instance_state_of(s->guest) != INSTANCE_RUNNING) return BRU_OK;
    return error_set(err, BRU_EBUSY, "the session runs: wait for its next event");
}

uint64_t bru_session_private_bytes(bru_session *s) {
    return instance_measure(s->guest).written;
}
