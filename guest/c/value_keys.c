/* The guard of value_keys.h. What it follows is insertion as Objects/dictobject.c and Objects/setobject.c of
 * CPython 3.11 to 3.14 do it. */
#include "value_keys.h"

#include <stdint.h>

struct key_guard {
    bool set;
    uint32_t *slots; /* a key's number + 1; 0: free */
    size_t *hashes;  /* of the keys so far */
    size_t mask, used;
    uint64_t steps, allowed;
};

enum {
    GUARD_FIRST = 8,
    SET_LINEAR = 9,
    PERTURB_SHIFT = 5,
    STEPS_PER_KEY = 256, /* ints with 32 low bits clear take some 80 in a set */
    STEPS_PER_BYTE = 2   /* a comparison of equal hashes takes 1/8 */
};

void key_guard_free(key_guard *g) {
    if (!g) return;
    PyMem_Free(g->slots);
    PyMem_Free(g->hashes);
    PyMem_Free(g);
}

key_guard *key_guard_new(bool set, size_t keys) {
    key_guard *g = PyMem_Calloc(1, sizeof *g);
    if (g) {
        g->set = set;
        g->mask = GUARD_FIRST - 1;
        g->slots = PyMem_Calloc(GUARD_FIRST, sizeof *g->slots);
        g->hashes = PyMem_Malloc(keys * sizeof *g->hashes);
    }
    if (!g || !g->slots || !g->hashes) {
        key_guard_free(g);
        PyErr_NoMemory();
        return NULL;
    }
    return g;
}

/* Whether the way to a free slot for `hash` is affordable; it is in *at then. */
static bool find(key_guard *g, size_t hash, size_t equal_steps, size_t *at) {
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
static int resize(key_guard *g, size_t size) {
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
        if (!find(g, g->hashes[k], 1, &at)) return 0;
        slots[at] = (uint32_t)(k + 1);
    }
    return 1;
}

int key_guard_add(key_guard *g, PyObject *key, size_t len) {
    Py_hash_t hash = PyObject_Hash(key);
    if (hash == -1) return -1;
    g->allowed += STEPS_PER_KEY + (uint64_t)STEPS_PER_BYTE * len;
    size_t size = GUARD_FIRST, at;
    if (!g->set && g->used >= (g->mask + 1) * 2 / 3) {
        while (size < g->used * 3) size *= 2;
        int ok = resize(g, size);
        if (ok <= 0) return ok;
    }
    if (!find(g, (size_t)hash, 1 + len / 8, &at)) return 0;
    g->hashes[g->used++] = (size_t)hash;
    g->slots[at] = (uint32_t)g->used;
    if (g->set && g->used * 5 >= g->mask * 3) {
        while (size <= g->used * (g->used > 50000 ? 2 : 4)) size *= 2;
        return resize(g, size);
    }
    return 1;
}
