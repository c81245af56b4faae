/* Every function of libcuda.so.1 that Kiln calls, and every code and attribute it names: the one list from which come
 * the driver table and its loader (driver.c), the stand-in driver (tests/support/fake_libcuda.c) and the check against
 * NVIDIA's own header (tests/support/prototypes.c). Needs no CUDA header: handles carry NVIDIA's tag names, enums are
 * plain unsigned. */
#ifndef KILN_GPU_CUDA_SYMBOLS_H
#define KILN_GPU_CUDA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned int kiln__cu_enum; /* CUresult and every other enum of the driver */

/* NVIDIA's structs under names of our own: the list names them by their tags. */
struct CUlaunchConfig_st;
struct CUDA_KERNEL_NODE_PARAMS_v2_st;
struct CUDA_MEMCPY3D_st;
struct CUmemPoolProps_st;
typedef struct kiln__cu_launch_attribute {
    kiln__cu_enum id;
    char pad[4];
    union {
        char room[64];
        int cooperative;
        unsigned int cluster[3];
    } value;
} kiln__cu_launch_attribute;
typedef struct kiln__cu_launch_config {
    unsigned int grid[3], block[3], shared_bytes;
    CUstream stream;
    kiln__cu_launch_attribute *attributes;
    unsigned int attribute_count;
} kiln__cu_launch_config;
typedef struct kiln__cu_kernel_node {
    CUfunction function; /* NULL: `kernel` in `context` */
    unsigned int grid[3], block[3], shared_bytes;
    void **parameters, **extra;
    CUkernel kernel;
    CUcontext context;
} kiln__cu_kernel_node;
typedef struct kiln__cu_copy_end {
    size_t x, y, z, lod;
    kiln__cu_enum memory_type;
    void *host;
    CUdeviceptr device;
    void *array, *reserved;
    size_t pitch, height;
} kiln__cu_copy_end;
typedef struct kiln__cu_copy_node {
    kiln__cu_copy_end from, to;
    size_t width, height, depth;
} kiln__cu_copy_node;
typedef struct kiln__cu_pool_properties {
    kiln__cu_enum kind, handles, place;
    int device;
    void *security;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
} kiln__cu_pool_properties;

/* X(need, name, suffix, version, result, parameters). `version` is the CUDA version that brought this form of the
 * function, as cuGetProcAddress takes it; name and suffix together are the name that the library exports. A missing
 * OPTIONAL function is NULL in the table and costs the feature it serves. */
