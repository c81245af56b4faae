#include "gpu/module.h"
#include "gpu/tape.h"

#include <string.h>

enum { CLUSTER_PORTABLE = 8 };

static kiln__cuda_call launch_call(const kiln__module *module, kiln_report *report)
{
    const kiln__cuda_device *device = module->device;
    return (kiln__cuda_call){ device->driver, KILN_ELAUNCH, KILN__STAGE_LAUNCH, device->device.name, report };
}

/* ---- Facts */

static int attribute(const kiln__module *module, uint32_t function, kiln__cu_enum which)
{
    int value = -1;
    const kiln__cuda_device *device = module->device;
    kiln__cu_enum code = device->driver->cuKernelGetAttribute(&value, which, module->kernels[function], device->handle);
    return code == KILN__CUDA_SUCCESS ? value : -1;
}

/* The driver may load the function for it, which would break a capture. */
static void info(const kiln__module *module, uint32_t function, kiln__function_facts *out)
{
    kiln__cuda_scope scope;
    kiln__cuda_relax(&scope, module->device->driver);
    out->registers = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS);
    out->local_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    out->shared_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    out->constant_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    out->max_threads = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    kiln__cuda_leave(&scope);
}

/* The driver wants a context, although the question is about code. */
static int parameter(const kiln__module *module, uint32_t function, uint32_t index, size_t *bytes)
{
    size_t offset = 0;
    kiln__cuda_call call = launch_call(module, NULL);
    kiln__cuda_scope scope;
    *bytes = 0;
    if (call.driver->cuKernelGetParamInfo == NULL || kiln__cuda_enter(&scope, module->device, &call) != KILN_OK)
        return -1;
    kiln__cu_enum code = call.driver->cuKernelGetParamInfo(module->kernels[function], index, &offset, bytes);
    kiln__cuda_leave(&scope);
    return code == KILN__CUDA_SUCCESS ? 1 : code == KILN__CUDA_ERROR_INVALID_VALUE ? 0 : -1;
}

static kiln_status occupancy(const kiln__module *module, uint32_t function, uint32_t block, uint32_t shared_bytes,
                             int *out, kiln_report *report)
{
    kiln__cuda_call call = launch_call(module, report);
    kiln__cuda_scope scope;
    int most;
    *out = -1;
    if (call.driver->cuOccupancyMaxActiveBlocksPerMultiprocessor == NULL)
        return KILN_OK;
    kiln_status status = kiln__cuda_enter(&scope, module->device, &call);
    if (status != KILN_OK)
        return status;
    status = kiln__cuda_permit_shared(module, function, shared_bytes, &most, &call);
    if (status == KILN_OK)
        status = KILN__CUDA(&call, cuOccupancyMaxActiveBlocksPerMultiprocessor,
                            (out, (CUfunction)module->kernels[function], (int)block, shared_bytes));
    kiln__cuda_leave(&scope);
    return status;
}

/* ---- Variables */

static kiln_status fail_missing(const kiln__cuda_call *call, const char *name)
{
    return kiln__fail(
        call->report, KILN_ENOENT, call->stage, KILN__CUDA_ERROR_NOT_FOUND,
        "%s: the source has no variable '%s', or its functions use none of that name: ask for it as '&%s' among "
        "the functions",
        call->where, name, name);
}

static kiln_status global(kiln__module *module, const char *name, void **out, size_t *bytes, kiln_report *report)
{
    kiln__cuda_call call = launch_call(module, report);
    kiln__cuda_scope scope;
    CUdeviceptr address = 0;
    call.failure = KILN_ELOAD;
    call.stage = KILN__STAGE_LOAD;
    if (call.driver->cuLibraryGetGlobal == NULL)
        return kiln__fail(report, KILN_ENODRIVER, call.stage, 0,
                          "the driver has no cuLibraryGetGlobal: install a newer one");
    kiln_status status = kiln__cuda_enter(&scope, module->device, &call);
    if (status != KILN_OK)
        return status;
    kiln__cu_enum code = call.driver->cuLibraryGetGlobal(&address, bytes, module->library, name);
    kiln__cuda_leave(&scope);
    *out = (void *)(uintptr_t)address;
    if (code == KILN__CUDA_ERROR_NOT_FOUND)
        return fail_missing(&call, name);
    return kiln__cuda_result(&call, "cuLibraryGetGlobal", code);
}

