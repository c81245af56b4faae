/* Launches of a user-defined template whose cpu twin ends the process: one line says which file to look at. */
#ifndef KILN_TOOLS_CRASH_H
#define KILN_TOOLS_CRASH_H

#include "cli/common.h"

/* The question to ask where a launch of this spec ends the process: "does FILE.c read ...?" NULL where the template is
 * Kiln's or has no twin. */
char *crash_question(kiln_service *service, const kiln_spec *spec);

/* Until crash_forget, a fault writes one line with this question, and then ends the process as before. NULL watches
 * nothing. A question that is watched gives way to a new one. */
void crash_watch(const char *question);
void crash_forget(void);

#endif
