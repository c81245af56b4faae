/* Every function of libnvJitLink that Kiln calls: the one list from which come the table and its loader (nvjitlink.c)
 * and the check against NVIDIA's own header (tests/support/prototypes.c). Needs no CUDA header. */
#ifndef KILN_GPU_NVJITLINK_SYMBOLS_H
#define KILN_GPU_NVJITLINK_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

typedef struct nvJitLink *nvJitLinkHandle;
typedef unsigned int kiln__nvjitlink_enum; /* nvJitLinkResult, nvJitLinkInputType */

/* X(name, result, parameters). The header turns these names into those of one version (__nvJitLinkCreate_13_0), which
 * differ from library to library. The libraries from CUDA 12.3 on export the plain names too, and these do not change.
 * CUDA 12.3 also brought nvJitLinkVersion, without which Kiln could not compare the linker with NVRTC. */
#define KILN__NVJITLINK_SYMBOLS(X)                                                                             \
    X(nvJitLinkVersion, kiln__nvjitlink_enum, (unsigned int *major, unsigned int *minor))                      \
    X(nvJitLinkCreate, kiln__nvjitlink_enum, (nvJitLinkHandle * handle, uint32_t count, const char **options)) \
    X(nvJitLinkDestroy, kiln__nvjitlink_enum, (nvJitLinkHandle * handle))                                      \
    X(nvJitLinkAddData, kiln__nvjitlink_enum,                                                                  \
      (nvJitLinkHandle handle, kiln__nvjitlink_enum type, const void *data, size_t size, const char *name))    \
    X(nvJitLinkComplete, kiln__nvjitlink_enum, (nvJitLinkHandle handle))                                       \
    X(nvJitLinkGetLinkedCubinSize, kiln__nvjitlink_enum, (nvJitLinkHandle handle, size_t * size))              \
    X(nvJitLinkGetLinkedCubin, kiln__nvjitlink_enum, (nvJitLinkHandle handle, void *cubin))                    \
    X(nvJitLinkGetErrorLogSize, kiln__nvjitlink_enum, (nvJitLinkHandle handle, size_t * size))                 \
    X(nvJitLinkGetErrorLog, kiln__nvjitlink_enum, (nvJitLinkHandle handle, char *log))

/* X(name, value): NVIDIA's names; Kiln's have KILN__ in front. */
#define KILN__NVJITLINK_CONSTANTS(X) \
    X(NVJITLINK_SUCCESS, 0)          \
    X(NVJITLINK_INPUT_CUBIN, 1)      \
    X(NVJITLINK_INPUT_LTOIR, 3)      \
    X(NVJITLINK_INPUT_LIBRARY, 6)

#define KILN__NVJITLINK_CONSTANT(name, value) KILN__##name = value,
enum { KILN__NVJITLINK_CONSTANTS(KILN__NVJITLINK_CONSTANT) };
#undef KILN__NVJITLINK_CONSTANT

#endif
