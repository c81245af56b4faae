/* Launches whose results are compared with those of the cpu. */
#ifndef KILN_TOOLS_VERIFY_H
#define KILN_TOOLS_VERIFY_H

#include <kiln/tune.h>

#include "cli/common.h"

typedef struct verified_launch {
    kiln_verification found;
    bool differs; /* the results are wrong */
} verified_launch;

/* Launches a kernel by its signature and compares every element, bit for bit. Returns STATUS_DONE, or STATUS_FAILED
 * after a message. */
int verify_launch(verified_launch *out, struct session *session, kiln_kernel *kernel, const uint64_t *sizes,
                  size_t size_count, const kiln_arg *args, size_t arg_count);

/* The same for a plain kernel (signature.h), whose arrays have n elements. */
int verify_launch_n(verified_launch *out, struct session *session, kiln_kernel *kernel, uint64_t n, void *result,
                    const void *const *in);

#endif
