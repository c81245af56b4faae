#include "gpu/device.h"

#include "base/alloc.h"
#include "gpu/tape.h"
#include <stdio.h>
#include <string.h>

static kiln__cuda_call device_call(const kiln__cuda_device *device, kiln_report *report)
{
    return (kiln__cuda_call){ device->driver, KILN_EDEVICE, KILN__STAGE_DEVICE, device->device.name, report };
}

void kiln__cuda_relax(kiln__cuda_scope *out, const kiln__driver *driver)
{
    *out = (kiln__cuda_scope){ .driver = driver, .capture_mode = KILN__CU_STREAM_CAPTURE_MODE_RELAXED };
    out->relaxed = driver->cuThreadExchangeStreamCaptureMode != NULL &&
                   driver->cuThreadExchangeStreamCaptureMode(&out->capture_mode) == KILN__CUDA_SUCCESS;
}

kiln_status kiln__cuda_enter(kiln__cuda_scope *out, const kiln__cuda_device *device, const kiln__cuda_call *call)
{
    kiln__cuda_relax(out, device->driver);
    kiln_status status = KILN__CUDA(call, cuCtxPushCurrent, (device->primary));
    out->pushed = status == KILN_OK;
    if (status != KILN_OK)
        kiln__cuda_leave(out);
    return status;
}

kiln_status kiln__cuda_enter_current(kiln__cuda_scope *out, const kiln__cuda_device *device,
                                     const kiln__cuda_call *call)
{
    CUcontext current = NULL;
    *out = (kiln__cuda_scope){ .driver = device->driver };
    kiln_status status = KILN__CUDA(call, cuCtxGetCurrent, (&current));
    if (status != KILN_OK || current != NULL)
        return status;
    status = KILN__CUDA(call, cuCtxPushCurrent, (device->primary));
    out->pushed = status == KILN_OK;
    return status;
}

void kiln__cuda_leave(const kiln__cuda_scope *scope)
{
    CUcontext popped;
    kiln__cu_enum mode = scope->capture_mode;
    if (scope->relaxed)
        scope->driver->cuThreadExchangeStreamCaptureMode(&mode);
    if (scope->pushed)
        scope->driver->cuCtxPopCurrent(&popped);
}

/* A driver that is there but cannot be initialised is no usable driver; one that shows no GPU is fine. */
static kiln_status initialise(const kiln__driver *driver, bool *has_devices, kiln_report *report)
{
    kiln__cuda_call call = { driver, KILN_ENODRIVER, KILN__STAGE_DEVICE, "", report };
    kiln__cu_enum code = driver->cuInit(0);
    *has_devices = code == KILN__CUDA_SUCCESS;
    return code == KILN__CUDA_ERROR_NO_DEVICE ? KILN_OK : kiln__cuda_result(&call, "cuInit", code);
}

kiln_status kiln__cuda_device_count(const kiln__driver *driver, int *out, kiln_report *report)
{
    kiln__cuda_call call = { driver, KILN_EDEVICE, KILN__STAGE_DEVICE, "", report };
    bool has_devices;
    *out = 0;
    kiln_status status = initialise(driver, &has_devices, report);
    if (status == KILN_OK && has_devices)
        status = KILN__CUDA(&call, cuDeviceGetCount, (out));
    return status;
}

static kiln_status refuse_ordinal(int ordinal, int count, kiln_report *report)
{
    char last[32] = "";
    if (count == 0)
        return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, KILN__CUDA_ERROR_NO_DEVICE,
                          "no device cuda:%d: the driver shows no GPU; see nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
                          "device cpu",
                          ordinal);
    if (count == 1)
        return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, 0, "no device cuda:%d: there is 1 GPU, cuda:0",
                          ordinal);
    snprintf(last, sizeof(last), "%s cuda:%d", count == 2 ? "and" : "to", count - 1);
    return kiln__fail(report, KILN_ENODEVICE, KILN__STAGE_DEVICE, 0, "no device cuda:%d: there are %d GPUs, cuda:0 %s",
                      ordinal, count, last);
}

static kiln_status read_attribute(const kiln__cuda_call *call, const kiln__cuda_device *device, kiln__cu_enum which,
                                  int *out)
{
    return KILN__CUDA(call, cuDeviceGetAttribute, (out, which, device->handle));
}

