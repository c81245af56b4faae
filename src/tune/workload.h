/* The workload of a kernel: the shapes and roles of the arrays that a launch takes, the numbers beside them, and the
 * sets of arrays on a device that the kernel is measured on. */
#ifndef KILN_TUNE_WORKLOAD_H
#define KILN_TUNE_WORKLOAD_H

#include "service/launch.h"
#include "service/service.h"
#include "spec/fields.h"

/* ---- Shapes: no device is needed */

/* One array. */
typedef struct kiln__array {
    char name[KILN__ARG_NAME];
    kiln__dtype type;
    uint32_t size; /* bytes of an element */
    bool read, written;
    uint64_t elements;
    bool indices; /* it has whole numbers that may be indices: the template names their type, and no spec */
} kiln__array;

typedef struct kiln__load {
    kiln__array arrays[KILN__ARGS_MAX]; /* in the order of the kernel's arguments */
    uint32_t count;
    uint64_t elements;              /* of the largest array: the size in wisdom */
    uint64_t bytes;                 /* that a launch reads and writes */
    bool changes;                   /* some array is read and written: a launch finds the values of earlier ones */
    bool whole;                     /* some array that is read has indices */
    bool flat, elementwise;         /* see kiln__arguments_flat and kiln__arguments_elementwise */
    uint64_t least;                 /* extent of a dimension of an array; indices are smaller */
    uint32_t size_count, arg_count; /* arguments: those that no formula gives */
    uint64_t sizes[KILN__SIZES_MAX];
    uint32_t at[KILN__ARGS_MAX];           /* of an array, which of the arguments it is */
    uint32_t number_bytes[KILN__ARGS_MAX]; /* of each argument; 0: it is an array */
    uint64_t numbers[KILN__ARGS_MAX];
} kiln__load;

/* The workload of kernels with such a plan. The work is borrowed. Its elements apply where the plan is flat and no
 * sizes are named, and arg_count may be 0 where no number is given at launch. `may_be_empty`: arrays and grids of
 * nothing are no error. Errors: KILN_EINVAL naming the fault of sizes and numbers; KILN_ENOMEM: no memory holds the
 * arrays. */
kiln_status kiln__load_of_plan(kiln__load *out, const kiln__plan *plan, const kiln_work *work, bool may_be_empty,
                               kiln_report *report);

/* The same for a resolved spec. Errors: those above, KILN_ESPEC. */
kiln_status kiln__load_of_spec(kiln__load *out, const kiln__fields *spec, const kiln_work *work, kiln_report *report);

/* The arguments of a launch with the numbers of a workload and arrays at these places. They borrow the workload. */
void kiln__load_args(const kiln__load *load, void *const arrays[KILN__ARGS_MAX], kiln_arg args[KILN__ARGS_MAX]);

/* Whether a kernel with this plan takes the same arrays and numbers. Else `problem` says how they differ. */
bool kiln__load_fits(const kiln__load *load, const kiln__plan *plan, char *problem, size_t size);

/* Whether its elements are real numbers, which a tolerance applies to. */
bool kiln__array_is_real(const kiln__array *array);

/* ---- Values */

/* Random values repeat after so many elements, a prime number: no geometry has a tile that divides it, so an element
 * that was taken from the wrong place is not equal by chance. */
enum { KILN__FILL_PERIOD = 1048573, KILN__FILL_POISON = 0xa5 };

/* Fills n elements of device memory: random signs, magnitudes from 1/64 to 8, on both sides of every threshold of the
 * ops; whole numbers from all of their range, every other one from -8 to 7. They are the same on every machine for an
 * equal seed. Returns when done. KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__fill_random(kiln_device *device, void *to, kiln__dtype dtype, uint64_t n, uint64_t seed,
                              kiln_report *report);

/* Fills with one byte, such as 0xa5, which no kernel writes by chance. As above. */
kiln_status kiln__fill_bytes(kiln_device *device, void *to, unsigned char byte, uint64_t bytes, kiln_report *report);

/* ---- Sets of arrays */

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
 * there are so many that the parts of the other sets that launches touch are three times the
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

/* ---- Workloads of hosts */

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
