/* Launches: checks sizes and arguments and submits them to the kernel's backend. */
#ifndef KILN_SERVICE_LAUNCH_H
#define KILN_SERVICE_LAUNCH_H

#include "service/program.h"
#include "spec/loop.h"

/* Submits a kernel of a template; the contract is kiln_launch's. */
kiln_status kiln__kernel_launch(const kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

/* The same for a function of a source, with a complete grid. */
kiln_status kiln__kernel_launch_grid(const kiln_kernel *kernel, const kiln_grid *grid, const kiln_arg *args,
                                     size_t arg_count, void *stream, kiln_report *report);

/* The same for a kernel whose plan is flat: its arrays have n elements each, first those that it writes, then the
 * others. KILN_EINVAL if it takes other arguments. */
kiln_status kiln__kernel_launch_n(const kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count,
                                  const void *const *ins, size_t in_count, void *stream, kiln_report *report);

/* Submits the kernel of a loop that has elements, with its number of scalars. The loop's tensors have been checked, and
 * the kernel's arrays are these in order. KILN_EINVAL: the loop is too large; KILN_ELAUNCH. */
kiln_status kiln__kernel_launch_loop(const kiln_kernel *kernel, const kiln__loop *loop, const double *scalars,
                                     void *stream, kiln_report *report);

#endif
