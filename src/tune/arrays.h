/* The arrays that kernels are measured on: random values to read, room to write, and as many such sets as make the
 * caches useless. */
#ifndef KILN_TUNE_ARRAYS_H
#define KILN_TUNE_ARRAYS_H

#include "service/service.h"
#include "tune/workload.h"

/* Random values repeat after so many elements, a prime number: no geometry has a tile that divides it, so an element
 * that was taken from the wrong place is not equal by chance. */
enum { KILN__FILL_PERIOD = 1048573, KILN__FILL_POISON = 0xa5 };

/* Fills n elements of device memory: random signs, magnitudes from 1/64 to 8, on both sides of every threshold of the
 * ops, the same on every machine for an equal seed. Returns when done. KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report);

/* Fills with one byte, such as 0xa5, which no kernel writes by chance. As above. */
kiln_status kiln__fill_bytes(kiln_device *device, void *to, unsigned char byte, uint64_t bytes, kiln_report *report);

typedef struct kiln__arrays {
    kiln_device *device;
    kiln__load load;
    uint64_t at[KILN__ARGS_MAX]; /* the offset of each array in a set */
    uint64_t set_bytes;          /* the arrays and their guards */
    uint32_t sets;
    void *memory;
    void *values;                       /* the first period of each array that is read, to write it again */
    uint64_t values_at[KILN__ARGS_MAX]; /* the offset of that of each array */
} kiln__arrays;

/* Makes the arrays of a workload, which is copied. With `hot` there is one set, which may stay in the caches. Else
 * there are so many that the parts of the other sets that launches touch (kiln__load_touches) are three times the
 * caches' size: a set has left the caches before its turn comes again. There are at most 64 sets, and where launches
 * touch less than whole arrays, not more than fit into an eighth of the memory. Floating-point values are those of
 * kiln__fill_random. Whole numbers are random and less than the least extent of any array, because they may be indices,
 * and at most 127 where they have one byte. kiln__arrays_fini is right also after a failure. KILN_ENOMEM (the device
 * has no room; the report says for what), KILN_EDEVICE. */
kiln_status kiln__arrays_init(kiln__arrays *out, kiln_device *device, const kiln__load *load, bool hot,
                              kiln_report *report);
void kiln__arrays_fini(kiln__arrays *arrays);

/* An array of a set, by its number in the workload. */
void *kiln__arrays_in(const kiln__arrays *arrays, uint32_t set, uint32_t array);
uint64_t kiln__arrays_bytes(const kiln__arrays *arrays, uint32_t array);

/* Writes the first values again to the arrays of all sets that are read and written, or, with `all`, to all that are
 * read. Returns when done; waits for the device once, however many there are. */
kiln_status kiln__arrays_restore(const kiln__arrays *arrays, bool all, kiln_report *report);

/* Makes a set ready for a launch whose result counts: restores it, and fills the arrays that are only written with the
 * byte `poison`, and the guards behind all arrays. The second tells whether the guards are still whole. */
kiln_status kiln__arrays_poison(const kiln__arrays *arrays, uint32_t set, unsigned char poison, kiln_report *report);
kiln_status kiln__arrays_check_guard(const kiln__arrays *arrays, uint32_t set, bool *whole, kiln_report *report);

/* Launches a kernel, which fits the workload, on a set. As kiln_launch. */
kiln_status kiln__arrays_launch(const kiln__arrays *arrays, uint32_t set, const kiln_kernel *kernel, void *stream,
                                kiln_report *report);

/* A workload of a host. */
struct kiln_workload {
    kiln_service *service;
    kiln_kernel *kernel;
    kiln__arrays arrays;
    kiln_arg args[KILN__ARGS_MAX]; /* for launches on the one set */
};

/* The contracts are those of kiln_workload_make, kiln_workload_free and kiln_workload_reset; the work is complete. */
kiln_status kiln__workload_make(kiln_workload **out, kiln_service *service, kiln_kernel *kernel, const kiln_work *work,
                                kiln_report *report);
void kiln__workload_free(kiln_workload *workload);
kiln_status kiln__workload_reset(const kiln_workload *workload, kiln_report *report);

#endif
