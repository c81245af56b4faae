/* Scratch memory: launches take it from a pool of the device in the order of their stream, so that launches in several
 * streams never share any, and a graph owns that of the launches in it. */
#include "gpu/device.h"
#include <string.h>

bool kiln__cuda_has_pools(const kiln__driver *driver)
{
    return driver->cuMemPoolCreate != NULL && driver->cuMemPoolDestroy != NULL &&
           driver->cuMemPoolSetAttribute != NULL && driver->cuMemAllocFromPoolAsync != NULL &&
           driver->cuMemFreeAsync != NULL;
}

/* The pool keeps what it has: without that, each launch behind a wait of the host would ask the system again. */
static void make_pool(kiln__cuda_device *device, kiln__cuda_call *call)
{
    const kiln__cu_pool_properties properties = { .kind = KILN__CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .place = KILN__CU_MEM_LOCATION_TYPE_DEVICE,
                                                  .device = device->handle };
    uint64_t threshold = UINT64_MAX;
    CUmemoryPool pool = NULL, known = NULL;
    KILN__CUDA(call, cuMemPoolCreate, (&pool, (const struct CUmemPoolProps_st *)&properties));
    KILN__CUDA(call, cuMemPoolSetAttribute, (pool, KILN__CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    const bool used = call->status == KILN_OK && atomic_compare_exchange_strong(&device->pool, &known, pool);
    if (!used && pool != NULL)
        call->driver->cuMemPoolDestroy(pool);
}

kiln_status kiln__cuda_prepare_scratch(kiln__cuda_device *device, kiln_report *report)
{
    kiln__cuda_call call = kiln__cuda_call_on(device, KILN_ELOAD, KILN__STAGE_LOAD, report);
    if (atomic_load(&device->pool) != NULL)
        return KILN_OK;
    if (!kiln__cuda_has_pools(device->driver))
        return kiln__fail(report, KILN_ENODRIVER, call.stage, 0,
                          "the driver has no memory pools, which scratch memory is taken from: install a newer one");
    kiln__cuda_enter(&call);
    if (call.status == KILN_OK)
        make_pool(device, &call);
    return kiln__cuda_leave(&call);
}

kiln_status kiln__cuda_scratch(kiln_device *base, size_t bytes, void *stream, void **out, kiln_report *report)
{
    kiln__cuda_device *device = (kiln__cuda_device *)base;
    kiln__cuda_call call = kiln__cuda_call_on(device, KILN_ELAUNCH, KILN__STAGE_LAUNCH, report);
    CUdeviceptr memory = 0;
    kiln_status status = kiln__cuda_prepare_scratch(device, report);
    if (status != KILN_OK)
        return status;
    if (kiln__cuda_is_taped(stream))
        kiln__cuda_tape_spoil();
    kiln__cuda_enter_current(&call);
    KILN__CUDA(&call, cuMemAllocFromPoolAsync, (&memory, bytes, atomic_load(&device->pool), stream));
    *out = (void *)(uintptr_t)memory;
    return kiln__cuda_leave(&call);
}

kiln_status kiln__cuda_release_scratch(kiln_device *base, void *memory, void *stream, kiln_report *report)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    kiln__cuda_call call = kiln__cuda_call_on(device, KILN_ELAUNCH, KILN__STAGE_LAUNCH, report);
    kiln__cuda_enter_current(&call);
    KILN__CUDA(&call, cuMemFreeAsync, ((CUdeviceptr)(uintptr_t)memory, stream));
    return kiln__cuda_leave(&call);
}
