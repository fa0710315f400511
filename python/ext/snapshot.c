/* Snapshot: a session's state as bytes, and back; twins of sessions.
 *
 * Where a run of the session waits for somebody else to drive it on, the library is called with the
 * GIL held: nobody can come in between. */
#include "native.h"

typedef struct snapshot_object {
    PyObject_HEAD
    bru_snapshot *snapshot;
} snapshot_object;

static PyTypeObject *snapshot_type;

enum { KEY_MIN = 16 };

/* Takes `snapshot` over. */
static PyObject *wrap(bru_snapshot *snapshot) {
    snapshot_object *self = (snapshot_object *)snapshot_type->tp_alloc(snapshot_type, 0);
    if (self)
        self->snapshot = snapshot;
    else
        bru_snapshot_free(snapshot);
    return (PyObject *)self;
}

/* What is no snapshot is a ValueError, what does not fit here a BrumateError. */
static PyObject *raise(const bru_error *err) {
    switch (err->status) {
    case BRU_EFORMAT: return PyErr_Format(PyExc_ValueError, "%s", err->message);
    case BRU_ENOENT: return PyErr_Format(PyExc_FileNotFoundError, "%s", err->message);
    case BRU_ENOMEM: return native_raise(err);
    default: return native_raise_as("BrumateError", "%s", err->message);
    }
}

/* A key given as bytes, or None. False with an exception. */
static bool take_key(PyObject *key, const void **bytes, size_t *len) {
    *bytes = NULL;
    *len = 0;
    if (key == Py_None) return true;
    if (!PyBytes_Check(key))
        return PyErr_Format(PyExc_TypeError, "key must be bytes, not %.100s",
                            Py_TYPE(key)->tp_name),
               false;
    *bytes = PyBytes_AS_STRING(key);
    *len = (size_t)PyBytes_GET_SIZE(key);
    if (*len >= KEY_MIN) return true;
    PyErr_Format(PyExc_ValueError, "key must have at least %d bytes, not %zu", KEY_MIN, *len);
    return false;
}

/* ---- The type -------------------------------------------------------------------------------- */

static PyObject *snapshot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "data", "key", NULL };
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    PyObject *key = Py_None;
    Py_buffer bytes;
    bru_snapshot *snapshot = NULL;
    bru_error err = { 0 };
    bru_status st;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*|O:Snapshot", names, &bytes, &key))
        return NULL;
    if (!take_key(key, &o.key, &o.key_len)) return PyBuffer_Release(&bytes), NULL;
    Py_BEGIN_ALLOW_THREADS
    st = bru_snapshot_open_with(bytes.buf, (size_t)bytes.len, &o, &snapshot, &err);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    return st ? raise(&err) : wrap(snapshot);
}

