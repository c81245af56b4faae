#include "backend/cuda/launch.h"

#include "backend/cuda/cubin.h"
#include "backend/cuda/device.h"
#include "base/alloc.h"
#include <string.h>

enum { JIT_LOG_SIZE = 4096, FIRST_REAL_STREAM = 3 };
#define GRID_MAX ((uint64_t)INT32_MAX) /* blocks in a grid's first dimension, on every GPU there is */

struct kiln__module {
    const kiln__cuda_device *device;
    CUlibrary library;
    CUkernel kernels[KILN__ENTRIES_MAX];
    uint32_t kernel_count, inputs, element_size, block;
    uint64_t tile;
    int registers, local_bytes;
};

static kiln__cuda_call load_call(const kiln__cuda_device *device, kiln_report *report)
{
    return (kiln__cuda_call){ device->driver, KILN_ELOAD, KILN__STAGE_LOAD, device->device.name, report };
}

/* The driver keeps a copy of its own, as KILN__module promises: CU_LIBRARY_BINARY_IS_PRESERVED is not set. */
static kiln__cu_enum load_cubin(kiln__module *module, const kiln__section *cubin)
{
    return module->device->driver->cuLibraryLoadData(&module->library, cubin->data, NULL, NULL, 0, NULL, NULL, 0);
}

/* The load call reads PTX up to a NUL, which only a decoded entry is sure to have: hence the copy. */
static kiln__cu_enum load_ptx(kiln__module *module, const kiln__section *ptx, char log[JIT_LOG_SIZE])
{
    kiln__cu_enum options[] = { KILN__CU_JIT_ERROR_LOG_BUFFER, KILN__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(JIT_LOG_SIZE - 1) };
    char *text = kiln__memdup(ptx->data, ptx->length);
    if (text == NULL)
        return KILN__CUDA_ERROR_OUT_OF_MEMORY;
    kiln__cu_enum code =
        module->device->driver->cuLibraryLoadData(&module->library, text, options, values, 2, NULL, NULL, 0);
    kiln__free(text);
    return code;
}

/* 209 says that the chip is another one, 200 also that the driver is too old for this form of cubin: damage has been
 * ruled out by the entry's checksum and the check of the headers. */
static bool is_for_another_gpu(kiln__cu_enum code)
{
    return code == KILN__CUDA_ERROR_NO_BINARY_FOR_GPU || code == KILN__CUDA_ERROR_INVALID_IMAGE;
}

static kiln_status fail_both(const kiln__cuda_call *call, const char *target, kiln__cu_enum cubin, kiln__cu_enum ptx)
{
    char first[192], second[192];
    kiln__cuda_describe(call->driver, cubin, first, sizeof(first));
    kiln__cuda_describe(call->driver, ptx, second, sizeof(second));
    return kiln__fail(call->report, call->failure, call->stage, (int)ptx,
                      "%s (%s) takes neither the cubin nor the PTX: cuLibraryLoadData failed: %s; %s: build for target "
                      "%s, with an NVRTC no newer than the driver",
                      call->where, target, first, second, target);
}

static kiln_status load_library(kiln__module *module, const kiln__entry *entry, bool *used_ptx,
                                const kiln__cuda_call *call)
{
    const kiln__section *cubin = kiln__entry_find(entry, "cubin"), *ptx = kiln__entry_find(entry, "ptx");
    const char *target = module->device->device.target.name;
    char reason[KILN__CUBIN_REASON_SIZE], log[JIT_LOG_SIZE] = "";
    if (cubin == NULL && ptx == NULL)
        return kiln__fail(call->report, KILN_ELOAD, call->stage, 0, "%s: the image has neither a cubin nor PTX",
                          call->where);
    if (cubin != NULL && !kiln__cubin_check(cubin->data, cubin->length, reason))
        return kiln__fail(call->report, KILN_ELOAD, call->stage, KILN__CUDA_ERROR_INVALID_IMAGE,
                          "the cubin is damaged: %s; it was not given to %s", reason, call->where);
    kiln__cu_enum cubin_code = cubin != NULL ? load_cubin(module, cubin) : KILN__CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (cubin_code == KILN__CUDA_SUCCESS)
        return KILN_OK;
    if (!is_for_another_gpu(cubin_code))
        return kiln__cuda_result(call, "cuLibraryLoadData", cubin_code);
    if (ptx == NULL) {
        char words[192];
        kiln__cuda_describe(call->driver, cubin_code, words, sizeof(words));
        return kiln__fail(call->report, KILN_ELOAD, call->stage, (int)cubin_code,
                          "%s is %s and does not take this cubin: cuLibraryLoadData failed: %s: build for target %s",
                          call->where, target, words, target);
    }
    kiln__cu_enum ptx_code = load_ptx(module, ptx, log);
    *used_ptx = ptx_code == KILN__CUDA_SUCCESS;
    if (*used_ptx)
        return KILN_OK;
    kiln__report_set_log(call->report, log);
    if (cubin == NULL || ptx_code == KILN__CUDA_ERROR_OUT_OF_MEMORY || kiln__cuda_is_fatal(ptx_code))
        return kiln__cuda_result(call, "cuLibraryLoadData", ptx_code);
    return fail_both(call, target, cubin_code, ptx_code);
}

