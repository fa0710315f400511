/* Host functions as guest code sees them: `await name(...)`. A call is an awaitable that does nothing
 * before it is awaited; a host that answers at once is met without the event loop. */
#ifndef BRU_GUEST_FUNCTIONS_H
#define BRU_GUEST_FUNCTIONS_H

#include <Python.h>

/* Adds CallError and functions() to the module `_brumate`. -1 with an exception. */
int functions_init(PyObject *module);

/* What the agent's calls.py does; see there. Borrowed for good. */
typedef struct functions_agent {
    PyObject *expect, *forget, *deliver, *error, *blame, *describe;
} functions_agent;

void functions_bind(const functions_agent *bound);

/* Makes the host functions known that agent_exec announces, in place of earlier ones, and puts them
 * into `globals`; names that guest code has bound stay as they are. -1 with an exception. */
int functions_set(PyObject *globals, const char *bytes, size_t len);

/* Puts all that are known into `globals`, over whatever has their names. Sets no exception. */
void functions_restore(PyObject *globals);

#endif
