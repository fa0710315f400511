/* The writer of value.h; docs/design/values.md has the tags. It walks an explicit stack of open containers,
 * the first few levels of it inside the walker, so that small values allocate nothing else. */
#include "value_parts.h"

enum {
    INLINE_BYTES = 512,
    HEAD_MAX = 9,
    SLACK = 32,     /* that a write may reserve beyond `max` before it is known to be too much */
    PATH_LEVELS = 8 /* shown at each end of a long path */
};

/* A container that is being written. */
typedef struct open {
    enum kind kind;
    bool in_key;       /* part of a dict's key or a set's element */
    bool at_key;       /* DICT: the key is being written, `value` waits */
    uint8_t key_depth;
    Py_ssize_t i, n;   /* items begun, items announced */
    Py_ssize_t pos;    /* DICT: of PyDict_Next */
    PyObject *object;
    PyObject *key, *value; /* DICT: the current pair; sets: `value` is the iterator */
} open;

typedef struct writer {
    uint8_t *p;           /* the bytes: inlined, or of `heap` */
    size_t len, cap, max; /* len <= cap <= max + SLACK */
    PyObject *heap;       /* a bytes object */
    open *stack;
    int depth, room;
    uint32_t items;
    uint64_t fraction_work;
    PyObject *class[CLASSES]; /* looked up; None: not there */
    open first[INLINE_DEPTH];
    uint8_t inlined[INLINE_BYTES];
} writer;

static PyObject *path_step(const open *o) {
    if (o->kind == LIST || o->kind == TUPLE) return PyUnicode_FromFormat("[%zd]", o->i - 1);
    if (o->kind != DICT) return PyUnicode_FromString(".item");
    if (o->at_key) return PyUnicode_FromString(".key");
    if (PyUnicode_CheckExact(o->key)) return PyUnicode_FromFormat("[%.60R]", o->key);
    if (PyBool_Check(o->key) || o->key == Py_None) return PyUnicode_FromFormat("[%R]", o->key);
    if (PyLong_CheckExact(o->key)) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(o->key, &overflow);
        if (!overflow) return PyUnicode_FromFormat("[%lld]", n);
    }
    return PyUnicode_FromFormat("[<%.60s>]", Py_TYPE(o->key)->tp_name);
}

/* Where the walk stands: "value['rows'][3].key". */
static PyObject *path_of(const writer *w) {
    PyObject *path = PyUnicode_FromString("value");
    for (int i = 0; path && i < w->depth; i++) {
        PyObject *step;
        if (w->depth > 2 * PATH_LEVELS && i == PATH_LEVELS) {
            step = PyUnicode_FromString(" ... ");
            i = w->depth - PATH_LEVELS - 1;
        } else {
            step = path_step(&w->stack[i]);
        }
        if (!step) {
            Py_DECREF(path);
            return NULL;
        }
        PyUnicode_AppendAndDel(&path, step);
    }
    return path;
}

/* Raises "<path>: <text>". Answers -1. */
static int refuse(const writer *w, PyObject *exception, const char *format, ...) {
    PyObject *path = path_of(w);
    if (!path) return -1;
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text) PyErr_Format(exception, "%U: %U", path, text);
    Py_XDECREF(text);
    Py_DECREF(path);
    return -1;
}

static int refuse_type(const writer *w, PyObject *v) {
    return refuse(w, PyExc_TypeError, "a '%.100s' cannot cross between guest and host", Py_TYPE(v)->tp_name);
}

/* A limit was met. What contains itself meets one sooner or later, and should hear of that instead. */
static int refuse_limit(const writer *w, const char *format, size_t limit) {
    for (int i = 1; i < w->depth; i++)
        for (int k = 0; k < i; k++)
            if (w->stack[i].object == w->stack[k].object) {
                writer at = { .stack = w->stack, .depth = k };
                return refuse(&at, PyExc_ValueError, "the %.100s contains itself", Py_TYPE(w->stack[i].object)->tp_name);
            }
    PyErr_Format(PyExc_ValueError, format, limit);
    return -1;
}

