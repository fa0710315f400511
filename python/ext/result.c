/* ExecuteResult: how a run ended and what it left. Texts and values are made when they are asked
 * for, and kept. */
#include "native.h"

PyTypeObject *result_type;

/* What is made once and kept. */
enum { CACHE_VALUE = OUTPUTS, CACHE_ERROR, CACHE_JSON, CACHE_ARTIFACTS, CACHES };

typedef struct result_object {
    PyObject_HEAD
    bru_result *result;
    uint64_t calls;
    bool streamed;
    text_buffer texts[OUTPUTS]; /* if streamed */
    PyObject *cache[CACHES];
} result_object;

PyObject *result_wrap(bru_result *result, uint64_t calls, text_buffer *streamed) {
    result_object *self = PyObject_New(result_object, result_type);
    if (!self) {
        bru_result_free(result);
        return NULL;
    }
    self->result = result;
    self->calls = calls;
    self->streamed = streamed != NULL;
    for (int i = 0; i < OUTPUTS; i++) {
        self->texts[i] = streamed ? streamed[i] : (text_buffer){ NULL, 0, 0 };
        if (streamed) streamed[i] = (text_buffer){ NULL, 0, 0 };
    }
    for (int i = 0; i < CACHES; i++) self->cache[i] = NULL;
    return (PyObject *)self;
}

static void result_dealloc(result_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    bru_result_free(self->result);
    for (int i = 0; i < OUTPUTS; i++) PyMem_RawFree(self->texts[i].bytes);
    for (int i = 0; i < CACHES; i++) Py_XDECREF(self->cache[i]);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int number_of(void *closure) {
    return (int)(intptr_t)closure;
}
#define NUMBER(n) ((void *)(intptr_t)(n))

static PyObject *text_of(const result_object *self, bru_text which) {
    size_t len;
    const char *bytes = bru_result_text(self->result, which, &len);
    return native_text(bytes, len);
}

static PyObject *get_output(result_object *self, void *closure) {
    int which = number_of(closure);
    if (!self->cache[which]) {
        const text_buffer *t = &self->texts[which];
        self->cache[which] = self->streamed ? native_text(t->bytes ? t->bytes : "", t->len)
                                            : text_of(self, (bru_text)which);
    }
    return Py_XNewRef(self->cache[which]);
}

static PyObject *get_text(result_object *self, void *closure) {
    return text_of(self, (bru_text)number_of(closure));
}

static PyObject *get_text_or_none(result_object *self, void *closure) {
    size_t len;
    bru_result_text(self->result, (bru_text)number_of(closure), &len);
    return len ? text_of(self, (bru_text)number_of(closure)) : Py_NewRef(Py_None);
}

/* ---- The captured variable -------------------------------------------------------------- */

/* A guest may write what it likes. Numbers of many digits and deep nesting cost more than their
 * length, so they are refused before they are parsed; NULL: nothing is wrong so far. */
static const char *json_wrong(const char *text, size_t len) {
    enum { DIGITS_MAX = 4000, DEPTH_MAX = 500 };
    size_t digits = 0, depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            in_string = c != '"';
            continue;
        }
        digits = c >= '0' && c <= '9' ? digits + 1 : 0;
        if (digits > DIGITS_MAX) return "it holds a number of more than 4000 digits";
        if (c == '[' || c == '{') depth++;
        if ((c == ']' || c == '}') && depth) depth--;
        if (depth > DEPTH_MAX) return "it is nested more than 500 levels deep";
        in_string = c == '"';
    }
    return NULL;
}

/* The exception under way as text; it is no longer under way then. */
static PyObject *exception_text(void) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *text =
        PyUnicode_FromFormat("%s: %S", ((PyTypeObject *)type)->tp_name, value ? value : Py_None);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return text;
}

static PyObject *json_parse(const char *text, size_t len) {
    PyObject *source = native_text(text, len), *json = NULL, *value = NULL;
    if (source) json = PyImport_ImportModule("json");
    if (json) value = PyObject_CallMethod(json, "loads", "O", source);
    Py_XDECREF(json);
    Py_XDECREF(source);
    return value;
}

static bool harmless_failure(void) {
    return PyErr_ExceptionMatches(PyExc_ValueError) ||
           PyErr_ExceptionMatches(PyExc_RecursionError) ||
           PyErr_ExceptionMatches(PyExc_MemoryError);
}

