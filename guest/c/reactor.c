/* The guest's exports: the steps by which the host drives the agent (protocol.h).
 *
 * The common way of an execution (compile, evaluate, flush, post) is C; the agent's Python comes in
 * for exceptions, for await, for whatever plain code left on the event loop. However the guest's
 * Python is broken, each execution ends with one result: if the agent cannot make it, end_bare()
 * does. */
#include "boot.h"
#include "capture.h"
#include "core.h"
#include "functions.h"
#include "module.h"
#include "value.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(n) __attribute__((export_name(n)))

/* A step's input up to this size has a place of its own, so that it writes no new page. */
enum { INPUT_SMALL = 4096 };
/* So many stops may strike the agent while it ends one execution, before it gives up. */
enum { STRIKES_MAX = 16 };

static _Alignas(16) char input_small[INPUT_SMALL];
static void *input_large;

/* Bound before user code runs. */
static struct {
    PyObject *globals, *sys, *modules;
    PyObject *s_main, *s_stdout, *s_stderr, *s_flush;
    /* The agent's entry points, by name in _brumate_agent; see there. */
    PyObject *begin, *start, *finish, *struck, *deliver, *cancel, *check, *complete, *wake, *clear;
    unsigned runs;
} agent;

/* --- ends --- */

/* Memory kept back, so that a program that used up all the rest can still be told how it ended. Its
 * pages are never written, so they cost nothing. */
enum { RESERVE = 1 << 20 };
static void *reserve;

static void reserve_keep(void)
{
    if (!reserve)
        reserve = malloc(RESERVE);
}

static void reserve_spend(void)
{
    free(reserve);
    reserve = NULL;
}

static bool is_stop(PyObject *exc) {
    return exc && ((PyObject *)Py_TYPE(exc) == guest.soft_type ||
                   (PyObject *)Py_TYPE(exc) == guest.interrupt_type);
}

/* The end of an execution when the agent's Python failed with `exc` (borrowed). */
static void end_bare(PyObject *exc) {
    PyObject *type = NULL, *text = NULL;
    reserve_spend();
    if (exc) {
        type = PyUnicode_FromString(Py_TYPE(exc)->tp_name);
        PyErr_Clear();
        text = PyObject_Str(exc);
        PyErr_Clear();
    }
    if (module_result(AGENT_END_EXCEPTION, 1, type, text, NULL) < 0 && guest.open) {
        static const agent_result_header bare = { .end = AGENT_END_EXCEPTION, .code = 1 };
        guest.open = 0;
        module_post(AGENT_POST_RESULT, &bare, sizeof bare);
    }
    Py_XDECREF(type);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* Calls an entry point that answers an agent_rest; steals `arg`, which may be NULL with an
 * exception set. A stop that strikes inside the agent's own code ends the execution like one that
 * struck user code. */
static uint32_t agent_call(PyObject *function, PyObject *arg) {
    for (int strikes = 0; arg && strikes < STRIKES_MAX; strikes++) {
        PyObject *answer = PyObject_CallOneArg(function, arg);
        Py_DECREF(arg);
        arg = NULL;
        if (answer) {
            long rest = PyLong_AsLong(answer);
            Py_DECREF(answer);
            PyErr_Clear();
            return rest == AGENT_REST_PENDING ? AGENT_REST_PENDING : AGENT_REST_DONE;
        }
        PyObject *exc = PyErr_GetRaisedException();
        if (!is_stop(exc)) {
            PyErr_SetRaisedException(exc);
            break;
        }
        function = agent.struck;
        arg = exc;
    }
    Py_XDECREF(arg);
    bool was_open = guest.open;
    PyObject *exc = PyErr_GetRaisedException();
    end_bare(exc);
    Py_XDECREF(exc);
    return was_open ? AGENT_REST_DONE : AGENT_REST_BROKEN;
}

static void flush(PyObject *name) {
    PyObject *file = PyDict_GetItemWithError(agent.sys, name);
    if (file && file != Py_None) {
        Py_INCREF(file);
        PyObject *done = PyObject_CallMethodNoArgs(file, agent.s_flush);
        Py_XDECREF(done);
        Py_DECREF(file);
    }
    PyErr_Clear(); /* the guest's own stream is the guest's own business */
}

/* Ends plain code: the current exception is how. */
static uint32_t end_plain(uint32_t flags) {
    core_stop_take();
    if (!PyErr_Occurred() && !guest.loop_used) (void)capture_make(agent.globals);
    PyObject *exc = PyErr_GetRaisedException();
    if (exc && PyErr_GivenExceptionMatches(exc, PyExc_MemoryError))
        reserve_spend();
    if (exc || guest.loop_used || (flags & AGENT_EXEC_FINAL))
        return agent_call(agent.finish, exc ? exc : Py_NewRef(Py_None));
    flush(agent.s_stdout);
    flush(agent.s_stderr);
    core_stop_take();
    if (capture_value() || capture_error()) {
        if (module_result(AGENT_END_OK, 0, NULL, NULL, NULL) < 0) end_bare(NULL);
        return AGENT_REST_DONE;
    }
    static const agent_result_header ok = { .end = AGENT_END_OK };
    if (guest.open) {
        guest.open = 0;
        module_post(AGENT_POST_RESULT, &ok, sizeof ok);
    }
    return AGENT_REST_DONE;
}

/* --- executing --- */

typedef struct exec_part {
    const char *bytes;
    size_t len;
} exec_part;

typedef struct exec_input {
    uint32_t flags, argc;
    exec_part name, args, functions, inputs, capture, source;
} exec_input;

static bool exec_parse(exec_input *in, const char *bytes, size_t len) {
    agent_exec head;
    if (len < sizeof head) return false;
    memcpy(&head, bytes, sizeof head);
    *in = (exec_input){ .flags = head.flags, .argc = head.argc };
    const struct {
        exec_part *part;
        size_t len;
    } parts[] = {
        { &in->name, head.name_len },           { &in->args, head.args_len },
        { &in->functions, head.functions_len }, { &in->inputs, head.inputs_len },
        { &in->capture, head.capture_len },
    };
    const char *at = bytes + sizeof head, *end = bytes + len;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].len > (size_t)(end - at)) return false;
        *parts[i].part = (exec_part){ at, parts[i].len };
        at += parts[i].len;
    }
    in->source = (exec_part){ at, (size_t)(end - at) };
    return true;
}

