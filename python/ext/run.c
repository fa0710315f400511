/* One run: the loop over its events. Host functions are called, answered and timed here; what needs
 * an event loop is handed to Python.
 *
 * A run is driven by one thread at a time: whoever holds the ticket. While a host function runs,
 * the ticket can be taken from the thread that is stuck in it (`overdue`, `abandon`); when that
 * thread comes back it finds another ticket, and touches nothing any more. */
#include "native.h"

#include "value.h"

/* What drive() and take() answer, as (kind, id or time, function or result, arguments, keywords).
 */
enum {
    EVENT_DONE,
    EVENT_CALL,
    EVENT_CALL_ASYNC,
    EVENT_DROP,
    EVENT_WAIT,
    EVENT_INPUT,
    EVENT_GO,
    EVENT_LOST,
    EVENT_HELD
};

enum { INPUT_PART = 1 << 20 };  /* bytes of standard input that the library is given at a time */
enum { ERROR_TEXT_MAX = 8000 }; /* characters of a host exception that are told to the guest */

/* How long an event loop may be late with a call's or the run's time, before it counts as stuck. */
#define LOOP_GRACE_NS 5000000u

static uint64_t sum(uint64_t at, uint64_t duration) {
    return duration > UINT64_MAX - at ? UINT64_MAX : at + duration;
}

static PyObject *event_of(int kind, uint64_t number, PyObject *what) {
    return Py_BuildValue("iKNOO", kind, (unsigned long long)number, what, Py_None, Py_None);
}

/* ---- The end of a run -------------------------------------------------------------------- */

void run_clear(session_object *self) {
    run_state *run = &self->run;
    run->waits = run->stepwise = run->through = run->driven = false;
    run->held = 0;
    run->phase = RUN_NONE;
    run->pending = false;
    run->ticket++;
    run->open = 0;
    for (int i = 0; i < OUTPUTS; i++) {
        PyMem_RawFree(run->texts[i].bytes);
        run->texts[i] = (text_buffer){ NULL, 0, 0 };
    }
    PyObject *input = run->input, *given = run->given, *first = run->streams[0].listener,
             *second = run->streams[1].listener;
    run->given_left = 0;
    run->given = run->input = run->streams[0].listener = run->streams[1].listener = NULL;
    run->streams[0].split_len = run->streams[1].split_len = 0;
    Py_XDECREF(input);
    Py_XDECREF(given);
    Py_XDECREF(first);
    Py_XDECREF(second);
}

/* Refuses whatever the guest wants. False when it has ended. Without the GIL. */
static bool refuse(session_object *self) {
    static const char stopped[] = "the run was stopped";
    bru_event *e = &self->run.event;
    switch (e->kind) {
    case BRU_EVENT_DONE: bru_result_free(e->result); return false;
    case BRU_EVENT_CALL:
        (void)!bru_session_reply(self->session, e->id, 0, stopped, sizeof stopped - 1, NULL);
        break;
    case BRU_EVENT_INPUT: (void)!bru_session_input(self->session, NULL, 0, NULL); break;
    case BRU_EVENT_WAIT: native_sleep(&self->wake, atomic_load(&self->wake), e->wake_ns); break;
    default: break;
    }
    return true;
}

void run_abandon(session_object *self) {
    run_state *run = &self->run;
    PyObject *type, *value, *trace;
    bool goes_on = true;
    if (run->phase == RUN_NONE) return;
    PyErr_Fetch(&type, &value, &trace);
    run->phase = RUN_GUEST;
    run->ticket++;
    Py_BEGIN_ALLOW_THREADS
    bru_session_interrupt(self->session, BRU_INTERRUPT_SOFT);
    if (run->pending) goes_on = refuse(self);
    while (goes_on && bru_session_next(self->session, &run->event, NULL) == BRU_OK)
        goes_on = refuse(self);
    Py_END_ALLOW_THREADS
    run_clear(self);
    PyErr_Restore(type, value, trace);
}

/* The run cannot go on, an exception says why. */
static PyObject *run_fail(session_object *self) {
    run_abandon(self);
    return NULL;
}

/* ---- Running the guest ------------------------------------------------------------------- */

/* Raises why a run could not begin or go on: what is too large for the guest is beyond its limits.
 */
static PyObject *raise_run(const bru_error *err) {
    if (err->status == BRU_ELIMIT) return native_raise_as("ResourceLimitError", "%s", err->message);
    return native_raise(err);
}

bru_status run_guest(session_object *self, bru_error *err) {
    bru_status st = bru_session_next(self->session, &self->run.event, err);
    if (st == BRU_OK && self->run.event.kind == BRU_EVENT_DONE && self->resets)
        self->fresh = bru_session_reset(self->session, BRU_RESET_FILES, NULL) == BRU_OK;
    return st;
}

bool run_next(session_object *self) {
    run_state *run = &self->run;
    bru_error err = { 0 };
    bru_status st;
    session_object *hook = signals_begin(self);
    if (hook && PyErr_CheckSignals() < 0) {
        signals_end(hook);
        return false;
    }
    run->waits = false;
    run->wake_seen = atomic_load(&self->wake);
    run->phase = RUN_GUEST;
    Py_BEGIN_ALLOW_THREADS
    st = run_guest(self, &err);
    Py_END_ALLOW_THREADS
    run->phase = RUN_INSIDE;
    signals_end(hook);
    run->pending = st == BRU_OK;
    if (st) {
        run_clear(self);
        raise_run(&err);
        return false;
    }
    return !hook || PyErr_CheckSignals() == 0;
}

