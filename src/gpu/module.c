/* Loaded images: making kernels of a cubin or of PTX, facts about them, and their launches. */
#include "base/alloc.h"
#include "base/fpenv.h"
#include "base/list.h"
#include "gpu/cubin.h"
#include "gpu/device.h"
#include <stdio.h>
#include <string.h>

enum {
    JIT_LOG_SIZE = 4096,
    FIRST_REAL_STREAM = 3,      /* the handles below it are the default streams */
    ORDINARY_SHARED = 48 << 10, /* static and dynamic, what every kernel may have unasked */
    CLUSTER_PORTABLE = 8
};

struct kiln__module {
    CUlibrary library;
    int registers, local_bytes; /* of the first kernel */
    /* Read by launches. */
    const kiln__cuda_device *device;
    uint32_t kernel_count;
    uint32_t block[3], shared; /* of a template's kernel: threads in each direction, and bytes */
    atomic_int *permitted;     /* of each kernel: dynamic shared memory that it is known to be allowed */
    CUkernel kernels[];
};

static kiln__cuda_call launch_call(const kiln__module *module, kiln_report *report)
{
    return kiln__cuda_call_on(module->device, KILN_ELAUNCH, KILN__STAGE_LAUNCH, report);
}

/* ---- Dynamic shared memory: beyond what is usual, static memory included, the driver must be told */

/* Tells the driver, of all that the device has. Returns how much a block may then have. */
static int ask_shared(const kiln__module *module, uint32_t kernel, uint32_t wanted, kiln__cuda_call *call)
{
    const CUdevice device = module->device->handle;
    const CUkernel handle = module->kernels[kernel];
    int own = 0, all = ORDINARY_SHARED;
    KILN__CUDA(call, cuKernelGetAttribute, (&own, KILN__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, handle, device));
    if ((int64_t)wanted > all - own && call->driver->cuKernelSetAttribute != NULL) {
        KILN__CUDA(call, cuDeviceGetAttribute,
                   (&all, KILN__CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device));
        KILN__CUDA(call, cuKernelSetAttribute,
                   (KILN__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, all - own, handle, device));
    }
    return all - own;
}

/* Makes sure that a kernel may have `wanted` bytes, and returns how much it may have, which may be less. Takes no
 * lock; any thread, also one that captures. Threads that come here at the same time ask for the same amount: never
 * for the wish of one of them, which another one's launch may exceed. A thread that overwrites another's larger
 * number only causes one more request. */
static int permit_shared(const kiln__module *module, uint32_t kernel, uint32_t wanted, kiln__cuda_call *call)
{
    atomic_int *permitted = &module->permitted[kernel];
    int most = atomic_load_explicit(permitted, memory_order_relaxed);
    if ((int64_t)wanted <= most || call->status != KILN_OK)
        return most;
    kiln__cuda_call asking = kiln__cuda_call_on(module->device, call->failure, call->stage, call->report);
    kiln__cuda_relax(&asking);
    most = ask_shared(module, kernel, wanted, &asking);
    call->status = kiln__cuda_leave(&asking);
    if (call->status == KILN_OK)
        atomic_store_explicit(permitted, most, memory_order_relaxed);
    return most;
}

/* A kernel that names a cluster of more blocks than every GPU with clusters has may be launched once this is said. */
static void permit_cluster(const kiln__module *module, uint32_t kernel, kiln__cuda_call *call)
{
    const CUdevice device = module->device->handle;
    int width = 0;
    if (module->device->device.target.sm < KILN__CLUSTER_SM || call->driver->cuKernelSetAttribute == NULL)
        return;
    KILN__CUDA(call, cuKernelGetAttribute,
               (&width, KILN__CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, module->kernels[kernel], device));
    if (width > CLUSTER_PORTABLE)
        KILN__CUDA(call, cuKernelSetAttribute,
                   (KILN__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, module->kernels[kernel], device));
}

/* ---- Loading */

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
 * another chip and refuses only its kernels, so the two belong together. The driver keeps a copy of the image: the
 * option CU_LIBRARY_BINARY_IS_PRESERVED is not set. */