/* Fills CACHE_VALUE and CACHE_ERROR; -1 with an exception. */
static int fill_value(result_object *self) {
    size_t len, why_len;
    const char *text = bru_result_text(self->result, BRU_TEXT_VALUE, &len);
    const char *why = bru_result_text(self->result, BRU_TEXT_VALUE_ERROR, &why_len);
    PyObject *value = NULL, *error = NULL;
    if (self->cache[CACHE_VALUE]) return 0;
    if (why_len) {
        error = native_text(why, why_len);
    } else if (len) {
        const char *wrong = json_wrong(text, len);
        if (wrong)
            error = PyUnicode_FromFormat("the result cannot be read: %s", wrong);
        else
            value = json_parse(text, len);
        if (!wrong && !value && harmless_failure()) error = exception_text();
    }
    if (PyErr_Occurred()) return -1;
    self->cache[CACHE_VALUE] = value ? value : Py_NewRef(Py_None);
    self->cache[CACHE_ERROR] = error ? error : Py_NewRef(Py_None);
    return 0;
}

static PyObject *get_value(result_object *self, void *closure) {
    return fill_value(self) < 0 ? NULL : Py_NewRef(self->cache[number_of(closure)]);
}

static PyObject *get_json(result_object *self, void *unused) {
    (void)unused;
    if (!self->cache[CACHE_JSON])
        self->cache[CACHE_JSON] = get_text_or_none(self, NUMBER(BRU_TEXT_VALUE));
    return Py_XNewRef(self->cache[CACHE_JSON]);
}

/* ---- Artifacts --------------------------------------------------------------------------- */

static PyObject *make_artifacts(const result_object *self) {
    size_t count = bru_result_artifact_count(self->result);
    PyObject *list = PyList_New(0), *made = NULL;
    PyObject *module = list && count ? PyImport_ImportModule("brumate.result") : NULL;
    PyObject *type = module ? PyObject_GetAttrString(module, "Artifact") : NULL;
    for (size_t i = 0; type && i < count; i++) {
        const char *mime;
        size_t len;
        const void *data = bru_result_artifact(self->result, i, &mime, &len);
        made = PyObject_CallFunction(type, "Ny#", native_text(mime, strlen(mime)), data,
                                     (Py_ssize_t)len);
        if (!made || PyList_Append(list, made) < 0) break;
        Py_CLEAR(made);
    }
    Py_XDECREF(made);
    Py_XDECREF(type);
    Py_XDECREF(module);
    if (PyErr_Occurred()) Py_CLEAR(list);
    return list;
}

static PyObject *get_artifacts(result_object *self, void *unused) {
    (void)unused;
    if (!self->cache[CACHE_ARTIFACTS]) self->cache[CACHE_ARTIFACTS] = make_artifacts(self);
    return Py_XNewRef(self->cache[CACHE_ARTIFACTS]);
}

/* ---- Numbers ----------------------------------------------------------------------------- */

static PyObject *get_duration(result_object *self, void *unused) {
    (void)unused;
    return PyFloat_FromDouble((double)bru_result_usage(self->result)->duration_ns / 1e6);
}

static PyObject *get_cpu(result_object *self, void *unused) {
    (void)unused;
    return PyFloat_FromDouble((double)bru_result_usage(self->result)->cpu_ns / 1e6);
}

static PyObject *get_calls(result_object *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(self->calls);
}

static PyObject *get_memory(result_object *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(bru_result_usage(self->result)->peak_memory);
}

static PyObject *get_cut(result_object *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(bru_result_usage(self->result)->cut_bytes);
}

static PyObject *get_exit_code(result_object *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(bru_result_exit_code(self->result));
}

static PyObject *get_reason(result_object *self, void *unused) {
    (void)unused;
    return PyLong_FromLong((long)bru_result_reason(self->result));
}

static PyObject *get_reason_text(result_object *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(bru_reason_text(bru_result_reason(self->result)));
}

static PyObject *get_alive(result_object *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(bru_result_session_alive(self->result));
}

static PyObject *get_none(result_object *self, void *unused) {
    (void)self;
    (void)unused;
    return Py_NewRef(Py_None);
}

