/* The prototypes and constants of Kiln's symbol lists against NVIDIA's own headers: that this file compiles is the
 * test. cudaTypedefs.h names each form of a function by the version that brought it, as the lists do. */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "backend/cuda/cuda_symbols.h"

#define CHECK_PROTOTYPE(need, name, suffix, version, result, parameters)                        \
    _Static_assert(__builtin_types_compatible_p(PFN_##name##_v##version, result(*) parameters), \
                   #name " differs from NVIDIA's prototype");
KILN__CUDA_SYMBOLS(CHECK_PROTOTYPE)
_Static_assert(__builtin_types_compatible_p(PFN_cuGetProcAddress_v12000, kiln__cu_get_proc_address),
               "cuGetProcAddress differs from NVIDIA's prototype");

#define CHECK_CONSTANT(name, value) _Static_assert((int)name == (value), #name " differs from NVIDIA's value");
KILN__CUDA_CONSTANTS(CHECK_CONSTANT)

#if __has_include(<nvrtc.h>)
#include <nvrtc.h>

#include "backend/cuda/nvrtc_symbols.h"

#define CHECK_NVRTC(need, name, version, result, parameters)                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*) parameters), \
                   #name " differs from NVIDIA's prototype");
KILN__NVRTC_SYMBOLS(CHECK_NVRTC)
KILN__NVRTC_CONSTANTS(CHECK_CONSTANT)
#endif
