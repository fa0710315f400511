/* The codec of value.h; docs/design/values.md has the tags. Both directions walk an explicit stack of
 * open containers, the first few levels of it inside the walker, so that small values allocate nothing. */
#include "value.h"

#include <datetime.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum major { UINT, NEGATIVE, BYTES, TEXT, ARRAY, MAP, TAG, SIMPLE };

enum {
    FALSE_BYTE = 0xf4,
    TRUE_BYTE = 0xf5,
    NULL_BYTE = 0xf6,
    DOUBLE_BYTE = 0xfb
};

/* The first seven are registered with IANA; the others are ours. */
enum {
    TAG_BIG = 2,
    TAG_BIG_NEGATIVE = 3,
    TAG_FRACTION = 30,
    TAG_UUID = 37,
    TAG_SET = 258,
    TAG_DATE = 1004,
    TAG_COMPLEX = 43000,
    TAG_TUPLE = 45100,
    TAG_FROZENSET = 45101,
    TAG_TIME = 45102,
    TAG_TIMEDELTA = 45103,
    TAG_DATETIME = 45104,
    TAG_SURROGATES = 45105,
    TAG_DECIMAL = 45106
};

enum {
    INLINE_DEPTH = 8,
    INLINE_BYTES = 512,
    HEAD_MAX = 9,
    SLACK = 32,            /* that a write may reserve beyond `max` before it is known to be too much */
    SET_ITEMS = 4,         /* what a set counts for: empty it is four times as large as a list */
    KEY_DEPTH_MAX = 16,    /* tuples and frozensets in a key: hash() recurses over them */
    KEY_NUMBER_MAX = 2048, /* bytes of a number in a key: int == Decimal is quadratic in them */
    UNGUARDED_KEYS = 256,  /* so few keys cannot collide expensively */
    CACHED_KEYS = 32,      /* as many as reader.cached has bits */
    CACHED_KEY_LEN = 24,
    PATH_LEVELS = 8,       /* shown at each end of a long path */
    DATETIME_LEN = 11,
    TIME_LEN = 7,
    OFFSET_LEN = 8,
    TIMEDELTA_LEN = 12
};

/* Fractions are reduced by the reader, quadratic in their length: the sum of squares of bytes. */
#define FRACTION_WORK_MAX ((uint64_t)1 << 30)

static const int64_t US_PER_S = 1000000;

enum kind { LIST, TUPLE, DICT, SET, FROZENSET };

/* Classes that only sys.modules knows. */
enum class { DECIMAL, FRACTION, UUID, ZONE, CLASSES };
static const struct {
    const char *module, *name;
} classes[CLASSES] = {
    [DECIMAL] = { "decimal", "Decimal" },
    [FRACTION] = { "fractions", "Fraction" },
    [UUID] = { "uuid", "UUID" },
    [ZONE] = { "zoneinfo", "ZoneInfo" },
};

static void store(uint8_t *out, uint64_t n, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, n >>= 8) out[i] = (uint8_t)n;
}

static uint64_t load(const uint8_t *p, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) n = n << 8 | p[i];
    return n;
}

/* By an interned name, since CPython's cache of attributes keeps each string that it was asked with. */
static PyObject *attribute(PyObject *of, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *found = key ? PyObject_GetAttr(of, key) : NULL;
    Py_XDECREF(key);
    return found;
}

static PyObject *call_method(PyObject *of, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *result = key ? PyObject_CallMethodNoArgs(of, key) : NULL;
    Py_XDECREF(key);
    return result;
}

static bool is_surrogate(Py_UCS4 c) {
    return c >= 0xd800 && c <= 0xdfff;
}

/* --- big integers: the API for their bytes is another one before 3.13 --- */

/* Bytes that hold `v` in two's complement, perhaps some more; -1 with an exception. */
static Py_ssize_t long_size(PyObject *v) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_AsNativeBytes(v, NULL, 0, Py_ASNATIVEBYTES_BIG_ENDIAN);
#else
    size_t bits = _PyLong_NumBits(v);
    return bits == (size_t)-1 ? -1 : (Py_ssize_t)(bits / 8 + 1);
#endif
}

