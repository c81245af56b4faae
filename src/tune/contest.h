/* Variants of one kernel against each other: compiled in the background, verified when they are there, then timed
 * sample by sample in the order of the search. */
#ifndef KILN_TUNE_CONTEST_H
#define KILN_TUNE_CONTEST_H

#include "service/queue.h"
#include "tune/measure.h"
#include "tune/search.h"
#include "tune/verify.h"

typedef struct kiln__contest kiln__contest;

typedef struct kiln__variant {
    kiln__contest *contest;
    kiln__fields spec;     /* resolved */
    char *text;            /* canonical */
    kiln__readiness state; /* KILN__READY: it is verified. KILN__OUT: `status` and `problem` say why */
    kiln_status status;
    char problem[320];
    kiln_kernel *kernel; /* NULL while waiting, and where none could be had */
    int registers, local_bytes;
    kiln__gauge gauge;
    uint32_t set; /* of the arrays, for the next submission */
} kiln__variant;

typedef struct kiln__contest_options {
    const kiln__load *load; /* copied */
    bool hot;
    bool keeps_spilled;    /* those that keep registers in memory take part */
    const kiln_skip *skip; /* variants that are out from the start */
    size_t skip_count;
    kiln_trying_fn trying; /* as in kiln_tune_options, or NULL */
    void *data;
} kiln__contest_options;

/* For one thread. */
struct kiln__contest {
    kiln_service *service;
    kiln_device *device;
    kiln__arrays arrays;
    kiln__proof proof;
    kiln__basis basis; /* where its `failed` becomes true, samples from then on do not compare with earlier ones */
    kiln_queue *queue;
    kiln__variant *variants;
    size_t count, waiting;
    bool keeps_spilled;
    const kiln__variant *trying; /* whose launches have begun and are not known to have ended well, or NULL */
    kiln_trying_fn tell;
    void *data;
    kiln_report *report; /* of the sample that is being taken */
};

/* Makes the arrays of the workload and the reference, and asks for all kernels but the skipped ones, in this order;
 * they leave no trace in the service. The first spec makes the reference. All specs are resolved, for this device, and
 * have the same op and dtype. A kernel that takes other arrays than the workload's is out. Blocks until the reference
 * has been compiled and verified. kiln__contest_fini is right also after a failure. KILN_ENOMEM, KILN_EMISMATCH,
 * KILN_EINVAL (the first is to be skipped), and the errors of kiln_get and kiln_launch for the reference. */
kiln_status kiln__contest_init(kiln__contest *out, kiln_service *service, kiln_device *device,
                               const kiln__fields *specs, size_t count, const kiln__contest_options *options,
                               kiln_report *report);

/* Names the variants of a contest that is not held: all wait. kiln__contest_fini is right also after a failure.
 * KILN_ENOMEM. */
kiln_status kiln__contest_name(kiln__contest *out, const kiln__fields *specs, size_t count, kiln_report *report);

/* Gives up the kernels that are not there yet, and unloads the others. */
void kiln__contest_fini(kiln__contest *contest);

/* Takes in the kernels that have come and verifies one of them, so that it does not take long; waits for one, at most
 * `timeout_ms`, if there is none to verify. A kernel that keeps registers in memory (but see keeps_spilled) or cannot
 * be launched is out, unless it is the first. A failure is that of the device, or of the first: KILN_EDEVICE,
 * KILN_ELAUNCH, ... */
kiln_status kiln__contest_gather(kiln__contest *contest, int timeout_ms, kiln_report *report);

/* Counts the variants that wait, are verified and are rejected. */
void kiln__contest_count(const kiln__contest *contest, kiln_tuning_info *out);

/* One sample of a variant that is ready: milliseconds of a launch, on one basis with the samples of all others as
 * long as basis.failed stays as it is (tune/measure.h). */
kiln_status kiln__contest_sample(kiln__contest *contest, size_t variant, double *ms, kiln_report *report);

#endif
