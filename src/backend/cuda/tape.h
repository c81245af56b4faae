/* Tapes of the cuda backend: launches and copies that become nodes of a graph instead of running. Nothing is captured: while a
 * stream captures, CUDA refuses every other thread of the process that waits for the whole device, and breaks the capture. */
#ifndef KILN_BACKEND_CUDA_TAPE_H
#define KILN_BACKEND_CUDA_TAPE_H

#include "backend/cuda/device.h"

/* Of a launch, as cuLaunchKernel takes it. */
typedef struct kiln__cuda_shape {
    uint32_t grid[3], block[3], shared;
} kiln__cuda_shape;

/* Whether what is submitted in this stream goes onto a tape. Only the stream in which the device times ever does, and only on the
 * thread that makes the tape, so that true means: device->tape is the caller's. */
static inline bool kiln__cuda_is_taped(const kiln__cuda_device *device, CUstream stream)
{
    return __builtin_expect(atomic_load_explicit(&device->taped, memory_order_relaxed) == stream, 0) && stream != NULL;
}

/* A node at the tape's end; for streams that are taped. Always succeeds: what the driver refuses spoils the tape, and is no
 * failure of who submits. */
kiln__cu_enum kiln__cuda_tape_kernel(const kiln__cuda_device *device, CUkernel kernel, const kiln__cuda_shape *shape,
                                     void **parameters);
void kiln__cuda_tape_copy(const kiln__cuda_device *device, CUdeviceptr to, CUdeviceptr from, size_t bytes);

/* For what cannot be taped, and is submitted all the same: the tape comes to nothing. */
void kiln__cuda_tape_spoil(const kiln__cuda_device *device);

/* The backend's tapes; contracts in backend/backend.h. */
extern const kiln__tape_vtable kiln__cuda_tapes;

#endif
