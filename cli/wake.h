/* Between ctrl_c.c and io.c alone. */
#ifndef BRUMATE_CLI_WAKE_H
#define BRUMATE_CLI_WAKE_H

#include "cli.h"

/* Readable once Ctrl-C was pressed, until the presses are forgotten; -1: never. */
int ctrl_c_wake(const ctrl_c *c);

/* Takes one wake, so that the next io_wait() sleeps again. The presses still count. */
void ctrl_c_woken(ctrl_c *c);

#endif
