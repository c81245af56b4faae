/* Timing on the device: the stream and the events for it, which the timings of a device take turns with. */
#ifndef KILN_GPU_TIMING_H
#define KILN_GPU_TIMING_H

#include "gpu/device.h"

typedef kiln_status (*kiln__cuda_part)(void *data, CUstream stream, const kiln__cuda_call *call);

typedef struct kiln__cuda_work {
    kiln__cuda_part lead; /* once, before the clock is read first; NULL: nothing */
    kiln__cuda_part part; /* `repeats` times */
    void *data;
    uint32_t repeats;
} kiln__cuda_work;

/* Makes the stream and the events where they are still missing. With the device's turn and context. */
kiln_status kiln__cuda_prepare_timing(kiln__cuda_device *device, const kiln__cuda_call *call);

/* Milliseconds of the parts together; waits for its turn, and until all is done. */
kiln_status kiln__cuda_time_work(kiln__cuda_device *device, const kiln__cuda_work *work, double *out,
                                 kiln_report *report);

/* Of the backend's vtable; contract there. */
kiln_status kiln__cuda_time(kiln_device *device, kiln__submit submit, void *data, uint32_t repeats, double *out,
                            kiln_report *report);

#endif
