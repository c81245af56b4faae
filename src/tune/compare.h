/* Differences between two results, found on the device where they lie. */
#ifndef KILN_TUNE_COMPARE_H
#define KILN_TUNE_COMPARE_H

#include "service/service.h"
#include "tune/workload.h"

typedef struct kiln__difference {
    uint64_t wrong, first; /* how many elements differ, and the least index of one */
} kiln__difference;

typedef struct kiln__comparer {
    kiln_device *device;
    kiln_kernel *counts[KILN__DTYPE_END]; /* of those dtypes that some written array has */
    void *found;
} kiln__comparer;

/* For what kernels of a workload write, on a device, compiled for `target`. Leaves no trace in the service.
 * kiln__comparer_fini is right also after a failure. The errors of kiln_get. */
kiln_status kiln__comparer_init(kiln__comparer *out, kiln_service *service, kiln_device *device,
                                const kiln__target *target, const kiln__load *load, kiln_report *report);
void kiln__comparer_fini(kiln__comparer *comparer);

/* Compares n elements of an array's type, bit for bit; any NaN of a floating-point type equals any NaN. Whole
 * numbers are compared by the host. Errors: KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__compare(const kiln__comparer *comparer, const kiln__array *type, const void *got, const void *want,
                          uint64_t n, kiln__difference *out, kiln_report *report);

/* Submits once and waits, in the stream in which the device times: the default one would be that of whatever
 * context the host has made current, another device's perhaps. */
kiln_status kiln__run_timed(kiln_device *device, kiln__submit submit, void *data, kiln_report *report);

#endif
