//! template  butterfly
//! about     sum[i] = x[i] + y[i] and difference[i] = x[i] - y[i], two arrays of results
//! dtype     f32, f64
//! size      n
//! arg       sum        out dtype[n] inplace
//! arg       difference out dtype[n] inplace
//! arg       x          in  dtype[n]
//! arg       y          in  dtype[n]
//! arg       n          uint64 = n
//! param     block 32..1024 step 32 = 256       -- threads per block
//! param     elems 1..16 = 2                    -- elements per thread
//! tune      block 64..512*2
//! tune      elems 1..8*2
//! tile      block * elems
//! grid      (n + tile - 1) / tile
//! entry     butterfly align bytes

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_BLOCK     256
#define KILN_ELEMS     2
#define KILN_TILE      (KILN_BLOCK * KILN_ELEMS)
#endif

#if defined(KILN_DTYPE_F64)
typedef double real;
#else
typedef float real;
#endif

extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    butterfly(real *sum, real *difference, const real *x, const real *y, unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE + threadIdx.x;
#pragma unroll
    for (int k = 0; k < KILN_ELEMS; k++) {
        const unsigned long long i = start + (unsigned long long)k * KILN_BLOCK;
        if (i < n) {
            const real a = x[i], b = y[i]; /* both, before either result takes their place */
            sum[i] = a + b;
            difference[i] = a - b;
        }
    }
}