/* Nothing to do before the event's time. */
static bool run_sleep(session_object *self) {
    run_state *run = &self->run;
    session_object *hook = signals_begin(self);
    bool fine = !hook || PyErr_CheckSignals() == 0;
    if (fine) {
        run->phase = RUN_GUEST;
        Py_BEGIN_ALLOW_THREADS
        native_sleep(&self->wake, run->wake_seen, run->event.wake_ns);
        Py_END_ALLOW_THREADS
        run->phase = RUN_INSIDE;
    }
    signals_end(hook);
    return fine && (!hook || PyErr_CheckSignals() == 0);
}

/* ---- Code of the host ------------------------------------------------------------------- */

static void host_begin(session_object *self, uint32_t call, bool timed) {
    self->run.phase = RUN_HOST;
    self->run.host_call = call;
    self->run.host_since = timed ? native_clock() : 0;
}

/* Whether the run is still this ticket's. If not, an exception does not matter any more either. */
static bool host_end(session_object *self, unsigned long ticket) {
    if (self->run.ticket != ticket) {
        PyErr_Clear();
        return false;
    }
    self->run.phase = RUN_INSIDE;
    self->run.host_since = 0;
    return true;
}

/* ---- Output ------------------------------------------------------------------------------ */

static bool keep_text(text_buffer *t, const void *bytes, size_t len) {
    if (len > t->room - t->len) {
        size_t room = t->room ? t->room : 1024;
        while (room - t->len < len) room *= 2;
        char *grown = PyMem_RawRealloc(t->bytes, room);
        if (!grown) return PyErr_NoMemory(), false;
        t->bytes = grown;
        t->room = room;
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    return true;
}

/* The text that is complete with these bytes; the start of a character waits for its rest. */
static PyObject *decode_part(run_stream *s, const char *bytes, size_t len, bool last) {
    Py_ssize_t used = 0;
    char *joined = NULL;
    const char *from = bytes;
    size_t all = s->split_len + len;
    if (s->split_len) {
        joined = PyMem_Malloc(all);
        if (!joined) return PyErr_NoMemory();
        memcpy(joined, s->split, s->split_len);
        if (len) memcpy(joined + s->split_len, bytes, len);
        from = joined;
    }
    PyObject *text =
        PyUnicode_DecodeUTF8Stateful(from, (Py_ssize_t)all, "replace", last ? NULL : &used);
    if (text) {
        s->split_len = last ? 0 : (unsigned)(all - (size_t)used);
        if (s->split_len) memcpy(s->split, from + used, s->split_len);
    }
    PyMem_Free(joined);
    return text;
}

/* Tells the listener; false with an exception. */
static bool tell(run_stream *s, const char *bytes, size_t len, bool last) {
    PyObject *text = s->listener ? decode_part(s, bytes, len, last) : NULL;
    if (!s->listener) return true;
    if (!text) return false;
    bool fine = true;
    if (PyUnicode_GET_LENGTH(text) > 0) {
        PyObject *listener = Py_NewRef(s->listener);
        PyObject *r = PyObject_CallOneArg(listener, text);
        fine = r != NULL;
        Py_XDECREF(r);
        Py_DECREF(listener);
    }
    Py_DECREF(text);
    return fine;
}

static bool hand_out(session_object *self) {
    run_state *run = &self->run;
    bru_event *e = &run->event;
    int which = e->stream == 1 ? OUTPUT_STDOUT : OUTPUT_STDERR;
    run->pending = false;
    run->streaming = true; /* a run from a snapshot may be one that streams */
    return keep_text(&run->texts[which], e->data, e->len) &&
           keep_text(&run->texts[OUTPUT_BOTH], e->data, e->len) &&
           tell(&run->streams[which], e->data, e->len, false);
}

/* ---- Answers ----------------------------------------------------------------------------- */

static PyObject *take_exception(void) {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
#endif
}

/* str() of it; of a KeyError its key, which str() would put into quotes a second time. */
static PyObject *exception_message(PyObject *exception) {
    PyObject *args = Py_IS_TYPE(exception, (PyTypeObject *)PyExc_KeyError)
                         ? ((PyBaseExceptionObject *)exception)->args
                         : NULL;
    if (args && PyTuple_GET_SIZE(args) == 1 && PyUnicode_CheckExact(PyTuple_GET_ITEM(args, 0)))
        return Py_NewRef(PyTuple_GET_ITEM(args, 0));
    return PyObject_Str(exception);
}

/* "ValueError: why", as UTF-8 bytes. NULL with an exception. */
static PyObject *error_text(PyObject *exception) {
    PyObject *message = exception_message(exception), *clipped = NULL, *text = NULL, *bytes = NULL;
    if (!message) {
        PyErr_Clear();
        message = PyUnicode_FromString("");
    }
    PyObject *name = PyType_GetName(Py_TYPE(exception));
    if (message) clipped = PyUnicode_Substring(message, 0, ERROR_TEXT_MAX);
    if (name && clipped) text = PyUnicode_FromFormat("%U: %U", name, clipped);
    if (text) bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    Py_XDECREF(text);
    Py_XDECREF(clipped);
    Py_XDECREF(name);
    Py_XDECREF(message);
    return bytes;
}

static bool answer_bytes(session_object *self, uint32_t id, int ok, const char *bytes, size_t len) {
    static const char too_large[] = "ValueError: the answer is larger than the guest can take";
    bru_error err = { 0 };
    bru_status st = bru_session_reply(self->session, id, ok, bytes, len, &err);
    if (st == BRU_ELIMIT)
        st = bru_session_reply(self->session, id, 0, too_large, sizeof too_large - 1, &err);
    if (st == BRU_OK || st == BRU_EINVAL) return true; /* EINVAL: nobody waits for it any more */
    native_raise(&err);
    return false;
}

static bool answer_text(session_object *self, uint32_t id, const char *text) {
    return answer_bytes(self, id, 0, text, strlen(text));
}

/* What a call ends with, ready to be handed over. */
typedef struct answer {
    PyObject *bytes; /* NULL: there was no memory for it */
    int ok;
} answer;

/* Of an exception's text. Runs its __str__(). */
static answer answer_of_exception(PyObject *exception) {
    return (answer){ error_text(exception), 0 };
}

/* value_encode(), whose errors begin with "value" and the place in it: with what it is here. */
static PyObject *encode_as(const char *what, PyObject *value) {
    PyObject *bytes = value_encode(value, BRU_VALUE_MAX);
    if (bytes) return bytes;
    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
        return NULL;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *text = error ? PyObject_Str(error) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 && strncmp(utf8, "value", 5) == 0)
        PyErr_Format(type, "%s%s", what, utf8 + 5);
    else
        PyErr_Restore(Py_XNewRef(type), Py_XNewRef(error), NULL);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return NULL;
}

