#include "session/boot.h"
#include "session/session.h"

#include "base/os_wait.h"

#include <stdio.h>
#include <string.h>

/* What is imported before an image is frozen, unless the embedder says otherwise: what most
 * programs import anyway. */
static const char usual_modules[] = "json\nre\nmath\nrandom\ncollections\ndatetime\ndataclasses\n"
                                    "asyncio\ntyping\nfunctools\nitertools\nio\ntraceback\nenum\n"
                                    "string\ntextwrap\nos\npathlib\ntime\nabc\noperator\ncopy\n"
                                    "contextlib\nheapq\nbisect\nstatistics\nhashlib\nbase64";

enum { BOOT_SECONDS = 60, BOOT_MEMORY_MIB = 512 };
enum { WORDS_MAX = 400, WORDS_KEPT = 1 << 20 };

/* The last line that the guest wrote, for an error message: text of its own making. */
static void last_words(bru_session *s, char out[WORDS_MAX]) {
    buf text;
    buf_init(&text, WORDS_KEPT);
    if (s->failure.len)
        (void)!buf_append(&text, s->failure.data, s->failure.len);
    else
        (void)!sink_copy(s->output, SINK_ERR, &text);
    while (text.len && text.data[text.len - 1] <= ' ') text.len--;
    size_t from = text.len;
    while (from && text.data[from - 1] != '\n') from--;
    size_t len = text.len - from < WORDS_MAX ? text.len - from : WORDS_MAX - 1;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = text.data[from + i];
        out[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    out[len] = '\0';
    buf_free(&text);
}

static bru_status boot_failed(bru_session *s, const char *why, bru_error *err) {
    char words[WORDS_MAX];
    bool memory = instance_usage_of(s->guest).grow_refused;
    last_words(s, words);
    return error_set(err, BRU_EGUEST, "the guest did not boot: %s%s%s%s", why,
                     *why && *words ? "; its last words: " : "", words,
                     memory ? " (the memory limit was reached)" : "");
}

static bru_status boot_stopped(bru_session *s, bru_error *err) {
    wasi_stop_info stop = wasi_stop(s->wasi);
    char why[60];
    bool exit = stop.cause == WASI_STOP_EXIT;
    snprintf(why, sizeof why, exit ? "an import ended the process with code %u" : "it was stopped",
             stop.code);
    return boot_failed(s, why, err);
}

static bru_status boot_timeout(bru_session *s, bru_error *err) {
    char words[WORDS_MAX];
    last_words(s, words);
    return error_set(err, BRU_ELIMIT,
                     "the imports did not end in time: raise the limit, or preload less%s%s",
                     *words ? "; the guest's last words: " : "", words);
}

/* Lets the time pass that the parked guest waits for. Whatever else it waits for never comes. */
static bru_status boot_wait(bru_session *s, bru_error *err) {
    if (s->wait == WAIT_CALL) return boot_failed(s, "an import called a host function", err);
    uint64_t wake = s->wait == WAIT_TIME ? s->wake_at : wasi_wait(s->wasi).deadline;
    uint64_t end = s->engine.deadline;
    while (clock_monotonic() < (wake < end ? wake : end))
        os_wait(&s->asked, 0, wake < end ? wake : end);
    return wake < end ? BRU_OK : boot_timeout(s, err);
}

static bru_status boot_call(bru_session *s, uint32_t export, const uint64_t *args, uint32_t *value,
                            bru_error *err) {
    engine_report report;
    bru_status st = engine_call(s->guest, export, args, &s->engine, &report, err);
    while (!st && report.outcome == ENGINE_PARKED) {
        st = boot_wait(s, err);
        if (!st) st = engine_resume(s->guest, &s->engine, &report, err);
    }
    if (st) return st;
    *value = (uint32_t)report.value;
    switch (report.outcome) {
    case ENGINE_RETURNED: return BRU_OK;
    case ENGINE_TRAPPED: return boot_failed(s, engine_trap_text(report.trap), err);
    case ENGINE_HARD_STOP: return boot_timeout(s, err);
    default: return boot_stopped(s, err);
    }
}

static bru_status boot_guest(bru_session *s, const image_exports *exports, const char *preload,
                             uint32_t *control_at, bru_error *err) {
    uint32_t value, at = 0;
    engine_report report;
    size_t len = strlen(preload);
    bru_status st = boot_call(s, exports->initialize, NULL, &value, err);
    if (!st) st = session_push(s, exports, preload, len, &at, &report, err);
    uint64_t args[] = { at, len };
    if (!st) st = boot_call(s, exports->boot, args, &value, err);
    if (!st && value != 0) st = boot_failed(s, "", err);
    if (!st) st = boot_call(s, exports->control, NULL, control_at, err);
    if (!st && wasi_has_open_files(s->wasi))
        st = error_set(err, BRU_EGUEST, "the guest left files open after its boot");
    return st;
}

static bru_status boot_instance(bru_session *s, guest *code, image_writer *writer,
                                const bru_build_options *o, bru_error *err) {
    door_table tables[SESSION_TABLES];
    guest_link *link = NULL;
    vfs_fs *root = NULL;
    uint64_t memory = o->memory_bytes ? o->memory_bytes : (uint64_t)BOOT_MEMORY_MIB << 20;
    bru_status st = image_writer_root(writer, &root, err);
    if (!st) st = session_open_world(s, root, err);
    if (!st) st = guest_link_new(code, tables, session_tables(tables), &link, err);
    instance_options options = {
        .size = sizeof options,
        .memory_limit = memory == BRU_NO_LIMIT ? 0 : memory / SLOT_PAGE * SLOT_PAGE,
        .ctx = { [SESSION_TABLE_WASI] = s->wasi, [SESSION_TABLE_OWN] = s },
    };
    if (!st) st = instance_new(link, NULL, NULL, 0, &options, &s->guest, err);
    guest_link_unref(link);
    fs_unref(root);
    return st;
}

/* What is to be imported: the base's modules, then those asked for. Owned. */
static char *all_modules(const bru_build_options *o) {
    const char *more = o->preload ? o->preload : o->base ? "" : usual_modules;
    const char *before = o->base ? o->base->preloaded : "";
    size_t size = strlen(before) + strlen(more) + 2;
    char *all = mem_zero(size, 1);
    if (all) snprintf(all, size, "%s%s%s", before, *before && *more ? "\n" : "", more);
    return all;
}

/* The guest's code, and a reference to what becomes its /lib, before anything is added. */
static bru_status open_parts(const bru_build_options *o, guest **code, vfs_fs **root,
                             bru_error *err) {
    if (o->base) {
        *code = guest_ref(o->base->code);
        *root = fs_ref(o->base->root);
        return BRU_OK;
    }
    bru_status st = guest_open(o->guest_path, code, err);
    return st ? st : hostfs_open(o->root_path, NULL, root, err);
}

/* Boots the guest in `s`, and completes the image with it. */
static bru_status boot_and_freeze(bru_session *s, guest *code, const char *modules,
                                  image_writer *writer, const bru_build_options *o,
                                  bru_error *err) {
    image_exports exports;
    buf globals;
    uint32_t control_at = 0;
    buf_init(&globals, 1 << 16);
    bru_status st = image_exports_find(code, &exports, err);
    if (!st) st = boot_instance(s, code, writer, o, err);
    s->engine.deadline =
        clock_monotonic() + (o->timeout_ns ? o->timeout_ns : BOOT_SECONDS * 1000000000ull);
    if (!st) st = boot_guest(s, &exports, modules, &control_at, err);
    if (!st) st = instance_globals(s->guest, &globals, err);
    if (!st) {
        const image_state state = { .code = code,
                                    .preloaded = modules,
                                    .note = o->note ? o->note : "",
                                    .control_at = control_at,
                                    .memory = instance_memory(s->guest),
                                    .globals = globals.data,
                                    .globals_len = globals.len };
        st = image_writer_finish(writer, &state, err);
    }
    buf_free(&globals);
    return st;
}

bru_status boot_image(const bru_build_options *o, const char *path, bru_error *err) {
    bru_session s = { .limits = session_limits(&(bru_limits){ 0 }) };
    image_writer *writer = NULL;
    guest *code = NULL;
    vfs_fs *root = NULL;
    char *modules = all_modules(o);
    bru_status st = modules ? open_parts(o, &code, &root, err)
                            : error_set(err, BRU_ENOMEM, "no memory for the modules' names");
    if (!st) st = image_writer_new(path, root, o->files, o->file_count, &writer, err);
    if (!st) st = boot_and_freeze(&s, code, modules, writer, o, err);
    instance_free(s.guest);
    session_close_world(&s);
    image_writer_free(writer);
    fs_unref(root);
    guest_unref(code);
    mem_free(modules);
    return st;
}
