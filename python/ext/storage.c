/* Storage: files in memory that sessions share, and that outlive them. */
#include "native.h"

PyTypeObject *storage_type;

static PyObject *storage_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "max_bytes", NULL };
    unsigned long long max_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|K:Storage", names, &max_bytes)) return NULL;
    storage_object *self = (storage_object *)type->tp_alloc(type, 0);
    bru_error err = { 0 };
    if (!self) return NULL;
    if (bru_storage_new(max_bytes, &self->storage, &err)) {
        Py_DECREF(self);
        return native_raise(&err);
    }
    return (PyObject *)self;
}

static void storage_dealloc(storage_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    bru_storage_unref(self->storage);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *storage_used(storage_object *self, void *unused) {
    (void)unused;
    return PyLong_FromUnsignedLongLong(bru_storage_bytes(self->storage, NULL));
}

static PyObject *storage_max(storage_object *self, void *unused) {
    (void)unused;
    uint64_t max = 0;
    (void)bru_storage_bytes(self->storage, &max);
    return PyLong_FromUnsignedLongLong(max);
}

static PyGetSetDef getset[] = {
    { "bytes_used", (getter)storage_used, NULL, "Bytes of files, names and folders.", NULL },
    { "max_bytes", (getter)storage_max, NULL, "The most that may be, bytes.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)"Storage(max_bytes=0)\n--\n\nFiles that sessions share; 0: 64 MiB." },
    { Py_tp_new, (void *)storage_new },
    { Py_tp_dealloc, (void *)storage_dealloc },
    { Py_tp_getset, getset },
    { Py_tp_methods, file_methods },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate._native.Storage",
    .basicsize = sizeof(storage_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int storage_add(PyObject *module) {
    return native_add_type(module, &spec, &storage_type);
}
