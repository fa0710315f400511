/* Files of a session or a storage: the library's functions, and their errors as Python's. */
#include "native.h"

#include <errno.h>

/* Sessions and storages have the same functions over their own handle. */
typedef struct file_calls {
    bru_status (*write)(void *, const char *, uint64_t, const void *, size_t, unsigned,
                        bru_error *);
    bru_status (*read)(void *, const char *, uint64_t, void *, size_t, size_t *, bru_error *);
    bru_status (*stat)(void *, const char *, bru_file_info *, bru_error *);
    bru_status (*list)(void *, const char *, int (*)(void *, const bru_file_info *), void *,
                       bru_error *);
    bru_status (*remove)(void *, const char *, bru_error *);
    bru_status (*make_folder)(void *, const char *, bru_error *);
} file_calls;

#define CALLS(noun)                                                                                \
    static bru_status noun##_write(void *h, const char *path, uint64_t at, const void *data,       \
                                   size_t len, unsigned flags, bru_error *err) {                   \
        return bru_##noun##_write_file(h, path, at, data, len, flags, err);                        \
    }                                                                                              \
    static bru_status noun##_read(void *h, const char *path, uint64_t at, void *data, size_t len,  \
                                  size_t *got, bru_error *err) {                                   \
        return bru_##noun##_read_file(h, path, at, data, len, got, err);                           \
    }                                                                                              \
    static bru_status noun##_stat(void *h, const char *path, bru_file_info *out, bru_error *err) { \
        return bru_##noun##_stat_file(h, path, out, err);                                          \
    }                                                                                              \
    static bru_status noun##_list(void *h, const char *path,                                       \
                                  int (*each)(void *, const bru_file_info *), void *ctx,           \
                                  bru_error *err) {                                                \
        return bru_##noun##_list_files(h, path, each, ctx, err);                                   \
    }                                                                                              \
    static bru_status noun##_remove(void *h, const char *path, bru_error *err) {                   \
        return bru_##noun##_remove_file(h, path, err);                                             \
    }                                                                                              \
    static bru_status noun##_make_folder(void *h, const char *path, bru_error *err) {              \
        return bru_##noun##_make_folder(h, path, err);                                             \
    }                                                                                              \
    static const file_calls noun##_calls = { noun##_write, noun##_read,   noun##_stat,             \
                                             noun##_list,  noun##_remove, noun##_make_folder };

CALLS(session)
CALLS(storage)

/* Whose files, for one call. */
typedef struct target {
    const file_calls *calls;
    void *handle;
    session_object *session; /* or NULL */
} target;

/* Until target_end() the session is busy. False with an exception. */
static bool target_begin(PyObject *self, target *t) {
    if (Py_IS_TYPE(self, storage_type)) {
        *t = (target){ &storage_calls, ((storage_object *)self)->storage, NULL };
        return true;
    }
    session_object *session = (session_object *)self;
    *t = (target){ &session_calls, session_idle(session), session };
    if (t->handle) session->run.in_call = true;
    return t->handle != NULL;
}

static void target_end(target *t) {
    if (t->session) t->session->run.in_call = false;
}

/* Raises OSError (its subclass for the status) about `path`. */
static PyObject *raise_file(const bru_error *err, const char *path) {
    int code;
    switch (err->status) {
    case BRU_ENOENT: code = ENOENT; break;
    case BRU_EPERM: code = EACCES; break;
    case BRU_EINVAL: code = EINVAL; break;
    case BRU_ELIMIT: code = ENOSPC; break;
    case BRU_EIO: code = EIO; break;
    default: return native_raise(err);
    }
    PyObject *name = PyUnicode_DecodeUTF8(path, (Py_ssize_t)strlen(path), "surrogateescape");
    PyObject *args =
        name ? Py_BuildValue("(iNN)", code, native_text(err->message, strlen(err->message)), name)
             : NULL;
    if (args) PyErr_SetObject(PyExc_OSError, args);
    Py_XDECREF(args);
    return NULL;
}

/* The path of a str, as bytes that last until the caller gives them back. */
static PyObject *path_bytes(PyObject *path) {
    if (!PyUnicode_Check(path))
        return PyErr_Format(PyExc_TypeError, "a path in the sandbox must be a string, not %.100s",
                            Py_TYPE(path)->tp_name);
    PyObject *bytes = PyUnicode_AsEncodedString(path, "utf-8", "surrogateescape");
    if (bytes && strlen(PyBytes_AS_STRING(bytes)) != (size_t)PyBytes_GET_SIZE(bytes)) {
        Py_CLEAR(bytes);
        PyErr_SetString(PyExc_ValueError, "a path must not contain NUL characters");
    }
    if (bytes && PyBytes_AS_STRING(bytes)[0] != '/') {
        Py_CLEAR(bytes);
        PyErr_Format(PyExc_ValueError, "a path in the sandbox must start with /, not %.200R", path);
    }
    return bytes;
}

static PyObject *info_tuple(const bru_file_info *info) {
    PyObject *name =
        PyUnicode_DecodeUTF8(info->name, (Py_ssize_t)strlen(info->name), "surrogateescape");
    return name ? Py_BuildValue("(NiKd)", name, (int)info->kind, (unsigned long long)info->size,
                                (double)info->mtime_ns / 1e9)
                : NULL;
}