static int long_store(PyObject *v, uint8_t *out, Py_ssize_t n) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_AsNativeBytes(v, out, n, Py_ASNATIVEBYTES_BIG_ENDIAN) < 0 ? -1 : 0;
#else
    return _PyLong_AsByteArray((PyLongObject *)v, out, (size_t)n, 0, 1);
#endif
}

static PyObject *long_load(const uint8_t *p, size_t n) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_FromUnsignedNativeBytes(p, n, Py_ASNATIVEBYTES_BIG_ENDIAN);
#else
    return _PyLong_FromByteArray(p, n, 0, 0);
#endif
}

/* --- writing --- */

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

/* Counts what it costs to reduce a fraction of that many bytes. */
static bool fraction_affordable(uint64_t *work, size_t bytes) {
    *work += (uint64_t)bytes * bytes;
    return bytes < (1u << 16) && *work <= FRACTION_WORK_MAX;
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

/* --- keys that are made to collide --- */

/* Follows what a dict or set does with the hashes of its keys, in the same order, and counts the
 * steps. That not too many keys share a hash would be too weak a rule: different hashes can be made
 * to share their way through the table. */
typedef struct guard {
    bool set;
    uint32_t *slots; /* a key's number + 1; 0: free */
    size_t *hashes;  /* of the keys so far */
    size_t mask, used;
    uint64_t steps, allowed;
} guard;

enum {
    GUARD_FIRST = 8,
    SET_LINEAR = 9,
    PERTURB_SHIFT = 5,
    STEPS_PER_KEY = 256, /* ints with 32 low bits clear take some 80 in a set */
    STEPS_PER_BYTE = 2   /* a comparison of equal hashes takes 1/8 */
};

static void guard_free(guard *g) {
    if (!g) return;
    PyMem_Free(g->slots);
    PyMem_Free(g->hashes);
    PyMem_Free(g);
}

static guard *guard_new(bool set, size_t keys) {
    guard *g = PyMem_Calloc(1, sizeof *g);
    if (g) {
        g->set = set;
        g->mask = GUARD_FIRST - 1;
        g->slots = PyMem_Calloc(GUARD_FIRST, sizeof *g->slots);
        g->hashes = PyMem_Malloc(keys * sizeof *g->hashes);
    }
    if (!g || !g->slots || !g->hashes) {
        guard_free(g);
        PyErr_NoMemory();
        return NULL;
    }
    return g;
}

/* Whether the way to a free slot for `hash` is affordable; it is in *at then. */
static bool guard_find(guard *g, size_t hash, size_t equal_steps, size_t *at) {
    size_t perturb = hash, i = hash & g->mask;
    for (;;) {
        size_t run = g->set && i + SET_LINEAR <= g->mask ? SET_LINEAR : 0;
        for (size_t k = i; k <= i + run; k++) {
            if (g->slots[k] == 0) {
                *at = k;
                return true;
            }
            g->steps += g->hashes[g->slots[k] - 1] == hash ? equal_steps : 1;
        }
        if (g->steps > g->allowed) return false;
        perturb >>= PERTURB_SHIFT;
        i = (i * 5 + perturb + 1) & g->mask;
    }
}

/* 1; 0: too many steps; -1: no memory. */
static int guard_resize(guard *g, size_t size) {
    uint32_t *slots = PyMem_Calloc(size, sizeof *slots);
    if (!slots) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(g->slots);
    g->slots = slots;
    g->mask = size - 1;
    for (size_t k = 0; k < g->used; k++) {
        size_t at;
        if (!guard_find(g, g->hashes[k], 1, &at)) return 0;
        slots[at] = (uint32_t)(k + 1);
    }
    return 1;
}

/* Adds a key of `len` encoded bytes. As guard_resize. */
static int guard_add(guard *g, PyObject *key, size_t len) {
    Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1) return -1;
    g->allowed += STEPS_PER_KEY + (uint64_t)STEPS_PER_BYTE * len;
    size_t size = GUARD_FIRST, at;
    if (!g->set && g->used >= (g->mask + 1) * 2 / 3) {
        while (size < g->used * 3) size *= 2;
        int ok = guard_resize(g, size);
        if (ok <= 0) return ok;
    }
    if (!guard_find(g, (size_t)hash, 1 + len / 8, &at)) return 0;
    g->hashes[g->used++] = (size_t)hash;
    g->slots[at] = (uint32_t)g->used;
    if (g->set && g->used * 5 >= g->mask * 3) {
        while (size <= g->used * (g->used > 50000 ? 2 : 4)) size *= 2;
        return guard_resize(g, size);
    }
    return 1;
}

