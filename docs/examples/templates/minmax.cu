//! template  minmax
//! about     The least and the greatest element of each row, in two arrays of results
//! size      rows, cols
//! arg       least    out dtype[rows]
//! arg       greatest out dtype[rows]
//! arg       x        in  dtype[rows, cols]
//! arg       cols     uint64 = cols
//! param     block 32,64,128,256,512,1024 = 256 -- threads per block, which has one row
//! tune      block 64..512*2
//! grid      rows
//! shared    2 * block * bytes
//! entry     minmax align bytes

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_BYTES 4
#define KILN_BLOCK 256
#endif

#if KILN_BYTES == 8
typedef long long element;
#elif KILN_BYTES == 4
typedef int element;
#else
typedef short element;
#endif
#define LOWEST ((element)(1ull << (8 * KILN_BYTES - 1))) /* only the sign */

/* The bits of a value as a whole number of the same order, and back: below 0 all bits but the sign are turned. -0 is
 * below +0 and NaN is beyond infinity, so no result depends on the order of the comparisons. */
static __device__ element ordered(element bits)
{
    return (element)(bits < 0 ? bits ^ ~LOWEST : bits);
}

extern __shared__ unsigned char shared_bytes[];

/* A row without elements gives NaN. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    minmax(element *least, element *greatest, const element *x, unsigned long long cols)
{
    element *low = (element *)shared_bytes, *high = low + KILN_BLOCK;
    const element *row = x + blockIdx.x * cols;
    const unsigned me = threadIdx.x;
    low[me] = (element)~LOWEST;
    high[me] = LOWEST;
    for (unsigned long long i = me; i < cols; i += KILN_BLOCK) {
        const element value = ordered(row[i]);
        low[me] = value < low[me] ? value : low[me];
        high[me] = value > high[me] ? value : high[me];
    }
    for (unsigned half = KILN_BLOCK / 2; half > 0; half /= 2) {
        __syncthreads();
        if (me < half) {
            low[me] = low[me + half] < low[me] ? low[me + half] : low[me];
            high[me] = high[me + half] > high[me] ? high[me + half] : high[me];
        }
    }
    if (me == 0) {
        least[blockIdx.x] = ordered(low[0]);
        greatest[blockIdx.x] = ordered(high[0]);
    }
}
