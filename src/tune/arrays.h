/* The arrays that kernels are measured on: inputs of random values, an output, and as many such sets as make the caches
 * useless. */
#ifndef KILN_TUNE_ARRAYS_H
#define KILN_TUNE_ARRAYS_H

#include "tune/fill.h"

typedef struct kiln__arrays {
    kiln_device *device;
    kiln__dtype dtype;
    uint32_t inputs;
    uint64_t n;
    uint64_t slot; /* bytes from one array to the next: the array and what guards it */
    uint32_t sets;
    void *memory;
} kiln__arrays;

/* Makes the arrays for kernels of `inputs` inputs. With `hot` there is one set, which may stay in the caches; else so many
 * that a set has left them before its turn comes again. kiln__arrays_fini is right also after a failure. KILN_ENOMEM (the
 * device has no room; the report says for what), KILN_EDEVICE. */
kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, kiln__dtype dtype, uint32_t inputs, uint64_t n,
                              bool hot, kiln_report *report);
void kiln__arrays_fini(kiln__arrays *arrays);

void *kiln__arrays_in(const kiln__arrays *arrays, uint32_t set, uint32_t input);
void *kiln__arrays_out(const kiln__arrays *arrays, uint32_t set);

/* Poisons the output of a set and the guard behind it; tells whether the guard is still whole. */
kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, kiln_report *report);
kiln_status kiln__arrays_check_guard(const kiln__arrays *arrays, uint32_t set, bool *whole, kiln_report *report);

#endif
