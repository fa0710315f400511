#include "session/boot.h"
#include "session/session.h"

#include <string.h>

/* What is imported before an image is frozen, unless the embedder says otherwise: what most
 * programs import anyway. */
static const char usual_modules[] = "json\nre\nmath\nrandom\ncollections\ndatetime\ndataclasses\n"
                                    "asyncio\ntyping\nfunctools\nitertools\nio\ntraceback\nenum\n"
                                    "string\ntextwrap\nos\npathlib\ntime\nabc\noperator\ncopy\n"
                                    "contextlib\nheapq\nbisect\nstatistics\nhashlib\nbase64";

/* The last line that the guest wrote, for an error message. */
static void last_words(bru_session *s, char *out, size_t cap) {
    buf text;
    buf_init(&text, 1 << 20);
    (void)!sink_copy(s->output, SINK_ERR, &text);
    if (s->failure.len) {
        buf_clear(&text);
        (void)!buf_append(&text, s->failure.data, s->failure.len);
    }
    while (text.len && text.data[text.len - 1] == '\n') text.len--;
    size_t from = text.len;
    while (from && text.data[from - 1] != '\n') from--;
    size_t len = text.len - from < cap ? text.len - from : cap - 1;
    if (len) memcpy(out, text.data + from, len);
    out[len] = '\0';
    buf_free(&text);
}

static bru_status boot_call(bru_session *s, uint32_t export, const uint64_t *args, const char *what,
                            uint32_t *value, bru_error *err) {
    engine_report report;
    char words[300];
    bru_status st = engine_call(s->guest, export, args, &s->engine, &report, err);
    if (st) return st;
    *value = (uint32_t)report.value;
    if (report.outcome == ENGINE_RETURNED) return BRU_OK;
    last_words(s, words, sizeof words);
    const char *why = report.outcome == ENGINE_TRAPPED ? engine_trap_text(report.trap) : "stopped";
    return error_set(err, BRU_EGUEST, "the guest failed in %s: %s; its last words: %s", what, why,
                     words[0] ? words : "none");
}

static bru_status boot_guest(bru_session *s, const image_exports *exports, const char *preload,
                             uint32_t *control_at, bru_error *err) {
    uint32_t value, at = 0;
    char words[300];
    engine_report report;
    size_t len = strlen(preload);
    bru_status st = boot_call(s, exports->initialize, NULL, "its start", &value, err);
    if (!st) st = session_push(s, exports, preload, len, &at, &report, err);
    uint64_t args[] = { at, len };
    if (!st) st = boot_call(s, exports->boot, args, "its boot", &value, err);
    if (!st && value != 0) {
        last_words(s, words, sizeof words);
        st = error_set(err, BRU_EGUEST, "the guest did not boot: %s", words);
    }
    if (!st) st = boot_call(s, exports->control, NULL, "its control block", control_at, err);
    if (!st && wasi_has_open_files(s->wasi))
        st = error_set(err, BRU_EGUEST, "the guest left files open after its boot");
    return st;
}

static bru_status boot_instance(bru_session *s, guest *code, image_writer *writer, bru_error *err) {
    door_table tables[SESSION_TABLES];
    guest_link *link = NULL;
    vfs_fs *root = NULL;
    bru_status st = image_writer_root(writer, &root, err);
    if (!st) st = session_open_world(s, root, err);
    if (!st) st = guest_link_new(code, tables, session_tables(tables), &link, err);
    instance_options options = {
        .size = sizeof options,
        .ctx = { [SESSION_TABLE_WASI] = s->wasi, [SESSION_TABLE_OWN] = s },
    };
    if (!st) st = instance_new(link, NULL, NULL, 0, &options, &s->guest, err);
    guest_link_unref(link);
    fs_unref(root);
    return st;
}

bru_status boot_image(const bru_build_options *o, const char *path, bru_error *err) {
    bru_session s = { .limits = session_limits(&(bru_limits){ 0 }) };
    image_writer *writer = NULL;
    guest *code = NULL;
    image_exports exports;
    buf globals;
    const char *preload = o->preload ? o->preload : usual_modules;
    uint32_t control_at = 0;
    buf_init(&globals, 1 << 16);
    bru_status st = guest_open(o->guest_path, &code, err);
    if (!st) st = image_exports_find(code, &exports, err);
    if (!st) st = image_writer_new(path, o->root_path, &writer, err);
    if (!st) st = boot_instance(&s, code, writer, err);
    if (!st) st = boot_guest(&s, &exports, preload, &control_at, err);
    if (!st) st = instance_globals(s.guest, &globals, err);
    image_state state = { .code = code, .preloaded = preload, .control_at = control_at };
    if (!st) {
        state.memory = instance_memory(s.guest);
        state.globals = globals.data;
        state.globals_len = globals.len;
        st = image_writer_finish(writer, &state, err);
    }
    instance_free(s.guest);
    session_close_world(&s);
    image_writer_free(writer);
    guest_unref(code);
    buf_free(&globals);
    return st;
}
