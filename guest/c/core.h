/* What the reactor needs of CPython beyond its public API: the cells that stop it softly, immortal
 * objects, the end of a program. All assumptions about a CPython version live in core.c. */
#ifndef BRU_GUEST_CORE_H
#define BRU_GUEST_CORE_H

#include <Python.h>

#include "protocol.h"

/* Fills the addresses of the stop's cells. */
void core_stop_publish(agent_control *control);

/* `on_trip` is called by CPython when C code polls for signals after trip_one and trip_any were
 * set; it should raise what core_stop_take() answers. The reference is kept. Only after `_signal`
 * has been imported, which resets all handlers. */
void core_stop_handle(PyObject *on_trip);

/* Takes back a stop that was asked for and not raised yet: a borrowed, immortal exception type, or
 * NULL if there is none. Afterwards no cell is set. */
PyObject *core_stop_take(void);

/* Makes every object that is alive immortal, so that using one writes no reference count and leaves
 * its page shared with the image. They are never freed: only for what a whole life needs, at boot.
 */
void core_immortalise(void);

/* Uses up the free blocks that boot left between live ones in CPython's pools of small objects, so
 * that new objects stand together on fresh pages instead of each writing to another page of the
 * image. */
void core_pools_pack(void);

/* Gives a random.Random a state of its own, made from its present one and 16 bytes of entropy: like
 * seed(), in a tenth of the time. -1, and nothing done, if it is not the object that is known here.
 */
int core_random_stir(PyObject *random, const unsigned char entropy[16]);

/* Empties a module as CPython does when a program ends, so that destructors run. */
void core_module_clear(PyObject *module);

#endif