static PyObject *file_write(PyObject *self, PyObject *args) {
    PyObject *path, *bytes = NULL;
    unsigned long long offset;
    Py_buffer data;
    int replace;
    target t;
    bru_error err = { 0 };
    bru_status st = BRU_OK;
    if (!PyArg_ParseTuple(args, "OKy*p", &path, &offset, &data, &replace)) return NULL;
    bytes = path_bytes(path);
    if (!bytes || !target_begin(self, &t)) {
        PyBuffer_Release(&data);
        Py_XDECREF(bytes);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = t.calls->write(t.handle, PyBytes_AS_STRING(bytes), offset, data.buf, (size_t)data.len,
                        replace ? BRU_FILE_REPLACE : 0, &err);
    Py_END_ALLOW_THREADS
    target_end(&t);
    PyBuffer_Release(&data);
    if (st) raise_file(&err, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return st ? NULL : Py_NewRef(Py_None);
}

static PyObject *file_read(PyObject *self, PyObject *args) {
    PyObject *path, *bytes = NULL, *data = NULL;
    unsigned long long offset;
    Py_ssize_t len;
    size_t got = 0;
    target t;
    bru_error err = { 0 };
    bru_status st = BRU_OK;
    if (!PyArg_ParseTuple(args, "OKn", &path, &offset, &len)) return NULL;
    bytes = path_bytes(path);
    if (bytes) data = PyBytes_FromStringAndSize(NULL, len);
    if (!data || !target_begin(self, &t)) {
        Py_XDECREF(bytes);
        Py_XDECREF(data);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = t.calls->read(t.handle, PyBytes_AS_STRING(bytes), offset, PyBytes_AS_STRING(data),
                       (size_t)len, &got, &err);
    Py_END_ALLOW_THREADS
    target_end(&t);
    if (st) {
        raise_file(&err, PyBytes_AS_STRING(bytes));
        Py_CLEAR(data);
    } else if (got < (size_t)len) {
        _PyBytes_Resize(&data, (Py_ssize_t)got);
    }
    Py_DECREF(bytes);
    return data;
}

static PyObject *file_stat(PyObject *self, PyObject *path) {
    PyObject *bytes = path_bytes(path), *out = NULL;
    target t;
    bru_error err = { 0 };
    bru_file_info info = { .name = "" };
    if (bytes && target_begin(self, &t)) {
        if (t.calls->stat(t.handle, PyBytes_AS_STRING(bytes), &info, &err))
            raise_file(&err, PyBytes_AS_STRING(bytes));
        else
            out = info_tuple(&info);
        target_end(&t);
    }
    Py_XDECREF(bytes);
    return out;
}

static int add_info(void *list, const bru_file_info *info) {
    PyObject *item = info_tuple(info);
    int failed = !item || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return !failed;
}

static PyObject *file_list(PyObject *self, PyObject *path) {
    PyObject *bytes = path_bytes(path), *list = bytes ? PyList_New(0) : NULL;
    target t;
    bru_error err = { 0 };
    if (list && target_begin(self, &t)) {
        if (t.calls->list(t.handle, PyBytes_AS_STRING(bytes), add_info, list, &err) &&
            !PyErr_Occurred())
            raise_file(&err, PyBytes_AS_STRING(bytes));
        target_end(&t);
    }
    if (PyErr_Occurred()) Py_CLEAR(list);
    Py_XDECREF(bytes);
    return list;
}

static PyObject *change(PyObject *self, PyObject *path, bool remove) {
    PyObject *bytes = path_bytes(path);
    target t;
    bru_error err = { 0 };
    bru_status st = BRU_OK;
    if (!bytes || !target_begin(self, &t)) {
        Py_XDECREF(bytes);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st =
        (remove ? t.calls->remove : t.calls->make_folder)(t.handle, PyBytes_AS_STRING(bytes), &err);
    Py_END_ALLOW_THREADS
    target_end(&t);
    if (st) raise_file(&err, PyBytes_AS_STRING(bytes));
    Py_DECREF(bytes);
    return st ? NULL : Py_NewRef(Py_None);
}

static PyObject *file_remove(PyObject *self, PyObject *path) {
    return change(self, path, true);
}

static PyObject *file_make_folder(PyObject *self, PyObject *path) {
    return change(self, path, false);
}

PyMethodDef file_methods[] = {
    { "write_file", file_write, METH_VARARGS, "write_file(path, offset, data, replace)" },
    { "read_file", file_read, METH_VARARGS, "read_file(path, offset, length): b'' at its end." },
    { "stat_file", file_stat, METH_O, "stat_file(path): (name, kind, size, mtime)." },
    { "list_files", file_list, METH_O, "list_files(path): a list of what stat_file() tells." },
    { "remove_file", file_remove, METH_O, "Removes a file, or a folder and all in it." },
    { "make_folder", file_make_folder, METH_O, "Makes a folder and those above it." },
    { NULL, NULL, 0, NULL },
};
