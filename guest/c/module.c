/* See module.h. */
#include "module.h"

#include "capture.h"
#include "core.h"
#include "functions.h"

#include <stdbool.h>
#include <string.h>
#include <wasi/libc-environ.h>

#define IMPORT(n) __attribute__((import_module("brumate"), import_name(n)))
IMPORT("post") int32_t door_post(uint32_t kind, const void *bytes, uint32_t len);
IMPORT("wait") int32_t door_wait(int64_t wake_at);
IMPORT("take") int32_t door_take(void *bytes, uint32_t len);
IMPORT("soft_ack") void door_soft_ack(void);

/* Sources kept for tracebacks, at most: in number and in bytes together. */
enum { SOURCES_KEPT = 256, SOURCES_BYTES = 8 << 20 };
/* Descriptors that can be waited for at once. */
enum { WAITS_MAX = 256 };

guest_state guest;

static struct {
    PyObject *name[SOURCES_KEPT]; /* a ring */
    size_t len[SOURCES_KEPT];
    unsigned first, count;
    size_t bytes;
} sources;

static agent_wait waits[WAITS_MAX];

int module_post(uint32_t kind, const void *bytes, size_t len) {
    if (guest.quiet) return 0;
    return door_post(kind, bytes, (uint32_t)len);
}

/* A new reference to the UTF-8 of `text`, or NULL with an exception. */
static PyObject *encode(PyObject *text) {
    if (!text) return PyBytes_FromStringAndSize(NULL, 0);
    return PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
}

size_t module_take(char *bytes, size_t len) {
    int32_t got = door_take(bytes, (uint32_t)len);
    return got < 0 || (size_t)got > len ? 0 : (size_t)got;
}

int module_is_stop(void) {
    PyObject *type = PyErr_Occurred();
    return type && (type == guest.soft_type || type == guest.interrupt_type);
}

/* The parts of a result: three texts, then the captured variable and why there is none. */
enum { PARTS = 5, PART_VALUE = 3, PART_VALUE_ERROR = 4 };

static size_t part_len(PyObject *part) {
    return part ? (size_t)PyBytes_GET_SIZE(part) : 0;
}

static int post_result(uint32_t end, int32_t code, PyObject *const *part) {
    agent_result_header head = {
        .end = end,
        .code = code,
        .type_len = (uint32_t)part_len(part[0]),
        .text_len = (uint32_t)part_len(part[1]),
        .traceback_len = (uint32_t)part_len(part[2]),
        .value_len = (uint32_t)part_len(part[PART_VALUE]),
        .value_error_len = (uint32_t)part_len(part[PART_VALUE_ERROR]),
    };
    size_t len = sizeof head;
    for (int i = 0; i < PARTS; i++) len += part_len(part[i]);
    char *buffer = malloc(len);
    if (!buffer) return -1;
    memcpy(buffer, &head, sizeof head);
    char *at = buffer + sizeof head;
    for (int i = 0; i < PARTS; i++) {
        if (part_len(part[i])) memcpy(at, PyBytes_AS_STRING(part[i]), part_len(part[i]));
        at += part_len(part[i]);
    }
    guest.open = 0;
    module_post(AGENT_POST_RESULT, buffer, len);
    free(buffer);
    return 0;
}

int module_result(uint32_t end, int32_t code, PyObject *type, PyObject *text, PyObject *traceback) {
    if (!guest.open) return 0;
    bool well = end == AGENT_END_OK;
    PyObject *part[PARTS] = {
        encode(type),
        encode(text),
        encode(traceback),
        well ? capture_value() : NULL,
        well ? capture_error() : NULL,
    };
    int done = part[0] && part[1] && part[2] ? post_result(end, code, part) : -1;
    if (done && part[PART_VALUE]) { /* no memory to send it along */
        part[PART_VALUE] = NULL;
        part[PART_VALUE_ERROR] = NULL;
        done = part[0] && part[1] && part[2] ? post_result(end, code, part) : -1;
    }
    for (int i = 0; i < PART_VALUE; i++) Py_XDECREF(part[i]);
    if (done) PyErr_Clear();
    return done;
}

