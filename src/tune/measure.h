/* Timing contenders against each other. Work that takes less time on a GPU than the host needs to submit it would be
 * timed as the host submits it; such a contender's submissions are put onto a tape (backend/backend.h), and replays
 * of the tape are timed.
 *
 * All contenders that are compared are timed on one basis. A time from a tape is the device's, that of submissions is
 * the host's where the work is short, and a ratio of the two means nothing. So once a wanted tape cannot be had any
 * more, at the beginning or in the middle, all contenders go on without tapes, and samples from tapes are forgotten. No
 * contender is taken out instead: a driver seldom refuses because of one contender, and the first cannot be done
 * without. A tape that fails is made anew once before it comes to that. */
#ifndef KILN_TUNE_MEASURE_H
#define KILN_TUNE_MEASURE_H

#include "backend/backend.h"
#include <kiln/tune.h>

/* The part that contenders which are measured against each other have in common. The first to settle decides whether
 * tapes are used and how long they are, so that a replay adds the same time to the samples of all. */
typedef struct kiln__basis {
    bool tapes;     /* set by the owner: a tape can hold all that they submit */
    uint32_t cycle; /* set by the owner: after so many submissions they begin anew; 0: each is like the one before */
    bool is_set;
    uint32_t length; /* submissions on a tape; 0: none are wanted */
    bool failed; /* a tape that was wanted could not be had: none are used from now on. May be set by the owner, too */
} kiln__basis;

/* How one contender is timed. All zero before it has settled. */
typedef struct kiln__gauge {
    uint32_t repeats; /* submissions in a sample that is not taken from a tape */
    kiln__tape *tape; /* NULL: there is none */
    uint32_t length;  /* submissions on it */
    uint32_t replays; /* of it in a sample */
} kiln__gauge;

/* As kiln_measure (tune.h), whose options are complete, with the device's own clock. How often a contender is
 * repeated within a sample is found before the first round, in the first warm-up round, of which there always is
 * one. Where tapes fail between rounds, the rounds begin anew. `out` is all zero on failure. */
kiln_status kiln__measure(kiln_timing *out, kiln_device *device, const kiln_contender *contenders, size_t count,
                          const kiln_measure_options *options, kiln_report *report);

/* Finds how to time a contender: the repeats that make a sample last half a millisecond, or a tape. Also warms up.
 * Does nothing for a gauge that has settled. kiln__gauge_fini is right also after a failure. */
kiln_status kiln__measure_settle(kiln_device *device, const kiln_contender *contender, kiln__basis *basis,
                                 kiln__gauge *gauge, kiln_report *report);

/* Takes one sample, milliseconds of a submission, and settles first if need be. Where it sets basis->failed, it and all
 * later samples do not compare with the earlier ones. */
kiln_status kiln__measure_sample(kiln_device *device, const kiln_contender *contender, kiln__basis *basis,
                                 kiln__gauge *gauge, double *out, kiln_report *report);

/* Discards the tape, before its kernels and memory go away. */
void kiln__gauge_fini(kiln_device *device, kiln__gauge *gauge);

#endif
