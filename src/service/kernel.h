/* Loaded kernels. */
#ifndef KILN_SERVICE_KERNEL_H
#define KILN_SERVICE_KERNEL_H

#include "service/loaded.h"
#include "service/runtime.h"
#include <kiln/kernel.h>

struct kiln_kernel {
    /* What a launch reads: one cache line, which nobody writes. */
    const kiln__backend_vtable *vtable;
    kiln__module *module;
    const kiln__plan *plan; /* the signature; the kernel's. NULL: a function of a source */
    uint32_t entry_count;
    uint32_t generation;             /* os/fork.h */
    uint32_t odd[KILN__ENTRIES_MAX]; /* for each entry, the low bits that none of its pointers may have */
    /* What information reads. */
    kiln__rule rule;
    kiln__loaded *program;          /* of a function of a source, else NULL, as the next */
    const kiln__function *function; /* in the program */
    kiln_signature *signature;
    kiln__runtime *runtime;
    kiln_device *device;
    char *spec;
    kiln__target target;
    kiln_origin origin;
    double compile_ms;
    struct kiln__held *held; /* its place in the table of kernels, which guards it */
    atomic_uint refs;        /* last: threads that get and release must not slow down those that launch */
};

/* Wraps a loaded module, which it takes over also on failure. Retains the runtime. One reference. NULL: out of memory. */
kiln_kernel *kiln__kernel_new(kiln__runtime *runtime, kiln_device *device, kiln__module *module,
                              const kiln__unit *unit);

/* The kernel of a function of a program, which it retains. One reference. NULL: out of memory. */
kiln_kernel *kiln__kernel_of_function(kiln__loaded *program, const kiln__function *function);

/* Fills all but the size. */
void kiln__kernel_info(const kiln_kernel *kernel, kiln_kernel_info *out);

/* References; the last one unloads the module and lets go of the runtime. NULL is allowed. */
kiln_kernel *kiln__kernel_retain(kiln_kernel *kernel);
void kiln__kernel_release(kiln_kernel *kernel);

/* Checks the arguments and submits a kernel of a template; the contract is kiln_launch's. */
kiln_status kiln__kernel_launch(const kiln_kernel *kernel, const uint64_t *sizes, size_t size_count,
                                const kiln_arg *args, size_t arg_count, void *stream, kiln_report *report);

/* The same for a function of a source, with a complete grid. */
kiln_status kiln__kernel_launch_grid(const kiln_kernel *kernel, const kiln_grid *grid, const kiln_arg *args,
                                     size_t arg_count, void *stream, kiln_report *report);

/* The same for a kernel whose plan is flat: its arrays have n elements each, first those that it writes, then the others.
 * KILN_EINVAL where it takes other arguments. */
kiln_status kiln__kernel_launch_n(const kiln_kernel *kernel, uint64_t n, void *const *outs, size_t out_count,
                                  const void *const *ins, size_t in_count, void *stream, kiln_report *report);

#endif
