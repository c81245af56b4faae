#include "gpu/module.h"

enum { ORDINARY = 48 << 10 }; /* static and dynamic, what every kernel may have unasked */

static kiln_status ask(const kiln__module *module, uint32_t kernel, uint32_t wanted, int *most,
                       const kiln__cuda_call *call)
{
    const CUdevice device = module->device->handle;
    const CUkernel handle = module->kernels[kernel];
    int own = 0;
    kiln_status status =
        KILN__CUDA(call, cuKernelGetAttribute, (&own, KILN__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle, device));
    *most = ORDINARY - own;
    if (status != KILN_OK || (int64_t)wanted <= *most || call->driver->cuKernelSetAttribute == NULL)
        return status;
    status = KILN__CUDA(call, cuDeviceGetAttribute,
                        (most, KILN__CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
    *most -= own;
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuKernelSetAttribute,
                            (KILN__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, *most, handle, device));
    return status;
}

/* Threads that come here at the same time ask for the same: never for what one of them wants, which another one's
 * launch may exceed. A thread that overwrites another's larger number only causes one more request. */
kiln_status kiln__cuda_permit_shared(const kiln__module *module, uint32_t kernel, uint32_t wanted, int *most,
                                     const kiln__cuda_call *call)
{
    atomic_int *permitted = &module->permitted[kernel];
    kiln__cuda_scope scope;
    *most = atomic_load_explicit(permitted, memory_order_relaxed);
    if ((int64_t)wanted <= *most)
        return KILN_OK;
    kiln__cuda_relax(&scope, call->driver);
    kiln_status status = ask(module, kernel, wanted, most, call);
    kiln__cuda_leave(&scope);
    if (status == KILN_OK)
        atomic_store_explicit(permitted, *most, memory_order_relaxed);
    return status;
}
