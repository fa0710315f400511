/* What the writer and the reader of values share: tags, limits, and the API for what differs between
 * versions of CPython. For value.c and value_read.c alone. */
#ifndef BRU_GUEST_VALUE_PARTS_H
#define BRU_GUEST_VALUE_PARTS_H

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
    SET_ITEMS = 4,      /* what a set counts for: empty it is four times as large as a list */
    KEY_DEPTH_MAX = 16, /* tuples and frozensets in a key: hash() recurses over them */
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

static inline void store(uint8_t *out, uint64_t n, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, n >>= 8) out[i] = (uint8_t)n;
}

static inline uint64_t load(const uint8_t *p, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) n = n << 8 | p[i];
    return n;
}

/* By an interned name, since CPython's cache of attributes keeps each string that it was asked with. */
static inline PyObject *attribute(PyObject *of, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *found = key ? PyObject_GetAttr(of, key) : NULL;
    Py_XDECREF(key);
    return found;
}

static inline PyObject *call_method(PyObject *of, const char *name) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *result = key ? PyObject_CallMethodNoArgs(of, key) : NULL;
    Py_XDECREF(key);
    return result;
}

/* --- big integers: the API for their bytes is another one before 3.13 --- */

/* Bytes that hold `v` in two's complement, perhaps some more; -1 with an exception. */
static inline Py_ssize_t long_size(PyObject *v) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_AsNativeBytes(v, NULL, 0, Py_ASNATIVEBYTES_BIG_ENDIAN);
#else
    size_t bits = _PyLong_NumBits(v);
    return bits == (size_t)-1 ? -1 : (Py_ssize_t)(bits / 8 + 1);
#endif
}

static inline int long_store(PyObject *v, uint8_t *out, Py_ssize_t n) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_AsNativeBytes(v, out, n, Py_ASNATIVEBYTES_BIG_ENDIAN) < 0 ? -1 : 0;
#else
    return _PyLong_AsByteArray((PyLongObject *)v, out, (size_t)n, 0, 1);
#endif
}

static inline PyObject *long_load(const uint8_t *p, size_t n) {
#if PY_VERSION_HEX >= 0x030d0000
    return PyLong_FromUnsignedNativeBytes(p, n, Py_ASNATIVEBYTES_BIG_ENDIAN);
#else
    return _PyLong_FromByteArray(p, n, 0, 0);
#endif
}

/* Counts what it costs to reduce a fraction of that many bytes. */
static inline bool fraction_affordable(uint64_t *work, size_t bytes) {
    *work += (uint64_t)bytes * bytes;
    return bytes < (1u << 16) && *work <= FRACTION_WORK_MAX;
}

#endif