#define KILN__CUDA_SYMBOLS(X)                                                                                         \
    X(REQUIRED, cuDriverGetVersion, , 2020, kiln__cu_enum, (int *version))                                            \
    X(REQUIRED, cuGetErrorName, , 6000, kiln__cu_enum, (kiln__cu_enum code, const char **name))                       \
    X(REQUIRED, cuGetErrorString, , 6000, kiln__cu_enum, (kiln__cu_enum code, const char **text))                     \
    X(REQUIRED, cuInit, , 2000, kiln__cu_enum, (unsigned int flags))                                                  \
    X(REQUIRED, cuDeviceGetCount, , 2000, kiln__cu_enum, (int *count))                                                \
    X(REQUIRED, cuDeviceGet, , 2000, kiln__cu_enum, (CUdevice * device, int ordinal))                                 \
    X(REQUIRED, cuDeviceGetName, , 2000, kiln__cu_enum, (char *name, int size, CUdevice device))                      \
    X(REQUIRED, cuDeviceGetAttribute, , 2000, kiln__cu_enum, (int *value, kiln__cu_enum attribute, CUdevice device))  \
    X(REQUIRED, cuDeviceTotalMem, _v2, 3020, kiln__cu_enum, (size_t * bytes, CUdevice device))                        \
    X(REQUIRED, cuDevicePrimaryCtxRetain, , 7000, kiln__cu_enum, (CUcontext * context, CUdevice device))              \
    X(REQUIRED, cuDevicePrimaryCtxRelease, _v2, 11000, kiln__cu_enum, (CUdevice device))                              \
    X(REQUIRED, cuCtxGetCurrent, , 4000, kiln__cu_enum, (CUcontext * context))                                        \
    X(REQUIRED, cuCtxPushCurrent, _v2, 4000, kiln__cu_enum, (CUcontext context))                                      \
    X(REQUIRED, cuCtxPopCurrent, _v2, 4000, kiln__cu_enum, (CUcontext * context))                                     \
    X(REQUIRED, cuCtxSynchronize, , 2000, kiln__cu_enum, (void))                                                      \
    X(REQUIRED, cuStreamCreate, , 2000, kiln__cu_enum, (CUstream * stream, unsigned int flags))                       \
    X(REQUIRED, cuStreamDestroy, _v2, 4000, kiln__cu_enum, (CUstream stream))                                         \
    X(REQUIRED, cuStreamSynchronize, , 2000, kiln__cu_enum, (CUstream stream))                                        \
    X(REQUIRED, cuEventCreate, , 2000, kiln__cu_enum, (CUevent * event, unsigned int flags))                          \
    X(REQUIRED, cuEventDestroy, _v2, 4000, kiln__cu_enum, (CUevent event))                                            \
    X(REQUIRED, cuEventRecord, , 2000, kiln__cu_enum, (CUevent event, CUstream stream))                               \
    X(REQUIRED, cuEventSynchronize, , 2000, kiln__cu_enum, (CUevent event))                                           \
    X(REQUIRED, cuEventElapsedTime, , 2000, kiln__cu_enum, (float *milliseconds, CUevent start, CUevent end))         \
    X(OPTIONAL, cuMemGetInfo, _v2, 3020, kiln__cu_enum, (size_t * free, size_t * total))                              \
    X(REQUIRED, cuMemAlloc, _v2, 3020, kiln__cu_enum, (CUdeviceptr * memory, size_t bytes))                           \
    X(REQUIRED, cuMemFree, _v2, 3020, kiln__cu_enum, (CUdeviceptr memory))                                            \
    X(REQUIRED, cuMemcpyHtoD, _v2, 3020, kiln__cu_enum, (CUdeviceptr to, const void *from, size_t bytes))             \
    X(REQUIRED, cuMemcpyDtoH, _v2, 3020, kiln__cu_enum, (void *to, CUdeviceptr from, size_t bytes))                   \
    X(REQUIRED, cuMemcpyHtoDAsync, _v2, 3020, kiln__cu_enum,                                                          \
      (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                                              \
    X(REQUIRED, cuMemcpyDtoHAsync, _v2, 3020, kiln__cu_enum,                                                          \
      (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                                    \
    X(REQUIRED, cuMemcpyDtoDAsync, _v2, 3020, kiln__cu_enum,                                                          \
      (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                                              \
    X(REQUIRED, cuLibraryLoadData, , 12000, kiln__cu_enum,                                                            \
      (CUlibrary * library, const void *image, kiln__cu_enum *jit_options, void **jit_values, unsigned int jit_count, \
       kiln__cu_enum *options, void **values, unsigned int count))                                                    \
    X(REQUIRED, cuLibraryUnload, , 12000, kiln__cu_enum, (CUlibrary library))                                         \
    X(REQUIRED, cuLibraryGetKernel, , 12000, kiln__cu_enum, (CUkernel * kernel, CUlibrary library, const char *name)) \
    X(REQUIRED, cuKernelGetFunction, , 12000, kiln__cu_enum, (CUfunction * function, CUkernel kernel))                \
    X(REQUIRED, cuKernelGetAttribute, , 12000, kiln__cu_enum,                                                         \
      (int *value, kiln__cu_enum attribute, CUkernel kernel, CUdevice device))                                        \
    X(REQUIRED, cuLaunchKernel, , 4000, kiln__cu_enum,                                                                \
      (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,      \
       unsigned int block_y, unsigned int block_z, unsigned int shared_bytes, CUstream stream, void **parameters,     \
       void **extra))                                                                                                 \
    X(OPTIONAL, cuFuncLoad, , 12040, kiln__cu_enum, (CUfunction function))                                            \
    X(OPTIONAL, cuThreadExchangeStreamCaptureMode, , 10010, kiln__cu_enum, (kiln__cu_enum * mode))                    \
    X(OPTIONAL, cuStreamIsCapturing, , 10000, kiln__cu_enum, (CUstream stream, kiln__cu_enum * capturing))            \
    X(OPTIONAL, cuLibraryGetGlobal, , 12000, kiln__cu_enum,                                                           \
      (CUdeviceptr * address, size_t * bytes, CUlibrary library, const char *name))                                   \
    X(OPTIONAL, cuKernelSetAttribute, , 12000, kiln__cu_enum,                                                         \
      (kiln__cu_enum attribute, int value, CUkernel kernel, CUdevice device))                                         \
    X(OPTIONAL, cuKernelGetParamInfo, , 12040, kiln__cu_enum,                                                         \
      (CUkernel kernel, size_t index, size_t * offset, size_t * bytes))                                               \
    X(OPTIONAL, cuOccupancyMaxActiveBlocksPerMultiprocessor, , 6050, kiln__cu_enum,                                   \
      (int *blocks, CUfunction function, int block, size_t shared_bytes))                                             \
    X(OPTIONAL, cuLaunchKernelEx, , 11060, kiln__cu_enum,                                                             \
      (const struct CUlaunchConfig_st *config, CUfunction function, void **parameters, void **extra))                 \
    X(OPTIONAL, cuMemPoolCreate, , 11020, kiln__cu_enum,                                                              \
      (CUmemoryPool * pool, const struct CUmemPoolProps_st *properties))                                              \
    X(OPTIONAL, cuMemPoolDestroy, , 11020, kiln__cu_enum, (CUmemoryPool pool))                                        \
    X(OPTIONAL, cuMemPoolSetAttribute, , 11020, kiln__cu_enum,                                                        \
      (CUmemoryPool pool, kiln__cu_enum attribute, void *value))                                                      \
    X(OPTIONAL, cuMemAllocFromPoolAsync, , 11020, kiln__cu_enum,                                                      \
      (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream))                                       \
    X(OPTIONAL, cuMemFreeAsync, , 11020, kiln__cu_enum, (CUdeviceptr memory, CUstream stream))                        \
    X(OPTIONAL, cuGraphCreate, , 10000, kiln__cu_enum, (CUgraph * graph, unsigned int flags))                         \
    X(OPTIONAL, cuGraphDestroy, , 10000, kiln__cu_enum, (CUgraph graph))                                              \
    X(OPTIONAL, cuGraphAddKernelNode, _v2, 12000, kiln__cu_enum,                                                      \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t after_count,                               \
       const struct CUDA_KERNEL_NODE_PARAMS_v2_st *parameters))                                                       \
    X(OPTIONAL, cuGraphAddMemcpyNode, , 10000, kiln__cu_enum,                                                         \
      (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t after_count,                               \
       const struct CUDA_MEMCPY3D_st *copy, CUcontext context))                                                       \
    X(OPTIONAL, cuGraphInstantiateWithFlags, , 11040, kiln__cu_enum,                                                  \
      (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                                  \
    X(OPTIONAL, cuGraphLaunch, , 10000, kiln__cu_enum, (CUgraphExec exec, CUstream stream))                           \
    X(OPTIONAL, cuGraphExecDestroy, , 10000, kiln__cu_enum, (CUgraphExec exec))

/* The function that finds the others; exported under this name only. */
#define KILN__CUDA_GET_PROC_ADDRESS "cuGetProcAddress_v2"
typedef kiln__cu_enum (*kiln__cu_get_proc_address)(const char *name, void **out, int version, uint64_t flags,
                                                   kiln__cu_enum *found);

/* X(name, value): NVIDIA's names; ours have KILN__ in front. */
#define KILN__CUDA_CONSTANTS(X)                                  \
    X(CUDA_SUCCESS, 0)                                           \
    X(CUDA_ERROR_INVALID_VALUE, 1)                               \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2)                               \
    X(CUDA_ERROR_NOT_INITIALIZED, 3)                             \
    X(CUDA_ERROR_DEINITIALIZED, 4)                               \
    X(CUDA_ERROR_STUB_LIBRARY, 34)                               \
    X(CUDA_ERROR_NO_DEVICE, 100)                                 \
    X(CUDA_ERROR_INVALID_DEVICE, 101)                            \
    X(CUDA_ERROR_INVALID_IMAGE, 200)                             \
    X(CUDA_ERROR_INVALID_CONTEXT, 201)                           \
    X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)                         \
    X(CUDA_ERROR_INVALID_PTX, 218)                               \
    X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)                   \
    X(CUDA_ERROR_CONTAINED, 226)                                 \
    X(CUDA_ERROR_INVALID_HANDLE, 400)                            \
    X(CUDA_ERROR_NOT_FOUND, 500)                                 \
    X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                           \
    X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)                   \
    X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                            \
    X(CUDA_ERROR_ASSERT, 710)                                    \
    X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                      \
    X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                       \
    X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)                        \
    X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                     \
    X(CUDA_ERROR_INVALID_PC, 718)                                \
    X(CUDA_ERROR_LAUNCH_FAILED, 719)                             \
    X(CUDA_ERROR_TENSOR_MEMORY_LEAK, 721)                        \
    X(CUDA_ERROR_SYSTEM_NOT_READY, 802)                          \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)                    \
    X(CUDA_ERROR_MPS_CLIENT_TERMINATED, 810)                     \
    X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)                \
    X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)                \
    X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)                   \
    X(CUDA_ERROR_EXTERNAL_DEVICE, 911)                           \
    X(CUDA_ERROR_UNKNOWN, 999)                                   \
    X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)              \
    X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                     \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)          \
    X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)          \
    X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
    X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)           \
    X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0)                \
    X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1)                    \
    X(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, 2)                     \
    X(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, 3)                     \
    X(CU_FUNC_ATTRIBUTE_NUM_REGS, 4)                             \
    X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8)        \
    X(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 11)              \
    X(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 14)   \
    X(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)                        \
    X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 4)                  \
    X(CU_MEMORYTYPE_DEVICE, 2)                                   \
    X(CU_MEM_ALLOCATION_TYPE_PINNED, 1)                          \
    X(CU_MEM_LOCATION_TYPE_DEVICE, 1)                            \
    X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                      \
    X(CU_STREAM_NON_BLOCKING, 1)                                 \
    X(CU_EVENT_DEFAULT, 0)                                       \
    X(CU_STREAM_CAPTURE_MODE_GLOBAL, 0)                          \
    X(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                    \
    X(CU_STREAM_CAPTURE_MODE_RELAXED, 2)                         \
    X(CU_STREAM_CAPTURE_STATUS_NONE, 0)                          \
    X(CU_STREAM_CAPTURE_STATUS_ACTIVE, 1)                        \
    X(CU_STREAM_CAPTURE_STATUS_INVALIDATED, 2)                   \
    X(CU_JIT_ERROR_LOG_BUFFER, 5)                                \
    X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)                     \
    X(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1)                      \
    X(CU_GET_PROC_ADDRESS_SUCCESS, 0)                            \
    X(CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, 1)                   \
    X(CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, 2)

#define KILN__CUDA_CONSTANT(name, value) KILN__##name = value,
enum { KILN__CUDA_CONSTANTS(KILN__CUDA_CONSTANT) };
#undef KILN__CUDA_CONSTANT

#endif
