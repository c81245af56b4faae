/* The arrays of a benchmark on a device. */
#ifndef KILN_TOOLS_BENCHMEMORY_H
#define KILN_TOOLS_BENCHMEMORY_H

#include "cli/common.h"
#include "text/dtype.h"

enum { BENCH_MOST_INPUTS = 3 };

struct benchmemory {
    kiln_device *device;
    void *arena, *extra;
    void *in[BENCH_MOST_INPUTS];
    void *out;
    void *copy_from, *copy_to;
    uint64_t copy_bytes; /* copying them makes the traffic of the kernel */
    bool reused;         /* the copies use the kernel's arrays: there was no room for others */
};

/* Makes `inputs` arrays of n random elements, an output, and room for a copy of the same traffic. Returns STATUS_DONE
 * or STATUS_FAILED after a message. benchmemory_free is right after either. */
int benchmemory_make(struct benchmemory *out, struct session *session, kiln_device *device, const dtype *type,
                     uint32_t inputs, uint64_t n);

/* Fills so many bytes of the output with 0xa5, which no kernel writes by chance. Returns when done. */
kiln_status benchmemory_poison(const struct benchmemory *memory, uint64_t bytes, kiln_report *report);
void benchmemory_free(struct benchmemory *memory);

#endif