static attempt try_image(kiln__module *module, const void *image, const kiln__list *names, kiln__cu_enum *options,
                         void **values, unsigned option_count)
{
    const kiln__driver *driver = module->device->driver;
    kiln__fpenv host;
    kiln__fpenv_enter(&host); /* from PTX the driver compiles */
    attempt tried = { driver->cuLibraryLoadData(&module->library, image, options, values, option_count, NULL, NULL, 0),
                      "cuLibraryLoadData", NULL };
    kiln__fpenv_leave(&host);
    const char *name = NULL;
    for (uint32_t i = 0; tried.code == KILN__CUDA_SUCCESS && (name = kiln__list_next(names, name)) != NULL; i++)
        tried = prepare_kernel(module, i, name);
    if (tried.code != KILN__CUDA_SUCCESS && module->library != NULL) {
        driver->cuLibraryUnload(module->library);
        module->library = NULL;
    }
    return tried;
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
                             kiln__cuda_call *call)
{
    char reason[KILN__CUBIN_REASON_SIZE];
    bool good = kiln__ptx_check(ptx->data, ptx->length, target_of(entry), reason);
    for (const char *name = NULL; good && (name = kiln__list_next(names, name)) != NULL;) {
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

static kiln_status fail_attempt(kiln__cuda_call *call, const attempt *tried)
{
    if (tried->code == KILN__CUDA_ERROR_NOT_FOUND && tried->entry != NULL)
        return kiln__fail(call->report, KILN_ELOAD, call->stage, (int)tried->code,
                          "%s: the image has no entry point '%s': %s failed: it was built from other source",
                          call->where, tried->entry, tried->call);
    return kiln__cuda_fail(call, tried->call, tried->code);
}

/* An intact image for another GPU or driver is KILN_ETARGET: compiling it again would give the same. `ptx` is NULL
 * where there is none. */
static kiln_status fail_target(kiln__cuda_call *call, const char *target, const attempt *cubin, const attempt *ptx)
{
    char first[192], second[192];
    kiln__cuda_describe(call->driver, cubin->code, first, sizeof(first));
    if (ptx == NULL)
        return kiln__fail(call->report, KILN_ETARGET, call->stage, (int)cubin->code,
                          "%s is %s and does not take this cubin: %s failed: %s: build for target %s", call->where,
                          target, cubin->call, first, target);
    kiln__cuda_describe(call->driver, ptx->code, second, sizeof(second));
    return kiln__fail(call->report, KILN_ETARGET, call->stage, (int)ptx->code,
                      "%s (%s) takes neither the cubin nor the PTX: %s failed: %s; %s: build for target %s, with an "
                      "NVRTC no newer than the driver",
                      call->where, target, ptx->call, first, second, target);
}

static kiln_status load_kernels(kiln__module *module, const kiln__entry *entry, const kiln__list *names, bool *used_ptx,
                                kiln__cuda_call *call)
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
        first = try_image(module, cubin->data, names, NULL, NULL, 0);
    if (first.code == KILN__CUDA_SUCCESS)
        return KILN_OK;
    if (!is_for_another_gpu(first.code))
        return fail_attempt(call, &first);
    if (ptx == NULL)
        return fail_target(call, target, &first, NULL);
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
    return fail_target(call, target, &first, &second);
}

static void load_module(kiln__module *module, const kiln__entry *entry, const kiln__list *names, bool *used_ptx,
                        kiln__cuda_call *call)
{
    CUdevice device = module->device->handle;
    call->status = load_kernels(module, entry, names, used_ptx, call);
    module->kernel_count = (uint32_t)names->count;
    if (names->count > 0) {
        KILN__CUDA(call, cuKernelGetAttribute,
                   (&module->registers, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS, module->kernels[0], device));
        KILN__CUDA(call, cuKernelGetAttribute,
                   (&module->local_bytes, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, module->kernels[0], device));
    }
    for (uint32_t i = 0; i < module->kernel_count; i++) {
        permit_shared(module, i, module->shared, call);
        permit_cluster(module, i, call);
    }
}

/* The names to be found in the image: a template's entry points, or the functions of a source. */
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
    kiln__cuda_call call = kiln__cuda_call_on(device, KILN_ELOAD, KILN__STAGE_LOAD, report);
    kiln__list names = { 0 };
    *used_ptx = false;
    bool listed = list_names(entry, rule, &names);
    size_t each = sizeof(CUkernel) + sizeof(atomic_int);
    kiln__module *module = *out = listed ? kiln__calloc(1, sizeof(*module) + names.count * each) : NULL;
    if (module == NULL) {
        kiln__list_fini(&names);
        return kiln__fail_memory(report, KILN__STAGE_LOAD);
    }
    module->device = device;
    module->permitted = (atomic_int *)(module->kernels + names.count);
    memcpy(module->block, rule->block, sizeof(module->block));
    module->shared = rule->shared;
    if (rule->scratch)
        call.status = kiln__cuda_prepare_scratch((kiln__cuda_device *)base, report);
    kiln__cuda_enter(&call);
    if (call.status == KILN_OK)
        load_module(module, entry, &names, used_ptx, &call);
    kiln__cuda_leave(&call);
    kiln__list_fini(&names);
    if (call.status != KILN_OK) {
        kiln__cuda_unload(module);
        *out = NULL;
        *used_ptx = false;
    }
    return call.status;
}