/* A list of the lines of `source`, each with its end of line; NULL with an exception. */
static PyObject *split(const char *source, size_t len) {
    PyObject *list = PyList_New(0);
    const char *end = source + len;
    while (list && source < end) {
        const char *stop = memchr(source, '\n', (size_t)(end - source));
        const char *next = stop ? stop + 1 : end;
        PyObject *line = PyUnicode_DecodeUTF8(source, next - source, "replace");
        if (!line || PyList_Append(list, line) < 0) Py_CLEAR(list);
        Py_XDECREF(line);
        source = next;
    }
    return list;
}

/* Whether a younger source than the oldest has its name. */
static bool sources_shadowed(void) {
    PyObject *name = sources.name[sources.first];
    for (unsigned i = 1; i < sources.count; i++)
        if (PyUnicode_Compare(sources.name[(sources.first + i) % SOURCES_KEPT], name) == 0)
            return true;
    return false;
}

static void sources_drop(void) {
    unsigned i = sources.first;
    if (!sources_shadowed() && PyDict_DelItem(guest.lines, sources.name[i]) < 0)
        PyErr_Clear(); /* the guest cleared its cache */
    sources.first = (i + 1) % SOURCES_KEPT;
    sources.count--;
    sources.bytes -= sources.len[i];
    Py_CLEAR(sources.name[i]);
}

void module_remember(PyObject *name, const char *source, size_t len) {
    if (!guest.lines) return;
    while (sources.count && (sources.count == SOURCES_KEPT || sources.bytes + len > SOURCES_BYTES))
        sources_drop();
    PyObject *lines = split(source, len);
    PyObject *entry = lines ? Py_BuildValue("(nOOO)", (Py_ssize_t)len, Py_None, lines, name) : NULL;
    if (entry && PyDict_SetItem(guest.lines, name, entry) == 0) {
        unsigned i = (sources.first + sources.count++) % SOURCES_KEPT;
        sources.name[i] = Py_NewRef(name);
        sources.len[i] = len;
        sources.bytes += len;
    }
    Py_XDECREF(entry);
    Py_XDECREF(lines);
    PyErr_Clear();
}

void module_forget(PyObject *name) {
    if (!sources.count) return;
    unsigned last = (sources.first + sources.count - 1) % SOURCES_KEPT;
    if (sources.name[last] != name) return;
    sources.count--;
    sources.bytes -= sources.len[last];
    if (PyDict_DelItem(guest.lines, name) < 0) PyErr_Clear();
    Py_CLEAR(sources.name[last]);
}

/* --- the exceptions of the two stops --- */

/* CPython raises an asynchronous exception as a bare type: here it gets its message, and is noted,
 * since a task may swallow it. */
static int stop_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyTypeObject *base = Py_TYPE(self)->tp_base;
    PyObject *given = args;
    if (PyTuple_GET_SIZE(args) == 0 && (PyObject *)Py_TYPE(self) == guest.soft_type) {
        given = Py_BuildValue("(s)", "the time limit was reached");
        if (!given) return -1;
    }
    int failed = base->tp_init(self, given, kwargs);
    if (given != args) Py_DECREF(given);
    Py_XSETREF(guest.struck, Py_NewRef(self));
    return failed;
}

static PyTypeObject soft_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "TimeLimit",
    .tp_doc = "The time limit of this execution was reached. Not an Exception: do not catch it.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_init = stop_init,
};

static PyTypeObject interrupt_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "KeyboardInterrupt",
    .tp_doc = "The host interrupted this execution.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_init = stop_init,
};

/* Called by CPython where C code polls for signals. */
static PyObject *on_trip(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyObject *type = core_stop_take();
    if (!type) Py_RETURN_NONE; /* bytecode was first */
    PyErr_SetNone(type);
    return NULL;
}

/* --- functions --- */

