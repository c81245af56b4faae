/* Whether kernels compute what they should: each result is compared, on its device, with one reference, which has itself
 * been checked against the cpu backend. */
#ifndef KILN_TUNE_PROOF_H
#define KILN_TUNE_PROOF_H

#include "service/service.h"
#include "tune/arrays.h"

/* Told right before and right after launches of a kernel that is not trusted yet; not after a launch that failed. */
typedef struct kiln__watch {
    void (*launching)(void *data, bool begins);
    void *data;
} kiln__watch;

typedef struct kiln__proof {
    const kiln__arrays *arrays;
    kiln_kernel *count; /* counts differences on the device */
    void *want;         /* what is right */
    void *found;        /* what it found */
} kiln__proof;

/* What came of a check. */
typedef struct kiln__proof_result {
    uint64_t wrong, first; /* how many elements differ, and the least index of one */
    bool overrun;          /* something was written behind the output */
} kiln__proof_result;

/* Makes the reference for a spec's op and dtype on the device and the inputs of the arrays' first set, with the geometry of
 * `spec`, which is resolved for that device. Borrows the arrays. The first period of the random values is compared with the
 * cpu backend (on the cpu itself: with launches of few elements), the others with the first. What the cpu computes is the op
 * that a template of own arithmetic names as its reference, else the template's cpu twin; where it has neither, nothing is
 * compared but the variants with each other. `watch` may be NULL. No get leaves a trace. kiln__proof_fini is right also
 * after a failure. KILN_EMISMATCH: the reference is wrong; and the errors of kiln_get and kiln_launch. */
kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln_spec *spec, const kiln__arrays *arrays,
                             const kiln__watch *watch, kiln_report *report);
void kiln__proof_fini(kiln__proof *proof);

/* Launches a kernel on the first set, whose output is full of poison, and compares. Bit for bit; any NaN equals any NaN. */
kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__proof_result *out, kiln_report *report);

#endif
