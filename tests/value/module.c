/* The codec as a module, for test_value.py alone: encode, decode, and an allocator that fails. */
#include "value.h"

#include <stdbool.h>

static long fail_at; /* the allocation that fails, from 1; 0: none */
static long allocations;
static bool once;
static const PyMemAllocatorDomain domains[] = { PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM,
                                                PYMEM_DOMAIN_OBJ };
static PyMemAllocatorEx saved[3];

static bool fails(void) {
    if (fail_at == 0) return false;
    allocations++;
    return once ? allocations == fail_at : allocations >= fail_at;
}

static void *failing_malloc(void *ctx, size_t size) {
    PyMemAllocatorEx *a = ctx;
    return fails() ? NULL : a->malloc(a->ctx, size);
}

static void *failing_calloc(void *ctx, size_t n, size_t size) {
    PyMemAllocatorEx *a = ctx;
    return fails() ? NULL : a->calloc(a->ctx, n, size);
}

static void *failing_realloc(void *ctx, void *block, size_t size) {
    PyMemAllocatorEx *a = ctx;
    return fails() ? NULL : a->realloc(a->ctx, block, size);
}

static void failing_free(void *ctx, void *block) {
    PyMemAllocatorEx *a = ctx;
    a->free(a->ctx, block);
}

static void set_failing(bool on) {
    for (int i = 1; i < 3; i++) { /* not the raw domain: other threads and start-up use it too */
        if (on) {
            PyMem_GetAllocator(domains[i], &saved[i]);
            PyMemAllocatorEx failing = { &saved[i], failing_malloc, failing_calloc, failing_realloc,
                                         failing_free };
            PyMem_SetAllocator(domains[i], &failing);
        } else {
            PyMem_SetAllocator(domains[i], &saved[i]);
        }
    }
}

static PyObject *encode(PyObject *self, PyObject *args) {
    PyObject *value;
    Py_ssize_t max = 16 << 20;
    (void)self;
    if (!PyArg_ParseTuple(args, "O|n", &value, &max)) return NULL;
    return value_encode(value, (size_t)max);
}

static PyObject *decode(PyObject *self, PyObject *arg) {
    char *bytes;
    Py_ssize_t len;
    (void)self;
    if (PyBytes_AsStringAndSize(arg, &bytes, &len) < 0) return NULL;
    return value_decode(bytes, (size_t)len);
}

/* failing(n, once, function, argument): calls encode or decode while the n-th allocation (or each
 * from the n-th on) fails. Answers (result or None, whether it got that far). */
static PyObject *failing(PyObject *self, PyObject *args) {
    long n;
    int just_one;
    const char *which;
    PyObject *arg;
    if (!PyArg_ParseTuple(args, "lpsO", &n, &just_one, &which, &arg)) return NULL;
    bool encodes = which[0] == 'e';
    char *bytes = NULL;
    Py_ssize_t len = 0;
    (void)self;
    if (!encodes && PyBytes_AsStringAndSize(arg, &bytes, &len) < 0) return NULL;
    set_failing(true);
    allocations = 0;
    once = just_one;
    fail_at = n;
    PyObject *result = encodes ? value_encode(arg, 16 << 20) : value_decode(bytes, (size_t)len);
    fail_at = 0;
    set_failing(false);
    if (!result) return NULL;
    return Py_BuildValue("NO", result, allocations >= n ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    { "encode", encode, METH_VARARGS, NULL },
    { "decode", decode, METH_O, NULL },
    { "failing", failing, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef module = { PyModuleDef_HEAD_INIT, .m_name = "value_codec", .m_size = -1,
                                     .m_methods = methods };

PyMODINIT_FUNC PyInit_value_codec(void);
PyMODINIT_FUNC PyInit_value_codec(void) {
    PyObject *m = PyModule_Create(&module);
    if (m && (PyModule_AddIntConstant(m, "DEPTH_MAX", VALUE_DEPTH_MAX) < 0 ||
              PyModule_AddIntConstant(m, "ITEMS_MAX", VALUE_ITEMS_MAX) < 0))
        Py_CLEAR(m);
    return m;
}
