/* See functions.h. */
#include "functions.h"

#include "module.h"
#include "value.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The largest value that crosses. */
enum { PAYLOAD_MAX = 16 << 20 };
/* Messages and replies up to this size take no memory from the heap. */
enum { SMALL = 2048 };

static PyObject *call_error;

static functions_agent agent;

static struct {
    PyObject *told; /* a list of (name, description, schema) */
    PyObject *roots; /* what is set in __main__: a dict from names to functions and namespaces */
    uint32_t last_id;
} known;

/* --- functions, and objects that hold some --- */

typedef struct function {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *name, *doc; /* str */
} function;

typedef struct call {
    PyObject_HEAD
    PyObject *name;
    PyObject *args;    /* [[positional], {keyword}], until it is posted */
    PyObject *waiting; /* the iterator of the future that the answer comes by */
    uint32_t id;
    enum { CALL_NEW, CALL_RUNS, CALL_WAITS, CALL_OVER } state;
} call;

static PyTypeObject call_type, function_type, namespace_type;

/* [[positional...], {name: keyword...}] of a vectorcall. */
static PyObject *pack_args(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    Py_ssize_t keywords = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject *both = PyList_New(2), *list = PyList_New(count), *dict = PyDict_New();
    if (!both || !list || !dict) goto failed;
    for (Py_ssize_t i = 0; i < count; i++) PyList_SET_ITEM(list, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < keywords; i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(names, i), args[count + i]) < 0) goto failed;
    PyList_SET_ITEM(both, 0, list);
    PyList_SET_ITEM(both, 1, dict);
    return both;
failed:
    Py_XDECREF(both);
    Py_XDECREF(list);
    Py_XDECREF(dict);
    return NULL;
}

static PyObject *function_call(PyObject *self, PyObject *const *args, size_t flags,
                               PyObject *names) {
    PyObject *packed = pack_args(args, PyVectorcall_NARGS(flags), names);
    call *c = packed ? PyObject_GC_New(call, &call_type) : NULL;
    if (!c) {
        Py_XDECREF(packed);
        return NULL;
    }
    c->name = Py_NewRef(((function *)self)->name);
    c->args = packed;
    c->waiting = NULL;
    c->id = 0;
    c->state = CALL_NEW;
    PyObject_GC_Track(c);
    return (PyObject *)c;
}

static PyObject *function_new(PyObject *name, PyObject *doc) {
    function *f = PyObject_New(function, &function_type);
    if (!f) return NULL;
    f->vectorcall = function_call;
    f->name = Py_NewRef(name);
    f->doc = Py_NewRef(doc);
    return (PyObject *)f;
}

static void function_dealloc(PyObject *self) {
    function *f = (function *)self;
    Py_XDECREF(f->name);
    Py_XDECREF(f->doc);
    PyObject_Free(f);
}

static PyObject *function_repr(PyObject *self) {
    return PyUnicode_FromFormat("<host function '%U'>", ((function *)self)->name);
}

static PyObject *name_get(PyObject *self, void *offset) {
    return Py_NewRef(*(PyObject **)((char *)self + (size_t)offset));
}

#define NAME_ROW(name, type, field)                                                                \
    { name, name_get, NULL, NULL, (void *)offsetof(type, field) }

static PyGetSetDef function_fields[] = {
    NAME_ROW("__name__", function, name),
    NAME_ROW("__qualname__", function, name),
    NAME_ROW("__doc__", function, doc),
    { NULL, NULL, NULL, NULL, NULL },
};

static PyTypeObject function_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "brumate.HostFunction",
    .tp_basicsize = sizeof(function),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(function, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_dealloc = function_dealloc,
    .tp_repr = function_repr,
    .tp_getset = function_fields,
};

typedef struct namespace {
    PyObject_HEAD
    PyObject *name;  /* str, dotted */
    PyObject *items; /* dict of functions and namespaces: no cycles */
} namespace;

