/* The workload of a kernel: the arrays that a launch takes, their shapes and roles, and the numbers beside them. Knows
 * no device: tune/arrays.h makes the memory. */
#ifndef KILN_TUNE_WORKLOAD_H
#define KILN_TUNE_WORKLOAD_H

#include "service/launch.h"
#include "spec/fields.h"

/* One array. */
typedef struct kiln__array {
    char name[KILN__ARG_NAME];
    kiln__arg_type type;
    uint32_t size; /* bytes of an element */
    bool read, written;
    uint64_t elements;
} kiln__array;

typedef struct kiln__load {
    kiln__array arrays[KILN__ARGS_MAX]; /* in the order of the kernel's arguments */
    uint32_t count;
    uint64_t elements;              /* of the largest array: the size in wisdom */
    uint64_t bytes;                 /* that a launch reads and writes */
    bool changes;                   /* some array is read and written: a launch finds the values of earlier ones */
    bool whole;                     /* some array that is read has whole numbers, which may be indices */
    bool flat, elementwise;         /* see kiln__arguments_flat and kiln__arguments_elementwise */
    uint64_t least;                 /* extent of a dimension of an array; arrays of whole numbers have smaller ones */
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

/* The least number of bytes of its arrays that a launch touches, if it reads and writes no byte more than once: all of
 * them, unless a template has declared less traffic; of arrays that are read and written each byte may stand for two
 * of that. */
uint64_t kiln__load_touches(const kiln__load *load);

/* Whether a kernel with this plan takes the same arrays and numbers. Else `problem` says how they differ. */
bool kiln__load_fits(const kiln__load *load, const kiln__plan *plan, char *problem, size_t size);

/* KILN__DTYPE_UNSET for whole numbers. */
kiln__dtype kiln__array_dtype(const kiln__array *array);

#endif
