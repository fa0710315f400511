/* build_image and open_image: an image made of another one, and opened with its guest. */
#include "native.h"

/* What the library is given, and what keeps it alive meanwhile. */
typedef struct build {
    PyObject *path, *items, *preload; /* bytes, a list of (path, contents), text */
    bru_build_file *files;
    bru_build_options options;
} build;

static int take_files(build *b, PyObject *files) {
    b->items = PyDict_Items(files);
    if (!b->items) return -1;
    Py_ssize_t count = PyList_GET_SIZE(b->items);
    b->files = PyMem_New(bru_build_file, count ? count : 1);
    if (!b->files) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(b->items, i);
        Py_ssize_t path_len, len;
        char *data;
        const char *path = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(item, 0), &path_len);
        if (!path || PyBytes_AsStringAndSize(PyTuple_GET_ITEM(item, 1), &data, &len) < 0) return -1;
        if (strlen(path) != (size_t)path_len) {
            PyErr_Format(PyExc_ValueError, "%R: a path with a null character",
                         PyTuple_GET_ITEM(item, 0));
            return -1;
        }
        b->files[i] = (bru_build_file){ path, data, (size_t)len };
    }
    b->options.files = b->files;
    b->options.file_count = (size_t)count;
    return 0;
}

static int take_preload(build *b, PyObject *modules) {
    PyObject *newline = PyUnicode_FromString("\n");
    b->preload = newline ? PyUnicode_Join(newline, modules) : NULL;
    Py_XDECREF(newline);
    b->options.preload = b->preload ? PyUnicode_AsUTF8(b->preload) : NULL;
    return b->options.preload ? 0 : -1;
}

static void build_clear(build *b) {
    PyMem_Free(b->files);
    Py_CLEAR(b->preload);
    Py_CLEAR(b->items);
    Py_CLEAR(b->path);
}

static PyObject *build_image(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "path",       "base",         "files", "preload",
                             "timeout_ns", "memory_bytes", "note",  NULL };
    PyObject *base, *files, *preload;
    unsigned long long timeout = 0, memory = 0;
    const char *note = "";
    build b = { .options = BRU_BUILD_OPTIONS_INIT };
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O!O!O|KKs:build_image", names,
                                     PyUnicode_FSConverter, &b.path, image_type, &base,
                                     &PyDict_Type, &files, &preload, &timeout, &memory, &note))
        return NULL;
    b.options.base = ((image_object *)base)->image;
    b.options.timeout_ns = timeout;
    b.options.memory_bytes = memory;
    b.options.note = note;
    if (take_files(&b, files) < 0 || take_preload(&b, preload) < 0) {
        build_clear(&b);
        return NULL;
    }
    bru_error err = { 0 };
    bru_status st;
    Py_BEGIN_ALLOW_THREADS
    st = bru_image_build(&b.options, PyBytes_AS_STRING(b.path), &err);
    Py_END_ALLOW_THREADS
    build_clear(&b);
    if (st) return native_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *open_image(PyObject *module, PyObject *args) {
    PyObject *path = NULL, *base;
    int trusted;
    bru_image_options options = BRU_IMAGE_OPTIONS_INIT;
    bru_image *image = NULL;
    bru_error err = { 0 };
    bru_status st;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O!p:open_image", PyUnicode_FSConverter, &path, image_type, &base,
                          &trusted))
        return NULL;
    options.guest_of = ((image_object *)base)->image;
    options.flags = trusted ? BRU_IMAGE_TRUSTED : 0;
    Py_BEGIN_ALLOW_THREADS
    st = bru_image_open(PyBytes_AS_STRING(path), &options, &image, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (st) return native_raise(&err);
    image_object *self = (image_object *)image_type->tp_alloc(image_type, 0);
    if (self)
        self->image = image;
    else
        bru_image_unref(image);
    return (PyObject *)self;
}

PyDoc_STRVAR(open_doc,
             "open_image(path, base, trusted)\n--\n\n"
             "The Image at path, with the guest that base has loaded. trusted: a file that nobody\n"
             "else can write, check its header alone. InitializationError: not an image, damaged,\n"
             "or made for another guest.");

PyDoc_STRVAR(
    build_doc,
    "build_image(path, base, files, preload, timeout_ns=0, memory_bytes=0, note='')\n--\n\n"
    "Writes an image to path: that of base, with files (path below /lib: bytes) and with\n"
    "the modules of preload imported. Zero means the library's own limits.\n"
    "ValueError: a file that cannot be added. InitializationError: an import failed.");

static PyMethodDef methods[] = {
    { "build_image", (PyCFunction)(void (*)(void))build_image, METH_VARARGS | METH_KEYWORDS,
      build_doc },
    { "open_image", open_image, METH_VARARGS, open_doc },
    { NULL, NULL, 0, NULL },
};

int build_add(PyObject *module) {
    return PyModule_AddFunctions(module, methods);
}
