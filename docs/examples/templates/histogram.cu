//! template  histogram
//! about     Adds to counts[b] how many values are b, with the counts of a block of threads in shared memory
//! size      n
//! arg       counts inout int32[bins]
//! arg       values in    int32[n]
//! arg       n      uint64 = n
//! param     bins   1024..25600 step 1024 = 25600      -- values from 0 on that are counted; others are left out
//! param     slices 1,2,4 = 4 * bins <= shared_limit ? 1 : 2 -- parts of the bins, a block of threads for each
//! param     block  64..1024 step 64 = 512             -- threads per block
//! tune      bins   25600
//! tune      block  256..1024*2
//! tile      block * 64
//! grid      min((n + tile - 1) / tile, 1024), slices
//! shared    4 * bins / slices
//! traffic   4 * n + 8 * bins
//! entry     histogram align 4

/* Compiles as it stands, with these values. */
#ifndef KILN_UNIT
#define KILN_BINS   25600
#define KILN_SLICES 1
#define KILN_BLOCK  512
#endif

#define WIDTH (KILN_BINS / KILN_SLICES)

extern __shared__ int slice[];

/* All blocks of one slice share the values. Sums of whole numbers do not depend on their order. */
extern "C" __global__ void __launch_bounds__(KILN_BLOCK) histogram(int *counts, const int *values, unsigned long long n)
{
    const int first = (int)blockIdx.y * WIDTH;

    for (int b = (int)threadIdx.x; b < WIDTH; b += KILN_BLOCK)
        slice[b] = 0;
    __syncthreads();
    for (unsigned long long i = (unsigned long long)blockIdx.x * KILN_BLOCK + threadIdx.x; i < n;
         i += (unsigned long long)gridDim.x * KILN_BLOCK) {
        const int value = values[i];
        if (value >= first && value < first + WIDTH)
            atomicAdd(&slice[value - first], 1);
    }
    __syncthreads();
    for (int b = (int)threadIdx.x; b < WIDTH; b += KILN_BLOCK)
        if (slice[b] != 0)
            atomicAdd(&counts[first + b], slice[b]);
}
