#include <cuda_fp16.h>
#include <stdio.h>
#include <assert.h>

__global__ void dot_half(const __half* __restrict__ a, const __half* __restrict__ b, float* result, int n) {
    assert(blockDim.x % 32 == 0);
    float acc = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        acc += __half2float(a[i]) * __half2float(b[i]);
    for (int mask = 16; mask > 0; mask >>= 1)
        acc += __shfl_xor_sync(0xffffffff, acc, mask);
    if ((threadIdx.x & 31) == 0)
        atomicAdd(result, acc);
}