static kiln_status read_facts(kiln__cuda_device *device, const kiln__cuda_call *call)
{
    int major = 0, minor = 0, processors = 0, l2 = 0;
    size_t memory = 0;
    kiln_status status = KILN__CUDA(call, cuDeviceGetName, (device->model, sizeof(device->model), device->handle));
    if (status == KILN_OK)
        status = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major);
    if (status == KILN_OK)
        status = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor);
    if (status == KILN_OK)
        status = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors);
    if (status == KILN_OK)
        status = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2);
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuDeviceTotalMem, (&memory, device->handle));
    if (status != KILN_OK)
        return status;
    char name[KILN__TARGET_SIZE];
    int length = snprintf(name, sizeof(name), "sm_%d%d", major, minor);
    if (length >= (int)sizeof(name) || !kiln__target_parse(name, (size_t)length, &device->device.target))
        return kiln__fail(call->report, KILN_EDEVICE, KILN__STAGE_DEVICE, 0,
                          "%s: the driver gives compute capability %d.%d, which is no target's name", call->where,
                          major, minor);
    device->model[sizeof(device->model) - 1] = '\0';
    device->memory_bytes = memory;
    device->multiprocessors = (uint32_t)processors;
    device->l2_bytes = (uint64_t)l2;
    return KILN_OK;
}

static kiln_status set_up(kiln__cuda_device *device, int ordinal, kiln_report *report)
{
    kiln__cuda_call call = device_call(device, report);
    kiln__cuda_scope scope;
    kiln__cuda_relax(&scope, device->driver);
    kiln_status status = KILN__CUDA(&call, cuDeviceGet, (&device->handle, ordinal));
    if (status == KILN_OK)
        status = read_facts(device, &call);
    if (status == KILN_OK)
        status = KILN__CUDA(&call, cuDevicePrimaryCtxRetain, (&device->primary, device->handle));
    kiln__cuda_leave(&scope);
    return status;
}

kiln_status kiln__cuda_device_open(kiln__backend *backend, const kiln__driver *driver, int ordinal, kiln_device **out,
                                   kiln_report *report)
{
    int count;
    *out = NULL;
    kiln_status status = kiln__cuda_device_count(driver, &count, report);
    if (status != KILN_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return refuse_ordinal(ordinal, count, report);
    kiln__cuda_device *device = kiln__calloc(1, sizeof(*device));
    if (device == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    device->device.backend = backend;
    device->device.ordinal = ordinal;
    device->driver = driver;
    pthread_mutex_init(&device->timing, NULL);
    snprintf(device->device.name, sizeof(device->device.name), "cuda:%d", ordinal);
    status = set_up(device, ordinal, report);
    if (status != KILN_OK) {
        kiln__cuda_device_close(&device->device);
        return status;
    }
    *out = &device->device;
    return KILN_OK;
}

/* Also takes a device that is only half set up. */
void kiln__cuda_device_close(kiln_device *base)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_scope scope;
    if (device == NULL)
        return;
    kiln__cuda_relax(&scope, device->driver);
    if (device->stop != NULL)
        device->driver->cuEventDestroy(device->stop);
    if (device->start != NULL)
        device->driver->cuEventDestroy(device->start);
    if (device->stream != NULL)
        device->driver->cuStreamDestroy(device->stream);
    if (device->primary != NULL)
        device->driver->cuDevicePrimaryCtxRelease(device->handle);
    kiln__cuda_leave(&scope);
    pthread_mutex_destroy(&device->timing);
    kiln__free(device);
}

void kiln__cuda_device_info(const kiln_device *base, kiln_device_info *out)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    out->name = device->device.name;
    out->model = device->model;
    out->target = device->device.target.name;
    out->memory_bytes = device->memory_bytes;
    out->multiprocessors = device->multiprocessors;
    out->l2_bytes = device->l2_bytes;
}

