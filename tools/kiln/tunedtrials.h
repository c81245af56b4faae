/* What tuning has measured, as trials for tables and plots. */
#ifndef KILN_TOOLS_TUNEDTRIALS_H
#define KILN_TOOLS_TUNEDTRIALS_H

#include "jsonout.h"
#include "trials.h"

/* Adds a group: what `kiln tune --json` tells of a spec. If there is a plot, also what that needs beside: the impossible
 * combinations, and the ceiling, which is measured unless somebody has ended the tuning. Does nothing where no file is
 * wanted. Returns as trials_begin does. */
int tunedtrials_add(struct trials *trials, struct session *session, const json_t *result);

#endif
