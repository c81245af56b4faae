/* The prototypes and constants of Kiln's symbol lists against NVIDIA's own headers: that this file compiles is the
 * test. cudaTypedefs.h names each form of a function by the version that brought it, as the lists do. */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "gpu/cuda_symbols.h"

#define CHECK_PROTOTYPE(need, name, suffix, version, result, parameters)                        \
    _Static_assert(__builtin_types_compatible_p(PFN_##name##_v##version, result(*) parameters), \
                   #name " differs from NVIDIA's prototype");
KILN__CUDA_SYMBOLS(CHECK_PROTOTYPE)
_Static_assert(__builtin_types_compatible_p(PFN_cuGetProcAddress_v12000, kiln__cu_get_proc_address),
               "cuGetProcAddress differs from NVIDIA's prototype");

#define CHECK_CONSTANT(name, value) _Static_assert((int)name == (value), #name " differs from NVIDIA's value");
KILN__CUDA_CONSTANTS(CHECK_CONSTANT)

#define CHECK_MEMBER(ours, our_member, theirs, their_member)                     \
    _Static_assert(offsetof(ours, our_member) == offsetof(theirs, their_member), \
                   #our_member " is elsewhere in NVIDIA's struct");
CHECK_MEMBER(kiln__cu_launch_config, block, CUlaunchConfig, blockDimX)
CHECK_MEMBER(kiln__cu_launch_config, shared_bytes, CUlaunchConfig, sharedMemBytes)
CHECK_MEMBER(kiln__cu_launch_config, stream, CUlaunchConfig, hStream)
CHECK_MEMBER(kiln__cu_launch_config, attributes, CUlaunchConfig, attrs)
CHECK_MEMBER(kiln__cu_launch_config, attribute_count, CUlaunchConfig, numAttrs)
CHECK_MEMBER(kiln__cu_launch_attribute, value, CUlaunchAttribute, value)
CHECK_MEMBER(kiln__cu_kernel_node, block, CUDA_KERNEL_NODE_PARAMS_v2, blockDimX)
CHECK_MEMBER(kiln__cu_kernel_node, shared_bytes, CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes)
CHECK_MEMBER(kiln__cu_kernel_node, parameters, CUDA_KERNEL_NODE_PARAMS_v2, kernelParams)
CHECK_MEMBER(kiln__cu_kernel_node, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern)
CHECK_MEMBER(kiln__cu_kernel_node, context, CUDA_KERNEL_NODE_PARAMS_v2, ctx)
CHECK_MEMBER(kiln__cu_copy_node, from.memory_type, CUDA_MEMCPY3D, srcMemoryType)
CHECK_MEMBER(kiln__cu_copy_node, from.device, CUDA_MEMCPY3D, srcDevice)
CHECK_MEMBER(kiln__cu_copy_node, from.pitch, CUDA_MEMCPY3D, srcPitch)
CHECK_MEMBER(kiln__cu_copy_node, to.memory_type, CUDA_MEMCPY3D, dstMemoryType)
CHECK_MEMBER(kiln__cu_copy_node, to.device, CUDA_MEMCPY3D, dstDevice)
CHECK_MEMBER(kiln__cu_copy_node, to.pitch, CUDA_MEMCPY3D, dstPitch)
CHECK_MEMBER(kiln__cu_copy_node, width, CUDA_MEMCPY3D, WidthInBytes)
CHECK_MEMBER(kiln__cu_copy_node, depth, CUDA_MEMCPY3D, Depth)
_Static_assert(sizeof(kiln__cu_kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2),
               "CUDA_KERNEL_NODE_PARAMS has another size");
_Static_assert(sizeof(kiln__cu_copy_node) == sizeof(CUDA_MEMCPY3D), "CUDA_MEMCPY3D has another size");
_Static_assert(sizeof(kiln__cu_launch_config) == sizeof(CUlaunchConfig), "CUlaunchConfig has another size");
_Static_assert(sizeof(kiln__cu_launch_attribute) == sizeof(CUlaunchAttribute), "CUlaunchAttribute has another size");

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

#include "gpu/nvrtc_symbols.h"

#define CHECK_NVRTC(need, name, version, result, parameters)                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), \
                   #name " differs from NVIDIA's prototype");
KILN__NVRTC_SYMBOLS(CHECK_NVRTC)
KILN__NVRTC_CONSTANTS(CHECK_CONSTANT)
#endif

#if __has_include(<nvJitLink.h>)
#include <nvJitLink.h>

#include "gpu/nvjitlink_symbols.h"

#define CHECK_NVJITLINK(name, result, parameters)                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), \
                   #name " differs from NVIDIA's prototype");
KILN__NVJITLINK_SYMBOLS(CHECK_NVJITLINK)
KILN__NVJITLINK_CONSTANTS(CHECK_CONSTANT)
#endif
