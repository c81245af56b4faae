/* Structs that begin with their size: a program built against other headers may know fewer or more fields. */
#ifndef KILN_API_STRUCTS_H
#define KILN_API_STRUCTS_H

#include "base/report.h"
#include "service/program.h"
#include <kiln/tune.h>

/* Fills as much of the caller's struct as it has; its own size field stays. KILN_EINVAL if that cannot be right. */
kiln_status kiln__hand_out(void *out, const void *full, size_t full_size);

/* Copies what the caller's struct, of the type `name`, has over the defaults in `full`; NULL has nothing.
 * KILN_EINVAL if its size cannot be right, or if it has something that this library does not know. */
kiln_status kiln__take_in(void *full, size_t full_size, const void *given, const char *name, const char *stage,
                          kiln_report *report);

/* Completes the grid of a launch of a function of a source; zeros for another kernel. KILN_EINVAL: the first takes a
 * grid and no sizes, the other no grid. */
kiln_status kiln__take_grid(kiln_grid *full, const kiln_kernel *kernel, const kiln_grid *grid, size_t size_count,
                            kiln_report *report);

/* Completes the host's work. KILN_EINVAL as kiln__take_in. */
kiln_status kiln__take_work(kiln_work *full, const kiln_work *work, kiln_report *report);

/* Completes the host's tuning options, and in `work` the work that they name from then on. KILN_EINVAL for what
 * cannot be right. */
kiln_status kiln__take_tune_options(kiln_tune_options *full, kiln_work *work, const kiln_tune_options *options,
                                    kiln_report *report);

#endif
