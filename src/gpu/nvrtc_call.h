/* The way into NVRTC: with stack enough, and never while its destructors run. */
#ifndef KILN_GPU_NVRTC_CALL_H
#define KILN_GPU_NVRTC_CALL_H

#include "gpu/nvrtc.h"

/* Calls fn(data, report), which may call NVRTC; returns its status. On a new thread if less than 1 MiB of the
 * caller's stack is left. Until fn has returned, exit() waits. fn may not wait for a thread that may be inside
 * exit(). KILN_ECANCELED if the process is ending; KILN_ENOMEM. Any thread. */
kiln_status kiln__nvrtc_call(kiln_status (*fn)(void *data, kiln_report *report), void *data, kiln_report *report);

/* Lets exit() wait for calls from now on. Called inside a call, before NVRTC is opened, `nvrtc` being NULL, and
 * after that. KILN_ENOMEM. */
kiln_status kiln__nvrtc_drain_at_exit(const kiln__nvrtc *nvrtc, kiln_report *report);

#endif