static PyObject *namespace_new(PyObject *name) {
    PyObject *items = PyDict_New();
    namespace *n = items ? PyObject_New(namespace, &namespace_type) : NULL;
    if (!n) {
        Py_XDECREF(items);
        return NULL;
    }
    n->name = Py_NewRef(name);
    n->items = items;
    return (PyObject *)n;
}

static void namespace_dealloc(PyObject *self) {
    namespace *n = (namespace *)self;
    Py_XDECREF(n->name);
    Py_XDECREF(n->items);
    PyObject_Free(n);
}

static PyObject *namespace_get(PyObject *self, PyObject *name) {
    PyObject *item = PyDict_GetItemWithError(((namespace *)self)->items, name);
    if (item) return Py_NewRef(item);
    if (PyErr_Occurred()) return NULL;
    return PyObject_GenericGetAttr(self, name);
}

static int namespace_set(PyObject *self, PyObject *name, PyObject *value) {
    (void)name, (void)value;
    PyErr_Format(PyExc_AttributeError, "the host functions of '%U' are read-only",
                 ((namespace *)self)->name);
    return -1;
}

static PyObject *namespace_repr(PyObject *self) {
    namespace *n = (namespace *)self;
    PyObject *comma = PyUnicode_FromString(", ");
    PyObject *names = comma ? PyUnicode_Join(comma, n->items) : NULL;
    PyObject *text =
        names ? PyUnicode_FromFormat("<host functions of '%U': %U>", n->name, names) : NULL;
    Py_XDECREF(comma);
    Py_XDECREF(names);
    return text;
}

static PyObject *namespace_dir(PyObject *self, PyObject *args) {
    (void)args;
    return PyDict_Keys(((namespace *)self)->items);
}

static PyMethodDef namespace_methods[] = {
    { "__dir__", namespace_dir, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyTypeObject namespace_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "brumate.HostFunctions",
    .tp_basicsize = sizeof(namespace),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = namespace_dealloc,
    .tp_repr = namespace_repr,
    .tp_getattro = namespace_get,
    .tp_setattro = namespace_set,
    .tp_methods = namespace_methods,
};

/* --- calls --- */

/* Raises what an answer that is an error says. */
static void raise_error(const char *text, size_t len) {
    PyObject *str = PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
    PyObject *exc = str ? PyObject_CallOneArg(agent.error, str) : NULL;
    Py_XDECREF(str);
    if (exc && PyExceptionInstance_Check(exc))
        PyErr_SetRaisedException(exc);
    else if (exc)
        Py_DECREF(exc);
}

static PyObject *answer(bool ok, const char *bytes, size_t len) {
    if (ok) return value_decode(bytes, len);
    raise_error(bytes, len);
    if (!PyErr_Occurred()) PyErr_SetString(call_error, "the host answered with an error");
    return NULL;
}

/* The arguments cannot cross: says which one, in the place of the codec's path. */
static void blame_argument(call *c) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError)) return;
    PyObject *exc = PyErr_GetRaisedException();
    PyObject *text = PyObject_Str(exc);
    PyObject *better = text ? PyObject_CallFunctionObjArgs(agent.blame, c->name, text, NULL) : NULL;
    if (better)
        PyErr_SetObject((PyObject *)Py_TYPE(exc), better);
    else if (!module_is_stop())
        PyErr_SetRaisedException(Py_NewRef(exc));
    Py_XDECREF(better);
    Py_XDECREF(text);
    Py_DECREF(exc);
}

/* Posts the call: how many bytes of replies there are at once, or -1 with an exception. */
static int post_call(call *c) {
    Py_ssize_t name_len;
    const char *name = PyUnicode_AsUTF8AndSize(c->name, &name_len);
    PyObject *payload = name ? value_encode(c->args, PAYLOAD_MAX) : NULL;
    if (!payload) {
        blame_argument(c);
        return -1;
    }
    char small[SMALL];
    uint32_t head[2] = { c->id = ++known.last_id, (uint32_t)name_len };
    size_t size = (size_t)PyBytes_GET_SIZE(payload);
    size_t len = sizeof head + (size_t)name_len + size;
    char *message = len <= sizeof small ? small : malloc(len);
    int ready = -1;
    if (message) {
        memcpy(message, head, sizeof head);
        memcpy(message + sizeof head, name, (size_t)name_len);
        memcpy(message + sizeof head + name_len, PyBytes_AS_STRING(payload), size);
        ready = module_post(AGENT_POST_CALL, message, len);
        if (ready < 0)
            PyErr_Format(call_error, "the host refused the call of '%U': too many are under way",
                         c->name);
    } else {
        PyErr_NoMemory();
    }
    if (message != small) free(message);
    Py_DECREF(payload);
    return ready;
}