static int too_large(const writer *w) {
    return refuse_limit(w, "value: larger than %zu bytes", w->max);
}

/* Makes room for `n` more bytes. */
static int reserve(writer *w, size_t n) {
    if (n <= w->cap - w->len) return 0;
    if (n > w->max + SLACK - w->len) return too_large(w);
    size_t cap = w->len + n;
    if (cap < w->cap * 2) cap = w->cap * 2;
    if (cap > w->max + SLACK) cap = w->max + SLACK;
    if (w->heap) {
        if (_PyBytes_Resize(&w->heap, (Py_ssize_t)cap) < 0) return -1;
    } else {
        w->heap = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)cap);
        if (!w->heap) return -1;
        memcpy(PyBytes_AS_STRING(w->heap), w->p, w->len);
    }
    w->p = (uint8_t *)PyBytes_AS_STRING(w->heap);
    w->cap = cap;
    return 0;
}

/* Appends a head to what was reserved. */
static inline void add_head(writer *w, enum major major, uint64_t n) {
    uint8_t *p = w->p + w->len;
    int size = n < 24 ? 0 : n <= 0xff ? 1 : n <= 0xffff ? 2 : n <= 0xffffffff ? 4 : 8;
    if (size == 0) {
        p[0] = (uint8_t)(major << 5 | (unsigned)n);
    } else {
        p[0] = (uint8_t)(major << 5 | (size == 1 ? 24u : size == 2 ? 25u : size == 4 ? 26u : 27u));
        store(p + 1, n, size);
    }
    w->len += 1 + (size_t)size;
}

static inline int put_head(writer *w, enum major major, uint64_t n) {
    if (reserve(w, HEAD_MAX) < 0) return -1;
    add_head(w, major, n);
    return 0;
}

static int put_byte(writer *w, uint8_t byte) {
    if (reserve(w, 1) < 0) return -1;
    w->p[w->len++] = byte;
    return 0;
}

static int put_bytes(writer *w, enum major major, const void *bytes, size_t n) {
    if (n > w->max) return too_large(w);
    if (reserve(w, HEAD_MAX + n) < 0) return -1;
    add_head(w, major, n);
    memcpy(w->p + w->len, bytes, n);
    w->len += n;
    return 0;
}

static int put_tagged(writer *w, uint64_t tag, enum major major, const void *bytes, size_t n) {
    if (put_head(w, TAG, tag) < 0) return -1;
    return put_bytes(w, major, bytes, n);
}

static int put_double(writer *w, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (reserve(w, 9) < 0) return -1;
    w->p[w->len] = DOUBLE_BYTE;
    store(w->p + w->len + 1, bits, 8);
    w->len += 9;
    return 0;
}

/* -1-n is written as n, which is the complement of its bytes. */
static int put_big(writer *w, PyObject *v, bool negative) {
    Py_ssize_t size = long_size(v);
    if (size < 0) return -1;
    if ((size_t)size > w->max) return too_large(w);
    enum { BEFORE = 1 + HEAD_MAX };
    if (reserve(w, BEFORE + (size_t)size) < 0) return -1;
    uint8_t *p = w->p + w->len + BEFORE;
    if (long_store(v, p, size) < 0) return -1;
    if (negative)
        for (Py_ssize_t i = 0; i < size; i++) p[i] = (uint8_t)~p[i];
    while (size > 8 && *p == 0) p++, size--;
    if (size <= 8) {
        add_head(w, negative ? NEGATIVE : UINT, load(p, (int)size));
        return 0;
    }
    add_head(w, TAG, negative ? TAG_BIG_NEGATIVE : TAG_BIG);
    add_head(w, BYTES, (uint64_t)size);
    memmove(w->p + w->len, p, (size_t)size);
    w->len += (size_t)size;
    return 0;
}