/* --- reading --- */

/* A container that is being read. */
typedef struct pending {
    enum kind kind;
    bool in_key;
    uint8_t key_depth;
    Py_ssize_t i, n;  /* items there, items announced */
    size_t item;      /* where the current item or key begins */
    PyObject *object;
    PyObject *key;    /* DICT: waits for its value */
    guard *guard;     /* NULL: not needed so far */
} pending;

typedef struct reader {
    const uint8_t *bytes;
    size_t pos, len;
    size_t owed;      /* items that open containers still announce, each a byte at least */
    size_t items;
    uint64_t fraction_work;
    pending *stack;
    int depth, room;
    PyObject *class[CLASSES];
    PyObject *cache[CACHED_KEYS]; /* short keys, by their bytes: records repeat them */
    uint32_t cached;              /* which of them are there */
    pending first[INLINE_DEPTH];
} reader;

typedef struct head {
    enum major major;
    uint8_t info;
    uint64_t n;
} head;

/* Raises ValueError "byte N: ...". Answers NULL. */
static void *wrong(size_t at, const char *format, ...) {
    va_list args;
    va_start(args, format);
    PyObject *text = PyUnicode_FromFormatV(format, args);
    va_end(args);
    if (text) PyErr_Format(PyExc_ValueError, "byte %zu: %U", at, text);
    Py_XDECREF(text);
    return NULL;
}

/* The same in place of the exception that is set, whose text it takes over; MemoryError stays. */
static void *wrong_as_raised(size_t at, const char *what) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    if (text && PyUnicode_GET_LENGTH(text) > 0) {
        wrong(at, "not a valid %s: %.200U", what, text);
    } else if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        wrong(at, "not a valid %s", what);
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return NULL;
}

static bool in_key(const reader *r) {
    if (r->depth == 0) return false;
    const pending *p = &r->stack[r->depth - 1];
    return p->in_key || p->kind == SET || p->kind == FROZENSET || (p->kind == DICT && !p->key);
}

static inline bool read_head(reader *r, head *h) {
    size_t at = r->pos;
    if (at == r->len) return wrong(at, "the value ends early"), false;
    uint8_t first = r->bytes[r->pos++];
    h->major = (enum major)(first >> 5);
    h->info = first & 31;
    h->n = h->info;
    if (h->info < 24) return true;
    if (h->info > 27) return wrong(at, "indefinite or reserved length"), false;
    size_t size = (size_t)1 << (h->info - 24);
    if (size > r->len - r->pos) return wrong(at, "the value ends early"), false;
    h->n = load(r->bytes + r->pos, (int)size);
    r->pos += size;
    return true;
}

/* `n` bytes, borrowed from the input. */
static inline const uint8_t *read_span(reader *r, size_t at, uint64_t n) {
    if (n > r->len - r->pos) return wrong(at, "%llu bytes announced, %zu left", (unsigned long long)n, r->len - r->pos);
    const uint8_t *p = r->bytes + r->pos;
    r->pos += (size_t)n;
    return p;
}

/* What a tag is over: a byte string or text. */
static const uint8_t *read_tagged(reader *r, enum major major, size_t at, const char *what, size_t *len) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major != major) return wrong(at, "not a valid %s: of another kind", what);
    const uint8_t *p = read_span(r, at, h.n);
    if (p) *len = (size_t)h.n;
    return p;
}

static PyObject *text_of(const uint8_t *p, size_t n, size_t at) {
    PyObject *text = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)n, NULL);
    return text ? text : wrong_as_raised(at, "text");
}

