/* Ctrl-C in a command that can end early with what it knows. */
#ifndef KILN_TOOLS_INTERRUPT_H
#define KILN_TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT, or SIGTERM if `terminate`, is only noted; the second one ends the command at once. */
void interrupt_catch(bool terminate);

/* Any thread. */
bool interrupt_seen(void);

/* From now on signals do what they did before interrupt_catch. */
void interrupt_release(void);

#endif
