/* The threads that compile a worklist. */
#ifndef KILN_TOOLS_CREW_H
#define KILN_TOOLS_CREW_H

#include "warm/worklist.h"

/* Compiles every item of the list with `threads` threads and fills in what came of it, showing progress on stderr
 * (now and then a line where that is no terminal, if `lines`). An interrupt (SIGINT, SIGTERM) ends it after the
 * compiles in flight; a second one ends the process. Returns whether it was interrupted. */
bool crew_work(struct worklist *list, kiln_service *service, uint32_t threads, bool lines);

/* How many processors this process may use. */
uint32_t crew_processors(void);

#endif