static inline int put_long(writer *w, PyObject *v) {
    int overflow;
    long long n = PyLong_AsLongLongAndOverflow(v, &overflow);
    if (overflow) return put_big(w, v, overflow < 0);
    return n >= 0 ? put_head(w, UINT, (uint64_t)n) : put_head(w, NEGATIVE, ~(uint64_t)n);
}

static bool is_surrogate(Py_UCS4 c) {
    return c >= 0xd800 && c <= 0xdfff;
}

static uint8_t *store_utf8(uint8_t *p, Py_UCS4 c) {
    if (c < 0x80) {
        *p++ = (uint8_t)c;
        return p;
    }
    if (c < 0x800) {
        *p++ = (uint8_t)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *p++ = (uint8_t)(0xe0 | c >> 12);
        } else {
            *p++ = (uint8_t)(0xf0 | c >> 18);
            *p++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        }
        *p++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    }
    *p++ = (uint8_t)(0x80 | (c & 0x3f));
    return p;
}

/* Not by CPython's encoder, which would leave a second copy in the string, or know no surrogates. */
static int put_wide_text(writer *w, PyObject *v, Py_ssize_t len) {
    int kind = PyUnicode_KIND(v);
    const void *data = PyUnicode_DATA(v);
    bool surrogates = false;
    uint64_t size = 0;
    for (Py_ssize_t i = 0; i < len; i++) {
        Py_UCS4 c = PyUnicode_READ(kind, data, i);
        size += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        surrogates |= is_surrogate(c);
    }
    if (size > w->max) return too_large(w);
    if (reserve(w, 2 * HEAD_MAX + (size_t)size) < 0) return -1;
    if (surrogates) add_head(w, TAG, TAG_SURROGATES);
    add_head(w, surrogates ? BYTES : TEXT, size);
    uint8_t *p = w->p + w->len;
    for (Py_ssize_t i = 0; i < len; i++) p = store_utf8(p, PyUnicode_READ(kind, data, i));
    w->len += (size_t)size;
    return 0;
}

static inline int put_text(writer *w, PyObject *v) {
#if PY_VERSION_HEX < 0x030c0000
    if (PyUnicode_READY(v) < 0) return -1;
#endif
    Py_ssize_t len = PyUnicode_GET_LENGTH(v);
    if (PyUnicode_IS_ASCII(v)) return put_bytes(w, TEXT, PyUnicode_DATA(v), (size_t)len);
    if ((size_t)len > w->max) return too_large(w);
    return put_wide_text(w, v, len);
}

static int put_memoryview(writer *w, PyObject *v) {
    Py_buffer view;
    if (PyObject_GetBuffer(v, &view, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
        return refuse(w, PyExc_ValueError, "the memoryview was released");
    }
    int rc = -1;
    size_t len = (size_t)view.len;
    if (len > w->max) {
        too_large(w);
    } else if (reserve(w, HEAD_MAX + len) == 0) {
        add_head(w, BYTES, len);
        rc = PyBuffer_ToContiguous(w->p + w->len, &view, view.len, 'C');
        if (rc == 0) w->len += len;
    }
    PyBuffer_Release(&view);
    return rc;
}

/* Forgets the exception that is set, if any, unless it is a MemoryError: -1. */
static int forgive(void) {
    if (!PyErr_Occurred()) return 0;
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) return -1;
    PyErr_Clear();
    return 0;
}

/* Borrowed from sys.modules, of which nothing is imported. NULL, perhaps with an exception, if it is not there. */
static PyObject *loaded_module(const char *name) {
    PyObject *modules = PyImport_GetModuleDict(), *key = PyUnicode_FromString(name), *module = NULL;
    if (key && modules && PyDict_Check(modules)) module = PyDict_GetItemWithError(modules, key);
    Py_XDECREF(key);
    return module;
}

/* Whether `v` is exactly of that class, as sys.modules has it. -1 with MemoryError. */
static int is_of(writer *w, PyObject *v, enum class c) {
    if (!w->class[c]) {
        PyObject *module = loaded_module(classes[c].module);
        PyObject *found = module ? attribute(module, classes[c].name) : NULL;
        if (!found && forgive() < 0) return -1;
        w->class[c] = found ? found : Py_NewRef(Py_None);
    }
    return (PyObject *)Py_TYPE(v) == w->class[c];
}

