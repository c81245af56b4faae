//! template  hardsigmoid256
//! about     Hard sigmoid, one element per thread: out[i] = clamp(x[i] + 3, 0, 6) / 6
//! reference hardsigmoid
//! dtype     f32
//! size      n
//! arg       out out dtype[n] inplace
//! arg       x   in  dtype[n]
//! arg       n   uint64 = n
//! param     block 32..1024 step 32 = 256       -- threads per block
//! tune      block 64..1024*2
//! tile      block
//! grid      (n + tile - 1) / tile
//! entry     hardsigmoid256 align 4

#ifndef KILN_UNIT
#define KILN_BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    hardsigmoid256(float *out, const float *x, unsigned long long n)
{
    const unsigned long long i = (unsigned long long)blockIdx.x * KILN_BLOCK + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i] + 3.0f;
    v = v < 0.0f ? 0.0f : v; /* keeps NaN */
    v = v > 6.0f ? 6.0f : v;
    out[i] = v * 0x1.555556p-3f;
}
