/* kiln run for kernels that take more than arrays of one type and shape: by their signatures. */
#ifndef KILN_TOOLS_RUNARGS_H
#define KILN_TOOLS_RUNARGS_H

#include <kiln/kernel.h>

#include "cli/common.h"
#include "cli/options.h"
#include "run/runresult.h"

typedef struct runargs {
    struct session *session;
    kiln_spec **spec;                      /* its dtype is set from the first input where it is open */
    const text_list *in, *numbers, *sizes; /* paths; "NAME=VALUE"; the same, of sizes that no input has */
    const char *out;
    run_wishes wishes;
} runargs;

/* Reads the inputs, takes the sizes from their shapes, launches, writes the one array that the kernel makes and
 * tells of it. Returns the exit status. */
int runargs_run(const runargs *args);

#endif
