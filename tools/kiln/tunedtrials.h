/* Results of tuning, as trials for tables and pictures. */
#ifndef KILN_TOOLS_TUNEDTRIALS_H
#define KILN_TOOLS_TUNEDTRIALS_H

#include "jsonout.h"
#include "trials.h"

/* Adds a group: what `kiln tune --json` tells of a spec. Beside it the impossible combinations, and the
 * ceiling, which is measured unless the user has ended the tuning. Does nothing where no file is wanted. Returns as trials_begin does. */
int tunedtrials_add(struct trials *trials, struct session *session, const json_t *result);

#endif