static int put_decimal(writer *w, PyObject *v) {
    PyObject *text = PyObject_Str(v);
    if (!text) return -1;
    int rc = -1;
    if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_ASCII(text))
        refuse_type(w, v);
    else
        rc = put_tagged(w, TAG_DECIMAL, TEXT, PyUnicode_DATA(text), (size_t)PyUnicode_GET_LENGTH(text));
    Py_DECREF(text);
    return rc;
}

static int put_fraction(writer *w, PyObject *v) {
    PyObject *above = attribute(v, "_numerator");
    PyObject *below = above ? attribute(v, "_denominator") : NULL;
    int rc = -1;
    if (!below) goto out;
    if (!PyLong_CheckExact(above) || !PyLong_CheckExact(below)) {
        refuse_type(w, v);
        goto out;
    }
    if (put_head(w, TAG, TAG_FRACTION) < 0 || put_head(w, ARRAY, 2) < 0) goto out;
    size_t before = w->len;
    if (put_long(w, above) < 0 || put_long(w, below) < 0) goto out;
    if (!fraction_affordable(&w->fraction_work, w->len - before))
        refuse(w, PyExc_ValueError, "fractions with too many digits");
    else
        rc = 0;
out:
    Py_XDECREF(above);
    Py_XDECREF(below);
    return rc;
}

static int put_uuid(writer *w, PyObject *v) {
    PyObject *number = attribute(v, "int");
    if (!number) return -1;
    uint8_t bytes[17]; /* a byte more, for the sign */
    int rc = -1;
    Py_ssize_t size = PyLong_CheckExact(number) ? long_size(number) : -1;
    if (size >= 0 && size <= (Py_ssize_t)sizeof bytes && long_store(number, bytes, sizeof bytes) == 0 && bytes[0] == 0)
        rc = put_tagged(w, TAG_UUID, BYTES, bytes + 1, 16);
    else if (!PyErr_Occurred())
        refuse_type(w, v);
    Py_DECREF(number);
    return rc;
}

/* The offset from UTC of a time or datetime, stored as OFFSET_LEN bytes; how many were (0: it is
 * naive). Only time zones of the standard library are asked: others are the value's own code. */
static int store_offset(writer *w, PyObject *v, PyObject *zone, uint8_t *out) {
    if (zone == Py_None) return 0;
    if (Py_TYPE(zone) != Py_TYPE(PyDateTimeAPI->TimeZone_UTC)) {
        int known = is_of(w, zone, ZONE);
        if (known < 0) return -1;
        if (!known)
            return refuse(w, PyExc_TypeError, "a '%.100s' with a time zone of type '%.100s' cannot cross between guest and host",
                          Py_TYPE(v)->tp_name, Py_TYPE(zone)->tp_name);
    }
    PyObject *offset = call_method(v, "utcoffset");
    if (!offset) return -1;
    int n = 0;
    if (PyDelta_Check(offset)) {
        int64_t s = (int64_t)PyDateTime_DELTA_GET_DAYS(offset) * 86400 + PyDateTime_DELTA_GET_SECONDS(offset);
        store(out, (uint64_t)(s * US_PER_S + PyDateTime_DELTA_GET_MICROSECONDS(offset)), OFFSET_LEN);
        n = OFFSET_LEN;
    }
    Py_DECREF(offset);
    return n;
}

