#include "gpu/launch.h"

#include "base/alloc.h"
#include "base/fpenv.h"
#include "gpu/cubin.h"
#include "gpu/module.h"
#include "gpu/tape.h"
#include <stdio.h>
#include <string.h>

enum { JIT_LOG_SIZE = 4096 };

static kiln__cuda_call load_call(const kiln__cuda_device *device, kiln_report *report)
{
    return (kiln__cuda_call){ device->driver, KILN_ELOAD, KILN__STAGE_LOAD, device->device.name, report };
}

/* One try at making kernels of an image: how far it got and what the driver said. */
typedef struct attempt {
    kiln__cu_enum code;
    const char *call;  /* the driver's function that failed */
    const char *entry; /* the entry point it was about, NULL while there is only the image */
} attempt;

/* Loading is lazy by default and may wait for the GPU, so it is forced here: a launch then never loads anything. */
static attempt prepare_kernel(kiln__module *module, uint32_t index, const char *name)
{
    const kiln__driver *driver = module->device->driver;
    CUfunction function = NULL;
    attempt tried = { driver->cuLibraryGetKernel(&module->kernels[index], module->library, name), "cuLibraryGetKernel",
                      name };
    if (tried.code == KILN__CUDA_SUCCESS) {
        tried.call = "cuKernelGetFunction";
        tried.code = driver->cuKernelGetFunction(&function, module->kernels[index]);
    }
    if (tried.code == KILN__CUDA_SUCCESS && driver->cuFuncLoad != NULL) {
        tried.call = "cuFuncLoad";
        tried.code = driver->cuFuncLoad(function);
    }
    return tried;
}

/* Loads an image and prepares all its kernels; leaves the module empty on failure. A lazy driver takes a cubin of
 * another chip and refuses only its kernels, so the two belong together. */
static attempt try_image(kiln__module *module, const void *image, const kiln__list *names, kiln__cu_enum *options,
                         void **values, unsigned option_count)
{
    const kiln__driver *driver = module->device->driver;
    kiln__fpenv host;
    kiln__fpenv_enter(&host); /* from PTX the driver compiles */
    attempt tried = { driver->cuLibraryLoadData(&module->library, image, options, values, option_count, NULL, NULL, 0),
                      "cuLibraryLoadData", NULL };
    kiln__fpenv_leave(&host);
    const char *name = kiln__list_next(names, NULL);
    for (uint32_t i = 0; name != NULL && tried.code == KILN__CUDA_SUCCESS; i++, name = kiln__list_next(names, name))
        tried = prepare_kernel(module, i, name);
    if (tried.code != KILN__CUDA_SUCCESS && module->library != NULL) {
        driver->cuLibraryUnload(module->library);
        module->library = NULL;
    }
    return tried;
}

/* The driver keeps a copy of its own, as KILN__module promises: CU_LIBRARY_BINARY_IS_PRESERVED is not set. */
static attempt try_cubin(kiln__module *module, const kiln__section *cubin, const kiln__list *names)
{
    return try_image(module, cubin->data, names, NULL, NULL, 0);
}

/* The load call reads PTX up to a NUL, which only a decoded entry is sure to have: hence the copy. */
static attempt try_ptx(kiln__module *module, const kiln__section *ptx, const kiln__list *names, char log[JIT_LOG_SIZE])
{
    kiln__cu_enum options[] = { KILN__CU_JIT_ERROR_LOG_BUFFER, KILN__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(JIT_LOG_SIZE - 1) };
    char *text = kiln__memdup(ptx->data, ptx->length);
    if (text == NULL)
        return (attempt){ KILN__CUDA_ERROR_OUT_OF_MEMORY, "cuLibraryLoadData", NULL };
    attempt tried = try_image(module, text, names, options, values, 2);
    kiln__free(text);
    return tried;
}

/* The target that the entry is kept under, for the check of its PTX; 0: its key does not say. */
static int target_of(const kiln__entry *entry)
{
    static const char field[] = "\ntarget ";
    kiln__target target;
    const char *at = entry->key_text != NULL ? strstr(entry->key_text, field) : NULL;
    if (at == NULL)
        return 0;
    at += sizeof(field) - 1;
    return kiln__target_parse(at, strcspn(at, "\n"), &target) ? target.sm : 0;
}

static kiln_status check_ptx(const kiln__entry *entry, const kiln__section *ptx, const kiln__list *names,
                             const kiln__cuda_call *call)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    bool good = kiln__ptx_check(ptx->data, ptx->length, target_of(entry), reason);
    const char *name = kiln__list_next(names, NULL);
    for (; name != NULL && good; name = kiln__list_next(names, name)) {
        good = kiln__ptx_has_entry(ptx->data, ptx->length, name);
        if (!good)
            snprintf(reason, sizeof(reason), "it has no entry point '%.80s'", name);
    }
    if (good)
        return KILN_OK;
    return kiln__fail(call->report, KILN_ELOAD, call->stage, KILN__CUDA_ERROR_INVALID_IMAGE,
                      "the PTX is damaged: %s; it was not given to %s", reason, call->where);
}

