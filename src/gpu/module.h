/* A loaded image, for the files that load and launch. */
#ifndef KILN_GPU_MODULE_H
#define KILN_GPU_MODULE_H

#include "base/list.h"
#include "gpu/device.h"

enum { KILN__CUDA_FIRST_REAL_STREAM = 3 }; /* the handles below it are the default streams */

struct kiln__module {
    CUlibrary library;
    int registers, local_bytes; /* of the first kernel */
    /* What a launch reads. */
    const kiln__cuda_device *device;
    uint32_t kernel_count;
    uint32_t block[3], shared; /* of a template's kernel: threads in each direction, and bytes */
    atomic_int *permitted;     /* of each kernel: dynamic shared memory that it is known to be allowed, see below */
    CUkernel kernels[];
};

/* Makes sure that a kernel may have `wanted` bytes of dynamic shared memory: beyond what is usual, static memory
 * included, the driver must be told, and is told once, of all that the device has. *most is how much it may have,
 * which may be less. Takes no lock; any thread, also one that captures. */
kiln_status kiln__cuda_permit_shared(const kiln__module *module, uint32_t kernel, uint32_t wanted, int *most,
                                     const kiln__cuda_call *call);

/* Of a user's own source; contracts in backend/backend.h. */
extern const kiln__function_vtable kiln__cuda_functions;

#endif