/* Of a value, NULL: of the exception under way; that is also told if the value cannot cross. */
static answer answer_of(PyObject *value) {
    PyObject *bytes = value ? encode_as("the function's answer", value) : NULL;
    if (bytes) return (answer){ bytes, 1 };
    PyObject *exception = take_exception();
    answer a = exception ? answer_of_exception(exception) : (answer){ NULL, 0 };
    Py_XDECREF(exception);
    return a;
}

static bool answer_give(session_object *self, uint32_t id, answer a) {
    bool fine = a.bytes && answer_bytes(self, id, a.ok, PyBytes_AS_STRING(a.bytes),
                                        (size_t)PyBytes_GET_SIZE(a.bytes));
    Py_XDECREF(a.bytes);
    return fine;
}

static bool answer_limit(session_object *self, uint32_t id, uint64_t limit, const char *what) {
    char text[160];
    PyOS_snprintf(text, sizeof text, "limit reached: %llu %s", (unsigned long long)limit, what);
    return answer_text(self, id, text);
}

/* ---- Calls under way in an event loop ----------------------------------------------------- */

static bool open_add(run_state *run, uint32_t id, uint64_t since) {
    if (run->open == run->open_room) {
        size_t room = run->open_room ? run->open_room * 2 : 16;
        open_call *grown = PyMem_RawRealloc(run->open_calls, room * sizeof *grown);
        if (!grown) return PyErr_NoMemory(), false;
        run->open_calls = grown;
        run->open_room = room;
    }
    run->open_calls[run->open++] = (open_call){ id, since };
    if (since == OPEN_HELD) run->held++;
    return true;
}

static void open_remove(run_state *run, uint32_t id) {
    for (size_t i = 0; i < run->open; i++) {
        if (run->open_calls[i].id != id) continue;
        if (run->open_calls[i].since == OPEN_HELD) run->held--;
        run->open_calls[i] = run->open_calls[--run->open];
        return;
    }
}

/* When the oldest of them began; UINT64_MAX: there is none. */
static uint64_t open_since(const run_state *run) {
    uint64_t since = UINT64_MAX;
    for (size_t i = 0; i < run->open; i++)
        if (run->open_calls[i].since < since) since = run->open_calls[i].since;
    return since;
}

/* Answers those that an event loop has with an error: it is stuck. */
static bool open_refuse(session_object *self, const char *text) {
    run_state *run = &self->run;
    bool fine = true;
    size_t kept = 0;
    for (size_t i = 0; i < run->open; i++) {
        const open_call *c = &run->open_calls[i];
        if (c->since == OPEN_HELD)
            run->open_calls[kept++] = *c;
        else
            fine = fine && answer_text(self, c->id, text);
    }
    run->open = kept;
    return fine;
}

/* ---- Calls ------------------------------------------------------------------------------- */

typedef struct host_call {
    PyObject *fn, *args, *kwargs;
    bool is_async;
} host_call;

static void host_call_clear(host_call *c) {
    Py_CLEAR(c->fn);
    Py_CLEAR(c->args);
    Py_CLEAR(c->kwargs);
}

bool run_arguments(const void *bytes, size_t len, PyObject **args, PyObject **kwargs) {
    PyObject *both = value_decode(bytes, len);
    if (!both) return false;
    bool right = PyList_CheckExact(both) && PyList_GET_SIZE(both) == 2 &&
                 PyList_CheckExact(PyList_GET_ITEM(both, 0)) &&
                 PyDict_CheckExact(PyList_GET_ITEM(both, 1));
    if (right) {
        *args = PyList_AsTuple(PyList_GET_ITEM(both, 0));
        *kwargs = Py_NewRef(PyList_GET_ITEM(both, 1));
        right = *args && PyArg_ValidateKeywordArguments(*kwargs);
    } else {
        PyErr_SetString(PyExc_ValueError, "the arguments of a call are malformed");
    }
    Py_DECREF(both);
    return right;
}

/* Finds who performs the call. In a stepwise run it may be nobody here: then `c->fn` stays NULL. */
static bool find_function(session_object *self, const char *name, host_call *c) {
    PyObject *key = PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), NULL);
    PyObject *fn = key ? PyDict_GetItemWithError(self->functions, key) : NULL;
    bool declared = fn == Py_None;
    if (declared) fn = NULL;
    if (fn) c->is_async = PySet_Contains(self->async_names, key) == 1;
    Py_XDECREF(key);
    c->fn = Py_XNewRef(fn);
    if (fn || PyErr_Occurred()) return fn != NULL;
    if (self->run.stepwise) return true;
    if (declared)
        PyErr_Format(PyExc_NotImplementedError,
                     "host function '%.100s' has no implementation here: use Session.start()",
                     name);
    else
        PyErr_Format(PyExc_LookupError, "there is no host function '%.100s'", name);
    return false;
}

/* Takes the CALL event in hand. 1: `*c` is to be performed; 0: it was refused; -1 with an
 * exception. */