static PyObject *exec_name(const exec_input *in) {
    if (in->name.len)
        return PyUnicode_DecodeUTF8(in->name.bytes, (Py_ssize_t)in->name.len, "surrogateescape");
    if (agent.runs <= 1) return PyUnicode_FromString("<brumate>");
    return PyUnicode_FromFormat("<brumate:%u>", agent.runs);
}

/* NULL-terminated arguments to a list. */
static PyObject *exec_args(const exec_input *in) {
    PyObject *list = PyList_New(0);
    const char *at = in->args.bytes, *end = in->args.bytes + in->args.len;
    for (uint32_t i = 0; list && i < in->argc && at < end; i++) {
        size_t len = strnlen(at, (size_t)(end - at));
        PyObject *arg = PyUnicode_DecodeUTF8(at, (Py_ssize_t)len, "surrogateescape");
        if (!arg || PyList_Append(list, arg) < 0) Py_CLEAR(list);
        Py_XDECREF(arg);
        at += len + 1;
    }
    return list;
}

/* `source` must end in a NUL beyond its length. */
static PyObject *exec_compile(PyObject *name, const char *source, size_t len) {
    if (memchr(source, 0, len)) {
        PyErr_SetString(PyExc_SyntaxError, "source code string cannot contain null bytes");
        return NULL;
    }
    PyCompilerFlags flags = {
        .cf_flags = PyCF_SOURCE_IS_UTF8 | PyCF_IGNORE_COOKIE | PyCF_ALLOW_TOP_LEVEL_AWAIT,
        .cf_feature_version = PY_MINOR_VERSION,
    };
    return Py_CompileStringObject(source, name, Py_file_input, &flags, -1);
}

/* The rarer kinds of execution (arguments, scripts, modules, REPL lines): the agent prepares
 * __main__ and answers what is to be run: a code object, or a tuple of such that await nothing, or
 * a coroutine. */
static PyObject *exec_begin(const exec_input *in, PyObject *name) {
    PyObject *args = exec_args(in);
    PyObject *what = NULL;
    if (args)
        what = PyObject_CallFunction(agent.begin, "IOOs#", in->flags, name, args,
                                     in->source.bytes, (Py_ssize_t)in->source.len);
    Py_XDECREF(args);
    return what;
}

