/* Whether kernels compute what they should: each result is compared, on its device, with one reference, which has
 * itself been checked against the cpu backend where that can compute the same. */
#ifndef KILN_TUNE_PROOF_H
#define KILN_TUNE_PROOF_H

#include "tune/arrays.h"
#include "tune/compare.h"
#include "tune/verify.h"

typedef struct kiln__proof {
    const kiln__arrays *arrays;
    kiln__comparer comparer;
    void *want;                       /* what is right, of all arrays that are written */
    uint64_t want_at[KILN__ARGS_MAX]; /* where that of each is */
    const char *against;              /* what the reference agrees with, in words; static */
} kiln__proof;

/* What came of a check. */
typedef struct kiln__proof_result {
    uint64_t wrong, first;    /* how many elements differ, and the least index of one in `array` */
    const kiln__array *array; /* the first that has one, or NULL; borrowed from the arrays */
    bool overrun;             /* something was written behind an array */
} kiln__proof_result;

/* Makes the reference on the device and the arrays' first set, with the geometry of `spec`, which is resolved for
 * that device and has made the workload. Borrows the arrays. It is compared with what kiln__verify_against names: of
 * an elementwise kernel the first period of the random values, and the other periods with the first. Where there is
 * nothing to compare with, the same kernel is launched once more, on memory with another poison.
 *
 * `watch` may be NULL. No get leaves a trace. kiln__proof_fini is right also after a failure. KILN_EMISMATCH: the
 * reference is wrong, or not the same twice; and the errors of kiln_get and kiln_launch. */
kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln__fields *spec,
                             const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report);
void kiln__proof_fini(kiln__proof *proof);

/* Launches a kernel on the first set, whose written arrays are full of poison or as they were, and compares. Bit for
 * bit; any NaN equals any NaN. */
kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__proof_result *out, kiln_report *report);

#endif