static int begin_call(session_object *self, host_call *c) {
    run_state *run = &self->run;
    bru_event *e = &run->event;
    uint32_t id = e->id;
    run->pending = false;
    *c = (host_call){ NULL, NULL, NULL, false };
    if (run->calls >= self->max_calls)
        return answer_limit(self, id, run->calls,
                            "calls of host functions (max_callback_invocations)")
                   ? 0
                   : -1;
    if (run->open >= self->max_open)
        return answer_limit(self, id, run->open, "calls under way (max_pending_callbacks)") ? 0
                                                                                            : -1;
    if (!find_function(self, e->name, c) || !run_arguments(e->data, e->len, &c->args, &c->kwargs)) {
        host_call_clear(c);
        return answer_give(self, id, answer_of(NULL)) ? 0 : -1;
    }
    run->calls++;
    return 1;
}

static bool is_awaitable(PyObject *o) {
    PyAsyncMethods *as = Py_TYPE(o)->tp_as_async;
    return PyCoro_CheckExact(o) || (as && as->am_await);
}

/* sys.exit() and Ctrl-C in a host function are meant for the host. */
static bool ends_the_run(void) {
    return PyErr_ExceptionMatches(PyExc_SystemExit) ||
           PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
}

/* The call is not performed here: the caller is told, and it stays open until reply() or fail(). */
static PyObject *hold(session_object *self, uint32_t id, PyObject *name, host_call *c) {
    PyObject *event = NULL;
    if (name && open_add(&self->run, id, OPEN_HELD))
        event = Py_BuildValue("iINOO", EVENT_HELD, id, Py_NewRef(name), c->args, c->kwargs);
    Py_XDECREF(name);
    host_call_clear(c);
    return event;
}

static PyObject *event_name(const session_object *self) {
    const char *name = self->run.event.name;
    return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), NULL);
}

/* Whether nobody here performs the CALL event in hand. */
static bool is_held(session_object *self) {
    if (!self->run.stepwise) return false;
    PyObject *name = event_name(self);
    PyObject *fn = name ? PyDict_GetItemWithError(self->functions, name) : NULL;
    Py_XDECREF(name);
    PyErr_Clear();
    return !fn || fn == Py_None;
}

/* Performs the CALL event in hand. An event for Python; Py_None: go on; NULL with an exception,
 * the run is over then, or `*lost`: it is another's. */
static PyObject *perform(session_object *self, unsigned long ticket, bool *lost) {
    uint32_t id = self->run.event.id;
    host_call c;
    int begun = begin_call(self, &c);
    if (begun <= 0) return begun < 0 ? NULL : Py_NewRef(Py_None);
    if (!c.fn) return hold(self, id, event_name(self), &c);
    host_begin(self, id, true);
    PyObject *value = PyObject_Call(c.fn, c.args, c.kwargs);
    host_call_clear(&c);
    bool waits = value && is_awaitable(value), ends = !value && ends_the_run();
    answer a = { NULL, 0 };
    if (!waits && !ends) {
        a = answer_of(value);
        Py_CLEAR(value);
    }
    *lost = !host_end(self, ticket);
    if (!*lost && waits && open_add(&self->run, id, native_clock()))
        return event_of(EVENT_CALL_ASYNC, id, value);
    Py_XDECREF(value);
    if (!*lost && !waits && !ends) return answer_give(self, id, a) ? Py_NewRef(Py_None) : NULL;
    Py_XDECREF(a.bytes);
    return NULL;
}

/* ---- Input ------------------------------------------------------------------------------- */

/* The bytes of what an input function gave: str, bytes or None. */
static bool input_bytes(PyObject *given, const char **bytes, Py_ssize_t *len) {
    *bytes = "";
    *len = 0;
    if (given == Py_None) return true;
    if (PyUnicode_Check(given)) return (*bytes = PyUnicode_AsUTF8AndSize(given, len)) != NULL;
    if (PyBytes_Check(given)) {
        *bytes = PyBytes_AS_STRING(given);
        *len = PyBytes_GET_SIZE(given);
        return true;
    }
    PyErr_Format(PyExc_TypeError, "stdin must give str, bytes or None, not %.100s",
                 Py_TYPE(given)->tp_name);
    return false;
}

/* Hands the guest the next part of what was given, or the end. */
static bool feed(session_object *self) {
    run_state *run = &self->run;
    size_t part = run->given_left < INPUT_PART ? run->given_left : INPUT_PART;
    bru_error err = { 0 };
    run->pending = false;
    bru_status st = bru_session_input(self->session, run->given_at, part, &err);
    run->given_at += part;
    run->given_left -= part;
    if (!run->given_left) Py_CLEAR(run->given);
    if (st) native_raise(&err);
    return st == BRU_OK;
}

/* From here on it is what the guest reads, part by part. */
static bool keep_input(session_object *self, PyObject *given) {
    run_state *run = &self->run;
    Py_ssize_t len;
    if (!input_bytes(given, &run->given_at, &len)) return false;
    run->given_left = (size_t)len;
    Py_XSETREF(run->given, Py_NewRef(given));
    return true;
}

/* Whether there is something to read, or it is at its end, without asking anybody. */
static bool can_feed(const run_state *run) {
    return run->given_left > 0 || !run->input;
}

static bool answer_input(session_object *self, PyObject *given) {
    return keep_input(self, given) && feed(self);
}

static bool ask_input(session_object *self, unsigned long ticket, bool *lost) {
    PyObject *fn = Py_NewRef(self->run.input);
    self->run.pending = false; /* who takes the run over from a function that is stuck goes on */
    host_begin(self, 0, false);
    PyObject *given = PyObject_CallNoArgs(fn);
    Py_DECREF(fn);
    *lost = !host_end(self, ticket);
    bool fine = !*lost && given && answer_input(self, given);
    Py_XDECREF(given);
    return fine;
}

/* ---- The loop ---------------------------------------------------------------------------- */

