/* A workload with its arrays, for hosts that measure kernels with arguments of their own themselves. */
#ifndef KILN_TUNE_STAGE_H
#define KILN_TUNE_STAGE_H

#include "service/service.h"
#include "tune/arrays.h"
#include <kiln/tune.h>

struct kiln_workload {
    kiln_service *service;
    kiln_kernel *kernel;
    kiln__arrays arrays;
    kiln_arg args[KILN__ARGS_MAX]; /* for launches on the one set */
};

/* The contracts are those of kiln_workload_make, kiln_workload_free and kiln_workload_reset. */
kiln_status kiln__stage_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln__given *given,
                             kiln_report *report);
void kiln__stage_free(kiln_workload *stage);
kiln_status kiln__stage_reset(const kiln_workload *stage, kiln_report *report);

#endif