/* A text in the place of a dict's key. */
static PyObject *key_of(reader *r, const uint8_t *p, size_t n, size_t at) {
    if (n == 0 || n > CACHED_KEY_LEN) return text_of(p, n, at);
    unsigned slot = (unsigned)(p[0] * 7u + p[n / 2] * 5u + p[n - 1] * 3u + n) % CACHED_KEYS;
    PyObject *known = r->cached >> slot & 1 ? r->cache[slot] : NULL;
    if (known && (size_t)PyUnicode_GET_LENGTH(known) == n && memcmp(PyUnicode_DATA(known), p, n) == 0) return Py_NewRef(known);
    PyObject *text = text_of(p, n, at);
    if (!text || !PyUnicode_IS_ASCII(text)) return text;
    r->cache[slot] = Py_NewRef(text);
    r->cached |= 1u << slot;
    Py_XDECREF(known);
    return text;
}

static PyObject *read_surrogates(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "text", &len);
    if (!p) return NULL;
    PyObject *text = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)len, "surrogatepass");
    return text ? text : wrong_as_raised(at, "text");
}

static PyObject *read_big(reader *r, bool negative, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "int", &len);
    if (!p) return NULL;
    if (len > KEY_NUMBER_MAX && in_key(r)) return wrong(at, "a number of %zu bytes in a key", len);
    PyObject *n = long_load(p, len);
    if (!n || !negative) return n;
    PyObject *inverted = PyNumber_Invert(n);
    Py_DECREF(n);
    return inverted;
}

static PyObject *read_int(reader *r, size_t at, const char *what) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major == UINT) return PyLong_FromUnsignedLongLong(h.n);
    if (h.major == TAG && (h.n == TAG_BIG || h.n == TAG_BIG_NEGATIVE)) return read_big(r, h.n == TAG_BIG_NEGATIVE, at);
    if (h.major != NEGATIVE) return wrong(at, "not a valid %s: no int", what);
    if (h.n <= INT64_MAX) return PyLong_FromLongLong(-1 - (long long)h.n);
    PyObject *n = PyLong_FromUnsignedLongLong(h.n);
    PyObject *inverted = n ? PyNumber_Invert(n) : NULL;
    Py_XDECREF(n);
    return inverted;
}

static double double_of(uint64_t bits) {
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static bool read_pair(reader *r, size_t at, const char *what) {
    head h;
    if (!read_head(r, &h)) return false;
    if (h.major != ARRAY || h.n != 2) return wrong(at, "not a valid %s: no pair", what), false;
    return true;
}

static PyObject *read_complex(reader *r, size_t at) {
    if (!read_pair(r, at, "complex")) return NULL;
    double parts[2];
    for (int i = 0; i < 2; i++) {
        head h;
        if (!read_head(r, &h)) return NULL;
        if (h.major != SIMPLE || h.info != 27) return wrong(at, "not a valid complex: no float");
        parts[i] = double_of(h.n);
    }
    return PyComplex_FromDoubles(parts[0], parts[1]);
}

/* Borrowed. */
static PyObject *class_of(reader *r, enum class c) {
    if (r->class[c]) return r->class[c];
    PyObject *module = PyImport_ImportModule(classes[c].module);
    if (!module) return NULL;
    r->class[c] = attribute(module, classes[c].name);
    Py_DECREF(module);
    return r->class[c];
}

static PyObject *read_fraction(reader *r, size_t at) {
    if (!read_pair(r, at, "Fraction")) return NULL;
    size_t begin = r->pos;
    PyObject *above = read_int(r, at, "Fraction"), *below = NULL, *class, *made = NULL;
    if (!above) return NULL;
    below = read_int(r, at, "Fraction");
    if (!below) goto out;
    int overflow;
    if (PyLong_AsLongLongAndOverflow(below, &overflow) <= 0 && overflow <= 0) {
        wrong(at, "not a valid Fraction: its denominator is not positive");
        goto out;
    }
    if (!fraction_affordable(&r->fraction_work, r->pos - begin)) {
        wrong(at, "fractions with too many digits");
        goto out;
    }
    class = class_of(r, FRACTION);
    if (class) made = PyObject_CallFunctionObjArgs(class, above, below, NULL);
out:
    Py_DECREF(above);
    Py_XDECREF(below);
    return made;
}

static PyObject *read_uuid(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "UUID", &len);
    if (!p) return NULL;
    if (len != 16) return wrong(at, "not a valid UUID: %zu bytes", len);
    PyObject *class = class_of(r, UUID);
    if (!class) return NULL;
    PyObject *none = PyTuple_New(0), *made = NULL;
    PyObject *kwargs = none ? Py_BuildValue("{s:y#}", "bytes", (const char *)p, (Py_ssize_t)len) : NULL;
    if (kwargs) made = PyObject_Call(class, none, kwargs);
    Py_XDECREF(kwargs);
    Py_XDECREF(none);
    return made;
}

