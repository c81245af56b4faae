/* The stand-in for libcuda.so.1: see fake_cuda.h. The driver's functions are here, its state and the controls in
 * fake_state.h, images in fake_image.h. */
#include "support/fake_state.h"
#include <signal.h>
#include <unistd.h>

enum { ALIGNMENT = 256, FRESH = 0xCD, COPY_NS = 1000, SHARED_USUAL = 48 << 10, SHARED_MOST = 227 << 10 };

static bool is_mapped(CUdeviceptr address, size_t bytes)
{
    for (object *at = objects; at != NULL; at = at->next) {
        CUdeviceptr base = (CUdeviceptr)(uintptr_t)at->memory;
        if ((at->kind == ALLOCATION || at->kind == GLOBAL) && address >= base && address - base <= at->bytes &&
            bytes <= at->bytes - (address - base))
            return true;
    }
    return false;
}

static void *host(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* ---- The driver: facts */

static kiln__cu_enum fake_cuDriverGetVersion(int *version)
{
    BEGIN;
    *version = driver_version;
    return leave(KILN__CUDA_SUCCESS);
}

static const char *error_name(kiln__cu_enum code)
{
#define NAMED(name, value)                                                \
    if (code == (value) && strncmp(#name, "CUDA_", strlen("CUDA_")) == 0) \
        return #name;
    KILN__CUDA_CONSTANTS(NAMED)
    return NULL;
}

static kiln__cu_enum fake_cuGetErrorName(kiln__cu_enum code, const char **name)
{
    BEGIN;
    *name = error_name(code);
    return leave(*name != NULL ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_INVALID_VALUE);
}

static kiln__cu_enum fake_cuGetErrorString(kiln__cu_enum code, const char **text)
{
    BEGIN;
    *text = error_name(code) != NULL ? "an error of the stand-in driver" : NULL;
    return leave(*text != NULL ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_INVALID_VALUE);
}

static kiln__cu_enum fake_cuInit(unsigned int flags)
{
    BEGIN;
    CHECK(flags == 0, INVALID_VALUE);
    CHECK(device_count > 0, NO_DEVICE);
    initialised = true;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDeviceGetCount(int *count)
{
    BEGIN;
    *count = device_count;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDeviceGet(CUdevice *device, int ordinal)
{
    BEGIN;
    CHECK(is_device(ordinal), INVALID_DEVICE);
    *device = ordinal;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDeviceGetName(char *name, int size, CUdevice device)
{
    BEGIN;
    CHECK(is_device(device), INVALID_DEVICE);
    snprintf(name, (size_t)size, "Stand-in GPU %d", alike ? 0 : device);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDeviceGetAttribute(int *value, kiln__cu_enum attribute, CUdevice device)
{
    BEGIN;
    CHECK(is_device(device), INVALID_DEVICE);
    switch (attribute) {
    case KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = device_sm / 10;
        break;
    case KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = device_sm % 10;
        break;
    case KILN__CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 16;
        break;
    case KILN__CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 4 << 20;
        break;
    case KILN__CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = SHARED_MOST;
        break;
    case KILN__CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *value = 1;
        break;
    default:
        return leave(KILN__CUDA_ERROR_INVALID_VALUE);
    }
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    BEGIN;
    CHECK(is_device(device), INVALID_DEVICE);
    *bytes = device_memory;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuMemGetInfo(size_t *free, size_t *total)
{
    BEGIN;
    *free = device_memory - bytes_in_use;
    *total = device_memory;
    return leave(KILN__CUDA_SUCCESS);
}

/* ---- The driver: contexts, streams, events */

static kiln__cu_enum fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    BEGIN;
    CHECK(is_device(device), INVALID_DEVICE);
    if (primaries[device] == NULL) {
        primaries[device] = add(CONTEXT, NULL);
        primaries[device]->ordinal = device;
    }
    primaries[device]->retained++;
    *context = (CUcontext)primaries[device];
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuDevicePrimaryCtxRelease(CUdevice device)
{
    BEGIN;
    CHECK(is_device(device), INVALID_DEVICE);
    CHECK(primaries[device] != NULL, INVALID_CONTEXT);
    if (--primaries[device]->retained == 0) {
        drop(primaries[device]);
        primaries[device] = NULL;
    }
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuCtxGetCurrent(CUcontext *context)
{
    BEGIN;
    *context = depth > 0 ? (CUcontext)stack[depth - 1] : NULL;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuCtxPushCurrent(CUcontext context)
{
    BEGIN;
    CHECK(live(context, CONTEXT) != NULL && depth < DEPTH_MAX, INVALID_CONTEXT);
    stack[depth++] = (object *)context;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuCtxPopCurrent(CUcontext *context)
{
    BEGIN;
    CHECK(depth > 0, INVALID_CONTEXT);
    *context = (CUcontext)stack[--depth];
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuCtxSynchronize(void)
{
    BEGIN;
    CHECK(current() != NULL, INVALID_CONTEXT);
    CHECK(capturing_in(current()) == NULL, STREAM_CAPTURE_UNSUPPORTED);
    wait_for_gpu();
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuThreadExchangeStreamCaptureMode(kiln__cu_enum *mode)
{
    BEGIN;
    CHECK(*mode <= KILN__CU_STREAM_CAPTURE_MODE_RELAXED, INVALID_VALUE);
    kiln__cu_enum before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuStreamIsCapturing(CUstream stream, kiln__cu_enum *capturing)
{
    object *context;
    BEGIN;
    kiln__cu_enum code = context_of(stream, &context);
    if (code != KILN__CUDA_SUCCESS)
        return leave(code);
    bool is_default = live(stream, STREAM) == NULL;
    CHECK(!is_default || capturing_in(context) == NULL, STREAM_CAPTURE_IMPLICIT);
    *capturing = is_default ? KILN__CU_STREAM_CAPTURE_STATUS_NONE : ((object *)stream)->capture;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuStreamCreate(CUstream *stream, unsigned int flags)
{
    BEGIN;
    CHECK(current() != NULL, INVALID_CONTEXT);
    CHECK(flags <= KILN__CU_STREAM_NON_BLOCKING, INVALID_VALUE);
    *stream = (CUstream)add(STREAM, current());
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuStreamDestroy(CUstream stream)
{
    BEGIN;
    CHECK(live(stream, STREAM) != NULL, INVALID_HANDLE);
    drop((object *)stream);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuStreamSynchronize(CUstream stream)
{
    object *context;
    BEGIN;
    wait_for_gpu();
    return leave(context_of(stream, &context));
}

static kiln__cu_enum fake_cuEventCreate(CUevent *event, unsigned int flags)
{
    BEGIN;
    CHECK(current() != NULL, INVALID_CONTEXT);
    CHECK(flags == KILN__CU_EVENT_DEFAULT, INVALID_VALUE);
    *event = (CUevent)add(EVENT, current());
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuEventDestroy(CUevent event)
{
    BEGIN;
    CHECK(live(event, EVENT) != NULL, INVALID_HANDLE);
    drop((object *)event);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuEventRecord(CUevent event, CUstream stream)
{
    object *context;
    BEGIN;
    object *found = live(event, EVENT);
    kiln__cu_enum code = context_of(stream, &context);
    CHECK(found != NULL && (code != KILN__CUDA_SUCCESS || found->owner == context), INVALID_HANDLE);
    found->when = event_time();
    found->recorded = true;
    return leave(code);
}

static kiln__cu_enum fake_cuEventSynchronize(CUevent event)
{
    BEGIN;
    CHECK(live(event, EVENT) != NULL, INVALID_HANDLE);
    wait_for_gpu();
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    BEGIN;
    const object *a = live(start, EVENT), *b = live(end, EVENT);
    CHECK(a != NULL && b != NULL && a->recorded && b->recorded, INVALID_HANDLE);
    *milliseconds =
        (float)((double)(b->when.tv_sec - a->when.tv_sec) * 1e3 + (double)(b->when.tv_nsec - a->when.tv_nsec) / 1e6);
    return leave(KILN__CUDA_SUCCESS);
}

/* ---- The driver: memory */

static kiln__cu_enum take_memory(CUdeviceptr *address, size_t bytes, object *context)
{
    void *fresh = NULL;
    CHECK(bytes > 0, INVALID_VALUE);
    CHECK(bytes <= device_memory && bytes_in_use <= device_memory - bytes, OUT_OF_MEMORY);
    CHECK(posix_memalign(&fresh, ALIGNMENT, bytes) == 0, OUT_OF_MEMORY);
    memset(fresh, FRESH, bytes);
    object *made = add(ALLOCATION, context);
    made->memory = fresh;
    made->bytes = bytes;
    bytes_in_use += bytes;
    *address = (CUdeviceptr)(uintptr_t)fresh;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum give_memory_back(CUdeviceptr address)
{
    for (object *at = objects; at != NULL; at = at->next)
        if (at->kind == ALLOCATION && at->memory == host(address)) {
            bytes_in_use -= at->bytes;
            drop(at);
            return leave(KILN__CUDA_SUCCESS);
        }
    return leave(KILN__CUDA_ERROR_INVALID_VALUE);
}

static kiln__cu_enum fake_cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    BEGIN;
    CHECK(current() != NULL, INVALID_CONTEXT);
    return take_memory(address, bytes, current());
}

static kiln__cu_enum fake_cuMemFree(CUdeviceptr address)
{
    BEGIN;
    CHECK(current() != NULL, INVALID_CONTEXT);
    return give_memory_back(address);
}

/* ---- Pools: what is taken in the order of a stream is memory like any other here */

static kiln__cu_enum fake_cuMemPoolCreate(CUmemoryPool *pool, const struct CUmemPoolProps_st *given)
{
    BEGIN;
    const kiln__cu_pool_properties *properties = (const kiln__cu_pool_properties *)given;
    CHECK(properties->kind == KILN__CU_MEM_ALLOCATION_TYPE_PINNED, INVALID_VALUE);
    CHECK(properties->place == KILN__CU_MEM_LOCATION_TYPE_DEVICE && is_device(properties->device), INVALID_VALUE);
    *pool = (CUmemoryPool)(void *)add(POOL, NULL);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuMemPoolDestroy(CUmemoryPool pool)
{
    BEGIN;
    object *found = live(pool, POOL);
    CHECK(found != NULL, INVALID_HANDLE);
    drop(found);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuMemPoolSetAttribute(CUmemoryPool pool, kiln__cu_enum attribute, void *value)
{
    BEGIN;
    CHECK(live(pool, POOL) != NULL, INVALID_HANDLE);
    CHECK(attribute == KILN__CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != NULL, INVALID_VALUE);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
                                                  CUstream stream)
{
    BEGIN;
    object *context;
    CHECK(live(pool, POOL) != NULL, INVALID_HANDLE);
    kiln__cu_enum code = context_of(stream, &context);
    return code != KILN__CUDA_SUCCESS ? leave(code) : take_memory(address, bytes, context);
}

static kiln__cu_enum fake_cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    BEGIN;
    object *context;
    kiln__cu_enum code = context_of(stream, &context);
    return code != KILN__CUDA_SUCCESS ? leave(code) : give_memory_back(address);
}

/* The copy itself: under the lock, since the memory must not be freed meanwhile. */
static kiln__cu_enum move(CUdeviceptr device_to, CUdeviceptr device_from, void *to, const void *from, size_t bytes,
                          CUstream stream)
{
    object *context;
    kiln__cu_enum code = context_of(stream, &context);
    if (code != KILN__CUDA_SUCCESS)
        return leave(code);
    CHECK(to != NULL || is_mapped(device_to, bytes), INVALID_VALUE);
    CHECK(from != NULL || is_mapped(device_from, bytes), INVALID_VALUE);
    spend_host();
    spend_gpu(COPY_NS);
    memmove(to != NULL ? to : host(device_to), from != NULL ? from : host(device_from), bytes);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    BEGIN;
    return move(to, 0, NULL, from, bytes, NULL);
}

static kiln__cu_enum fake_cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    BEGIN;
    return move(0, from, to, NULL, bytes, NULL);
}

static kiln__cu_enum fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    BEGIN;
    return move(to, 0, NULL, from, bytes, stream);
}

static kiln__cu_enum fake_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN;
    return move(0, from, to, NULL, bytes, stream);
}

static kiln__cu_enum fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    BEGIN;
    return move(to, from, NULL, NULL, bytes, stream);
}

/* ---- The driver: libraries and launches */

static void say_jit_error(const kiln__cu_enum *options, void **values, unsigned int count)
{
    char *buffer = NULL;
    size_t size = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == KILN__CU_JIT_ERROR_LOG_BUFFER)
            buffer = values[i];
        else if (options[i] == KILN__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            size = (size_t)(uintptr_t)values[i];
    }
    if (buffer != NULL)
        snprintf(buffer, size, "ptxas fatal: the stand-in driver does not take this PTX\n");
}

static kiln__cu_enum fake_cuLibraryLoadData(CUlibrary *library, const void *image, kiln__cu_enum *jit_options,
                                            void **jit_values, unsigned int jit_count, kiln__cu_enum *options,
                                            void **values, unsigned int count)
{
    fake_image facts;
    (void)options;
    (void)values;
    BEGIN;
    CHECK(image != NULL && count == 0, INVALID_VALUE);
    kiln__cu_enum code = fake_image_read(&facts, image, device_sm, driver_version);
    bool later = code == KILN__CUDA_ERROR_NO_BINARY_FOR_GPU && !eager && *(const char *)image == 0x7f;
    if (code != KILN__CUDA_SUCCESS && !later) {
        say_jit_error(jit_options, jit_values, jit_count);
        return leave(code);
    }
    object *made = add(LIBRARY, NULL);
    made->refusal = code;
    for (size_t i = 0; i < facts.count; i++) {
        object *kernel = add(KERNEL, made);
        kernel->facts = facts.kernels[i];
        kernel->facts.shared_bytes += static_shared;
        add(FUNCTION, kernel);
    }
    for (size_t i = 0; i < facts.global_count; i++) {
        object *global = add(GLOBAL, made);
        memcpy(global->facts.name, facts.globals[i].name, sizeof(global->facts.name));
        global->bytes = facts.globals[i].bytes;
        global->memory = calloc(1, global->bytes);
    }
    *library = (CUlibrary)made;
    return leave(KILN__CUDA_SUCCESS);
}

static object *owned(const object *owner, object_kind kind)
{
    for (object *at = objects; at != NULL; at = at->next)
        if (at->owner == owner && at->kind == kind)
            return at;
    return NULL;
}

static kiln__cu_enum fake_cuLibraryUnload(CUlibrary library)
{
    object *kernel;
    BEGIN;
    CHECK(live(library, LIBRARY) != NULL, INVALID_HANDLE);
    while ((kernel = owned((object *)library, KERNEL)) != NULL) {
        drop(owned(kernel, FUNCTION));
        drop(kernel);
    }
    while ((kernel = owned((object *)library, GLOBAL)) != NULL)
        drop(kernel);
    drop((object *)library);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name)
{
    BEGIN;
    CHECK(live(library, LIBRARY) != NULL, INVALID_HANDLE);
    CHECK(current() != NULL, INVALID_CONTEXT);
    for (object *at = objects; at != NULL; at = at->next)
        if (at->kind == GLOBAL && at->owner == (object *)library && strcmp(at->facts.name, name) == 0) {
            *address = (CUdeviceptr)(uintptr_t)at->memory;
            *bytes = at->bytes;
            return leave(KILN__CUDA_SUCCESS);
        }
    return leave(KILN__CUDA_ERROR_NOT_FOUND);
}

static kiln__cu_enum fake_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    BEGIN;
    object *found = live(library, LIBRARY);
    CHECK(found != NULL, INVALID_HANDLE);
    if (found->refusal != KILN__CUDA_SUCCESS)
        return leave(found->refusal);
    for (object *at = objects; at != NULL; at = at->next)
        if (at->kind == KERNEL && at->owner == (object *)library && strcmp(at->facts.name, name) == 0) {
            *kernel = (CUkernel)at;
            return leave(KILN__CUDA_SUCCESS);
        }
    return leave(KILN__CUDA_ERROR_NOT_FOUND);
}

static kiln__cu_enum fake_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
    BEGIN;
    object *found = live(kernel, KERNEL);
    CHECK(found != NULL, INVALID_HANDLE);
    CHECK(current() != NULL, INVALID_CONTEXT);
    found->loaded = true;
    *function = (CUfunction)owned(found, FUNCTION);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuFuncLoad(CUfunction function)
{
    BEGIN;
    CHECK(live(function, FUNCTION) != NULL, INVALID_HANDLE);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuKernelGetAttribute(int *value, kiln__cu_enum attribute, CUkernel kernel, CUdevice device)
{
    BEGIN;
    const object *found = live(kernel, KERNEL);
    CHECK(found != NULL, INVALID_HANDLE);
    CHECK(is_device(device), INVALID_DEVICE);
    switch (attribute) {
    case KILN__CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = found->facts.registers;
        break;
    case KILN__CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = found->facts.local_bytes;
        break;
    case KILN__CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case KILN__CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = found->facts.shared_bytes;
        break;
    case KILN__CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case KILN__CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        *value = 0;
        break;
    default:
        return leave(KILN__CUDA_ERROR_INVALID_VALUE);
    }
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuKernelSetAttribute(kiln__cu_enum attribute, int value, CUkernel kernel, CUdevice device)
{
    BEGIN;
    object *found = live(kernel, KERNEL);
    CHECK(found != NULL, INVALID_HANDLE);
    CHECK(is_device(device), INVALID_DEVICE);
    CHECK(attribute == KILN__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
              attribute == KILN__CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
          INVALID_VALUE);
    CHECK(value >= 0 && value <= SHARED_MOST - found->facts.shared_bytes, INVALID_VALUE);
    if (attribute == KILN__CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        found->shared_most = value;
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    BEGIN;
    const object *found = live(kernel, KERNEL);
    CHECK(found != NULL, INVALID_HANDLE);
    CHECK(index < found->facts.parameter_count, INVALID_VALUE);
    *offset = 8 * index;
    *bytes = found->facts.sizes[index];
    return leave(KILN__CUDA_SUCCESS);
}

static void record(const kiln_fake_launch *launch)
{
    records[launch_count++ % KILN_FAKE_RECORDS] = *launch;
}

/* What captures make of a launch: it joins the one of its stream, or breaks those it must not meet. */
static kiln__cu_enum meet_captures(const object *kernel, const object *context, CUstream stream)
{
    object *own = live(stream, STREAM), *other = own == NULL ? capturing_in(context) : NULL;
    if (other != NULL) {
        other->capture = KILN__CU_STREAM_CAPTURE_STATUS_INVALIDATED;
        return KILN__CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!kernel->loaded && break_captures())
        return KILN__CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (own != NULL && own->capture == KILN__CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return KILN__CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (own != NULL && own->capture == KILN__CU_STREAM_CAPTURE_STATUS_ACTIVE)
        own->captured++;
    return KILN__CUDA_SUCCESS;
}

static float relu6_of(float x)
{
    return x > 0 ? (x < 6 ? x : 6) : x <= 0 ? 0 : x;
}

/* Bit for bit: no test tunes with a tolerance here. */
static void compare(uint64_t *found, const float *x, const float *y, uint64_t n)
{
    for (uint64_t i = n; i-- > 0;)
        if (x[i] != y[i]) {
            found[0]++;
            found[1] = i;
        }
}

/* The two kernels that tuning relu6 needs. */
static void compute(const kiln_fake_launch *launch)
{
    const uint64_t *given = launch->parameters;
    if (strcmp(launch->name, "kiln_compare") == 0) {
        compare(host(given[0]), host(given[1]), host(given[2]), given[3]);
    } else if (launch->parameter_count == 3) {
        float *out = host(given[0]);
        const float *x = host(given[1]);
        for (uint64_t i = 0; i < given[2]; i++)
            out[i] = relu6_of(x[i]);
    }
}

/* A fault shows when the work is waited for, as on a GPU, and then everywhere. */
static void misbehave(const kiln_fake_launch *launch)
{
    if (bad == GOOD || launch->parameter_count != 3 || launch->block[0] != bad_block)
        return;
    if (bad == CRASH)
        raise(SIGSEGV);
    while (bad == HANG)
        pause();
    kiln_fake_fail_call("cuEventSynchronize", KILN__CUDA_ERROR_ILLEGAL_ADDRESS, 0, KILN_FAKE_FOREVER);
}

/* A kernel's dynamic shared memory: what is left of the usual, or what it has been permitted. */
static unsigned shared_limit(const object *kernel)
{
    int usual = SHARED_USUAL - kernel->facts.shared_bytes;
    return (unsigned)(kernel->shared_most > usual ? kernel->shared_most : usual);
}

static object *kernel_of(CUfunction function)
{
    if (live(function, KERNEL) != NULL)
        return (object *)function;
    return live(function, FUNCTION) != NULL ? ((object *)function)->owner : NULL;
}

static kiln__cu_enum fake_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block,
                                                                      size_t shared_bytes)
{
    BEGIN;
    const object *kernel = kernel_of(function);
    CHECK(kernel != NULL, INVALID_HANDLE);
    CHECK(current() != NULL, INVALID_CONTEXT);
    *blocks = shared_bytes <= shared_limit(kernel) ? 2048 / block : 0;
    return leave(KILN__CUDA_SUCCESS);
}

/* What a launch is refused for, or 0. */
static kiln__cu_enum check_shape(const object *kernel, const kiln_fake_launch *launch)
{
    const unsigned *grid = launch->grid, *block = launch->block;
    bool good = grid[0] >= 1 && grid[0] <= INT32_MAX && grid[1] >= 1 && grid[1] <= 65535 && grid[2] >= 1 &&
                grid[2] <= 65535 && block[0] >= 1 && block[1] >= 1 && block[2] >= 1 &&
                block[0] * block[1] * block[2] <= 1024 && launch->shared <= shared_limit(kernel);
    return good ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_INVALID_VALUE;
}

static void read_parameters(const object *kernel, kiln_fake_launch *launch, void **parameters)
{
    launch->parameter_count = kernel->facts.parameter_count;
    memcpy(launch->name, kernel->facts.name, sizeof(launch->name));
    for (unsigned i = 0; i < launch->parameter_count && i < KILN_FAKE_PARAMETERS; i++) {
        size_t size = kernel->facts.sizes[i];
        memcpy(&launch->parameters[i], parameters[i], size < sizeof(uint64_t) ? size : sizeof(uint64_t));
    }
}

/* What a GPU does with a launch. Lets the lock go meanwhile. */
static void perform(object *kernel, const kiln_fake_launch *launch)
{
    record(launch);
    spend_launch(launch);
    lazy_count += !kernel->loaded;
    kernel->loaded = true;
    kiln_fake_run run = run_function;
    void *data = run_data;
    bool computes = relu6 != 0;
    pthread_mutex_unlock(&lock);
    misbehave(launch);
    if (computes)
        compute(launch);
    if (run != NULL)
        run(data, launch);
    pthread_mutex_lock(&lock);
}

/* A launch of either form; `launch` has everything but what the stream and the kernel tell. */
static kiln__cu_enum launch_any(CUfunction function, kiln_fake_launch launch, void **parameters, void **extra)
{
    object *context, *kernel = kernel_of(function);
    CHECK(kernel != NULL, INVALID_HANDLE);
    kiln__cu_enum code = context_of(launch.stream, &context);
    if (code == KILN__CUDA_SUCCESS)
        code = meet_captures(kernel, context, launch.stream);
    if (code == KILN__CUDA_SUCCESS)
        code = check_shape(kernel, &launch);
    if (code != KILN__CUDA_SUCCESS)
        return leave(code);
    CHECK(extra == NULL, INVALID_VALUE);
    launch.context = context;
    read_parameters(kernel, &launch, parameters);
    spend_host();
    perform(kernel, &launch);
    return leave(KILN__CUDA_SUCCESS);
}

static kiln__cu_enum fake_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                         unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                         unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                         void **parameters, void **extra)
{
    BEGIN;
    const kiln_fake_launch launch = { .grid = { grid_x, grid_y, grid_z },
                                      .block = { block_x, block_y, block_z },
                                      .shared = shared_bytes,
                                      .stream = stream };
    return launch_any(function, launch, parameters, extra);
}

static kiln__cu_enum fake_cuLaunchKernelEx(const struct CUlaunchConfig_st *given, CUfunction function,
                                           void **parameters, void **extra)
{
    BEGIN;
    const kiln__cu_launch_config *config = (const kiln__cu_launch_config *)given;
    kiln_fake_launch launch = { .shared = config->shared_bytes, .stream = config->stream };
    memcpy(launch.grid, config->grid, sizeof(launch.grid));
    memcpy(launch.block, config->block, sizeof(launch.block));
    for (unsigned i = 0; i < config->attribute_count; i++) {
        const kiln__cu_launch_attribute *attribute = &config->attributes[i];
        bool cluster = attribute->id == KILN__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        CHECK(cluster || attribute->id == KILN__CU_LAUNCH_ATTRIBUTE_COOPERATIVE, INVALID_VALUE);
        if (cluster)
            memcpy(launch.cluster, attribute->value.cluster, sizeof(launch.cluster));
        else
            launch.cooperative = attribute->value.cooperative;
    }
    return launch_any(function, launch, parameters, extra);
}

#include "support/fake_graph.h"

/* ---- What is exported: the way to all functions, and a few of them by name for a caller that finds no other way */

#define EXPORTED(suffixed, parameters, name, arguments) \
    EXPORT kiln__cu_enum suffixed parameters;           \
    kiln__cu_enum suffixed parameters                   \
    {                                                   \
        return fake_##name arguments;                   \
    }
EXPORTED(cuInit, (unsigned int flags), cuInit, (flags))
EXPORTED(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes), cuMemAlloc, (address, bytes))
EXPORTED(cuMemFree_v2, (CUdeviceptr address), cuMemFree, (address))

EXPORT kiln__cu_enum cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                         kiln__cu_enum *found);
kiln__cu_enum cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, kiln__cu_enum *found)
{
    kiln__cu_enum result = KILN__CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    (void)flags;
    *out = NULL;
    pthread_mutex_lock(&lock);
    const symbol *wanted = find_symbol(name);
    if (wanted != NULL && !wanted->hidden && wanted->version <= driver_version) {
        result = version >= wanted->version ? KILN__CU_GET_PROC_ADDRESS_SUCCESS
                                            : KILN__CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        if (result == KILN__CU_GET_PROC_ADDRESS_SUCCESS)
            memcpy(out, &wanted->function, sizeof(*out));
    }
    pthread_mutex_unlock(&lock);
    if (found != NULL)
        *found = result;
    return *out != NULL ? KILN__CUDA_SUCCESS : KILN__CUDA_ERROR_NOT_FOUND;
}
