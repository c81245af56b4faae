//! template  length
//! about     out[i] = the length of the vector (x[i], y[i]), in float32 from float16 coordinates
//! size      n
//! arg       out out f32[n]
//! arg       x   in  f16[n]
//! arg       y   in  f16[n]
//! arg       n   uint64 = n
//! dtype     f16
//! param     block 32..1024 step 32 = 256       -- threads per block
//! param     elems 1..16 = 4                    -- elements per thread
//! tune      block 64..512*2
//! tune      elems 1..8*2
//! tile      block * elems
//! grid      (n + tile - 1) / tile
//! entry     length align 4

#include <cuda_fp16.h>

#include "plane.h"

#ifndef KILN_UNIT
#define KILN_BLOCK 256
#define KILN_ELEMS 4
#define KILN_TILE  (KILN_BLOCK * KILN_ELEMS)
#endif

extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    length(float *out, const __half *x, const __half *y, unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE + threadIdx.x;
#pragma unroll
    for (int k = 0; k < KILN_ELEMS; k++) {
        const unsigned long long i = start + (unsigned long long)k * KILN_BLOCK;
        if (i < n)
            out[i] = plane_length(__half2float(x[i]), __half2float(y[i]));
    }
}