/* A run from a snapshot may not have been one that streams: listeners hear all of it at its end. */
static bool tell_all(session_object *self, const bru_result *result) {
    static const bru_text texts[] = { BRU_TEXT_STDOUT, BRU_TEXT_STDERR };
    bool told = true;
    for (int i = 0; i < 2 && told; i++) {
        size_t len;
        const char *text = bru_result_text(result, texts[i], &len);
        told = tell(&self->run.streams[i], text, len, false);
    }
    return told;
}

/* The result of a DONE event; the run is over. */
static PyObject *finish(session_object *self) {
    run_state *run = &self->run;
    bool told = true;
    run->pending = false;
    bru_result *result = run->event.result;
    if (run->stepwise && !run->streaming) told = tell_all(self, result);
    for (int i = 0; i < 2 && told; i++)
        if (run->streams[i].split_len) told = tell(&run->streams[i], "", 0, true);
    PyObject *wrapped = result_wrap(result, run->calls, run->streaming ? run->texts : NULL);
    run_clear(self);
    if (!told) Py_CLEAR(wrapped);
    return wrapped;
}

/* Nobody waits for the call of a DROP event any more: an answer makes the library forget it. */
static PyObject *dropped(session_object *self) {
    uint32_t id = self->run.event.id;
    self->run.pending = false;
    open_remove(&self->run, id);
    if (!answer_text(self, id, "")) return run_fail(self);
    return event_of(EVENT_DROP, id, Py_NewRef(Py_None));
}

/* How much earlier than the deadline an event's time can be and still be the deadline's. */
#define DEADLINE_SLACK_NS 5000000u

/* Whether the guest waits for a timer, not only for its deadline. */
static bool has_timer(const run_state *run) {
    uint64_t wake = run->event.wake_ns;
    return wake < UINT64_MAX &&
           (run->deadline == UINT64_MAX || wake < run->deadline - DEADLINE_SLACK_NS);
}

static PyObject *wait_event(const run_state *run) {
    return event_of(EVENT_WAIT, run->event.wake_ns, PyBool_FromLong(has_timer(run)));
}

/* Of a stepwise run that waits: whether it is to be slept through here. */
static bool sleeps_on(const run_state *run) {
    return run->through && (has_timer(run) || !run->held);
}

/* Drives the run until there is something for the caller. `functions`: host functions are called
 * here, else a call or a question for input is EVENT_GO, and stays in hand. NULL with an exception:
 * the run is over. */
static PyObject *drive_inside(session_object *self, bool functions) {
    run_state *run = &self->run;
    unsigned long ticket = run->ticket;
    bool lost = false;
    for (;;) {
        if (!run->pending && !run_next(self)) return run_fail(self);
        PyObject *out = NULL;
        bool fine = true;
        switch (run->event.kind) {
        case BRU_EVENT_DONE: out = finish(self); return out ? event_of(EVENT_DONE, 0, out) : NULL;
        case BRU_EVENT_OUTPUT:
            host_begin(self, 0, false);
            fine = hand_out(self);
            lost = !host_end(self, ticket);
            break;
        case BRU_EVENT_INPUT:
            if (!functions && !can_feed(run)) return event_of(EVENT_GO, 0, Py_NewRef(Py_None));
            fine = can_feed(run) ? feed(self) : ask_input(self, ticket, &lost);
            break;
        case BRU_EVENT_CALL:
            if (!functions && !is_held(self)) return event_of(EVENT_GO, 0, Py_NewRef(Py_None));
            out = perform(self, ticket, &lost);
            fine = out != NULL;
            if (out && out != Py_None) return out;
            Py_XDECREF(out);
            break;
        case BRU_EVENT_DROP: return dropped(self);
        case BRU_EVENT_WAIT:
            run->pending = false;
            run->waits = true;
            if (run->open > run->held || (run->stepwise && !sleeps_on(run))) return wait_event(run);
            fine = run_sleep(self);
            break;
        }
        if (lost) return event_of(EVENT_LOST, 0, Py_NewRef(Py_None));
        if (!fine) return run_fail(self);
    }
}

static PyObject *drive(session_object *self, bool functions) {
    run_state *run = &self->run;
    unsigned long ticket = run->ticket;
    run->phase = RUN_INSIDE;
    PyObject *event = drive_inside(self, functions);
    if (run->ticket == ticket) run->phase = RUN_OURS;
    return event;
}

/* ---- The start ---------------------------------------------------------------------------- */

/* Names that guest code can use; the first that it cannot is told. */
static bool check_inputs(PyObject *inputs) {
    PyObject *name, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(inputs)) {
        PyErr_Format(PyExc_TypeError, "inputs must be a dict, not %.100s",
                     Py_TYPE(inputs)->tp_name);
        return false;
    }
    PyObject *module = PyImport_ImportModule("keyword");
    PyObject *keywords = module ? PyObject_GetAttrString(module, "kwlist") : NULL;
    bool fine = keywords != NULL;
    while (fine && PyDict_Next(inputs, &at, &name, &value)) {
        fine = false;
        if (!PyUnicode_Check(name)) {
            PyErr_Format(PyExc_TypeError, "names of inputs must be strings, not %R", name);
        } else if (!PyUnicode_IsIdentifier(name) || PySequence_Contains(keywords, name)) {
            PyErr_Format(PyExc_ValueError, "input %R is not a name that Python code can use", name);
        } else if (PyUnicode_GET_LENGTH(name) > 1 && PyUnicode_READ_CHAR(name, 0) == '_' &&
                   PyUnicode_READ_CHAR(name, 1) == '_') {
            PyErr_Format(PyExc_ValueError, "input %R: names that start with __ are Python's own",
                         name);
        } else {
            fine = true;
        }
    }
    Py_XDECREF(keywords);
    Py_XDECREF(module);
    return fine && !PyErr_Occurred();
}

