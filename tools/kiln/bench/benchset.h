/* Kernels measured against each other and against the speed of a plain copy. */
#ifndef KILN_TOOLS_BENCHSET_H
#define KILN_TOOLS_BENCHSET_H

#include "cli/common.h"
#include "text/dtype.h"
#include "text/sizes.h"

typedef struct bench_case {
    kiln_kernel *kernel;
    kiln_kernel_info info;
    const dtype *type;
    uint32_t inputs;
    kiln_device *device;
    double first_get_ms; /* the first kiln_get of it, wherever it came from */
    double again_us;     /* a kiln_get of the loaded kernel */
    uint64_t elements;
    uint64_t bytes; /* read and written */
    bool verified;
    kiln_timing timing;
    double low_ms, high_ms; /* a quarter of the rounds was faster, a quarter slower */
    double ratio;           /* to the group's ceiling */
    size_t group;           /* cases of one device, dtype, number of inputs and size are measured together */
    size_t line;            /* cases of one kernel have the same number */
} bench_case;

/* The two copies of the same traffic as a kernel of the group. */
typedef struct bench_ceiling {
    kiln_timing memcpy, kernel;
    double memcpy_ratio, kernel_ratio; /* to the better one */
    const bench_case *example;
    bool reused; /* memory was short: the copies used the kernels' arrays */
} bench_ceiling;

struct benchset {
    bench_case *cases;
    size_t count;
    bench_ceiling *ceilings; /* one for each group */
    size_t groups;
    size_list sizes; /* none: one that suits the device */
    uint32_t rounds;
    bool verify;
};

/* Gets the kernels of a line, which may hold lists and ranges, and adds a case for each. Returns STATUS_DONE or the
 * exit status after a message. */
int benchset_add(struct benchset *set, struct session *session, const char *line);

/* Verifies and measures everything, unless an interrupt is seen: then the set keeps the groups that are done. Shows
 * progress. Returns as benchset_add does. */
int benchset_run(struct benchset *set, struct session *session);
void benchset_free(struct benchset *set);

#endif
