/* `kiln warm --check`: what is missing from the cache, without compiling. */
#ifndef KILN_TOOLS_WARMCHECK_H
#define KILN_TOOLS_WARMCHECK_H

#include "warm/worklist.h"

/* Looks for each item of the list and prints those that a cold process would have to compile, one spec on each line of
 * stdout, so that the output is a manifest; or one JSON object. Returns STATUS_DONE when all were found, else
 * STATUS_FAILED, or STATUS_USAGE where every spec was refused for what it says. */
int warm_check(struct worklist *list, struct session *session, bool json);

#endif