static bool take_inputs(bru_exec_options *o, PyObject *inputs, PyObject **bytes) {
    if (inputs == Py_None || (PyDict_Check(inputs) && PyDict_GET_SIZE(inputs) == 0)) return true;
    if (!check_inputs(inputs)) return false;
    *bytes = encode_as("inputs", inputs);
    if (!*bytes) return false;
    o->inputs = PyBytes_AS_STRING(*bytes);
    o->inputs_len = (size_t)PyBytes_GET_SIZE(*bytes);
    return true;
}

static bool take_stdin(session_object *self, bru_exec_options *o, PyObject *input) {
    Py_ssize_t len;
    if (PyCallable_Check(input)) {
        self->run.input = Py_NewRef(input);
        return true;
    }
    if (input != Py_None && !PyUnicode_Check(input) && !PyBytes_Check(input)) {
        PyErr_Format(PyExc_TypeError, "stdin must be str, bytes, a function or None, not %.100s",
                     Py_TYPE(input)->tp_name);
        return false;
    }
    if (!input_bytes(input, &o->input, &len)) return false;
    o->input_len = (size_t)len;
    if (o->input_len <= INPUT_PART) return true;
    o->input = NULL; /* then the guest is to ask */
    o->input_len = 0;
    return keep_input(self, input);
}

static bool take_listener(session_object *self, int which, PyObject *listener, const char *name) {
    if (listener == Py_None) return true;
    if (!PyCallable_Check(listener)) {
        PyErr_Format(PyExc_TypeError, "%s must be a function, not %.100s", name,
                     Py_TYPE(listener)->tp_name);
        return false;
    }
    self->run.streams[which].listener = Py_NewRef(listener);
    return true;
}

/* Milliseconds, or None for the session's own. */
static bool take_timeout(session_object *self, PyObject *timeout, uint64_t *ns) {
    *ns = self->timeout;
    if (timeout == Py_None) return true;
    double ms = PyFloat_AsDouble(timeout);
    if (ms == -1.0 && PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "timeout_ms must be a number, not %.100s",
                     Py_TYPE(timeout)->tp_name);
        return false;
    }
    if (!(ms > 0)) {
        PyErr_Format(PyExc_ValueError, "timeout_ms must be more than 0, not %R", timeout);
        return false;
    }
    *ns = ms < 9e12 ? (uint64_t)(ms * 1e6) + 1 : BRU_NO_LIMIT;
    return true;
}

static const char *source_of(PyObject *code, Py_ssize_t *len) {
    if (PyUnicode_Check(code)) return PyUnicode_AsUTF8AndSize(code, len);
    PyErr_Format(PyExc_TypeError, "code must be a string, not %.100s", Py_TYPE(code)->tp_name);
    return NULL;
}

/* execute's arguments. */
enum { ARG_CODE, ARG_INPUTS, ARG_STDIN, ARG_STDOUT, ARG_STDERR, ARG_TIMEOUT, ARGS };

static bool begin(session_object *self, PyObject *const *args, Py_ssize_t n) {
    run_state *run = &self->run;
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    bru_error err = { 0 };
    PyObject *inputs = NULL;
    Py_ssize_t len;
    if (n != ARGS) return PyErr_BadArgument(), false;
    bru_session *session = session_idle(self);
    if (!session) return false;
    run->in_call = true; /* other threads may come in while arguments are looked at */
    self->fresh = false;
    const char *source = source_of(args[ARG_CODE], &len);
    bool fine = source && take_timeout(self, args[ARG_TIMEOUT], &o.timeout_ns) &&
                take_inputs(&o, args[ARG_INPUTS], &inputs) &&
                take_stdin(self, &o, args[ARG_STDIN]) &&
                take_listener(self, 0, args[ARG_STDOUT], "on_stdout") &&
                take_listener(self, 1, args[ARG_STDERR], "on_stderr");
    run->streaming = run->streams[0].listener || run->streams[1].listener;
    if (run->streaming) o.flags |= BRU_EXEC_STREAM;
    if (fine && self->capture) fine = (o.capture = PyUnicode_AsUTF8(self->capture)) != NULL;
    uint64_t now = native_clock();
    if (fine && bru_session_start(session, source, (size_t)len, &o, &err)) {
        raise_run(&err);
        fine = false;
    }
    Py_XDECREF(inputs);
    run->calls = 0;
    run->interrupted = false;
    run->host_since = 0;
    run->deadline = o.timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + o.timeout_ns;
    run->in_call = false;
    self->forks = native_forks;
    if (fine)
        run->phase = RUN_OURS;
    else
        run_clear(self);
    return fine;
}

/* ---- Methods ------------------------------------------------------------------------------ */

/* drive()'s event as execute() answers it: a result, or None for EVENT_GO. */
static PyObject *result_or_none(PyObject *event) {
    if (!event) return NULL;
    PyObject *result = Py_NewRef(PyTuple_GET_ITEM(event, 2));
    Py_DECREF(event);
    return result;
}

static PyObject *run_execute(session_object *self, PyObject *const *args, Py_ssize_t n) {
    return begin(self, args, n) ? result_or_none(drive(self, false)) : NULL;
}

