/* The cuda backend: its driver, its devices and their memory. */
#include "gpu/cuda.h"

#include "base/alloc.h"
#include "gpu/device.h"
#include <stdio.h>

typedef struct cuda_backend {
    kiln__backend backend;
    const kiln__log *log;
    char *libcuda; /* NULL: the loader's choice */
    pthread_mutex_t lock;
    kiln__driver *driver; /* NULL until opened, under the lock; constant from then on */
} cuda_backend;

/* ---- Whose context a call works in */

void kiln__cuda_relax(kiln__cuda_call *call)
{
    const kiln__driver *driver = call->driver;
    call->capture_mode = KILN__CU_STREAM_CAPTURE_MODE_RELAXED;
    call->relaxed = driver->cuThreadExchangeStreamCaptureMode != NULL &&
                    driver->cuThreadExchangeStreamCaptureMode(&call->capture_mode) == KILN__CUDA_SUCCESS;
}

void kiln__cuda_enter(kiln__cuda_call *call)
{
    if (call->status != KILN_OK)
        return;
    kiln__cuda_relax(call);
    call->pushed = KILN__CUDA(call, cuCtxPushCurrent, (call->primary));
}

void kiln__cuda_enter_current(kiln__cuda_call *call)
{
    CUcontext current = NULL;
    if (KILN__CUDA(call, cuCtxGetCurrent, (&current)) && current == NULL)
        call->pushed = KILN__CUDA(call, cuCtxPushCurrent, (call->primary));
}

void kiln__cuda_undo(kiln__cuda_call *call)
{
    CUcontext popped;
    if (call->relaxed)
        call->driver->cuThreadExchangeStreamCaptureMode(&call->capture_mode);
    if (call->pushed)
        call->driver->cuCtxPopCurrent(&popped);
    call->relaxed = call->pushed = false;
}

static kiln__cuda_call device_call(const kiln_device *base, kiln_report *report)
{
    return kiln__cuda_call_on((const kiln__cuda_device *)base, KILN_EDEVICE, KILN__STAGE_DEVICE, report);
}

/* ---- Devices */

/* A driver that could not be opened is tried again by the next call: it may have been installed meanwhile, and looking
 * for a library that is not there costs microseconds. */
static kiln_status open_driver(cuda_backend *cuda, kiln_report *report)
{
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&cuda->lock);
    if (cuda->driver == NULL) {
        status = kiln__driver_open(&cuda->driver, cuda->libcuda, report);
        if (status == KILN_OK)
            kiln__log_line(cuda->log, KILN_LOG_INFO, "CUDA driver %s, for CUDA %d.%d", cuda->driver->path,
                           cuda->driver->version / 1000, cuda->driver->version % 1000 / 10);
    }
    pthread_mutex_unlock(&cuda->lock);
    return status;
}

/* A driver that is there but cannot be initialised is no usable driver; one that shows no GPU is fine. */
static kiln_status device_count(kiln__backend *backend, int *out, kiln_report *report)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    *out = 0;
    kiln_status status = open_driver(cuda, report);
    if (status != KILN_OK)
        return status;
    kiln__cuda_call call = {
        .driver = cuda->driver, .failure = KILN_ENODRIVER, .stage = KILN__STAGE_DEVICE, .where = "", .report = report
    };
    kiln__cu_enum code = cuda->driver->cuInit(0);
    if (code == KILN__CUDA_ERROR_NO_DEVICE)
        return KILN_OK;
    kiln__cuda_result(&call, "cuInit", code);
    call.failure = KILN_EDEVICE;
    KILN__CUDA(&call, cuDeviceGetCount, (out));
    return call.status;
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

static int read_attribute(kiln__cuda_call *call, const kiln__cuda_device *device, kiln__cu_enum which)
{
    int value = 0;
    KILN__CUDA(call, cuDeviceGetAttribute, (&value, which, device->handle));
    return value;
}