void kiln__cuda_unload(kiln__module *module)
{
    if (module == NULL)
        return;
    if (module->library != NULL) {
        kiln__cuda_call call = launch_call(module, NULL);
        kiln__cuda_relax(&call);
        call.driver->cuLibraryUnload(module->library);
        kiln__cuda_leave(&call);
    }
    kiln__free(module);
}

void kiln__cuda_resources(const kiln__module *module, int *registers, int *local_bytes)
{
    *registers = module->registers;
    *local_bytes = module->local_bytes;
}

/* ---- Facts about a function */

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
    kiln__cuda_call call = launch_call(module, NULL);
    kiln__cuda_relax(&call);
    out->registers = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_NUM_REGS);
    out->local_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
    out->shared_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
    out->constant_bytes = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
    out->max_threads = attribute(module, function, KILN__CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    kiln__cuda_leave(&call);
}

/* The driver wants a context, although the question is about code. */
static int parameter(const kiln__module *module, uint32_t function, uint32_t index, size_t *bytes)
{
    size_t offset = 0;
    kiln__cuda_call call = launch_call(module, NULL);
    kiln__cu_enum code = KILN__CUDA_ERROR_UNKNOWN;
    *bytes = 0;
    if (call.driver->cuKernelGetParamInfo == NULL)
        return -1;
    kiln__cuda_enter(&call);
    if (call.status == KILN_OK)
        code = call.driver->cuKernelGetParamInfo(module->kernels[function], index, &offset, bytes);
    kiln__cuda_leave(&call);
    return code == KILN__CUDA_SUCCESS ? 1 : code == KILN__CUDA_ERROR_INVALID_VALUE ? 0 : -1;
}

static kiln_status occupancy(const kiln__module *module, uint32_t function, uint32_t block, uint32_t shared_bytes,
                             int *out, kiln_report *report)
{
    kiln__cuda_call call = launch_call(module, report);
    *out = -1;
    if (call.driver->cuOccupancyMaxActiveBlocksPerMultiprocessor == NULL)
        return KILN_OK;
    kiln__cuda_enter(&call);
    permit_shared(module, function, shared_bytes, &call);
    KILN__CUDA(&call, cuOccupancyMaxActiveBlocksPerMultiprocessor,
               (out, (CUfunction)module->kernels[function], (int)block, shared_bytes));
    return kiln__cuda_leave(&call);
}

