/* See capture.h. */
#include "capture.h"

#include "module.h"

#include <stdbool.h>
#include <string.h>

enum { JSON_MAX = 16 << 20 };

static PyObject *agent_to_json;

static struct {
    PyObject *name;   /* interned; kept, since it is mostly the same */
    PyObject *before; /* what it was bound to when the execution began: only compared */
    bool wanted, named;
    PyObject *value, *error; /* bytes */
} capture;

void capture_bind(PyObject *to_json) {
    agent_to_json = to_json;
}

static bool names_it(PyObject *code) {
    PyObject *names = ((PyCodeObject *)code)->co_names;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++)
        if (PyTuple_GET_ITEM(names, i) == capture.name) return true;
    return false;
}

static bool code_names_it(PyObject *what) {
    if (what && PyCode_Check(what)) return names_it(what);
    if (!what || !PyTuple_Check(what)) return true; /* a coroutine: cannot be told */
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(what); i++)
        if (names_it(PyTuple_GET_ITEM(what, i))) return true;
    return false;
}

static bool is_name(const char *name, size_t len) {
    Py_ssize_t has;
    const char *text = capture.name ? PyUnicode_AsUTF8AndSize(capture.name, &has) : NULL;
    return text && (size_t)has == len && memcmp(text, name, len) == 0;
}

void capture_begin(PyObject *globals, PyObject *what, const char *name, size_t len) {
    Py_CLEAR(capture.value);
    Py_CLEAR(capture.error);
    capture.wanted = what && len > 0; /* without code there is an exception under way: keep it */
    if (!capture.wanted) return;
    if (!is_name(name, len)) {
        PyObject *str = PyUnicode_DecodeUTF8(name, (Py_ssize_t)len, "replace");
        if (str) PyUnicode_InternInPlace(&str);
        Py_XSETREF(capture.name, str);
    }
    capture.wanted = capture.name != NULL;
    capture.before = capture.wanted ? PyDict_GetItemWithError(globals, capture.name) : NULL;
    capture.named = capture.before && code_names_it(what);
    PyErr_Clear();
}

static PyObject *to_bytes(PyObject *text) {
    return PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
}

static void keep(PyObject *pair) {
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) return;
    PyObject *json = PyTuple_GET_ITEM(pair, 0), *why = PyTuple_GET_ITEM(pair, 1);
    if (PyUnicode_Check(json)) capture.value = to_bytes(json);
    if (capture.value && PyBytes_GET_SIZE(capture.value) > JSON_MAX) {
        Py_ssize_t size = PyBytes_GET_SIZE(capture.value);
        Py_CLEAR(capture.value);
        capture.error = PyBytes_FromFormat("its JSON of %zd bytes is larger than %d bytes", size,
                                           (int)JSON_MAX);
    } else if (PyUnicode_Check(why)) {
        capture.error = to_bytes(why);
    }
}

int capture_make(PyObject *globals) {
    if (!capture.wanted) return 0;
    capture.wanted = false;
    PyObject *value = PyDict_GetItemWithError(globals, capture.name);
    if (!value || (value == capture.before && !capture.named)) {
        PyErr_Clear();
        return 0;
    }
    Py_INCREF(value);
    PyObject *pair = PyObject_CallOneArg(agent_to_json, value);
    Py_DECREF(value);
    if (pair) {
        keep(pair);
        Py_DECREF(pair);
    } else if (module_is_stop()) {
        return -1;
    }
    PyErr_Clear();
    if (!capture.value && !capture.error)
        capture.error = PyBytes_FromString("no memory for its JSON");
    PyErr_Clear();
    return 0;
}

PyObject *capture_value(void) {
    return capture.value;
}

PyObject *capture_error(void) {
    return capture.error;
}