/* 209 says that the chip is another one, 200 also that the driver is too old for this form of cubin: damage has been
 * ruled out by the entry's checksum and the check of the headers. */
static bool is_for_another_gpu(kiln__cu_enum code)
{
    return code == KILN__CUDA_ERROR_NO_BINARY_FOR_GPU || code == KILN__CUDA_ERROR_INVALID_IMAGE;
}

static kiln_status fail_attempt(const kiln__cuda_call *call, const attempt *tried)
{
    if (tried->code == KILN__CUDA_ERROR_NOT_FOUND && tried->entry != NULL)
        return kiln__fail(call->report, KILN_ELOAD, call->stage, (int)tried->code,
                          "%s: the image has no entry point '%s': %s failed: it was built from other source",
                          call->where, tried->entry, tried->call);
    return kiln__cuda_result(call, tried->call, tried->code);
}

/* An intact image for another GPU or driver is KILN_ETARGET: compiling it again would give the same. */
static kiln_status fail_cubin_only(const kiln__cuda_call *call, const char *target, const attempt *tried)
{
    char words[192];
    kiln__cuda_describe(call->driver, tried->code, words, sizeof(words));
    return kiln__fail(call->report, KILN_ETARGET, call->stage, (int)tried->code,
                      "%s is %s and does not take this cubin: %s failed: %s: build for target %s", call->where, target,
                      tried->call, words, target);
}

static kiln_status fail_both(const kiln__cuda_call *call, const char *target, const attempt *cubin, const attempt *ptx)
{
    char first[192], second[192];
    kiln__cuda_describe(call->driver, cubin->code, first, sizeof(first));
    kiln__cuda_describe(call->driver, ptx->code, second, sizeof(second));
    return kiln__fail(call->report, KILN_ETARGET, call->stage, (int)ptx->code,
                      "%s (%s) takes neither the cubin nor the PTX: %s failed: %s; %s: build for target %s, with an "
                      "NVRTC no newer than the driver",
                      call->where, target, ptx->call, first, second, target);
}

static kiln_status load_kernels(kiln__module *module, const kiln__entry *entry, const kiln__list *names, bool *used_ptx,
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
    attempt first = { KILN__CUDA_ERROR_NO_BINARY_FOR_GPU, "cuLibraryLoadData", NULL };
    if (cubin != NULL)
        first = try_cubin(module, cubin, names);
    if (first.code == KILN__CUDA_SUCCESS)
        return KILN_OK;
    if (!is_for_another_gpu(first.code))
        return fail_attempt(call, &first);
    if (ptx == NULL)
        return fail_cubin_only(call, target, &first);
    kiln_status status = check_ptx(entry, ptx, names, call);
    if (status != KILN_OK)
        return status;
    attempt second = try_ptx(module, ptx, names, log);
    *used_ptx = second.code == KILN__CUDA_SUCCESS;
    if (*used_ptx)
        return KILN_OK;
    kiln__report_set_log(call->report, log);
    if (cubin == NULL || second.code == KILN__CUDA_ERROR_OUT_OF_MEMORY || kiln__cuda_is_fatal(second.code) ||
        second.code == KILN__CUDA_ERROR_NOT_FOUND)
        return fail_attempt(call, &second);
    return fail_both(call, target, &first, &second);
}

static kiln_status load_module(kiln__module *module, const kiln__entry *entry, const kiln__list *names, bool *used_ptx,
                               const kiln__cuda_call *call)
{
    CUdevice device = module->device->handle;
    kiln_status status = load_kernels(module, entry, names, used_ptx, call);
    if (status == KILN_OK)
        module->kernel_count = (uint32_t)names->count;
    if (status == KILN_OK && names->count > 0)
        status = KILN__CUDA(call, cuKernelGetAttribute,
                            (&module->registers, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS, module->kernels[0], device));
    if (status == KILN_OK && names->count > 0)
        status =
            KILN__CUDA(call, cuKernelGetAttribute,
                       (&module->local_bytes, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, module->kernels[0], device));
    int most;
    for (uint32_t i = 0; i < module->kernel_count && status == KILN_OK; i++)
        status = kiln__cuda_permit_shared(module, i, module->shared, &most, call);
    return status;
}

/* What is to be found in the image: a template's entry points, or the functions of a user's own source. */
static bool list_names(const kiln__entry *entry, const kiln__rule *rule, kiln__list *out)
{
    const kiln__section *functions = kiln__entry_find(entry, "functions"), *names = kiln__entry_find(entry, "names");
    for (uint32_t i = 0; i < rule->entry_count; i++)
        kiln__list_add(out, rule->entries[i].name);
    const char *asked = functions != NULL ? functions->data : "", *name = names != NULL ? names->data : "";
    while (rule->entry_count == 0 && *asked != '\0' && *name != '\0') {
        size_t length = strcspn(name, "\n"), asked_length = strcspn(asked, "\n");
        if (asked[0] != '&')
            kiln__list_add_bytes(out, name, length);
        name += length + (name[length] == '\n');
        asked += asked_length + (asked[asked_length] == '\n');
    }
    return !out->bytes.failed;
}

