//! template rowsum
//! about    out[i] = the sum of op(x, y, ...) along row i of contiguous arrays of rows x cols elements
//! inputs   1..8
//! size     rows, cols
//! arg      out  out dtype[rows]
//! arg      x... in dtype[rows, cols]
//! arg      rows uint64 = rows
//! arg      cols uint64 = cols
//! param    block 128,256,512,1024 = 128 -- threads per block
//! tune     block 128..1024*2 if sm > 0
//! tile     1024
//! grid     min(rows, 65535)
//! entry    kiln_rowsum align bytes

/* Compiles as it stands, with these values. A unit sets KILN_UNIT, brings its own values, real.h, the ops it uses and
 * kiln_value, and takes the rest of this text. */
#ifndef KILN_UNIT
#define KILN_DTYPE_F32 1
#define KILN_INPUTS    1
#define KILN_BLOCK     128
#define KILN_TILE      1024
#include "real.h"

KILN_FN kiln_real kiln_value(kiln_real x)
{
    return kiln_min(kiln_max(x, (kiln_real)0), (kiln_real)6);
}
#endif

/* The sums of a thread: numbers threadIdx.x, threadIdx.x + KILN_BLOCK, ... of KILN_TILE. */
#define KILN_SUMS (KILN_TILE / KILN_BLOCK)

/* Element `at` of input k. */
#define KILN_ELEMENT(k) kiln_load(x##k[at])

/* A row has KILN_TILE sums. Sum j is that of the elements j, j + KILN_TILE, ... in this order, beginning with +0. Then the
 * upper half of the sums is added to the lower half, until one is left. KILN_BLOCK does not change this order, so that every
 * geometry and the cpu twin give the same bits. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK)
    kiln_rowsum(kiln_store_t *out, KILN_EACH(KILN_PARAMETER), unsigned long long rows, unsigned long long cols)
{
    __shared__ kiln_real sums[KILN_BLOCK];
    const unsigned t = threadIdx.x;

    for (unsigned long long row = blockIdx.x; row < rows; row += gridDim.x) {
        unsigned long long i = row * cols + t;
        const unsigned long long end = row * cols + cols, whole = end - cols % KILN_TILE;
        kiln_real sum[KILN_SUMS] = {};

        for (; i < whole; i += KILN_TILE)
#pragma unroll
            for (unsigned k = 0; k < KILN_SUMS; k++) {
                const unsigned long long at = i + k * KILN_BLOCK;
                sum[k] = kiln_add(sum[k], kiln_value(KILN_EACH(KILN_ELEMENT)));
            }
#pragma unroll
        for (unsigned k = 0; k < KILN_SUMS; k++) {
            const unsigned long long at = i + k * KILN_BLOCK;
            if (at < end)
                sum[k] = kiln_add(sum[k], kiln_value(KILN_EACH(KILN_ELEMENT)));
        }

#pragma unroll
        for (unsigned d = KILN_SUMS / 2; d > 0; d /= 2)
#pragma unroll
            for (unsigned k = 0; k < d; k++)
                sum[k] = kiln_add(sum[k], sum[k + d]);
        sums[t] = sum[0];
        for (unsigned d = KILN_BLOCK / 2; d >= 32; d /= 2) {
            __syncthreads();
            if (t < d)
                sums[t] = kiln_add(sums[t], sums[t + d]);
        }
        if (t < 32) {
            kiln_real total = sums[t];
            for (unsigned d = 16; d > 0; d /= 2)
                total = kiln_add(total, __shfl_down_sync(0xffffffffu, total, d));
            if (t == 0)
                out[row] = kiln_store(total);
        }
        __syncthreads(); /* a fast warp must not overwrite its sums before the others have read them */
    }
}