static bool is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static size_t digits(const uint8_t *p, size_t n) {
    size_t i = 0;
    while (i < n && is_digit(p[i])) i++;
    return i;
}

/* Whether the text is a Decimal's str(): its constructor takes more than that, and what it makes
 * of what it does not take depends on the context. */
static bool is_decimal(const uint8_t *p, size_t n) {
    if (n > 0 && *p == '-') p++, n--;
    if (n == 8 && memcmp(p, "Infinity", 8) == 0) return true;
    if (n > 0 && *p == 's') {
        p++, n--;
        if (n == 0 || *p != 'N') return false;
    }
    if (n >= 3 && memcmp(p, "NaN", 3) == 0) return digits(p + 3, n - 3) == n - 3;
    size_t k = digits(p, n);
    if (k == 0) return false;
    p += k, n -= k;
    if (n > 0 && *p == '.') {
        k = digits(p + 1, n - 1);
        if (k == 0) return false;
        p += k + 1, n -= k + 1;
    }
    if (n == 0) return true;
    if (*p != 'E' && *p != 'e') return false;
    p++, n--;
    if (n > 0 && (*p == '+' || *p == '-')) p++, n--;
    return n > 0 && digits(p, n) == n;
}

/* Whether a Decimal beyond the limits was quietly made NaN, as a context that traps nothing does. */
static int became_nan(PyObject *made, const uint8_t *p, size_t n) {
    if (memchr(p, 'N', n)) return 0;
    PyObject *nan = call_method(made, "is_nan");
    int rc = nan ? PyObject_IsTrue(nan) : -1;
    Py_XDECREF(nan);
    return rc;
}

static PyObject *read_decimal(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, TEXT, at, "Decimal", &len);
    if (!p) return NULL;
    if (len > KEY_NUMBER_MAX && in_key(r)) return wrong(at, "a number of %zu bytes in a key", len);
    if (!is_decimal(p, len)) return wrong(at, "not a valid Decimal");
    PyObject *class = class_of(r, DECIMAL);
    PyObject *text = class ? text_of(p, len, at) : NULL;
    if (!text) return NULL;
    PyObject *made = PyObject_CallOneArg(class, text);
    Py_DECREF(text);
    if (!made) {
        if (PyErr_ExceptionMatches(PyExc_ArithmeticError)) wrong_as_raised(at, "Decimal");
        return NULL;
    }
    int nan = became_nan(made, p, len);
    if (nan == 0) return made;
    Py_DECREF(made);
    return nan < 0 ? NULL : wrong(at, "not a valid Decimal: beyond its limits");
}

static bool datetime_ready(void) {
    if (!PyDateTimeAPI) PyDateTime_IMPORT;
    return PyDateTimeAPI != NULL;
}

/* The time zone at the end of a time's bytes: a new reference, None if it has none. */
static PyObject *zone_of(const uint8_t *p, size_t len) {
    if (len == 0) return Py_NewRef(Py_None);
    int64_t us = (int64_t)load(p, OFFSET_LEN);
    if (us <= -86400 * US_PER_S || us >= 86400 * US_PER_S) {
        PyErr_SetString(PyExc_ValueError, "its offset is a day or more");
        return NULL;
    }
    PyObject *delta = PyDelta_FromDSU(0, (int)(us / US_PER_S), (int)(us % US_PER_S));
    PyObject *zone = delta ? PyTimeZone_FromOffset(delta) : NULL;
    Py_XDECREF(delta);
    return zone;
}

/* The bytes of a time or datetime, whose time zone is in *zone then. */
static const uint8_t *read_moment(reader *r, size_t at, const char *what, size_t size, PyObject **zone) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, what, &len);
    if (!p) return NULL;
    if (len != size && len != size + OFFSET_LEN) return wrong(at, "not a valid %s: %zu bytes", what, len);
    if (!datetime_ready()) return NULL;
    *zone = zone_of(p + size, len - size);
    return *zone ? p : wrong_as_raised(at, what);
}

