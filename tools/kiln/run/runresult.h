/* How a kiln run ends: the result's file, and what is said of it. */
#ifndef KILN_TOOLS_RUNRESULT_H
#define KILN_TOOLS_RUNRESULT_H

#include <kiln/kernel.h>

#include "cli/common.h"
#include "files/npy.h"
#include "files/output.h"
#include "kernels/verify.h"

/* What was asked for beside the result. */
typedef struct run_wishes {
    bool verify, time, stats, json;
} run_wishes;

typedef struct run_result {
    run_wishes wishes;
    const npy_array *array; /* the result's shape and type */
    const void *data;       /* in host memory */
    const kiln_service *service;
    const kiln_kernel_info *kernel;
    const kiln_device_info *device;
    const char *sizes;               /* "rows=3 cols=4", or NULL */
    double ms;                       /* of a launch */
    uint64_t bytes;                  /* that a launch reads and writes */
    const verified_launch *verified; /* NULL: it was not verified */
} run_result;

/* If `status` is STATUS_DONE, writes the file, puts it in place and tells of it: on stdout, or where the file itself
 * goes there on stderr. Of a result that differs only JSON tells. Returns the exit status. */
int run_result_give(const run_result *result, struct output *output, int status);

#endif
