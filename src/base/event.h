/* Events: what a service does, told to the host's function and, under a profiler, as ranges of NVTX. */
#ifndef KILN_BASE_EVENT_H
#define KILN_BASE_EVENT_H

#include "base/log.h"
#include <stdatomic.h>

/* Whether anything in this process wants events: a launch looks at nothing else. */
extern atomic_bool kiln__event_wanted;

/* Notes the host's function, which may be NULL, and whether a profiler takes ranges: it names its library in
 * NVTX_INJECTION64_PATH. */
void kiln__event_init(kiln__log *log, kiln_event_fn fn, void *data);

/* Tells of the beginning and of the end of one thing, on one thread. They nest. Not for loops: the callers look at
 * kiln__event_wanted first. */
void kiln__event_tell_begin(const kiln__log *log, kiln_event_kind kind, const char *name);
void kiln__event_tell_end(const kiln__log *log, kiln_event_kind kind, const char *name, kiln_status status,
                          uint64_t ns);

static inline bool kiln__event_is_wanted(void)
{
    return atomic_load_explicit(&kiln__event_wanted, memory_order_relaxed);
}

static inline void kiln__event_begin(const kiln__log *log, kiln_event_kind kind, const char *name)
{
    if (kiln__event_is_wanted())
        kiln__event_tell_begin(log, kind, name);
}

static inline void kiln__event_end(const kiln__log *log, kiln_event_kind kind, const char *name, kiln_status status,
                                   uint64_t ns)
{
    if (kiln__event_is_wanted())
        kiln__event_tell_end(log, kind, name, status, ns);
}

#endif