static PyObject *read_datetime(reader *r, size_t at) {
    PyObject *zone;
    const uint8_t *p = read_moment(r, at, "datetime", DATETIME_LEN, &zone);
    if (!p) return NULL;
    PyObject *made = PyDateTimeAPI->DateTime_FromDateAndTimeAndFold(
        (int)load(p, 2), p[2], p[3], p[4], p[5], p[6], (int)load(p + 7, 3), zone, p[10], PyDateTimeAPI->DateTimeType);
    Py_DECREF(zone);
    return made ? made : wrong_as_raised(at, "datetime");
}

static PyObject *read_time(reader *r, size_t at) {
    PyObject *zone;
    const uint8_t *p = read_moment(r, at, "time", TIME_LEN, &zone);
    if (!p) return NULL;
    PyObject *made = PyDateTimeAPI->Time_FromTimeAndFold(p[0], p[1], p[2], (int)load(p + 3, 3), zone, p[6], PyDateTimeAPI->TimeType);
    Py_DECREF(zone);
    return made ? made : wrong_as_raised(at, "time");
}

static PyObject *read_date(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, TEXT, at, "date", &len);
    if (!p) return NULL;
    if (len != 10 || digits(p, 4) != 4 || p[4] != '-' || digits(p + 5, 2) != 2 || p[7] != '-' || digits(p + 8, 2) != 2)
        return wrong(at, "not a valid date");
    if (!datetime_ready()) return NULL;
    int year = (p[0] - '0') * 1000 + (p[1] - '0') * 100 + (p[2] - '0') * 10 + (p[3] - '0');
    PyObject *made = PyDate_FromDate(year, (p[5] - '0') * 10 + (p[6] - '0'), (p[8] - '0') * 10 + (p[9] - '0'));
    return made ? made : wrong_as_raised(at, "date");
}

static PyObject *read_timedelta(reader *r, size_t at) {
    size_t len = 0;
    const uint8_t *p = read_tagged(r, BYTES, at, "timedelta", &len);
    if (!p) return NULL;
    if (len != TIMEDELTA_LEN) return wrong(at, "not a valid timedelta: %zu bytes", len);
    uint32_t seconds = (uint32_t)load(p + 4, 4), us = (uint32_t)load(p + 8, 4);
    if (seconds >= 86400 || us >= US_PER_S) return wrong(at, "not a valid timedelta: out of range");
    if (!datetime_ready()) return NULL;
    PyObject *made = PyDelta_FromDSU((int32_t)(uint32_t)load(p, 4), (int)seconds, (int)us);
    return made ? made : wrong_as_raised(at, "timedelta");
}

static PyObject *new_container(enum kind kind, Py_ssize_t n) {
    switch (kind) {
    case LIST: return PyList_New(n);
    case TUPLE: return PyTuple_New(n);
    case DICT: return PyDict_New();
    case SET: return PySet_New(NULL);
    case FROZENSET: return PyFrozenSet_New(NULL);
    }
    Py_UNREACHABLE();
}

static bool grow_pending(reader *r) {
    int room = r->room * 4;
    pending *stack = PyMem_Malloc((size_t)room * sizeof *stack);
    if (!stack) return PyErr_NoMemory(), false;
    memcpy(stack, r->stack, (size_t)r->depth * sizeof *stack);
    if (r->stack != r->first) PyMem_Free(r->stack);
    r->stack = stack;
    r->room = room;
    return true;
}

