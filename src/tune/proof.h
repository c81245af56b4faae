/* Whether kernels compute what they should: each result is compared, on its device, with one reference, which has itself
 * been checked against the cpu backend where that can compute the same. */
#ifndef KILN_TUNE_PROOF_H
#define KILN_TUNE_PROOF_H

#include "tune/arrays.h"
#include "tune/compare.h"

/* Told right before and right after launches of a kernel that is not trusted yet; not after a launch that failed. */
typedef struct kiln__watch {
    void (*launching)(void *data, bool begins);
    void *data;
} kiln__watch;

typedef struct kiln__proof {
    const kiln__arrays *arrays;
    kiln__comparer comparer;
    void *want;                       /* what is right, of all arrays that are written */
    uint64_t want_at[KILN__ARGS_MAX]; /* where that of each is */
    bool alone;                       /* nothing else computes the same: the reference is launched twice */
    const char *against;              /* what the reference agrees with, in words; static */
} kiln__proof;

/* What came of a check. */
typedef struct kiln__proof_result {
    uint64_t wrong, first;    /* how many elements differ, and the least index of one in `array` */
    const kiln__array *array; /* the first that has one, or NULL; borrowed from the arrays */
    bool overrun;             /* something was written behind an array */
} kiln__proof_result;

/* Makes the reference on the device and the arrays' first set, with the geometry of `spec`, which is resolved for that
 * device and has made the workload. Borrows the arrays. What it is compared with is, of these, the first that there is:
 *
 * - of an elementwise kernel that writes one array, the op that the template names as its reference, on the cpu, or else the
 *   template's cpu twin: for the first period of the random values, in launches of few elements; the other periods are compared
 *   with the first;
 * - of another kernel, on a GPU, the template's cpu twin on the same values;
 * - a second launch of the same kernel on memory with another poison.
 *
 * `watch` may be NULL. No get leaves a trace. kiln__proof_fini is right also after a failure. KILN_EMISMATCH: the reference is
 * wrong, or not the same twice; and the errors of kiln_get and kiln_launch. */
kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln__fields *spec,
                             const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report);
void kiln__proof_fini(kiln__proof *proof);

/* Launches a kernel on the first set, whose written arrays are full of poison or as they were, and compares. Bit for bit; any
 * NaN equals any NaN. */
kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__proof_result *out, kiln_report *report);

/* ---- For the files that make the reference */

/* What is right of an array that is written. */
void *kiln__proof_want(const kiln__proof *proof, uint32_t array);

/* KILN_EMISMATCH: "SPEC is not equal to AGAINST: so many elements differ ..." */
kiln_status kiln__proof_refuse(const kiln__fields *spec, const char *against, const kiln__array *array,
                               kiln__difference found, kiln_report *report);

/* The spec of what computes the same on the cpu: the op that the template names, or the template with its defaults.
 * KILN_ESPEC. */
kiln_status kiln__proof_cpu_spec(kiln__fields *out, kiln__expr *room, const kiln__fields *spec, kiln_report *report);

/* Compares the reference with the cpu's: a part of array number `output`, of elementwise kernels (tune/sample.c), or all that is
 * written (tune/twin.c). */
kiln_status kiln__proof_check_sample(const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                     uint32_t output, const kiln__watch *watch, kiln_report *report);
kiln_status kiln__proof_check_twin(const kiln__proof *proof, kiln_service *service, const kiln__fields *spec,
                                   kiln_report *report);
void kiln__watch_tell(const kiln__watch *watch, bool begins);

#endif
