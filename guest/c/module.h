/* The built-in module `_brumate`: what the agent's Python reaches the host by. */
#ifndef BRU_GUEST_MODULE_H
#define BRU_GUEST_MODULE_H

#include <Python.h>

#include "protocol.h"

/* What the module and the reactor share; one per instance, since an instance is a memory. */
typedef struct guest_state {
    agent_control control;
    PyObject *soft_type, *interrupt_type; /* immortal */
    PyObject *struck;                     /* the last instance made of one of them, or NULL */
    PyObject *lines;                      /* linecache.cache */
    PyObject *main;                       /* the module that user code runs in */
    uint32_t flags;                       /* of the execution that is open */
    int open;                             /* an execution began and has posted no result yet */
    int quiet;                            /* at boot: nothing goes to the host */
    int loop_used;                        /* plain code left something on the agent's loop */
} guest_state;

extern guest_state guest;

PyObject *module_init(void);

/* Completes the soft stop, once the modules of boot are loaded. -1 with an exception. */
int module_stops_ready(void);

/* Posts to the host; answers as the import does, 0 while guest.quiet. */
int module_post(uint32_t kind, const void *bytes, size_t len);

/* Takes up to `len` bytes of replies that a post announced: how many they were. */
size_t module_take(char *bytes, size_t len);

/* Whether the exception that is set is that of a stop. */
int module_is_stop(void);

/* Posts how the execution ended, once: later calls for the same execution do nothing. The texts are
 * str or NULL; if it ended well, the captured variable goes with it. 0, or -1 with no exception set
 * if a text could not be encoded. */
int module_result(uint32_t end, int32_t code, PyObject *type, PyObject *text, PyObject *traceback);

/* Keeps the source of `name`, so that tracebacks show its lines. Forgets the oldest beyond a bound.
 * Sets no exception. */
void module_remember(PyObject *name, const char *source, size_t len);

/* Forgets the source that was remembered last, if it is that of `name`. Sets no exception. */
void module_forget(PyObject *name);

#endif