/* Opens a container of `n` items or pairs. NULL without an exception: its items come first. */
static PyObject *open_container(reader *r, enum kind kind, uint64_t n, size_t at) {
    bool keyed = in_key(r);
    int key_depth = keyed ? r->stack[r->depth - 1].key_depth + 1 : 0;
    if (keyed && kind != TUPLE && kind != FROZENSET) return wrong(at, "a list, dict or set in a key");
    if (key_depth > KEY_DEPTH_MAX) return wrong(at, "a key deeper than %d", KEY_DEPTH_MAX);
    if (r->depth == VALUE_DEPTH_MAX) return wrong(at, "deeper than %d containers", VALUE_DEPTH_MAX);
    size_t left = r->len - r->pos, per = kind == DICT ? 2 : 1;
    size_t free = left > r->owed ? left - r->owed : 0;
    if (n > free / per) return wrong(at, "%llu items announced, %zu bytes left for them", (unsigned long long)n, free);
    if (kind == SET || kind == FROZENSET) r->items += SET_ITEMS - 1;
    if (n * per + r->owed + r->items > VALUE_ITEMS_MAX) return wrong(at, "more than %d items", VALUE_ITEMS_MAX);
    if (n > 0 && r->depth == r->room && !grow_pending(r)) return NULL;
    PyObject *made = new_container(kind, (Py_ssize_t)n);
    if (!made || n == 0) return made;
    r->owed += (size_t)n * per;
    r->stack[r->depth++] = (pending){ .kind = kind, .in_key = keyed, .key_depth = (uint8_t)key_depth, .n = (Py_ssize_t)n,
                                      .item = r->pos, .object = made };
    return NULL;
}

static PyObject *open_tagged(reader *r, enum kind kind, size_t at) {
    head h;
    if (!read_head(r, &h)) return NULL;
    if (h.major != ARRAY) return wrong(at, "not a valid tuple or set: no array");
    return open_container(r, kind, h.n, at);
}

static PyObject *read_tag(reader *r, uint64_t tag, size_t at) {
    switch (tag) {
    case TAG_BIG: return read_big(r, false, at);
    case TAG_BIG_NEGATIVE: return read_big(r, true, at);
    case TAG_TUPLE: return open_tagged(r, TUPLE, at);
    case TAG_SET: return open_tagged(r, SET, at);
    case TAG_FROZENSET: return open_tagged(r, FROZENSET, at);
    case TAG_FRACTION: return read_fraction(r, at);
    case TAG_UUID: return read_uuid(r, at);
    case TAG_DATE: return read_date(r, at);
    case TAG_COMPLEX: return read_complex(r, at);
    case TAG_TIME: return read_time(r, at);
    case TAG_TIMEDELTA: return read_timedelta(r, at);
    case TAG_DATETIME: return read_datetime(r, at);
    case TAG_SURROGATES: return read_surrogates(r, at);
    case TAG_DECIMAL: return read_decimal(r, at);
    default: return wrong(at, "unknown tag %llu", (unsigned long long)tag);
    }
}

static PyObject *read_simple(const head *h, size_t at) {
    if (h->info == 27) return PyFloat_FromDouble(double_of(h->n));
    if (h->info == (NULL_BYTE & 31)) return Py_NewRef(Py_None);
    if (h->info == (TRUE_BYTE & 31)) return Py_NewRef(Py_True);
    if (h->info == (FALSE_BYTE & 31)) return Py_NewRef(Py_False);
    return wrong(at, "unknown simple value or float of another size");
}

/* One item. NULL without an exception: a container was opened. */
static inline PyObject *read_item(reader *r) {
    size_t at = r->pos;
    head h;
    if (!read_head(r, &h)) return NULL;
    const pending *in = r->depth > 0 ? &r->stack[r->depth - 1] : NULL;
    if (in) r->owed--;
    if (++r->items + r->owed > VALUE_ITEMS_MAX) return wrong(at, "more than %d items", VALUE_ITEMS_MAX);
    const uint8_t *p;
    switch (h.major) {
    case UINT: return PyLong_FromUnsignedLongLong(h.n);
    case NEGATIVE: r->pos = at; return read_int(r, at, "int");
    case BYTES:
        p = read_span(r, at, h.n);
        return p ? PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)h.n) : NULL;
    case TEXT:
        p = read_span(r, at, h.n);
        if (!p) return NULL;
        return in && in->kind == DICT && !in->key ? key_of(r, p, (size_t)h.n, at) : text_of(p, (size_t)h.n, at);
    case ARRAY: return open_container(r, LIST, h.n, at);
    case MAP: return open_container(r, DICT, h.n, at);
    case TAG: return read_tag(r, h.n, at);
    case SIMPLE: return read_simple(&h, at);
    }
    Py_UNREACHABLE();
}

/* Starts to guard a container, with the keys that it has. */
static int start_guard(pending *p) {
    p->guard = guard_new(p->kind != DICT, (size_t)p->n);
    if (!p->guard) return -1;
    if (p->kind != DICT) return 1;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    int ok = 1;
    while (ok > 0 && PyDict_Next(p->object, &pos, &key, &value)) ok = guard_add(p->guard, key, 0);
    return ok;
}

