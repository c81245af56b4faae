/* Shared by length.cu and its cpu twin. */
#ifndef PLANE_H
#define PLANE_H

#include <math.h>

#if defined(__CUDACC__)
#define PLANE_FN static __device__ __forceinline__
#else
#define PLANE_FN static inline
#endif

/* Two products, one sum and one root, each rounded once: equal bits on every GPU and on the cpu. */
PLANE_FN float plane_length(float x, float y)
{
    return sqrtf(fmaf(x, x, y * y));
}

#endif
