/* Changing stacks: the only assembly of the project, in switch_<cpu>.S.
 *
 * A side that does not run is described by one number, its stack pointer, below which lie the
 * registers that a function must preserve and the floating-point control words. The guest side
 * runs with the control words that a new thread has, whatever the host's are, and cannot change
 * them: wasm has no instruction for it. */
#ifndef BRU_ENGINE_SWITCH_H
#define BRU_ENGINE_SWITCH_H

#include <stdint.h>

/* Why a guest side gave way. */
typedef enum switch_code {
    SWITCH_RETURNED,
    SWITCH_PARKED,
    SWITCH_STOPPED, /* a door said so */
    SWITCH_MARKED,  /* run.mark says why */
    SWITCH_TRAPPED  /* instance.trap says why */
} switch_code;

/* Saves this side in `*host_sp` and calls fn(arg) on the stack that ends at `top`, a multiple of
 * 16. Answers SWITCH_RETURNED when fn returns, or what switch_park or switch_drop was given. */
int switch_start(void **host_sp, void *top, void (*fn)(void *), void *arg);

/* Saves the guest side in `*guest_sp` and goes on at the host side, whose switch_start or
 * switch_resume answers `code`. Returns after a switch_resume, maybe on another thread. */
void switch_park(void **guest_sp, void *host_sp, int code);

/* Saves this side in `*host_sp` and goes on where switch_park parked. Answers as switch_start. */
int switch_resume(void **host_sp, void *guest_sp);

/* As switch_park, but nothing is saved: the guest side is forgotten. */
_Noreturn void switch_drop(void *host_sp, int code);

/* Where a signal handler lets the thread go on to the same end: with the stack pointer at host_sp
 * and `code` in the register of results. Not to be called. */
void switch_land(void);

/* From the guest side: calls fn(arg) on the host's stack, below what is saved there, and with the
 * host's control words. */
void switch_call(void *host_sp, void (*fn)(void *), void *arg);

#endif