static int put_datetime(writer *w, PyObject *v) {
    uint8_t b[DATETIME_LEN + OFFSET_LEN];
    store(b, PyDateTime_GET_YEAR(v), 2);
    b[2] = PyDateTime_GET_MONTH(v);
    b[3] = PyDateTime_GET_DAY(v);
    b[4] = PyDateTime_DATE_GET_HOUR(v);
    b[5] = PyDateTime_DATE_GET_MINUTE(v);
    b[6] = PyDateTime_DATE_GET_SECOND(v);
    store(b + 7, (uint64_t)PyDateTime_DATE_GET_MICROSECOND(v), 3);
    b[10] = PyDateTime_DATE_GET_FOLD(v);
    int offset = store_offset(w, v, PyDateTime_DATE_GET_TZINFO(v), b + DATETIME_LEN);
    return offset < 0 ? -1 : put_tagged(w, TAG_DATETIME, BYTES, b, (size_t)(DATETIME_LEN + offset));
}

static int put_time(writer *w, PyObject *v) {
    uint8_t b[TIME_LEN + OFFSET_LEN];
    b[0] = PyDateTime_TIME_GET_HOUR(v);
    b[1] = PyDateTime_TIME_GET_MINUTE(v);
    b[2] = PyDateTime_TIME_GET_SECOND(v);
    store(b + 3, (uint64_t)PyDateTime_TIME_GET_MICROSECOND(v), 3);
    b[6] = PyDateTime_TIME_GET_FOLD(v);
    int offset = store_offset(w, v, PyDateTime_TIME_GET_TZINFO(v), b + TIME_LEN);
    return offset < 0 ? -1 : put_tagged(w, TAG_TIME, BYTES, b, (size_t)(TIME_LEN + offset));
}

static int put_date(writer *w, PyObject *v) {
    char text[32];
    int n = snprintf(text, sizeof text, "%04d-%02d-%02d", PyDateTime_GET_YEAR(v), PyDateTime_GET_MONTH(v), PyDateTime_GET_DAY(v));
    return put_tagged(w, TAG_DATE, TEXT, text, (size_t)n);
}

static int put_timedelta(writer *w, PyObject *v) {
    uint8_t b[TIMEDELTA_LEN];
    store(b, (uint64_t)(int64_t)PyDateTime_DELTA_GET_DAYS(v), 4);
    store(b + 4, (uint64_t)PyDateTime_DELTA_GET_SECONDS(v), 4);
    store(b + 8, (uint64_t)PyDateTime_DELTA_GET_MICROSECONDS(v), 4);
    return put_tagged(w, TAG_TIMEDELTA, BYTES, b, sizeof b);
}

/* Whether there are datetimes at all; then their API is at hand. -1 with MemoryError. */
static int datetime_loaded(void) {
    if (PyDateTimeAPI) return 1;
    if (loaded_module("datetime")) PyDateTime_IMPORT;
    return PyDateTimeAPI ? 1 : forgive();
}

/* Types beyond the basic ones. */
static int put_rare(writer *w, PyObject *v) {
    int known = datetime_loaded();
    if (known < 0) return -1;
    if (known) {
        if (PyDateTime_CheckExact(v)) return put_datetime(w, v);
        if (PyDate_CheckExact(v)) return put_date(w, v);
        if (PyTime_CheckExact(v)) return put_time(w, v);
        if (PyDelta_CheckExact(v)) return put_timedelta(w, v);
    }
    static int (*const put[])(writer *, PyObject *) = { [DECIMAL] = put_decimal, [FRACTION] = put_fraction, [UUID] = put_uuid };
    for (int c = DECIMAL; c <= UUID; c++) {
        known = is_of(w, v, (enum class)c);
        if (known < 0) return -1;
        if (known) return put[c](w, v);
    }
    return refuse_type(w, v);
}

static int grow_stack(writer *w) {
    int room = w->room * 4;
    open *stack = PyMem_Malloc((size_t)room * sizeof *stack);
    if (!stack) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(stack, w->stack, (size_t)w->depth * sizeof *stack);
    if (w->stack != w->first) PyMem_Free(w->stack);
    w->stack = stack;
    w->room = room;
    return 0;
}