kiln_status kiln__cuda_alloc(kiln_device *base, void **out, size_t bytes, kiln_report *report)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_call call = device_call(device, report);
    kiln__cuda_scope scope;
    CUdeviceptr memory = 0;
    *out = NULL;
    kiln_status status = kiln__cuda_enter(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    status = KILN__CUDA(&call, cuMemAlloc, (&memory, bytes != 0 ? bytes : 1));
    kiln__cuda_leave(&scope);
    if (status == KILN_OK)
        *out = (void *)(uintptr_t)memory;
    return status;
}

void kiln__cuda_free(kiln_device *base, void *memory)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_call call = device_call(device, NULL);
    kiln__cuda_scope scope;
    if (memory == NULL || kiln__cuda_enter(&scope, device, &call) != KILN_OK)
        return;
    device->driver->cuMemFree((CUdeviceptr)(uintptr_t)memory);
    kiln__cuda_leave(&scope);
}

/* Copies to and from the host are over when this returns. With a stream they also come after what the stream holds,
 * which the driver's synchronous copies promise only for streams that wait for the default one. */
static kiln_status copy(const kiln__cuda_call *call, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                        CUstream stream)
{
    CUdeviceptr device_to = (CUdeviceptr)(uintptr_t)to, device_from = (CUdeviceptr)(uintptr_t)from;
    if (kind == KILN__COPY_ON_DEVICE)
        return KILN__CUDA(call, cuMemcpyDtoDAsync, (device_to, device_from, bytes, stream));
    if (stream == NULL && kind == KILN__COPY_FROM_DEVICE)
        return KILN__CUDA(call, cuMemcpyDtoH, (to, device_from, bytes));
    if (stream == NULL) {
        /* The call returns once the bytes are staged, which no stream but the default one waits for. */
        kiln_status staged = KILN__CUDA(call, cuMemcpyHtoD, (device_to, from, bytes));
        return staged == KILN_OK ? KILN__CUDA(call, cuStreamSynchronize, (stream)) : staged;
    }
    kiln_status status = kind == KILN__COPY_TO_DEVICE
                             ? KILN__CUDA(call, cuMemcpyHtoDAsync, (device_to, from, bytes, stream))
                             : KILN__CUDA(call, cuMemcpyDtoHAsync, (to, device_from, bytes, stream));
    return status == KILN_OK ? KILN__CUDA(call, cuStreamSynchronize, (stream)) : status;
}

/* Whether it is on the tape; what the host has a part in is done at once. */
static bool tape_copy(const kiln__cuda_device *device, void *to, const void *from, size_t bytes, kiln__copy_kind kind)
{
    if (kind == KILN__COPY_ON_DEVICE)
        kiln__cuda_tape_copy(device, (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes);
    else
        kiln__cuda_tape_spoil();
    return kind == KILN__COPY_ON_DEVICE;
}

kiln_status kiln__cuda_copy(kiln_device *base, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                            void *stream, kiln_report *report)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_call call = device_call(device, report);
    kiln__cuda_scope scope;
    if (kind != KILN__COPY_TO_DEVICE && kind != KILN__COPY_FROM_DEVICE && kind != KILN__COPY_ON_DEVICE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                          "unknown copy kind %d: expected KILN__COPY_TO_DEVICE, _FROM_DEVICE or _ON_DEVICE", (int)kind);
    if (bytes == 0 || (kiln__cuda_is_taped(stream) && tape_copy(device, to, from, bytes, kind)))
        return KILN_OK;
    kiln_status status = kiln__cuda_enter_current(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    status = copy(&call, to, from, bytes, kind, stream);
    kiln__cuda_leave(&scope);
    return status;
}

/* Launches with no stream go to the current context, which may be the host's own: wait for that one too. */
kiln_status kiln__cuda_sync(kiln_device *base, kiln_report *report)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_call call = device_call(device, report);
    kiln__cuda_scope scope;
    CUcontext current = NULL;
    kiln_status status = KILN__CUDA(&call, cuCtxGetCurrent, (&current));
    if (status == KILN_OK && current != NULL)
        status = KILN__CUDA(&call, cuCtxSynchronize, ());
    if (status != KILN_OK || current == device->primary)
        return status;
    status = kiln__cuda_enter(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    status = KILN__CUDA(&call, cuCtxSynchronize, ());
    kiln__cuda_leave(&scope);
    return status;
}
