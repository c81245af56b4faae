/* In the place of CUDA's own file of this name, which declares functions of the host, which NVRTC refuses. */
#ifndef KILN_STD_CUDA_H
#define KILN_STD_CUDA_H

#include <stdint.h>
#include <stdlib.h>

/* Of the NVRTC that compiles: the toolkit of the same version has this number in its cuda.h. */
#define CUDA_VERSION (__CUDACC_VER_MAJOR__ * 1000 + __CUDACC_VER_MINOR__ * 10)

typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef struct alignas(64) CUtensorMap_st {
    cuuint64_t opaque[16];
} CUtensorMap;

#endif
