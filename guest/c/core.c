/* See core.h. The one file that includes CPython's internal headers. */
#define Py_BUILD_CORE 1
#include "core.h"

#include "internal/pycore_ceval.h"
#include "internal/pycore_code.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_moduleobject.h"
#include "internal/pycore_object.h"
#include "internal/pycore_obmalloc.h"
#include "internal/pycore_runtime.h"
#include "internal/pycore_signal.h"

#include <string.h>

/* Checked against: 3.13. To add a version, read there: _Py_HandlePending and what it does with
 * async_exc (ceval_gil.c), _PyErr_CheckSignalsTstate (signalmodule.c), update_refs on immortal
 * objects (gc.c), _Py_SetImmortalUntracked (object.c), the fields of code objects, RandomObject. */
#if PY_VERSION_HEX < 0x030d0000 || PY_VERSION_HEX >= 0x030e0000
#error "core.c: unchecked CPython version; see the comment above"
#endif
#ifdef Py_GIL_DISABLED
#error "core.c: needs the build with a GIL"
#endif

/* A signal that neither CPython nor wasi-libc's emulation ever raises carries the stop. */
enum { TRIP_SIGNAL = Py_NSIG - 1 };

void core_stop_handle(PyObject *on_trip) {
    Py_XSETREF(_PyRuntime.signals.handlers[TRIP_SIGNAL].func, Py_NewRef(on_trip));
}

void core_stop_publish(agent_control *control) {
    PyThreadState *state = PyThreadState_Get();
    struct _signals_runtime_state *signals = &_PyRuntime.signals;
    control->eval_breaker = (uint32_t)(uintptr_t)&state->eval_breaker;
    control->async_bit = _PY_ASYNC_EXCEPTION_BIT;
    control->async_exc = (uint32_t)(uintptr_t)&state->async_exc;
    control->trip_one = (uint32_t)(uintptr_t)&signals->handlers[TRIP_SIGNAL].tripped;
    control->trip_any = (uint32_t)(uintptr_t)&signals->is_tripped;
}

PyObject *core_stop_take(void) {
    PyThreadState *state = PyThreadState_Get();
    PyObject *type = state->async_exc;
    if (!type && !_PyRuntime.signals.handlers[TRIP_SIGNAL].tripped) return NULL;
    /* The type is immortal: no reference to give back. */
    state->async_exc = NULL;
    _Py_unset_eval_breaker_bit(state, _PY_ASYNC_EXCEPTION_BIT);
    _PyRuntime.signals.handlers[TRIP_SIGNAL].tripped = 0;
    return type;
}

/* Immortal objects whose own references are still to be followed. */
typedef struct worklist {
    PyObject **items;
    size_t len, room;
    int failed;
} worklist;

static int mark(PyObject *op, void *arg) {
    worklist *todo = arg;
    if (!op || _Py_IsImmortal(op)) return 0;
    if (todo->len == todo->room) {
        size_t room = todo->room ? 2 * todo->room : 1u << 16;
        PyObject **items = realloc(todo->items, room * sizeof(PyObject *));
        if (!items) {
            todo->failed = 1; /* stays mortal: correct, only slower */
            return 0;
        }
        todo->items = items;
        todo->room = room;
    }
    _Py_SetImmortalUntracked(op);
    todo->items[todo->len++] = op;
    return 0;
}

/* Code objects have no tp_traverse. */
static void mark_code(PyCodeObject *code, worklist *todo) {
    mark(code->co_consts, todo);
    mark(code->co_names, todo);
    mark(code->co_exceptiontable, todo);
    mark(code->co_localsplusnames, todo);
    mark(code->co_localspluskinds, todo);
    mark(code->co_filename, todo);
    mark(code->co_name, todo);
    mark(code->co_qualname, todo);
    mark(code->co_linetable, todo);
}

static void follow(worklist *todo) {
    while (todo->len) {
        PyObject *op = todo->items[--todo->len];
        mark((PyObject *)Py_TYPE(op), todo);
        if (PyCode_Check(op))
            mark_code((PyCodeObject *)op, todo);
        else if (PyObject_IS_GC(op) && Py_TYPE(op)->tp_traverse)
            Py_TYPE(op)->tp_traverse(op, mark, todo);
    }
}

/* Static types are immortal from the start, what they hold is not. */
static int root(PyObject *op, void *arg) {
    mark(op, arg);
    if (_Py_IsImmortal(op) && PyObject_IS_GC(op) && Py_TYPE(op)->tp_traverse)
        Py_TYPE(op)->tp_traverse(op, mark, arg);
    return 1;
}

void core_immortalise(void) {
    worklist todo = { NULL, 0, 0, 0 };
    PyUnstable_GC_VisitObjects(root, &todo);
    follow(&todo);
    /* Interned strings that only C code or static types hold. */
    PyObject *interned = _Py_INTERP_CACHED_OBJECT(PyInterpreterState_Get(), interned_strings);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (interned && PyDict_Next(interned, &at, &key, &value)) mark(key, &todo);
    free(todo.items);
}

#ifdef WITH_PYMALLOC

/* Whether `block`, just allocated, is the first one of a pool that was free before. */
static int pool_was_free(const void *block) {
    const struct pool_header *pool =
        (const struct pool_header *)((uintptr_t)block & ~(uintptr_t)POOL_SIZE_MASK);
    return pool->ref.count == 1;
}

void core_pools_pack(void) {
    struct _obmalloc_mgmt *mgmt = &PyInterpreterState_Get()->obmalloc->mgmt;
    /* Free pools first, until a new arena is begun; then, per size class, free blocks. */
    size_t arenas = mgmt->narenas_currently_allocated;
    while (mgmt->narenas_currently_allocated == arenas) {
        if (!PyObject_Malloc(SMALL_REQUEST_THRESHOLD)) return;
    }
    for (size_t size = ALIGNMENT; size <= SMALL_REQUEST_THRESHOLD; size += ALIGNMENT) {
        void *block = PyObject_Malloc(size);
        while (block && !pool_was_free(block)) block = PyObject_Malloc(size);
        PyObject_Free(block);
    }
}

#else

void core_pools_pack(void) {}

#endif

/* _randommodule.c's RandomObject: a Mersenne twister's state. */
enum { TWISTER_WORDS = 624 };
typedef struct twister {
    PyObject_HEAD int index;
    uint32_t state[TWISTER_WORDS];
} twister;

static int is_twister(PyObject *op) {
    PyTypeObject *type = Py_TYPE(op);
    while (type && strcmp(type->tp_name, "_random.Random") != 0) type = type->tp_base;
    return type && type->tp_basicsize == sizeof(twister);
}

int core_random_stir(PyObject *random, const unsigned char entropy[16]) {
    if (!is_twister(random)) return -1;
    uint64_t a, b;
    memcpy(&a, entropy, sizeof a);
    memcpy(&b, entropy + sizeof a, sizeof b);
    twister *t = (twister *)random;
    for (int i = 0; i < TWISTER_WORDS; i++) {
        /* splitmix64, its counter stepped by an odd number that is part of the entropy */
        uint64_t x = a += b | 1;
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        t->state[i] ^= (uint32_t)((x ^ (x >> 31)) >> 16);
    }
    t->index = TWISTER_WORDS;
    return 0;
}

void core_module_clear(PyObject *module) {
    _PyModule_Clear(module);
}
