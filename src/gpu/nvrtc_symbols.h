/* Every function of libnvrtc that Kiln calls: the one list from which come the table and its loader (nvrtc.c) and the
 * check against NVIDIA's own header (tests/support/prototypes.c). Needs no CUDA header. */
#ifndef KILN_GPU_NVRTC_SYMBOLS_H
#define KILN_GPU_NVRTC_SYMBOLS_H

#include <stddef.h>

typedef struct _nvrtcProgram *nvrtcProgram;
typedef unsigned int kiln__nvrtc_enum; /* nvrtcResult */

/* X(need, name, version, result, parameters); `version` is the CUDA version that brought the function. A missing
 * OPTIONAL function is NULL in the table: sources that need it are then refused. */
#define KILN__NVRTC_SYMBOLS(X)                                                                                     \
    X(REQUIRED, nvrtcVersion, 7000, kiln__nvrtc_enum, (int *major, int *minor))                                    \
    X(REQUIRED, nvrtcGetErrorString, 7000, const char *, (kiln__nvrtc_enum code))                                  \
    X(REQUIRED, nvrtcGetNumSupportedArchs, 11020, kiln__nvrtc_enum, (int *count))                                  \
    X(REQUIRED, nvrtcGetSupportedArchs, 11020, kiln__nvrtc_enum, (int *archs))                                     \
    X(REQUIRED, nvrtcCreateProgram, 7000, kiln__nvrtc_enum,                                                        \
      (nvrtcProgram * program, const char *source, const char *name, int headers, const char *const *header_texts, \
       const char *const *header_names))                                                                           \
    X(REQUIRED, nvrtcDestroyProgram, 7000, kiln__nvrtc_enum, (nvrtcProgram * program))                             \
    X(REQUIRED, nvrtcCompileProgram, 7000, kiln__nvrtc_enum,                                                       \
      (nvrtcProgram program, int count, const char *const *options))                                               \
    X(REQUIRED, nvrtcGetPTXSize, 7000, kiln__nvrtc_enum, (nvrtcProgram program, size_t * size))                    \
    X(REQUIRED, nvrtcGetPTX, 7000, kiln__nvrtc_enum, (nvrtcProgram program, char *ptx))                            \
    X(REQUIRED, nvrtcGetCUBINSize, 11010, kiln__nvrtc_enum, (nvrtcProgram program, size_t * size))                 \
    X(REQUIRED, nvrtcGetCUBIN, 11010, kiln__nvrtc_enum, (nvrtcProgram program, char *cubin))                       \
    X(REQUIRED, nvrtcGetProgramLogSize, 7000, kiln__nvrtc_enum, (nvrtcProgram program, size_t * size))             \
    X(REQUIRED, nvrtcGetProgramLog, 7000, kiln__nvrtc_enum, (nvrtcProgram program, char *log))                     \
    X(OPTIONAL, nvrtcGetLTOIRSize, 12000, kiln__nvrtc_enum, (nvrtcProgram program, size_t * size))                 \
    X(OPTIONAL, nvrtcGetLTOIR, 12000, kiln__nvrtc_enum, (nvrtcProgram program, char *code))                        \
    X(OPTIONAL, nvrtcAddNameExpression, 8000, kiln__nvrtc_enum, (nvrtcProgram program, const char *expression))    \
    X(OPTIONAL, nvrtcGetLoweredName, 8000, kiln__nvrtc_enum,                                                       \
      (nvrtcProgram program, const char *expression, const char **lowered))

/* X(name, value): NVIDIA's names; ours have KILN__ in front. */
#define KILN__NVRTC_CONSTANTS(X)     \
    X(NVRTC_SUCCESS, 0)              \
    X(NVRTC_ERROR_OUT_OF_MEMORY, 1)  \
    X(NVRTC_ERROR_INVALID_OPTION, 5) \
    X(NVRTC_ERROR_COMPILATION, 6)    \
    X(NVRTC_ERROR_BUILTIN_OPERATION_FAILURE, 7)

#define KILN__NVRTC_CONSTANT(name, value) KILN__##name = value,
enum { KILN__NVRTC_CONSTANTS(KILN__NVRTC_CONSTANT) };
#undef KILN__NVRTC_CONSTANT

#endif
