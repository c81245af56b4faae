/* The arrays that kernels are measured on: what they read, of random values, what they write, and as many such sets
 * as make the caches useless. */
#ifndef KILN_TUNE_ARRAYS_H
#define KILN_TUNE_ARRAYS_H

#include "tune/fill.h"
#include "tune/workload.h"

typedef struct kiln__arrays {
    kiln_device *device;
    kiln__load load;
    uint64_t at[KILN__ARGS_MAX]; /* where each array is in a set */
    uint64_t set_bytes;          /* the arrays and what guards them */
    uint32_t sets;
    void *memory;
    void *values;                       /* the first period of what is read, to write it again */
    uint64_t values_at[KILN__ARGS_MAX]; /* where that of each array is */
} kiln__arrays;

/* Makes the arrays of a workload, which is copied. With `hot` there is one set, which may stay in the caches; else
 * so many that what a launch touches of a set (kiln__workload_touches) has left them before its turn comes again, as
 * the other sets' parts are three times the caches' size; but not more than 64, and where launches touch less than
 * whole arrays, not more than fit into an eighth of the memory. Floating-point values are those of
 * kiln__fill_random, whole numbers those of kiln__fill_whole, less than the least extent of any array: they may be
 * indices. kiln__arrays_fini is right also after a failure. KILN_ENOMEM (the device has no room; the report says for
 * what), KILN_EDEVICE. */
kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, const kiln__load *load, bool hot,
                              kiln_report *report);
void kiln__arrays_fini(kiln__arrays *arrays);

/* An array of a set, by its number in the workload. */
void *kiln__arrays_in(const kiln__arrays *arrays, uint32_t set, uint32_t array);
uint64_t kiln__arrays_bytes(const kiln__arrays *arrays, uint32_t array);

/* Writes the values again that the arrays of all sets had: of those that are read and written, or, with `all`, of
 * all that are read. Returns when done; waits for the device once, however many there are. */
kiln_status kiln__arrays_restore(const kiln__arrays *arrays, bool all, kiln_report *report);

/* Makes a set ready for a launch whose result counts: restores it, fills what is only written with the byte `poison`
 * and the guards behind all that is written; tells whether the guards are still whole. */
kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, unsigned char poison, kiln_report *report);
kiln_status kiln__arrays_check_guard(const kiln__arrays *arrays, uint32_t set, bool *whole, kiln_report *report);

/* The arguments of a launch on a set. They borrow the arrays. */
void kiln__arrays_args(const kiln__arrays *arrays, uint32_t set, kiln_arg given[KILN__ARGS_MAX]);

/* Launches a kernel, which fits the workload, on a set. As kiln_launch. */
kiln_status kiln__arrays_launch(const kiln__arrays *arrays, uint32_t set, const kiln_kernel *kernel, void *stream,
                                kiln_report *report);

#endif