static void snapshot_dealloc(snapshot_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    bru_snapshot_free(self->snapshot);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *snapshot_load(PyObject *type, PyObject *const *args, Py_ssize_t n) {
    bru_snapshot_open_options o = BRU_SNAPSHOT_OPEN_OPTIONS_INIT;
    PyObject *bytes;
    bru_snapshot *snapshot = NULL;
    bru_error err = { 0 };
    bru_status st;
    (void)type;
    if (n != 2) return PyErr_BadArgument(), NULL;
    if (!take_key(args[1], &o.key, &o.key_len) || !PyUnicode_FSConverter(args[0], &bytes))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = bru_snapshot_load_with(PyBytes_AS_STRING(bytes), &o, &snapshot, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(bytes);
    return st ? raise(&err) : wrap(snapshot);
}

static PyObject *snapshot_save(snapshot_object *self, PyObject *path) {
    PyObject *bytes;
    bru_error err = { 0 };
    bru_status st;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = bru_snapshot_save(self->snapshot, PyBytes_AS_STRING(bytes), &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(bytes);
    if (st == BRU_OK) Py_RETURN_NONE;
    if (st == BRU_ENOMEM) return native_raise(&err);
    return PyErr_Format(PyExc_OSError, "%s", err.message);
}

static PyObject *snapshot_to_bytes(snapshot_object *self, PyObject *unused) {
    size_t len;
    (void)unused;
    const char *bytes = bru_snapshot_bytes(self->snapshot, &len);
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)len);
}

static PyObject *snapshot_size(snapshot_object *self, void *unused) {
    size_t len;
    (void)unused;
    (void)bru_snapshot_bytes(self->snapshot, &len);
    return PyLong_FromSize_t(len);
}

static PyObject *snapshot_info(snapshot_object *self, void *unused) {
    bru_snapshot_info i;
    (void)unused;
    bru_snapshot_get_info(self->snapshot, &i);
    return Py_BuildValue("{sssssssssKsKsKsKsKsKsOsOsIsIsI}", "id", i.id, "base_id", i.base_id,
                         "image_id", i.image_id, "wasm_sha256", i.wasm_sha256, "wall_ns", i.wall_ns,
                         "memory_bytes", i.memory_bytes, "changed_bytes", i.changed_bytes,
                         "stored_bytes", i.stored_bytes, "file_bytes", i.file_bytes, "left_ns",
                         i.left_ns, "waiting", i.waiting ? Py_True : Py_False, "signed",
                         i.is_signed ? Py_True : Py_False, "call_count", i.call_count,
                         "descriptors", i.descriptors, "format", i.format);
}

/* (id, name) of each call that waits. */
static PyObject *snapshot_calls(snapshot_object *self, PyObject *unused) {
    bru_snapshot_info info;
    bru_snapshot_call c;
    (void)unused;
    bru_snapshot_get_info(self->snapshot, &info);
    PyObject *calls = PyList_New(0);
    for (size_t i = 0; calls && i < info.call_count; i++) {
        if (bru_snapshot_get_call(self->snapshot, i, &c, NULL)) break;
        PyObject *name = native_text(c.name, strlen(c.name));
        PyObject *item = name ? Py_BuildValue("(IN)", c.id, name) : NULL;
        if (!item || PyList_Append(calls, item) < 0) Py_CLEAR(calls);
        Py_XDECREF(item);
    }
    return calls;
}

static PyObject *snapshot_arguments(snapshot_object *self, PyObject *index) {
    bru_snapshot_call c;
    bru_error err = { 0 };
    PyObject *args = NULL, *kwargs = NULL, *both = NULL;
    size_t i = PyLong_AsSize_t(index);
    if (i == (size_t)-1 && PyErr_Occurred()) return NULL;
    if (bru_snapshot_get_call(self->snapshot, i, &c, &err))
        return PyErr_Format(PyExc_IndexError, "%s", err.message);
    if (run_arguments(c.data, c.len, &args, &kwargs)) both = PyTuple_Pack(2, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    return both;
}

/* join(base, key) */
static PyObject *snapshot_join(snapshot_object *self, PyObject *const *args, Py_ssize_t n) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_snapshot *whole = NULL;
    bru_error err = { 0 };
    bru_status st;
    if (n != 2 || !Py_IS_TYPE(args[0], snapshot_type)) return PyErr_BadArgument(), NULL;
    if (!take_key(args[1], &o.key, &o.key_len)) return NULL;
    const bru_snapshot *base = ((snapshot_object *)args[0])->snapshot;
    Py_BEGIN_ALLOW_THREADS
    st = bru_snapshot_join(base, self->snapshot, &o, &whole, &err);
    Py_END_ALLOW_THREADS
    return st ? raise(&err) : wrap(whole);
}

static PyMethodDef type_methods[] = {
    { "load", (PyCFunction)(void (*)(void))snapshot_load, METH_FASTCALL | METH_STATIC,
      "load(path, key): one from a file." },
    { "save", (PyCFunction)snapshot_save, METH_O, "save(path): to a file, whole or not at all." },
    { "to_bytes", (PyCFunction)snapshot_to_bytes, METH_NOARGS, "Its bytes." },
    { "join", (PyCFunction)(void (*)(void))snapshot_join, METH_FASTCALL,
      "join(base, key): the whole one that this one holds the changes of." },
    { "calls", (PyCFunction)snapshot_calls, METH_NOARGS, "(id, name) of each call that waits." },
    { "arguments", (PyCFunction)snapshot_arguments, METH_O,
      "arguments(index): (positional, keywords) of that call." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef getset[] = {
    { "info", (getter)snapshot_info, NULL, "What it is: a dict.", NULL },
    { "size", (getter)snapshot_size, NULL, "Bytes.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_doc,
      (void *)"Snapshot(data, key=None)\n--\n\nA session's state. Use brumate.Snapshot." },
    { Py_tp_new, (void *)snapshot_new },
    { Py_tp_dealloc, (void *)snapshot_dealloc },
    { Py_tp_methods, type_methods },
    { Py_tp_getset, getset },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate._native.Snapshot",
    .basicsize = sizeof(snapshot_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int snapshot_add(PyObject *module) {
    return native_add_type(module, &spec, &snapshot_type);
}

/* ---- Methods of Session -------------------------------------------------------------------------
 */

/* suspend(key, base) */
static PyObject *session_suspend(session_object *self, PyObject *const *args, Py_ssize_t n) {
    bru_snapshot_options o = BRU_SNAPSHOT_OPTIONS_INIT;
    bru_session *session = session_at_rest(self);
    bru_snapshot *snapshot = NULL;
    bru_error err = { 0 };
    bru_status st;
    if (!session) return NULL;
    if (n != 2 || (args[1] != Py_None && !Py_IS_TYPE(args[1], snapshot_type)))
        return PyErr_BadArgument(), NULL;
    if (!take_key(args[0], &o.key, &o.key_len)) return NULL;
    if (args[1] != Py_None) o.base = ((snapshot_object *)args[1])->snapshot;
    run_unpause(self);
    if (self->run.phase != RUN_NONE && (!self->run.stepwise || self->run.driven)) {
        st = bru_session_snapshot(session, &o, &snapshot, &err);
    } else {
        self->run.in_call = true;
        Py_BEGIN_ALLOW_THREADS
        st = bru_session_snapshot(session, &o, &snapshot, &err);
        Py_END_ALLOW_THREADS
        self->run.in_call = false;
    }
    return st ? raise(&err) : wrap(snapshot);
}

/* restore(snapshot, stdin, on_stdout, on_stderr) */
static PyObject *session_restore(session_object *self, PyObject *const *args, Py_ssize_t n) {
    bru_snapshot_info info;
    bru_error err = { 0 };
    bru_status st;
    if (n != 4 || !Py_IS_TYPE(args[0], snapshot_type)) return PyErr_BadArgument(), NULL;
    const bru_snapshot *snapshot = ((snapshot_object *)args[0])->snapshot;
    bru_session *session = session_given_up(self);
    if (!session) return NULL;
    bru_snapshot_get_info(snapshot, &info);
    self->run.in_call = true;
    Py_BEGIN_ALLOW_THREADS
    st = bru_session_restore(session, snapshot, &err);
    Py_END_ALLOW_THREADS
    self->run.in_call = false;
    if (st) return raise(&err);
    uint64_t left = info.left_ns < self->timeout ? info.left_ns : self->timeout;
    if (info.waiting && !run_wait_again(self, args + 1, left)) return NULL;
    Py_RETURN_NONE;
}

/* The twin of a session whose run waits goes on with that run: the output that was handed out so
 * far, too. */
static bool share_run(session_object *self, session_object *twin, PyObject *const *streams) {
    uint64_t now = native_clock(), deadline = self->run.deadline;
    uint64_t left = deadline == UINT64_MAX ? BRU_NO_LIMIT : deadline > now ? deadline - now : 0;
    if (!run_wait_again(twin, streams, left)) return false;
    for (int i = 0; i < OUTPUTS; i++) {
        const text_buffer *from = &self->run.texts[i];
        if (!from->len) continue;
        char *bytes = PyMem_RawMalloc(from->len);
        if (!bytes) return PyErr_NoMemory(), false;
        memcpy(bytes, from->bytes, from->len);
        twin->run.texts[i] = (text_buffer){ bytes, from->len, from->len };
    }
    twin->run.streaming = self->run.streaming;
    twin->run.calls = self->run.calls - self->run.open; /* those are told again */
    return true;
}

/* fork(stdin, on_stdout, on_stderr) */
static PyObject *session_fork(session_object *self, PyObject *const *args, Py_ssize_t n) {
    bru_session *session = session_at_rest(self), *twin = NULL;
    bru_error err = { 0 };
    if (n != 3) return PyErr_BadArgument(), NULL;
    if (!session) return NULL;
    run_unpause(self);
    if (bru_session_fork(session, &twin, &err)) return raise(&err);
    session_object *other = session_alike(self, twin);
    if (other && self->run.phase != RUN_NONE && !share_run(self, other, args)) Py_CLEAR(other);
    return (PyObject *)other;
}

/* `to` becomes what `from` is, which is closed. What `to` was goes back by bru_session_free(). */
static bru_session *change_hands(session_object *to, session_object *from) {
    unsigned long ticket = to->run.ticket + 1;
    bru_session *old = to->session;
    run_state run = to->run;
    to->session = from->session;
    to->run = from->run;
    to->run.ticket = ticket;
    from->session = NULL;
    from->run = run;
    return old;
}

static PyObject *session_adopt(session_object *self, PyObject *other) {
    if (!PyObject_TypeCheck(other, session_type)) return PyErr_BadArgument(), NULL;
    if (!session_given_up(self) || !session_at_rest((session_object *)other)) return NULL;
    bru_session *old = change_hands(self, (session_object *)other);
    Py_BEGIN_ALLOW_THREADS
    bru_session_free(old);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *session_move(session_object *self, PyObject *unused) {
    (void)unused;
    if (!session_at_rest(self)) return NULL;
    session_object *other = session_alike(self, NULL);
    if (other) (void)change_hands(other, self);
    return (PyObject *)other;
}

#define FAST(name, function, doc)                                                                  \
    { name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, doc }
PyMethodDef snapshot_methods[] = {
    FAST("suspend", session_suspend,
         "suspend(key, base): the session's state, a Snapshot; over `base`, what changed since."),
    FAST("restore", session_restore,
         "restore(snapshot, stdin, on_stdout, on_stderr): to that state; a run that waited is "
         "this session's then, a stepwise one. BrumateError: of another image, or beyond the "
         "limits."),
    FAST("fork", session_fork,
         "fork(stdin, on_stdout, on_stderr): a twin; a run that waits is a stepwise one there."),
    { "adopt", (PyCFunction)session_adopt, METH_O,
      "adopt(other): becomes what the other session is, which is closed." },
    { "move", (PyCFunction)session_move, METH_NOARGS,
      "The session as another object: this one is closed." },
    { NULL, NULL, 0, NULL },
};
