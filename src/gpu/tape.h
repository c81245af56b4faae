/* Tapes of the cuda backend: launches and copies that become nodes of a graph instead of running. Nothing is
 * captured: while a stream captures, CUDA refuses every other thread of the process that waits for the whole device,
 * and breaks the capture. */
#ifndef KILN_GPU_TAPE_H
#define KILN_GPU_TAPE_H

#include "gpu/device.h"

/* Of a launch, as cuLaunchKernel takes it. */
typedef struct kiln__cuda_shape {
    uint32_t grid[3], block[3], shared;
} kiln__cuda_shape;

/* How many tapes are being made in the process just now: mostly none. */
extern atomic_uint kiln__cuda_tapes_in_making;

/* Whether this thread makes a tape of what is submitted in this stream. */
bool kiln__cuda_makes_tape(CUstream stream);

/* Whether what this thread submits in this stream goes onto a tape: whatever service of the process a kernel is of,
 * for one in which two versions of a kernel are compared has two. Costs every launch one look at a number that
 * seldom changes. */
static inline bool kiln__cuda_is_taped(CUstream stream)
{
    return __builtin_expect(atomic_load_explicit(&kiln__cuda_tapes_in_making, memory_order_relaxed) != 0, 0) &&
           kiln__cuda_makes_tape(stream);
}

/* A node at the end of this thread's tape; for streams that are taped. Always succeeds: what the driver refuses, and
 * what is of another GPU than the tape, spoils the tape, and is no failure of who submits. */
kiln__cu_enum kiln__cuda_tape_kernel(const kiln__cuda_device *device, CUkernel kernel, const kiln__cuda_shape *shape,
                                     void **parameters);
void kiln__cuda_tape_copy(const kiln__cuda_device *device, CUdeviceptr to, CUdeviceptr from, size_t bytes);

/* For what cannot be taped, and is submitted all the same: the tape comes to nothing. */
void kiln__cuda_tape_spoil(void);

/* The backend's tapes; contracts in backend/backend.h. */
extern const kiln__tape_vtable kiln__cuda_tapes;

#endif