/* Hands the replies in `bytes` on, but for that to `c`: its value, or NULL; with an exception, or
 * without one if there was none. */
static PyObject *sort_replies(call *c, const char *bytes, size_t len) {
    PyObject *value = NULL, *others = NULL;
    bool mine = false;
    const char *at = bytes, *end = bytes + len;
    agent_reply head, own = { 0 };
    const char *own_bytes = NULL;
    for (; (size_t)(end - at) >= sizeof head; at += head.len) {
        memcpy(&head, at, sizeof head);
        at += sizeof head;
        if (head.len > (size_t)(end - at)) break;
        if (head.id == c->id && !mine) {
            mine = true;
            own = head;
            own_bytes = at;
            continue;
        }
        PyObject *item = Py_BuildValue("(IOy#)", head.id, head.ok ? Py_True : Py_False, at,
                                       (Py_ssize_t)head.len);
        if (!others) others = PyList_New(0);
        if (!item || !others || PyList_Append(others, item) < 0) PyErr_Clear();
        Py_XDECREF(item);
    }
    if (others) {
        PyObject *done = PyObject_CallOneArg(agent.deliver, others);
        Py_XDECREF(done);
        Py_DECREF(others);
        if (!done) {
            if (mine) return NULL;
            PyErr_Clear();
        }
    }
    if (mine) value = answer(own.ok != 0, own_bytes, own.len);
    return value;
}

static PyObject *take_answer(call *c, size_t ready) {
    char small[SMALL];
    char *bytes = ready <= sizeof small ? small : malloc(ready);
    if (!bytes) return PyErr_NoMemory();
    size_t got = module_take(bytes, ready);
    PyObject *value = sort_replies(c, bytes, got);
    if (bytes != small) free(bytes);
    return value;
}

/* Tells the host that nobody waits any more. Keeps the exception that is set. */
static void call_forget(call *c) {
    PyObject *exc = PyErr_GetRaisedException();
    PyObject *id = PyLong_FromUnsignedLong(c->id);
    PyObject *done = id ? PyObject_CallOneArg(agent.forget, id) : NULL;
    Py_XDECREF(id);
    Py_XDECREF(done);
    Py_CLEAR(c->waiting);
    if (exc)
        PyErr_SetRaisedException(exc);
    else if (!done)
        PyErr_WriteUnraisable((PyObject *)c);
}

/* What the future brought: (ok, bytes). Steals it. */
static PyObject *call_unpack(PyObject *pair) {
    PyObject *value = NULL;
    if (PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 &&
        PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 1))) {
        PyObject *bytes = PyTuple_GET_ITEM(pair, 1);
        value = answer(PyTuple_GET_ITEM(pair, 0) == Py_True, PyBytes_AS_STRING(bytes),
                       (size_t)PyBytes_GET_SIZE(bytes));
    } else {
        PyErr_SetString(PyExc_RuntimeError, "the future of a host function's call was set by others");
    }
    Py_DECREF(pair);
    return value;
}

static PySendResult call_end(call *c, PyObject *value, PyObject **result) {
    c->state = CALL_OVER;
    *result = value;
    return value ? PYGEN_RETURN : PYGEN_ERROR;
}

static PySendResult call_wait(call *c, PyObject *arg, PyObject **result) {
    PyObject *got = NULL;
    PySendResult how = PyIter_Send(c->waiting, arg, &got);
    if (how == PYGEN_NEXT) {
        c->state = CALL_WAITS;
        *result = got;
        return PYGEN_NEXT;
    }
    if (how == PYGEN_ERROR) {
        call_forget(c);
        return call_end(c, NULL, result);
    }
    Py_CLEAR(c->waiting);
    return call_end(c, call_unpack(got), result);
}