static PyObject *exec_prepare(const exec_input *in, PyObject *name) {
    if (!name) return NULL;
    bool script = in->argc || (in->name.len && in->name.bytes[0] != '<');
    if (script || (in->flags & ~(uint32_t)AGENT_EXEC_FINAL)) return exec_begin(in, name);
    module_remember(name, in->source.bytes, in->source.len);
    return exec_compile(name, in->source.bytes, in->source.len);
}

/* Sets the variables that the host gives. -1 with an exception. */
static int set_inputs(const exec_part *inputs) {
    PyObject *map = value_decode(inputs->bytes, inputs->len), *name, *value;
    Py_ssize_t at = 0;
    int failed = map ? 0 : -1;
    if (map && !PyDict_CheckExact(map)) {
        PyErr_SetString(PyExc_ValueError, "the inputs are not a map from names to values");
        failed = -1;
    }
    while (!failed && PyDict_Next(map, &at, &name, &value)) {
        if (!PyUnicode_CheckExact(name)) {
            PyErr_SetString(PyExc_ValueError, "an input's name is not a string");
            failed = -1;
            break;
        }
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name); /* as names in code are */
        failed = PyDict_SetItem(agent.globals, name, value);
        Py_DECREF(name);
    }
    Py_XDECREF(map);
    return failed;
}

/* What the host puts into `__main__` before the code runs. -1 with an exception. */
static int exec_equip(const exec_input *in) {
    if (in->functions.len &&
        functions_set(agent.globals, in->functions.bytes, in->functions.len) < 0)
        return -1;
    return in->inputs.len ? set_inputs(&in->inputs) : 0;
}

/* Runs `what`. A new reference to a coroutine that is to be driven on the loop, or to None; NULL
 * with the exception that user code raised. */
static PyObject *exec_run(PyObject *what) {
    if (PyCoro_CheckExact(what)) return Py_NewRef(what);
    if (PyCode_Check(what)) {
        PyObject *value = PyEval_EvalCode(what, agent.globals, agent.globals);
        if (value && !PyCoro_CheckExact(value)) Py_SETREF(value, Py_NewRef(Py_None));
        return value;
    }
    for (Py_ssize_t i = 0; PyTuple_Check(what) && i < PyTuple_GET_SIZE(what); i++) {
        PyObject *value = PyEval_EvalCode(PyTuple_GET_ITEM(what, i), agent.globals, agent.globals);
        if (!value) return NULL;
        Py_DECREF(value);
    }
    Py_RETURN_NONE;
}

/* `__main__` may have been taken out of sys.modules, or replaced. */
static void main_restore(void) {
    PyObject *found = PyDict_GetItemWithError(agent.modules, agent.s_main);
    if (found != guest.main) PyDict_SetItem(agent.modules, agent.s_main, guest.main);
    PyErr_Clear();
}

/* Whether nothing can show lines of `code` later, once it has run well: it defines no code of its
 * own. */
static bool is_flat(PyObject *code) {
    if (!PyCode_Check(code)) return false;
    PyObject *consts = ((PyCodeObject *)code)->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(consts); i++) {
        if (PyCode_Check(PyTuple_GET_ITEM(consts, i))) return false;
    }
    return true;
}

static uint32_t step_exec(const char *bytes, size_t len) {
    exec_input in;
    if (guest.open || !exec_parse(&in, bytes, len)) {
        static const char why[] = "a malformed execution, or one while another is pending";
        module_post(AGENT_POST_FAILURE, why, sizeof why - 1);
        return guest.open ? AGENT_REST_PENDING : AGENT_REST_BROKEN;
    }
    guest.open = 1;
    guest.flags = in.flags;
    guest.loop_used = 0;
    Py_CLEAR(guest.struck);
    agent.runs++;
    reserve_keep();
    main_restore();
    PyObject *name = exec_name(&in);
    PyObject *what = exec_equip(&in) < 0 ? NULL : exec_prepare(&in, name);
    capture_begin(agent.globals, what, in.capture.bytes, in.capture.len);
    PyObject *value = what ? exec_run(what) : NULL;
    if (value == Py_None && is_flat(what)) module_forget(name);
    Py_XDECREF(what);
    Py_XDECREF(name);
    if (value && value != Py_None) return agent_call(agent.start, value);
    Py_XDECREF(value);
    return end_plain(in.flags);
}

