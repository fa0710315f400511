/* Snapshots: a session's state as bytes, and back. */
#include "native.h"

static PyObject *snapshot_take(session_object *self, PyObject *unused) {
    (void)unused;
    bru_session *session = session_idle(self);
    bru_snapshot *snapshot = NULL;
    bru_error err = { 0 };
    bru_status st;
    size_t len;
    if (!session) return NULL;
    self->run.in_call = true;
    Py_BEGIN_ALLOW_THREADS
    st = bru_session_snapshot(session, NULL, &snapshot, &err);
    Py_END_ALLOW_THREADS
    self->run.in_call = false;
    if (st) return native_raise(&err);
    const char *data = bru_snapshot_bytes(snapshot, &len);
    PyObject *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)len);
    bru_snapshot_free(snapshot);
    return bytes;
}

static bru_status restore(bru_session *session, const Py_buffer *bytes, bru_error *err) {
    bru_snapshot *snapshot;
    bru_snapshot_info info;
    bru_status st = bru_snapshot_open(bytes->buf, (size_t)bytes->len, &snapshot, err);
    if (st) return st;
    bru_snapshot_get_info(snapshot, &info);
    if (info.waiting) {
        PyOS_snprintf(err->message, sizeof err->message,
                      "the snapshot holds a run under way, which a session cannot take over");
        st = err->status = BRU_EFORMAT;
    } else {
        st = bru_session_restore(session, snapshot, err);
    }
    bru_snapshot_free(snapshot);
    return st;
}

static PyObject *snapshot_restore(session_object *self, PyObject *data) {
    Py_buffer bytes;
    bru_error err = { 0 };
    bru_status st;
    if (PyObject_GetBuffer(data, &bytes, PyBUF_SIMPLE) < 0) return NULL;
    bru_session *session = session_idle(self); /* after the host's code behind the buffer */
    if (!session) {
        PyBuffer_Release(&bytes);
        return NULL;
    }
    self->run.in_call = true;
    Py_BEGIN_ALLOW_THREADS
    st = restore(session, &bytes, &err);
    Py_END_ALLOW_THREADS
    self->run.in_call = false;
    PyBuffer_Release(&bytes);
    if (st == BRU_OK) Py_RETURN_NONE;
    if (st == BRU_EFORMAT) return PyErr_SetString(PyExc_ValueError, err.message), NULL;
    if (st == BRU_ENOMEM) return native_raise(&err);
    return native_raise_as("BrumateError", "%s", err.message);
}

PyMethodDef snapshot_methods[] = {
    { "snapshot", (PyCFunction)snapshot_take, METH_NOARGS, "The session's state as bytes." },
    { "restore", (PyCFunction)snapshot_restore, METH_O,
      "restore(bytes): back to that state. ValueError: no snapshot; BrumateError: of another "
      "image, or "
      "beyond the limits." },
    { NULL, NULL, 0, NULL },
};