static PySendResult call_begin(call *c, PyObject **result) {
    int ready = post_call(c);
    Py_CLEAR(c->args);
    if (ready < 0) return call_end(c, NULL, result);
    if (ready > 0) {
        PyObject *value = take_answer(c, (size_t)ready);
        if (value || PyErr_Occurred()) return call_end(c, value, result);
    }
    PyObject *id = PyLong_FromUnsignedLong(c->id);
    c->waiting = id ? PyObject_CallOneArg(agent.expect, id) : NULL;
    Py_XDECREF(id);
    if (!c->waiting) {
        module_post(AGENT_POST_DROP, &c->id, sizeof c->id);
        return call_end(c, NULL, result);
    }
    return call_wait(c, Py_None, result);
}

/* Whether the call can go on; if not, an exception says why. */
static bool call_enter(call *c) {
    if (c->state == CALL_NEW || c->state == CALL_WAITS) return true;
    PyErr_SetString(PyExc_RuntimeError, c->state == CALL_RUNS
                                            ? "the call of a host function is already awaited"
                                            : "cannot reuse the awaited call of a host function");
    return false;
}

static PySendResult call_send(PyObject *self, PyObject *arg, PyObject **result) {
    call *c = (call *)self;
    *result = NULL;
    if (!call_enter(c)) return PYGEN_ERROR;
    bool fresh = c->state == CALL_NEW;
    if (fresh && arg && arg != Py_None) {
        PyErr_SetString(PyExc_TypeError, "can't send non-None value to a call just made");
        return PYGEN_ERROR;
    }
    c->state = CALL_RUNS;
    Py_INCREF(c);
    PySendResult how = fresh ? call_begin(c, result) : call_wait(c, arg ? arg : Py_None, result);
    Py_DECREF(c);
    return how;
}

/* A StopIteration with `value`, which may itself be a tuple or an exception. Steals it. */
static PyObject *stop_with(PyObject *value) {
    PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, value);
    Py_DECREF(value);
    if (stop) PyErr_SetRaisedException(stop);
    return NULL;
}

static PyObject *as_generator(PySendResult how, PyObject *result) {
    if (how == PYGEN_NEXT || !result) return result;
    if (result != Py_None) return stop_with(result);
    Py_DECREF(result);
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

static PyObject *call_next(PyObject *self) {
    PyObject *result;
    PySendResult how = call_send(self, Py_None, &result);
    return as_generator(how, result);
}

static PyObject *call_send_method(PyObject *self, PyObject *arg) {
    PyObject *result;
    PySendResult how = call_send(self, arg, &result);
    return as_generator(how, result);
}

/* Sets the exception that throw(type, value, traceback) or throw(value) means. */
static void raise_given(PyObject *const *args, Py_ssize_t count) {
    PyObject *exc = args[0];
    if (PyExceptionClass_Check(exc)) {
        PyObject *value = count > 1 ? args[1] : Py_None;
        if (PyExceptionInstance_Check(value))
            exc = Py_NewRef(value);
        else
            exc = value == Py_None ? PyObject_CallNoArgs(exc) : PyObject_CallOneArg(exc, value);
    } else {
        Py_INCREF(exc);
    }
    if (exc && PyExceptionInstance_Check(exc)) {
        if (count > 2 && args[2] != Py_None) PyException_SetTraceback(exc, args[2]);
        PyErr_SetRaisedException(exc);
    } else if (exc) {
        Py_DECREF(exc);
        PyErr_SetString(PyExc_TypeError, "exceptions must be classes or instances of exceptions");
    }
}

/* Whatever is thrown in ends the call: it has no code that could catch it. */
static PyObject *call_throw(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    call *c = (call *)self;
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "throw() takes 1 to 3 arguments");
        return NULL;
    }
    if (!call_enter(c)) return NULL;
    bool waits = c->state == CALL_WAITS;
    c->state = CALL_OVER;
    Py_CLEAR(c->args);
    raise_given(args, count);
    if (waits) call_forget(c);
    return NULL;
}