/* --- the other steps --- */

/* agent_reply records to a list of (id, ok, bytes); a damaged end is left out. */
static PyObject *replies_parse(const char *bytes, size_t len) {
    PyObject *list = PyList_New(0);
    while (list && len >= sizeof(agent_reply)) {
        agent_reply head;
        memcpy(&head, bytes, sizeof head);
        bytes += sizeof head;
        len -= sizeof head;
        if (head.len > len) break;
        PyObject *item = Py_BuildValue("(IOy#)", head.id, head.ok ? Py_True : Py_False, bytes,
                                       (Py_ssize_t)head.len);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
        bytes += head.len;
        len -= head.len;
    }
    return list;
}

/* CHECK and COMPLETE: the agent's answer is posted as it is; if it fails, `otherwise`. */
static uint32_t step_ask(PyObject *function, const char *bytes, size_t len, const char *otherwise) {
    PyObject *answer = PyObject_CallFunction(function, "s#", bytes, (Py_ssize_t)len);
    if (answer && PyBytes_Check(answer))
        module_post(AGENT_POST_REPLY, PyBytes_AS_STRING(answer), (size_t)PyBytes_GET_SIZE(answer));
    else
        module_post(AGENT_POST_REPLY, otherwise, strlen(otherwise));
    Py_XDECREF(answer);
    PyErr_Clear();
    core_stop_take();
    return guest.open ? AGENT_REST_PENDING : AGENT_REST_DONE;
}

/* Dropping variables may run destructors, so the host functions come back behind that. */
static uint32_t step_clear(void) {
    PyObject *done = PyObject_CallNoArgs(agent.clear);
    Py_XDECREF(done);
    PyErr_Clear();
    core_stop_take();
    main_restore();
    functions_restore(agent.globals);
    return guest.open ? AGENT_REST_PENDING : AGENT_REST_DONE;
}

static uint32_t step(uint32_t op, char *bytes, size_t len) {
    switch (op) {
    case AGENT_OP_EXEC: return step_exec(bytes, len);
    case AGENT_OP_DELIVER: return agent_call(agent.deliver, replies_parse(bytes, len));
    case AGENT_OP_CHECK: return step_ask(agent.check, bytes, len, "\2");
    case AGENT_OP_COMPLETE: return step_ask(agent.complete, bytes, len, "");
    case AGENT_OP_CANCEL: return agent_call(agent.cancel, Py_NewRef(Py_None));
    case AGENT_OP_CLEAR: return step_clear();
    default: return AGENT_REST_BROKEN;
    }
}

/* What an instance does first: its own entropy, environment and working folder. */
static void wake(void) {
    PyObject *done = PyObject_CallNoArgs(agent.wake);
    Py_XDECREF(done);
    PyErr_Clear();
}

/* --- exports --- */

EXPORT("bru_alloc") void *bru_alloc(uint32_t len) {
    if (len < INPUT_SMALL) return input_small;
    free(input_large);
    input_large = malloc((size_t)len + 1);
    return input_large;
}

EXPORT("bru_control") agent_control *bru_control(void) {
    return &guest.control;
}

/* A place for the NUL after the input is there only in a buffer of bru_alloc(). */
static bool input_is_ours(const char *bytes, uint32_t len) {
    return (bytes == input_small && len < INPUT_SMALL) || (bytes && bytes == input_large);
}

EXPORT("bru_step") uint32_t bru_step(uint32_t op, char *bytes, uint32_t len) {
    if (!guest.main || (len && !input_is_ours(bytes, len))) return AGENT_REST_BROKEN;
    if (!len) bytes = input_small;
    bytes[len] = 0;
    if (guest.control.fresh) {
        guest.control.fresh = 0;
        wake();
    }
    guest.control.waits_len = 0;
    guest.control.wake_at = UINT64_MAX;
    uint32_t rest = step(op, bytes, len);
    free(input_large);
    input_large = NULL;
    return rest;
}

/* --- boot --- */

