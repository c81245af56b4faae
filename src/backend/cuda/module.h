/* A loaded image, for the files that load and launch. */
#ifndef KILN_BACKEND_CUDA_MODULE_H
#define KILN_BACKEND_CUDA_MODULE_H

#include "backend/cuda/device.h"
#include "base/list.h"

enum { KILN__CUDA_FIRST_REAL_STREAM = 3 }; /* the handles below it are the default streams */

struct kiln__module {
    CUlibrary library;
    int registers, local_bytes; /* of the first kernel */
    /* What a launch reads. */
    const kiln__cuda_device *device;
    uint32_t kernel_count, inputs, element_size, block;
    bool output_stays;          /* a further launch gets the same out */
    uint64_t tile, most;        /* elements of a block, and of the largest grid */
    int tile_shift;             /* tile is 1 << tile_shift; negative if it is no power of two */
    uint32_t blocks[3], shared; /* of a kernel with arguments of its own */
    CUkernel kernels[];
};

/* Of a user's own source; contracts in backend/backend.h. */
extern const kiln__function_vtable kiln__cuda_functions;

#endif
