/* A guard against keys that are made to collide. */
#ifndef BRU_GUEST_VALUE_KEYS_H
#define BRU_GUEST_VALUE_KEYS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* Follows what a dict or set does with the hashes of its keys, in the same order, and counts the
 * steps. That not too many keys share a hash would be too weak a rule: different hashes can be made
 * to share their way through the table. */
typedef struct key_guard key_guard;

/* Of a set or dict that will have at most so many keys. NULL with MemoryError. */
key_guard *key_guard_new(bool set, size_t keys);

/* Before a key of `len` encoded bytes is added. 1; 0: it would take too many steps; -1: an exception. */
int key_guard_add(key_guard *g, PyObject *key, size_t len);

/* NULL allowed. */
void key_guard_free(key_guard *g);

#endif
