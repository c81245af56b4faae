/* Ctrl-C in a command that can end early with the results so far. */
#ifndef KILN_TOOLS_INTERRUPT_H
#define KILN_TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT, or SIGTERM if `terminate`, is only noted; the second one ends the command at once. */
void interrupt_catch(bool terminate);

/* Any thread. */
bool interrupt_seen(void);

/* Restores the handling of signals before interrupt_catch. */
void interrupt_release(void);

#endif