/* Before `key` goes into a dict or set. Text alone cannot be made to collide: its hash is secret. */
static bool check_key(reader *r, pending *p, PyObject *key) {
    if (p->n <= UNGUARDED_KEYS || (!p->guard && p->kind == DICT && PyUnicode_CheckExact(key))) return true;
    int ok = p->guard ? 1 : start_guard(p);
    if (ok > 0) ok = guard_add(p->guard, key, r->pos - p->item);
    if (ok > 0) return true;
    if (ok == 0) wrong(p->item, "keys made to collide");
    else wrong_as_raised(p->item, "key");
    return false;
}

static bool deliver_to_set(reader *r, pending *p, PyObject *v) {
    bool ok = check_key(r, p, v);
    if (ok && PySet_Add(p->object, v) < 0) ok = (wrong_as_raised(p->item, "key"), false);
    if (ok && PySet_GET_SIZE(p->object) != p->i + 1) ok = (wrong(p->item, "an item twice in a set"), false);
    Py_DECREF(v);
    return ok;
}

static bool deliver_to_dict(reader *r, pending *p, PyObject *v) {
    if (!p->key) {
        p->key = v;
        return check_key(r, p, v);
    }
    PyObject *key = p->key;
    p->key = NULL;
    bool ok = true;
    if (PyDict_SetItem(p->object, key, v) < 0) ok = (wrong_as_raised(p->item, "key"), false);
    if (ok && PyDict_GET_SIZE(p->object) != p->i + 1) ok = (wrong(p->item, "a key twice in a dict"), false);
    Py_DECREF(key);
    Py_DECREF(v);
    return ok;
}

/* Puts an item into the innermost container; takes the reference. */
static inline bool deliver(reader *r, PyObject *v) {
    pending *p = &r->stack[r->depth - 1];
    bool ok = true, was_key = p->kind == DICT && !p->key;
    if (p->kind == LIST) PyList_SET_ITEM(p->object, p->i, v);
    else if (p->kind == TUPLE) PyTuple_SET_ITEM(p->object, p->i, v);
    else if (p->kind == DICT) ok = deliver_to_dict(r, p, v);
    else ok = deliver_to_set(r, p, v);
    if (!was_key) {
        p->i++;
        p->item = r->pos;
    }
    return ok;
}

static void close_container(reader *r) {
    pending *p = &r->stack[--r->depth];
    guard_free(p->guard);
}

static PyObject *read_all(reader *r) {
    for (;;) {
        PyObject *v = read_item(r);
        if (!v && PyErr_Occurred()) return NULL;
        if (!v) continue;
        for (;;) {
            if (r->depth == 0) return v;
            if (!deliver(r, v)) return NULL;
            const pending *p = &r->stack[r->depth - 1];
            if (p->i < p->n) break;
            v = p->object;
            close_container(r);
        }
    }
}

PyObject *value_decode(const void *bytes, size_t len) {
    if (len > PY_SSIZE_T_MAX) return wrong(0, "too many bytes");
    reader r;
    r.bytes = bytes;
    r.pos = 0;
    r.len = len;
    r.owed = 0;
    r.items = 0;
    r.fraction_work = 0;
    r.stack = r.first;
    r.depth = 0;
    r.room = INLINE_DEPTH;
    memset(r.class, 0, sizeof r.class);
    r.cached = 0;

    PyObject *v = read_all(&r);
    if (v && r.pos != len) {
        Py_CLEAR(v);
        wrong(r.pos, "%zu bytes too many", len - r.pos);
    }
    while (r.depth > 0) {
        close_container(&r);
        Py_DECREF(r.stack[r.depth].object);
        Py_XDECREF(r.stack[r.depth].key);
    }
    if (r.stack != r.first) PyMem_Free(r.stack);
    for (int c = 0; c < CLASSES; c++) Py_XDECREF(r.class[c]);
    for (int k = 0; k < CACHED_KEYS && r.cached >> k; k++)
        if (r.cached >> k & 1) Py_DECREF(r.cache[k]);
    return v;
}
