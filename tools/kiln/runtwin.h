/* Checking the result of a kernel, run by its signature, against its cpu twin. */
#ifndef KILN_TOOLS_RUNTWIN_H
#define KILN_TOOLS_RUNTWIN_H

#include "common.h"
#include "runslots.h"

/* Compares the result, in host memory, with what the cpu twin of the kernel that `info` tells of makes of the same inputs. Any
 * NaN equals any NaN. *differs says whether a difference was found. Returns STATUS_DONE, or the exit status after a
 * message. */
int runtwin_verify(bool *differs, struct session *session, const kiln_kernel_info *info, const run_slots *slots);

#endif
