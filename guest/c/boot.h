/* Starting the interpreter and the agent, once, when an image is built. */
#ifndef BRU_GUEST_BOOT_H
#define BRU_GUEST_BOOT_H

#include <stddef.h>

/* Starts CPython. 0, or -1 after posting why. */
int boot_python(void);

/* Posts the current exception as a AGENT_POST_FAILURE, and clears it. */
void boot_failed(const char *what);

/* When all is warm: makes what is alive permanent, leaves room in the heap, and clears memory that
 * holds nothing any more, so that the image is small and a short program grows no memory. */
void boot_settle(void);

#endif
