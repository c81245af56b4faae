/* The ceiling: what a plain copy of the same traffic takes. */
#ifndef KILN_TUNE_CEILING_H
#define KILN_TUNE_CEILING_H

#include "service/service.h"
#include "tune/arrays.h"
#include "tune/measure.h"

/* The two copies: the device's own, and a kernel that does nothing else. */
enum { KILN__COPIES = 2 };

typedef struct kiln__ceiling {
    const kiln__arrays *arrays;
    kiln_kernel *kernel;
    uint64_t bytes; /* that are copied: half of what a launch reads and writes, if the arrays hold that */
    double scale;   /* that half over what is copied */
    kiln__pace pace;
    kiln__gauge gauges[KILN__COPIES];
    uint32_t set;        /* of the arrays, for the next copy */
    kiln_report *report; /* of the sample that is being taken */
} kiln__ceiling;

/* For kernels of that target which are measured on these arrays; the arrays are borrowed. Blocks until the copy
 * kernel is there, which leaves no trace in the service. kiln__ceiling_fini is right also after a failure. The
 * errors of kiln_get. */
kiln_status kiln__ceiling_init(kiln__ceiling *out, kiln_service *service, const kiln__arrays *arrays,
                               const kiln__target *target, kiln_report *report);
void kiln__ceiling_fini(kiln__ceiling *ceiling);

/* One sample: milliseconds of one of the copies. It goes from one half of a set of arrays to the other, so that
 * kernels of out, inputs and n find other values there afterwards, random ones as before; those with arguments of
 * their own find the same. The errors of kiln_copy and kiln_launch. */
kiln_status kiln__ceiling_sample(kiln__ceiling *ceiling, size_t copy, double *ms, kiln_report *report);

#endif