kiln_status kiln__cuda_load(kiln_device *base, const kiln__entry *entry, const kiln__rule *rule, kiln__module **out,
                            bool *used_ptx, kiln_report *report)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    kiln__cuda_call call = load_call(device, report);
    kiln__cuda_scope scope;
    kiln__list names = { 0 };
    kiln__module *module;
    *out = NULL;
    *used_ptx = false;
    bool listed = list_names(entry, rule, &names);
    size_t each = sizeof(module->kernels[0]) + sizeof(module->permitted[0]);
    module = listed ? kiln__calloc(1, sizeof(*module) + names.count * each) : NULL;
    if (module == NULL) {
        kiln__list_fini(&names);
        return kiln__fail_memory(report, KILN__STAGE_LOAD);
    }
    module->device = device;
    module->permitted = (atomic_int *)(module->kernels + names.count);
    memcpy(module->block, rule->block, sizeof(module->block));
    module->shared = rule->shared;
    kiln_status status = kiln__cuda_enter(&scope, device, &call);
    if (status == KILN_OK) {
        status = load_module(module, entry, &names, used_ptx, &call);
        kiln__cuda_leave(&scope);
    }
    kiln__list_fini(&names);
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
    if (module->library != NULL) {
        kiln__cuda_scope scope;
        kiln__cuda_relax(&scope, module->device->driver);
        module->device->driver->cuLibraryUnload(module->library);
        kiln__cuda_leave(&scope);
    }
    kiln__free(module);
}

void kiln__cuda_resources(const kiln__module *module, int *registers, int *local_bytes)
{
    *registers = module->registers;
    *local_bytes = module->local_bytes;
}

static kiln_status launch_in(const kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args,
                             CUstream stream, const kiln__cuda_call *call)
{
    const uint32_t *block = module->block;
    if (kiln__cuda_is_taped(stream)) {
        const kiln__cuda_shape shape = { { grid[0], grid[1], grid[2] },
                                         { block[0], block[1], block[2] },
                                         module->shared };
        kiln__cuda_tape_kernel(module->device, module->kernels[entry], &shape, args);
        return KILN_OK;
    }
    kiln__cu_enum code =
        module->device->driver->cuLaunchKernel((CUfunction)module->kernels[entry], grid[0], grid[1], grid[2], block[0],
                                               block[1], block[2], module->shared, stream, args, NULL);
    return code == KILN__CUDA_SUCCESS ? KILN_OK : kiln__cuda_result(call, "cuLaunchKernel", code);
}

/* Takes no lock and allocates nothing. A CUkernel launches in the context of its stream; the default streams, NULL and
 * the two reserved handles 1 and 2, are those of the current context. cuLaunchKernelEx would cost the same and is for
 * attributes that no template asks for. */
kiln_status kiln__cuda_launch(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                              kiln_report *report)
{
    const kiln__cuda_device *device = module->device;
    kiln__cuda_call call = { device->driver, KILN_ELAUNCH, KILN__STAGE_LAUNCH, device->device.name, report };
    kiln__cuda_scope scope;
    if (entry >= module->kernel_count)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "entry point %u of a kernel that has %u",
                          (unsigned)entry, (unsigned)module->kernel_count);
    if ((uintptr_t)stream >= KILN__CUDA_FIRST_REAL_STREAM)
        return launch_in(module, entry, grid, args, stream, &call);
    kiln_status status = kiln__cuda_enter_current(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    status = launch_in(module, entry, grid, args, stream, &call);
    kiln__cuda_leave(&scope);
    return status;
}

/* A driver that cannot tell is older than captures. The default stream has no answer while a stream that waits for
 * it is capturing; work in it would break that capture. */
kiln_status kiln__cuda_capturing(kiln_device *base, void *stream, bool *out, kiln_report *report)
{
    const kiln__cuda_device *device = (const kiln__cuda_device *)base;
    kiln__cuda_call call = { device->driver, KILN_ELAUNCH, KILN__STAGE_LAUNCH, device->device.name, report };
    kiln__cu_enum state = KILN__CU_STREAM_CAPTURE_STATUS_NONE;
    kiln__cuda_scope scope;
    *out = false;
    if (device->driver->cuStreamIsCapturing == NULL)
        return KILN_OK;
    kiln_status status = kiln__cuda_enter_current(&scope, device, &call);
    if (status != KILN_OK)
        return status;
    kiln__cu_enum code = device->driver->cuStreamIsCapturing(stream, &state);
    kiln__cuda_leave(&scope);
    *out = code == KILN__CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (code == KILN__CUDA_SUCCESS && state != KILN__CU_STREAM_CAPTURE_STATUS_NONE);
    return *out ? KILN_OK : kiln__cuda_result(&call, "cuStreamIsCapturing", code);
}
