//! template  gather
//! about     out[i] = x[index[i]] with int64 indices; an index that x does not have gives 0
//! size      n, m
//! arg       out   out dtype[n]
//! arg       x     in  dtype[m]
//! arg       index in  int64[n]
//! arg       n     uint64 = n
//! arg       m     uint64 = m
//! param     block 32..1024 step 32 = 256       -- threads per block
//! tune      block 64..1024*2
//! tile      block
//! grid      (n + tile - 1) / tile
//! entry     gather align bytes

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_BYTES 4
#define KILN_BLOCK 256
#define KILN_TILE  KILN_BLOCK
#endif

/* Elements are moved, so only their size counts. The unit defines KILN_BYTES. */
#if KILN_BYTES == 8
typedef unsigned long long element;
#elif KILN_BYTES == 4
typedef unsigned int element;
#else
typedef unsigned short element;
#endif

extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    gather(element *out, const element *x, const long long *index, unsigned long long n, unsigned long long m)
{
    const unsigned long long i = (unsigned long long)blockIdx.x * KILN_TILE + threadIdx.x;
    if (i >= n)
        return;
    const unsigned long long at = (unsigned long long)index[i]; /* a negative index is beyond m too */
    out[i] = at < m ? x[at] : 0;
}
