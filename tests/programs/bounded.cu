#include <limits.h>
#include <cuda_runtime.h>

#define THREADS 256

// Smallest element of each block's part, and with a cap on registers.
__global__ void __launch_bounds__(THREADS, 2) block_min(const int* in, int* out, int n) {
    __shared__ int smallest[THREADS];
    int best = INT_MAX;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        best = min(best, in[i]);
    smallest[threadIdx.x] = best;
    __syncthreads();
    for (int s = THREADS / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            smallest[threadIdx.x] = min(smallest[threadIdx.x], smallest[threadIdx.x + s]);
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = smallest[0];
}
