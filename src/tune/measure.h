/* Timing contenders against each other. */
#ifndef KILN_TUNE_MEASURE_H
#define KILN_TUNE_MEASURE_H

#include "backend/backend.h"

/* As kiln_measure (kiln.h), with the device's own clock. How often a contender is repeated within a sample is found
 * before the first round, in the first warm-up round, of which there always is one. `out` is all zero on failure. */
kiln_status kiln__measure(kiln_device *device, const kiln_contender *contenders, size_t count, uint32_t warmup,
                          uint32_t rounds, kiln_timing *out, double *samples, kiln_report *report);

/* One sample: milliseconds of a submission when `repeats` of them are submitted back to back. */
kiln_status kiln__measure_sample(kiln_device *device, const kiln_contender *contender, uint32_t repeats, double *out,
                                 kiln_report *report);

/* Finds the repeats that make a sample last half a millisecond; also warms up. */
kiln_status kiln__measure_settle(kiln_device *device, const kiln_contender *contender, uint32_t *repeats,
                                 kiln_report *report);

#endif
