/* A kernel and its arguments, as something that kiln_measure can time. */
#ifndef KILN_TOOLS_SUBMIT_H
#define KILN_TOOLS_SUBMIT_H

#include "cli/common.h"

typedef struct launch_job {
    kiln_kernel *kernel;
    uint64_t n;
    void *out;
    const void *const *in;
    size_t in_count;
    kiln_report *report; /* says why a launch failed */
} launch_job;

/* kiln_contender.submit for a launch_job. */
kiln_status submit_launch(void *data, void *stream);

typedef struct copy_job {
    kiln_device *device;
    void *to;
    const void *from;
    uint64_t bytes;
    kiln_report *report;
} copy_job;

/* kiln_contender.submit for a copy_job. */
kiln_status submit_copy(void *data, void *stream);

#endif
