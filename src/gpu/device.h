/* A GPU: its primary context, and whose context a call works in. */
#ifndef KILN_GPU_DEVICE_H
#define KILN_GPU_DEVICE_H

#include "backend/backend.h"
#include "gpu/driver.h"
#include <pthread.h>

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
} kiln__cuda_device;

/* What the functions below changed, to be put back by kiln__cuda_leave. Lives on the stack. */
typedef struct kiln__cuda_scope {
    const kiln__driver *driver;
    bool pushed, relaxed;
    kiln__cu_enum capture_mode;
} kiln__cuda_scope;

/* Lets this thread make calls that the driver refuses while a graph is captured, and that would break the capture:
 * those that Kiln makes on its own account touch no capturing stream. Without effect on a driver that cannot do it. */
void kiln__cuda_relax(kiln__cuda_scope *out, const kiln__driver *driver);

/* Makes the device's primary context current for work of Kiln's own (loading, allocating, timing), and relaxes as
 * above. On failure there is nothing to leave. */
kiln_status kiln__cuda_enter(kiln__cuda_scope *out, const kiln__cuda_device *device, const kiln__cuda_call *call);

/* The same for work the host queues: leaves a context that is current as it is and makes the primary one current only
 * where there is none. */
kiln_status kiln__cuda_enter_current(kiln__cuda_scope *out, const kiln__cuda_device *device,
                                     const kiln__cuda_call *call);
void kiln__cuda_leave(const kiln__cuda_scope *scope);

/* The device functions of the backend's vtable; contracts there. */
kiln_status kiln__cuda_device_count(const kiln__driver *driver, int *out, kiln_report *report);
kiln_status kiln__cuda_device_open(kiln__backend *backend, const kiln__driver *driver, int ordinal, kiln_device **out,
                                   kiln_report *report);
void kiln__cuda_device_close(kiln_device *device);
void kiln__cuda_device_info(const kiln_device *device, kiln_device_info *out);
kiln_status kiln__cuda_alloc(kiln_device *device, void **out, size_t bytes, kiln_report *report);
void kiln__cuda_free(kiln_device *device, void *memory);
kiln_status kiln__cuda_copy(kiln_device *device, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                            void *stream, kiln_report *report);
kiln_status kiln__cuda_sync(kiln_device *device, kiln_report *report);

#endif
