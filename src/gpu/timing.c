#include "gpu/timing.h"

/* Most processes time nothing, and a stream and events cost the driver something. */
kiln_status kiln__cuda_prepare_timing(kiln__cuda_device *device, const kiln__cuda_call *call)
{
    kiln_status status = KILN_OK;
    if (device->stream == NULL)
        status = KILN__CUDA(call, cuStreamCreate, (&device->stream, KILN__CU_STREAM_NON_BLOCKING));
    if (status == KILN_OK && device->start == NULL)
        status = KILN__CUDA(call, cuEventCreate, (&device->start, KILN__CU_EVENT_DEFAULT));
    if (status == KILN_OK && device->stop == NULL)
        status = KILN__CUDA(call, cuEventCreate, (&device->stop, KILN__CU_EVENT_DEFAULT));
    return status;
}

static kiln_status run_timed(kiln__cuda_device *device, const kiln__cuda_call *call, const kiln__cuda_work *work,
                             double *out)
{
    float milliseconds = 0;
    kiln_status status = work->lead != NULL ? work->lead(work->data, device->stream, call) : KILN_OK;
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuEventRecord, (device->start, device->stream));
    for (uint32_t i = 0; i < work->repeats && status == KILN_OK; i++)
        status = work->part(work->data, device->stream, call);
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuEventRecord, (device->stop, device->stream));
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuEventSynchronize, (device->stop));
    else
        device->driver->cuStreamSynchronize(device->stream); /* what was queued may use the caller's memory */
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuEventElapsedTime, (&milliseconds, device->start, device->stop));
    if (status == KILN_OK)
        *out = (double)milliseconds;
    return status;
}

kiln_status kiln__cuda_time_work(kiln__cuda_device *device, const kiln__cuda_work *work, double *out,
                                 kiln_report *report)
{
    const kiln__cuda_call call = { device->driver, KILN_EDEVICE, KILN__STAGE_DEVICE, device->device.name, report };
    kiln__cuda_scope scope;
    kiln_status status = kiln__cuda_enter(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    pthread_mutex_lock(&device->timing);
    status = kiln__cuda_prepare_timing(device, &call);
    if (status == KILN_OK)
        status = run_timed(device, &call, work, out);
    pthread_mutex_unlock(&device->timing);
    kiln__cuda_leave(&scope);
    return status;
}

typedef struct submission {
    kiln__submit submit;
    void *data;
} submission;

static kiln_status submit_one(void *data, CUstream stream, const kiln__cuda_call *call)
{
    const submission *one = data;
    kiln_status status = one->submit(one->data, stream);
    /* what was submitted often shares this report and says more */
    if (status != KILN_OK && (call->report == NULL || call->report->status != status))
        kiln__fail(call->report, status, KILN__STAGE_DEVICE, 0, "%s: the work to be timed failed: %s", call->where,
                   kiln_status_text(status));
    return status;
}

kiln_status kiln__cuda_time(kiln_device *base, kiln__submit submit, void *data, uint32_t repeats, double *out,
                            kiln_report *report)
{
    submission one = { submit, data };
    const kiln__cuda_work work = { .part = submit_one, .data = &one, .repeats = repeats };
    return kiln__cuda_time_work((kiln__cuda_device *)base, &work, out, report);
}
