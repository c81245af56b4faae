//! template  axpy_float4
//! about     out[i] = 2 x[i] + y[i], with accesses of four floats where the arrays are aligned to them
//! reference add(add(x,x),y)
//! dtype     f32
//! size      n
//! arg       out out dtype[n] inplace
//! arg       x   in  dtype[n]
//! arg       y   in  dtype[n]
//! arg       n   uint64 = n
//! param     block 32..1024 step 32 = 256       -- threads per block
//! param     words 1..8 = 2                     -- accesses of four floats per thread
//! param     cache plain,stream = plain         -- cache hint of the loads
//! require   block * words <= 4096              -- a block must not take more than 4096 accesses
//! tune      block 128..512*2
//! tune      words 1,2,4
//! tile      block * words * 4
//! grid      (n + tile - 1) / tile
//! entry     axpy_float4 align 16
//! entry     axpy_scalar align 4

#ifndef KILN_UNIT
#define KILN_BLOCK        256
#define KILN_WORDS        2
#define KILN_TILE         (KILN_BLOCK * KILN_WORDS * 4)
#define KILN_CACHE_PLAIN  0
#define KILN_CACHE_STREAM 1
#define KILN_CACHE        KILN_CACHE_PLAIN
#endif

static __device__ float4 fetch(const float4 *from)
{
#if KILN_CACHE == KILN_CACHE_STREAM
    return __ldcs(from);
#else
    return *from;
#endif
}

/* 2 x is exact, so the sum is the only rounding. */
static __device__ float axpy(float x, float y)
{
    return 2.0f * x + y;
}

/* The last block may be short. Its odd elements, at most three, go one to a thread. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    axpy_float4(float *out, const float *x, const float *y, unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;
    const unsigned whole = count / 4;

    out += start, x += start, y += start;
#pragma unroll
    for (unsigned k = 0; k < KILN_WORDS; k++) {
        const unsigned i = k * KILN_BLOCK + threadIdx.x;
        if (i < whole) {
            const float4 a = fetch((const float4 *)x + i), b = fetch((const float4 *)y + i);
            ((float4 *)out)[i] = make_float4(axpy(a.x, b.x), axpy(a.y, b.y), axpy(a.z, b.z), axpy(a.w, b.w));
        }
    }
    const unsigned i = whole * 4 + threadIdx.x;
    if (i < count)
        out[i] = axpy(x[i], y[i]);
}

/* The same tile, for arrays that are not aligned to float4. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    axpy_scalar(float *out, const float *x, const float *y, unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;

    for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK)
        out[start + i] = axpy(x[start + i], y[start + i]);
}