static PyObject *py_post(PyObject *self, PyObject *args) {
    (void)self;
    unsigned kind;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "Iy*", &kind, &bytes)) return NULL;
    int answer = module_post(kind, bytes.buf, (size_t)bytes.len);
    PyBuffer_Release(&bytes);
    return PyLong_FromLong(answer);
}

static PyObject *take(int32_t len) {
    if (len <= 0) return PyBytes_FromStringAndSize(NULL, 0);
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, len);
    if (!bytes) return NULL;
    size_t got = module_take(PyBytes_AS_STRING(bytes), (size_t)len);
    if (got != (size_t)len) _PyBytes_Resize(&bytes, (Py_ssize_t)got);
    return bytes;
}

static PyObject *py_wait(PyObject *self, PyObject *arg) {
    (void)self;
    long long wake_at = PyLong_AsLongLong(arg);
    if (wake_at == -1 && PyErr_Occurred()) return NULL;
    int32_t len = guest.quiet ? 0 : door_wait(wake_at);
    if (PyErr_CheckSignals() < 0) /* a stop that came while parked */
        return NULL;
    return take(len);
}

static PyObject *py_soft_ack(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    if (!guest.quiet) door_soft_ack();
    Py_RETURN_NONE;
}

static PyObject *py_result(PyObject *self, PyObject *args) {
    (void)self;
    unsigned end;
    int code;
    PyObject *type, *text, *traceback;
    if (!PyArg_ParseTuple(args, "IiUUU", &end, &code, &type, &text, &traceback)) return NULL;
    if (module_result(end, code, type, text, traceback) < 0) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *py_rest(PyObject *self, PyObject *args) {
    (void)self;
    long long wake_at;
    unsigned calls;
    Py_buffer fds;
    if (!PyArg_ParseTuple(args, "LIy*", &wake_at, &calls, &fds)) return NULL;
    size_t count = (size_t)fds.len / sizeof(agent_wait);
    if (count > WAITS_MAX) count = WAITS_MAX;
    if (count) memcpy(waits, fds.buf, count * sizeof(agent_wait));
    PyBuffer_Release(&fds);
    guest.control.wake_at = (uint64_t)wake_at;
    guest.control.calls_pending = calls;
    guest.control.waits_len = (uint32_t)count;
    Py_RETURN_NONE;
}

static PyObject *py_capture(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    if (capture_make(PyModule_GetDict(guest.main)) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_show(PyObject *self, PyObject *args) {
    (void)self;
    const char *type;
    Py_ssize_t type_len;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(args, "s#y*", &type, &type_len, &bytes)) return NULL;
    uint32_t head = (uint32_t)type_len;
    size_t len = sizeof head + head + (size_t)bytes.len;
    char *message = malloc(len);
    int answer = -1;
    if (message) {
        memcpy(message, &head, sizeof head);
        memcpy(message + sizeof head, type, head);
        memcpy(message + sizeof head + head, bytes.buf, (size_t)bytes.len);
        answer = module_post(AGENT_POST_SHOW, message, len);
        free(message);
    }
    PyBuffer_Release(&bytes);
    return message ? PyBool_FromLong(answer == 0) : PyErr_NoMemory();
}

static PyObject *py_struck(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyObject *exc = guest.struck;
    guest.struck = NULL;
    return exc ? exc : Py_NewRef(Py_None);
}

static PyObject *py_settle(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    core_stop_take();
    Py_RETURN_NONE;
}

static PyObject *py_loop_used(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    guest.loop_used = 1;
    Py_RETURN_NONE;
}

static PyObject *py_exec_flags(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    return PyLong_FromUnsignedLong(guest.flags);
}

static PyObject *py_environ(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    __wasilibc_deinitialize_environ();
    __wasilibc_ensure_environ();
    PyObject *list = PyList_New(0);
    for (char **e = __wasilibc_get_environ(); list && e && *e; e++) {
        PyObject *item = PyBytes_FromString(*e);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *py_remember(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *name;
    const char *source;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "Us#", &name, &source, &len)) return NULL;
    module_remember(name, source, (size_t)len);
    Py_RETURN_NONE;
}

static PyObject *py_stir(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *random;
    const char *entropy;
    Py_ssize_t len;
    if (!PyArg_ParseTuple(args, "Oy#", &random, &entropy, &len)) return NULL;
    return PyBool_FromLong(len >= 16 &&
                           core_random_stir(random, (const unsigned char *)entropy) == 0);
}

static PyObject *py_module_clear(PyObject *self, PyObject *arg) {
    (void)self;
    if (!PyModule_Check(arg)) return PyErr_Format(PyExc_TypeError, "a module is needed");
    core_module_clear(arg);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    { "post", py_post, METH_VARARGS, "post(kind, data): hand the host a message" },
    { "wait", py_wait, METH_O,
      "wait(ns): park until replies are there or the time is; the replies" },
    { "soft_ack", py_soft_ack, METH_NOARGS, "ask for the extension to report a soft stop" },
    { "result", py_result, METH_VARARGS, "result(end, code, type, text, traceback)" },
    { "rest", py_rest, METH_VARARGS, "rest(ns, calls, fds): publish what is waited for" },
    { "capture", py_capture, METH_NOARGS, "make the captured variable's JSON, once an execution" },
    { "show", py_show, METH_VARARGS, "show(type, data): an artifact; False if it is refused" },
    { "struck", py_struck, METH_NOARGS,
      "the stop's exception raised since the last call, or None" },
    { "settle", py_settle, METH_NOARGS, "forget a stop that has not struck yet" },
    { "loop_used", py_loop_used, METH_NOARGS, "the agent's loop has work left by plain code" },
    { "exec_flags", py_exec_flags, METH_NOARGS, "the flags of the execution that is open" },
    { "environ", py_environ, METH_NOARGS, "the host's environment, read anew" },
    { "remember", py_remember, METH_VARARGS, "remember(name, source): for tracebacks" },
    { "stir", py_stir, METH_VARARGS, "stir(random, entropy): reseed fast; False if it cannot" },
    { "module_clear", py_module_clear, METH_O, "empty a module as at a program's end" },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_brumate", .m_doc = "The door to the host; for the agent.",
    .m_size = -1,          .m_methods = methods,
};

int module_stops_ready(void) {
    static PyMethodDef method = { "on_trip", on_trip, METH_VARARGS, NULL };
    PyObject *signal = PyImport_ImportModule("_signal");
    PyObject *trip = signal ? PyCFunction_New(&method, NULL) : NULL;
    if (trip) core_stop_handle(trip);
    Py_XDECREF(signal);
    Py_XDECREF(trip);
    return trip ? 0 : -1;
}

static int add_stops(PyObject *module) {
    soft_type.tp_base = (PyTypeObject *)PyExc_BaseException;
    interrupt_type.tp_base = (PyTypeObject *)PyExc_KeyboardInterrupt;
    if (PyType_Ready(&soft_type) < 0 || PyType_Ready(&interrupt_type) < 0) return -1;
    guest.soft_type = (PyObject *)&soft_type;
    guest.interrupt_type = (PyObject *)&interrupt_type;
    core_stop_publish(&guest.control);
    guest.control.version = AGENT_PROTOCOL_VERSION;
    guest.control.size = sizeof(agent_control);
    guest.control.soft_exc = (uint32_t)(uintptr_t)guest.soft_type;
    guest.control.interrupt_exc = (uint32_t)(uintptr_t)guest.interrupt_type;
    guest.control.wake_at = UINT64_MAX;
    guest.control.waits = (uint32_t)(uintptr_t)waits;
    if (PyModule_AddObjectRef(module, "TimeLimit", guest.soft_type) < 0) return -1;
    return PyModule_AddObjectRef(module, "Interrupt", guest.interrupt_type);
}

PyObject *module_init(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && (add_stops(module) < 0 || functions_init(module) < 0)) Py_CLEAR(module);
    return module;
}
