/* Telling the host the value of one variable when an execution has ended well. */
#ifndef BRU_GUEST_CAPTURE_H
#define BRU_GUEST_CAPTURE_H

#include <Python.h>

/* The agent's function from a value to (JSON, None) or (None, why not), bound before user code runs. */
void capture_bind(PyObject *to_json);

/* Before user code runs, what was compiled of it being `what`: an earlier execution's value counts
 * only if this one's top-level code names it. `len` 0: nothing is captured. */
void capture_begin(PyObject *globals, PyObject *what, const char *name, size_t len);

/* Makes the JSON, once an execution, if the variable is to be told. -1 with a stop's exception;
 * whatever else goes wrong becomes the reason. */
int capture_make(PyObject *globals);

/* The JSON and why there is none, UTF-8; either may be NULL. Borrowed until the next execution. */
PyObject *capture_value(void);
PyObject *capture_error(void);

#endif
