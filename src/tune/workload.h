/* What kernels are measured with: the arrays that a launch takes, their shapes and roles, and the numbers beside
 * them. Knows no device: tune/arrays.h makes the memory. */
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
    uint64_t elements;              /* of the largest array: what wisdom goes by */
    uint64_t bytes;                 /* that a launch reads and writes */
    bool changes;                   /* some array is read and written: what a launch finds depends on those before */
    bool whole;                     /* some array that is read has whole numbers, which may be indices */
    bool flat, elementwise;         /* see kiln__arguments_flat and kiln__arguments_elementwise */
    uint64_t least;                 /* extent of a dimension of an array; arrays of whole numbers have smaller ones */
    uint32_t size_count, arg_count; /* arguments: those that no formula gives */
    uint64_t sizes[KILN__SIZES_MAX];
    uint32_t at[KILN__ARGS_MAX];           /* of an array, which of the arguments it is */
    uint32_t number_bytes[KILN__ARGS_MAX]; /* of each argument; 0: it is an array */
    uint64_t numbers[KILN__ARGS_MAX];
} kiln__load;

/* What the host says about it. All is borrowed. */
typedef struct kiln__given {
    uint64_t elements; /* of each array, where the kernel's plan is flat and no sizes are named */
    const uint64_t *sizes;
    size_t size_count;
    const kiln_arg *args; /* as for kiln_launch; those that are arrays are not looked at */
    size_t arg_count;     /* may be 0 where no number is given at launch */
    bool may_be_empty;    /* arrays and grids of nothing are no error */
} kiln__given;

/* For kernels with such a plan. Errors: KILN_EINVAL naming what is wrong with sizes and numbers; KILN_ENOMEM: no
 * memory holds the arrays. */
kiln_status kiln__workload_of(kiln__load *out, const kiln__plan *plan, const kiln__given *given, kiln_report *report);

/* The same for a resolved spec. Errors: those above, KILN_ESPEC. */
kiln_status kiln__workload_make(kiln__load *out, const kiln__fields *spec, const kiln__given *given,
                                kiln_report *report);

/* The arguments of a launch with the numbers of a workload and arrays at these places. They borrow the workload. */
void kiln__workload_args(const kiln__load *load, void *const arrays[KILN__ARGS_MAX], kiln_arg given[KILN__ARGS_MAX]);

/* How many bytes of its arrays a launch touches, at the least, if it reads and writes no byte more than once: all of
 * them, unless a template has declared less traffic; of arrays that are read and written each byte may stand for two
 * of that. */
uint64_t kiln__workload_touches(const kiln__load *load);

/* Whether a kernel with this plan takes the same arrays and numbers. Else `problem` says how they differ. */
bool kiln__workload_fits(const kiln__load *load, const kiln__plan *plan, char *problem, size_t size);

/* KILN__DTYPE_UNSET for whole numbers. */
kiln__dtype kiln__workload_dtype(const kiln__array *array);

#endif
