/* Ctrl-C in a command that can end early with the results so far. */
#ifndef KILN_TOOLS_INTERRUPT_H
#define KILN_TOOLS_INTERRUPT_H

#include <stdbool.h>

/* From now on the first SIGINT, or SIGTERM if `terminate`, is only noted; the second one ends the command at once. */
void interrupt_catch(bool terminate);

/* Notes a signal that the caller has caught. Any thread, and a signal handler. */
void interrupt_note(int signal_number);

/* Any thread. */
bool interrupt_seen(void);

/* The exit status after an interrupt, which is a shell's: 130 for SIGINT, 143 for SIGTERM. */
int interrupt_status(void);

/* Restores the handling of signals before interrupt_catch. */
void interrupt_release(void);

#endif