static PyObject *call_close(PyObject *self, PyObject *args) {
    (void)args;
    call *c = (call *)self;
    if (c->state == CALL_RUNS) {
        PyErr_SetString(PyExc_ValueError, "the call of a host function is already awaited");
        return NULL;
    }
    bool waits = c->state == CALL_WAITS;
    c->state = CALL_OVER;
    Py_CLEAR(c->args);
    if (waits) call_forget(c);
    Py_RETURN_NONE;
}

/* A call that is given up: the same as for coroutines. */
static void call_finalize(PyObject *self) {
    call *c = (call *)self;
    PyObject *exc = PyErr_GetRaisedException();
    if (c->state == CALL_WAITS) {
        c->state = CALL_OVER;
        call_forget(c);
    } else if (c->state == CALL_NEW &&
               PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%U' was never awaited",
                                c->name) < 0) {
        PyErr_WriteUnraisable(self);
    }
    PyErr_SetRaisedException(exc);
}

static int call_traverse(PyObject *self, visitproc visit, void *arg) {
    call *c = (call *)self;
    Py_VISIT(c->args);
    Py_VISIT(c->waiting);
    return 0;
}

static int call_clear(PyObject *self) {
    call *c = (call *)self;
    Py_CLEAR(c->args);
    Py_CLEAR(c->waiting);
    return 0;
}

static void call_dealloc(PyObject *self) {
    call *c = (call *)self;
    if (c->state == CALL_NEW || c->state == CALL_WAITS) {
        if (PyObject_CallFinalizerFromDealloc(self) < 0) return; /* it lives on */
    }
    PyObject_GC_UnTrack(self);
    call_clear(self);
    Py_XDECREF(c->name);
    PyObject_GC_Del(self);
}

static PyObject *call_repr(PyObject *self) {
    return PyUnicode_FromFormat("<call of host function '%U' at %p>", ((call *)self)->name, self);
}

static PyObject *call_self(PyObject *self) {
    return Py_NewRef(self);
}

static PyObject *call_await(PyObject *self) {
    if (((call *)self)->state == CALL_OVER) {
        (void)call_enter((call *)self);
        return NULL;
    }
    return Py_NewRef(self);
}

static PyObject *call_running(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((call *)self)->state == CALL_RUNS);
}