static int put_container_head(writer *w, enum kind kind, uint64_t n) {
    if (reserve(w, 2 * HEAD_MAX) < 0) return -1;
    if (kind == TUPLE) add_head(w, TAG, TAG_TUPLE);
    if (kind == SET) add_head(w, TAG, TAG_SET);
    if (kind == FROZENSET) add_head(w, TAG, TAG_FROZENSET);
    add_head(w, kind == DICT ? MAP : ARRAY, n);
    return 0;
}

/* Writes the head of a container; its items follow in the loop. */
static int begin(writer *w, PyObject *v, enum kind kind, Py_ssize_t n) {
    const open *in = w->depth > 0 ? &w->stack[w->depth - 1] : NULL;
    bool in_key = in && (in->in_key || in->at_key || in->kind == SET || in->kind == FROZENSET);
    int key_depth = in_key ? in->key_depth + 1 : 0;
    if (in_key && kind != TUPLE && kind != FROZENSET)
        return refuse(w, PyExc_TypeError, "a '%.100s' in a key cannot cross between guest and host", Py_TYPE(v)->tp_name);
    if (key_depth > KEY_DEPTH_MAX) return refuse(w, PyExc_ValueError, "a key deeper than %d", KEY_DEPTH_MAX);
    if (w->depth == VALUE_DEPTH_MAX) return refuse_limit(w, "value: deeper than %zu containers", VALUE_DEPTH_MAX);
    if (put_container_head(w, kind, (uint64_t)n) < 0) return -1;
    if (kind == SET || kind == FROZENSET) w->items += SET_ITEMS - 1;
    if (n == 0) return 0;
    if (w->depth == w->room && grow_stack(w) < 0) return -1;
    open *o = &w->stack[w->depth++];
    *o = (open){ .kind = kind, .in_key = in_key, .key_depth = (uint8_t)key_depth, .n = n, .object = Py_NewRef(v) };
    if (kind == SET || kind == FROZENSET) o->value = PyObject_GetIter(v);
    return (kind == SET || kind == FROZENSET) && !o->value ? -1 : 0;
}

static int put_slow(writer *w, PyObject *v) {
    if (PyTuple_Check(v)) return begin(w, v, TUPLE, PyTuple_GET_SIZE(v));
    if (PyBytes_Check(v)) return put_bytes(w, BYTES, PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v));
    if (PyAnySet_CheckExact(v)) return begin(w, v, PySet_CheckExact(v) ? SET : FROZENSET, PySet_GET_SIZE(v));
    if (PyByteArray_CheckExact(v)) return put_bytes(w, BYTES, PyByteArray_AS_STRING(v), (size_t)PyByteArray_GET_SIZE(v));
    if (PyMemoryView_Check(v)) return put_memoryview(w, v);
    if (PyComplex_CheckExact(v)) {
        Py_complex c = ((PyComplexObject *)v)->cval;
        if (put_head(w, TAG, TAG_COMPLEX) < 0 || put_head(w, ARRAY, 2) < 0 || put_double(w, c.real) < 0) return -1;
        return put_double(w, c.imag);
    }
    Py_INCREF(v); /* what follows allocates, and a collection may run anything */
    int rc = put_rare(w, v);
    Py_DECREF(v);
    return rc;
}

static inline int put(writer *w, PyObject *v) {
    int rc;
    if (PyUnicode_Check(v)) rc = put_text(w, v);
    else if (v == Py_None) rc = put_byte(w, NULL_BYTE);
    else if (v == Py_True || v == Py_False) rc = put_byte(w, v == Py_True ? TRUE_BYTE : FALSE_BYTE);
    else if (PyLong_Check(v)) rc = put_long(w, v);
    else if (PyFloat_Check(v)) rc = put_double(w, PyFloat_AS_DOUBLE(v));
    else if (PyDict_Check(v)) rc = begin(w, v, DICT, PyDict_GET_SIZE(v));
    else if (PyList_Check(v)) rc = begin(w, v, LIST, PyList_GET_SIZE(v));
    else rc = put_slow(w, v);
    if (rc < 0) return -1;
    if (++w->items > VALUE_ITEMS_MAX) return refuse_limit(w, "value: more than %zu items", VALUE_ITEMS_MAX);
    return w->len > w->max ? too_large(w) : 0;
}