/* Loading is lazy by default and may wait for the GPU, so it is forced here: a launch then never loads anything. */
static kiln_status prepare_kernel(CUkernel *out, CUlibrary library, const char *name, const kiln__cuda_call *call)
{
    CUfunction function = NULL;
    kiln__cu_enum code = call->driver->cuLibraryGetKernel(out, library, name);
    if (code == KILN__CUDA_ERROR_NOT_FOUND)
        return kiln__fail(call->report, KILN_ELOAD, call->stage, (int)code,
                          "%s: the image has no entry point '%s': cuLibraryGetKernel failed: it was built from other "
                          "source",
                          call->where, name);
    kiln_status status = kiln__cuda_result(call, "cuLibraryGetKernel", code);
    if (status == KILN_OK)
        status = KILN__CUDA(call, cuKernelGetFunction, (&function, *out));
    if (status == KILN_OK && call->driver->cuFuncLoad != NULL)
        status = KILN__CUDA(call, cuFuncLoad, (function));
    return status;
}

static kiln_status load_module(kiln__module *module, const kiln__entry *entry, const kiln__rule *rule, bool *used_ptx,
                               const kiln__cuda_call *call)
{
    CUdevice device = module->device->handle;
    kiln_status status = load_library(module, entry, used_ptx, call);
    for (uint32_t i = 0; i < rule->entry_count && status == KILN_OK; i++) {
        status = prepare_kernel(&module->kernels[i], module->library, rule->entries[i].name, call);
        module->kernel_count = i + 1;
    }
    if (status == KILN_OK && rule->entry_count > 0)
        status = KILN__CUDA(call, cuKernelGetAttribute,
                            (&module->registers, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS, module->kernels[0], device));
    if (status == KILN_OK && rule->entry_count > 0)
        status =
            KILN__CUDA(call, cuKernelGetAttribute,
                       (&module->local_bytes, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, module->kernels[0], device));
    return status;
}

kiln_status kiln__cuda_load(kiln_device *base, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                            bool *used_ptx, kiln_report *report)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    kiln__cuda_call call = load_call(device, report);
    kiln__cuda_scope scope;
    *out = NULL;
    *used_ptx = false;
    kiln__module *module = kiln__calloc(1, sizeof(*module));
    if (module == NULL)
        return kiln__fail_memory(report, KILN__STAGE_LOAD);
    module->device = device;
    module->inputs = rule->inputs;
    module->element_size = rule->element_size;
    module->block = rule->block;
    module->tile = rule->tile;
    kiln_status status = kiln__cuda_enter(&scope, device, &call);
    if (status == KILN_OK) {
        status = load_module(module, entry, rule, used_ptx, &call);
        kiln__cuda_leave(&scope);
    }
    if (status != KILN_OK) {
        kiln__cuda_unload(module);
        *used_ptx = false;
        return status;
    }
    *out = module;
    return KILN_OK;
}

void kiln__cuda_unload(kiln__module *module)
{
    if (module == NULL)
        return;
    if (module->library != NULL)
        module->device->driver->cuLibraryUnload(module->library);
    kiln__free(module);
}

void kiln__cuda_resources(const kiln__module *module, int *registers, int *local_bytes)
{
    *registers = module->registers;
    *local_bytes = module->local_bytes;
}

/* Arrays of more blocks than a grid holds go in several launches. A launch covers whole tiles, so the pointers of the
 * next one are aligned as those of the first. */
static kiln_status launch_grids(const kiln__module *module, CUkernel kernel, uint64_t n, void *out,
                                const void *const *in, CUstream stream, const kiln__cuda_call *call)
{
    CUdeviceptr arrays[1 + KILN__INPUTS_MAX];
    uint64_t count;
    void *parameters[2 + KILN__INPUTS_MAX];
    const uint32_t array_count = 1 + module->inputs;
    for (uint32_t i = 0; i < array_count; i++) {
        arrays[i] = (CUdeviceptr)(uintptr_t)(i == 0 ? out : in[i - 1]);
        parameters[i] = &arrays[i];
    }
    parameters[array_count] = &count;
    for (uint64_t left = n; left > 0; left -= count) {
        count = left / module->tile >= GRID_MAX ? GRID_MAX * module->tile : left;
        unsigned grid = (unsigned)(count / module->tile + (count % module->tile != 0));
        kiln_status status = KILN__CUDA(
            call, cuLaunchKernel, ((CUfunction)kernel, grid, 1, 1, module->block, 1, 1, 0, stream, parameters, NULL));
        if (status != KILN_OK)
            return status;
        for (uint32_t i = 0; i < array_count; i++)
            arrays[i] += count * module->element_size;
    }
    return KILN_OK;
}

/* Takes no lock and allocates nothing. A CUkernel launches in the context of its stream; the default streams, NULL and
 * the two reserved handles 1 and 2, are those of the current context. */
kiln_status kiln__cuda_launch(kiln__module *module, uint32_t entry, uint64_t n, void *out, const void *const *in,
                              void *stream, kiln_report *report)
{
    const kiln__cuda_device *device = module->device;
    kiln__cuda_call call = { device->driver, KILN_ELAUNCH, KILN__STAGE_LAUNCH, device->device.name, report };
    if (entry >= module->kernel_count)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "entry point %u of a kernel that has %u",
                          (unsigned)entry, (unsigned)module->kernel_count);
    if ((uintptr_t)stream >= FIRST_REAL_STREAM)
        return launch_grids(module, module->kernels[entry], n, out, in, stream, &call);
    kiln__cuda_scope scope;
    kiln_status status = kiln__cuda_enter_current(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    status = launch_grids(module, module->kernels[entry], n, out, in, stream, &call);
    kiln__cuda_leave(&scope);
    return status;
}
