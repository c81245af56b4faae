/* One launch of a kernel, checked whole. */
#ifndef KILN_TOOLS_PROVE_H
#define KILN_TOOLS_PROVE_H

#include "bench/benchmemory.h"

typedef struct prove_job {
    kiln_kernel *kernel;
    const kiln_kernel_info *info;
    const dtype *type;
    uint64_t elements;
} prove_job;

/* Launches the kernel once on a poisoned output and, unless `against` is NULL, compares every element: *against gets
 * the name of what with, as kiln_verification has it. Returns STATUS_DONE, or the exit status after a message. */
int prove_kernel(const prove_job *proof, struct session *session, const struct benchmemory *memory,
                 const char **against);

/* The kernel of a plain copy, of f32, for the target of a canonical spec; the caller owns a reference. */
kiln_status prove_copy_kernel(kiln_kernel **out, struct session *session, const char *spec);

#endif
