/* Fuzzes the codec of values: whatever the bytes, the reader answers a value or a ValueError that
 * names the place, and what it answers can be written and read again as the same. */
#include "value.h"

#include "fuzz.h"

#include <stdbool.h>

/* CPython keeps what it allocates at its start. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

static void start(void) {
    PyPreConfig config;
    PyPreConfig_InitPythonConfig(&config);
    config.allocator = PYMEM_ALLOCATOR_MALLOC; /* which a sanitizer can watch */
    MUST(!PyStatus_Exception(Py_PreInitialize(&config)));
    Py_InitializeEx(0);
    Py_SetRecursionLimit(100000); /* comparing recurses */
}

static void expect_refusal(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    MUST(type == PyExc_ValueError);
    PyObject *text = PyObject_Str(value);
    MUST(text && strncmp(PyUnicode_AsUTF8(text), "byte ", 5) == 0);
    Py_DECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

static bool has_nan(PyObject *value) {
    PyObject *text = PyObject_Repr(value);
    if (!text) {
        PyErr_Clear(); /* an int with too many digits to print */
        return true;
    }
    PyObject *lower = PyObject_CallMethod(text, "lower", NULL), *nan = PyUnicode_FromString("nan");
    MUST(lower && nan);
    int found = PySequence_Contains(lower, nan);
    Py_DECREF(text);
    Py_DECREF(lower);
    Py_DECREF(nan);
    return found > 0;
}

static void expect_equal(PyObject *a, PyObject *b) {
    MUST(Py_TYPE(a) == Py_TYPE(b));
    int equal = PyObject_RichCompareBool(a, b, Py_EQ);
    PyErr_Clear(); /* a signaling NaN does not compare */
    MUST(equal > 0 || has_nan(a));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!Py_IsInitialized()) start();
    PyObject *value = value_decode(data, size);
    if (!value) {
        expect_refusal();
        return 0;
    }
    PyObject *bytes = value_encode(value, (size_t)1 << 26);
    MUST(bytes != NULL);
    PyObject *again = value_decode(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    MUST(again != NULL);
    expect_equal(value, again);
    Py_DECREF(value);
    Py_DECREF(bytes);
    Py_DECREF(again);
    return 0;
}
