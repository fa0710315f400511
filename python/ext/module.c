/* The module brumate._native. */
#include "native.h"

#include <stdarg.h>

int native_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (!type) return -1;
    *out = (PyTypeObject *)type;
    return PyModule_AddType(module, *out);
}

PyObject *native_text(const char *bytes, size_t len) {
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)len, "replace");
}

static PyObject *raise_formatted(const char *name, PyObject *text) {
    PyObject *errors = text ? PyImport_ImportModule("brumate.errors") : NULL;
    PyObject *type = errors ? PyObject_GetAttrString(errors, name) : NULL;
    if (type) PyErr_SetObject(type, text);
    Py_XDECREF(type);
    Py_XDECREF(errors);
    Py_XDECREF(text);
    return NULL;
}

PyObject *native_raise_as(const char *name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    return raise_formatted(name, text);
}

/* Messages may quote what a guest or a file says, and are cut to their room: %s reads any bytes. */
PyObject *native_raise(const bru_error *err) {
    switch (err->status) {
    case BRU_ENOMEM: return PyErr_Format(PyExc_MemoryError, "%s", err->message);
    case BRU_EINVAL: return PyErr_Format(PyExc_ValueError, "%s", err->message);
    case BRU_EBUSY:
    case BRU_ESTATE:
    case BRU_ENOTSUP: return native_raise_as("BrumateError", "%s", err->message);
    default: return native_raise_as("InitializationError", "%s", err->message);
    }
}

/* The library keeps state of the process (threads, signals), and so does this module. */
static int one_interpreter(void) {
    static int64_t owner = -1;
    int64_t id = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (owner == -1) owner = id;
    if (owner == id) return 0;
    PyErr_SetString(PyExc_ImportError, "brumate works in one interpreter of a process");
    return -1;
}

static int module_exec(PyObject *module) {
    static int (*const parts[])(PyObject *) = { image_add,   build_add,  storage_add, result_add,
                                                session_add, worker_add, snapshot_add };
    if (one_interpreter() < 0) return -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](module) < 0) return -1;
    return PyModule_AddStringConstant(module, "version", bru_version());
}

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, (void *)module_exec },
#if PY_VERSION_HEX >= 0x030C0000
    { Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED },
#endif
#if PY_VERSION_HEX >= 0x030D0000
    { Py_mod_gil, Py_MOD_GIL_USED },
#endif
    { 0, NULL },
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "brumate._native",
    .m_doc = "Images, sessions and results of libbrumate. Use the package brumate instead.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void);

PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&definition);
}