static kiln_status global(kiln__module *module, const char *name, void **out, size_t *bytes, kiln_report *report)
{
    kiln__cuda_call call = kiln__cuda_call_on(module->device, KILN_ELOAD, KILN__STAGE_LOAD, report);
    CUdeviceptr address = 0;
    kiln__cu_enum code = KILN__CUDA_SUCCESS;
    if (call.driver->cuLibraryGetGlobal == NULL)
        return kiln__fail(report, KILN_ENODRIVER, call.stage, 0,
                          "the driver has no cuLibraryGetGlobal: install a newer one");
    kiln__cuda_enter(&call);
    if (call.status == KILN_OK)
        code = call.driver->cuLibraryGetGlobal(&address, bytes, module->library, name);
    *out = (void *)(uintptr_t)address;
    if (code == KILN__CUDA_ERROR_NOT_FOUND)
        call.status = kiln__fail(
            report, KILN_ENOENT, call.stage, (int)code,
            "%s: the source has no variable '%s', or its functions use none of that name: ask for it as '&%s' among "
            "the functions",
            call.where, name, name);
    else
        kiln__cuda_result(&call, "cuLibraryGetGlobal", code);
    return kiln__cuda_leave(&call);
}

/* ---- Launches: a CUkernel launches in the context of its stream; the default streams, NULL and the two reserved
 * handles 1 and 2, are those of the current context */

/* cuLaunchKernelEx would cost the same and is for attributes that no template asks for. */
static kiln__cu_enum submit(const kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args,
                            CUstream stream)
{
    const uint32_t *block = module->block;
    CUkernel kernel = module->kernels[entry];
    if (!kiln__cuda_is_taped(stream))
        return module->device->driver->cuLaunchKernel((CUfunction)kernel, grid[0], grid[1], grid[2], block[0], block[1],
                                                      block[2], module->shared, stream, args, NULL);
    const kiln__cu_kernel_node node = { .grid = { grid[0], grid[1], grid[2] },
                                        .block = { block[0], block[1], block[2] },
                                        .shared_bytes = module->shared,
                                        .parameters = args,
                                        .kernel = kernel };
    kiln__cuda_tape_kernel(module->device, &node);
    return KILN__CUDA_SUCCESS;
}

/* Takes no lock and allocates nothing. A launch that succeeds in a stream of the host's fills no kiln__cuda_call, which
 * would cost it a nanosecond or two. */
kiln_status kiln__cuda_launch(kiln__module *module, uint32_t entry, const uint32_t grid[3], void **args, void *stream,
                              kiln_report *report)
{
    bool real = (uintptr_t)stream >= FIRST_REAL_STREAM;
    if (entry >= module->kernel_count)
        return kiln__fail(report, KILN_EINVAL, KILN__STAGE_LAUNCH, 0, "entry point %u of a kernel that has %u",
                          (unsigned)entry, (unsigned)module->kernel_count);
    kiln__cu_enum code = real ? submit(module, entry, grid, args, stream) : KILN__CUDA_SUCCESS;
    if (real && code == KILN__CUDA_SUCCESS)
        return KILN_OK;
    kiln__cuda_call call = launch_call(module, report);
    if (!real)
        kiln__cuda_enter_current(&call);
    if (!real && call.status == KILN_OK)
        code = submit(module, entry, grid, args, stream);
    kiln__cuda_result(&call, "cuLaunchKernel", code);
    return kiln__cuda_leave(&call);
}

static void launch_with_attributes(CUkernel kernel, const kiln_grid *grid, void **arguments, CUstream stream,
                                   kiln__cuda_call *call)
{
    kiln__cu_launch_attribute attributes[2];
    kiln__cu_launch_config config = { .stream = stream, .attributes = attributes, .shared_bytes = grid->shared_bytes };
    memset(attributes, 0, sizeof(attributes));
    memcpy(config.grid, grid->grid, sizeof(config.grid));
    memcpy(config.block, grid->block, sizeof(config.block));
    if (grid->cluster[0] > 0) {
        attributes[config.attribute_count].id = KILN__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        memcpy(attributes[config.attribute_count++].value.cluster, grid->cluster, sizeof(grid->cluster));
    }
    if (grid->cooperative) {
        attributes[config.attribute_count].id = KILN__CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attributes[config.attribute_count++].value.cooperative = 1;
    }
    if (call->driver->cuLaunchKernelEx == NULL)
        call->status = kiln__fail(
            call->report, KILN_ENODRIVER, call->stage, 0,
            "the driver has no cuLaunchKernelEx, which clusters and cooperative launches need: install a newer one");
    KILN__CUDA(call, cuLaunchKernelEx,
               ((const struct CUlaunchConfig_st *)&config, (CUfunction)kernel, arguments, NULL));
}