static void read_facts(kiln__cuda_device *device, kiln__cuda_call *call)
{
    size_t memory = 0;
    char name[KILN__TARGET_SIZE];
    KILN__CUDA(call, cuDeviceGetName, (device->model, sizeof(device->model), device->handle));
    device->model[sizeof(device->model) - 1] = '\0';
    int major = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    int minor = read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    device->multiprocessors = (uint32_t)read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    device->l2_bytes = (uint64_t)read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    KILN__CUDA(call, cuDeviceTotalMem, (&memory, device->handle));
    device->memory_bytes = memory;
    device->device.has_pools = kiln__cuda_has_pools(call->driver) &&
                               read_attribute(call, device, KILN__CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
    int length = snprintf(name, sizeof(name), "sm_%d%d", major, minor);
    if (call->status == KILN_OK &&
        (length >= (int)sizeof(name) || !kiln__target_parse(name, (size_t)length, &device->device.target)))
        call->status = kiln__fail(call->report, KILN_EDEVICE, KILN__STAGE_DEVICE, 0,
                                  "%s: the driver gives compute capability %d.%d, which is no target's name",
                                  call->where, major, minor);
}

/* Also takes a device that is only half set up. */
static void device_close(kiln_device *base)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    if (device == NULL)
        return;
    kiln__cuda_call call = device_call(base, NULL);
    kiln__cuda_relax(&call);
    if (device->stop != NULL)
        device->driver->cuEventDestroy(device->stop);
    if (device->start != NULL)
        device->driver->cuEventDestroy(device->start);
    if (device->stream != NULL)
        device->driver->cuStreamDestroy(device->stream);
    if (atomic_load(&device->pool) != NULL)
        device->driver->cuMemPoolDestroy(atomic_load(&device->pool));
    if (device->primary != NULL)
        device->driver->cuDevicePrimaryCtxRelease(device->handle);
    kiln__cuda_leave(&call);
    pthread_mutex_destroy(&device->timing);
    kiln__free(device);
}

static kiln_status device_open(kiln__backend *backend, int ordinal, kiln_device **out, kiln_report *report)
{
    int count;
    *out = NULL;
    kiln_status status = device_count(backend, &count, report);
    if (status != KILN_OK)
        return status;
    if (ordinal < 0 || ordinal >= count)
        return refuse_ordinal(ordinal, count, report);
    kiln__cuda_device *device = kiln__calloc(1, sizeof(*device));
    if (device == NULL)
        return kiln__fail_memory(report, KILN__STAGE_DEVICE);
    device->device.backend = backend;
    device->device.ordinal = ordinal;
    device->driver = ((cuda_backend *)backend)->driver;
    pthread_mutex_init(&device->timing, NULL);
    snprintf(device->device.name, sizeof(device->device.name), "cuda:%d", ordinal);
    kiln__cuda_call call = device_call(&device->device, report);
    kiln__cuda_relax(&call);
    KILN__CUDA(&call, cuDeviceGet, (&device->handle, ordinal));
    read_facts(device, &call);
    KILN__CUDA(&call, cuDevicePrimaryCtxRetain, (&device->primary, device->handle));
    status = kiln__cuda_leave(&call);
    if (status == KILN_OK)
        *out = &device->device;
    else
        device_close(&device->device);
    return status;
}

static void device_info(const kiln_device *base, kiln_device_info *out)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    out->name = device->device.name;
    out->model = device->model;
    out->target = device->device.target.name;
    out->memory_bytes = device->memory_bytes;
    out->multiprocessors = device->multiprocessors;
    out->l2_bytes = device->l2_bytes;
}

/* ---- Memory */

static uint64_t free_memory(kiln_device *base)
{
    kiln__cuda_call call = device_call(base, NULL);
    size_t bytes = 0, total = 0;
    kiln__cuda_enter(&call);
    bool known = call.driver->cuMemGetInfo != NULL && KILN__CUDA(&call, cuMemGetInfo, (&bytes, &total));
    kiln__cuda_leave(&call);
    return known ? bytes : 0;
}

static kiln_status allocate(kiln_device *base, void **out, size_t bytes, kiln_report *report)
{
    kiln__cuda_call call = device_call(base, report);
    CUdeviceptr memory = 0;
    kiln__cuda_enter(&call);
    bool made = KILN__CUDA(&call, cuMemAlloc, (&memory, bytes != 0 ? bytes : 1));
    *out = made ? (void *)(uintptr_t)memory : NULL;
    return kiln__cuda_leave(&call);
}

static void release(kiln_device *base, void *memory)
{
    kiln__cuda_call call = device_call(base, NULL);
    if (memory == NULL)
        return;
    kiln__cuda_enter(&call);
    KILN__CUDA(&call, cuMemFree, ((CUdeviceptr)(uintptr_t)memory));
    kiln__cuda_leave(&call);
}

/* Copies to and from the host are over when this returns. With a stream they also come after what the stream holds,
 * which the driver's synchronous copies promise only for streams that wait for the default one. A synchronous copy to
 * the device returns once the bytes are staged, which no stream but the default one waits for. */
static void copy_in(kiln__cuda_call *call, void *to, const void *from, size_t bytes, kiln__copy_kind kind,
                    CUstream stream)
{
    CUdeviceptr device_to = (CUdeviceptr)(uintptr_t)to, device_from = (CUdeviceptr)(uintptr_t)from;
    if (kind == KILN__COPY_ON_DEVICE)
        KILN__CUDA(call, cuMemcpyDtoDAsync, (device_to, device_from, bytes, stream));
    else if (kind == KILN__COPY_FROM_DEVICE && stream == NULL)
        KILN__CUDA(call, cuMemcpyDtoH, (to, device_from, bytes));
    else if (kind == KILN__COPY_FROM_DEVICE)
        KILN__CUDA(call, cuMemcpyDtoHAsync, (to, device_from, bytes, stream));
    else if (stream == NULL)
        KILN__CUDA(call, cuMemcpyHtoD, (device_to, from, bytes));
    else
        KILN__CUDA(call, cuMemcpyHtoDAsync, (device_to, from, bytes, stream));
    if (kind == KILN__COPY_TO_DEVICE || (kind == KILN__COPY_FROM_DEVICE && stream != NULL))
        KILN__CUDA(call, cuStreamSynchronize, (stream));
}

