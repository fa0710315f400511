/* Session: a live Python with its limits and host functions. What drives it is brumate.session. */
#include "native.h"

#include <structmember.h>

PyTypeObject *session_type;
unsigned long native_forks;

bru_session *session_idle(session_object *self) {
    if (!self->session) {
        native_raise_as("BrumateError", "the session is closed: make another");
        return NULL;
    }
    if (self->run.phase == RUN_NONE && !self->run.in_call) return self->session;
    if (self->forks != native_forks)
        native_raise_as("BrumateError",
                        "a run was under way in this session when the process forked: "
                        "make another session here");
    else
        native_raise_as("BrumateError",
                        "the session is busy: one run at a time, and none from inside a callback");
    return NULL;
}

static bool rests(const session_object *self) {
    const run_state *run = &self->run;
    return run->phase == RUN_OURS && !run->in_call && !run->pending && run->waits &&
           self->forks == native_forks;
}

bru_session *session_given_up(session_object *self) {
    if (self->session && self->run.stepwise && !self->run.driven && rests(self)) run_clear(self);
    return session_idle(self);
}

bru_session *session_at_rest(session_object *self) {
    if (self->session && rests(self)) return self->session;
    if (self->session && self->forks == native_forks && self->run.phase != RUN_NONE) {
        native_raise_as("BrumateError", "the session is busy, not at rest: its code is running, or "
                                        "the host's for it");
        return NULL;
    }
    return session_idle(self);
}

/* ---- Options: Python's lists as the library's arrays ------------------------------------- */

/* What a new session is told; arrays are ours, texts borrowed from the arguments. */
typedef struct recipe {
    bru_session_options options;
    bru_mount *mounts;
    const char **env;
    bru_function *functions;
    PyObject *async_names;
} recipe;

static void recipe_clear(recipe *r) {
    PyMem_Free(r->mounts);
    PyMem_Free(r->env);
    PyMem_Free(r->functions);
    Py_CLEAR(r->async_names);
}

/* Room for the items of a tuple. */
#define ROOM(type, tuple) ((type *)PyMem_Calloc((size_t)PyTuple_GET_SIZE(tuple) + 1, sizeof(type)))

static int take_mounts(recipe *r, PyObject *mounts) {
    Py_ssize_t n = PyTuple_GET_SIZE(mounts);
    r->mounts = ROOM(bru_mount, mounts);
    if (!r->mounts) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int write;
        bru_mount *m = &r->mounts[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(mounts, i), "yyp", &m->host_path, &m->guest_path,
                              &write))
            return -1;
        m->flags = write ? BRU_MOUNT_WRITE : 0;
    }
    r->options.mounts = r->mounts;
    r->options.mount_count = (size_t)n;
    return 0;
}

static int take_env(recipe *r, PyObject *env) {
    Py_ssize_t n = PyTuple_GET_SIZE(env);
    r->env = ROOM(const char *, env);
    if (!r->env) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        r->env[i] = PyBytes_AsString(PyTuple_GET_ITEM(env, i));
        if (!r->env[i]) return -1;
    }
    r->options.env = r->env;
    r->options.env_count = (size_t)n;
    return 0;
}

/* (name, description, schema or None, function, whether it is a coroutine function) each. */
static int take_functions(recipe *r, PyObject *functions, PyObject *by_name) {
    Py_ssize_t n = PyTuple_GET_SIZE(functions);
    r->functions = ROOM(bru_function, functions);
    r->async_names = PySet_New(NULL);
    if (!r->functions || !r->async_names) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GET_ITEM(functions, i), *fn;
        int is_async;
        bru_function *f = &r->functions[i];
        if (!PyArg_ParseTuple(item, "sszOp", &f->name, &f->description, &f->schema, &fn, &is_async))
            return -1;
        PyObject *name = PyTuple_GET_ITEM(item, 0);
        if (PyDict_SetItem(by_name, name, fn) < 0) return -1;
        if (is_async && PySet_Add(r->async_names, name) < 0) return -1;
    }
    r->options.functions = r->functions;
    r->options.function_count = (size_t)n;
    return 0;
}

/* ---- Life ------------------------------------------------------------------------------- */