static int changed(const writer *w) {
    const writer at = { .stack = w->stack, .depth = w->depth - 1 };
    return refuse(&at, PyExc_ValueError, "the %.100s changed while it was read", Py_TYPE(w->stack[w->depth - 1].object)->tp_name);
}

/* Puts the next key, or answers the value of the key before. As next(). */
static int next_of_dict(writer *w, open *o, PyObject **out) {
    if (o->at_key) {
        o->at_key = false;
        *out = o->value;
        return 1;
    }
    PyObject *key, *value;
    if (!PyDict_Next(o->object, &o->pos, &key, &value)) return o->i == o->n ? 0 : changed(w);
    if (o->i == o->n) return changed(w);
    o->i++;
    Py_INCREF(key);
    Py_INCREF(value);
    Py_XSETREF(o->key, key);
    Py_XSETREF(o->value, value);
    o->at_key = true;
    *out = key;
    return 1;
}

static int next_of_set(writer *w, open *o, PyObject **out) {
    PyObject *item = Py_TYPE(o->value)->tp_iternext(o->value);
    if (!item) {
        if (PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) return -1;
            PyErr_Clear();
            return changed(w);
        }
        return o->i == o->n ? 0 : changed(w);
    }
    if (o->i == o->n) {
        Py_DECREF(item);
        return changed(w);
    }
    o->i++;
    Py_XSETREF(o->key, item);
    *out = item;
    return 1;
}

/* The next item of the innermost container, borrowed: 1; 0: it has no more; -1: an exception. */
static inline int next(writer *w, PyObject **out) {
    open *o = &w->stack[w->depth - 1];
    if (o->kind == DICT) return next_of_dict(w, o, out);
    if (o->kind == SET || o->kind == FROZENSET) return next_of_set(w, o, out);
    Py_ssize_t size = o->kind == LIST ? PyList_GET_SIZE(o->object) : o->n;
    if (size != o->n) return changed(w);
    if (o->i == o->n) return 0;
    *out = o->kind == LIST ? PyList_GET_ITEM(o->object, o->i) : PyTuple_GET_ITEM(o->object, o->i);
    o->i++;
    return 1;
}

static void end(writer *w) {
    open *o = &w->stack[--w->depth];
    Py_DECREF(o->object);
    Py_XDECREF(o->key);
    Py_XDECREF(o->value);
}

static int put_all(writer *w, PyObject *v) {
    if (put(w, v) < 0) return -1;
    while (w->depth > 0) {
        int more = next(w, &v);
        if (more < 0) return -1;
        if (more == 0) end(w);
        else if (put(w, v) < 0) return -1;
    }
    return 0;
}

PyObject *value_encode(PyObject *value, size_t max) {
    writer w;
    w.p = w.inlined;
    w.len = 0;
    w.max = max < PY_SSIZE_T_MAX / 2 ? max : PY_SSIZE_T_MAX / 2;
    w.cap = w.max + SLACK < sizeof w.inlined ? w.max + SLACK : sizeof w.inlined;
    w.heap = NULL;
    w.stack = w.first;
    w.depth = 0;
    w.room = INLINE_DEPTH;
    w.items = 0;
    w.fraction_work = 0;
    memset(w.class, 0, sizeof w.class);

    PyObject *bytes = NULL;
    if (put_all(&w, value) == 0) {
        if (!w.heap) {
            bytes = PyBytes_FromStringAndSize((char *)w.p, (Py_ssize_t)w.len);
        } else if (_PyBytes_Resize(&w.heap, (Py_ssize_t)w.len) == 0) {
            bytes = w.heap;
            w.heap = NULL;
        }
    }
    while (w.depth > 0) end(&w);
    if (w.stack != w.first) PyMem_Free(w.stack);
    for (int c = 0; c < CLASSES; c++) Py_XDECREF(w.class[c]);
    Py_XDECREF(w.heap);
    return bytes;
}
