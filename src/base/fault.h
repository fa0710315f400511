/* Failures on purpose. Every allocation, and every system call that takes a resource, asks
 * fault_hit() first; a test arms it to fail the n-th time on the thread that armed it. */
#ifndef BRU_BASE_FAULT_H
#define BRU_BASE_FAULT_H

#include <stdbool.h>

/* Whether this call is the one to fail. Costs one thread-local load when nothing is armed. */
bool fault_hit(void);

/* Fails the n-th hit (1 is the next) of this thread; 0 disarms. */
void fault_arm(unsigned n);

/* How many hits since fault_arm, and whether the armed one came. */
unsigned fault_count(void);
bool fault_came(void);

#endif