static bru_status open_session(session_object *self, image_object *image, const recipe *r,
                               bru_error *err) {
    bru_status st;
    if (!r->options
             .mount_count) /* microseconds: others would wait longer for the GIL's changing hands */
        return bru_session_new(image->image, &r->options, &self->session, err);
    Py_BEGIN_ALLOW_THREADS
    st = bru_session_new(image->image, &r->options, &self->session, err);
    Py_END_ALLOW_THREADS
    return st;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = { "image",     "limits", "call_timeout", "max_calls", "max_open",
                             "functions", "env",    "mounts",       "storage",   "storage_path",
                             "capture",   "seed",   "start_ns",     NULL };
    image_object *image;
    PyObject *functions, *env, *mounts, *storage = Py_None, *capture = Py_None;
    unsigned long long timeout, cpu, grace, memory, output, files, artifacts, call_timeout,
        max_calls, max_open, start = 0;
    unsigned flags;
    const char *seed = NULL;
    Py_ssize_t seed_len = 0;
    bru_deterministic fixed = { .start_ns = 0 };
    recipe r = { .options = BRU_SESSION_OPTIONS_INIT };
    bru_error err = { 0 };
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!(KKKKKKKI)KKKO!O!O!|OzOz#K:Session", names, image_type, &image,
            &timeout, &cpu, &grace, &memory, &output, &files, &artifacts, &flags, &call_timeout,
            &max_calls, &max_open, &PyTuple_Type, &functions, &PyTuple_Type, &env, &PyTuple_Type,
            &mounts, &storage, &r.options.storage_path, &capture, &seed, &seed_len, &start))
        return NULL;
    if (storage != Py_None) {
        if (!PyObject_TypeCheck(storage, storage_type))
            return PyErr_Format(PyExc_TypeError, "storage must be a Storage");
        r.options.storage = ((storage_object *)storage)->storage;
    }
    if (seed) {
        if ((size_t)seed_len != sizeof fixed.seed)
            return PyErr_Format(PyExc_ValueError, "seed must have %zu bytes", sizeof fixed.seed);
        memcpy(fixed.seed, seed, sizeof fixed.seed);
        fixed.start_ns = start;
        r.options.deterministic = &fixed;
    }
    session_object *self = (session_object *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    r.options.limits = (bru_limits){ timeout, cpu, grace, memory, output, files, artifacts, flags };
    r.options.flags = BRU_PULL_INPUT;
    self->functions = PyDict_New();
    self->capture = capture == Py_None ? NULL : Py_NewRef(capture);
    self->timeout = timeout;
    self->call_timeout = call_timeout;
    self->max_calls = max_calls;
    self->max_open = max_open;
    self->forks = native_forks;
    bool made = self->functions && take_functions(&r, functions, self->functions) == 0 &&
                take_env(&r, env) == 0 && take_mounts(&r, mounts) == 0;
    if (made && open_session(self, image, &r, &err)) {
        native_raise(&err);
        made = false;
    }
    if (made) self->async_names = Py_NewRef(r.async_names);
    recipe_clear(&r);
    if (!made) Py_CLEAR(self);
    return (PyObject *)self;
}

session_object *session_alike(session_object *model, bru_session *session) {
    session_object *self = (session_object *)session_type->tp_alloc(session_type, 0);
    if (!self) {
        bru_session_free(session);
        return NULL;
    }
    self->session = session;
    self->functions = Py_NewRef(model->functions);
    self->async_names = Py_NewRef(model->async_names);
    self->capture = Py_XNewRef(model->capture);
    self->timeout = model->timeout;
    self->call_timeout = model->call_timeout;
    self->max_calls = model->max_calls;
    self->max_open = model->max_open;
    self->forks = native_forks;
    return self;
}

static int session_traverse(session_object *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->functions);
    Py_VISIT(self->waker);
    Py_VISIT(self->on_ready);
    Py_VISIT(self->run.streams[0].listener);
    Py_VISIT(self->run.streams[1].listener);
    Py_VISIT(self->run.input);
    Py_VISIT(self->run.given);
    return 0;
}

static int session_clear(session_object *self) {
    Py_CLEAR(self->functions);
    Py_CLEAR(self->waker);
    Py_CLEAR(self->on_ready);
    Py_CLEAR(self->run.streams[0].listener);
    Py_CLEAR(self->run.streams[1].listener);
    Py_CLEAR(self->run.input);
    Py_CLEAR(self->run.given);
    return 0;
}

