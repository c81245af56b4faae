/* Timing contenders against each other. What takes less time on a GPU than the host needs to submit it would be timed as the
 * host submits it; such a contender's submissions are put onto a tape (backend/backend.h), and replays of the tape are timed. */
#ifndef KILN_TUNE_MEASURE_H
#define KILN_TUNE_MEASURE_H

#include "backend/backend.h"

/* What contenders that are measured against each other have in common. The first to settle decides whether tapes are used and
 * how long they are, so that what a replay adds to a sample is the same for all. */
typedef struct kiln__pace {
    bool tapes;     /* set by the owner: they submit nothing but what a tape can hold */
    uint32_t cycle; /* set by the owner: after so many submissions they begin anew; 0: each is like the one before */
    bool is_set;
    uint32_t length; /* submissions on a tape; 0: none are used */
} kiln__pace;

/* How one contender is timed. All zero before it has settled. */
typedef struct kiln__gauge {
    uint32_t repeats; /* submissions in a sample that is not taken from a tape */
    kiln__tape *tape; /* NULL: there is none, or it has failed */
    uint32_t length;  /* submissions on it */
    uint32_t replays; /* of it in a sample */
    bool failed;      /* a tape was wanted, and there could be none */
} kiln__gauge;

/* As kiln_measure (kiln.h), with the device's own clock; with `tapes` as kiln_measure_launches (tune.h). How often a contender is
 * repeated within a sample is found before the first round, in the first warm-up round, of which there always is one.
 * `out` is all zero on failure. */
kiln_status kiln__measure(kiln_device *device, const kiln_contender *contenders, size_t count, bool tapes,
                          uint32_t warmup, uint32_t rounds, kiln_timing *out, double *samples, kiln_report *report);

/* Finds how to time a contender: the repeats that make a sample last half a millisecond, or a tape. Also warms up. For a gauge
 * that has not settled; kiln__gauge_fini is right also after a failure. */
kiln_status kiln__measure_settle(kiln_device *device, const kiln_contender *contender, kiln__pace *pace,
                                 kiln__gauge *gauge, kiln_report *report);

/* One sample: milliseconds of a submission. A tape that fails is discarded, and what it holds is submitted from then on. */
kiln_status kiln__measure_sample(kiln_device *device, const kiln_contender *contender, kiln__gauge *gauge, double *out,
                                 kiln_report *report);

/* Discards the tape: before what is on it goes away. */
void kiln__gauge_fini(kiln_device *device, kiln__gauge *gauge);

#endif
