/* Image: a frozen, initialised interpreter that sessions are made from. */
#include "native.h"

PyTypeObject *image_type;

static PyObject *image_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "path", "guest", "trusted", NULL };
    PyObject *path = NULL, *guest = NULL;
    int trusted = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOp:Image", names, &path, &guest, &trusted))
        return NULL;
    PyObject *path_bytes = NULL, *guest_bytes = NULL;
    image_object *self = NULL;
    if (path && path != Py_None && !PyUnicode_FSConverter(path, &path_bytes)) return NULL;
    if (guest && guest != Py_None && !PyUnicode_FSConverter(guest, &guest_bytes)) goto out;
    self = (image_object *)type->tp_alloc(type, 0);
    if (!self) goto out;
    bru_image_options options = BRU_IMAGE_OPTIONS_INIT;
    options.guest_path = guest_bytes ? PyBytes_AS_STRING(guest_bytes) : NULL;
    options.flags = trusted ? BRU_IMAGE_TRUSTED : 0;
    const char *at = path_bytes ? PyBytes_AS_STRING(path_bytes) : NULL;
    bru_error err = { 0 };
    bru_status st;
    Py_BEGIN_ALLOW_THREADS
    st = bru_image_open(at, &options, &self->image, &err);
    Py_END_ALLOW_THREADS
    if (st) {
        native_raise(&err);
        Py_CLEAR(self);
    }
out:
    Py_XDECREF(path_bytes);
    Py_XDECREF(guest_bytes);
    return (PyObject *)self;
}

static void image_dealloc(image_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    bru_image_unref(self->image);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Texts of the manifest: whoever made the file chose the bytes. */
static PyObject *manifest_text(void *text) {
    return native_text(text, strlen(text));
}

static PyObject *image_info(image_object *self, void *unused) {
    (void)unused;
    bru_image_info info;
    bru_image_get_info(self->image, &info);
    return Py_BuildValue(
        "{s:O&,s:O&,s:O&,s:O&,s:s,s:K,s:K,s:K,s:K,s:I,s:I}", "guest_build", manifest_text,
        info.guest_build, "wasm_sha256", manifest_text, info.wasm_sha256, "preloaded",
        manifest_text, info.preloaded, "note", manifest_text, info.note, "id", info.id,
        "file_bytes", (unsigned long long)info.file_bytes, "memory_bytes",
        (unsigned long long)info.memory_bytes, "stored_bytes",
        (unsigned long long)info.stored_bytes, "root_bytes", (unsigned long long)info.root_bytes,
        "root_entries", info.root_entries, "format", info.format);
}

static PyGetSetDef getset[] = {
    { "info", (getter)image_info, NULL, "What the image is: builds, preloaded modules, sizes.",
      NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

PyDoc_STRVAR(doc,
             "Image(path=None, guest=None, trusted=False)\n--\n\n"
             "An opened image. Without a path: the file named by the environment variable\n"
             "BRUMATE_IMAGE, else core.bru beside the package. trusted: check the header alone.\n"
             "InitializationError: not found, damaged, or made for another guest.");

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)doc },
    { Py_tp_new, (void *)image_new },
    { Py_tp_dealloc, (void *)image_dealloc },
    { Py_tp_getset, getset },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate._native.Image",
    .basicsize = sizeof(image_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int image_add(PyObject *module) {
    return native_add_type(module, &spec, &image_type);
}