/* ---- Launches */

static kiln_status permit(const kiln__module *module, uint32_t function, const kiln_grid *grid,
                          const kiln__cuda_call *call)
{
    int most = 0;
    uint64_t cluster = (uint64_t)grid->cluster[0] * grid->cluster[1] * grid->cluster[2];
    kiln_status status = kiln__cuda_permit_shared(module, function, grid->shared_bytes, &most, call);
    if (status == KILN_OK && (int64_t)grid->shared_bytes > most)
        return kiln__fail(call->report, KILN_ELAUNCH, call->stage, 0,
                          "%s: %u bytes of dynamic shared memory for a block: this function may have at most %d there",
                          call->where, (unsigned)grid->shared_bytes, most);
    if (status == KILN_OK && cluster > CLUSTER_PORTABLE && call->driver->cuKernelSetAttribute != NULL)
        status = KILN__CUDA(call, cuKernelSetAttribute,
                            (KILN__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, module->kernels[function],
                             module->device->handle));
    return status;
}

static kiln_status launch_with_attributes(CUkernel kernel, const kiln_grid *grid, void **arguments, CUstream stream,
                                          const kiln__cuda_call *call)
{
    kiln__cu_launch_attribute attributes[2];
    kiln__cu_launch_config config = { .stream = stream, .attributes = attributes, .shared_bytes = grid->shared_bytes };
    memset(attributes, 0, sizeof(attributes));
    memcpy(config.grid, grid->grid, sizeof(config.grid));
    memcpy(config.block, grid->block, sizeof(config.block));
    if (call->driver->cuLaunchKernelEx == NULL)
        return kiln__fail(
            call->report, KILN_ENODRIVER, call->stage, 0,
            "the driver has no cuLaunchKernelEx, which clusters and cooperative launches need: install a newer "
            "one");
    if (grid->cluster[0] > 0) {
        attributes[config.attribute_count].id = KILN__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        memcpy(attributes[config.attribute_count++].value.cluster, grid->cluster, sizeof(grid->cluster));
    }
    if (grid->cooperative) {
        attributes[config.attribute_count].id = KILN__CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[config.attribute_count++].value.cooperative = 1;
    }
    return KILN__CUDA(call, cuLaunchKernelEx,
                      ((const struct CUlaunchConfig_st *)&config, (CUfunction)kernel, arguments, NULL));
}

static kiln_status launch_in(kiln__module *module, uint32_t function, const kiln_grid *grid, void **arguments,
                             CUstream stream, const kiln__cuda_call *call)
{
    CUkernel kernel = module->kernels[function];
    const uint32_t *g = grid->grid, *b = grid->block;
    kiln_status status = permit(module, function, grid, call);
    if (status != KILN_OK)
        return status;
    if (kiln__cuda_is_taped(stream))
        kiln__cuda_tape_spoil(); /* what attributes a node may have depends on the driver */
    if (grid->cluster[0] > 0 || grid->cooperative)
        return launch_with_attributes(kernel, grid, arguments, stream, call);
    return KILN__CUDA(
        call, cuLaunchKernel,
        ((CUfunction)kernel, g[0], g[1], g[2], b[0], b[1], b[2], grid->shared_bytes, stream, arguments, NULL));
}

static kiln_status launch(kiln__module *module, uint32_t function, const kiln_grid *grid, void **arguments,
                          void *stream, kiln_report *report)
{
    kiln__cuda_call call = launch_call(module, report);
    kiln__cuda_scope scope;
    if ((uintptr_t)stream >= KILN__CUDA_FIRST_REAL_STREAM)
        return launch_in(module, function, grid, arguments, stream, &call);
    kiln_status status = kiln__cuda_enter_current(&scope, module->device, &call);
    if (status != KILN_OK)
        return status;
    status = launch_in(module, function, grid, arguments, stream, &call);
    kiln__cuda_leave(&scope);
    return status;
}

const kiln__function_vtable kiln__cuda_functions = {
    .info = info,
    .parameter = parameter,
    .occupancy = occupancy,
    .launch = launch,
    .global = global,
};