static int bind_agent(PyObject *module) {
    functions_agent calls;
    PyObject *to_json;
    const struct {
        PyObject **slot;
        const char *name;
    } entry[] = {
        { &agent.begin, "begin" },   { &agent.start, "start" },       { &agent.finish, "finish" },
        { &agent.struck, "struck" }, { &agent.deliver, "deliver" },   { &agent.cancel, "cancel" },
        { &agent.check, "check" },   { &agent.complete, "complete" }, { &agent.wake, "wake" },
        { &agent.clear, "clear" },   { &guest.lines, "lines" },       { &to_json, "to_json" },
        { &calls.expect, "expect" }, { &calls.forget, "forget" },     { &calls.deliver, "answer" },
        { &calls.error, "error" },   { &calls.blame, "blame" },       { &calls.describe, "describe" },
    };
    for (size_t i = 0; i < sizeof entry / sizeof *entry; i++) {
        *entry[i].slot = PyObject_GetAttrString(module, entry[i].name);
        if (!*entry[i].slot) return -1;
    }
    functions_bind(&calls);
    capture_bind(to_json);
    return 0;
}

static int bind_python(void) {
    agent.s_main = PyUnicode_InternFromString("__main__");
    agent.s_stdout = PyUnicode_InternFromString("stdout");
    agent.s_stderr = PyUnicode_InternFromString("stderr");
    agent.s_flush = PyUnicode_InternFromString("flush");
    agent.modules = Py_XNewRef(PyImport_GetModuleDict());
    guest.main = Py_XNewRef(PyImport_AddModule("__main__"));
    if (!agent.s_main || !agent.s_stdout || !agent.s_stderr || !agent.s_flush || !guest.main)
        return -1;
    agent.globals = Py_NewRef(PyModule_GetDict(guest.main));
    PyObject *sys = PyImport_ImportModule("sys");
    if (!sys) return -1;
    agent.sys = Py_NewRef(PyModule_GetDict(sys));
    Py_DECREF(sys);
    return 0;
}

/* The agent's folder is on sys.path for this one import only. */
static PyObject *import_agent(void) {
    PyObject *path = PyDict_GetItemString(agent.sys, "path");
    PyObject *folder = PyUnicode_FromString("/lib/brumate");
    PyObject *module = NULL;
    if (path && folder && PyList_Insert(path, 0, folder) == 0) {
        module = PyImport_ImportModule("_brumate_agent");
        if (PyList_SetSlice(path, 0, 1, NULL) < 0) Py_CLEAR(module);
    }
    Py_XDECREF(folder);
    return module;
}

/* Runs a line as an execution of the host would, so that what it needs is warm. */
static void rehearse(uint32_t flags, const char *source) {
    agent_exec head = { .flags = flags };
    size_t len = strlen(source);
    char *bytes = bru_alloc((uint32_t)(sizeof head + len));
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, source, len);
    bru_step(AGENT_OP_EXEC, bytes, (uint32_t)(sizeof head + len));
    for (int i = 0; guest.open && i < 8; i++) bru_step(AGENT_OP_DELIVER, bru_alloc(0), 0);
}

static int rehearse_all(PyObject *module) {
    PyObject *list = PyObject_GetAttrString(module, "rehearsal");
    if (!list || !PyList_Check(list)) return -1;
    for (int round = 0; round < 3; round++) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
            const char *source = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
            if (source) rehearse(i % 2 ? AGENT_EXEC_DISPLAY : 0, source);
        }
    }
    Py_DECREF(list);
    PyObject *done = PyObject_CallMethod(module, "rehearsed", NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int boot(const char *modules, uint32_t len) {
    if (boot_python() < 0) return 1;
    PyObject *module = NULL;
    if (bind_python() == 0) module = import_agent();
    if (!module || bind_agent(module) < 0) {
        boot_failed("starting the agent");
        return 2;
    }
    PyObject *done = PyObject_CallMethod(module, "boot", "s#", modules, (Py_ssize_t)len);
    if (!done || module_stops_ready() < 0) {
        boot_failed("importing modules");
        return 3;
    }
    Py_DECREF(done);
    guest.quiet = 1;
    int failed = rehearse_all(module);
    guest.quiet = 0;
    Py_DECREF(module);
    if (failed) {
        boot_failed("warming up");
        return 4;
    }
    Py_CLEAR(guest.struck);
    agent.runs = 0;
    boot_settle();
    guest.control.fresh = 1;
    return 0;
}

EXPORT("bru_boot") int32_t bru_boot(const char *modules, uint32_t len) {
    return boot(modules, len);
}
