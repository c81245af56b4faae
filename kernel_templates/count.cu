//! template count
//! about    out[0] += the number of elements with op(x[i], y[i], z[i]) != 0; out[1] = min(out[1], the least such i)
//! inputs   1..3
//! size     n
//! arg      out  inout uint64[2]
//! arg      x... in dtype[n]
//! arg      n    uint64 = n
//! param    block 32..1024 step 32 = sm == 0 ? 1024 : 256 -- threads per block
//! param    elems 1..64 = sm == 0 ? 64 : 16               -- elements per thread
//! tile     block * elems
//! grid     (n + (tile - 1)) / tile
//! entry    kiln_count align bytes

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    2
#define KILN_BLOCK     256
#define KILN_ELEMS     16
#define KILN_TILE      (KILN_BLOCK * KILN_ELEMS)
#include "real.h"

KILN_FN kiln_real kiln_value(kiln_real x, kiln_real y)
{
    return kiln_bits(x) != kiln_bits(y) && (x == x || y == y) ? 1 : 0;
}
#endif

/* Both numbers are 64 bits, whatever the dtype of the arrays. Counted elements are rare, so few threads do the atomics. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    kiln_count(unsigned long long *out,
               KILN_TAKE(const kiln_store_t *x, const kiln_store_t *y, const kiln_store_t *z), unsigned long long n)
{
    const unsigned long long start = (unsigned long long)blockIdx.x * KILN_TILE;
    const unsigned count = n - start < KILN_TILE ? (unsigned)(n - start) : KILN_TILE;
    unsigned found = 0, least = 0;

    KILN_TAKE(x += start, y += start, z += start);
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < count; i += KILN_BLOCK) {
        if (kiln_value(KILN_TAKE(kiln_load(x[i]), kiln_load(y[i]), kiln_load(z[i]))) != 0) {
            least = found == 0 ? i : least;
            found++;
        }
    }
    if (found > 0) {
        atomicAdd(out, (unsigned long long)found);
        atomicMin(out + 1, start + least);
    }
}
