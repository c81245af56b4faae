/* The parts of the cuda backend: what its files know of each other. cuda.c has devices and memory, launch.c loaded
 * images and launches, tape.c timing and tapes. backend/backend.h has the contracts of the vtables' functions. */
#ifndef KILN_GPU_DEVICE_H
#define KILN_GPU_DEVICE_H

#include "backend/backend.h"
#include "gpu/driver.h"
#include <pthread.h>

/* ---- Devices */

typedef struct kiln__cuda_device {
    kiln_device device;
    const kiln__driver *driver;
    CUdevice handle;
    CUcontext primary; /* retained from open to close */
    CUstream stream;   /* for timing: waits for no other stream; NULL until something is timed, as the events */
    CUevent start, stop;
    pthread_mutex_t timing; /* timings take turns: they share the events and would disturb each other */
    char model[256];
    uint64_t memory_bytes, l2_bytes;
    uint32_t multiprocessors;
    _Atomic(CUmemoryPool) pool; /* of scratch memory; NULL until a kernel or a call needs some */
} kiln__cuda_device;

/* Calls of the driver for a device. Nothing is current or relaxed yet. */
static inline kiln__cuda_call kiln__cuda_call_on(const kiln__cuda_device *device, kiln_status failure,
                                                 const char *stage, kiln_report *report)
{
    return (kiln__cuda_call){ .driver = device->driver,
                              .failure = failure,
                              .stage = stage,
                              .where = device->device.name,
                              .report = report,
                              .primary = device->primary };
}

/* Lets this thread make calls that the driver refuses while a graph is captured, and that would break the capture:
 * Kiln's own calls touch no capturing stream. Without effect on a driver that cannot do it. */
void kiln__cuda_relax(kiln__cuda_call *call);

/* Makes the device's primary context current for Kiln's work (loading, allocating, timing), and relaxes. */
void kiln__cuda_enter(kiln__cuda_call *call);

/* The same for work that the host queues: a context that is current stays, and nothing is relaxed. */
void kiln__cuda_enter_current(kiln__cuda_call *call);

/* Undoes the three functions above, whether or not they succeeded, and returns call->status. */
void kiln__cuda_undo(kiln__cuda_call *call);
static inline kiln_status kiln__cuda_leave(kiln__cuda_call *call)
{
    if (call->pushed || call->relaxed)
        kiln__cuda_undo(call);
    return call->status;
}

/* ---- Loaded images and launches: launch.c */

kiln_status kiln__cuda_load(kiln_device *device, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                            bool *used_ptx, kiln_report *report);
void kiln__cuda_unload(kiln__module *module);
kiln_status kiln__cuda_launch(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                              kiln_report *report);
kiln_status kiln__cuda_capturing(kiln_device *device, void *stream, bool *out, kiln_report *report);
void kiln__cuda_resources(const kiln__module *module, int *registers, int *local_bytes);
extern const kiln__function_vtable kiln__cuda_functions;

/* ---- Scratch memory of launches, from a pool of the device: scratch.c */

/* Whether the driver has what pools need. */
bool kiln__cuda_has_pools(const kiln__driver *driver);

/* Makes sure that the device has its pool, for a kernel that is loaded or a call that takes memory. */
kiln_status kiln__cuda_prepare_scratch(kiln__cuda_device *device, kiln_report *report);
kiln_status kiln__cuda_scratch(kiln_device *device, size_t bytes, void *stream, void **out, kiln_report *report);
kiln_status kiln__cuda_release_scratch(kiln_device *device, void *memory, void *stream, kiln_report *report);

/* ---- Timing, and tapes: launches and copies that become nodes of a graph instead of running. Nothing is captured:
 * while a stream captures, CUDA refuses every other thread of the process that waits for the whole device, and breaks
 * the capture. */

kiln_status kiln__cuda_time(kiln_device *device, kiln__submit submit, void *data, uint32_t repeats, double *out,
                            kiln_report *report);
extern const kiln__tape_vtable kiln__cuda_tapes;

/* How many tapes are being made in the process just now: mostly none. */
extern atomic_uint kiln__cuda_tapes_in_making;

/* Whether this thread makes a tape of what is submitted in this stream. */
bool kiln__cuda_makes_tape(CUstream stream);

/* Whether what this thread submits in this stream goes onto a tape, whichever service of the process a kernel belongs
 * to: a process that compares two versions of a kernel has two. Costs a launch one look at a number that seldom
 * changes. */
static inline bool kiln__cuda_is_taped(CUstream stream)
{
    return __builtin_expect(atomic_load_explicit(&kiln__cuda_tapes_in_making, memory_order_relaxed) != 0, 0) &&
           kiln__cuda_makes_tape(stream);
}

/* Add a node at the end of this thread's tape; for streams that are taped. A submission that the driver refuses, or of
 * another GPU, spoils the tape and does not fail. `kernel` is a node without its context. */
void kiln__cuda_tape_kernel(const kiln__cuda_device *device, const kiln__cu_kernel_node *kernel);
void kiln__cuda_tape_copy(const kiln__cuda_device *device, CUdeviceptr to, CUdeviceptr from, size_t bytes);

/* Spoils the tape: for a submission that cannot be taped and is made all the same. */
void kiln__cuda_tape_spoil(void);

#endif
