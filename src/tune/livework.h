/* The work in the background of a live handle: one step after the other, each on whatever thread it comes to. */
#ifndef KILN_TUNE_LIVEWORK_H
#define KILN_TUNE_LIVEWORK_H

#include "tune/live.h"

/* Takes what is loaded, if that takes no time, and lets threads of the service do the rest. The work has a reference of
 * its own until it has ended. Does not fail: what goes wrong is what the handle ends with. */
void kiln__live_start(kiln_live *live);

/* Ends it with a status and the report of a failure, which is taken over. With the lock held. */
void kiln__live_end_locked(kiln_live *live, kiln_status status, kiln_report *report);

/* Lets go of a reference. */
void kiln__live_release(kiln_live *live);

#endif
