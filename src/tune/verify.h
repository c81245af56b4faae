/* Whether a launch computed what the cpu computes from the same values. */
#ifndef KILN_TUNE_VERIFY_H
#define KILN_TUNE_VERIFY_H

#include "service/service.h"
#include "tune/workload.h"

/* Told right before and right after launches of a kernel that is not trusted yet; not after a launch that failed. */
typedef struct kiln__watch {
    void (*launching)(void *data, bool begins);
    void *data;
} kiln__watch;

/* `watch` may be NULL. */
void kiln__watch_tell(const kiln__watch *watch, bool begins);

/* The arrays of one launch. All is borrowed. */
typedef struct kiln__operands {
    kiln_device *device;
    const kiln__load *load;
    const void *before[KILN__ARGS_MAX]; /* of each array that is read, its values before the launch, on the device */
    const void *saved[KILN__ARGS_MAX];  /* the same in host memory, where the launch changed them; else NULL */
    const void *after[KILN__ARGS_MAX];  /* of each array that is written, the result, on the device */
} kiln__operands;

/* The differences that a comparison found. */
typedef struct kiln__verdict {
    const char *against;      /* what the results were compared with, in words; static */
    uint64_t compared, wrong; /* elements */
    const kiln__array *array; /* the first array that has a wrong element, or NULL; the next three are about that one */
    uint64_t first;
    uint64_t got, want; /* bits */
    /* The results against the reference that the op's definition has, in units of the last place. */
    double bound; /* below 0: it has none, or was not asked for */
    double worst, worst_got, worst_want;
    uint64_t worst_at;
} kiln__verdict;

/* Names the computation that the results of a spec's kernel on a device are compared with: of these the first that
 * there is. NULL: there is none.
 *
 * - the op that the template names as its reference, on the cpu;
 * - the same template and op on the cpu, where the kernel is not the cpu's own, or is elementwise: then the cpu
 *   computes it in other pieces. */
const char *kiln__verify_against(const kiln__fields *spec, const kiln__load *load, const kiln_device *device);

/* How results are compared. */
typedef struct kiln__comparison {
    uint64_t most;            /* elements, where one depends on those of its index alone; else all are compared */
    double tolerance;         /* units of the last place; 0: equal bits */
    bool definition;          /* also with the op's definition */
    const kiln__watch *watch; /* may be NULL */
} kiln__comparison;

/* Compares the results of a launch with what kiln__verify_against names, which there must be. Equal bits are equal,
 * and any NaN equals any NaN. KILN_OK also where results differ. The errors of kiln_get and kiln_launch;
 * KILN_EMISMATCH: the cpu twin takes other arguments. */
kiln_status kiln__verify_on_cpu(kiln__verdict *out, kiln_service *service, const kiln__fields *spec,
                                const kiln__operands *operands, const kiln__comparison *how, kiln_report *report);

/* A launch as kiln_launch takes it. */
typedef struct kiln__launching {
    const kiln_kernel *kernel;
    const kiln_grid *grid;
    const uint64_t *sizes;
    size_t size_count;
    const kiln_arg *args;
    size_t arg_count;
} kiln__launching;

/* The contract is kiln_verify's, but that differences are no error. `load` gets the arrays, which the verdict may
 * point to. */
kiln_status kiln__verify_launch(kiln__verdict *out, kiln__load *load, kiln_service *service,
                                const kiln__launching *launching, double tolerance, kiln_report *report);

/* KILN_EMISMATCH saying how the results of a kernel differ; KILN_OK where they do not. */
kiln_status kiln__verify_refuse(const kiln__verdict *verdict, const char *spec, kiln_report *report);

#endif
