/* Trials of kernels: launches whose results are compared, and times against plain copies of the same traffic. */
#ifndef KILN_TOOLS_TRIAL_H
#define KILN_TOOLS_TRIAL_H

#include "cli/common.h"

typedef struct verified_launch {
    kiln_verification found;
    bool differs; /* the results are wrong */
} verified_launch;

/* Launches a kernel by its signature and compares every element with the cpu's, bit for bit. Returns STATUS_DONE, or
 * STATUS_FAILED after a message. */
int verify_launch(verified_launch *out, struct session *session, kiln_kernel *kernel, const uint64_t *sizes,
                  size_t size_count, const kiln_arg *args, size_t arg_count);

/* A launch, and kiln_contender.submit for it. */
typedef struct launch_job {
    kiln_kernel *kernel;
    const uint64_t *sizes;
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
    kiln_report *report; /* says why a launch failed */
} launch_job;
kiln_status submit_launch(void *data, void *stream);

/* The bounds of a tolerance that are not 0, as a template declares them: "ulp 2 absolute 1e-6"; "": equal bits. */
char *tolerance_text(double ulp, double relative, double absolute);

/* A plain copy, made in two ways: by the device and by a kernel. */
typedef struct copy_job {
    kiln_device *device;
    void *to;
    const void *from;
    uint64_t bytes; /* a multiple of 4, not 0 */
    kiln_kernel *kernel;
    kiln_report *report;
} copy_job;

/* The bytes of a copy that reads and writes as much as a launch does. */
uint64_t copy_bytes(uint64_t traffic);

/* Gets the kernel of a copy for the target of a canonical spec; the caller releases it. */
kiln_status copy_kernel(copy_job *job, kiln_service *service, const char *spec);

/* kiln_contender.submit for the two ways of a copy_job. */
kiln_status submit_copy(void *data, void *stream);
kiln_status submit_copy_kernel(void *data, void *stream);

/* Samples of contenders that were timed in the same rounds. */
typedef struct paired {
    double median;    /* over the rounds, of one contender's time over another's in the same round */
    double low, high; /* its 99% interval, by order: 0 and infinity below 8 rounds */
} paired;

/* The sample of contender c in round r is samples[r * contenders + c]. */
paired paired_ratio(const double *samples, size_t contenders, uint32_t rounds, size_t one, size_t other);

/* For qsort of doubles. */
int paired_order(const void *a, const void *b);

#endif
