/* A tuning or a sweep under way: its turn on the device, its contest, its progress and its result. For one thread. */
#ifndef KILN_TUNE_SESSION_H
#define KILN_TUNE_SESSION_H

#include "tune/contest.h"
#include "tune/tuner.h"

/* The owner sets the members before `tuning`; the rest is zero. */
typedef struct kiln__session {
    kiln_service *service;
    const kiln_work *work;     /* complete */
    kiln_progress_fn progress; /* the host's, or NULL */
    void *data;
    kiln_report *report;
    kiln_tuning *tuning; /* its info is kept up to date */
    kiln_device *device;
    kiln__load load;
    kiln__contest contest; /* all zero before it is held */
    uint64_t start, told;  /* kiln__cpu_now_ns */
    atomic_bool stop;      /* the host wants it to end */
} kiln__session;

/* Finds the device for a spec: the one of the work, else the cpu where the spec says target=cpu, else the default
 * device. Makes the tuning. KILN_EINVAL (another service's device), KILN_ENOMEM, and the errors of kiln_device_open. */
kiln_status kiln__session_open(kiln__session *session, const kiln__fields *spec);

/* Makes the workload for `full`, which is `spec` resolved, and describes it in the info. KILN_ESPEC, KILN_EINVAL,
 * KILN_ENOMEM. */
kiln_status kiln__session_prepare(kiln__session *session, const kiln__fields *spec, const kiln__fields *full,
                                  size_t variants);

/* Waits until no other thread of this process tunes on the device, because tunings side by side would falsify each
 * other's times. False: the host wants it to end first. */
bool kiln__session_take_turn(kiln__session *session);

/* Ends the contest, so that nothing of it is on the device, and then the turn. */
void kiln__session_end_turn(kiln__session *session);

/* Tells the host, unless that was done a moment ago. */
void kiln__session_tell(kiln__session *session);

/* Makes the results from the ranking of the contest's variants. KILN_ENOMEM. */
kiln_status kiln__session_rank(kiln__session *session, const kiln__ranked *ranking, size_t count);

/* Gives the tuning to *out after a success, else frees it. Returns the status. */
kiln_status kiln__session_close(kiln__session *session, kiln_status status, kiln_tuning **out);

#endif