static PyGetSetDef call_fields[] = {
    NAME_ROW("__name__", call, name),
    NAME_ROW("__qualname__", call, name),
    { "cr_running", call_running, NULL, NULL, NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyMethodDef call_methods[] = {
    { "send", call_send_method, METH_O, NULL },
    { "throw", (PyCFunction)(void (*)(void))call_throw, METH_FASTCALL, NULL },
    { "close", call_close, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyAsyncMethods call_async = { .am_await = call_await, .am_send = call_send };

static PyTypeObject call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "brumate.Call",
    .tp_basicsize = sizeof(call),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_as_async = &call_async,
    .tp_iter = call_self,
    .tp_iternext = call_next,
    .tp_traverse = call_traverse,
    .tp_clear = call_clear,
    .tp_finalize = call_finalize,
    .tp_dealloc = call_dealloc,
    .tp_repr = call_repr,
    .tp_methods = call_methods,
    .tp_getset = call_fields,
};

/* --- making them known --- */

static bool is_ours(PyObject *op) {
    return Py_TYPE(op) == &function_type || Py_TYPE(op) == &namespace_type;
}

/* Puts `f` where its dotted name says, below `roots`. */
static int place(PyObject *roots, PyObject *name, PyObject *f) {
    PyObject *dot = PyUnicode_FromString(".");
    PyObject *parts = dot ? PyUnicode_Split(name, dot, -1) : NULL;
    Py_ssize_t last = parts ? PyList_GET_SIZE(parts) - 1 : -1;
    PyObject *into = roots;
    int failed = last < 0;
    for (Py_ssize_t i = 0; !failed && i <= last; i++) {
        PyObject *part = PyList_GET_ITEM(parts, i);
        Py_INCREF(part);
        PyUnicode_InternInPlace(&part);
        PyObject *found = PyDict_GetItemWithError(into, part); /* borrowed: `into` holds it */
        if (i == last) {
            failed = PyDict_SetItem(into, part, f);
        } else if (!found || Py_TYPE(found) != &namespace_type) {
            PyObject *made = namespace_new(part);
            failed = made ? PyDict_SetItem(into, part, made) : -1;
            found = made;
            Py_XDECREF(made);
        }
        if (!failed && i < last) into = ((namespace *)found)->items;
        Py_DECREF(part);
    }
    Py_XDECREF(dot);
    Py_XDECREF(parts);
    return failed;
}

/* The text at `*at`, that ends in a NUL before `end`; NULL with an exception. */
static PyObject *read_text(const char **at, const char *end) {
    size_t len = strnlen(*at, (size_t)(end - *at));
    const char *text = *at;
    if (len == (size_t)(end - *at)) {
        PyErr_SetString(PyExc_ValueError, "malformed host functions");
        return NULL;
    }
    *at += len + 1;
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)len, "replace");
}

static int add_function(PyObject *told, PyObject *roots, const char **at, const char *end) {
    PyObject *name = read_text(at, end);
    PyObject *doc = name ? read_text(at, end) : NULL;
    PyObject *schema = doc ? read_text(at, end) : NULL;
    PyObject *row = schema ? PyTuple_Pack(3, name, doc, schema) : NULL;
    PyObject *f = row ? function_new(name, doc) : NULL;
    int failed = !f || PyList_Append(told, row) < 0 || place(roots, name, f) < 0;
    Py_XDECREF(name);
    Py_XDECREF(doc);
    Py_XDECREF(schema);
    Py_XDECREF(row);
    Py_XDECREF(f);
    return failed ? -1 : 0;
}

int functions_set(PyObject *globals, const char *bytes, size_t len) {
    const char *at = bytes, *end = bytes + len;
    PyObject *told = PyList_New(0), *roots = PyDict_New(), *name, *root;
    Py_ssize_t i = 0;
    int failed = !told || !roots;
    while (!failed && at < end) failed = add_function(told, roots, &at, end);
    while (!failed && PyDict_Next(roots, &i, &name, &root)) {
        PyObject *bound = PyDict_GetItemWithError(globals, name);
        if (!bound || is_ours(bound)) failed = PyDict_SetItem(globals, name, root);
    }
    if (!failed) {
        Py_XSETREF(known.told, Py_NewRef(told));
        Py_XSETREF(known.roots, Py_NewRef(roots));
    }
    Py_XDECREF(told);
    Py_XDECREF(roots);
    return failed ? -1 : 0;
}

void functions_restore(PyObject *globals) {
    if (known.roots) (void)PyDict_Update(globals, known.roots);
    PyErr_Clear();
}

static PyObject *functions_told(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyObject *rows = known.told ? Py_NewRef(known.told) : PyList_New(0);
    PyObject *list = rows ? PyObject_CallOneArg(agent.describe, rows) : NULL;
    Py_XDECREF(rows);
    return list;
}

void functions_bind(const functions_agent *bound) {
    agent = *bound;
}

int functions_init(PyObject *module) {
    static PyMethodDef told = { "functions", functions_told, METH_NOARGS,
                                "a list of dicts that describe the host functions" };
    if (PyType_Ready(&function_type) < 0 || PyType_Ready(&namespace_type) < 0 ||
        PyType_Ready(&call_type) < 0)
        return -1;
    call_error = PyErr_NewExceptionWithDoc(
        "brumate.CallError", "A host function's call failed, in a way that has no type of its own here.",
        NULL, NULL);
    PyObject *list = call_error ? PyCFunction_New(&told, NULL) : NULL;
    int failed = !list || PyModule_AddObjectRef(module, "functions", list) < 0 ||
                 PyModule_AddObjectRef(module, "CallError", call_error) < 0;
    Py_XDECREF(list);
    return failed ? -1 : 0;
}