/* A copy that the host has a part in is made at once and spoils a tape. */
static kiln_status copy(kiln_device *base, void *to, const void *from, size_t bytes, kiln__copy_kind kind, void *stream,
                        kiln_report *report)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    kiln__cuda_call call = device_call(base, report);
    if (kind != KILN__COPY_TO_DEVICE && kind != KILN__COPY_FROM_DEVICE && kind != KILN__COPY_ON_DEVICE)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_DEVICE, 0,
                          "unknown copy kind %d: expected KILN__COPY_TO_DEVICE, _FROM_DEVICE or _ON_DEVICE", (int)kind);
    if (bytes == 0)
        return KILN_OK;
    if (kiln__cuda_is_taped(stream)) {
        if (kind == KILN__COPY_ON_DEVICE) {
            kiln__cuda_tape_copy(device, (CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes);
            return KILN_OK;
        }
        kiln__cuda_tape_spoil();
    }
    kiln__cuda_enter_current(&call);
    copy_in(&call, to, from, bytes, kind, stream);
    return kiln__cuda_leave(&call);
}

/* Launches with no stream go to the current context, which may be the host's own: wait for that one too. */
static kiln_status synchronize(kiln_device *base, kiln_report *report)
{
    kiln__cuda_call call = device_call(base, report);
    CUcontext current = NULL;
    KILN__CUDA(&call, cuCtxGetCurrent, (&current));
    if (current != NULL)
        KILN__CUDA(&call, cuCtxSynchronize, ());
    if (current != call.primary) {
        kiln__cuda_enter(&call);
        KILN__CUDA(&call, cuCtxSynchronize, ());
    }
    return kiln__cuda_leave(&call);
}

/* ---- The backend */

static bool lacks_driver(kiln__backend *backend)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    pthread_mutex_lock(&cuda->lock);
    bool lacks = cuda->driver == NULL && cuda->libcuda == NULL;
    pthread_mutex_unlock(&cuda->lock);
    return lacks;
}

static void close_backend(kiln__backend *backend)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    if (cuda == NULL)
        return;
    kiln__free(cuda->driver);
    pthread_mutex_destroy(&cuda->lock);
    kiln__free(cuda->libcuda);
    kiln__free(cuda);
}

kiln__backend *kiln__cuda_open(const char *libcuda, const kiln__log *log)
{
    static const kiln__backend_vtable vtable = { .name = "cuda",
                                                 .cores = "multiprocessors",
                                                 .usual_elements = 1 << 26,
                                                 .copy_bytes = 1 << 30,
                                                 .device_count = device_count,
                                                 .lacks_driver = lacks_driver,
                                                 .device_open = device_open,
                                                 .device_close = device_close,
                                                 .device_info = device_info,
                                                 .free_memory = free_memory,
                                                 .load = kiln__cuda_load,
                                                 .unload = kiln__cuda_unload,
                                                 .launch = kiln__cuda_launch,
                                                 .scratch = kiln__cuda_scratch,
                                                 .release_scratch = kiln__cuda_release_scratch,
                                                 .capturing = kiln__cuda_capturing,
                                                 .resources = kiln__cuda_resources,
                                                 .functions = &kiln__cuda_functions,
                                                 .alloc = allocate,
                                                 .free = release,
                                                 .copy = copy,
                                                 .sync = synchronize,
                                                 .time = kiln__cuda_time,
                                                 .tapes = &kiln__cuda_tapes,
                                                 .close = close_backend };
    cuda_backend *cuda = kiln__calloc(1, sizeof(*cuda));
    if (cuda == NULL)
        return NULL;
    cuda->backend.vtable = &vtable;
    cuda->log = log;
    cuda->libcuda = kiln__strdup(libcuda);
    pthread_mutex_init(&cuda->lock, NULL);
    if (libcuda != NULL && cuda->libcuda == NULL) {
        close_backend(&cuda->backend);
        return NULL;
    }
    return &cuda->backend;
}

void kiln__cuda_driver_facts(const kiln__backend *backend, const char **path, int *version)
{
    cuda_backend *cuda = (cuda_backend *)backend;
    pthread_mutex_lock(&cuda->lock);
    *path = cuda->driver != NULL ? cuda->driver->path : "";
    *version = cuda->driver != NULL ? cuda->driver->version : 0;
    pthread_mutex_unlock(&cuda->lock);
}