static void session_dealloc(session_object *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    /* In a forked child the thread that was inside is no more: nobody can say in which state. */
    bool lost = self->run.phase == RUN_GUEST && self->forks != native_forks;
    if (!lost) bru_session_free(self->session);
    (void)session_clear(self);
    for (int i = 0; i < OUTPUTS; i++) PyMem_RawFree(self->run.texts[i].bytes);
    PyMem_RawFree(self->run.open_calls);
    Py_XDECREF(self->async_names);
    Py_XDECREF(self->capture);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *session_close(session_object *self, PyObject *unused) {
    (void)unused;
    if (!self->session) Py_RETURN_NONE;
    bru_session *session = session_given_up(self);
    if (!session) return NULL;
    self->session = NULL;
    Py_BEGIN_ALLOW_THREADS
    bru_session_free(session);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *session_reset_(session_object *self, PyObject *files) {
    bru_session *session = session_given_up(self);
    int forget = PyObject_IsTrue(files);
    bru_error err = { 0 };
    bru_status st;
    if (!session || forget < 0) return NULL;
    self->run.in_call = true;
    Py_BEGIN_ALLOW_THREADS
    st = bru_session_reset(session, forget ? BRU_RESET_FILES : 0, &err);
    Py_END_ALLOW_THREADS
    self->run.in_call = false;
    if (st) return native_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *session_interrupt(session_object *self, PyObject *unused) {
    (void)unused;
    if (self->session) {
        bru_session_interrupt(self->session, BRU_INTERRUPT_SOFT);
        self->run.interrupted = true;
        native_wake(&self->wake);
    }
    Py_RETURN_NONE;
}

static PyObject *session_private_bytes(session_object *self, PyObject *unused) {
    (void)unused;
    bru_session *session = session_idle(self);
    return session ? PyLong_FromUnsignedLongLong(bru_session_private_bytes(session)) : NULL;
}

static PyObject *session_busy(session_object *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self->run.phase != RUN_NONE);
}

static PyObject *session_waiting(session_object *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self->run.stepwise);
}

static PyObject *session_closed(session_object *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(!self->session);
}

static PyObject *session_call_timeout(session_object *self, void *unused) {
    (void)unused;
    if (self->call_timeout == BRU_NO_LIMIT) Py_RETURN_NONE;
    return PyFloat_FromDouble((double)self->call_timeout / 1e9);
}

static PyGetSetDef getset[] = {
    { "call_timeout", (getter)session_call_timeout, NULL,
      "Seconds that a call of a host function may take, or None.", NULL },
    { "busy", (getter)session_busy, NULL, "Whether a run is under way.", NULL },
    { "waiting", (getter)session_waiting, NULL, "Whether a run was left where it waits.", NULL },
    { "closed", (getter)session_closed, NULL, "Whether close() was called.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMemberDef members[] = {
    { "resets", T_BOOL, offsetof(session_object, resets), 0,
      "Whether the session is reset behind every run, at once, where that ended." },
    { "fresh", T_BOOL, offsetof(session_object, fresh), READONLY,
      "Whether it was reset so behind the last run." },
    { "waker", T_OBJECT, offsetof(session_object, waker), 0,
      "A function to call after interrupt(), while a run waits in an event loop; or None." },
    { "on_ready", T_OBJECT, offsetof(session_object, on_ready), 0,
      "A function that the notifier's dispatch() calls when a worker is done; or None." },
    { NULL, 0, 0, 0, NULL },
};

static PyObject *session_clear_state(session_object *self, PyObject *unused) {
    (void)unused;
    bru_session *session = session_idle(self);
    bru_error err = { 0 };
    bru_status st;
    if (!session) return NULL;
    self->run.in_call = true;
    Py_BEGIN_ALLOW_THREADS
    st = bru_session_clear(session, &err);
    Py_END_ALLOW_THREADS
    self->run.in_call = false;
    if (st) return native_raise(&err);
    Py_RETURN_NONE;
}

static PyMethodDef own_methods[] = {
    { "close", (PyCFunction)session_close, METH_NOARGS, "Ends and frees the session." },
    { "reset", (PyCFunction)session_reset_, METH_O,
      "reset(files): a fresh Python; true: and no files." },
    { "clear_state", (PyCFunction)session_clear_state, METH_NOARGS, "Drops the variables." },
    { "interrupt", (PyCFunction)session_interrupt, METH_NOARGS,
      "KeyboardInterrupt in the guest, if something runs; any thread." },
    { "private_bytes", (PyCFunction)session_private_bytes, METH_NOARGS,
      "Bytes of memory that are this session's own." },
    { NULL, NULL, 0, NULL },
};

/* A type has one list of methods; the files of a session have one each. */
static PyMethodDef *const parts[] = { own_methods, run_methods, job_methods, file_methods,
                                      snapshot_methods };
static PyMethodDef methods[64];

static void join_methods(void) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const PyMethodDef *m = parts[i]; m->ml_name; m++)
            if (n + 1 < sizeof methods / sizeof *methods) methods[n++] = *m;
}

static PyType_Slot slots[] = {
    { Py_tp_doc, (void *)"A live Python of the library. Use brumate.Session." },
    { Py_tp_new, (void *)session_new },
    { Py_tp_dealloc, (void *)session_dealloc },
    { Py_tp_traverse, (void *)session_traverse },
    { Py_tp_clear, (void *)session_clear },
    { Py_tp_methods, methods },
    { Py_tp_getset, getset },
    { Py_tp_members, members },
    { 0, NULL },
};

static PyType_Spec spec = {
    .name = "brumate._native.Session",
    .basicsize = sizeof(session_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int session_add(PyObject *module) {
    join_methods();
    return native_add_type(module, &spec, &session_type);
}
