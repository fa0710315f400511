/* brumate [script | - | -c | -m]: from a command line to an exit code. */
#include "program.h"

#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void program_unload(program *p) {
    program_free(&p->source);
    free(p->argv);
}

int program_load(const settings *s, program *p) {
    *p = (program){ .exec = BRU_EXEC_OPTIONS_INIT };
    p->argv = calloc(s->arg_count + 1, sizeof *p->argv);
    if (!p->argv) return fail("out of memory");
    for (size_t i = 0; i < s->arg_count; i++) p->argv[i + 1] = s->args[i];
    p->exec.argv = p->argv;
    p->exec.argc = s->arg_count + 1;
    p->exec.timeout_ns = s->limits.timeout_ns;
    /* With a prompt atexit runs behind that; what is to be frozen goes on, so it never does. */
    p->exec.flags = s->interactive || s->output ? 0 : BRU_EXEC_PROGRAM;
    if (s->code) {
        p->argv[0] = "-c";
        p->exec.file_name = "<string>";
        return source_text("-c", s->code, &p->source);
    }
    if (s->module) {
        p->exec.argv++; /* Python puts the module's file there */
        p->exec.argc--;
        p->exec.flags |= BRU_EXEC_MODULE;
        return source_text("-m", s->module, &p->source);
    }
    bool in = !s->script || strcmp(s->script, "-") == 0;
    p->argv[0] = s->script ? s->script : "";
    p->none = in && (isatty(STDIN_FILENO) || (s->interactive && !s->script));
    p->from_stdin = in && !p->none;
    p->exec.file_name = in ? "<stdin>" : s->script;
    if (p->none) return 0;
    return in ? source_stdin(&p->source) : source_file(s->script, &p->source);
}

/* Only the image that came with us goes unchecked: nobody else can write it. */
int image_open_for(const settings *s, bru_image **out) {
    bru_image_options o = BRU_IMAGE_OPTIONS_INIT;
    bru_error err = { 0 };
    o.guest_path = s->guest;
    const char *named = getenv("BRUMATE_IMAGE");
    if (!s->image && !s->guest && !(named && *named)) o.flags = BRU_IMAGE_TRUSTED;
    return bru_image_open(s->image, &o, out, &err) ? fail_error(&err) : 0;
}

/* At a prompt somebody waits with a finger on Ctrl-C, and the session is worth more than the
 * moment: a long call into C gets the time to come back. */
bru_session_options session_options_for(const settings *s, bool prompt) {
    bru_session_options o = BRU_SESSION_OPTIONS_INIT;
    o.limits = s->limits;
    if (prompt && !s->grace_given) o.limits.grace_ns = UINT64_C(1000000) * REPL_GRACE_MS;
    o.mounts = s->mounts;
    o.mount_count = s->mount_count;
    o.env = s->env;
    o.env_count = s->env_count;
    o.deterministic = s->deterministic ? &s->fixed : NULL;
    o.flags = BRU_STREAM_OUTPUT | BRU_PULL_INPUT;
    return o;
}

/* Answers the exit code; `*went` tells whether a prompt may follow in the same session. */
int program_run(runner *r, const program *p, bool *went) {
    bru_result *result;
    if (p->from_stdin) r->input->ended = true;
    int rc = pump(r, p->waiting ? NULL : &p->source, p->exec, &result);
    *went = rc == 0;
    if (rc || r->frozen) return rc;
    report_end(r->settings, result);
    rc = bru_result_exit_code(result) & 0xff;
    if (r->settings->stats && report_stats(r, result)) rc = EXIT_OURS;
    if (r->settings->interactive && !bru_result_session_alive(result) &&
        report_revival(r->session)) {
        rc = EXIT_OURS;
        *went = false;
    }
    bru_result_free(result);
    return rc;
}

int program_run_in(runner *r, const program *p, const bru_image *image) {
    bool went = true;
    int rc = p->none ? 0 : program_run(r, p, &went);
    bool prompt = p->none || (r->settings->interactive && went && !p->from_stdin);
    return prompt ? repl(r, image) : rc;
}

int command_run(const settings *s, ctrl_c *interrupts) {
    program p;
    input in = { 0 };
    bru_image *image = NULL;
    runner r = { .settings = s, .interrupts = interrupts, .input = &in, .lines = s->interactive };
    bru_error err = { 0 };
    int rc = program_load(s, &p);
    if (!rc) rc = image_open_for(s, &image);
    if (!rc) {
        bru_session_options o = session_options_for(s, p.none || s->interactive);
        if (bru_session_new(image, &o, &r.session, &err)) rc = fail_error(&err);
    }
    if (!rc) rc = program_run_in(&r, &p, image);
    bru_session_free(r.session);
    bru_image_unref(image);
    input_free(&in);
    program_unload(&p);
    return rc;
}
