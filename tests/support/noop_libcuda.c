/* A libcuda.so.1 that does nothing, for measuring what Kiln adds to a driver: each function returns success at once. It
 * shows one GPU of sm_90, hands out handles that must not be looked into, and checks nothing: for that there is
 * fake_libcuda.c. */
#include "gpu/cuda_symbols.h"
#include <string.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT __attribute__((visibility("default")))

typedef void (*any_function)(void);
typedef struct symbol {
    const char *name;
    any_function function;
} symbol;

/* ---- All functions of the list */

#define NOTHING(need, name, suffix, version, result, parameters) \
    static result noop_##name parameters                         \
    {                                                            \
        return KILN__CUDA_SUCCESS;                               \
    }
KILN__CUDA_SYMBOLS(NOTHING)

/* ---- Those that must give something */

static char object; /* every handle is its address */
#define HANDLE ((void *)&object)

static kiln__cu_enum give_version(int *version)
{
    *version = 13000;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_text(kiln__cu_enum code, const char **text)
{
    *text = "an error of the driver that does nothing";
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_count(int *count)
{
    *count = 1;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_model(char *name, int size, CUdevice device)
{
    strncpy(name, "a driver that does nothing", (size_t)size);
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_attribute(int *value, kiln__cu_enum attribute, CUdevice device)
{
    *value = attribute == KILN__CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_primary(CUcontext *context, CUdevice device)
{
    *context = HANDLE;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_current(CUcontext *context)
{
    *context = HANDLE;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_stream(CUstream *stream, unsigned int flags)
{
    *stream = HANDLE;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_memory(CUdeviceptr *memory, size_t bytes)
{
    *memory = 1 << 20; /* aligned, and nobody looks into it */
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_library(CUlibrary *library, const void *image, kiln__cu_enum *jit_options, void **jit_values,
                                  unsigned int jit_count, kiln__cu_enum *options, void **values, unsigned int count)
{
    *library = HANDLE;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_kernel(CUkernel *kernel, CUlibrary library, const char *name)
{
    *kernel = HANDLE;
    return KILN__CUDA_SUCCESS;
}

static kiln__cu_enum give_function(CUfunction *function, CUkernel kernel)
{
    *function = HANDLE;
    return KILN__CUDA_SUCCESS;
}

/* ---- Looking up: the first of a name counts */

#define ROW(need, name, suffix, version, result, parameters) { #name, (any_function)noop_##name },
static const symbol symbols[] = { { "cuDriverGetVersion", (any_function)give_version },
                                  { "cuGetErrorName", (any_function)give_text },
                                  { "cuGetErrorString", (any_function)give_text },
                                  { "cuDeviceGetCount", (any_function)give_count },
                                  { "cuDeviceGetName", (any_function)give_model },
                                  { "cuDeviceGetAttribute", (any_function)give_attribute },
                                  { "cuDevicePrimaryCtxRetain", (any_function)give_primary },
                                  { "cuCtxGetCurrent", (any_function)give_current },
                                  { "cuStreamCreate", (any_function)give_stream },
                                  { "cuMemAlloc", (any_function)give_memory },
                                  { "cuLibraryLoadData", (any_function)give_library },
                                  { "cuLibraryGetKernel", (any_function)give_kernel },
                                  { "cuKernelGetFunction", (any_function)give_function },
                                  KILN__CUDA_SYMBOLS(ROW) };

EXPORT kiln__cu_enum cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags,
                                         kiln__cu_enum *found);
kiln__cu_enum cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, kiln__cu_enum *found)
{
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++)
        if (strcmp(symbols[i].name, name) == 0) {
            memcpy(out, &symbols[i].function, sizeof(*out));
            *found = KILN__CU_GET_PROC_ADDRESS_SUCCESS;
            return KILN__CUDA_SUCCESS;
        }
    *out = NULL;
    *found = KILN__CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return KILN__CUDA_ERROR_NOT_FOUND;
}
