//! template  hardtanh4
//! about     Hard tanh, several elements per thread: out[i] = clamp(x[i], -1, 1)
//! reference hardtanh(-1,1)
//! dtype     f32, f64
//! size      n
//! arg       out out dtype[n] inplace
//! arg       x   in  dtype[n]
//! arg       n   uint64 = n
//! param     block 32..1024 step 32 = 128       -- threads per block
//! param     elems 1..16 = 4                    -- elements per thread
//! require   block * elems <= 8192              -- a block must not take more than 8192 elements
//! tune      block 64..512*2
//! tune      elems 1,2,4,8
//! bound     elems * bytes <= 64                -- more than 64 bytes per thread cost registers and gain nothing
//! tile      block * elems
//! grid      (n + tile - 1) / tile
//! entry     hardtanh4 align bytes

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_BLOCK     128
#define KILN_ELEMS     4
#define KILN_TILE      (KILN_BLOCK * KILN_ELEMS)
#endif

#if defined(KILN_DTYPE_F64)
typedef double real;
#else
typedef float real;
#endif

/* Thread t takes elements t, t + KILN_BLOCK, ... of its block's tile, so that neighbours read neighbours. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) hardtanh4(real *out, const real *x, unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE + threadIdx.x;
#pragma unroll
    for (int k = 0; k < KILN_ELEMS; k++) {
        const unsigned long long i = start + (unsigned long long)k * KILN_BLOCK;
        if (i < n) {
            const real v = x[i];
            out[i] = v < (real)-1 ? (real)-1 : v > (real)1 ? (real)1 : v; /* keeps NaN */
        }
    }
}