static PyObject *result_repr(result_object *self) {
    PyObject *text = get_output(self, NUMBER(OUTPUT_STDOUT)), *repr = NULL;
    PyObject *head = text ? PySequence_GetSlice(text, 0, 60) : NULL;
    if (head)
        repr = PyUnicode_FromFormat("<ExecuteResult exit_code=%d stdout=%R%s>",
                                    bru_result_exit_code(self->result), head,
                                    PyUnicode_GET_LENGTH(text) > 60 ? "..." : "");
    Py_XDECREF(head);
    Py_XDECREF(text);
    return repr;
}

static PyObject *result_str(result_object *self) {
    return get_output(self, NUMBER(OUTPUT_STDOUT));
}

#define GET(name, function, closure, doc) { name, (getter)function, NULL, doc, closure }
static PyGetSetDef getset[] = {
    GET("stdout", get_output, NUMBER(OUTPUT_STDOUT), "What was written to standard output."),
    GET("stderr", get_output, NUMBER(OUTPUT_STDERR), "What was written to standard error."),
    GET("output", get_output, NUMBER(OUTPUT_BOTH), "Both streams, in the order written."),
    GET("stdout_text", get_output, NUMBER(OUTPUT_STDOUT), "The same as stdout."),
    GET("stderr_text", get_output, NUMBER(OUTPUT_STDERR), "The same as stderr."),
    GET("result", get_value, NUMBER(CACHE_VALUE),
        "The result variable, parsed from its JSON; None if it was not set, or see result_error."),
    GET("result_json", get_json, NULL, "The JSON of the result variable, or None."),
    GET("result_error", get_value, NUMBER(CACHE_ERROR),
        "Why the result variable could not be told as JSON, or None."),
    GET("duration_ms", get_duration, NULL, "Wall time of the run, milliseconds."),
    GET("cpu_ms", get_cpu, NULL, "CPU time of the run, milliseconds."),
    GET("callback_invocations", get_calls, NULL,
        "How many calls of host functions were performed."),
    GET("peak_memory_bytes", get_memory, NULL, "The guest's memory at its largest, bytes."),
    GET("fuel_consumed", get_none, NULL, "None: instructions are not counted."),
    GET("exit_code", get_exit_code, NULL, "0, 1 for an exception, or what the guest exited with."),
    GET("output_cut_bytes", get_cut, NULL, "Bytes of output beyond the limit, thrown away."),
    GET("artifacts", get_artifacts, NULL, "What brumate.show() handed out: a list of Artifact."),
    GET("_reason", get_reason, NULL, NULL),
    GET("_reason_text", get_reason_text, NULL, NULL),
    GET("_alive", get_alive, NULL, NULL),
    GET("_type", get_text_or_none, NUMBER(BRU_TEXT_TYPE), NULL),
    GET("_message", get_text, NUMBER(BRU_TEXT_MESSAGE), NULL),
    GET("_traceback", get_text, NUMBER(BRU_TEXT_TRACEBACK), NULL),
    GET("_detail", get_text, NUMBER(BRU_TEXT_DETAIL), NULL),
    { NULL, NULL, NULL, NULL, NULL },
};
_Static_assert((int)BRU_TEXT_STDOUT == (int)OUTPUT_STDOUT &&
                   (int)BRU_TEXT_STDERR == (int)OUTPUT_STDERR &&
                   (int)BRU_TEXT_OUTPUT == (int)OUTPUT_BOTH,
               "get_output() uses one number for both");

PyDoc_STRVAR(doc, "What a run printed, computed and used. str() of it is its stdout.\n\n"
                  "Text is UTF-8; bytes that are not become U+FFFD.\n\n"
                  "Example::\n\n"
                  "    r = Sandbox().execute(\"print('hi'); result = {'n': 42}\")\n"
                  "    r.stdout, r.result['n']        # ('hi\\n', 42)\n");

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)doc },        { Py_tp_dealloc, (void *)result_dealloc },
    { Py_tp_getset, getset },          { Py_tp_repr, (void *)result_repr },
    { Py_tp_str, (void *)result_str }, { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate.ExecuteResult",
    .basicsize = sizeof(result_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int result_add(PyObject *module) {
    return native_add_type(module, &spec, &result_type);
}
