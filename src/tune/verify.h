/* Whether kernels compute what they should. The variants of a contest are compared, on their device, with one
 * reference, which has itself been checked against the cpu; a launch of a host is compared with the cpu at once. */
#ifndef KILN_TUNE_VERIFY_H
#define KILN_TUNE_VERIFY_H

#include "tune/workload.h"

/* Gets a kernel of Kiln's by the text of its spec, without a trace in the service. The errors of kiln_get. */
kiln_status kiln__get_named(kiln_kernel **out, kiln_service *service, kiln_device *device, kiln_report *report,
                            const char *format, ...) KILN__PRINTF(5, 6);

/* The differences that a comparison found. */
typedef struct kiln__verdict {
    const char *against;      /* the other side of the comparison, in words; static */
    uint64_t compared, wrong; /* elements */
    const kiln__array *array; /* the first array that has a wrong element, or NULL; the next three are about that one */
    uint64_t first;           /* the least index of one */
    uint64_t got, want;       /* bits */
    bool overrun;             /* the kernel wrote behind an array */
    kiln_tolerance tolerance; /* that was applied; all 0: equal bits, unless bounded */
    bool bounded;             /* as far apart as the op's functions may be (spec/bound.c) */
    /* The results against the reference that the op's definition has, in units of the last place. */
    double bound; /* below 0: it has none, or was not asked for */
    double worst, worst_got, worst_want;
    uint64_t worst_at;
} kiln__verdict;

/* Of elements that differ: " by more than the tolerance (ulp 4)", or "" where only equal bits agree. For use within the
 * same expression: kiln__excess_of(tolerance, bounded).text. */
typedef struct kiln__excess {
    char text[KILN__TOLERANCE_SIZE + 40];
} kiln__excess;
kiln__excess kiln__excess_of(const kiln_tolerance *tolerance, bool bounded);

/* ---- Results on a device */

typedef struct kiln__comparer {
    kiln_device *device;
    kiln_kernel *kernels[KILN__DTYPE_END]; /* of the template compare, of those dtypes that some written array has */
    kiln_tolerance tolerance;              /* the template's */
    void *found;
} kiln__comparer;

/* Compares n elements of an array, within the tolerance (spec/tolerance.h). Adds the differences to the verdict: wrong,
 * array, first. Whole numbers are compared by the host. Errors: KILN_ENOMEM, KILN_EDEVICE. */
kiln_status kiln__compare(const kiln__comparer *comparer, const kiln__array *array, const void *got, const void *want,
                          uint64_t n, kiln__verdict *out, kiln_report *report);

/* ---- Variants */

/* Told right before and right after launches of a kernel that is not trusted yet; not after a launch that failed. */
typedef struct kiln__watch {
    void (*launching)(void *data, bool begins);
    void *data;
} kiln__watch;

typedef struct kiln__proof {
    const kiln__arrays *arrays;
    kiln__comparer comparer;
    void *want;                            /* the right values of all arrays that are written */
    uint64_t want_at[KILN__ARGS_MAX];      /* the offset of those of each array */
    kiln_tolerance widest[KILN__ARGS_MAX]; /* of an op that reduces, for each array; all zero: the comparer's counts */
    const char *against;                   /* the computation that the reference agrees with, in words; static */
} kiln__proof;

/* Makes the reference on the device and the arrays' first set, with the geometry of `spec`, which is resolved for
 * that device and has made the workload. Borrows the arrays. The reference is compared with the first of these that
 * there is:
 *
 * - the op that the template names as its reference, on the cpu;
 * - the same template and op on the cpu, where the kernel is not the cpu's own, or is elementwise: then the cpu
 *   computes it in other pieces;
 * - a second launch of the kernel on memory with another poison.
 *
 * Of an elementwise kernel the cpu computes the first period of the random values, and the other periods are compared
 * with the first. `watch` may be NULL. No get leaves a trace. kiln__proof_fini is right also after a failure.
 * KILN_EMISMATCH: the reference is wrong, or not the same twice; and the errors of kiln_get and kiln_launch. */
kiln_status kiln__proof_init(kiln__proof *out, kiln_service *service, const kiln__fields *spec,
                             const kiln__arrays *arrays, const kiln__watch *watch, kiln_report *report);
void kiln__proof_fini(kiln__proof *proof);

/* Launches a kernel on the first set, whose written arrays hold poison or their first values, and compares
 * within the template's tolerance. Fills wrong, array, first, overrun and tolerance. */
kiln_status kiln__proof_check(kiln__proof *proof, kiln_kernel *kernel, kiln__verdict *out, kiln_report *report);

/* ---- Launches of hosts */

/* The contract is kiln_verify's, but that differences are no error. Of the work the sizes and arguments are used. The
 * tolerance is complete and valid, or NULL. `load` gets the arrays, which the verdict may point to. */
kiln_status kiln__verify_launch(kiln__verdict *out, kiln__load *load, kiln_service *service, const kiln_kernel *kernel,
                                const kiln_grid *grid, const kiln_work *work, const kiln_tolerance *tolerance,
                                kiln_report *report);

/* KILN_EMISMATCH saying how the results of a kernel differ; KILN_OK where they do not. */
kiln_status kiln__verify_refuse(const kiln__verdict *verdict, const char *spec, kiln_report *report);

#endif
