/* Python values as CBOR (RFC 8949): how they cross between host and guest. One codec over CPython's API,
 * compiled into the guest and into the host's extension.
 *
 * Cross as themselves: None, bool, int of any size, float (with nan, inf, -0.0), complex, str (also
 * with lone surrogates), bytes (bytearray and memoryview arrive as bytes), list, tuple, dict, set,
 * frozenset, and datetime's date, time, datetime, timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID. Of
 * subclasses, those of int, float, str, bytes, list, tuple and dict cross as their base (so enums
 * of them as values, named tuples as tuples); dataclasses do not. Nothing else does: a TypeError
 * says which type, and where ("value['rows'][3].key").
 *
 * Both directions take no recursion, whatever the depth. What is shared in a value arrives as equal
 * copies; what contains itself is refused (ValueError). The reader trusts nothing: it bounds depth,
 * size and number of items, and refuses keys made to collide, so that no bytes can cost more
 * than a small multiple of their length. */
#ifndef BRU_GUEST_VALUE_H
#define BRU_GUEST_VALUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum {
    VALUE_DEPTH_MAX = 1000,   /* containers in containers */
    VALUE_ITEMS_MAX = 4000000 /* values in a value, all levels together */
};

/* The encoding of `value` as bytes of at most `max`. NULL with TypeError (cannot cross), ValueError
 * (too deep, too large, contains itself) or MemoryError. Runs no code of the value's types. */
PyObject *value_encode(PyObject *value, size_t max);

/* The value that `len` bytes are. NULL with ValueError, which says what is wrong at which byte, or MemoryError. */
PyObject *value_decode(const void *bytes, size_t len);

#endif