/* Makes sure that a function may have the shared memory and the cluster that a launch asks for. */
static bool permit_launch(const kiln__module *module, uint32_t function, const kiln_grid *grid, kiln__cuda_call *call)
{
    uint64_t cluster = (uint64_t)grid->cluster[0] * grid->cluster[1] * grid->cluster[2];
    int most = permit_shared(module, function, grid->shared_bytes, call);
    if (call->status == KILN_OK && (int64_t)grid->shared_bytes > most)
        call->status =
            kiln__fail(call->report, KILN_ELAUNCH, call->stage, 0,
                       "%s: %u bytes of dynamic shared memory for a block: this function may have at most %d there",
                       call->where, (unsigned)grid->shared_bytes, most);
    if (cluster > CLUSTER_PORTABLE && call->driver->cuKernelSetAttribute != NULL)
        KILN__CUDA(call, cuKernelSetAttribute,
                   (KILN__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, module->kernels[function],
                    module->device->handle));
    return call->status == KILN_OK;
}

static kiln_status launch(kiln__module *module, uint32_t function, const kiln_grid *grid, void **arguments,
                          void *stream, kiln_report *report)
{
    kiln__cuda_call call = launch_call(module, report);
    CUkernel kernel = module->kernels[function];
    const uint32_t *g = grid->grid, *b = grid->block;
    if ((uintptr_t)stream < FIRST_REAL_STREAM)
        kiln__cuda_enter_current(&call);
    if (permit_launch(module, function, grid, &call) && kiln__cuda_is_taped(stream))
        kiln__cuda_tape_spoil(); /* the driver decides which attributes a node may have */
    if (grid->cluster[0] > 0 || grid->cooperative)
        launch_with_attributes(kernel, grid, arguments, stream, &call);
    else
        KILN__CUDA(
            &call, cuLaunchKernel,
            ((CUfunction)kernel, g[0], g[1], g[2], b[0], b[1], b[2], grid->shared_bytes, stream, arguments, NULL));
    return kiln__cuda_leave(&call);
}

const kiln__function_vtable kiln__cuda_functions = {
    .info = info,
    .parameter = parameter,
    .occupancy = occupancy,
    .launch = launch,
    .global = global,
};

/* A driver that cannot tell is older than captures. The default stream has no answer while a stream that waits for
 * it is capturing; work in it would break that capture. */
kiln_status kiln__cuda_capturing(kiln_device *base, void *stream, bool *out, kiln_report *report)
{
    kiln__cuda_call call =
        kiln__cuda_call_on((const kiln__cuda_device *)base, KILN_ELAUNCH, KILN__STAGE_LAUNCH, report);
    kiln__cu_enum state = KILN__CU_STREAM_CAPTURE_STATUS_NONE, code = KILN__CUDA_SUCCESS;
    *out = false;
    if (call.driver->cuStreamIsCapturing == NULL)
        return KILN_OK;
    kiln__cuda_enter_current(&call);
    if (call.status == KILN_OK)
        code = call.driver->cuStreamIsCapturing(stream, &state);
    *out = code == KILN__CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (code == KILN__CUDA_SUCCESS && state != KILN__CU_STREAM_CAPTURE_STATUS_NONE);
    if (!*out)
        kiln__cuda_result(&call, "cuStreamIsCapturing", code);
    return kiln__cuda_leave(&call);
}