static PyObject *run_start(session_object *self, PyObject *const *args, Py_ssize_t n) {
    if (!begin(self, args, n)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *run_start_steps(session_object *self, PyObject *const *args, Py_ssize_t n) {
    if (!begin(self, args, n)) return NULL;
    self->run.stepwise = true;
    self->run.left_at = native_clock();
    Py_RETURN_NONE;
}

bool run_wait_again(session_object *self, PyObject *const *streams, uint64_t left) {
    run_state *run = &self->run;
    uint64_t now = native_clock();
    bru_exec_options o = BRU_EXEC_OPTIONS_INIT;
    PyObject *input = streams[0];
    bool is_function = PyCallable_Check(input) || input == Py_None;
    run->in_call = true;
    bool fine = (is_function ? take_stdin(self, &o, input) : keep_input(self, input)) &&
                take_listener(self, 0, streams[1], "on_stdout") &&
                take_listener(self, 1, streams[2], "on_stderr");
    run->in_call = false;
    if (!fine) return run_clear(self), false;
    run->calls = 0;
    run->streaming = run->interrupted = run->pending = false;
    run->host_since = 0;
    run->deadline = sum(now, left);
    run->left_at = now;
    run->stepwise = run->waits = true;
    run->phase = RUN_OURS;
    self->forks = native_forks;
    return true;
}

static PyObject *run_claim(session_object *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromUnsignedLong(++self->run.ticket);
}

void run_unpause(session_object *self) {
    run_state *run = &self->run;
    uint64_t now = native_clock();
    if (!run->stepwise || run->driven) return;
    (void)!bru_session_extend(self->session, now - run->left_at, NULL);
    run->deadline = sum(run->deadline, now - run->left_at);
    run->left_at = now;
}

/* For who goes on with a stepwise run: keeps others from it until end_drive(), or its end. */
static PyObject *run_begin_drive(session_object *self, PyObject *unused) {
    run_state *run = &self->run;
    if (run->phase != RUN_OURS || run->in_call || !run->stepwise || run->driven) {
        if (session_idle(self))
            native_raise_as("BrumateError", "no run waits in the session: start() one");
        return NULL;
    }
    run_unpause(self);
    run->driven = true;
    return run_claim(self, unused);
}

static PyObject *run_end_drive(session_object *self, PyObject *unused) {
    (void)unused;
    self->run.driven = false;
    self->run.left_at = native_clock();
    Py_RETURN_NONE;
}

/* Whether the run is that ticket's, and nobody is inside. */
static bool holds(const session_object *self, PyObject *ticket) {
    unsigned long t = PyLong_AsUnsignedLong(ticket);
    if (t == (unsigned long)-1 && PyErr_Occurred()) return false;
    return self->run.ticket == t && self->run.phase == RUN_OURS && !self->run.in_call;
}

static PyObject *run_drive(session_object *self, PyObject *ticket) {
    if (holds(self, ticket)) return drive(self, true);
    return PyErr_Occurred() ? NULL : event_of(EVENT_LOST, 0, Py_NewRef(Py_None));
}

/* advance(ticket, through): as drive(), without calling functions, of a stepwise run. */
static PyObject *run_advance(session_object *self, PyObject *const *args, Py_ssize_t n) {
    int through = n == 2 ? PyObject_IsTrue(args[1]) : -1;
    if (n != 2) return PyErr_BadArgument(), NULL;
    if (through < 0) return NULL;
    if (!holds(self, args[0]))
        return PyErr_Occurred() ? NULL : event_of(EVENT_LOST, 0, Py_NewRef(Py_None));
    self->run.through = through;
    return drive(self, false);
}

static PyObject *run_resume(session_object *self, PyObject *ticket) {
    if (holds(self, ticket)) return result_or_none(drive(self, false));
    if (!PyErr_Occurred()) native_raise_as("BrumateError", "the run was taken over");
    return NULL;
}

static bool number_of(PyObject *o, uint32_t *id) {
    unsigned long v = PyLong_AsUnsignedLong(o);
    *id = (uint32_t)v;
    return !(v == (unsigned long)-1 && PyErr_Occurred());
}

/* reply(ticket, id, value) and fail(ticket, id, exception). */
static PyObject *answer_call(session_object *self, PyObject *const *args, Py_ssize_t n,
                             answer (*how)(PyObject *)) {
    unsigned long ticket = self->run.ticket;
    uint32_t id;
    if (n != 3) return PyErr_BadArgument(), NULL;
    if (!number_of(args[1], &id)) return NULL;
    if (!holds(self, args[0])) return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    host_begin(self, id, false); /* making an answer may run code of the host's */
    answer a = how(args[2]);
    if (!host_end(self, ticket)) {
        Py_XDECREF(a.bytes);
        Py_RETURN_FALSE;
    }
    open_remove(&self->run, id);
    bool fine = answer_give(self, id, a);
    self->run.phase = RUN_OURS;
    return fine ? Py_NewRef(Py_True) : NULL;
}

static PyObject *run_reply(session_object *self, PyObject *const *args, Py_ssize_t n) {
    return answer_call(self, args, n, answer_of);
}

static PyObject *run_fail_call(session_object *self, PyObject *const *args, Py_ssize_t n) {
    return answer_call(self, args, n, answer_of_exception);
}

static PyObject *run_give(session_object *self, PyObject *const *args, Py_ssize_t n) {
    if (n != 2) return PyErr_BadArgument(), NULL;
    if (!holds(self, args[0])) return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    return answer_input(self, args[1]) ? Py_NewRef(Py_True) : NULL;
}

/* When the host's code has had its time: the function that is called, or else the event loop, which
 * should have told of a call or of the deadline by itself. */
static uint64_t due(const session_object *self) {
    const run_state *run = &self->run;
    bool in_host = run->phase == RUN_HOST;
    uint64_t since = in_host && run->host_since ? run->host_since : open_since(run);
    uint64_t call = sum(since, self->call_timeout), end = run->deadline;
    if (call < end) end = call;
    return in_host ? end : sum(end, LOOP_GRACE_NS);
}

/* A call that has not begun yet is not due before its time from now on. */
static PyObject *run_patience(session_object *self, PyObject *unused) {
    (void)unused;
    uint64_t now = native_clock(), until = due(self), next = sum(now, self->call_timeout);
    if (next < until) until = next;
    if (until == UINT64_MAX) return PyFloat_FromDouble(-1);
    return PyFloat_FromDouble(until > now ? (double)(until - now) / 1e9 : 0.002);
}

/* Takes the run from the ticket if the host's code has had its time. */
static PyObject *run_overdue(session_object *self, PyObject *ticket) {
    static const char late[] =
        "TimeoutError: the host function took longer than callback_timeout_ms";
    static const char stopped[] = "the run was stopped";
    run_state *run = &self->run;
    unsigned long t = PyLong_AsUnsignedLong(ticket);
    if (t == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    if (run->ticket != t || (run->phase != RUN_HOST && run->phase != RUN_OURS)) Py_RETURN_FALSE;
    bool in_host = run->phase == RUN_HOST, is_due = native_clock() >= due(self);
    if (!is_due && !(in_host && run->interrupted)) Py_RETURN_FALSE;
    bool in_call = in_host && run->host_since;
    run->ticket++;
    run->phase = RUN_OURS;
    run->host_since = 0;
    run->interrupted = false;
    const char *text = is_due ? late : stopped;
    if (in_call && !answer_text(self, run->host_call, text)) return run_fail(self);
    return open_refuse(self, text) ? Py_NewRef(Py_True) : run_fail(self);
}

/* Ends the run if that ticket has it and nobody is inside the guest; else stops the guest. */
static PyObject *run_abandon_(session_object *self, PyObject *ticket) {
    unsigned long t = PyLong_AsUnsignedLong(ticket);
    if (t == (unsigned long)-1 && PyErr_Occurred()) return NULL;
    if (self->run.ticket != t || self->run.phase == RUN_NONE) Py_RETURN_TRUE;
    if (self->run.phase == RUN_GUEST || self->run.phase == RUN_INSIDE) {
        bru_session_interrupt(self->session, BRU_INTERRUPT_SOFT);
        native_wake(&self->wake);
        Py_RETURN_FALSE;
    }
    run_abandon(self);
    Py_RETURN_TRUE;
}

/* Handles the event that a worker brought, as far as that needs no event loop. */
static PyObject *run_take(session_object *self, PyObject *unused) {
    (void)unused;
    run_state *run = &self->run;
    bru_event *e = &run->event;
    host_call c;
    bool fine = true;
    if (run->phase != RUN_OURS) return PyErr_BadArgument(), NULL;
    if (!run->pending) { /* the library could not go on */
        run_clear(self);
        return raise_run(&self->job_error);
    }
    switch (e->kind) {
    case BRU_EVENT_DONE: {
        PyObject *result = finish(self);
        return result ? event_of(EVENT_DONE, 0, result) : NULL;
    }
    case BRU_EVENT_OUTPUT: fine = hand_out(self); break;
    case BRU_EVENT_INPUT:
        run->pending = false;
        if (!can_feed(run)) return event_of(EVENT_INPUT, e->wake_ns, Py_NewRef(run->input));
        fine = feed(self);
        break;
    case BRU_EVENT_CALL: {
        uint32_t id = e->id;
        int begun = begin_call(self, &c);
        if (begun > 0) {
            if (!c.fn) {
                PyObject *event = hold(self, id, event_name(self), &c);
                return event ? event : run_fail(self);
            }
            if (!open_add(run, id, native_clock())) {
                host_call_clear(&c);
                return run_fail(self);
            }
            return Py_BuildValue("iINNN", c.is_async ? EVENT_CALL_ASYNC : EVENT_CALL, id, c.fn,
                                 c.args, c.kwargs);
        }
        fine = begun == 0;
        break;
    }
    case BRU_EVENT_DROP: return dropped(self);
    case BRU_EVENT_WAIT:
        run->pending = false;
        run->waits = true;
        return wait_event(run);
    }
    return fine ? event_of(EVENT_GO, 0, Py_NewRef(Py_None)) : run_fail(self);
}

#define FAST(name, function, doc)                                                                  \
    { name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, doc }
PyMethodDef run_methods[] = {
    FAST("execute", run_execute,
         "execute(code, inputs, stdin, on_stdout, on_stderr, timeout_ms): runs code on this "
         "thread.\n"
         "None: it calls host functions; drive it on by claim() and drive()."),
    FAST("start_steps", run_start_steps,
         "As start(), of a run that is left where it waits; calls of functions without an "
         "implementation are told as events."),
    FAST("advance", run_advance,
         "advance(ticket, through): runs such a run on, up to a call of a function, its end, or "
         "where it waits; `through`: but for timers."),
    FAST("start", run_start, "As execute(), without running yet."),
    { "begin_drive", (PyCFunction)run_begin_drive, METH_NOARGS,
      "A ticket for a run that waits; others are kept from it until end_drive() or its end." },
    { "end_drive", (PyCFunction)run_end_drive, METH_NOARGS, "Leaves it where it waits." },
    { "claim", (PyCFunction)run_claim, METH_NOARGS,
      "A new ticket for the run; others lose theirs." },
    { "drive", (PyCFunction)run_drive, METH_O,
      "drive(ticket): runs on, calling host functions, up to an event for the caller." },
    { "resume", (PyCFunction)run_resume, METH_O,
      "resume(ticket): runs on as execute() does, and answers as it does." },
    FAST("reply", run_reply, "reply(ticket, id, value): False if the ticket is void."),
    FAST("fail", run_fail_call, "fail(ticket, id, exception): the same for a call that failed."),
    FAST("give", run_give, "give(ticket, data): answers an input event."),
    { "patience", (PyCFunction)run_patience, METH_NOARGS,
      "Seconds after which to ask overdue(); -1: never." },
    { "overdue", (PyCFunction)run_overdue, METH_O,
      "overdue(ticket): takes the run away from host code that has had its time, if so." },
    { "abandon", (PyCFunction)run_abandon_, METH_O,
      "abandon(ticket): ends the run. False: it is being stopped, wait for who drives it." },
    { "take", (PyCFunction)run_take, METH_NOARGS, "The event that a worker brought." },
    { NULL, NULL, 0, NULL },
};
